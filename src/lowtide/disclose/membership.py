"""What is told by *where* values were hidden, and by what is left of them: an estimate, never a
bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from lowtide.checks import LowtideError, booleans, check_shape, class_codes, count, within
from lowtide.interface import Estimate
from lowtide.theory import hockey_stick, response
from lowtide.types import Floats

Side = Literal["forward", "reverse"]
SIDES: tuple[Side, ...] = ("forward", "reverse")
Responses = Sequence[Sequence[tuple[float, int]]]
_FOLDS = 20  # of the jackknife behind the interval


@dataclass(frozen=True)
class Membership:
    """An estimate of what the places of the hidden values tell, with values hidden row by row; not
    a bound.

    `E_γ` below is the divergence between the worst two values of a hidden feature: θ_γ where it is
    noised.

    Attributes:
        epsilon: ε of each feature.
        forward: `Σ_j p_j·E_{γ q_j/p_j}` of the class where it is largest.
        reverse: `Σ_j q_j·E_{γ p_j/q_j}` of the class where it is largest.
        hidden: q_j, the share of rows where each feature was hidden, (m,).
    """

    epsilon: float
    forward: Estimate
    reverse: Estimate
    hidden: tuple[float, ...]


def hidden_shares(
    hidden: ArrayLike, s: ArrayLike, *, classes: int
) -> tuple[Floats, Floats, Floats]:
    """How often each feature was hidden: p (|S|, m) within each class, q (m,) overall; and the
    class shares (|S|,).

    The p of a class of few rows shows how those very rows were treated: it does not belong on a
    card.

    Args:
        hidden: (n, m) booleans.
        s: (n,) codes 0 … classes − 1.
        classes: |S|.
    """
    counts, rows = (part.sum(axis=0) for part in _in_folds(hidden, s, classes))
    prior = rows / rows.sum()
    p = counts / rows[:, None]
    return p, prior @ p, prior


def membership(
    hidden: ArrayLike,
    s: ArrayLike,
    *,
    ratios: ArrayLike,
    epsilon: float,
    classes: int,
    responses: Responses = (),
    level: float = 0.95,
) -> Membership:
    """Estimate what is told by *where* values were hidden, and by what noise and random answers
    leave of them.

    Each feature counts as if nothing had been disclosed before it: p_j and q_j are averages over
    the pasts. The term is convex in (p, q), so where the past tells nothing about the secret this
    is a lower estimate of the term that bounds the release; where the past does tell, it can lie on
    either side.

    Args:
        hidden: (n, m) whether each value was hidden.
        s: (n,) codes of the secret, 0 … classes − 1.
        ratios: (m,) D/λ of each feature; columns redacted or answered at random add 0.
        epsilon: ε ≥ 0 of each feature.
        classes: |S|.
        responses: for each of the m features, (keep, categories) of each of its columns that is
            answered at random; by default none is.
        level: how often the interval (a jackknife over blocks of rows) should hold the term.
    """
    counts, rows = _in_folds(hidden, s, classes)
    ratios = within("ratios", ratios, 0.0, np.inf, high_open=True)
    check_shape("ratios", ratios.shape, counts.shape[2:])
    answers = list(responses) or [()] * len(ratios)
    if len(answers) != len(ratios):
        raise LowtideError(
            f"responses must be one list per feature, {len(ratios)}, got {len(answers)}"
        )
    epsilon = float(within("epsilon", epsilon, 0.0, np.inf, high_open=True))
    level = float(within("level", level, 0.0, 1.0, low_open=True, high_open=True))
    p, q, prior = hidden_shares(hidden, s, classes=classes)
    without = _leaving_out(counts, rows, p)
    sides = []
    for side in SIDES:
        whole = _term(p, np.broadcast_to(q, p.shape), ratios, answers, epsilon, side)
        worst = int(whole.argmax())
        parts = _term(without[:, worst], prior @ without, ratios, answers, epsilon, side)
        half = float(ndtri(0.5 + level / 2) * np.sqrt((_FOLDS - 1) * parts.var()))
        value = float(whole[worst])
        sides.append(Estimate(value, max(0.0, value - half), value + half, int(rows.sum())))
    return Membership(epsilon, sides[0], sides[1], tuple(q.tolist()))


def _leaving_out(counts: Floats, rows: Floats, p: Floats) -> Floats:
    """p without each fold in turn, (folds, |S|, m)."""
    others = rows.sum(axis=0) - rows
    without = (counts.sum(axis=0) - counts) / np.maximum(others, 1)[..., None]
    return np.where(others[..., None] > 0, without, p)  # a class of one row cannot be left out


def _term(
    p: Floats, q: Floats, ratios: Floats, answers: Responses, epsilon: float, side: Side
) -> Floats:
    """`Σ_j` of the selective bounds: (k,) from p and q (k, m)."""
    bounds = hockey_stick.selective(epsilon, ratios, 1.0, p, q, side)
    ours = p if side == "forward" else q
    theirs = q if side == "forward" else p
    for j, answer in enumerate(answers):
        keeps = [keep for keep, _ in answer]
        categories = [k for _, k in answer]
        if any(keeps):
            # `p·E_{γq/p}` of the feature's noise and answers together, where `selective` knows the
            # noise alone
            some = ours[:, j] > 0
            with np.errstate(divide="ignore"):
                inner = epsilon + np.log(theirs[some, j]) - np.log(ours[some, j])
            bounds[some, j] = ours[some, j] * response.pairwise(
                inner, float(ratios[j]), keeps, categories
            )
    return np.asarray(bounds.sum(axis=-1))


def _in_folds(hidden: ArrayLike, s: ArrayLike, classes: int) -> tuple[Floats, Floats]:
    """How many rows were hidden (folds, |S|, m), and how many there are (folds, |S|)."""
    flags = booleans("hidden", hidden, ("n", "m"))
    classes = count("classes", classes, 2)
    if not flags.size:
        raise LowtideError("hidden has no entries; give one row or more, and one feature or more")
    codes = class_codes("s", s, len(flags), classes)
    sizes = np.bincount(codes, minlength=classes)
    if not sizes.all():
        raise LowtideError(
            f"{int((sizes == 0).sum())} of the {classes} classes have no row; leave them out of"
            " `classes`"
        )
    # Rows of a class are dealt to the folds in turn, so that a fold never holds all of a class of
    # two or more.
    order = np.argsort(codes, kind="stable")
    turn = (np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)) % _FOLDS
    cell = turn * classes + codes[order]
    counts = np.zeros((_FOLDS * classes, flags.shape[1]))
    np.add.at(counts, cell, flags[order])
    rows = np.bincount(cell, minlength=_FOLDS * classes).astype(np.float64)
    return counts.reshape(_FOLDS, classes, -1), rows.reshape(_FOLDS, classes)
