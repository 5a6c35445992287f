"""What the surface of a release tells, and the order of its samples: channels by name, and an attacker of places."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lowtide.attack.panel import AttackReport
from lowtide.attack.row_order import attack_order, can_attack, order_tells
from lowtide.attack.surface import ChannelLeak, telling_channels
from lowtide.errors import note
from lowtide.formatting import in_ascii, interval, percentages
from lowtide.interface import Attack, RowOrder, TextTable
from lowtide.protocols import Dataset, Modality, Nouns

_NAMED = 5  # channels in a sentence
_LOOK_LEVEL = 0.99  # of the intervals: every scan and plan looks


@dataclass(frozen=True, eq=False)
class SurfaceFindings:
    """What stands beside the values of a release, attacked on its own.

    Attributes:
        order: the attacker who sees only where a sample stands; `None` where they are too few to learn from.
        channels: the channels of the surface that clearly tell something beyond the values behind them.
        nouns: what the kind of data calls its things.
    """

    order: AttackReport | None = field(repr=False)
    channels: tuple[ChannelLeak, ...]
    nouns: Nouns = field(repr=False)

    @property
    def attack(self) -> Attack | None:
        """What the attacker of places achieves."""
        return None if self.order is None else self.order.headline

    @property
    def order_tells(self) -> bool:
        """Whether the attacker of places demonstrably learns something."""
        return self.order is not None and order_tells(self.order)

    @property
    def row_order(self) -> RowOrder:
        """What a card says of it."""
        return RowOrder(None if self.order is None else self.order.headline.information, self.order_tells)

    def sentence(self, secret: str) -> str | None:
        """What a person must know of it; `None` where nothing clear was found."""
        said = [] if (told := self.order_sentence(secret)) is None else [told]
        if self.channels:
            names = ", ".join(leak.name for leak in self.channels[:_NAMED])
            more = len(self.channels) - _NAMED
            rest = f" and {more} more channels" if more > 0 else ""
            said.append(f"The surface of the release tells the {secret}, where values do not: {names}{rest}.")
        return " ".join(said) or None

    def order_sentence(self, secret: str) -> str | None:
        """That the order of samples tells the secret, how much, and what to do; `None` where it does not."""
        if self.order is None or not self.order_tells:
            return None
        found, nouns = self.order.headline, self.nouns
        here, blind = percentages(found.accuracy.value, self.order.guess.accuracy.value)
        return (
            f"The order of the {nouns.rows} tells the {secret}: who sees only where a {nouns.row} stands is right "
            f"{here} of the time (guessing blindly gives {blind}), {in_ascii(interval(found.information))} nats; "
            f"{nouns.reorder}."
        )

    def tables(self) -> list[TextTable]:
        """What clearly tells as a table to print; none where nothing does."""
        rows = [(leak.name, str(leak.told.bits)) for leak in self.channels]
        if self.attack is not None and self.order_tells:
            rows.insert(0, (f"the order of the {self.nouns.rows}", str(self.attack.information.bits)))
        note = f"Values do not show it, and hiding them does not hide it. For the order: {self.nouns.reorder}."
        return (
            [TextTable("What the surface tells, in bits", ("channel", "held out"), tuple(rows), note)] if rows else []
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "order": self.attack and asdict(self.attack),
            "order_tells": self.order_tells,
            "channels": [asdict(leak) for leak in self.channels],
        }


def examine(
    kind: Modality,
    release: Any,
    labels: ArrayLike,
    *,
    position: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    seed: int = 0,
    level: float = 0.95,
) -> SurfaceFindings:
    """Look at the surface and the order of released samples.

    Args:
        kind: of the data.
        release: n released samples.
        labels: (n,) the secret of every sample.
        position: (n,) where each stands in the release; by default they stand as they are given.
        groups: (n,) samples of one group stay on one side of every split.
        seed: the same seed gives the same findings.
        level: of the intervals.
    """
    places = np.arange(kind.count(release)) if position is None else position
    channels = telling_channels(kind.surface(release), labels, groups=groups, seed=seed, level=level)
    return SurfaceFindings(_order(places, labels, groups, seed, level), channels, kind.nouns)


def examine_data(kind: Modality, data: Dataset, seed: int) -> SurfaceFindings:
    """Look at all that data shows but its secret, as it was opened."""
    places, groups = np.flatnonzero(data.known), data.groups
    return examine(kind, kind.shown(data), data.labels, position=places, groups=groups, seed=seed, level=_LOOK_LEVEL)


def examine_order(kind: Modality, data: Dataset, seed: int) -> RowOrder:
    """Look at the order of reference data alone, for a card; a note where it tells."""
    found = SurfaceFindings(
        _order(np.flatnonzero(data.known), data.labels, data.groups, seed, _LOOK_LEVEL), (), kind.nouns
    )
    if (told := found.order_sentence(data.secret)) is not None:
        note(told)
    return found.row_order


def _order(
    position: ArrayLike, labels: ArrayLike, groups: ArrayLike | None, seed: int, level: float
) -> AttackReport | None:
    """The attack on the order; `None` where samples are too few."""
    return attack_order(position, labels, groups=groups, seed=seed, level=level) if can_attack(labels) else None
