"""An attacker that reads drawing and shading: logistic regression on edges, fitted anew for every
release.

Its scores are sums over places of the image, so a map of where it reads is had without asking
again: tiles are hidden one after the other, in random order and at random places, and every tile is
charged with the information that goes. Counted by the labels of held-out images, `log q(s|x)`
before minus after, that number drowns in noise. It is counted by what the attacker believes
instead, `KL(q(·|x) ‖ q(·|x without the tile))`: for an exact posterior its mean is the same
conditional information, and no label enters.

Small versions of images that a plan is made with, shown in part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_softmax

from lowtide.disclose.budget import Reading
from lowtide.errors import LowtideError
from lowtide.estimate import reader
from lowtide.estimate.stack import mixed
from lowtide.images.edges import Regression, edges_and_shades
from lowtide.images.encoder import Images
from lowtide.images.networks import averaged
from lowtide.splits import generator, generator_for, stratified_folds, stratified_sample
from lowtide.training import one_thread
from lowtide.types import Bools, Floats, Floats32, Labels, Pixels

if TYPE_CHECKING:
    from torch import Tensor


Hide = Callable[[Pixels], Pixels]
"""Everything hidden: from images (n, height, width, channels) to their stand-ins."""

_SIDE = 64  # pixels of the longer side, about
_ROWS = 6000  # more do not change where a secret sits
_AT_ONCE = 128


@dataclass(frozen=True, eq=False)
class Thumbnails:
    """Images averaged down, with their stand-ins and classes.

    Attributes:
        raw: (n, h, w, channels) bytes.
        standins: (n, h, w, channels) the same images with everything hidden.
        codes: (n,) classes.
        prior: (|S|,) their shares.
        factor: how many pixels became one, down and across.
        rows: (n,) which of the images they are.
    """

    raw: Pixels = field(repr=False)
    standins: Pixels = field(repr=False)
    codes: Labels
    prior: Floats
    factor: int
    rows: Labels = field(repr=False)

    @classmethod
    def make(
        cls, images: Images, rows: Labels, codes: Labels, prior: Floats, hide: Hide
    ) -> Thumbnails:
        """Read the images `rows` batch by batch; `codes` are those of all images."""
        height, width, _ = images.shape
        factor = max(1, round(max(height, width) / _SIDE))
        if len(rows) > _ROWS:
            rows = rows[
                stratified_sample(codes[rows], _ROWS, generator_for("thumbnails", len(rows)))
            ]
        raw = []
        standins = []
        for start in range(0, len(rows), _AT_ONCE):
            pixels = images.read(rows[start : start + _AT_ONCE])
            raw.append(_smaller(pixels, factor))
            standins.append(_smaller(hide(pixels), factor))
        return cls(np.concatenate(raw), np.concatenate(standins), codes[rows], prior, factor, rows)

    def about(self, codes: Labels) -> Thumbnails:
        """The same images with other classes, those of all images."""
        own = codes[self.rows]
        return replace(
            self, codes=own, prior=np.bincount(own, minlength=int(codes.max()) + 1) / len(own)
        )

    @property
    def channels(self) -> int:
        """1 or 3."""
        return int(self.raw.shape[3])

    def shown(self, hidden: Bools) -> Tensor:
        """What share of every small pixel is shown, (h, w), when the pixels `hidden` (height,
        width) are not.
        """
        import torch

        return averaged(torch.from_numpy(~hidden)[None, None].float(), self.factor)[0, 0]

    def composed(self, rows: Labels, shown: Tensor) -> Tensor:
        """The release of some images that shows the share `shown` (h, w) of every pixel raw, (n,
        channels, h, w).
        """
        from lowtide.images import convnets

        return compose(
            convnets.to_input(self.raw[rows]), convnets.to_input(self.standins[rows]), shown
        )


def _smaller(pixels: Pixels, factor: int) -> Pixels:
    if factor == 1:
        return pixels

    import torch

    means = averaged(torch.from_numpy(pixels).permute(0, 3, 1, 2).float(), factor)
    return np.ascontiguousarray(means.round().byte().permute(0, 2, 3, 1).numpy())


def compose(raw: Tensor, standins: Tensor, shown: Tensor) -> Tensor:
    """The release that shows the share `shown`, (h, w) or (n, 1, h, w), of every pixel raw."""
    import torch

    return (standins + shown * (raw - standins)).contiguous(memory_format=torch.channels_last)


CELLS = 16  # places down and across; the coarse cells of the edges are 8
_BINS = 9
_FOLDS = 3
_PENALTIES = (3e-4, 3e-3)  # inverse; so many show where a secret sits
_SIDES = (2, 3, 4)  # of tiles, in places
_ORDERS = 6
_BATCH = 128
_NOTHING = 1e-9  # of a place
_UNTIL = 0.5  # share of the tiles that a walk hides


@dataclass(frozen=True, eq=False)
class SidesOfImages:
    """Numbers of images and of their mirror images, picked by row numbers.

    Attributes:
        sides: (n, columns) each.
    """

    sides: tuple[Floats32, ...]

    def __getitem__(self, index: Labels) -> SidesOfImages:
        return SidesOfImages(tuple(side[index] for side in self.sides))


def _sides(rows: SidesOfImages) -> tuple[Floats32, ...]:
    return rows.sides


class EdgeAttacker:
    """The regression on edges and shades of an audit, cross-fitted on releases of small versions.

    Args:
        data: the images for planning.
        mirror: whether a mirrored image is as likely as the image.
        seed: of everything.
    """

    def __init__(self, data: Thumbnails, *, mirror: bool, seed: int) -> None:
        self.data = data
        self.mirror = mirror
        self.seed = seed
        folds = min(_FOLDS, int(np.bincount(data.codes).min()))
        self.fold = stratified_folds(data.codes, folds, generator(seed, "edge folds"))
        self.learner = Regression(seed, _sides, (mirror,), _PENALTIES, toll=0.0)

    def read(self, shown: Tensor) -> Reading:
        """How much the release that shows `shown` (h, w) tells."""
        (member,) = self._reading(self._rows(shown)).tried
        # By the weight that suits all images: what is not read would be planned to be shown.
        weight = np.array([member.weight])
        density = mixed(member.held_out[None], weight, np.log(self.data.prior))
        return Reading.of(density, self.data.codes, self.data.prior)

    def where(self, shown: Tensor) -> Floats:
        """(h, w) nats that each pixel carries, averaged over random orders of hiding."""
        rng = generator(self.seed, "edge orders")
        rows = self._rows(shown)
        height, width = (_overlap(side) for side in shown.shape)
        live = (height @ shown.double().numpy() @ width.T).ravel() > _NOTHING
        total = np.zeros(CELLS**2)
        seen = np.zeros(CELLS**2)
        (member,) = self._reading(rows).tried
        for k in range(len(member.paths)):
            model = member.fitted(k)
            weights = member.weight * model.weights
            for x in rows[np.flatnonzero(self.fold == k)].sides:
                scores = x @ weights.T + member.weight * model.offset
                parts = np.stack([placed(x * row, self.data.channels) for row in weights], axis=1)
                _charge(parts - parts.mean(axis=0), scores, live, rng, total, seen)
        carried = (total / np.maximum(seen, 1)).reshape(CELLS, CELLS)
        # From places to pixels; each pixel gets the share of a place that it covers.
        down, across = (part / part.sum(axis=1, keepdims=True) for part in (height, width))
        return np.asarray(down.T @ carried @ across)

    def _rows(self, shown: Tensor) -> SidesOfImages:
        """(n, features) of the release, and of its mirror image."""
        import torch

        plain = []
        turned = []
        for start in range(0, len(self.data.codes), _BATCH):
            x = self.data.composed(
                np.arange(start, min(start + _BATCH, len(self.data.codes))), shown
            )
            plain.append(edges_and_shades(x))
            if self.mirror:
                turned.append(edges_and_shades(x.flip(3)))
        return SidesOfImages(tuple(torch.cat(parts).numpy() for parts in (plain, turned) if parts))

    def _reading(self, rows: SidesOfImages) -> reader.Reading:
        data = self.data
        with one_thread():
            return reader.read(
                rows,
                data.codes,
                [self.learner],
                fold=self.fold,
                log_prior=np.log(data.prior),
                drop=False,
            )


def by_kind(values: Floats, channels: int) -> tuple[Floats, Floats, Floats]:
    """Numbers of `edges_and_shades` (…, features): shades in 16 × 16 places, edges in 8 × 8, and in
    16 × 16.
    """
    sizes = (channels * CELLS**2, _BINS * (CELLS // 2) ** 2, _BINS * CELLS**2)
    if values.shape[-1] != sum(sizes):
        raise LowtideError(
            f"edges of images with {channels} channel(s) are {sum(sizes)} numbers, got"
            f" {values.shape}"
        )
    shades, coarse, fine = np.split(values, np.cumsum(sizes)[:-1], axis=-1)
    return shades, coarse, fine


def at_places(channels: int) -> Labels:
    """The place of every shade and of every edge in 16 × 16."""
    return np.tile(np.arange(CELLS**2), channels + _BINS)


def placed(values: Floats, channels: int) -> Floats:
    """Sum what belongs to one place: numbers of features (…, features) → (…, places), row by
    row.
    """
    first = values.shape[:-1]
    half = CELLS // 2
    shades, coarse, fine = by_kind(values, channels)
    small = coarse.reshape(*first, _BINS, half, half).sum(axis=-3) / 4
    large = np.repeat(np.repeat(small, 2, axis=-2), 2, axis=-1).reshape(*first, CELLS**2)
    sums = (part.reshape(*first, -1, CELLS**2).sum(axis=-2) for part in (shades, fine))
    return np.asarray(large + sum(sums))


def _charge(
    parts: Floats,
    scores: Floats,
    live: Bools,
    rng: np.random.Generator,
    total: Floats,
    seen: Floats,
) -> None:
    """Hide tiles in random orders, and charge each with the information that goes; see above."""
    rows, columns = np.divmod(np.arange(CELLS**2), CELLS)
    for start in range(0, len(parts), _BATCH):
        some = parts[start : start + _BATCH]
        before = scores[start : start + _BATCH]
        for _ in range(_ORDERS):
            side = int(rng.choice(_SIDES))
            top, left = rng.integers(side, size=2)
            number = (rows + top) // side * (CELLS + 1) + (columns + left) // side
            order = rng.permutation(np.unique(number[live]))
            order = order[: max(1, int(_UNTIL * len(order)))]
            tiles = ((number[:, None] == order) & live[:, None]).astype(np.float64)
            after = before[..., None] - np.cumsum(some @ tiles, axis=2)
            answers = log_softmax(np.concatenate([before[..., None], after], axis=2), axis=1)
            lost = (np.exp(answers[..., :-1]) * (answers[..., :-1] - answers[..., 1:])).sum(
                axis=(0, 1)
            )
            total += tiles @ (lost / tiles.sum(axis=0))
            seen += len(some) * tiles.sum(axis=1)


def _overlap(side: int) -> Floats:
    """(places, side) how much of each pixel each place covers, in pixels."""
    edges = np.linspace(0, side, CELLS + 1)
    low = edges[:-1, None]
    high = edges[1:, None]
    pixel = np.arange(side)
    return np.clip(np.minimum(high, pixel + 1) - np.maximum(low, pixel), 0.0, None)
