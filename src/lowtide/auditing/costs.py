"""What guesses cost an attacker, as a user says it."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.checks import LowtideError, real
from lowtide.files import regular
from lowtide.types import Floats


def read_costs(given: Any, classes: Sequence[Any]) -> Floats:
    """A matrix (guesses, |S|) of costs, from an array or a CSV file.

    Args:
        given: numbers (guesses, |S|), columns in the sorted order of the classes; or the path of a
            CSV file whose header names the classes after its first column, and whose rows are
            guesses, named in that column.
        classes: the values of the secret, sorted.
    """
    if not isinstance(given, (str, os.PathLike)):
        return _checked_costs(real("costs", given), len(classes))
    try:
        rows = list(csv.reader(regular(given).read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, UnicodeError):
        raise LowtideError(
            f"cannot read the costs in {given} as CSV in UTF-8; check the path"
        ) from None
    header = [one.strip() for one in rows[0][1:]] if rows else []
    body = rows[1:]
    wanted = [str(one) for one in classes]
    if sorted(header) != sorted(wanted):
        known = len(set(header) & set(wanted))
        raise LowtideError(
            f"{given} has costs for {len(header)} classes in its header, {known} of which are among"
            f" the {len(wanted)} values of the secret; name each of these once, after the first"
            " column"
        )
    if not body or any(len(row) != len(rows[0]) for row in body):
        raise LowtideError(
            f"{given} must have a row of {len(header)} costs for every guess, after its name"
        )
    try:
        numbers = np.array([[float(cell) for cell in row[1:]] for row in body])
    except ValueError:
        raise LowtideError(
            f"{given} has costs that are not numbers; write such as 0, 1 or 2.5"
        ) from None
    return _checked_costs(numbers[:, [header.index(one) for one in wanted]], len(wanted))


def _checked_costs(costs: Floats, classes: int) -> Floats:
    if costs.ndim != 2 or costs.shape[1] != classes or not len(costs):
        raise LowtideError(
            f"costs must have the shape (guesses, {classes}), a column for every class, got"
            f" {costs.shape}"
        )
    if not np.isfinite(costs).all() or (costs < 0).any():
        raise LowtideError(
            "costs must be finite and not below 0; what a right guess costs is usually 0"
        )
    return costs
