"""Classifiers of scikit-learn as learners, and paths of models that are asked one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from lowtide.estimate.learners.base import Array, Fitted, Held, Path, Stage
from lowtide.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class AtStage:
    """A path at one stage; see `Fitted`."""

    path: Path
    stage: int

    def scores(self, rows: Any) -> Array:
        """(n, |S|)."""
        return np.asarray(self.path.scores(rows)[self.stage])


@dataclass(frozen=True, eq=False)
class OneStage:
    """The path of a learner that has one stage; see `Path`."""

    model: Fitted

    def scores(self, rows: Any) -> Array:
        """(1, n, |S|)."""
        return self.model.scores(rows)[None]

    def at(self, stage: int) -> Fitted:
        """The model, whichever stage is asked for."""
        return self.model


class Staged(ABC):
    """A path that is asked for all stages at once."""

    @abstractmethod
    def scores(self, rows: Any) -> Array:
        """(stages, n, |S|)."""

    def at(self, stage: int) -> AtStage:
        """One of the stages."""
        return AtStage(self, stage)


@dataclass(frozen=True, eq=False)
class Models(Staged):
    """Fitted classifiers, one for each stage.

    Attributes:
        models: each has `predict_proba`.
        inputs: from rows to what they read.
        log_prior: (|S|,) of the classes.
        learnt: from how many rows. The prior counts as one more, so that no class is ruled out.
    """

    models: Sequence[Any]
    inputs: Callable[[Any], Any]
    log_prior: Floats
    learnt: int

    def scores(self, rows: Any) -> Array:
        """(stages, n, |S|)."""
        x = self.inputs(rows)
        every = {id(model): self._scores(model, x) for model in self.models}
        return np.stack([every[id(model)] for model in self.models])

    def _scores(self, model: Any, x: Any) -> Floats:
        shares = np.asarray(model.predict_proba(x), dtype=np.float64) / np.exp(self.log_prior)
        return np.log((self.learnt * shares + 1) / (self.learnt + 1))


@dataclass(frozen=True, eq=False)
class ClassifierLearner:
    """A classifier of scikit-learn; see `Learner`. It is cloned, and has one stage.

    Attributes:
        estimator: has `fit` and `predict_proba`.
        numbers: from rows to numbers (n, columns).
        seed: its `random_state`, where that is not set.
    """

    estimator: Any
    numbers: Callable[[Any], Any]
    seed: int

    toll: ClassVar[float] = 1.0

    @property
    def name(self) -> str:
        """The name of its class."""
        return type(self.estimator).__name__

    def fit(
        self, rows: Any, codes: Ints, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Models:
        """Fit a copy of it."""
        model = clone(self.estimator)
        if model.get_params().get("random_state", self.seed) is None:
            model.set_params(random_state=self.seed)
        model.fit(self.numbers(rows), codes)
        return Models([model], self.numbers, log_prior, len(codes))
