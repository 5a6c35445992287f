"""What a release changed, and what it is still good for: how well models trained on it predict
something of use.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from lowtide.attack.panel import attack
from lowtide.errors import LowtideError
from lowtide.interface import Attack, Estimate
from lowtide.labels import read_classes
from lowtide.types import Bools, Floats

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
        data: what it was trained and tested on: the `release`, the `clean` table, or `nothing` (it
            guesses).
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
            raise LowtideError(
                "a prediction carries an AUC (for classes) or an R² (for numbers); this one has"
                " neither"
            )
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


@dataclass(frozen=True)
class ColumnChange:
    """What became of one column.

    Attributes:
        name: of the column.
        share: of its values that changed.
        rms: root mean square of the change over the column's standard deviation; `None` for text,
            and for numbers that do not vary.
    """

    name: str
    share: float
    rms: float | None


@dataclass(frozen=True)
class Change:
    """What a release changed.

    Attributes:
        share: of all values that changed.
        rms: root of the mean square of `columns[j].rms`, over columns of numbers that vary; `None`
            without any.
        psnr: peak signal-to-noise ratio in decibels; infinity when nothing changed, `None` without
            a peak value.
        columns: one by one.
        rows: how many rows were compared.
        what: was compared: the values of a table, the pixels of images or the words of texts.
    """

    share: float
    rms: float | None
    psnr: float | None
    columns: tuple[ColumnChange, ...]
    rows: int
    what: Literal["values", "pixels", "words"] = "values"


def column_rms(clean: Floats, release: Floats) -> Floats:
    """Root mean square of `release − clean` in each column, over the column's standard deviation.

    1 is what replacing every value by the column's mean does; noise of one standard deviation does
    the same.

    Args:
        clean: (n, columns) numbers before.
        release: (n, columns) numbers after.

    Returns:
        (columns,). NaN for a column without spread, which has no unit to measure in.
    """
    rms = np.sqrt(np.square(release - clean).mean(axis=0))
    return relative(rms, np.asarray(clean.std(axis=0)), np.asarray(np.ptp(clean, axis=0) > 0))


def relative(rms: Floats, spread: Floats, varies: Bools) -> Floats:
    """Return `rms / spread` of each column that varies, NaN for the others."""
    return np.where(varies, rms / np.where(varies, spread, 1.0), np.nan)


def overall_rms(columns: Floats) -> float:
    """One figure for several columns: the root of their mean square, over those that vary; 0 when
    none does.
    """
    measured = columns[~np.isnan(columns)]
    return float(np.sqrt(np.square(measured).mean())) if len(measured) else 0.0
