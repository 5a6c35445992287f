"""Shapes of what a plan hides: the order of hiding against boxes, ellipses and its own smoothed
outlines.

A family of shapes is a number for every place of an image: the smaller, the sooner it is hidden. So
it has a shape for every share of the pixels, each inside the next. Many families are compared by a
linear attacker on edges and shades: a Cholesky factor of the covariance, in the order in which a
family shows the places, holds the attacker of every share. The best order is blended with the best
boxes and ellipses: each errs by chance, and not alike. The best of each kind are then released in
thought and read by a kernel attacker, which is not linear and sees what the outline itself tells.
Both are asked about planning images that had no part in ordering the patches or in teaching them;
images that judge the plan are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import ndimage
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.stats import rankdata

from lowtide.images.edges import edges_and_shades
from lowtide.images.encoder import Grid
from lowtide.images.planning_attackers import CELLS, Thumbnails, at_places, by_kind
from lowtide.splits import generator_for, stratified_sample
from lowtide.training import one_thread, without_gradients
from lowtide.types import Bools, Floats, Floats32, Ints, Pixels

if TYPE_CHECKING:
    import torch


KNOTS = (0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.35)  # shares kept at which families are compared
ORDERING = 0.6  # of the planning images order the patches; the others choose between shapes
GREEDY = "greedy order"
SMOOTHED = "smoothed order"
CAUTIOUS = "order smoothed over 1 places"  # where images are too few to choose by
_ORDERS = (GREEDY, SMOOTHED)
_RIDGE = 1.0  # as in `showing.Spread`: added to the variance of every feature, which is 1
# Of the kernel attacker, whose kernel has 1 on the diagonal; 0.1 to 1 read the same faces equally
# well
_PENALTY = 0.3
_CENTRES = np.linspace(0.3, 0.9, 7)  # of boxes and ellipses, down the image
_ASIDE = (0.3, 0.5, 0.7)  # and across, where both sides are not treated alike
_ASPECTS = (
    0.6,
    1.0,
    1.6,
    2.5,
    np.inf,
)  # width over height, in shares of the image; the last is a band
_SMOOTH = (0.5, 1.0, 1.5, 2.0)  # places over which an order is smoothed
_BLENDED = (1, 3, 6)  # boxes and ellipses, the best ones, that an order is blended with
_WORTH = (
    1.3  # times as much as the best the linear attacker may read of a family that is read again
)
_ROWS = (
    3600  # images; the kernel of all pairs is in memory, and more do not change which shape is best
)
_BATCH = 256
_FAINT = 1e-6  # variance of a feature that does not vary but for rounding


@dataclass(frozen=True, eq=False)
class Family:
    """Shapes of one kind, one for every share of the pixels.

    Attributes:
        kind: such as "box".
        name: its kind and parameters, for people.
        level: from places down and across, in shares of the image, to numbers; the smallest are
            hidden first.
    """

    kind: str
    name: str
    level: Callable[[Floats, Floats], Floats]

    def order(self, grid: Grid, before: Ints) -> Ints:
        """(m,) the patches in the order of hiding; those on one level in the order `before`
        (m,).
        """
        row, column = np.divmod(np.arange(len(grid)), grid.across)
        y = (row * grid.patch + np.minimum((row + 1) * grid.patch, grid.height)) / (2 * grid.height)
        x = (column * grid.patch + np.minimum((column + 1) * grid.patch, grid.width)) / (
            2 * grid.width
        )
        return np.lexsort((np.argsort(before), np.round(self.level(y, x), 9)))


@dataclass(frozen=True, eq=False)
class HiddenShape:
    """The family that was chosen for shares around one.

    Attributes:
        kept: the share of the pixels at which it was chosen.
        name: of the family.
        order: (m,) the patches in its order of hiding.
    """

    kept: float
    name: str
    order: Ints = field(repr=False)


def families(rank: Floats, *, mirror: bool) -> tuple[Family, ...]:
    """Every family that is compared.

    Args:
        rank: (places, places) of the greedy order: how soon each place is hidden, 0 first.
        mirror: whether both sides of an image are treated alike.
    """
    found = [Family(GREEDY, GREEDY, _looked_up(rank))]
    for width in _SMOOTH:
        soft = ndimage.gaussian_filter(rank, width, mode="nearest")
        found.append(Family(SMOOTHED, f"order smoothed over {width:g} places", _looked_up(soft)))
    for x in (0.5,) if mirror else _ASIDE:
        for y in _CENTRES:
            for aspect in _ASPECTS:
                where = f"at {x:.0%} across, {y:.0%} down, {aspect:g} times as wide as high"
                found.append(Family("box", f"box {where}", _box(float(y), x, aspect)))
                if np.isfinite(aspect):
                    found.append(
                        Family("ellipse", f"ellipse {where}", _ellipse(float(y), x, aspect))
                    )
    return tuple(found)


def blended(every: Sequence[Family], parts: Sequence[int]) -> Family:
    """A family, or the mean of the ranks of an order and, counted as much together, of some shapes.

    Args:
        every: all families.
        parts: which of them: one; or the order, then the shapes.
    """
    first, *others = (every[part] for part in parts)
    if not others:
        return first
    row, column = np.divmod(np.arange(CELLS**2), CELLS)
    ranks = [
        rankdata(one.level((row + 0.5) / CELLS, (column + 0.5) / CELLS)) for one in (first, *others)
    ]
    table = (ranks[0] + np.mean(ranks[1:], axis=0)).reshape(CELLS, CELLS)
    noun = "box or ellipse" if len(others) == 1 else "boxes and ellipses"
    return Family(
        "blend", f"{first.name}, blended with the best {len(others)} {noun}", _looked_up(table)
    )


def _looked_up(table: Floats) -> Callable[[Floats, Floats], Floats]:
    down, across = table.shape

    def level(y: Floats, x: Floats) -> Floats:
        return table[
            np.minimum((y * down).astype(int), down - 1),
            np.minimum((x * across).astype(int), across - 1),
        ]

    return level


def _box(centre_y: float, centre_x: float, aspect: float) -> Callable[[Floats, Floats], Floats]:
    return lambda y, x: np.maximum(np.abs(y - centre_y), np.abs(x - centre_x) / aspect)


def _ellipse(centre_y: float, centre_x: float, aspect: float) -> Callable[[Floats, Floats], Floats]:
    return lambda y, x: np.hypot(y - centre_y, (x - centre_x) / aspect)


def some_images(data: Thumbnails, rows: Bools | Ints) -> Thumbnails:
    """Some of the images for planning."""
    return replace(
        data,
        raw=data.raw[rows],
        standins=data.standins[rows],
        codes=data.codes[rows],
        rows=data.rows[rows],
    )


class LinearReader:
    """A linear attacker on shades and edges, in closed form for every share of a family.

    Args:
        data: the images for planning; two classes or more.
        learning: (n,) those it learns from; the others are asked about.
        mirror: whether both sides of an image are treated alike. Then the mean of an image and its
            mirror image says all that symmetric shapes leave, in half as many numbers.
    """

    def __init__(self, data: Thumbnails, learning: Bools, *, mirror: bool) -> None:
        features = numbers_at_places(data.raw, mirror)
        self._across = CELLS // 2 if mirror else CELLS
        self._place = np.tile(
            np.arange(CELLS * self._across), features.shape[1] // (CELLS * self._across)
        )
        self._codes = data.codes[~learning]
        known = features[learning].astype(np.float64)
        codes = data.codes[learning]
        share = np.bincount(codes, minlength=len(data.prior)) / len(codes)
        means = np.stack([known[codes == k].mean(axis=0) for k in range(len(data.prior))])
        known -= means[codes]
        scale = np.sqrt(np.maximum((known**2).mean(axis=0), _FAINT))
        known /= scale
        self._within = known.T @ known / len(known)
        self._within[np.diag_indices_from(self._within)] += _RIDGE
        self._between = ((means - share @ means) / scale).T * np.sqrt(share)
        self._asked = (features[~learning] - share @ means) / scale

    def read(self, family: Family, shares: Sequence[float]) -> Floats:
        """(shares,) how well the classes of the other images are told apart when a share is kept:
        an F ratio.

        It is the variance between classes over that within them, of the attacker's scores.
        """
        row, column = np.divmod(np.arange(CELLS * self._across), self._across)
        level = family.level((row + 0.5) / CELLS, (column + 0.5) / CELLS)
        place = np.empty(len(level), dtype=np.intp)
        place[np.argsort(-level, kind="stable")] = np.arange(
            len(level)
        )  # what is shown first comes first
        order = np.argsort(place[self._place], kind="stable")
        with one_thread():
            factor = cholesky(
                self._within[np.ix_(order, order)], lower=True, overwrite_a=True, check_finite=False
            )
            half = solve_triangular(factor, self._between[order], lower=True, check_finite=False)
            each = len(self._place) // len(level)
            found = []
            for share in shares:
                shown = max(1, round(share * len(level))) * each
                weights = solve_triangular(
                    factor[:shown, :shown], half[:shown], lower=True, trans="T", check_finite=False
                )
                found.append(_told_apart(self._asked[:, order[:shown]] @ weights, self._codes))
        return np.array(found)


class KernelReader:
    """Kernel ridge regression on edges and shades of a release: not linear, and every image is left
    out in closed form.

    Args:
        data: the images for planning.
        asked: (n,) the images that it is asked about, each by a model of all others.
        mirror: whether an image and its mirror image are taken for the same.
    """

    def __init__(self, data: Thumbnails, asked: Bools, *, mirror: bool) -> None:
        rows = stratified_sample(data.codes, _ROWS, generator_for("thumbnails", len(asked)))
        self._data = some_images(data, rows)
        self._asked = asked[rows]
        self._mirror = mirror

    def read(self, hidden: Bools) -> float:
        """How well it tells the classes apart when the pixels `hidden` (height, width) are: as
        `LinearReader.read`.
        """
        data = self._data
        shown = data.shown(hidden)
        features = np.concatenate(
            [
                _sides(
                    data.composed(np.arange(start, min(start + _BATCH, len(data.codes))), shown),
                    self._mirror,
                )
                for start in range(0, len(data.codes), _BATCH)
            ]
        )
        features = (features - features.mean(axis=0)) / np.sqrt(
            np.maximum(features.var(axis=0), _FAINT)
        )
        with one_thread():
            squares = (features**2).sum(axis=1)
            apart = squares[:, None] + squares - 2 * features @ features.T
            kernel = np.exp(-apart / np.median(apart)).astype(np.float64)
            kernel[np.diag_indices_from(kernel)] += _PENALTY
            inverse = cho_solve(cho_factor(kernel), np.eye(len(kernel)))
        target = np.eye(len(data.prior))[data.codes] - data.prior
        # What is left of the target when a row is left out is (K + λ)⁻¹ t, divided by the diagonal
        # of the inverse.
        guess = target - (inverse @ target) / np.diag(inverse)[:, None]
        return _told_apart(guess[self._asked], data.codes[self._asked])


def choose_families(
    data: Thumbnails,
    grid: Grid,
    every: Sequence[Family],
    order: Ints,
    *,
    learning: Bools,
    mirror: bool,
    tick: Callable[[float], None] = lambda _: None,
) -> list[tuple[int, ...]]:
    """Which of the families, or which blend of them, tells least at each of the shares `KNOTS`:
    parts for `blended`.

    Args:
        data: the images for planning.
        grid: the patches.
        every: the families; the first is the order that the images `learning` gave.
        order: (m,) that order.
        learning: (n,) the images that ordered the patches; the others choose.
        mirror: whether both sides of an image are treated alike.
        tick: called with the share of the work that is done.
    """
    linear = LinearReader(data, learning, mirror=mirror)
    kernel = KernelReader(data, ~learning, mirror=mirror)
    told = np.stack([linear.read(family, KNOTS) for family in every])
    tick(0.2)
    chosen = []
    for number, share in enumerate(KNOTS):
        ranked = np.argsort(told[:, number], kind="stable")
        here: dict[tuple[int, ...], float] = {
            (int(place),): float(told[place, number]) for place in ranked
        }
        for parts in _blends(every, list(here)):
            here[parts] = float(linear.read(blended(every, parts), (share,))[0])
        best: dict[str, tuple[int, ...]] = {}
        for parts in sorted(here, key=here.__getitem__):
            best.setdefault(_sort_of(blended(every, parts)), parts)
        limit = _WORTH * min(here.values())
        finalists = [parts for parts in best.values() if here[parts] <= limit]
        releases = [
            hiding(blended(every, parts).order(grid, order), grid, share) for parts in finalists
        ]
        # Neither make alone: each errs by chance, and a shape must stand against both.
        both = [
            here[parts] * kernel.read(grid.spread(hidden))
            for parts, hidden in zip(finalists, releases, strict=True)
        ]
        chosen.append(finalists[int(np.argmin(both))])
        tick(0.2 + 0.8 * (number + 1) / len(KNOTS))
    return chosen


def _sort_of(family: Family) -> str:
    """What a family competes as before the best are read again: a smoothed order is much like the
    order.
    """
    return "order" if family.kind in _ORDERS else family.kind


def _blends(every: Sequence[Family], ranked: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The best order with the best boxes and ellipses, from families ranked by what they tell, the
    least first.
    """
    alone = [parts[0] for parts in ranked]
    first = next(place for place in alone if every[place].kind in _ORDERS)
    shapes = [place for place in alone if every[place].kind not in _ORDERS]
    return [(first, *shapes[:count]) for count in _BLENDED if count <= len(shapes)]


def hiding(order: Ints, grid: Grid, kept: float) -> Bools:
    """(m,) the first patches of an order, as many as leave the share `kept` of the pixels, or a
    little more.
    """
    hidden = np.zeros(len(grid), dtype=bool)
    hidden[order[np.cumsum(grid.sizes[order]) <= (1 - kept + 1e-9) * grid.sizes.sum()]] = True
    return hidden


def numbers_at_places(pixels: Pixels, mirror: bool) -> Floats32:
    """(n, D) shades and directions of edges of images (n, h, w, channels), place by place within
    each kind.

    With `mirror`, the mean of those of an image and its mirror image, of the left half.
    """
    from lowtide.images import convnets

    found = []
    for start in range(0, len(pixels), _BATCH):
        values: Any = _sides(convnets.to_input(pixels[start : start + _BATCH]), mirror)
        shades, _, fine = by_kind(values, pixels.shape[3])
        found.append(np.concatenate([shades, fine], axis=1)[:, _left(pixels.shape[3], mirror)])
    return np.concatenate(found)


def places_of_numbers(channels: int, mirror: bool) -> Ints:
    """(D,) the place, of `CELLS` × `CELLS` row by row, of each of `numbers_at_places`."""
    return at_places(channels)[_left(channels, mirror)]


def _left(channels: int, mirror: bool) -> Bools | slice:
    """Which of the numbers of all places are those of the left half, or all of them."""
    return at_places(channels) % CELLS < CELLS // 2 if mirror else slice(None)


@without_gradients
def _sides(x: torch.Tensor, mirror: bool) -> Floats32:
    """(n, numbers) edges and shades of images, or the mean of these and of those of the mirror
    images.
    """
    with one_thread():
        plain = edges_and_shades(x)
        return np.asarray(((plain + edges_and_shades(x.flip(3))) / 2 if mirror else plain).numpy())


def _told_apart(scores: Floats, codes: Ints) -> float:
    """The variance of scores (n, |S|) between classes over that within them, along the direction
    that tells most.
    """
    present = np.unique(codes)
    means = np.stack([scores[codes == k].mean(axis=0) for k in present])
    share = np.array([(codes == k).mean() for k in present])
    rest = scores - means[np.searchsorted(present, codes)]
    within = rest.T @ rest / len(rest)
    gaps = means - share @ means
    # Scores of |S| classes may span fewer directions than there are.
    return float((share[:, None] * gaps * (gaps @ np.linalg.pinv(within, hermitian=True))).sum())
