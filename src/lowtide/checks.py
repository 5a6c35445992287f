"""Checks on arguments that raise `LowtideError`; whoever checks finds the error here, too."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lowtide.errors import LowtideError, LowtideTypeError, one_of
from lowtide.types import Bools, Floats, Labels

__all__ = [
    "LowtideError",
    "LowtideTypeError",
    "booleans",
    "broadcast",
    "check_rows",
    "check_shape",
    "class_codes",
    "count",
    "one_of",
    "probabilities",
    "real",
    "share",
    "within",
]
Shape = tuple[int | str, ...]
"""Lengths of axes; a text such as "n" stands for any length."""
_ROUNDING = 1e-9  # how far a sum of probabilities may be off


def real(name: str, value: ArrayLike) -> Floats:
    """Return `value` as a float array without NaN, of any shape."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise LowtideError(
            f"{name} must be a number or an array of numbers, got {type(value).__name__}"
        ) from error
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
    bad = (array <= low if low_open else array < low) | (
        array >= high if high_open else array > high
    )
    if bad.any():
        interval = f"{'(' if low_open else '['}{low:.6g}, {high:.6g}{')' if high_open else ']'}"
        offender = float(array[bad].flat[0])
        raise LowtideError(
            f"{name} must lie in {interval}, got {offender!r}" + (f"; {hint}" if hint else "")
        )
    return array


def count(name: str, value: int, low: int, high: int | None = None) -> int:
    """Return `value` as an int of at least `low` (and at most `high`)."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise LowtideError(f"{name} must be a whole number, got {value!r}")
    if value < low or (high is not None and value > high):
        upper = "" if high is None else f" and at most {high}"
        raise LowtideError(f"{name} must be at least {low}{upper}, got {value}")
    return int(value)


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
        raise LowtideError(
            f"{name} must sum to 1 along its last axis, got a sum of {float(np.ravel(total)[0])!r}"
        )
    return array


def check_shape(name: str, shape: tuple[int, ...], *allowed: Shape) -> None:
    """Refuse an array whose shape is none of those allowed; an axis given as a text may have any
    length.
    """
    if not any(_fits(shape, one) for one in allowed):
        raise LowtideError(f"{name} must have shape {_either(allowed)}, got {shape}")


def check_rows(
    name: str, shape: tuple[int, ...], n: int, rows: str = "rows", *, flat: bool = False
) -> None:
    """Refuse an array that does not go with n rows.

    Args:
        name: what the caller calls the array.
        shape: of the array.
        n: how many rows there are.
        rows: what they are called, such as "images".
        flat: whether it must have one value for each row, and not several.
    """
    if shape[:1] != (n,) or (flat and len(shape) > 1):
        raise LowtideError(
            f"there are {n} {rows} and {name} has shape {shape}; they must match: give one value"
            " for each"
        )


def booleans(name: str, value: ArrayLike, *allowed: Shape) -> Bools:
    """Return `value` as booleans of one of the shapes allowed; an axis given as a text may have any
    length.
    """
    array = np.asarray(value)
    if array.dtype != np.bool_ or not any(_fits(array.shape, one) for one in allowed):
        raise LowtideError(
            f"{name} must be booleans of shape {_either(allowed)}, got {array.dtype} {array.shape}"
        )
    return array


def class_codes(name: str, value: ArrayLike, n: int, classes: int) -> Labels:
    """Return `value` as codes of classes, 0 … `classes` − 1, one for each of n rows."""
    array = np.asarray(value)
    check_rows(name, array.shape, n, flat=True)
    if array.dtype.kind not in "iu" or (n and (array.min() < 0 or array.max() >= classes)):
        raise LowtideError(
            f"{name} must hold whole numbers from 0 to {classes - 1}, one per row; encode the"
            " secret first"
        )
    return array


def _fits(shape: tuple[int, ...], allowed: Shape) -> bool:
    return len(shape) == len(allowed) and all(
        isinstance(b, str) or a == b for a, b in zip(shape, allowed, strict=True)
    )


def _either(allowed: tuple[Shape, ...]) -> str:
    return " or ".join(
        f"({', '.join(map(str, one))}{',' if len(one) == 1 else ''})" for one in allowed
    )


def limit_of(value: Any) -> float:
    """A limit that was read from a file, 0 or more; with NaN or a negative one something else would
    be hidden.
    """
    return float(within("a limit", float(value), 0.0, np.inf))
