"""How the bounds of `lowtide.theory.counts` fall with the number of rows, and how many would show a
limit.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from lowtide.checks import LowtideError, count, one_of, real, within
from lowtide.theory import counts as bounds
from lowtide.theory import shares
from lowtide.types import Floats

Quantity = Literal["nats", "accuracy"]
_DRAWS = 8  # of fewer rows, over which a point is averaged
_MOST_ROWS = 10**9


@dataclass(frozen=True)
class CountPoint:
    """What so many rows say.

    Attributes:
        rows: their number.
        cells: how many different ones there are among them.
        found: how often the rule that fits these rows best is right on them (plug-in).
        accuracy: how often any rule is right at most.
        told: the information of the counts themselves, in nats (plug-in).
        information: the most that one row tells, in nats; infinite where nothing can be said.
    """

    rows: int
    cells: float
    found: float
    accuracy: float
    told: float
    information: float


def learning_curve(
    counts: ArrayLike, failure: float, rng: np.random.Generator, *, halvings: int = 4
) -> tuple[CountPoint, ...]:
    """The bounds from n, n/2, n/4, … rows drawn from those that were counted, fewest first;
    averages over some draws.

    A bound that still falls at its end would fall further with more rows.

    Args:
        counts: (|S|, cells) how often each class was seen in each cell.
        failure: the probability with which each bound may fail.
        rng: draws the rows.
        halvings: how often to halve; stops at 20 rows.
    """
    table = real("counts", counts)
    n = int(table.sum())
    sizes = [n >> k for k in range(count("halvings", halvings, 0) + 1) if k == 0 or n >> k >= 20]
    return tuple(_point(table, size, failure, rng) for size in reversed(sizes))


def rows_needed(
    counts: ArrayLike, limit: float, quantity: Quantity, failure: float, rng: np.random.Generator
) -> int | None:
    """About how many rows would bring a bound down to a limit, if further rows are like those
    counted.

    The plug-in figure falls with the rows, too: what it will be is extrapolated from halves of the
    rows. It falls like `1/n` in nats, and like `1/√n` where two classes are equally frequent in a
    cell.

    Args:
        counts: (|S|, cells) how often each class was seen in each cell.
        limit: what the bound is to show: nats, or a share of right guesses.
        quantity: `nats` or `accuracy`.
        failure: the probability with which the bound may fail.
        rng: draws the halves.

    Returns:
        How many; `None` where no number would: what the rows tell is about as much as the limit, or
        more.
    """
    one_of("quantity", quantity, ("nats", "accuracy"))
    table = real("counts", counts)
    within("limit", limit, 0.0, np.inf, high_open=True)
    n = int(table.sum())
    classes = table.sum(axis=1)
    if n < 4:
        raise LowtideError(f"counts are of {n} rows; extrapolation needs at least 4")
    power = 1.0 if quantity == "nats" else 0.5
    half = _point(table, n // 2, failure, rng)
    whole = _point(table, n, failure, rng)
    late = whole.told if quantity == "nats" else whole.found
    early = half.told if quantity == "nats" else half.found
    fall = max(0.0, early - late) / (2**power - 1)
    least = 0.0 if quantity == "nats" else float(classes.max() / n)
    rest = max(least, late - fall)

    def bound(rows: int) -> float:
        plug_in = rest + (late - rest) * (n / rows) ** power
        if quantity == "accuracy":
            return float(shares.upper_limit(min(plug_in, 1.0) * rows, rows, failure))
        return bounds.limit_of_information(
            plug_in, np.maximum(np.round(classes * rows / n), 0), failure
        )

    if bound(_MOST_ROWS) > limit:
        return None
    low = 1
    high = _MOST_ROWS
    while high - low > max(1, low // 100):
        middle = int(math.sqrt(low * high)) if high > 2 * low else (low + high) // 2
        if bound(middle) > limit:
            low = middle
        else:
            high = middle
    return high


def _point(table: Floats, rows: int, failure: float, rng: np.random.Generator) -> CountPoint:
    """The average over draws of so many rows; of all rows there is one draw."""
    whole = int(table.sum())
    flat = table.ravel().astype(np.int64)
    found = []
    for _ in range(1 if rows == whole else _DRAWS):
        drawn = (
            flat
            if rows == whole
            else rng.multivariate_hypergeometric(flat, rows, method="marginals")
        )
        part = drawn.reshape(table.shape).astype(np.float64)
        found.append(
            (
                float((part.sum(axis=0) > 0).sum()),
                float(part.max(axis=0).sum() / rows),
                bounds.accuracy(part, failure),
                bounds.plug_in_information(part),
                bounds.information(part, failure),
            )
        )
    return CountPoint(rows, *(float(value) for value in np.mean(found, axis=0)))
