"""What a released table is still good for: models that predict a column from the others, on rows
they have not seen.

Tables of any library held against each other: rows, columns, the table without some of them, and
what changed.
"""

import math
from collections.abc import Collection
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lowtide.attack.attackers import taught
from lowtide.attack.scores import accuracy, auc
from lowtide.auditing import utility as measures
from lowtide.auditing.utility import Change, ColumnChange, Data, Prediction, UtilityReport
from lowtide.checks import LowtideError, count, one_of, real, within
from lowtide.estimate.objectives import mean_with_interval
from lowtide.interface import Estimate
from lowtide.labels import is_vector
from lowtide.splits import at_random, derived_seed, generator, stratified, stream
from lowtide.tables.attackers import ATTACKERS
from lowtide.tables.encoder import Rows, read_rows, read_shown
from lowtide.types import Bools, Floats, Labels


def is_frame(x: Any) -> bool:
    """Whether a table has named columns: pandas, polars or pyarrow."""
    return isinstance(nw.from_native(x, eager_only=True, pass_through=True), nw.DataFrame)


def row_count(x: Any) -> int:
    """How many rows a table has."""
    try:
        return int(x.shape[0]) if hasattr(x, "shape") else len(x)
    except (IndexError, TypeError) as error:
        raise LowtideError(
            f"a table must have shape (rows, columns), got {type(x).__name__}"
        ) from error


def numbered(columns: int) -> list[str]:
    """Names for the columns of an array: x1, x2, …"""
    return [f"x{j + 1}" for j in range(columns)]


def same_columns(x: Any, values: NDArray[Any]) -> list[str]:
    """The names of the columns that equal (n,) values in every row."""
    if is_frame(x):
        frame = nw.from_native(x, eager_only=True)
        return [
            str(name) for name in frame.columns if _equal(np.asarray(frame[name].to_list()), values)
        ]
    if values.dtype.kind not in "biuf":
        return []
    if sparse.issparse(x):
        columns = sparse.csc_array(x, copy=True)  # what follows works in place
        columns.eliminate_zeros()
        # Few columns have as many entries as there are values to find; only these are filled in.
        alike = np.flatnonzero(np.diff(columns.indptr) == np.count_nonzero(values))
        found = [int(j) for j in alike if (columns[:, [j]].toarray()[:, 0] == values).all()]
    else:
        found = np.flatnonzero((_array(x) == values[:, None]).all(axis=0)).tolist()
    return [f"x{j + 1}" for j in found]


def without(x: Any, dropped: Collection[str]) -> Any:
    """A table without some of its columns, those of an array being named as by `numbered`."""
    if not dropped:
        return x
    if is_frame(x):
        frame = nw.from_native(x, eager_only=True)
        kept: list[Any] = [name for name in frame.columns if str(name) not in dropped]
        rest = frame.select(kept).to_native()
    else:
        array = sparse.csr_array(x) if sparse.issparse(x) else _array(x)
        kept = [j for j, name in enumerate(numbered(array.shape[1])) if name not in dropped]
        rest = array[:, kept]
    if not kept:
        raise LowtideError(
            "u is the only column, and a column does not predict itself; give a table with others"
        )
    return rest


def _array(x: Any) -> NDArray[Any]:
    array = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
    if array.ndim != 2:
        raise LowtideError(f"a table must have shape (rows, columns), got {array.shape}")
    return array


def _equal(entries: NDArray[Any], values: NDArray[Any]) -> bool:
    if entries.dtype.kind in "biuf" and values.dtype.kind in "biuf":
        return bool((entries == values).all())
    return bool((entries.astype(str) == values.astype(str)).all())


def changed(clean: Any, release: Any, *, peak: float | None = None) -> Change:
    """Compare a release with the clean table it came from, row by row.

    Values are compared exactly, in the precision they come in. Columns of data frames are matched
    by name. A column that is text on one side (numbers replaced by a mark, say) is compared as
    text.

    Args:
        clean: (n, columns) an array, a tensor, a sparse matrix or a data frame.
        release: the same rows after the release, of the same kind and with the same columns.
        peak: largest value a pixel can take (1 or 255), for the PSNR of images; columns must be
            numbers.
    """
    if peak is not None:
        within("peak", peak, 0.0, np.inf, low_open=True, high_open=True)
    if is_frame(clean) != is_frame(release):
        raise LowtideError("clean and release must both be data frames or both be arrays")
    if is_frame(clean):
        columns, squares = _compare_frames(clean, release)
    elif sparse.issparse(clean) or sparse.issparse(release):
        columns, squares = _compare_sparse(clean, release)
    else:
        columns, squares = _compare_arrays(clean, release)
    if peak is not None and len(squares) < len(columns):
        raise LowtideError("the PSNR is for images: every column must hold numbers; leave out peak")
    rms = np.array([column.rms for column in columns if column.rms is not None])
    return Change(
        share=float(np.mean([column.share for column in columns])),
        rms=measures.overall_rms(rms) if len(rms) else None,
        psnr=None if peak is None else _psnr(float(np.mean(squares)), peak),
        columns=tuple(columns),
        rows=row_count(clean),
    )


def _psnr(mean_square: float, peak: float) -> float:
    return float("inf") if mean_square == 0 else float(10 * np.log10(peak**2 / mean_square))


def _same_shape(clean: tuple[int, ...], release: tuple[int, ...]) -> None:
    if clean != release:
        raise LowtideError(
            f"clean and release must have the same rows and columns, got {clean} and {release}"
        )


def _compare_frames(clean: Any, release: Any) -> tuple[list[ColumnChange], Floats]:
    before, after = (nw.from_native(x, eager_only=True) for x in (clean, release))
    _same_shape(before.shape, after.shape)
    missing = [str(name) for name in before.columns if name not in after.columns]
    if missing:
        raise LowtideError(
            f"the release lacks the column(s) {', '.join(missing)} of the clean table"
        )
    compared = [_compare_series(before[name], after[name]) for name in before.columns]
    return [column for column, _ in compared], np.array(
        [square for _, square in compared if square is not None]
    )


def _compare_series(before: Any, after: Any) -> tuple[ColumnChange, float | None]:
    name = str(before.name)
    if not all(
        column.dtype.is_numeric() or column.dtype == nw.Boolean for column in (before, after)
    ):
        different = [
            str(a) != str(b) for a, b in zip(before.to_list(), after.to_list(), strict=True)
        ]
        return ColumnChange(name, float(np.mean(different)), None), None
    gaps = [_gaps(column) for column in (before, after)]
    if gaps[0].any() or gaps[1].any():
        return _compare_with_gaps(name, before, after, gaps), None
    numbers = [
        _numbers(column.to_numpy(), f"column {name!r}")[:, None] for column in (before, after)
    ]
    (column,), squares = _compare_columns(numbers[0], numbers[1], [name])
    return column, float(squares[0])


def _compare_with_gaps(name: str, before: Any, after: Any, gaps: list[Bools]) -> ColumnChange:
    """A column of numbers with missing ones: a gap that stays is the same, one that is filled or
    made is a change.
    """
    both = ~gaps[0] & ~gaps[1]
    place = np.flatnonzero(both).tolist()
    numbers = [
        _numbers(column[place].to_numpy(), f"column {name!r}")[:, None]
        for column in (before, after)
    ]
    different = gaps[0] != gaps[1]
    rms = None
    if place:
        (known,), _ = _compare_columns(numbers[0], numbers[1], [name])
        different[both] = numbers[0][:, 0] != numbers[1][:, 0]
        rms = known.rms
    return ColumnChange(name, float(different.mean()), rms)


def _gaps(column: Any) -> Bools:
    missing = column.is_null().to_numpy()
    return np.asarray(
        missing | column.is_nan().fill_null(False).to_numpy()
        if column.dtype.is_float()
        else missing
    )


def _compare_arrays(clean: Any, release: Any) -> tuple[list[ColumnChange], Floats]:
    before, after = (_comparable(x, name) for x, name in ((clean, "clean"), (release, "release")))
    _same_shape(before.shape, after.shape)
    return _compare_columns(before, after, numbered(before.shape[1]))


def _compare_sparse(clean: Any, release: Any) -> tuple[list[ColumnChange], Floats]:
    """The same without filling in zeros: a column is its stored entries."""
    before = _csc(clean, "clean")
    after = _csc(release, "release")
    _same_shape(before.shape, after.shape)
    difference = sparse.csc_array(after - before)
    difference.eliminate_zeros()
    n = before.shape[0]
    shares = np.diff(difference.indptr) / n
    squares = np.asarray(difference.power(2).sum(axis=0)).ravel() / n
    mean = np.asarray(before.sum(axis=0)).ravel() / n
    variance = np.maximum(np.asarray(before.power(2).sum(axis=0)).ravel() / n - mean**2, 0.0)
    rms = measures.relative(np.sqrt(squares), np.sqrt(variance), variance > 1e-12 * mean**2)
    return _column_changes(numbered(len(shares)), shares, rms), squares


def _compare_columns(
    before: Floats, after: Floats, names: list[str]
) -> tuple[list[ColumnChange], Floats]:
    shares = np.asarray((before != after).mean(axis=0))
    changes = _column_changes(names, shares, measures.column_rms(before, after))
    return changes, np.asarray(np.square(after - before).mean(axis=0))


def _column_changes(names: list[str], shares: Floats, rms: Floats) -> list[ColumnChange]:
    triples = zip(names, shares.tolist(), rms.tolist(), strict=True)
    return [
        ColumnChange(name, share, None if math.isnan(value) else value)
        for name, share, value in triples
    ]


def _csc(x: Any, name: str) -> Any:
    if not sparse.issparse(x):
        return sparse.csc_array(_comparable(x, name))
    read_rows(x)
    columns = sparse.csc_array(x, dtype=np.float64, copy=True)
    columns.sum_duplicates()
    return columns


def _comparable(x: Any, name: str) -> Floats:
    read_rows(x)  # its checks and its words; the comparison itself is in the precision given
    return _numbers(np.asarray(x.detach().cpu() if hasattr(x, "detach") else x), name)


def _numbers(values: NDArray[Any], name: str) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise LowtideError(
            f"{name} has entries that are NaN or infinite; fill missing values or drop those rows"
            " first"
        )
    return numbers


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

    Classes are predicted by boosted trees and by logistic regression, numbers by boosted trees and
    by ridge regression. When `u` is itself among the released columns (given by name, or equal to a
    column of the release or of the clean table in every row), that column is left out of the
    predictors on both sides.

    Args:
        release: (n, columns) the released table.
        u: (n,) what to predict, or the name of a column: of the clean table if there is one, else
            of the release.
        clean: the table before, same rows and columns, as a control.
        kind: whether `u` holds `classes` or a `number`; by default numbers that are not all whole,
            or of more than 20 different values, are a number.
        test_share: share of the rows that models are tested on.
        seed: of the split and of the models.
        level: of the intervals.
    """
    one_of("kind", kind, ("auto", "classes", "number"))
    count("seed", seed, 0)
    within("test_share", test_share, 0.0, 1.0, low_open=True, high_open=True)
    if clean is not None and row_count(clean) != row_count(release):
        raise LowtideError(
            f"clean has {row_count(clean)} rows and the release {row_count(release)}; give the same"
            " rows"
        )
    values = _values(release if clean is None else clean, u)
    if len(values) != row_count(release):
        raise LowtideError(
            f"u has {len(values)} entries for {row_count(release)} rows; give one per row"
        )
    dropped = _itself(u, values, [table for table in (release, clean) if table is not None])
    rows: dict[Data, Rows] = {"release": read_shown(without(release, dropped))[0]}
    if clean is not None:
        rows["clean"] = read_shown(without(clean, dropped))[0]
    if kind == "number" or (kind == "auto" and _is_number(values)):
        guess, found = predict_number(
            rows, real("u", values), test_share=test_share, seed=seed, level=level
        )
        return UtilityReport("number", guess, found["release"], found.get("clean", ()), dropped)
    guess, found = predict_classes(
        rows, _codes(values), test_share=test_share, seed=seed, level=level
    )
    return UtilityReport("classes", guess, found["release"], found.get("clean", ()), dropped)


def predict_classes(
    rows: dict[Data, Rows], codes: Labels, *, test_share: float, seed: int, level: float
) -> Found:
    """Predict classes with the attackers' models: what is wanted and what is not are learnt
    alike.
    """
    train, test = stratified(codes, test_share, seed=stream(seed, "utility"))
    truth = codes[test]
    prior = np.bincount(codes[train]) / len(train)

    def scored(model: str, data: Data, q: Floats) -> Prediction:
        return Prediction(
            model, data, accuracy(q, truth, level=level), auc(q, truth, level=level), None
        )

    found: dict[Data, tuple[Prediction, ...]] = {}
    for data, table in rows.items():
        fitted = {
            name: taught(ATTACKERS[name](seed), table[train], codes[train]) for name in _CLASSIFIERS
        }
        found[data] = tuple(
            scored(name, data, model.probabilities(table[test])) for name, model in fitted.items()
        )
    return scored("guess", "nothing", np.tile(prior, (len(test), 1))), found


def predict_number(
    rows: dict[Data, Rows], u: Floats, *, test_share: float, seed: int, level: float
) -> Found:
    """Predict a number with boosted trees and ridge regression."""
    if np.ptp(u) == 0:
        raise LowtideError("u is the same number in every row; there is nothing to predict")
    if len(u) < FEWEST_ROWS:
        raise LowtideError(
            f"u has {len(u)} rows; at least {FEWEST_ROWS} are needed to train and to test on"
        )
    aside = int(np.clip(round(test_share * len(u)), 2, len(u) - 5))
    train, test = at_random(len(u), aside, generator(seed, "utility"))
    middle = np.full(len(test), u[train].mean())

    def scored(model: str, data: Data, guess: Floats) -> Prediction:
        return Prediction(
            model, data, None, None, r_squared(guess, u[test], baseline=middle, level=level)
        )

    found: dict[Data, tuple[Prediction, ...]] = {
        data: tuple(
            scored(name, data, np.asarray(model.fit(table[train], u[train]).predict(table[test])))
            for name, model in _regressors(table, seed).items()
        )
        for data, table in ((data, _doubles(table)) for data, table in rows.items())
    }
    return scored("guess", "nothing", middle), found


def r_squared(guess: Floats, truth: Floats, *, baseline: Floats, level: float = 0.95) -> Estimate:
    """Share of the baseline's squared error that is gone, `1 − Σ(u − û)² / Σ(u − ū)²`, with its
    interval.

    A ratio of two means: its standard error is that of its linearisation (the delta method).

    Args:
        guess: (n,) û.
        truth: (n,) u.
        baseline: (n,) ū, what is guessed without data: the mean of the training rows.
        level: how often the interval should hold the truth.
    """
    own = np.square(truth - guess)
    blind = np.square(truth - baseline)
    if blind.sum() == 0:
        raise LowtideError(
            "u is the same number in every test row; give more rows, or predict classes"
        )
    ratio = own.mean() / blind.mean()
    return mean_with_interval(1 - ratio - (own - ratio * blind) / blind.mean(), level)


def _regressors(table: Any, seed: int) -> dict[str, Any]:
    state = derived_seed(seed, "utility")
    scaler = StandardScaler(with_mean=not sparse.issparse(table))
    models: dict[str, Any] = {
        "ridge regression": make_pipeline(scaler, RidgeCV(np.logspace(-2, 4, 7)))
    }
    if not sparse.issparse(table):
        models["boosted trees"] = HistGradientBoostingRegressor(
            max_iter=150, max_leaf_nodes=15, random_state=state
        )
    return models


def _doubles(table: Rows) -> Any:
    """Double precision; a sparse table of few columns is filled in, so that trees can read it."""
    narrow = sparse.issparse(table) and table.shape[1] <= _TREE_COLUMNS
    return (table.toarray() if narrow else table).astype(np.float64)


def _values(table: Any, u: ArrayLike | str) -> NDArray[Any]:
    """The utility column as (n,) values, none missing."""
    if isinstance(u, str):
        if not is_frame(table) or u not in nw.from_native(table, eager_only=True).columns:
            raise LowtideError(
                f"there is no column {u!r}; give u as one value per row, or name a column of the"
                " table"
            )
        u = nw.from_native(table, eager_only=True)[u].to_list()
    values = np.asarray(u)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise LowtideError(f"u must hold one value per row, got shape {values.shape}")
    # NaN differs from itself.
    if any(value is None or value != value for value in values.tolist()):  # noqa: PLR0124
        raise LowtideError("u has missing values (NaN or None); drop those rows")
    return values


def _is_number(values: NDArray[Any]) -> bool:
    return is_vector(values) or (
        values.dtype.kind in "iuf" and len(np.unique(values)) > _MOST_CLASSES
    )


def _codes(values: NDArray[Any]) -> Labels:
    """Classes as 0 … k−1, each with rows enough to train and to test on."""
    _, codes, counts = np.unique(values.astype(str), return_inverse=True, return_counts=True)
    if len(counts) < 2:
        raise LowtideError("u has one class; there is nothing to predict")
    if counts.min() < FEWEST_ROWS:
        raise LowtideError(
            f"{int((counts < FEWEST_ROWS).sum())} of the {len(counts)} classes of u have fewer than"
            f" {FEWEST_ROWS} rows; merge or drop them, or say kind='number'"
        )
    return np.asarray(codes, dtype=np.intp)


def _itself(u: Any, values: NDArray[Any], tables: list[Any]) -> tuple[str, ...]:
    """The columns that are the utility column: by name, or equal to it in every row of some
    table.
    """
    name = u if isinstance(u, str) else getattr(u, "name", None)
    found = [column for table in tables for column in same_columns(table, values)]
    for table in filter(is_frame, tables):
        found += [
            str(column)
            for column in nw.from_native(table, eager_only=True).columns
            if column == name
        ]
    return tuple(dict.fromkeys(found))
