"""What of a release nobody has judged: neither the estimate nor an attacker looked at it.

Such things are withheld unless the user names them, and then card, verdict and gate say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.errors import LowtideError


@dataclass(frozen=True)
class Unjudged:
    """What of the data nobody has judged, and what became of it.

    Attributes:
        released: columns that are released on the user's word.
        withheld: columns that are blank or left out.
        blank: how many values are blank because they did not occur in the reference data.
        beyond: how many numbers and dates are shown although they lie outside the range of the reference data.
    """

    released: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    blank: int = 0
    beyond: int = 0

    def __post_init__(self) -> None:
        both = sorted(set(self.released) & set(self.withheld))
        if both:
            raise LowtideError(f"{', '.join(both)} cannot be both released and withheld; make the card again")

    @classmethod
    def of(cls, columns: Sequence[str], kept: Sequence[str]) -> Unjudged:
        """What becomes of `columns` that nobody judges, of which the user names those `kept`."""
        return cls(tuple(kept), tuple(name for name in columns if name not in kept))


def judged_by_nobody(names: Sequence[str]) -> str:
    """The sentence of plans, cards and verdicts about columns that were released unjudged."""
    return f"released on your word, judged by nobody: {', '.join(names)}"
