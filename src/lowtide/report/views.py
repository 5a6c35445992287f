"""What is drawn and told, taken out of results: the same for the page's charts and for figures in files."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowtide.disclose.budget import Budget, Point, Reading
from lowtide.errors import LowtideError
from lowtide.interface import NATS_PER_BIT, Attack, Estimate

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


class Nouns(NamedTuple):
    """What a report calls its things.

    Attributes:
        row: what one of the data is; `rows` of many, `a_row` at the start of a sentence.
        feature: what may be hidden; `features` of many, `columns` where a table has columns.
        named: whether features have names that say something and may be published.
        worth: what a share that is kept is a share of.
        unit: what an audit compares one by one.
        counted: what features are called where they are counted beside what is kept.
    """

    row: str
    rows: str
    a_row: str
    feature: str
    features: str
    columns: str
    named: bool
    worth: str
    unit: str
    counted: str


TABLE = Nouns(
    "row", "rows", "A row of this table", "feature", "features", "columns", True, "their worth", "value", "features"
)
IMAGES = Nouns("image", "images", "An image", "patch", "patches", "patches", False, "the pixels", "pixel", "patches")
TEXTS = Nouns("text", "texts", "A text", "word", "words", "words", False, "the words", "word", "different words")
_JOINERS = "\u200c\u200d"  # emoji and some scripts are spelled with them
_ACCENTS = 3  # that a letter may carry; towers of them cover the lines above


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
    curve: Sequence[Point],
    *,
    chosen: NDArray[np.bool_] | None = None,
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


def _kept(curve: Sequence[Point], chosen: NDArray[np.bool_]) -> float:
    """What a choice off the curve keeps: shares are sums of worths, which the steps of the curve give away."""
    shown = np.array([~point.hidden for point in curve], dtype=np.float64)
    worth = np.linalg.lstsq(shown, np.array([point.kept for point in curve]), rcond=None)[0]
    return float(np.clip(worth[~chosen].sum(), 0.0, 1.0))


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most `most` + 1 round numbers between two."""
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10, 20) if span / (factor * power) <= most)
    return [step * k for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def plain(text: str, most: int = 200) -> str:
    """Text of others, such as a column's name, on one line, without control characters, not endless."""
    line = "".join(letter for letter in " ".join(str(text).split()) if letter.isprintable())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def visible(text: str) -> str:
    """Text of others on one line, as `plain` but uncut: with its outer spaces, its joiners and no towers of accents."""
    kept, accents = [], 0
    for letter in re.sub(r"\s+", " ", text):
        accents = accents + 1 if unicodedata.category(letter) in ("Mn", "Me") else 0
        if accents <= _ACCENTS and (letter.isprintable() or letter in _JOINERS):
            kept.append(letter)
    return "".join(kept)


def shown(term: str, most: int = 40) -> str:
    """A term out of somebody's text, no wider than `most` letters; wide letters count twice."""
    line, room = visible(term[: 8 * most]).strip(), most
    for place, letter in enumerate(line):
        room -= wide(letter)
        if room < 0:
            return f"{line[: max(place - 1, 0)].rstrip()}…"
    return line if line.strip(_JOINERS) else "(nothing to see)"


def wide(letter: str) -> int:
    """How many letters' room a character takes: 0 for one that joins another, 2 for wide ones."""
    if letter in _JOINERS or unicodedata.category(letter) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def number(value: float, digits: int = 4) -> str:
    """A number with a fixed count of decimals, never −0."""
    return f"{value:z.{digits}f}".replace("-", "−")


def interval(estimate: Estimate, digits: int = 4) -> str:
    """An estimate with its interval."""
    return f"{number(estimate.value, digits)} [{number(estimate.low, digits)}, {number(estimate.high, digits)}]"


def percent(share: float) -> str:
    """One decimal; what is short of everything never becomes 100 %, and what is something never 0 %."""
    value = round(100.0 * share, 1)
    return f"{min(max(value, 0.1), 99.9) if 0 < share < 1 else value:z.1f}\u00a0%"


def percents(share: Estimate) -> str:
    """A share with its interval, in percent."""
    return f"{percent(share.value)} [{percent(share.low)}, {percent(share.high)}]"
