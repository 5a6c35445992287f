"""Planning for images: the order in which patches are hidden, and what is left to read on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lowtide.disclose.budget import Point
from lowtide.images.encoder import Grid
from lowtide.images.ordering import Spread, showing_order
from lowtide.images.planning_attackers import CELLS, EdgeAttacker
from lowtide.images.policies import FixedPatches
from lowtide.images.thumbnails import Thumbnails
from lowtide.images.units import Units
from lowtide.types import Bools, Floats, Ints

_SHARES = (*np.arange(1.0, 0.5, -0.05), *np.arange(0.5, 0.05, -0.1))  # kept, where the curve is read
_ORDERING = 0.4  # of the work


@dataclass(frozen=True, eq=False)
class PatchPlanner:
    """Finds the order of hiding, then reads releases along it with attackers that are fitted afresh.

    Attributes:
        data: the images for planning.
        grid: the patches.
        keep: (m,) patches that must be shown.
        hide: (m,) patches that must be hidden.
        mirror: whether a mirrored image is as likely as the image.
        seed: of the attackers.
        utility: the same images with the classes of what should still be told; patches that carry it are hidden later.
        tick: called with the share of the work that is done.
    """

    data: Thumbnails
    grid: Grid
    keep: Bools
    hide: Bools
    mirror: bool
    seed: int
    utility: Thumbnails | None = None
    tick: Callable[[float], None] = field(default=lambda _: None)

    def plan(self) -> FixedPatches:
        """The policy that hides nothing but what must be, with the order and the curve of all others."""
        order = self.order()
        self.tick(_ORDERING)
        attacker = EdgeAttacker(self.data, mirror=self.mirror, seed=self.seed)
        useful = None if self.utility is None else EdgeAttacker(self.utility, mirror=self.mirror, seed=self.seed)
        start = self.data.shown(self.grid.spread(self.hide))
        marginal = np.where(self.hide, np.nan, self._of_patches(attacker.where(start)))
        plan = FixedPatches(self.grid, self.hide.copy(), order, self.keep, self.hide, (), marginal)
        points: list[Point] = []
        for number, share in enumerate(_SHARES):
            here = plan.at(float(share))
            if not points or (here.hidden != points[-1].hidden).any():
                shown = self.data.shown(self.grid.spread(here.hidden))
                left = None if useful is None else useful.read(shown)
                points.append(Point(here.hidden, here.kept, attacker.read(shown), left))
            self.tick(_ORDERING + (1 - _ORDERING) * (number + 1) / len(_SHARES))
        return plan.with_curve(points)

    def order(self) -> Ints:
        """(m,) the patches in the order of hiding: those that must be hidden first, those that must be shown last."""
        units = Units.make(self.grid, CELLS, mirror=self.mirror)
        area = np.bincount(units.of_patch, self.grid.sizes, minlength=len(units)).astype(np.float64)
        free = np.bincount(units.of_patch[~self.hide], minlength=len(units)) > 0
        shown = showing_order(
            Spread.of(self.data, mirror=self.mirror),
            units.of_place,
            area,
            first=np.unique(units.of_patch[self.keep]),
            last=np.flatnonzero(~free & (area > 0)),
            utility=None if self.utility is None else Spread.of(self.utility, mirror=self.mirror),
        )
        place = np.empty(len(units), dtype=np.intp)
        place[shown[::-1]] = np.arange(len(shown))
        return np.lexsort((place[units.of_patch], self.keep, ~self.hide))

    def _of_patches(self, carried: Floats) -> Floats:
        """(m,) nats of each patch, from those of small pixels (h, w)."""
        grid, factor = self.grid, self.data.factor
        tall, wide = (np.minimum(factor, side - np.arange(0, side, factor)) for side in (grid.height, grid.width))
        each = carried / (tall[:, None] * wide)  # small pixels at the edges stand for fewer
        large = np.repeat(np.repeat(each, factor, axis=0), factor, axis=1)[: grid.height, : grid.width]
        patch = grid.spread(np.arange(len(grid))).ravel()
        return np.asarray(np.bincount(patch, large.ravel(), minlength=len(grid)), dtype=np.float64)
