"""A budget over a person's history: what earlier samples told already is gone from the budget of
the next one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowtide.disclose.budget import Budget
from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.estimate.learners.base import normalise
from lowtide.files import regular
from lowtide.types import Floats

History = Sequence[str] | os.PathLike[str] | float | str
_IN_NATS = "must be in nats or bits, such as 0.5 or 0.7bits, not in percent"


def in_nats(value: Any, what: str) -> float:
    """An amount that a user writes, in nats."""
    read = Budget.read(value)
    if read.unit != "nats":
        raise LowtideError(f"{what} {_IN_NATS}")
    return read.limit


def budget_of_one(budget: Budget, samples: int, prior: Floats) -> Budget:
    """What one sample may tell where the budget is about several of one person, to plan with.

    Information of samples that are independent given the secret adds up at most; right guesses
    beyond the blind ones grow like its root, as long as they are few.

    Args:
        budget: over all of them.
        samples: how many they are.
        prior: (|S|,) shares of the classes.
    """
    if samples == 1:
        return budget
    if budget.unit == "nats":
        return Budget(budget.limit / samples)
    blind = float(prior.max())
    return Budget.accuracy(blind + max(0.0, budget.limit - blind) / math.sqrt(samples))


def told_before(density: Density, history: History | None) -> float:
    """What earlier samples told about any class, `max_s |i(s; all of them)|` in nats.

    They are taken as independent given the secret, so that their densities add up.

    Args:
        density: of the samples.
        history: the earlier texts; a file with one on each line; or how many nats they told, also
            as `"0.3bits"`.
    """
    if history is None:
        return 0.0
    texts = _texts(history)
    if texts is None:
        return in_nats(history, "what earlier texts told")
    if not texts:
        raise LowtideError(
            "there is no text in the history; leave it out, or give one text on each line"
        )
    prior = np.log(density.classes.prior)
    total = np.asarray(density.density(texts), dtype=np.float64).sum(axis=0)
    return float(np.abs(normalise(total, prior)).max())


def _texts(history: Any) -> list[str] | None:
    """The earlier texts; `None` where their sum is given as a number."""
    if isinstance(history, (list, tuple)):
        return [str(one) for one in history]
    if isinstance(history, (int, float)):
        return None
    path = Path(history)
    if isinstance(history, str) and not path.exists():
        try:
            Budget.read(history)
        except LowtideError:
            raise LowtideError(
                "history must be a file of earlier texts, one on each line, or what they told,"
                f" such as 0.3 or 0.4bits; {history!r} is neither"
            ) from None
        return None
    try:
        lines = regular(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError):
        raise LowtideError(
            f"cannot read {path} as texts in UTF-8, one on each line; check it"
        ) from None
    return [line for line in lines if line.strip()]
