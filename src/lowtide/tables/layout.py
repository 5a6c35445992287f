"""Which encoded columns belong to which input column and feature, how each column is hidden, and
its range.

Noise on columns: how much of it keeps a promise, how a promise is shared between columns, and how
it is drawn.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from lowtide.checks import LowtideError, probabilities, within
from lowtide.features import Features
from lowtide.tables.columns import rounded_range
from lowtide.tables.encoder import TableEncoder
from lowtide.theory import calibration, response
from lowtide.types import Bools, Floats, Floats32, Ints

Kind = Literal["redact", "gaussian", "response"]
Bounds = Mapping[str, tuple[float, float]] | tuple[float, float]


def column_names(encoder: TableEncoder) -> tuple[str, ...]:
    """The names of the input columns; `x1`, `x2`, … when there are none."""
    return encoder.names or tuple(f"x{j + 1}" for j in range(len(encoder.categories)))


def column_starts(encoder: TableEncoder) -> tuple[int, ...]:
    """Where each input column begins among the encoded ones; one entry more than columns."""
    return (0, *np.cumsum(encoder.widths).tolist())


def owners(encoder: TableEncoder, features: Features) -> Ints:
    """The feature of each input column."""
    starts = column_starts(encoder)
    if starts[-1] != len(features.groups):
        raise LowtideError(
            f"features speak of {len(features.groups)} encoded columns, the encoder gives"
            f" {starts[-1]}"
        )
    first = features.groups[list(starts[:-1])]
    if not np.array_equal(np.repeat(first, np.diff(starts)), features.groups):
        broken = np.repeat(first, np.diff(starts)) != features.groups
        place = int(np.searchsorted(starts, np.flatnonzero(broken)[0], side="right")) - 1
        raise LowtideError(
            f"column {column_names(encoder)[place]!r} is split over several features; "
            "all its encoded columns must belong to one"
        )
    return first


def choose_kinds(
    encoder: TableEncoder, features: Features, number: Kind, categorical: Kind, keep: Sequence[str]
) -> tuple[Kind, ...]:
    """How each input column is hidden; for those of the features named in `keep` no noise is
    planned.
    """
    if isinstance(keep, str):
        raise LowtideError("keep must be a list of names of features, got a single text")
    strange = [name for name in keep if name not in features.names]
    if strange:
        raise LowtideError(f"keep names {', '.join(map(repr, strange))}, which is not a feature")
    kept = [features.names[owner] in keep for owner in owners(encoder, features)]
    kinds = [number if values is None else categorical for values in encoder.categories]
    return tuple("redact" if stays else kind for stays, kind in zip(kept, kinds, strict=True))


def ranges(encoder: TableEncoder, rows: Any, bounds: Bounds | None) -> tuple[Floats, Floats]:
    """The lower and upper end of each input column that holds numbers or dates, (columns,) each;
    NaN for text.

    Marks of missing values have no range: they are never noised.

    Args:
        encoder: which columns hold numbers.
        rows: (n, encoded columns) reference rows, whose range counts where no bounds are given,
            rounded outwards.
        bounds: one pair for all columns of numbers, or a pair for some of them by name. The range
            of dates, in days since 1970-01-01, is given by name only: a pair that suits all numbers
            is none of theirs.
    """
    names = column_names(encoder)
    starts = np.array(column_starts(encoder))[:-1]
    given = _given(encoder, names, bounds)
    number = np.array([values is None for values in encoder.categories])
    low = np.full(len(names), np.nan)
    high = np.full(len(names), np.nan)
    if len(given) < number.sum():
        if rows.shape[1] != column_starts(encoder)[-1]:
            raise LowtideError(
                f"rows must have {column_starts(encoder)[-1]} encoded columns, got {rows.shape[1]}"
            )
        ends = (rows.min(axis=0), rows.max(axis=0))
        least, most = (
            np.asarray(end.toarray() if sparse.issparse(end) else end).ravel() for end in ends
        )
        low[number], high[number] = rounded_range(least[starts[number]], most[starts[number]])
    for place, (bottom, top) in given.items():
        low[place] = bottom
        high[place] = top
    return low, high


def read_bounds(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Bounds by column from texts such as `age=0:120` or `born=1900-01-01:2020-12-31`."""
    found = {}
    for text in texts:
        name, _, pair = text.rpartition("=")
        try:
            low, high = (_end(end) for end in pair.split(":"))
        except ValueError as error:
            raise LowtideError(
                f"bounds must read COLUMN=LOW:HIGH, such as age=0:120, got {text!r}"
            ) from error
        found[name] = _pair(f"bounds of {name!r}", (low, high))
    return found


def _end(text: str) -> float:
    """A number, or a day as days since 1970-01-01."""
    try:
        return float(text)
    except ValueError:
        return float((date.fromisoformat(text.strip()) - date(1970, 1, 1)).days)


def bounded(encoder: TableEncoder, bounds: Bounds | None) -> dict[int, tuple[float, float]]:
    """The ranges that are given, by the place of their input column."""
    return _given(encoder, column_names(encoder), bounds)


def _given(
    encoder: TableEncoder, names: tuple[str, ...], bounds: Bounds | None
) -> dict[int, tuple[float, float]]:
    """The bounds by the place of their column."""
    if bounds is None:
        return {}
    numbers = [j for j, values in enumerate(encoder.categories) if values is None]
    if not isinstance(bounds, Mapping):
        return dict.fromkeys(
            [j for j in numbers if encoder.dates[j] is None], _pair("bounds", bounds)
        )
    strange = [name for name in bounds if name not in {names[j] for j in numbers}]
    if strange:
        raise LowtideError(
            f"bounds names {', '.join(map(repr, strange))}, which is not a column of numbers"
        )
    return {
        j: _pair(f"bounds of {names[j]!r}", bounds[names[j]]) for j in numbers if names[j] in bounds
    }


def _pair(name: str, pair: Sequence[float]) -> tuple[float, float]:
    ends = within(name, pair, -np.inf, np.inf, low_open=True, high_open=True)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise LowtideError(f"{name} must be a pair (low, high) with low < high")
    return float(ends[0]), float(ends[1])


def refuse_constants(encoder: TableEncoder, features: Features, constant: Bools) -> None:
    """Name the first feature with a column, marked in (columns,), that has no range to scale noise
    by.
    """
    if constant.any():
        owner = owners(encoder, features)[np.flatnonzero(constant)[0]]
        raise LowtideError(
            f"feature {features.names[owner]!r} takes a single value in the reference rows, so its"
            " range is unknown; drop it, list it under keep, or give its bounds"
        )


_NEED_EPSILON = "give epsilon and delta, and it is calibrated"


def pairwise_targets(
    epsilon: float, delta: float, prior: ArrayLike | None
) -> list[tuple[float, float]]:
    """What must hold between any two rows so that (ε, δ) holds about the secret, for each class and
    direction.

    About a class of prior π the bound is `c·E_{e^ε'}` of two rows (`response.lift`), so it is
    enough that two rows keep (ε', δ/c). Without a prior they must keep (ε, δ) itself, which is
    enough for every prior.
    """
    epsilon = float(within("epsilon", epsilon, 0.0, np.inf, high_open=True))
    delta = float(within("delta", delta, 0.0, 1.0, low_open=True, high_open=True))
    if prior is None:
        return [(epsilon, delta)]
    shares = np.unique(probabilities("prior", prior))
    targets = []
    for direction in ("forward", "reverse"):
        weights, inner = response.lifted(epsilon, shares[(shares > 0) & (shares < 1)], direction)
        targets += [
            (float(e), delta / float(c)) for c, e in zip(weights, inner, strict=True) if c > delta
        ]
    if not targets:
        raise LowtideError(
            f"epsilon {epsilon:.6g} and delta {delta:.6g} promise nothing: with these class shares"
            " every release keeps them, full disclosure included; ask for less of either"
        )
    return targets


def allocate(
    targets: list[tuple[float, float]], numbers: int, categories: Sequence[int]
) -> tuple[float | None, list[float]]:
    """Noise for columns of numbers and for responses that together keep every target, all of them
    hidden at once.

    With both kinds, half of ε and nothing of δ goes to the responses, in even shares, and the other
    half with all of δ to the numbers. Alone, a kind gets all of both. Shares add up (paper, Thm 2);
    the promise holds with room to spare.

    Args:
        targets: pairs (ε, δ) to hold between any two rows.
        numbers: how many columns get Gaussian noise; together they are one Gaussian of distance
            √numbers.
        categories: the k of each response.

    Returns:
        λ in units of a column's range (`None` without numbers), and the keep of each response.
    """
    part = 1.0 if numbers == 0 else 0.5
    rest = 1.0 if not categories else 0.5
    count = max(1, len(categories))
    keeps = [
        min(
            float(
                response.keep_for(part * epsilon / count, delta / count if numbers == 0 else 0.0, k)
            )
            for epsilon, delta in targets
        )
        for k in categories
    ]
    if numbers == 0:
        return None, keeps
    distance = math.sqrt(numbers)
    return (
        max(
            float(calibration.scale_for(rest * epsilon, delta, distance))
            for epsilon, delta in targets
        ),
        keeps,
    )


def scales(
    encoder: TableEncoder,
    kinds: tuple[Kind, ...],
    lam: float | None,
    epsilon: float | None,
    delta: float | None,
    prior: ArrayLike | None,
) -> tuple[float | None, Floats]:
    """λ and the keep of every input column; a given λ wins over the calibrated one."""
    sizes = [len(values or ()) for values in encoder.categories]
    answering = [j for j, kind in enumerate(kinds) if kind == "response" and sizes[j] > 1]
    numbers = kinds.count("gaussian")
    keeps = np.zeros(len(kinds))
    if (epsilon is None) != (delta is None):
        raise LowtideError("epsilon and delta are one promise; give both or neither")
    if epsilon is None or delta is None:
        if answering:
            raise LowtideError(
                f"a response needs a probability of telling the truth; {_NEED_EPSILON}"
            )
        if numbers and lam is None:
            raise LowtideError(f"gaussian noise needs a scale; give lam, or {_NEED_EPSILON}")
        return (lam if numbers else None), keeps
    if not (answering or (numbers and lam is None)):
        return (lam if numbers else None), keeps
    calibrated, kept = allocate(
        pairwise_targets(epsilon, delta, prior), numbers, [sizes[j] for j in answering]
    )
    keeps[answering] = kept
    return (calibrated if lam is None else lam), keeps


def add_noise(values: Floats32, drawn: Floats, low: float, high: float, *, clip: bool) -> Floats32:
    """Gaussian noise on numbers of a bounded range.

    Args:
        values: (n,); clipped to the range first, which is what makes its diameter true.
        drawn: (n,) the noise.
        low: lower end of the range.
        high: upper end.
        clip: whether the sum is clipped to the range again; post-processing, which never raises
            E_γ.

    Returns:
        (n,) sums of doubles, rounded to single precision: the last bits of a double, from which
        values could be told apart, do not get out.
    """
    noised = np.clip(values.astype(np.float64), low, high) + drawn
    return (np.clip(noised, low, high) if clip else noised).astype(np.float32)
