"""`LowtideError`, and the checks on arguments that raise it.

A message says what was given, what is allowed and, where there is one, the remedy. It quotes parameters,
never data: a value of the user's table does not belong in an error message.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from lowtide.types import Floats

Choice = TypeVar("Choice", bound=str)
_ROUNDING = 1e-9  # how far a sum of probabilities may be off


class LowtideError(ValueError):
    """Input that Lowtide cannot work with, or a guarantee that it cannot give."""


class LowtideTypeError(LowtideError, TypeError):
    """The same for a value of the wrong type, where Python and scikit-learn expect a `TypeError`."""


def real(name: str, value: ArrayLike) -> Floats:
    """Return `value` as a float array without NaN, of any shape."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise LowtideError(f"{name} must be a number or an array of numbers, got {type(value).__name__}") from error
    if np.isnan(array).any():
        raise LowtideError(f"{name} contains NaN; every entry must be a number")
    return array


def within(
    name: str,
    value: ArrayLike,
    low: float,
    high: float,
    *,
    low_open: bool = False,
    high_open: bool = False,
    hint: str = "",
) -> Floats:
    """Return `value` as a float array whose entries lie between `low` and `high`.

    Args:
        name: what the caller calls the argument.
        value: a number or an array.
        low: smallest allowed value; excluded when `low_open`.
        high: largest allowed value; excluded when `high_open`.
        low_open: whether `low` itself is refused.
        high_open: whether `high` itself is refused.
        hint: what to do instead, appended to the message.
    """
    array = real(name, value)
    bad = (array <= low if low_open else array < low) | (array >= high if high_open else array > high)
    if bad.any():
        interval = f"{'(' if low_open else '['}{low:.6g}, {high:.6g}{')' if high_open else ']'}"
        offender = float(array[bad].flat[0])
        raise LowtideError(f"{name} must lie in {interval}, got {offender!r}" + (f"; {hint}" if hint else ""))
    return array


def count(name: str, value: int, low: int, high: int | None = None) -> int:
    """Return `value` as an int of at least `low` (and at most `high`)."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise LowtideError(f"{name} must be a whole number, got {value!r}")
    if value < low or (high is not None and value > high):
        upper = "" if high is None else f" and at most {high}"
        raise LowtideError(f"{name} must be at least {low}{upper}, got {value}")
    return int(value)


def one_of(name: str, value: Choice, allowed: tuple[Choice, ...]) -> Choice:
    """Return `value` when it is among `allowed`."""
    if value not in allowed:
        raise LowtideError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def broadcast(**arrays: Floats) -> tuple[Floats, ...]:
    """Broadcast named arrays against each other, or name the shapes that do not fit."""
    try:
        return tuple(np.broadcast_arrays(*arrays.values()))
    except ValueError as error:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise LowtideError(f"these shapes do not broadcast together: {shapes}") from error


def share(name: str, value: ArrayLike) -> Floats:
    """Return `value` as numbers in [0, 1], allowing for the rounding of a sum of probabilities."""
    return np.minimum(within(name, value, 0.0, 1.0 + _ROUNDING), 1.0)


def probabilities(name: str, value: ArrayLike) -> Floats:
    """Return `value` as probabilities: non-negative, summing to one along the last axis."""
    array = share(name, value)
    if array.ndim == 0:
        raise LowtideError(f"{name} must be a list of probabilities, got a single number")
    total = array.sum(axis=-1)
    if not np.allclose(total, 1.0, rtol=0.0, atol=_ROUNDING):
        raise LowtideError(f"{name} must sum to 1 along its last axis, got a sum of {float(np.ravel(total)[0])!r}")
    return array
