"""Planning for images: the order in which patches are hidden, and what is left to read on the way.

In which order to show what tells least: attack, hide and retrain in closed form.

Against a linear attacker who knows the law of the features, a set A of them tells `d² = tr(Mᵀ Σ⁻¹ M)`, where Σ is the
covariance within classes and M holds the class means, centred and weighted by `√p(s)`: half of it is the information in
nats when that is small. What one more unit adds is its part that the shown ones do not predict (a Schur complement), so
that the attacker is retrained, exactly, for every unit that is tried.

Everything starts hidden. The unit that adds least for its area is shown, again and again; read backwards this is the
order of hiding. That decides by what the *shown* part tells together. Hiding what is worth most while all the rest is
shown does not: copies of the secret excuse each other.

What is hidden or shown together: patches of the release, and the places of an image that features belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lowtide.disclose.budget import Point, blended_worth
from lowtide.images.attackers import edges_and_shades
from lowtide.images.convnets import to_input
from lowtide.images.encoder import Grid
from lowtide.images.mechanism import FixedPatches
from lowtide.images.planning_attackers import CELLS, EdgeAttacker, Thumbnails, at_places, by_kind
from lowtide.images.shapes import CAUTIOUS, KNOTS, ORDERING, Family, HiddenShape, choose_families, families, some_images
from lowtide.splits import stratified, stream
from lowtide.training import one_thread
from lowtide.types import Bools, Floats, Floats32, Ints, Pixels

_RIDGE = 1.0  # added to the variance of every feature, which is 1; with fewer images than features something must be
_BATCH = 256
_FAINT = 1e-6  # variance of a feature that does not vary but for rounding


@dataclass(frozen=True, eq=False)
class Spread:
    """First and second moments of features, within classes and between them.

    Attributes:
        within: (D, D) covariance within classes, of features scaled to variance 1, with a ridge.
        between: (D, |S|) class means minus the mean, times `√p(s)`, equally scaled.
        place: (D,) the place each feature belongs to.
        chance: what a feature that tells nothing adds to d² of so few images, for each share of its variance that
            others do not predict; `(|S| − 1)/n`.
    """

    within: Floats
    between: Floats
    place: Ints
    chance: float = 0.0

    @classmethod
    def of(cls, data: Thumbnails, *, mirror: bool) -> Spread:
        """The moments of raw images; of noised ones, what is left of them once all stand-ins are known.

        Args:
            data: the images for planning.
            mirror: whether mirror images count, too.
        """
        tells = bool((data.standins != data.standins[:1]).any())
        place = np.tile(at_places(data.channels), 2 if tells else 1)
        within, sums, counts = _sums(data, (data.standins, data.raw) if tells else (data.raw,), mirror)
        means, share = sums / counts[:, None], counts / counts.sum()
        within /= counts.sum()
        within -= (share[:, None] * means).T @ means
        scale = np.sqrt(np.maximum(np.diag(within), _FAINT))
        within /= scale[:, None]
        within /= scale
        within[np.diag_indices_from(within)] += _RIDGE
        between = ((means - share @ means) * np.sqrt(share)[:, None]).T / scale[:, None]
        spread = cls(within, between, place, (len(data.prior) - 1) / len(data.codes))
        return spread.given(np.arange(len(place)) < len(place) // 2) if tells else spread

    def given(self, known: Bools) -> Spread:
        """What is left of the other features once those where `known` (D,) is true are."""
        factor = cho_factor(self.within[np.ix_(known, known)])
        predicted = cho_solve(factor, self.within[np.ix_(known, ~known)])
        within = self.within[np.ix_(~known, ~known)] - self.within[np.ix_(~known, known)] @ predicted
        between = self.between[~known] - predicted.T @ self.between[known]
        return Spread(within, between, self.place[~known], self.chance)


def showing_order(
    spread: Spread, unit: Ints, area: Floats, *, first: Ints, last: Ints, utility: Spread | None = None
) -> list[int]:
    """The units in the order in which they are best shown.

    Args:
        spread: the moments of the features.
        unit: (places,) the unit of each place.
        area: (units,) how many pixels each owns.
        first: units that must be shown.
        last: units that must stay hidden.
        utility: the moments of the same features about what should still be told; units that add to it come first.
    """
    secret, useful = _Shown(spread, unit), None if utility is None else _Shown(utility, unit)
    order: list[int] = []
    size = np.maximum(area, 1.0)  # a place between patches owns no pixel
    barred = set(last.tolist())
    left = [j for j in range(len(area)) if j not in barred]
    must = [j for j in left if j in set(first.tolist())]
    with one_thread():
        while left:
            candidates = [j for j in must if j in left] or left
            worth = size[candidates]
            if useful is not None:
                told = np.array([max(0.0, useful.adds(j)) for j in candidates])
                worth = blended_worth(worth / worth.sum(), told)
            added = np.array([secret.adds(j) for j in candidates])
            chosen = candidates[int(np.argmin(added / worth))]
            order.append(chosen)
            left.remove(chosen)
            for shown in (secret,) if useful is None else (secret, useful):
                shown.show(chosen)
    return order + sorted(barred)


class _Shown:
    """What units add to the d² of those that are shown.

    Args:
        spread: the moments of the features.
        unit: (places,) the unit of each place.
    """

    def __init__(self, spread: Spread, unit: Ints) -> None:
        owner = unit[spread.place]
        self._own = {int(j): np.flatnonzero(owner == j) for j in np.unique(owner)}
        self._within, self._between = spread.within.copy(), spread.between.copy()
        self._chance = spread.chance

    def adds(self, j: int) -> float:
        """What unit j adds beyond chance; nothing where it owns no feature."""
        return _adds(self._within, self._between, self._own.get(j), self._chance)

    def show(self, j: int) -> None:
        """Show unit j."""
        if j in self._own:
            _condition(self._within, self._between, self._own[j])


def _sums(data: Thumbnails, versions: Sequence[Pixels], mirror: bool) -> tuple[Floats, Floats, Floats]:
    """`Σ x xᵀ` (D, D), `Σ x` of each class (|S|, D) and how many (|S|,), over images and their mirror images.

    Features are counted from those of the first image: moments around the mean do not depend on that, and where nearly
    all images are the same, such as in a plain background, squares of single precision would drown what varies.
    """
    width, classes = len(versions) * len(at_places(data.channels)), len(data.prior)
    total, sums, counts = np.zeros((width, width)), np.zeros((classes, width)), np.zeros(classes)
    first = np.concatenate([_features(version[:1], False) for version in versions], axis=1)
    with one_thread():
        for start in range(0, len(data.codes), _BATCH):
            rows = slice(start, start + _BATCH)
            for flip in (False, True)[: 1 + mirror]:
                x = np.concatenate([_features(version[rows], flip) for version in versions], axis=1) - first
                total += x.T @ x  # single precision within a batch, double across
                for k in range(classes):
                    mine = data.codes[rows] == k
                    sums[k] += x[mine].sum(axis=0)
                    counts[k] += mine.sum()
    return total, sums, counts


def _adds(within: Floats, between: Floats, block: Ints | None, chance: float) -> float:
    """What the features `block` add to d²; nothing where a unit owns no feature.

    Class means of n images are off by chance, by `within/n` without its ridge. What that adds is taken off: otherwise
    noise that nothing predicts, such as that of a plain background, would seem to tell more than the rest.
    """
    if block is None:
        return 0.0
    mine, factor = between[block], cho_factor(within[np.ix_(block, block)])
    by_chance = len(block) - _RIDGE * np.trace(cho_solve(factor, np.eye(len(block))))
    return float((mine * cho_solve(factor, mine)).sum() - chance * by_chance)


def _condition(within: Floats, between: Floats, block: Ints) -> None:
    """Take out of all features, in place, what `block` predicts of them."""
    predicted = cho_solve(cho_factor(within[np.ix_(block, block)]), within[block])
    between -= predicted.T @ between[block]
    within -= within[:, block] @ predicted


def _features(pixels: Pixels, flip: bool) -> Floats32:
    """(n, D) shades and directions of edges; `at_places` says where each belongs."""
    with torch.no_grad():
        x = to_input(pixels)
        values = edges_and_shades(x.flip(3) if flip else x).numpy()
    shades, _, fine = by_kind(values, pixels.shape[3])
    return np.concatenate([shades, fine], axis=1)


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
        """Join patches and places that lie in each other, and with `mirror` those that mirror each other.

        Args:
            grid: the patches.
            cells: places down and across.
            mirror: whether both sides of an image are treated alike.
        """
        m = len(grid)
        place, patch = m + np.arange(cells**2), np.arange(m)
        over_patch, over_place = m + _places_at_patches(grid, cells), _patches_at_places(grid, cells)
        # Patches as large as places own them; smaller ones belong to one, and so do slivers at the edge.
        coarse = grid.patch * cells >= min(grid.height, grid.width)
        links = [(place, over_place)] if coarse else []
        alone = ~np.isin(patch, over_place) if coarse else np.ones(m, dtype=bool)
        links.append((patch[alone], over_patch[alone]))
        if mirror:
            links.append((place, m + _mirrored(cells, cells)))
            links.append((patch, _mirrored(grid.down, grid.across)))
        first, second = (np.concatenate([link[k] for link in links]) for k in (0, 1))
        graph = coo_array((np.ones(len(first)), (first, second)), shape=(m + cells**2, m + cells**2))
        number = np.asarray(connected_components(graph, directed=False)[1], dtype=np.intp)
        return cls(number[:m], number[m:])


def _patches_at_places(grid: Grid, cells: int) -> Ints:
    """(places,) the patch at the centre of each place."""
    row, column = np.divmod(np.arange(cells**2), cells)
    y, x = (row + 0.5) * grid.height / cells, (column + 0.5) * grid.width / cells
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


_SHARES = (*np.arange(1.0, 0.5, -0.05), *np.arange(0.5, 0.05, -0.1))  # kept, where the curve is read
_ORDERING, _SHAPING = 0.15, 0.6  # of the work, one after the other
_FEWEST = 100  # images of a class that choose shapes; with fewer, differences between shapes are chance


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
        """The policy that hides nothing but what must be, with the curve of all others."""
        order = self.order()
        self.tick(_ORDERING)
        shapes = self._shapes(order)
        self.tick(_ORDERING + _SHAPING)
        attacker = EdgeAttacker(self.data, mirror=self.mirror, seed=self.seed)
        useful = None if self.utility is None else EdgeAttacker(self.utility, mirror=self.mirror, seed=self.seed)
        start = self.data.shown(self.grid.spread(self.hide))
        marginal = np.where(self.hide, np.nan, self._of_patches(attacker.where(start)))
        plan = FixedPatches(self.grid, self.hide.copy(), order, self.keep, self.hide, (), marginal, shapes)
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

    def _shapes(self, order: Ints) -> tuple[HiddenShape, ...]:
        """The shapes that tell least at several shares; none where a utility has its say.

        Some of the images order the patches, the others choose between that order and other shapes. Then the order that
        all of them gave stands for it. Where images are too few to choose by, single patches of the order are chance as
        well: it is smoothed.
        """
        if self.utility is not None:
            return ()
        split = stratified(self.data.codes, 1 - ORDERING, seed=stream(self.seed, "image shapes"))
        counts = [np.bincount(self.data.codes[part], minlength=len(self.data.prior)) for part in split]
        every = families(self._ranks(order), mirror=self.mirror)
        if np.min(counts) < _FEWEST:
            return (self._shape(KNOTS[0], next(one for one in every if one.name == CAUTIOUS), order),)
        learning = np.isin(np.arange(len(self.data.codes)), split.kept)
        first = replace(self, data=some_images(self.data, learning)).order()
        chosen = choose_families(
            self.data,
            self.grid,
            families(self._ranks(first), mirror=self.mirror),
            first,
            learning=learning,
            mirror=self.mirror,
            tick=lambda done: self.tick(_ORDERING + _SHAPING * done),
        )
        return tuple(self._shape(share, every[number], order) for share, number in zip(KNOTS, chosen, strict=True))

    def _shape(self, share: float, family: Family, order: Ints) -> HiddenShape:
        """A family as an order of hiding in which what must be hidden comes first, and what must be shown last."""
        place = np.argsort(family.order(self.grid, order))
        return HiddenShape(share, family.name, np.lexsort((place, self.keep, ~self.hide)))

    def _ranks(self, order: Ints) -> Floats:
        """(places, places) how soon an order of patches (m,) hides each place."""
        rank = np.argsort(order)[_patches_at_places(self.grid, CELLS)].reshape(CELLS, CELLS).astype(np.float64)
        return (rank + rank[:, ::-1]) / 2 if self.mirror else rank

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
