"""Learners of sparse rows of terms: what terms tell alone, regressions, and small networks.

The start is what each term tells alone, shrunk by empirical Bayes: the law of the log-odds over the
vocabulary is itself estimated, so that a vocabulary of mostly neutral terms pulls rare terms to 0
and leaves frequent ones alone. All three become a `Bag`, and bags of one weighting add up to one.
Rows of one group (the texts of one writer) count as one observation of a term.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from lowtide.estimate.learners.bag import (
    Bag,
    Weighting,
    Weights,
    average,
    log_odds,
    occurrences,
    term_weights,
    witnesses,
)
from lowtide.estimate.learners.base import Array, Held, Stage, normalise
from lowtide.estimate.objectives import Checkpoints, fingerprint
from lowtide.extras import has_torch
from lowtide.progress import progress_bar
from lowtide.splits import grouped_folds
from lowtide.types import Floats, Floats32, Ints

if TYPE_CHECKING:
    pass

Sparse = Any  # scipy.sparse.csr_array, which carries no types

# Beyond, a regression learns its writers by heart; spellings repeat each other, and ask for less.
PENALTIES = (0.1, 0.3)
SPELLED_PENALTIES = (0.01, 0.03, 0.1)
BATCH = 512
_STEPS = 60  # of L-BFGS
_EXACT = 1e-5
_UP_TO = 1.5  # times the log-odds: more than they say is not believed
_LOOKS = 8
_LARGE = 64 * BATCH  # rows
_MEMBERS = 4  # networks, each trained on its own half of the groups; their mean varies less
_MORE_MEMBERS = 16  # … of a large corpus
_TRAINING_STEPS = 256


@dataclass(frozen=True, eq=False)
class Documents:
    """Sparse rows, picked by row numbers.

    Attributes:
        rows: (n, columns) how often each term occurs.
        groups: (n,) rows of one group count as one observation.
        runs: (n, runs) the characters of words that are no terms; `None` where nobody looked.
    """

    rows: Sparse
    groups: Ints
    runs: Sparse | None = None

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def __getitem__(self, index: Any) -> Documents:
        some = np.arange(len(self))[index]
        runs = None if self.runs is None else self.runs[some]
        return Documents(self.rows[some], self.groups[some], runs)

    def columns(self, bag: Bag) -> Sparse:
        """The columns that a bag reads: terms, or terms and runs."""
        if len(bag.groups) == self.rows.shape[1]:
            return self.rows
        return sparse.csr_array(sparse.hstack([self.rows, self.runs], "csr"))


@dataclass(frozen=True, eq=False)
class BagPath:
    """Bags at every stage; see `Path`."""

    bags: tuple[Bag, ...]

    def scores(self, rows: Documents) -> Array:
        """(stages, n, |S|)."""
        columns = rows.columns(self.bags[0])
        return np.stack([bag.scores(columns) for bag in self.bags])

    def at(self, stage: int) -> Bag:
        """The bag at one stage."""
        return self.bags[stage]


@dataclass(frozen=True)
class TermLearner:
    """What each term tells alone; see `Learner`.

    Attributes:
        weighting: how counts become weights.
    """

    weighting: Weighting
    toll = 1.0

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"terms alone, {self.weighting}"

    def fit(
        self,
        rows: Documents,
        codes: Ints,
        log_prior: Floats,
        held: Held = None,
        until: Stage = None,
    ) -> BagPath:
        """Count the terms of n rows."""
        odds = log_odds(rows.rows, codes, len(log_prior), self.weighting, groups=rows.groups)
        return BagPath((_alone(odds, self.weighting),))


@dataclass(frozen=True)
class TermRegressionLearner:
    """Logistic regression on weighted terms: what they tell beside one another; see `Learner`.

    Each term is scaled by how its frequency differs between the classes, so that a penalty on the
    weights shrinks common neutral terms and not rare telling ones (Wang and Manning 2012). The
    classes are weighted alike and there is no intercept, so that the scores are those of
    likelihoods, and 0 where nothing is seen.

    With a spelling it also reads what terms are made of, such as runs of characters: what a rare
    term has in common with others. As a sum over them it is a part of the weight of the term.

    Attributes:
        weighting: how counts become weights.
        spelling: (columns, runs) sparse; `None` where terms have no parts.
    """

    weighting: Weighting
    spelling: Sparse | None = field(default=None, repr=False)
    toll = 2.0

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return "a regression on terms" + ("" if self.spelling is None else " and their spelling")

    def fit(
        self,
        rows: Documents,
        codes: Ints,
        log_prior: Floats,
        held: Held = None,
        until: Stage = None,
    ) -> BagPath:
        """Fit every penalty."""
        shares = term_weights(rows.rows.data, self.weighting)
        counts = sparse.csr_array(
            (shares, rows.rows.indices, rows.rows.indptr), shape=rows.rows.shape
        )
        terms = counts.shape[1]
        penalties: Sequence[float] = PENALTIES
        if self.spelling is not None:
            # In one product, since the runs of many texts are large.
            itself = sparse.eye_array(terms, dtype=np.float32, format="csr")
            counts = counts @ sparse.hstack([itself, self.spelling], "csr")
            if rows.runs is not None:
                more = (rows.runs.data, rows.runs.indices + terms, rows.runs.indptr)
                counts = counts + sparse.csr_array(more, shape=counts.shape)
            penalties = SPELLED_PENALTIES
        wanted = penalties[: None if until is None else until + 1]
        weights = regress(counts, codes, len(log_prior), rows.groups, wanted)
        if self.spelling is None:
            return BagPath(tuple(_alone(one, self.weighting) for one in weights))
        bags = []
        for one in weights:
            words = one[:terms] + self.spelling @ one[terms:]
            every = words if rows.runs is None else np.concatenate([words, one[terms:]])
            bags.append(_alone(every, self.weighting, terms))
        return BagPath(tuple(bags))


@dataclass(frozen=True)
class TermNetworkLearner:
    """Terms and small networks trained together; see `Learner`. A stage is a look.

    Attributes:
        weighting: how counts become weights.
        steps: of training.
        members: how many networks are averaged.
        objective: the bound that is maximised.
        seed: of the training.
        checkpoint: where an interrupted training is kept; `None` for nowhere.
        progress: whether to draw a progress bar.
    """

    weighting: Weighting
    steps: int
    members: int
    objective: str = "dv"
    seed: int = 0
    checkpoint: str | None = None
    progress: bool | None = None
    name: str = field(default="terms and networks", init=False)
    toll: float = field(default=4.0, init=False)

    @classmethod
    def for_rows(cls, weighting: Weighting, rows: int, steps: int | None, **how: Any) -> Any:
        """The networks that suit so many rows.

        A large corpus is walked through once: on a second pass the networks learn its writers by
        heart. Small ones, with their small batches, take a few passes.
        """
        least = _TRAINING_STEPS if rows >= _LARGE else 2 * _TRAINING_STEPS
        members = _MORE_MEMBERS if rows >= _LARGE else _MEMBERS
        return cls(weighting, max(least, rows // BATCH) if steps is None else steps, members, **how)

    def fit(
        self,
        rows: Documents,
        codes: Ints,
        log_prior: Floats,
        held: Held = None,
        until: Stage = None,
    ) -> TermNetworkPath | None:
        """Train all members; `None` without PyTorch."""
        if not has_torch():
            return None
        from lowtide.estimate import term_training

        odds = log_odds(rows.rows, codes, len(log_prior), self.weighting, groups=rows.groups)
        odds *= _factor(rows, codes, log_prior, self.weighting)
        data = term_training.TermData(
            rows.rows,
            codes,
            rows.groups,
            log_prior,
            self.weighting,
            self.steps,
            self.objective,
            self.seed,
            self.members,
        )
        every = max(1, self.steps // _LOOKS)
        last = self.steps if until is None else (until + 1) * every
        mark = "" if self.checkpoint is None else self._mark(rows, codes)
        checkpoints = Checkpoints(self.checkpoint, mark)
        stage = "choose" if until is None else "refit"
        title = "choosing on held-out rows" if until is None else "fitting on all rows"
        asked = None if held is None else held[0].rows
        bags: list[Weights] = []
        answers: list[Floats32] = []
        with progress_bar(title, last * self.members, self.progress) as tick:
            for member in range(self.members):
                trainer = term_training.TermTrainer(data, odds, member)
                look = term_training.watch(asked, every, partial(_count, tick, member * last))
                kept = trainer.run(last, stage, checkpoints, look)
                bags.append(trainer.critic().weights)
                if kept:
                    answers.append(np.stack([kept[name].numpy() for name in sorted(kept)]))
        nobody = np.zeros((1, 0, len(log_prior)), dtype=np.float32)
        scores = np.asarray(np.mean(answers, axis=0), dtype=np.float32) if answers else nobody
        return TermNetworkPath(scores, Bag(data.columns, self.weighting, average(bags)))

    def _mark(self, rows: Documents, codes: Ints) -> str:
        parts = (rows.rows.data, rows.rows.indices, rows.rows.indptr, codes, rows.groups)
        return fingerprint(*parts, self.objective, self.steps, self.members, self.seed)


@dataclass(frozen=True, eq=False)
class TermNetworkPath:
    """Networks after a training; see `Path`.

    Only what they said of the rows that judge them is kept of earlier looks: the weights of all of
    them would not fit into memory.

    Attributes:
        answers: (stages, n, |S|) scores of the rows that judged.
        last: the networks at the end.
    """

    answers: Floats32
    last: Bag

    def scores(self, rows: Documents) -> Array:
        """(stages, n, |S|) of the rows that judged."""
        return self.answers

    def at(self, stage: int) -> Bag:
        """The networks at the end, for a training that ended at this stage."""
        return self.last


def added(bags: Sequence[Bag], weights: Sequence[float], columns: int) -> Weights:
    """The weights of so many columns with which the scores are the weighted sum of those of several
    bags, at most one with networks; a bag knows the first columns, or all.
    """
    joined: Weights = {"u": np.zeros((columns, bags[0].weights["u"].shape[1]), np.float32)}
    for bag, weight in zip(bags, weights, strict=True):
        joined["u"][: len(bag.groups)] += np.float32(weight) * bag.weights["u"]
        if "E" in bag.weights:
            more = {name: value for name, value in bag.weights.items() if name != "u"}
            more["U"] = np.float32(weight) * more["U"]
            beyond = columns - len(bag.groups)
            joined |= {
                name: np.pad(value, (0, beyond)) if name in ("c", "e") else value
                for name, value in more.items()
            }
            if beyond and "e" not in joined:  # networks know no column beyond
                joined["e"] = np.pad(np.arange(len(bag.groups)), (0, beyond))
    return joined


def _count(tick: Callable[[int], None], before: int, done: int) -> None:
    tick(before + done)


def _alone(weights: Floats, weighting: Weighting, terms: int | None = None) -> Bag:
    return Bag(np.arange(len(weights)), weighting, {"u": weights.astype(np.float32)}, terms)


def _factor(rows: Documents, codes: Ints, log_prior: Floats, weighting: Weighting) -> float:
    """How far the log-odds of terms are believed together, since terms repeat each other: those of
    one half of the groups, asked about the other.
    """
    half = grouped_folds(codes, rows.groups, 2, np.random.default_rng(0)) == 0
    known = rows[np.flatnonzero(half)]
    asked = rows[np.flatnonzero(~half)]
    odds = log_odds(known.rows, codes[half], len(log_prior), weighting, groups=known.groups)
    scores = _alone(odds, weighting).scores(asked.rows).astype(np.float64)
    places = np.arange(len(scores)), codes[~half]

    def loss(factor: float) -> float:
        return -float(normalise(factor * scores, log_prior)[places].mean())

    return float(
        minimize_scalar(loss, bounds=(0.0, _UP_TO), method="bounded", options={"xatol": 1e-3}).x
    )


def leans(rows: Sparse, s: Ints, classes: int, groups: Ints) -> Floats32:
    """How much the frequency of each term differs most between a class and the others, (columns,),
    in nats.
    """
    inside = np.zeros((rows.shape[1], classes))
    cells = occurrences(rows, s).tocoo()
    inside[cells.col, cells.row] = cells.data
    inside *= (witnesses(rows, groups) / np.maximum(inside.sum(axis=1), 1.0))[:, None]
    outside = inside.sum(axis=1, keepdims=True) - inside
    shares = [np.log((part + 1.0) / (part + 1.0).sum(axis=0)) for part in (inside, outside)]
    return np.asarray(np.abs(shares[0] - shares[1]).max(axis=1), dtype=np.float32)


def regress(
    rows: Sparse, s: Ints, classes: int, groups: Ints, penalties: Sequence[float]
) -> list[Floats]:
    """The weights (columns, |S|) of the terms, for each penalty.

    Args:
        rows: (n, columns) sparse weights of what occurs.
        s: (n,) classes; of one that does not occur the weights are 0.
        classes: |S|.
        groups: (n,) rows of one group count as one observation.
        penalties: inverse strengths of the penalty.
    """
    occurring = np.unique(s)
    if len(occurring) < 2:
        return [np.zeros((rows.shape[1], classes)) for _ in penalties]
    scale = leans(rows, s, classes, groups)
    scaled = sparse.csr_array(
        (rows.data * scale[rows.indices], rows.indices, rows.indptr), shape=rows.shape
    )
    model = LogisticRegression(
        max_iter=_STEPS,
        tol=_EXACT,
        fit_intercept=False,
        class_weight="balanced",
        random_state=0,
    )
    every = []
    for penalty in penalties:
        with warnings.catch_warnings():
            # Held-out rows say what it is worth.
            warnings.simplefilter("ignore", ConvergenceWarning)
            slopes = model.set_params(C=penalty).fit(scaled, s).coef_
        if len(slopes) == 1:
            slopes = np.concatenate([-0.5 * slopes, 0.5 * slopes])
        weights = np.zeros((rows.shape[1], classes))
        weights[:, occurring] = slopes.T * scale[:, None]
        every.append(weights)
    return every
