"""What the surface of a release tells, and the order of its samples: channels by name, and an attacker of places."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lowtide.attack.panel import AttackReport
from lowtide.attack.row_order import attack_order, order_tells
from lowtide.attack.surface import ChannelLeak, telling_channels
from lowtide.formatting import in_ascii, interval, percentages
from lowtide.interface import Attack
from lowtide.protocols import Modality, Nouns

_NAMED = 5  # channels in a sentence


@dataclass(frozen=True, eq=False)
class SurfaceFindings:
    """What stands beside the values of a release, attacked on its own.

    Attributes:
        order: the attacker who sees only where a sample stands.
        channels: the channels of the surface that clearly tell something beyond the values behind them.
        nouns: what the kind of data calls its things.
    """

    order: AttackReport = field(repr=False)
    channels: tuple[ChannelLeak, ...]
    nouns: Nouns = field(repr=False)

    @property
    def attack(self) -> Attack:
        """What the attacker of places achieves."""
        return self.order.headline

    def sentence(self, secret: str) -> str | None:
        """What a person must know of it; `None` where nothing clear was found."""
        said = [order_sentence(self.order, secret, self.nouns)] if order_tells(self.order) else []
        if self.channels:
            names = ", ".join(leak.name for leak in self.channels[:_NAMED])
            more = len(self.channels) - _NAMED
            rest = f" and {more} more channels" if more > 0 else ""
            said.append(f"The surface of the release tells the {secret}, where values do not: {names}{rest}.")
        return " ".join(said) or None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "order": asdict(self.attack),
            "order_tells": order_tells(self.order),
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
    order = attack_order(places, labels, groups=groups, seed=seed, level=level)
    channels = telling_channels(kind.surface(release), labels, groups=groups, seed=seed, level=level)
    return SurfaceFindings(order, channels, kind.nouns)


def order_sentence(order: AttackReport, secret: str, nouns: Nouns) -> str:
    """That the order of samples tells the secret, how much, and what to do."""
    found = order.headline
    here, blind = percentages(found.accuracy.value, order.guess.accuracy.value)
    told = in_ascii(interval(found.information))
    return (
        f"The order of the {nouns.rows} tells the {secret}: who sees only where a {nouns.row} stands is right {here} "
        f"of the time (guessing blindly gives {blind}), {told} nats; {nouns.reorder}."
    )
