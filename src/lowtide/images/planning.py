"""Planning for images: the order in which patches are hidden, and what is left to read on the way.

What is hidden or shown together: patches of the release, and the places of an image that features
belong to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lowtide.disclose.budget import Point
from lowtide.images.encoder import Grid
from lowtide.images.mechanism import FixedPatches
from lowtide.images.planning_attackers import CELLS, EdgeAttacker, Thumbnails
from lowtide.images.shapes import (
    CAUTIOUS,
    KNOTS,
    ORDERING,
    Family,
    HiddenShape,
    blended,
    choose_families,
    families,
)
from lowtide.images.showing import PlaceNumbers, showing_order
from lowtide.splits import generator, stratified, stratified_folds, stream
from lowtide.types import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Units:
    """The smallest things planning decides about; each owns patches and places.

    Attributes:
        of_patch: (m,) the unit of each patch.
        of_place: (places,) the unit of each place, row by row.
    """

    of_patch: Ints
    of_place: Ints

    def __len__(self) -> int:
        return int(max(self.of_patch.max(), self.of_place.max())) + 1

    @classmethod
    def make(cls, grid: Grid, cells: int, *, mirror: bool) -> Units:
        """Join patches and places that lie in each other, and with `mirror` those that mirror each
        other.

        Args:
            grid: the patches.
            cells: places down and across.
            mirror: whether both sides of an image are treated alike.
        """
        m = len(grid)
        place = m + np.arange(cells**2)
        patch = np.arange(m)
        over_patch = m + _places_at_patches(grid, cells)
        over_place = _patches_at_places(grid, cells)
        # Patches as large as places own them; smaller ones belong to one, and so do slivers at the
        # edge.
        coarse = grid.patch * cells >= min(grid.height, grid.width)
        links = [(place, over_place)] if coarse else []
        alone = ~np.isin(patch, over_place) if coarse else np.ones(m, dtype=bool)
        links.append((patch[alone], over_patch[alone]))
        if mirror:
            links.append((place, m + _mirrored(cells, cells)))
            links.append((patch, _mirrored(grid.down, grid.across)))
        first, second = (np.concatenate([link[k] for link in links]) for k in (0, 1))
        graph = coo_array(
            (np.ones(len(first)), (first, second)), shape=(m + cells**2, m + cells**2)
        )
        number = np.asarray(connected_components(graph, directed=False)[1], dtype=np.intp)
        return cls(number[:m], number[m:])


def _patches_at_places(grid: Grid, cells: int) -> Ints:
    """(places,) the patch at the centre of each place."""
    row, column = np.divmod(np.arange(cells**2), cells)
    y = (row + 0.5) * grid.height / cells
    x = (column + 0.5) * grid.width / cells
    return np.asarray(y // grid.patch * grid.across + x // grid.patch, dtype=np.intp)


def _places_at_patches(grid: Grid, cells: int) -> Ints:
    """(m,) the place at the centre of each patch."""
    row, column = np.divmod(np.arange(len(grid)), grid.across)
    y, x = (
        (start * grid.patch + np.minimum((start + 1) * grid.patch, side)) / 2
        for start, side in ((row, grid.height), (column, grid.width))
    )
    return np.asarray(y * cells // grid.height * cells + x * cells // grid.width, dtype=np.intp)


def _mirrored(down: int, across: int) -> Ints:
    """(down · across,) the number of what lies on the other side."""
    numbers = np.arange(down * across).reshape(down, across)
    return numbers[:, ::-1].ravel()


_SHARES = (
    *np.arange(1.0, 0.5, -0.05),
    *np.arange(0.5, 0.05, -0.1),
)  # kept, where the curve is read
# of the work, one after the other
_ORDERING = 0.15
_SHAPING = 0.6
_SPLITS = 3  # into two halves of the images, whose orders are averaged
_FEWEST = (
    100  # images of a class that choose shapes; with fewer, differences between shapes are chance
)


@dataclass(frozen=True, eq=False)
class PatchPlanner:
    """Finds the order of hiding, then reads releases along it with attackers that are fitted
    afresh.

    Attributes:
        data: the images for planning.
        grid: the patches.
        keep: (m,) patches that must be shown.
        hide: (m,) patches that must be hidden.
        mirror: whether a mirrored image is as likely as the image.
        seed: of the attackers.
        utility: the same images with the classes of what should still be told; patches that carry
            it are hidden later.
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
        """The policy that hides nothing but what must be, with the curve of all others."""
        numbers = PlaceNumbers.of(self.data, mirror=self.mirror)
        order = self.order(numbers, np.arange(len(self.data.codes)))
        self.tick(_ORDERING)
        shapes = self._shapes(numbers, order)
        self.tick(_ORDERING + _SHAPING)
        attacker = EdgeAttacker(self.data, mirror=self.mirror, seed=self.seed)
        useful = (
            None
            if self.utility is None
            else EdgeAttacker(self.utility, mirror=self.mirror, seed=self.seed)
        )
        start = self.data.shown(self.grid.spread(self.hide))
        marginal = np.where(self.hide, np.nan, self._of_patches(attacker.where(start)))
        plan = FixedPatches(
            self.grid, self.hide.copy(), order, self.keep, self.hide, (), marginal, shapes
        )
        points: list[Point] = []
        for number, share in enumerate(_SHARES):
            here = plan.at(float(share))
            if not points or (here.hidden != points[-1].hidden).any():
                shown = self.data.shown(self.grid.spread(here.hidden))
                left = None if useful is None else useful.read(shown)
                points.append(Point(here.hidden, here.kept, attacker.read(shown), left))
            done = _ORDERING + _SHAPING
            self.tick(done + (1 - done) * (number + 1) / len(_SHARES))
        return plan.with_curve(points)

    def _shapes(self, numbers: PlaceNumbers, order: Ints) -> tuple[HiddenShape, ...]:
        """The shapes that tell least at several shares; none where a utility has its say.

        Some of the images order the patches, the others choose between that order and other shapes.
        Then the order that all of them gave stands for it. Where images are too few to choose by,
        single patches of the order are chance as well: it is smoothed.
        """
        if self.utility is not None:
            return ()
        split = stratified(self.data.codes, 1 - ORDERING, seed=stream(self.seed, "image shapes"))
        counts = [
            np.bincount(self.data.codes[part], minlength=len(self.data.prior)) for part in split
        ]
        every = families(self._ranks(order), mirror=self.mirror)
        if np.min(counts) < _FEWEST:
            return (
                self._shape(KNOTS[0], next(one for one in every if one.name == CAUTIOUS), order),
            )
        learning = np.isin(np.arange(len(self.data.codes)), split.kept)
        first = self.order(numbers, split.kept)
        chosen = choose_families(
            self.data,
            self.grid,
            families(self._ranks(first), mirror=self.mirror),
            first,
            learning=learning,
            mirror=self.mirror,
            tick=lambda done: self.tick(_ORDERING + _SHAPING * done),
        )
        return tuple(
            self._shape(share, blended(every, parts), order)
            for share, parts in zip(KNOTS, chosen, strict=True)
        )

    def _shape(self, share: float, family: Family, order: Ints) -> HiddenShape:
        """A family as an order of hiding in which what must be hidden comes first, and what must be
        shown last.
        """
        place = np.argsort(family.order(self.grid, order))
        return HiddenShape(share, family.name, np.lexsort((place, self.keep, ~self.hide)))

    def _ranks(self, order: Ints) -> Floats:
        """(places, places) how soon an order of patches (m,) hides each place."""
        rank = (
            np.argsort(order)[_patches_at_places(self.grid, CELLS)]
            .reshape(CELLS, CELLS)
            .astype(np.float64)
        )
        return (rank + rank[:, ::-1]) / 2 if self.mirror else rank

    def order(self, numbers: PlaceNumbers, rows: Ints) -> Ints:
        """(m,) the patches in the order of hiding: those that must be hidden first, those that must
        be shown last.

        Which of two patches that tell about as much is shown first is chance. Orders of random
        halves of the images differ there, and agree where it matters: the patches are ordered by
        their mean rank.

        Args:
            numbers: of all images.
            rows: those that order the patches.
        """
        units = Units.make(self.grid, CELLS, mirror=self.mirror)
        area = np.bincount(units.of_patch, self.grid.sizes, minlength=len(units)).astype(np.float64)
        free = np.bincount(units.of_patch[~self.hide], minlength=len(units)) > 0
        place = np.zeros(len(units))
        for part in self._halves(rows):
            shown = showing_order(
                numbers.spread(part, self.data.codes),
                units.of_place,
                area,
                first=np.unique(units.of_patch[self.keep]),
                last=np.flatnonzero(~free & (area > 0)),
                utility=None if self.utility is None else numbers.spread(part, self.utility.codes),
            )
            place[shown[::-1]] += np.arange(len(shown))
        return np.lexsort((place[units.of_patch], self.keep, ~self.hide))

    def _halves(self, rows: Ints) -> list[Ints]:
        """Random halves of some images, or these themselves where a half would be too few to go
        by.
        """
        codes = self.data.codes[rows]
        if np.bincount(codes, minlength=len(self.data.prior)).min() < 2 * _FEWEST:
            return [rows]
        rng = generator(self.seed, "image halves")
        folds = [stratified_folds(codes, 2, rng) for _ in range(_SPLITS)]
        return [rows[fold == half] for fold in folds for half in (0, 1)]

    def _of_patches(self, carried: Floats) -> Floats:
        """(m,) nats of each patch, from those of small pixels (h, w)."""
        grid = self.grid
        factor = self.data.factor
        tall, wide = (
            np.minimum(factor, side - np.arange(0, side, factor))
            for side in (grid.height, grid.width)
        )
        each = carried / (tall[:, None] * wide)  # small pixels at the edges stand for fewer
        large = np.repeat(np.repeat(each, factor, axis=0), factor, axis=1)[
            : grid.height, : grid.width
        ]
        patch = grid.spread(np.arange(len(grid))).ravel()
        return np.asarray(np.bincount(patch, large.ravel(), minlength=len(grid)), dtype=np.float64)
