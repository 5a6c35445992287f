"""The attackers: each calibrates on validation rows what it has learnt from the rest, then learns from them as well.

Those of one kind of data are named by its modality. Other packages add theirs by the entry point group
`lowtide.attackers`, and a user may give any scikit-learn classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import clone

from lowtide.attack.scores import Calibration, calibrate
from lowtide.checks import LowtideError, check_rows
from lowtide.errors import note
from lowtide.splits import grouped, stratified, stream
from lowtide.training import one_thread
from lowtide.types import Floats, Labels

GROUP = "lowtide.attackers"
_DEFAULT_KIND = "tables"  # of an attacker of another package that does not say
_VALIDATION = 0.25
_LEAST_PER_CLASS = 3
_SURE = 1e-9  # p̂ is kept this far from 0, so that its logarithm exists
_UNFITTED = "this attacker has not learnt anything yet; call fit first"


@dataclass(frozen=True, eq=False)
class AttackRows:
    """Data as the attackers on one kind of data read it.

    Attributes:
        data: n rows with a `shape`, picked by row numbers.
        reader: how they were read, for `Modality.rows_like`.
        names: of the columns, where they have names.
    """

    data: Any
    reader: Any = None
    names: tuple[str, ...] = ()


class Held(NamedTuple):
    """What an attacker said about its validation rows, `q(s|y)` (v, |S|), and their classes (v,)."""

    q: Floats
    codes: Labels


class Validated(Protocol):
    """What attackers are joined by."""

    @property
    def validation(self) -> float:
        """Information on the validation rows, in nats, before it learnt from them: what to weigh attackers by."""
        ...

    @property
    def held(self) -> Held:
        """Its answers about the validation rows before it learnt from them: what to join attackers by."""
        ...


class Attacker(Validated, Protocol):
    """Guesses the secret from rows as its kind of data has them (`AttackRows.data`), such as float32 (n, columns)."""

    def fit(self, rows: Any, codes: Labels, groups: Labels | None = None) -> Attacker:
        """Learn from n rows and their classes (n,), coded 0 … |S|−1; groups (n,) are kept on one side of a split."""
        ...

    def probabilities(self, rows: Any) -> Floats:
        """`q(s|y)`, (n, |S|), positive."""
        ...


Maker = Callable[[int], Attacker]
"""Makes an attacker from a seed."""


def trains_networks(maker: Any) -> bool:
    """Whether an attacker takes PyTorch: a class that it is made of says so by its attribute `trains_networks`."""
    return any(getattr(part, "trains_networks", False) for part in (maker, *getattr(maker, "args", ())))


@dataclass(frozen=True)
class Continued:
    """A maker of an attacker that goes on from one trained on clean rows.

    Attributes:
        starts_from: the name of the attacker it goes on from.
        make: from that attacker, trained, and the seed it was made from.
    """

    starts_from: str
    make: Callable[[Attacker, int], Attacker]


class Part(NamedTuple):
    """Rows, picked by row numbers, and their classes (n,)."""

    rows: Any
    codes: Labels


class Learner(Protocol):
    """Learns the secret from rows."""

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Fit to `train`; `validation` decides what is to be decided. Every class occurs in `train`."""
        ...

    def refit(self, rows: Part, prior: Floats) -> None:
        """Fit to `rows`, those of `train` and `validation`, by what `learn` has decided."""
        ...

    def log_scores(self, rows: Any) -> Floats:
        """`log p̂(s|y)`, (n, |S|), finite."""
        ...


def some_of(part: Part, most: int, seed: int) -> Part:
    """At most about so many rows, drawn class by class when there are more."""
    if len(part.codes) <= most:
        return part
    chosen = stratified(part.codes, most / len(part.codes), seed=np.random.SeedSequence(seed)).aside
    return Part(part.rows[chosen], part.codes[chosen])


def log_of(p: Floats) -> Floats:
    """Logarithms of probabilities, finite."""
    return np.log(np.maximum(p, _SURE))


def held_by(rows: Any) -> Any:
    """What rows hold, (n, columns): themselves where they come without the surface of their file."""
    return getattr(rows, "held", rows)


class Calibrated:
    """A learner that knows how far it can be trusted.

    A quarter of the rows is set aside, class by class, or by whole groups, and the same rows by every attacker of the
    same seed; on them the learner is stopped and calibrated (see `Calibration`). Then it is fitted to all rows, those
    of validation too, with what they have decided. Having learnt from more rows it deserves a little more trust than
    the calibration gives it: that errs towards the prior.

    Args:
        learner: makes the learner from a seed.
        seed: of the split and of the learner.

    Attributes:
        learner: what has learnt.
    """

    def __init__(self, learner: Callable[[int], Learner], seed: int) -> None:
        root = stream(seed, "attacker")
        self._split_seed, learner_seed = root.spawn(2)
        self.learner = learner(int(learner_seed.generate_state(1)[0]))
        self._calibration: Calibration | None = None
        self._held: Held | None = None

    def fit(self, rows: Any, codes: Labels, groups: Labels | None = None) -> Calibrated:
        """Learn from rows and their classes.

        Args:
            rows: n rows with a `shape`, picked by row numbers.
            codes: (n,) coded 0 … |S|−1, each with three rows or more.
            groups: (n,) rows of one group, numbered from 0, are on one side of the validation split.
        """
        counts = np.bincount(codes)
        check_rows("codes", codes.shape, rows.shape[0])
        if len(counts) < 2 or counts.min() < (_LEAST_PER_CLASS if groups is None else 1):
            raise LowtideError(
                "an attacker needs two classes or more and three rows of each: merge or drop the rare ones"
            )
        prior, rows = counts / counts.sum(), self._shown(rows)
        if groups is None:
            train, aside = stratified(codes, _VALIDATION, seed=self._split_seed)
        else:
            train, aside = grouped(codes, groups, _VALIDATION, seed=self._split_seed)
        validation = Part(rows[aside], codes[aside])
        with one_thread(len(codes)):
            self.learner.learn(Part(rows[train], codes[train]), validation, prior)
            answers = self.learner.log_scores(validation.rows)
            self.learner.refit(Part(rows, codes), prior)
        self._calibration = calibrate(answers, validation.codes, prior=prior)
        self._held = Held(self._calibration(answers), validation.codes)
        return self

    def probabilities(self, rows: Any) -> Floats:
        """`q(s|y)`, (n, |S|), positive."""
        calibration = self._fitted()
        with one_thread(rows.shape[0]):
            return calibration(self.learner.log_scores(self._shown(rows)))

    def _shown(self, rows: Any) -> Any:
        """Rows as the learner takes them: most look at what rows hold, and not at the surface of their file."""
        return rows if getattr(self.learner, "reads_surface", False) else held_by(rows)

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


@dataclass(frozen=True, eq=False)
class Together:
    """Several attackers as one: the mean of their log-odds, each weighted by what it gained on the validation rows.

    Attributes:
        weights: of each attacker, by name; they sum to 1.
        calibration: of the mean.
    """

    weights: dict[str, float]
    calibration: Calibration

    @classmethod
    def of(cls, attackers: Mapping[str, Validated], prior: Floats) -> Together:
        """Join attackers of one seed, which set the same validation rows aside."""
        total = sum(attacker.validation for attacker in attackers.values())
        weights = {
            name: attacker.validation / total if total > 0 else 1 / len(attackers)
            for name, attacker in attackers.items()
        }
        mean = _weighted({name: attacker.held.q for name, attacker in attackers.items()}, weights)
        return cls(weights, calibrate(mean, next(iter(attackers.values())).held.codes, prior=prior))

    def __call__(self, answers: Mapping[str, Floats]) -> Floats:
        """`q(s|y)`, (n, |S|), from that of each attacker."""
        return self.calibration(_weighted(answers, self.weights))

    @property
    def validation(self) -> float:
        """Information on the validation rows, in nats."""
        return self.calibration.gain


def _weighted(answers: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
    return np.asarray(sum(weights[name] * np.log(q) for name, q in answers.items()))


class EstimatorLearner:
    """Any scikit-learn classifier as a learner.

    Args:
        estimator: has `fit` and `predict_proba`; it is cloned, and a `random_state` that is not set is set.
        numbers: from rows to numbers (n, columns).
        seed: of the estimator.
    """

    def __init__(self, estimator: Any, numbers: Callable[[Any], Any], seed: int) -> None:
        self._model, self._numbers = clone(estimator), numbers
        if self._model.get_params().get("random_state", seed) is None:
            self._model.set_params(random_state=seed)

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Fit to `train`; `validation` is for the calibration alone."""
        self.refit(train, prior)

    def refit(self, rows: Part, prior: Floats) -> None:
        """Fit to all rows."""
        self._model = clone(self._model).fit(self._numbers(rows.rows), rows.codes)

    def log_scores(self, rows: Any) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        return log_of(np.asarray(self._model.predict_proba(self._numbers(rows)), dtype=np.float64))


def is_classifier(candidate: Any) -> bool:
    """Whether `candidate` is a scikit-learn classifier, or the class of one."""
    return all(hasattr(candidate, name) for name in ("fit", "predict_proba", "get_params"))


def as_maker(given: Any, numbers: Callable[[Any], Any]) -> Maker:
    """A maker from what was given: a scikit-learn classifier, the class of one, or a maker.

    Args:
        given: the classifier or maker.
        numbers: from rows of the kind to numbers (n, columns), which a classifier reads.
    """
    if is_classifier(given):
        estimator = given() if isinstance(given, type) else given
        return partial(Calibrated, partial(EstimatorLearner, estimator, numbers))
    if not callable(given):
        raise LowtideError(
            f"an attacker must be a name, or a scikit-learn classifier with predict_proba, got {type(given).__name__}"
        )
    maker: Maker = given
    return maker


INSTALLED: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "LightGBM": ("lightgbm", "LGBMClassifier", {"n_jobs": 1, "verbose": -1}),
    "CatBoost": (
        "catboost",
        "CatBoostClassifier",
        {"thread_count": 1, "verbose": False, "allow_writing_files": False},
    ),
    "XGBoost": ("xgboost", "XGBClassifier", {"n_jobs": 1, "verbosity": 0}),
}
"""Classifiers of other packages that attack tables where these are installed: module, class and options, by name."""


def installed_attackers(
    kind: str, numbers: Callable[[Any], Any], known: Mapping[str, tuple[str, str, Mapping[str, Any]]]
) -> dict[str, Maker]:
    """Makers of well-known classifiers whose packages are there; one that cannot be loaded is noted and left out."""
    found = {}
    for name, (module, classifier, options) in known.items():
        if kind != _DEFAULT_KIND or find_spec(module) is None:
            continue
        try:
            made = getattr(import_module(module), classifier)(**options)
        except (ImportError, OSError, AttributeError):  # such as a shared library that is missing
            note(f"{module} is installed and cannot be loaded, so that {name} does not attack")
            continue
        found[name] = as_maker(made, numbers)
    return found


def other_attackers(kind: str, numbers: Callable[[Any], Any]) -> dict[str, Maker]:
    """Makers of attackers of other packages on a kind of data, by name: well-known ones, and by entry points."""
    return {**installed_attackers(kind, numbers, INSTALLED), **plugged_attackers(kind, numbers)}


def plugged_attackers(kind: str, numbers: Callable[[Any], Any]) -> dict[str, Maker]:
    """Makers of attackers of other packages on one kind of data, by name; `numbers` as in `as_maker`."""
    loaded = {entry.name: entry.load() for entry in metadata.entry_points(group=GROUP)}
    return {
        name: as_maker(found, numbers)
        for name, found in loaded.items()
        if getattr(found, "kind", _DEFAULT_KIND) == kind
    }
