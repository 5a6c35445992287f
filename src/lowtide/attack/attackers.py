"""The attackers: each is a learner of the reader, which says how far it is believed.

Those of one kind of data are named by its modality. Other packages add theirs by the entry point
group `lowtide.attackers`, and a user may give any scikit-learn classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from lowtide.checks import LowtideError, check_rows
from lowtide.errors import note
from lowtide.estimate import stack
from lowtide.estimate.learners.base import Learner, Path, normalise
from lowtide.estimate.learners.classifier import ClassifierLearner
from lowtide.estimate.reader import NEVER, Reading, read
from lowtide.splits import stratified, stream
from lowtide.training import one_thread
from lowtide.types import Floats, Labels

GROUP = "lowtide.attackers"
_DEFAULT_KIND = "tables"  # of an attacker of another package that does not say
_HELD_OUT = 0.25
_LEAST_PER_CLASS = 3
# nats: so much one weight gains by chance, where nothing is told, in one of twelve tables
TOLL = 1.0


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


Maker = Callable[[int], Learner]
"""Makes the learner of an attacker from a seed."""


def trains_networks(maker: Any) -> bool:
    """Whether an attacker takes PyTorch: a class that it is made of says so by its attribute
    `trains_networks`.
    """
    return bool(getattr(getattr(maker, "func", maker), "trains_networks", False))


@dataclass(frozen=True)
class Continued:
    """A maker of an attacker that goes on from one trained on clean rows.

    Attributes:
        starts_from: the name of the attacker it goes on from.
        make: from what that attacker has become, and the seed it was made from.
    """

    starts_from: str
    make: Callable[[Path, int], Learner]


class AttackLearner:
    """What learners of attackers have in common; each adds `fit`, see `Learner`.

    Attributes:
        toll: nats, over all held-out rows, that it must gain to be believed at all.
        reads_surface: whether it reads the surface of the file, and not only what rows hold.
        trains_networks: whether it takes PyTorch.
    """

    toll: ClassVar[float] = TOLL
    reads_surface: ClassVar[bool] = False
    trains_networks: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """What it is called."""
        return type(self).__name__


def some_of(rows: Any, codes: Labels, most: int, seed: int) -> tuple[Any, Labels]:
    """At most about so many rows and their classes, drawn class by class when there are more."""
    if len(codes) <= most:
        return rows, codes
    chosen = stratified(codes, most / len(codes), seed=np.random.SeedSequence(seed)).aside
    return rows[chosen], codes[chosen]


def held_by(rows: Any) -> Any:
    """What rows hold, (n, columns): themselves where they come without the surface of their
    file.
    """
    return getattr(rows, "held", rows)


def shown_to(learner: Learner, rows: Any) -> Any:
    """Rows as a learner takes them: most look at what rows hold, and not at the surface of their
    file.
    """
    return rows if getattr(learner, "reads_surface", False) else held_by(rows)


@dataclass(frozen=True, eq=False)
class Attacker:
    """A learner that has learnt from all rows it was given, believed as far as some of them said
    before it learnt from these.

    Attributes:
        reading: of the rows, some of which were held out.
        path: what the learner has become on all rows; `None` where there was nothing to learn from.
    """

    reading: Reading
    path: Path | None

    @property
    def gain(self) -> float:
        """Information on the rows that were held out, in nats."""
        return float(self.reading.gains.mean())

    def answers(self, rows: Any) -> Floats:
        """What it says of rows, (n, |S|), not yet weighed."""
        log_prior = self.reading.log_prior
        if self.path is None:
            return np.zeros((rows.shape[0], len(log_prior)))
        (member,) = self.reading.tried
        with one_thread(rows.shape[0]):
            scores = self.path.at(member.stage).scores(shown_to(member.learner, rows))
        return normalise(np.asarray(scores, dtype=np.float64), log_prior)

    def probabilities(self, rows: Any) -> Floats:
        """`q(s|y)`, (n, |S|), positive."""
        reading = self.reading
        weight = np.array([member.weight for member in reading.tried] or [0.0])
        density = stack.mixed(self.answers(rows)[None], weight, reading.log_prior)
        return stack.never_certain(density, reading.log_prior, len(reading.rows))


def taught(learner: Learner, rows: Any, codes: Labels) -> Attacker:
    """Read rows by one learner, with a quarter of them held out, the same for every learner; then
    let it learn from all.

    The panel needs no such split: it decides by the answers about its own folds.

    Args:
        learner: of the kind of the rows.
        rows: n rows with a `shape`, picked by row numbers.
        codes: (n,) coded 0 … |S|−1, each with three rows or more.
    """
    counts = np.bincount(codes)
    check_rows("codes", codes.shape, rows.shape[0])
    if len(counts) < 2 or counts.min() < _LEAST_PER_CLASS:
        raise LowtideError(
            "an attacker needs two classes or more and three rows of each: merge or drop the"
            " rare ones"
        )
    log_prior = np.log(counts / counts.sum())
    rows = shown_to(learner, rows)
    fold = np.full(len(codes), NEVER)
    fold[stratified(codes, _HELD_OUT, seed=stream(0, "attacker")).aside] = 0
    with one_thread(len(codes)):
        reading = read(rows, codes, [learner], fold=fold, log_prior=log_prior, drop=False)
        path = None
        for member in reading.tried:
            path = learner.fit(rows, codes, log_prior, until=member.stage)
    return Attacker(reading, path)


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
        return partial(ClassifierLearner, estimator, numbers)
    if not callable(given):
        raise LowtideError(
            "an attacker must be a name, or a scikit-learn classifier with predict_proba, got"
            f" {type(given).__name__}"
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
"""Classifiers of other packages that attack tables where these are installed: module, class and
options, by name.
"""


def installed_attackers(
    kind: str,
    numbers: Callable[[Any], Any],
    known: Mapping[str, tuple[str, str, Mapping[str, Any]]],
) -> dict[str, Maker]:
    """Makers of well-known classifiers whose packages are there; one that cannot be loaded is noted
    and left out.
    """
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
    """Makers of attackers of other packages on a kind of data, by name: well-known ones, and by
    entry points.
    """
    return {**installed_attackers(kind, numbers, INSTALLED), **plugged_attackers(kind, numbers)}


def plugged_attackers(kind: str, numbers: Callable[[Any], Any]) -> dict[str, Maker]:
    """Makers of attackers of other packages on one kind of data, by name; `numbers` as in
    `as_maker`.
    """
    loaded = {entry.name: entry.load() for entry in metadata.entry_points(group=GROUP)}
    return {
        name: as_maker(found, numbers)
        for name, found in loaded.items()
        if getattr(found, "kind", _DEFAULT_KIND) == kind
    }
