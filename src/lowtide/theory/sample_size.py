"""How many samples the paper's formula asks for, and the error it states for so many; a calculator,
no promise.
"""

import math

from lowtide.checks import LowtideError, count, within


def tide(
    error: float,
    *,
    parameters: int,
    trim: float = 3.0,
    lipschitz: float = 1.0,
    radius: float = 1.0,
    delta: float = 0.05,
) -> int:
    """Return the smallest n that satisfies the paper's condition for error η (paper, Thm 5, Eq. 33
    and Eq. 35).

    `n > 32 M² (d·log(16·L·C·√d / η) + log(2/δ)) / η²`. The error it is about is that of the
    objective, not of the density, and the constant lacks a factor of the order e^{2M}: no promise
    follows.

    Args:
        error: η > 0, in nats.
        parameters: d, the number of weights of the critic.
        trim: M > 0, the bound on |g|.
        lipschitz: L > 0, of the critic in its weights.
        radius: C > 0, of the ball the weights live in.
        delta: δ in (0, 1), the probability of failing that the paper states.
    """
    eta = float(within("error", error, 0.0, math.inf, low_open=True, high_open=True))
    m = float(within("trim", trim, 0.0, math.inf, low_open=True, high_open=True))
    size = float(within("lipschitz", lipschitz, 0.0, math.inf, low_open=True, high_open=True))
    size *= float(within("radius", radius, 0.0, math.inf, low_open=True, high_open=True))
    d = count("parameters", parameters, 1)
    failure = float(within("delta", delta, 0.0, 1.0, low_open=True, high_open=True))
    # A cover of fewer than one ball is one ball: the logarithm of its size is not negative.
    cover = max(0.0, d * math.log(16.0 * size * math.sqrt(d) / eta))
    bound = 32.0 * (m / eta) * (cover + math.log(2.0 / failure)) * (m / eta)
    if not math.isfinite(bound):
        raise LowtideError(
            f"error {error!r} needs more samples than a float can count; choose a larger error"
        )
    return math.floor(bound) + 1


_LARGEST = (
    1e6  # nats, with the smallest below: far outside what any number of rows or weights leads to
)
_HALVINGS = 100  # of the logarithm of the error: more digits than a float has


def tide_error(rows: int, *, parameters: int, trim: float = 3.0) -> float:
    """Return the least error η, in nats, for which `tide` asks for at most so many rows: η(n)
    (paper, Thm 5).

    It falls like √(d·log n / n). Above 2M it says nothing, as two functions within ±M never differ
    by more. L, C and δ are those that `tide` takes by default.

    Args:
        rows: n.
        parameters: d, the number of weights of the critic.
        trim: M > 0, the bound on |g|.
    """
    n = count("rows", rows, 1)
    low = 1 / _LARGEST
    high = _LARGEST
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if tide(middle, parameters=parameters, trim=trim) <= n:
            high = middle
        else:
            low = middle
    return high
