"""The attackers: each sets validation rows aside, learns from the rest, and calibrates what it has learnt."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from lowtide.attack.calibration import Calibration, calibrate
from lowtide.errors import LowtideError, count
from lowtide.splits import stratified
from lowtide.tables.encoder import Rows
from lowtide.tables.learners import Critic, Learner, Logistic, Neighbours, Part, Trees
from lowtide.tables.network import Network
from lowtide.threads import one_thread
from lowtide.types import Floats, Labels

_VALIDATION = 0.25
_UNFITTED = "this attacker has not learnt anything yet; call fit first"
_ROOM = 0xA77C  # so that data drawn with the same seed shares no random numbers with the attackers


class Held(NamedTuple):
    """What an attacker said about its validation rows, `q(s|y)` (v, |S|), and their classes (v,)."""

    q: Floats
    codes: Labels


class Attacker(Protocol):
    """Guesses the secret from rows of numbers, (n, columns) float32, dense or CSR; or from images, an `Album`."""

    def fit(self, rows: Rows, codes: Labels) -> Attacker:
        """Learn from rows (n, columns) and their classes (n,), coded 0 … |S|−1."""
        ...

    def probabilities(self, rows: Rows) -> Floats:
        """`q(s|y)`, (n, |S|), positive."""
        ...

    @property
    def validation(self) -> float:
        """Information on the validation rows, in nats: what to choose among attackers by."""
        ...

    @property
    def held(self) -> Held:
        """Its answers about the validation rows: what to join attackers by."""
        ...


class Calibrated:
    """A learner that knows how far it can be trusted.

    A quarter of the rows is set aside, class by class, and the same rows by every attacker of the same seed; on them
    the learner is stopped and calibrated (see `Calibration`).

    Args:
        learner: makes the learner from a seed.
        seed: of the split and of the learner.

    Attributes:
        learner: what has learnt.
    """

    def __init__(self, learner: Callable[[int], Learner], seed: int) -> None:
        root = np.random.SeedSequence([count("seed", seed, 0), _ROOM])
        self._split_seed, learner_seed = root.spawn(2)
        self.learner = learner(int(learner_seed.generate_state(1)[0]))
        self._calibration: Calibration | None = None
        self._held: Held | None = None

    def fit(self, rows: Rows, codes: Labels) -> Calibrated:
        """Learn from rows (n, columns) and their classes (n,), coded 0 … |S|−1, each with three rows or more."""
        counts = np.bincount(codes)
        if rows.shape[0] != len(codes):
            raise LowtideError(f"there are {rows.shape[0]} rows and {len(codes)} codes; they must match")
        if len(counts) < 2 or counts.min() < 3:
            raise LowtideError(
                "an attacker needs two classes or more and three rows of each: merge or drop the rare ones"
            )
        prior = counts / counts.sum()
        train, aside = stratified(codes, _VALIDATION, seed=self._split_seed)
        validation = Part(rows[aside], codes[aside])
        with one_thread():
            self.learner.learn(Part(rows[train], codes[train]), validation, prior)
            answers = self.learner.log_scores(validation.rows)
        self._calibration = calibrate(answers, validation.codes, prior=prior)
        self._held = Held(self._calibration(answers), validation.codes)
        return self

    def probabilities(self, rows: Rows) -> Floats:
        """`q(s|y)`, (n, |S|), positive."""
        calibration = self._fitted()
        with one_thread():
            return calibration(self.learner.log_scores(rows))

    @property
    def validation(self) -> float:
        """Information on the validation rows, in nats."""
        return self._fitted().gain

    @property
    def held(self) -> Held:
        """Its answers about the validation rows."""
        if self._held is None:
            raise LowtideError(_UNFITTED)
        return self._held

    def _fitted(self) -> Calibration:
        if self._calibration is None:
            raise LowtideError(_UNFITTED)
        return self._calibration


ATTACKERS: dict[str, Callable[[int], Attacker]] = {
    "logistic regression": partial(Calibrated, Logistic),
    "boosted trees": partial(Calibrated, Trees),
    "network": partial(Calibrated, Network),
    "neighbours": partial(Calibrated, Neighbours),
    "critic": partial(Calibrated, Critic),
}
"""Makers of attackers, from a seed, by name."""
