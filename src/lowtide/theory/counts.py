"""Upper bounds on what anybody can learn from one row of a release, from a table of counts alone.

A release takes finitely many values (cells). From the counts of independent rows, every function
here bounds what the best rule learns, whatever it is and however it was found. The best rule is
unknown but fixed, and the plug-in figure of the counts is the largest over all rules: it is at
least what the best rule gets on these rows. So an upper confidence limit of that is one of the
plug-in figure, and the number of cells does not enter. Many cells make the plug-in large by
themselves: the bound is wide exactly where the rows cannot tell. Statements and proofs are in
docs/theory.md.

The rows must have had no part in choosing the release. Where it was chosen among M on these rows,
ask each for `failure / M`. Where cells are noised or answered at random before they are released,
give the counts of the cells and the `channel`, (cells, outputs), dense or sparse: the probability
of each output (`lowtide.theory.channels`).
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, rel_entr, xlogy

from lowtide.checks import LowtideError, real, within
from lowtide.theory import shares
from lowtide.types import Floats

# λ of the Chernoff bound. The bound holds for all of them at once, so more cost nothing; below
# 0.005 none is best up to ten million rows.
_RATES = np.geomspace(0.005, 0.99, 96)
# Shares of the failure probability that go into what the shares of the classes may be: an error
# there costs little.
_FOR_SHARES = 0.15
_FOR_PRIOR = 0.05
_RARE = (0.25, 0.05, 0.01, 0.002)  # probabilities of events for which λ is chosen
_SPREADS = (
    4.0,
    16.0,
    64.0,
)  # 1/v for a class of 50 %, 7 % or 2 %: the variance v by which λ is chosen


def accuracy(
    counts: ArrayLike, failure: float = 0.05, *, channel: ArrayLike | None = None
) -> float:
    """An upper bound on how often any rule guesses the class right.

    Args:
        counts: (|S|, cells) how often each class was seen in each cell.
        failure: the probability with which the bound may fail.
        channel: (cells, outputs) with which probability a cell is shown as each output; cells as
            they are by default.
    """
    table, failure = _read(counts, failure)
    shown = _shown(table, channel)
    return _upper(
        float(shown.max(axis=0).sum()), float(table.sum()), failure, exact=channel is None
    )


def information(
    counts: ArrayLike, failure: float = 0.05, *, channel: ArrayLike | None = None
) -> float:
    """An upper bound on the information I(S; Y) of one row, in nats; arguments as in `accuracy`.

    `(1 − e^{−λx − log(1/α)/n}) / (λ − c)` for the best λ. There x = Î + KL, where Î is the plug-in
    figure and KL bounds how far the shares of the classes are from their true ones; c follows from
    the largest density `log 1/π_min`.
    """
    table, failure = _read(counts, failure)
    return limit_of_information(
        plug_in_information(_shown(table, channel)), table.sum(axis=1), failure
    )


def plug_in_information(counts: ArrayLike) -> float:
    """The information I(S; Y) of the law whose probabilities are the shares of counts (|S|, cells),
    in nats.
    """
    table = np.asarray(counts, dtype=np.float64)
    n = table.sum()
    ends = (
        xlogy(table.sum(axis=1), table.sum(axis=1)).sum()
        + xlogy(table.sum(axis=0), table.sum(axis=0)).sum()
    )
    return max(0.0, float((xlogy(table, table).sum() - ends + xlogy(n, n)) / n))


def limit_of_information(plug_in: float, classes: ArrayLike, failure: float) -> float:
    """The bound of `information` for a plug-in figure and the number of rows (|S|,) of every
    class.
    """
    rows = np.asarray(classes, dtype=np.float64)
    n = float(rows.sum())
    rarest, off = _prior_limits(rows, failure)
    if rarest == 0:
        return float("inf")
    largest = -np.log(rarest)
    sure = -np.log((1 - _FOR_SHARES - _FOR_PRIOR) * failure) / n
    c = (np.expm1(-_RATES * largest) + _RATES * largest) / (np.expm1(-largest) + largest)
    usable = c < _RATES
    bounds = -np.expm1(-_RATES * (plug_in + off) - sure)[usable] / (_RATES - c)[usable]
    return float(min(bounds, default=np.inf))


def divergence(
    counts: ArrayLike, epsilon: float, failure: float = 0.05, *, channel: ArrayLike | None = None
) -> tuple[float, float]:
    """Upper bounds on `E_γ(P_{Y|s} ‖ P_Y)` and `E_γ(P_Y ‖ P_{Y|s})`, each the largest over the
    classes, at γ = e^ε.

    Args:
        counts: (|S|, cells) how often each class was seen in each cell.
        epsilon: ε ≥ 0.
        failure: the probability with which either bound may fail, for any class.
        channel: (cells, outputs) with which probability a cell is shown as each output; cells as
            they are by default.
    """
    table, failure = _read(counts, failure)
    gamma = float(np.exp(within("epsilon", epsilon, 0.0, np.inf, high_open=True)))
    if (table.sum(axis=1) == 0).any():
        raise LowtideError(
            "a class has no rows, so nothing is known of what it shows; leave the class out"
        )
    shown = _shown(table, channel)
    each = failure / len(table)
    side = (1 - _FOR_SHARES) * each / 2
    forward = []
    reverse = []
    for own, rows in zip(shown, table, strict=True):
        other = shown.sum(axis=0) - own
        inside = float(rows.sum())
        outside = float(table.sum() - rows.sum())
        share = lowest_share(inside, inside + outside, _FOR_SHARES * each)
        # A class may be so frequent that no event is γ times as likely within it as overall.
        weight = max(0.0, 1 - gamma * share)
        forward.append(_excess((own, inside, weight), (other, outside, gamma * (1 - share)), side))
        reverse.append(_excess((other, outside, 1 - share), (own, inside, gamma - share), side))
    return min(1.0, max(forward)), min(1.0, max(reverse))


def pointwise(
    counts: ArrayLike, epsilon: float, failure: float = 0.05, *, channel: ArrayLike | None = None
) -> tuple[float, float]:
    """Upper bounds on `Pr(max_s i(s; Y) > ε)` and on `Pr(max_s −i(s; Y) > ε)`; arguments as in
    `divergence`.

    The first is the δ of pointwise maximal leakage: all but a share δ of the rows raise no class's
    probability by more than e^ε. The second says the same of lowering it.
    """
    table, failure = _read(counts, failure)
    grown = float(np.exp(within("epsilon", epsilon, 0.0, np.inf, high_open=True)))
    shown = _shown(table, channel)
    shown = shown[:, shown.sum(axis=0) > 0]
    n = int(table.sum())
    rows = table.sum(axis=1)
    half = failure / 2
    each = _FOR_SHARES * half / len(table)
    exact = channel is None
    raised = np.minimum(grown * shares.lower_limit(rows, n, each), 1.0)
    lowered = shares.upper_limit(rows, n, each) / grown
    return _tail(shown, raised, 1, half, exact=exact), _tail(shown, lowered, -1, half, exact=exact)


def lowest_share(rows: float, of: float, failure: float) -> float:
    """The lower confidence limit (Clopper–Pearson) of a share that was seen in `rows` of `of`
    rows.
    """
    return float(shares.lower_limit(rows, int(of), failure))


def count_cells(rows: ArrayLike, codes: ArrayLike, classes: int) -> Floats:
    """Counts (classes, cells) of rows (n, columns) that show the same values, by the class (n,) of
    each row.
    """
    values = np.asarray(rows)
    codes = np.asarray(codes)
    if values.shape[1] == 0:
        return np.bincount(codes, minlength=classes).astype(np.float64)[:, None]
    cell = np.unique(values, axis=0, return_inverse=True)[1].ravel()
    table = np.zeros((classes, int(cell.max()) + 1))
    np.add.at(table, (codes, cell), 1.0)
    return table


def _tail(shown: Floats, chance: Floats, sign: int, failure: float, *, exact: bool) -> float:
    """Bound the probability of the outputs T that show some class with more (sign 1) or less (−1)
    than its `chance`.

    Given what the rows show, the class that an output of T is about is drawn with at least (at
    most) that chance. So an output that shows it too rarely (too often) for that is not in T. It
    can be judged by itself, or all of T together.
    """
    possible = chance < 1
    if not possible.any():
        return 0.0
    last = (1 - _FOR_SHARES) * failure / 4
    own = shown[possible]
    limits = chance[possible]
    n = float(shown.sum())
    whole = _tail_together(
        own, limits, sign, shown.sum(axis=0), 3 * last if not exact else 2 * last, last, exact=exact
    )
    if not exact:
        return whole
    left = _not_excluded(own, limits, sign, shown.sum(axis=0), last)
    return min(whole, _upper(left, n, last, exact=True))


def _not_excluded(own: Floats, chance: Floats, sign: int, size: Floats, failure: float) -> float:
    """How many rows are in cells of which some class is not too rare, or too frequent, for its
    chance (binomial tail).

    A cell takes its share of the failure probability: those of few rows could not be excluded
    anyway.
    """
    others = size - own
    theta = chance[:, None]
    # Tails of the binomial law as incomplete beta functions: at most, or at least, as many as were
    # seen.
    if sign > 0:
        seen = np.where(others > 0, betainc(np.maximum(others, 1), own + 1, 1 - theta), 1.0)
    else:
        seen = np.where(own > 0, betainc(np.maximum(own, 1), others + 1, theta), 1.0)
    return float(size[(seen > failure * size / size.sum()).any(axis=0)].sum())


def _tail_together(
    own: Floats,
    chance: Floats,
    sign: int,
    size: Floats,
    failure: float,
    last: float,
    *,
    exact: bool,
) -> float:
    """The bound from all outputs together (Chernoff): the largest set of them that is not too rare
    as a whole.

    λ is chosen by the true probability of that set, a power of two at a time; so it is not chosen
    by the rows.
    """
    n = float(size.sum())
    budget = -np.log(failure / len(_SPREADS))
    best = 1.0
    for spread in _SPREADS:
        most = 0.0
        above = 1.0
        while True:
            rate = min(np.sqrt(2 * budget * spread / (n * above)), 3.0)
            reached = _upper(
                _largest_set(own, chance, size, sign * rate, budget), n, last, exact=exact
            )
            below = 0.0 if above * n < 1 else above / 2
            if reached > below:
                most = max(most, min(above, reached))
            if below == 0.0 or most >= below:
                break
            above = below
        best = min(best, most)
    return best


def _largest_set(own: Floats, chance: Floats, size: Floats, rate: float, budget: float) -> float:
    """The most rows of a set of outputs whose classes are not too rare, or too frequent, for their
    chance.
    """
    # log E exp(−λ·[class s]) of a row that shows class s with just this chance.
    expected = np.log1p(chance * np.expm1(-rate))[:, None]
    weight = (rate * own + expected * size).max(axis=0)
    free = weight >= 0
    left = budget + weight[free].sum()
    order = np.argsort(-weight[~free] / size[~free])
    spent = np.cumsum(-weight[~free][order])
    sizes = size[~free][order]
    whole = int(np.searchsorted(spent, left, side="right"))
    part = 0.0
    if whole < len(spent):
        before = spent[whole - 1] if whole else 0.0
        part = sizes[whole] * (left - before) / (spent[whole] - before)
    return float(size[free].sum() + sizes[:whole].sum() + part)


def _upper(right: float, of: float, failure: float, *, exact: bool) -> float:
    """An upper limit of the mean of n values in [0, 1] that sum to `right`; Clopper–Pearson where
    all are 0 or 1.
    """
    if exact:
        return float(shares.upper_limit(np.floor(right + 1e-9), int(of), failure))
    mean = min(right / of, 1.0)
    most = -np.log(failure) / of

    def above(limit: float) -> float:
        return float(rel_entr(mean, limit) + rel_entr(1 - mean, 1 - limit)) - most

    top = 1.0 - 1e-15
    if mean >= top or above(top) <= 0:
        return 1.0

    from scipy import optimize

    return float(optimize.brentq(above, mean, top, xtol=1e-12)) + 1e-12


def _prior_limits(rows: Floats, failure: float) -> tuple[float, float]:
    """A lower limit of the rarest class's share, and an upper limit of `KL(p̂ ‖ p)` of the shares
    p̂ of the classes.
    """
    n = int(rows.sum())
    seen = rows / rows.sum()
    if len(rows) > 2:
        rarest = shares.lower_limit(rows, n, _FOR_PRIOR * failure / len(rows)).min()
        return float(rarest), _divergence_of_shares(len(rows), n, _FOR_SHARES * failure)
    side = (_FOR_SHARES + _FOR_PRIOR) * failure / 2
    ends = np.array(
        [shares.lower_limit(rows, n, side), 1 - shares.lower_limit(rows[::-1], n, side)]
    )
    with np.errstate(divide="ignore"):
        off = rel_entr(seen[0], ends[:, 0]) + rel_entr(1 - seen[0], 1 - ends[:, 0])
    return float(ends[0].min()), float(off.max())


def _divergence_of_shares(classes: int, n: float, failure: float) -> float:
    """What `KL(p̂ ‖ p)` of the shares of classes exceeds with probability at most `failure`.

    `e^{−nt}(ent/(k−1))^{k−1}` for k classes (Agrawal 2020).
    """
    from scipy import optimize

    free = classes - 1

    def exceeds(t: float) -> float:
        return -n * t + free * (1 + np.log(n * t / free)) - np.log(failure)

    high = 2 * free / n
    while exceeds(high) > 0:
        high *= 2
    return float(optimize.brentq(exceeds, free / n, high))


def _excess(
    likelier: tuple[Floats, float, float], rarer: tuple[Floats, float, float], failure: float
) -> float:
    """Bound `max_A a·P(A) − b·Q(A)` from counts under P and under Q, each with its number of rows
    and its weight.

    The smaller of two bounds: Hoeffding's, and Chernoff's with `log E e^{−λ[A]} ≤ −P(A)(1 −
    e^{−λ})`, which is far better for rare events. Its λ is that of an event of each of a few
    probabilities.
    """
    (own, n, a) = likelier
    (other, m, b) = rarer
    if a == 0:
        return 0.0
    plug_in = float(np.maximum(a * own / n - b * other / m, 0).sum())
    sure = -np.log(0.75 * failure)
    best = plug_in + np.sqrt(0.5 * sure * (a**2 / n + b**2 / m))
    sure = -np.log(0.25 * failure / len(_RARE))
    for probability in _RARE:
        rate = min(np.sqrt(2 * sure / (n * probability)), 3.0)
        scale = -n * np.expm1(-rate) / a
        against = np.log1p(b * scale / m)
        best = min(best, (np.maximum(rate * own - against * other, 0).sum() + sure) / scale)
    return float(best)


def _shown(table: Floats, channel: ArrayLike | None) -> Floats:
    """Counts of what is released, (|S|, outputs); expected ones where cells go through a
    channel.
    """
    if channel is None:
        return table
    from scipy import sparse

    matrix = sparse.csr_array(channel) if sparse.issparse(channel) else real("channel", channel)
    if matrix.ndim != 2 or matrix.shape[0] != table.shape[1]:
        raise LowtideError(
            f"channel must have one row for each of the {table.shape[1]} cells, got {matrix.shape}"
        )
    if matrix.min() < 0 or not np.allclose(matrix.sum(axis=1), 1.0, atol=1e-9):
        raise LowtideError("every row of channel must hold probabilities that add up to 1")
    return np.asarray(table @ matrix)


def _read(counts: ArrayLike, failure: float) -> tuple[Floats, float]:
    table = real("counts", counts)
    if table.ndim != 2 or len(table) < 2 or (table < 0).any() or table.sum() == 0:
        raise LowtideError(
            "counts must be a table of how often each of two or more classes was seen in each cell"
        )
    return table, float(within("failure", failure, 0.0, 1.0, low_open=True, high_open=True))
