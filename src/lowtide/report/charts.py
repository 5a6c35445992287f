"""Charts that every kind of data has: the trade-off, and attacks before and after.

What charts draw, taken out of results: attackers before and after, and the trade-off.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from markupsafe import Markup

from lowtide.disclose.budget import Budget, Reading
from lowtide.errors import LowtideError
from lowtide.formatting import number, percent, plain
from lowtide.interface import NATS_PER_BIT, Attack, Estimate
from lowtide.report.html import CurvePoint
from lowtide.report.svg import (
    ROLE_SHAPES,
    Across,
    Chart,
    Down,
    anchor,
    fitted,
    grid,
    symbol,
    ticks,
    whisker,
)
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
    """One place of the trade-off: the share `kept`, and what an attacker gains: bits, or right
    guesses.
    """

    kept: float
    gain: Estimate


@dataclass(frozen=True)
class Tradeoff:
    """What is told against what is kept.

    Attributes:
        spots: the curve, from the most hidden to the least.
        unit: of what is told: `bits`, or `accuracy` where the budget is one.
        limit: the budget in that unit; `None` when there is none.
        chosen: the choice, with what fresh attackers were left with where that is known; `None`
            without one.
    """

    spots: tuple[Spot, ...]
    unit: Literal["bits", "accuracy"] = "bits"
    limit: float | None = None
    chosen: Spot | None = None


def duels(attacks: Sequence[Attack]) -> tuple[Duel, ...]:
    """Put attacks of the same attacker together, the ones that learn most from the release
    first.
    """
    found: dict[str, dict[Role, Attack]] = {}
    for attack in attacks:
        role = _TRAINED.get((attack.trained_on, attack.target))
        if role is not None:
            found.setdefault(attack.attacker, {})[role] = attack

    def learnt(roles: dict[Role, Attack]) -> float:
        return roles["retrained"].information.value if "retrained" in roles else -math.inf

    order = sorted(found.items(), key=lambda item: -learnt(item[1]))
    return tuple(
        Duel(name, {role: roles[role].accuracy for role in ROLES if role in roles})
        for name, roles in order
    )


def read_budget(text: str) -> Budget | None:
    """A budget from `0.05`, `0.03bits`, `55%` or the words of `str(Budget)`; `None` when it reads
    like none of them.
    """
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
        check: what fresh attackers were left with under the chosen plan; by default what the curve
            says there.
    """
    accuracy = budget is not None and budget.unit == "accuracy"

    def gain(reading: Reading) -> Estimate:
        return reading.accuracy if accuracy else reading.leakage.bits

    spots = tuple(
        sorted((Spot(p.kept, gain(p.reading)) for p in curve), key=lambda spot: spot.kept)
    )
    limit = None if budget is None else budget.limit
    if limit is not None and not accuracy:
        limit /= NATS_PER_BIT
    place = None
    if chosen is not None and curve:
        here = next((point for point in curve if np.array_equal(point.hidden, chosen)), None)
        reading = check or (here and here.reading)
        kept = here.kept if here else _kept(curve, chosen)
        place = Spot(kept, gain(reading)) if reading else None
    return Tradeoff(spots, "accuracy" if accuracy else "bits", limit, place)


def _kept(curve: Sequence[CurvePoint], chosen: Bools) -> float:
    """What a choice off the curve keeps: shares are sums of worths, which the steps of the curve
    give away.
    """
    shown = np.array([~point.hidden for point in curve], dtype=np.float64)
    worth = np.linalg.lstsq(shown, np.array([point.kept for point in curve]), rcond=None)[0]
    return float(np.clip(worth[~chosen].sum(), 0.0, 1.0))


_POINTS = 150  # of a curve that are drawn; more cannot be told apart


def draw_tradeoff(curve: Tradeoff) -> Chart:
    """The trade-off: what is told against the share kept, with intervals, the budget and the
    choice.
    """
    spots = _thinned(curve.spots)
    across = Across(0.0, 1.0, 3.0, 97.0)
    down = _down(curve)
    levels = [(down.at(level), _level(level, curve.unit)) for level in ticks(down.low, down.high)]
    parts = [
        Markup('<line class="grid" x1="0" x2="100%" y1="{0}" y2="{0}"/>').format(y)
        for y, _ in levels
    ]
    parts += [_band(spots, across, down), *_curve(spots, across, down, curve.unit)]
    parts += [
        Markup('<text class="tick" x="0" y="{}">{}</text>').format(y - 4, label)
        for y, label in levels
    ]
    parts += [_share_axis(across, down.bottom)]
    if curve.limit is not None:
        parts.append(
            Markup(
                '<line class="budget" x1="0" x2="100%" y1="{0}" y2="{0}"/>'
                '<text class="budget-label" x="14%" y="{1}">budget {2}</text>'
            ).format(down.at(curve.limit), down.at(curve.limit) - 5, _told(curve.limit, curve.unit))
        )
    title = (
        "Bits told about the secret" if curve.unit == "bits" else "How often an attacker is right"
    )
    description = (
        f"{len(curve.spots)} choices. Least hidden: {_place(curve.spots[-1], curve.unit)}."
    )
    if curve.chosen is not None:
        parts.append(_choice(curve.chosen, curve.unit, across, down))
        description += f" Chosen: {_place(curve.chosen, curve.unit)}."
    height = down.bottom + 42
    series = [("curve", "estimate"), ("band", "its interval")]
    series += [] if curve.limit is None else [("budget", "budget")]
    series += [] if curve.chosen is None else [("chosen", "chosen, as checked afresh")]
    title = f"{title}, against the share kept"
    return Chart("tradeoff", title, description, height, Markup("\n").join(parts), tuple(series))


def draw_attacks(found: Sequence[Duel], guess: Estimate | None) -> Chart:
    """Dots of how often each attacker is right, with intervals: before, after without and after
    with retraining.

    Args:
        found: the attackers, from top to bottom; at least one.
        guess: how often a blind guess is right.
    """
    shares = [accuracy for duel in found for accuracy in duel.accuracy.values()]
    blind = [guess.value] if guess is not None else []
    low = min([e.low for e in shares] + blind)
    high = max([e.high for e in shares] + blind)
    axis = Across(low - 0.01, high + 0.01, 1.5, 84.0)  # at the right there are numbers
    parts = []
    top = 26
    for duel in found:
        parts.append(
            Markup('<text class="name" x="0" y="{}">{}</text>').format(
                top + 14, fitted(duel.attacker)
            )
        )
        parts += [
            _dot(axis, accuracy, top + 30 + 18 * k, role)
            for k, (role, accuracy) in enumerate(duel.accuracy.items())
        ]
        top += 32 + 18 * len(duel.accuracy)
    back = [
        grid(axis, top, label=lambda tick: f"{100 * tick:.3g} %", unit="right guesses", start=20)
    ]
    back += [] if guess is None else [_blind(axis, guess, top)]
    description = "; ".join(
        f"{plain(duel.attacker)}: "
        + ", ".join(f"{role} {percent(e.value)}" for role, e in duel.accuracy.items())
        for duel in found
    )
    title = "How often each attacker is right"
    return Chart(
        "attacks", title, description, top + 40, Markup("\n").join([*back, *parts]), _roles(found)
    )


def _roles(found: Sequence[Duel]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (role, label)
        for role, label in ROLES.items()
        if any(role in duel.accuracy for duel in found)
    )


def _down(curve: Tradeoff) -> Down:
    """A vertical axis that holds all intervals and the budget, and 0 where bits are counted."""
    places = [*curve.spots, *filter(None, [curve.chosen])]
    ends = [end for spot in places for end in (spot.gain.low, spot.gain.high)]
    ends += [0.0] if curve.unit == "bits" else []
    ends += [] if curve.limit is None else [curve.limit]
    return Down(min(ends), max(*ends, min(ends) + 1e-3), 26, 290)


def _curve(spots: Sequence[Spot], across: Across, down: Down, unit: str) -> list[Markup]:
    lines = [
        Markup('<line class="curve" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
            across.pc(a.kept), down.at(a.gain.value), across.pc(b.kept), down.at(b.gain.value)
        )
        for a, b in pairwise(spots)
    ]
    radius = 4 if len(spots) < 60 else 2
    return lines + [
        Markup('<circle class="spot" cx="{}" cy="{}" r="{}"><title>{}</title></circle>').format(
            across.pc(spot.kept), down.at(spot.gain.value), radius, _place(spot, unit)
        )
        for spot in spots
    ]


def _band(spots: Sequence[Spot], across: Across, down: Down) -> Markup:
    """The intervals as an area: in a nested drawing that is stretched, since a polygon knows no
    percentages.
    """
    edge = [(spot.kept, spot.gain.high) for spot in spots] + [
        (spot.kept, spot.gain.low) for spot in reversed(spots)
    ]
    points = " ".join(f"{across.at(kept):.2f},{down.at(end)}" for kept, end in edge)
    return Markup(
        '<svg width="100%" height="{0}" viewBox="0 0 100 {0}" preserveAspectRatio="none"'
        ' overflow="visible"><polygon class="band" points="{1}"/></svg>'
    ).format(down.bottom, points)


def _share_axis(across: Across, bottom: float) -> Markup:
    marks = [
        Markup('<text class="tick" x="{}" y="{}" text-anchor="{}">{:.0f} %</text>').format(
            across.pc(share), bottom + 17, anchor(across.at(share)), 100 * share
        )
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    name = Markup('<text class="tick" x="50%" y="{}" text-anchor="middle">kept</text>').format(
        bottom + 34
    )
    return Markup("").join([*marks, name])


def _choice(spot: Spot, unit: str, across: Across, down: Down) -> Markup:
    place = across.pc(spot.kept)
    at = down.at(spot.gain.value)
    gain = spot.gain
    side = "middle"  # fits a phone everywhere
    if spot.kept < 0.34:
        side = "start"
    elif spot.kept > 0.66:
        side = "end"
    return Markup(
        '<line class="chosen-line" x1="{0}" x2="{0}" y1="20" y2="{1}"/>'
        '<line class="chosen-line" x1="{0}" x2="{0}" y1="{2}" y2="{3}"/>{4}'
        '<text class="chosen-label" x="{0}" y="13" text-anchor="{5}">chosen: {6}</text>'
    ).format(
        place,
        at,
        down.at(gain.high),
        down.at(gain.low),
        symbol("diamond", place, at, kind="chosen", title="chosen"),
        side,
        _place(spot, unit),
    )


def _dot(axis: Across, accuracy: Estimate, y: float, role: Role) -> Markup:
    title = f"{ROLES[role]}: {percent(accuracy.value)}"
    dot = symbol(ROLE_SHAPES[role], axis.pc(accuracy.value), y, kind=role, title=title)
    share = Markup('<text class="value" x="100%" y="{}" text-anchor="end">{}</text>').format(
        y + 4, percent(accuracy.value)
    )
    return whisker(axis, accuracy, y, kind=f"whisker {role}-line") + dot + share


def _blind(axis: Across, guess: Estimate, height: float) -> Markup:
    side = "start" if axis.at(guess.value) < 50 else "end"
    return Markup(
        '<line class="guess" x1="{0}" x2="{0}" y1="18" y2="{1}"/>'
        '<text class="guess-label" x="{0}" y="12" text-anchor="{2}">blind guess {3}</text>'
    ).format(axis.pc(guess.value), height, side, percent(guess.value))


def _thinned(spots: Sequence[Spot]) -> list[Spot]:
    """Evenly many of a long curve, with both ends."""
    if len(spots) <= _POINTS:
        return list(spots)
    return [spots[round(k * (len(spots) - 1) / (_POINTS - 1))] for k in range(_POINTS)]


def _level(value: float, unit: str) -> str:
    return f"{value:.10g}" if unit == "bits" else f"{100 * value:.3g} %"


def _told(value: float, unit: str) -> str:
    return f"{number(value, 3)} bits" if unit == "bits" else percent(value)


def _place(spot: Spot, unit: str) -> str:
    return f"{percent(spot.kept)} kept, {_told(spot.gain.value, unit)}"
