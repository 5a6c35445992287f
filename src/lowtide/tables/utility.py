"""What a released table is still good for: models that predict a column from the others, on rows they have not seen."""

from __future__ import annotations

from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lowtide.attack.scores import accuracy, auc
from lowtide.auditing.utility import Data, Prediction, UtilityReport
from lowtide.density.objectives import mean_with_interval
from lowtide.errors import LowtideError, count, one_of, real, within
from lowtide.interface import Estimate
from lowtide.labels import is_vector
from lowtide.splits import at_random, stratified
from lowtide.streams import derived_seed, generator, stream
from lowtide.tables.attackers import ATTACKERS
from lowtide.tables.comparison import is_frame, row_count, same_columns, without
from lowtide.tables.encoder import Rows, read_table
from lowtide.types import Floats, Labels

Kind = Literal["auto", "classes", "number"]
FEWEST_ROWS = 10
_MOST_CLASSES = 20  # of whole numbers, before they are taken for amounts
_CLASSIFIERS = ("boosted trees", "logistic regression")
_TREE_COLUMNS = 512
Found = tuple[Prediction, dict[Data, tuple[Prediction, ...]]]
"""What guessing achieves, and the predictions from each table."""


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


def predict_classes(rows: dict[Data, Rows], codes: Labels, *, test_share: float, seed: int, level: float) -> Found:
    """Predict classes with the attackers' models: what is wanted and what is not are learnt alike."""
    train, test = stratified(codes, test_share, seed=stream(seed, "utility"))
    truth, prior = codes[test], np.bincount(codes[train]) / len(train)

    def scored(model: str, data: Data, q: Floats) -> Prediction:
        return Prediction(model, data, accuracy(q, truth, level=level), auc(q, truth, level=level), None)

    found: dict[Data, tuple[Prediction, ...]] = {}
    for data, table in rows.items():
        fitted = {name: ATTACKERS[name](seed).fit(table[train], codes[train]) for name in _CLASSIFIERS}
        found[data] = tuple(scored(name, data, model.probabilities(table[test])) for name, model in fitted.items())
    return scored("guess", "nothing", np.tile(prior, (len(test), 1))), found


def predict_number(rows: dict[Data, Rows], u: Floats, *, test_share: float, seed: int, level: float) -> Found:
    """Predict a number with boosted trees and ridge regression."""
    if np.ptp(u) == 0:
        raise LowtideError("u is the same number in every row; there is nothing to predict")
    if len(u) < FEWEST_ROWS:
        raise LowtideError(f"u has {len(u)} rows; at least {FEWEST_ROWS} are needed to train and to test on")
    aside = int(np.clip(round(test_share * len(u)), 2, len(u) - 5))
    train, test = at_random(len(u), aside, generator(seed, "utility"))
    middle = np.full(len(test), u[train].mean())

    def scored(model: str, data: Data, guess: Floats) -> Prediction:
        return Prediction(model, data, None, None, r_squared(guess, u[test], baseline=middle, level=level))

    found: dict[Data, tuple[Prediction, ...]] = {
        data: tuple(
            scored(name, data, np.asarray(model.fit(table[train], u[train]).predict(table[test])))
            for name, model in _regressors(table, seed).items()
        )
        for data, table in ((data, _doubles(table)) for data, table in rows.items())
    }
    return scored("guess", "nothing", middle), found


def r_squared(guess: Floats, truth: Floats, *, baseline: Floats, level: float = 0.95) -> Estimate:
    """Share of the baseline's squared error that is gone, `1 − Σ(u − û)² / Σ(u − ū)²`, with its interval.

    A ratio of two means: its standard error is that of its linearisation (the delta method).

    Args:
        guess: (n,) û.
        truth: (n,) u.
        baseline: (n,) ū, what is guessed without data: the mean of the training rows.
        level: how often the interval should hold the truth.
    """
    own, blind = np.square(truth - guess), np.square(truth - baseline)
    if blind.sum() == 0:
        raise LowtideError("u is the same number in every test row; give more rows, or predict classes")
    ratio = own.mean() / blind.mean()
    return mean_with_interval(1 - ratio - (own - ratio * blind) / blind.mean(), level)


def _regressors(table: Any, seed: int) -> dict[str, Any]:
    state = derived_seed(seed, "utility")
    scaler = StandardScaler(with_mean=not sparse.issparse(table))
    models: dict[str, Any] = {"ridge regression": make_pipeline(scaler, RidgeCV(np.logspace(-2, 4, 7)))}
    if not sparse.issparse(table):
        models["boosted trees"] = HistGradientBoostingRegressor(max_iter=150, max_leaf_nodes=15, random_state=state)
    return models


def _doubles(table: Rows) -> Any:
    """Double precision; a sparse table of few columns is filled in, so that trees can read it."""
    narrow = sparse.issparse(table) and table.shape[1] <= _TREE_COLUMNS
    return (table.toarray() if narrow else table).astype(np.float64)


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
