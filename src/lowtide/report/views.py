"""What charts draw, taken out of results: attackers before and after, and the trade-off."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lowtide.disclose.budget import Budget, Reading
from lowtide.errors import LowtideError
from lowtide.interface import NATS_PER_BIT, Attack, Estimate
from lowtide.report.contents import CurvePoint
from lowtide.types import Bools

Role = Literal["clean", "fixed", "retrained"]
ROLES: dict[Role, str] = {
    "clean": "before: trained and tested on the clean data",
    "fixed": "after, not retrained: trained on clean data, tested on the release",
    "retrained": "after, retrained: trained and tested on the release",
}
_TRAINED: dict[tuple[str, str], Role] = {
    ("clean", "clean"): "clean",
    ("clean", "release"): "fixed",
    ("release", "release"): "retrained",
}


@dataclass(frozen=True)
class Duel:
    """One attacker before and after a release.

    Attributes:
        attacker: its name.
        accuracy: how often it is right, by role; a role it did not play is missing.
    """

    attacker: str
    accuracy: dict[Role, Estimate]


@dataclass(frozen=True)
class Spot:
    """One place of the trade-off: the share `kept`, and what is `told`, in bits or as a share of right guesses."""

    kept: float
    told: Estimate


@dataclass(frozen=True)
class Tradeoff:
    """What is told against what is kept.

    Attributes:
        spots: the curve, from the most hidden to the least.
        unit: of what is told: `bits`, or `accuracy` where the budget is one.
        limit: the budget in that unit; `None` when there is none.
        chosen: the choice, with what fresh attackers were left with where that is known; `None` without one.
    """

    spots: tuple[Spot, ...]
    unit: Literal["bits", "accuracy"] = "bits"
    limit: float | None = None
    chosen: Spot | None = None


def duels(attacks: Sequence[Attack]) -> tuple[Duel, ...]:
    """Put attacks of the same attacker together, the ones that learn most from the release first."""
    found: dict[str, dict[Role, Attack]] = {}
    for attack in attacks:
        role = _TRAINED.get((attack.trained_on, attack.target))
        if role is not None:
            found.setdefault(attack.attacker, {})[role] = attack

    def learnt(roles: dict[Role, Attack]) -> float:
        return roles["retrained"].information.value if "retrained" in roles else -math.inf

    order = sorted(found.items(), key=lambda item: -learnt(item[1]))
    return tuple(Duel(name, {role: roles[role].accuracy for role in ROLES if role in roles}) for name, roles in order)


def read_budget(text: str) -> Budget | None:
    """A budget from `0.05`, `0.03bits`, `55%` or the words of `str(Budget)`; `None` when it reads like none of them."""
    share = re.search(r"[0-9.]+\s*%", text)
    for candidate in (text, text.partition("(")[0], share[0] if share else ""):
        try:
            return Budget.read(candidate)
        except LowtideError:
            continue
    return None


def tradeoff(
    curve: Sequence[CurvePoint],
    *,
    chosen: Bools | None = None,
    budget: Budget | None = None,
    check: Reading | None = None,
) -> Tradeoff:
    """Lay out a trade-off curve in the unit of its budget.

    Args:
        curve: the points that planning visited.
        chosen: (m,) what the chosen plan hides.
        budget: what the release may tell.
        check: what fresh attackers were left with under the chosen plan; by default what the curve says there.
    """
    accuracy = budget is not None and budget.unit == "accuracy"

    def told(reading: Reading) -> Estimate:
        return reading.accuracy if accuracy else reading.leakage.bits

    # Noise keeps nothing as it was: its points lie above others at the same place, off the curve of what is kept.
    curve = [point for point in curve if not point.noised]
    spots = tuple(sorted((Spot(p.kept, told(p.reading)) for p in curve), key=lambda spot: spot.kept))
    limit = None if budget is None else budget.limit if accuracy else budget.limit / NATS_PER_BIT
    place = None
    if chosen is not None and curve:
        here = next((point for point in curve if np.array_equal(point.hidden, chosen)), None)
        reading = check or (here and here.reading)
        kept = here.kept if here else _kept(curve, chosen)
        place = Spot(kept, told(reading)) if reading else None
    return Tradeoff(spots, "accuracy" if accuracy else "bits", limit, place)


def _kept(curve: Sequence[CurvePoint], chosen: Bools) -> float:
    """What a choice off the curve keeps: shares are sums of worths, which the steps of the curve give away."""
    shown = np.array([~point.hidden for point in curve], dtype=np.float64)
    worth = np.linalg.lstsq(shown, np.array([point.kept for point in curve]), rcond=None)[0]
    return float(np.clip(worth[~chosen].sum(), 0.0, 1.0))
