"""What a release is still good for: how well models trained on it predict something people want to use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

from numpy.typing import ArrayLike

from lowtide.attack.panel import attack
from lowtide.errors import LowtideError
from lowtide.interface import Attack, Estimate
from lowtide.labels import read_classes

Data = Literal["release", "clean", "nothing"]


class AttackOptions(TypedDict, total=False):
    """How to attack, see `attack`.

    Attributes:
        groups: (n,) samples of one group, such as an author, stay on one side of the split.
        attackers: names of attackers of this kind of data, or attackers; all by default.
        seed: the same seed gives the same result; 0 by default.
        level: of the intervals; 0.95 by default.
        progress: whether to draw a progress bar; by default only on a terminal.
    """

    groups: ArrayLike | None
    attackers: Sequence[Any] | None
    seed: int
    level: float
    progress: bool | None


@dataclass(frozen=True)
class Prediction:
    """How well one model predicts the utility column on rows it was not trained on.

    Attributes:
        model: its name.
        data: what it was trained and tested on: the `release`, the `clean` table, or `nothing` (it guesses).
        accuracy: share of right answers; `None` for numbers.
        auc: area under the ROC curve; `None` for numbers.
        r2: share of the squared error of guessing that is gone; `None` for classes.
    """

    model: str
    data: Data
    accuracy: Estimate | None
    auc: Estimate | None
    r2: Estimate | None

    @property
    def score(self) -> Estimate:
        """The figure to compare by: AUC for classes, R² for numbers."""
        score = self.r2 if self.auc is None else self.auc
        if score is None:
            raise LowtideError("a prediction carries an AUC (for classes) or an R² (for numbers); this one has neither")
        return score


@dataclass(frozen=True)
class UtilityReport:
    """What models predict of a utility column, with guessing and the clean data beside it.

    Attributes:
        kind: whether the column holds `classes` or a `number`.
        guess: what can be had without any data.
        release: one prediction per model trained on the release.
        clean: the same models trained on the clean table; empty without one.
        dropped: the columns left out of the predictors because they are the utility column itself.
    """

    kind: Literal["classes", "number"]
    guess: Prediction
    release: tuple[Prediction, ...]
    clean: tuple[Prediction, ...]
    dropped: tuple[str, ...]

    @property
    def best(self) -> Prediction:
        """The best prediction from the release; of several models, so a little optimistic."""
        return max(self.release, key=lambda prediction: prediction.score.value)

    @property
    def best_clean(self) -> Prediction | None:
        """The best prediction from the clean table."""
        return max(self.clean, key=lambda prediction: prediction.score.value, default=None)


def predicts_by_attackers(
    release: Any, u: ArrayLike, *, clean: Any = None, **options: Unpack[AttackOptions]
) -> UtilityReport:
    """Train on released samples what attackers are made of, to predict the classes `u` of others.

    Args:
        release: n samples.
        u: (n,) classes.
        clean: the same before, as a control.
        **options: as of `attack`; attackers are the models here.
    """
    read_classes(u)
    found = attack(release, u, clean=clean, **options)
    return UtilityReport(
        "classes",
        _prediction(found.guess, "nothing"),
        tuple(_prediction(one, "release") for one in found.retrained),
        tuple(_prediction(one, "clean") for one in found.clean),
        (),
    )


def _prediction(found: Attack, data: Data) -> Prediction:
    return Prediction(found.attacker, data, found.accuracy, found.auc, None)
