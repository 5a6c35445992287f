"""What a release adds to what an attacker has of everybody anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from lowtide.attack import scores
from lowtide.attack.panel import AttackReport
from lowtide.estimate.objectives import mean_with_interval, nothing_found
from lowtide.formatting import in_ascii, interval, listed, nats_up, percentages
from lowtide.interface import Attack, Estimate, TextTable
from lowtide.types import Floats

_ROUNDING = 1e-9  # of log(p/p)


@dataclass(frozen=True)
class AddedInformation:
    """What attackers read from what is known alone, and from that and the release together, on the
    same test rows.

    The difference of two attackers' information is an estimate of `I(S; Y | K)` and bounds it from
    neither side: a weak attacker on what is known makes it too large, a weak one on both too small.

    Attributes:
        names: what is known.
        known: the strongest that attackers achieve from it alone.
        both: the strongest that they achieve with the release as well.
        information: what the release adds, in nats, in pairs over the test rows.
        accuracy: how many more guesses are right, as a share, in pairs.
    """

    names: tuple[str, ...]
    known: Attack
    both: Attack
    information: Estimate
    accuracy: Estimate

    @classmethod
    def of(
        cls, names: Sequence[str], known: AttackReport, both: AttackReport, level: float = 0.95
    ) -> AddedInformation:
        """Compare the strongest attackers of two reports about the same test rows."""
        codes = known.codes
        paid = 1 - (1 - level) / max(
            len(known.retrained), len(both.retrained)
        )  # for having picked the strongest
        after, before = (scores.gains(one.probabilities, codes, one.prior) for one in (both, known))
        righter = _right(both) - _right(known)
        told = after - before
        information = (mean_with_interval if np.abs(told).max() > _ROUNDING else nothing_found)(
            told, paid
        )
        return cls(
            tuple(names),
            known.headline,
            both.headline,
            information,
            mean_with_interval(righter, paid),
        )

    @property
    def charged(self) -> Attack:
        """What a limit is held against: right guesses with all there is, and the information that
        was added.
        """
        return replace(self.both, information=self.information)

    def sentence(self, secret: str) -> str:
        """What the release adds, in words."""
        alone, together = percentages(self.known.accuracy.value, self.both.accuracy.value)
        added = self.information
        most = f" ({nats_up(self.information.high)} nat at most)"
        found = f"it adds {in_ascii(interval(added))} nats"
        if added.value <= 0:
            found = f"nothing was found that it adds{most if added.high > 0 else ''}"
        return (
            f"From {listed(self.names, 6)} alone an attacker guesses the {secret} right {alone} of"
            f" the time, with the release as well {together}: {found}."
        )

    def table(self) -> TextTable:
        """Right guesses and information side by side."""
        rows = (
            ("what is known", _shown(self.known.accuracy), _shown(self.known.information.bits)),
            ("with the release", _shown(self.both.accuracy), _shown(self.both.information.bits)),
            ("what it adds", _shown(self.accuracy), _shown(self.information.bits)),
        )
        note = (
            "The last line is in pairs over the same test rows. It is an estimate, and bounds"
            " nothing."
        )
        return TextTable(
            f"Beside {listed(self.names, 6)}", ("attacker has", "accuracy", "bits"), rows, note
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def _right(report: AttackReport) -> Floats:
    return (report.probabilities.argmax(axis=1) == report.codes).astype(float)


def _shown(estimate: Estimate) -> str:
    return in_ascii(interval(estimate, 3))
