"""How much noise keeps a promise, and how a promise is shared between columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lowtide.errors import Floats, LowtideError, probabilities, within
from lowtide.tables.encoder import TableEncoder
from lowtide.tables.layout import Kind
from lowtide.theory import calibration, response

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
