"""Images and texts: hide more and more until fresh attackers agree that a budget is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

import numpy as np

from lowtide.disclose.budget import Budget
from lowtide.errors import LowtideError
from lowtide.labels import Classes
from lowtide.tables.problem import Check
from lowtide.types import Bools, Labels

_LEAST, _LEAST_PER_CLASS = 20, 5  # what `attack` needs


class Orderly(Protocol):
    """A plan that knows in which order to hide more."""

    @property
    def hidden(self) -> Bools:
        """(m,) what is hidden."""
        ...

    @property
    def kept(self) -> float:
        """The share of pixels, or words, that is shown."""
        ...

    def at(self, kept: float) -> Self:
        """The plan that keeps a share."""
        ...

    def everything(self) -> Self:
        """The plan that hides all that may be hidden."""
        ...


P = TypeVar("P", bound=Orderly)


def hide_until_agreed(
    chosen: P,
    budget: Budget,
    *,
    check: Callable[[P], Check],
    keep: Bools,
    step: float,
    unreachable: Callable[[Check], LowtideError],
    tick: Callable[[float], None],
) -> tuple[P, Check]:
    """Hide more along the order of a plan while attackers read more than the budget.

    Args:
        chosen: the plan to begin with.
        budget: what the release may tell.
        check: attacks a rehearsal afresh.
        keep: (m,) what must be shown.
        step: share that is hidden in addition each time.
        unreachable: what to say when all is hidden and attackers still read too much.
        tick: called with the share of the work that is done.
    """
    found = check(chosen)
    while not found.agrees(budget):
        tick(0.7 + 0.25 * (1 - chosen.kept))
        if (chosen.hidden | keep).all():
            raise unreachable(found)
        more = chosen.at(max(0.0, chosen.kept - step))
        chosen = more if (more.hidden & ~chosen.hidden).any() else chosen.everything()
        found = check(chosen)
    return chosen, found


def refuse_few(codes: Labels, classes: Classes, what: str) -> None:
    """Refuse what is too few to attack a rehearsal with: nothing would be known of the release.

    Args:
        codes: (n,) classes.
        classes: the values of the secret.
        what: they are, such as "images".
    """
    if len(codes) < _LEAST:
        raise LowtideError(f"got {len(codes)} {what}; a rehearsal of the release needs at least {_LEAST}")
    rare = int((np.bincount(codes, minlength=len(classes.labels)) < _LEAST_PER_CLASS).sum())
    if rare:
        raise LowtideError(
            f"{rare} of the {len(classes.labels)} classes of s have fewer than {_LEAST_PER_CLASS} {what}; a rehearsal "
            "of the release cannot be attacked without them: merge or drop them"
        )
