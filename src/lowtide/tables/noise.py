"""Noise on columns: how much of it keeps a promise, how a promise is shared between columns, and how it is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lowtide.errors import LowtideError, probabilities, within
from lowtide.tables.encoder import TableEncoder
from lowtide.tables.layout import Kind
from lowtide.theory import calibration, response
from lowtide.types import Floats, Floats32

_NEED_EPSILON = "give epsilon and delta, and it is calibrated"


def pairwise_targets(epsilon: float, delta: float, prior: ArrayLike | None) -> list[tuple[float, float]]:
    """What must hold between any two rows so that (ε, δ) holds about the secret, for each class and direction.

    About a class of prior π the bound is `c·E_{e^ε'}` of two rows (`response.lift`), so it is enough that two rows keep
    (ε', δ/c). Without a prior they must keep (ε, δ) itself, which is enough for every prior.
    """
    epsilon = float(within("epsilon", epsilon, 0.0, np.inf, high_open=True))
    delta = float(within("delta", delta, 0.0, 1.0, low_open=True, high_open=True))
    if prior is None:
        return [(epsilon, delta)]
    shares = np.unique(probabilities("prior", prior))
    targets = []
    for direction in ("forward", "reverse"):
        weights, inner = response.lifted(epsilon, shares[(shares > 0) & (shares < 1)], direction)
        targets += [(float(e), delta / float(c)) for c, e in zip(weights, inner, strict=True) if c > delta]
    if not targets:
        raise LowtideError(
            f"epsilon {epsilon:.6g} and delta {delta:.6g} promise nothing: with these class shares every release keeps "
            "them, full disclosure included; ask for less of either"
        )
    return targets


def allocate(
    targets: list[tuple[float, float]], numbers: int, categories: Sequence[int]
) -> tuple[float | None, list[float]]:
    """Noise for columns of numbers and for responses that together keep every target, all of them hidden at once.

    With both kinds, half of ε and nothing of δ goes to the responses, in even shares, and the other half with all of δ
    to the numbers. Alone, a kind gets all of both. Shares add up (paper, Thm 2); the promise holds with room to spare.

    Args:
        targets: pairs (ε, δ) to hold between any two rows.
        numbers: how many columns get Gaussian noise; together they are one Gaussian of distance √numbers.
        categories: the k of each response.

    Returns:
        λ in units of a column's range (`None` without numbers), and the keep of each response.
    """
    part = 1.0 if numbers == 0 else 0.5
    rest = 1.0 if not categories else 0.5
    count = max(1, len(categories))
    keeps = [
        min(
            float(response.keep_for(part * epsilon / count, delta / count if numbers == 0 else 0.0, k))
            for epsilon, delta in targets
        )
        for k in categories
    ]
    if numbers == 0:
        return None, keeps
    distance = math.sqrt(numbers)
    return max(float(calibration.scale_for(rest * epsilon, delta, distance)) for epsilon, delta in targets), keeps


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
            raise LowtideError(f"a response needs a probability of telling the truth; {_NEED_EPSILON}")
        if numbers and lam is None:
            raise LowtideError(f"gaussian noise needs a scale; give lam, or {_NEED_EPSILON}")
        return (lam if numbers else None), keeps
    if not (answering or (numbers and lam is None)):
        return (lam if numbers else None), keeps
    calibrated, told = allocate(pairwise_targets(epsilon, delta, prior), numbers, [sizes[j] for j in answering])
    keeps[answering] = told
    return (calibrated if lam is None else lam), keeps


def add_noise(values: Floats32, normal: Floats, scale: Floats, low: Floats, high: Floats, *, clip: bool) -> Floats32:
    """Gaussian noise on numbers of a bounded range.

    Args:
        values: (n, columns); clipped to the range first, which is what makes its diameter true.
        normal: (n, columns) standard normal numbers.
        scale: (columns,) λ.
        low: (columns,) lower ends of the ranges.
        high: (columns,) upper ends.
        clip: whether the sum is clipped to the range again; post-processing, which never raises E_γ.

    Returns:
        (n, columns) sums of doubles, rounded to single precision: the last bits of a double, from which values could be
        told apart, do not get out.
    """
    noised = np.clip(values.astype(np.float64), low, high) + scale * normal
    return (np.clip(noised, low, high) if clip else noised).astype(np.float32)


def answer(truth: Floats32, uniform: Floats, keep: float) -> Floats32:
    """Randomised response on one-hot rows; a category the encoder does not know is answered evenly.

    Args:
        truth: (n, k) one-hot, or all zeros for an unknown category.
        uniform: (n,) numbers in (0, 1).
        keep: the probability of telling the truth outright.

    Returns:
        (n, k) one-hot.
    """
    k, known = truth.shape[1], truth.any(axis=1)
    told = known & (uniform < keep)
    # Where it is not told, (u − keep)/(1 − keep) is uniform again; for an unknown category u itself is.
    again = np.where(known, (uniform - keep) / max(1.0 - keep, np.finfo(float).tiny), uniform)
    again = np.clip(again, 0.0, 1.0)  # where it is told the quotient is of no use, and may be huge
    drawn = np.minimum((again * k).astype(np.intp), k - 1)
    return np.eye(k, dtype=np.float32)[np.where(told, truth.argmax(axis=1), drawn)]
