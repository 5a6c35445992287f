"""What a release is still good for: how well models trained on it predict a column people want to use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowtide.attack.panel import attack
from lowtide.auditing.predictions import FEWEST_ROWS, Data, Prediction, predict_classes, predict_number
from lowtide.errors import LowtideError, count, one_of, real, within
from lowtide.interface import Attack
from lowtide.labels import is_vector, read_classes
from lowtide.tables.comparison import is_frame, row_count, same_columns, without
from lowtide.tables.encoder import Rows, read_table
from lowtide.types import Labels

Kind = Literal["auto", "classes", "number"]
_MOST_CLASSES = 20  # of whole numbers, before they are taken for amounts


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


def predicts(
    release: Any,
    u: ArrayLike | str,
    *,
    clean: Any = None,
    kind: Kind = "auto",
    test_share: float = 0.4,
    seed: int = 0,
    level: float = 0.95,
) -> UtilityReport:
    """Train models on a release to predict a column `u`, and test them on rows they have not seen.

    Classes are predicted by boosted trees and by logistic regression, numbers by boosted trees and by ridge
    regression. When `u` is itself among the released columns (given by name, or equal to a column of the release or
    of the clean table in every row), that column is left out of the predictors on both sides.

    Args:
        release: (n, columns) the released table.
        u: (n,) what to predict, or the name of a column: of the clean table if there is one, else of the release.
        clean: the table before, same rows and columns, as a control.
        kind: whether `u` holds `classes` or a `number`; by default numbers that are not all whole, or of more
            than 20 different values, are a number.
        test_share: share of the rows that models are tested on.
        seed: of the split and of the models.
        level: of the intervals.
    """
    one_of("kind", kind, ("auto", "classes", "number"))
    count("seed", seed, 0)
    within("test_share", test_share, 0.0, 1.0, low_open=True, high_open=True)
    if clean is not None and row_count(clean) != row_count(release):
        raise LowtideError(
            f"clean has {row_count(clean)} rows and the release {row_count(release)}; give the same rows"
        )
    values = _values(release if clean is None else clean, u)
    if len(values) != row_count(release):
        raise LowtideError(f"u has {len(values)} entries for {row_count(release)} rows; give one per row")
    dropped = _itself(u, values, [table for table in (release, clean) if table is not None])
    rows: dict[Data, Rows] = {"release": read_table(without(release, dropped))[0]}
    if clean is not None:
        rows["clean"] = read_table(without(clean, dropped))[0]
    if kind == "number" or (kind == "auto" and _is_number(values)):
        guess, found = predict_number(rows, real("u", values), test_share=test_share, seed=seed, level=level)
        return UtilityReport("number", guess, found["release"], found.get("clean", ()), dropped)
    guess, found = predict_classes(rows, _codes(values), test_share=test_share, seed=seed, level=level)
    return UtilityReport("classes", guess, found["release"], found.get("clean", ()), dropped)


def predicts_by_attackers(
    release: Any,
    u: ArrayLike,
    *,
    clean: Any = None,
    groups: ArrayLike | None = None,
    attackers: Sequence[str] | None = None,
    seed: int = 0,
    level: float = 0.95,
    progress: bool | None = None,
) -> UtilityReport:
    """Train on released images or texts what attackers are made of, to predict the classes `u` of others.

    Args:
        release: n images, or n texts.
        u: (n,) classes.
        clean: the same before, as a control.
        groups: (n,) of texts, such as their authors, that must stay on one side of the split.
        attackers: names of the models, which are those of attackers; all by default.
        seed: of the split and of the networks.
        level: of the intervals.
        progress: whether to draw a progress bar; by default only on a terminal.
    """
    read_classes(u)
    found = attack(
        release,
        u,
        clean=clean,
        groups=groups,
        attackers=attackers,
        seed=seed,
        level=level,
        progress=progress,
    )
    return UtilityReport(
        "classes",
        _prediction(found.guess, "nothing"),
        tuple(_prediction(one, "release") for one in found.retrained),
        tuple(_prediction(one, "clean") for one in found.clean),
        (),
    )


def _prediction(found: Attack, data: Data) -> Prediction:
    return Prediction(found.attacker, data, found.accuracy, found.auc, None)


def _values(table: Any, u: ArrayLike | str) -> NDArray[Any]:
    """The utility column as (n,) values, none missing."""
    if isinstance(u, str):
        if not is_frame(table) or u not in nw.from_native(table, eager_only=True).columns:
            raise LowtideError(f"there is no column {u!r}; give u as one value per row, or name a column of the table")
        u = nw.from_native(table, eager_only=True)[u].to_list()
    values = np.asarray(u)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise LowtideError(f"u must hold one value per row, got shape {values.shape}")
    if any(value is None or value != value for value in values.tolist()):  # noqa: PLR0124 - NaN differs from itself
        raise LowtideError("u has missing values (NaN or None); drop those rows")
    return values


def _is_number(values: NDArray[Any]) -> bool:
    return is_vector(values) or (values.dtype.kind in "iuf" and len(np.unique(values)) > _MOST_CLASSES)


def _codes(values: NDArray[Any]) -> Labels:
    """Classes as 0 … k−1, each with rows enough to train and to test on."""
    _, codes, counts = np.unique(values.astype(str), return_inverse=True, return_counts=True)
    if len(counts) < 2:
        raise LowtideError("u has one class; there is nothing to predict")
    if counts.min() < FEWEST_ROWS:
        raise LowtideError(
            f"{int((counts < FEWEST_ROWS).sum())} of the {len(counts)} classes of u have fewer than {FEWEST_ROWS} "
            "rows; merge or drop them, or say kind='number'"
        )
    return np.asarray(codes, dtype=np.intp)


def _itself(u: Any, values: NDArray[Any], tables: list[Any]) -> tuple[str, ...]:
    """The columns that are the utility column: by name, or equal to it in every row of some table."""
    name = u if isinstance(u, str) else getattr(u, "name", None)
    found = [column for table in tables for column in same_columns(table, values)]
    for table in filter(is_frame, tables):
        found += [str(column) for column in nw.from_native(table, eager_only=True).columns if column == name]
    return tuple(dict.fromkeys(found))
