"""How hidden patches are disclosed: painted over, or noised.

Pixels are numbers in [0, 1], steps of 1/255. Noise is added there, clipped to the range and rounded
to a step again, which is post-processing: it never raises E_γ.

Policies for images: which patches to hide. What each looks at, and so may promise, is as for
tables.

Images as they are released: read from where the clean ones lie, hidden when they are asked for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from lowtide.bundles import Arrays
from lowtide.checks import LowtideError, count, limit_of, one_of, within
from lowtide.disclose.budget import Point
from lowtide.disclose.noise import Ids, KeyedNoise, row_ids
from lowtide.disclose.saved import (
    Parts,
    density_parts,
    ordered_parts,
    read_density,
    read_mask,
    read_ordered,
)
from lowtide.images.encoder import Grid, Images
from lowtide.images.filling import FilledImages
from lowtide.images.inpainting import FILLS, fill_in
from lowtide.images.regions import Region
from lowtide.images.shapes import GREEDY, HiddenShape, hiding
from lowtide.types import Bools, Floats, Ints, Pixels

Kind = Literal["redact", "gaussian"]
REDRAW = "redraw"  # a fill: the details of other images
_TOP = 255
# What a painted-over pixel shows: the middle of the range tells nothing, nor what images usually
# show
GREY = 128


@dataclass(frozen=True)
class ImageMechanism:
    """How the hidden patches of images are disclosed.

    Attributes:
        grid: the size of the images and of their patches.
        kind: `redact` or `gaussian`.
        lam: λ of the noise, in units of the pixel range; `None` when patches are redacted.
        fill: the byte that a redacted pixel shows in every channel; or one of `FILLS`, by which it
            is filled in from what is shown; or `redraw`, where the file that is released fills it
            in (`Released`) and `hide` paints grey.
    """

    grid: Grid
    kind: Kind = "redact"
    lam: float | None = None
    fill: int | str = GREY

    def __post_init__(self) -> None:
        one_of("mechanism", self.kind, ("redact", "gaussian"))
        if not isinstance(self.fill, str):
            count("fill", self.fill, 0, _TOP)
        else:
            one_of("fill", self.fill, (*FILLS, REDRAW))
            if self.kind != "redact":
                raise LowtideError(
                    f"fill={self.fill!r} fills in what is redacted; use mechanism='redact', or"
                    " leave fill out"
                )
        if self.kind == "gaussian":
            if self.lam is None:
                raise LowtideError(
                    "gaussian noise needs its scale; give lam, in units of the pixel range: 1 is"
                    " strong"
                )
            within("lam", self.lam, 0.0, np.inf, low_open=True, high_open=True)
            object.__setattr__(self, "lam", float(self.lam))
        elif self.lam is not None:
            raise LowtideError("redaction draws no noise; leave lam out, or use 'gaussian'")

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers, and therefore needs a key."""
        return self.kind == "gaussian" or self.fill == REDRAW

    def ratios(self) -> Floats:
        """`D_j/λ` of each patch, (m,): √(pixels · channels)/λ, and 0 where patches are redacted."""
        if self.lam is None:
            return np.zeros(len(self.grid))
        return np.asarray(
            np.sqrt(self.grid.sizes * self.grid.channels) / self.lam, dtype=np.float64
        )

    def hide(
        self, pixels: Pixels, hidden: ArrayLike, *, noise: KeyedNoise | None = None, ids: Any = None
    ) -> Pixels:
        """Return new images with the hidden patches disclosed (paper, Eq. 14); all other pixels
        stay bit for bit.

        Args:
            pixels: (n, height, width, channels) bytes.
            hidden: (m,) or (n, m), true where a patch is hidden.
            noise: keyed noise. It belongs to what the whole image shows: the same image has the
                same noise under any name, and another image under the same name has fresh noise, so
                that two releases do not show how the images differ. Every pixel has one number of
                its own in it, whatever else is hidden, so that releases with other patches, or
                patches of another size, show the same noised pixel and not a second look at it.
            ids: n different whole numbers or texts, where equal images are to have noise of their
                own each, which whoever has several of them can average; by default they have the
                same.
        """
        grid = self.grid
        if pixels.dtype != np.uint8 or pixels.shape[1:] != (grid.height, grid.width, grid.channels):
            raise LowtideError(
                f"images must be bytes of shape (n, {grid.height}, {grid.width}, {grid.channels}), "
                f"got {pixels.dtype} {pixels.shape}"
            )
        mask = self._pixels(hidden, len(pixels))
        if self.kind == "redact":
            return self.paint(pixels, mask)
        result = np.array(pixels)
        if mask.any():
            if noise is None:
                raise LowtideError(
                    "hidden patches need noise; give noise=KeyedNoise(key), with a key from"
                    " new_key()"
                )
            contents = [image.tobytes() for image in pixels]
            if ids is not None:
                names = row_ids(ids, len(pixels)).astype("<u8")
                contents = [
                    content + name.tobytes() for content, name in zip(contents, names, strict=True)
                ]
            numbers = noise.content_ids(contents, len(pixels))
            self._draw(
                result, np.broadcast_to(mask, result.shape[:3]), numbers, noise.derive(self._label)
            )
        return result

    def paint(self, pixels: Pixels, mask: Bools) -> Pixels:
        """New images of any size with hidden pixels painted over, or filled in from the others.

        Args:
            pixels: (n, height, width, channels) bytes.
            mask: (height, width) or (n, height, width), true where a pixel is hidden.
        """
        result = np.array(pixels)
        # A mask of every number is ten times as fast here as one that is stretched over the
        # channels.
        where = np.repeat(mask[..., None], result.shape[-1], axis=-1)
        np.copyto(result, np.uint8(GREY if isinstance(self.fill, str) else self.fill), where=where)
        if self.fill not in FILLS:
            return result
        if mask.ndim == 2:
            return fill_in(result, mask, str(self.fill))
        for row, own in enumerate(mask):
            result[row] = fill_in(result[row : row + 1], own, str(self.fill))[0]
        return result

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ImageMechanism:
        """Read back what `to_config` wrote."""
        return cls(**{**config, "grid": Grid(**config["grid"])})

    @cached_property
    def _label(self) -> bytes:
        """Names the stream. With one noise at two scales the difference of two releases would give
        the image away.
        """
        size = (self.grid.height, self.grid.width, self.grid.channels)
        return hashlib.blake2b(json.dumps(["pixels", *size, self.lam]).encode()).digest()

    def _pixels(self, hidden: ArrayLike, n: int) -> Bools:
        """The mask of pixels, (height, width) or (n, height, width)."""
        mask = self.grid.features.mask(hidden)
        if mask.ndim == 2 and len(mask) != n:
            raise LowtideError(
                f"hidden has {len(mask)} rows for {n} images; give one choice, or one per image"
            )
        return np.asarray(self.grid.spread(mask), dtype=bool)

    def _draw(self, result: Pixels, mask: Bools, ids: Ids, noise: KeyedNoise) -> None:
        """Noise the hidden pixels, one line of the images after the other; a line is a feature of
        the cipher.
        """
        width = self.grid.width * self.grid.channels
        for line in np.flatnonzero(mask.any(axis=(0, 2))):
            some = np.flatnonzero(mask[:, line].any(axis=1))
            drawn = noise.uniform(ids[some], int(line), width).reshape(
                len(some), self.grid.width, self.grid.channels
            )
            cells = some[:, None], line, np.arange(self.grid.width)
            before = result[cells]
            where = mask[some, line]
            # The normal quantile is the dear part: only for pixels that are hidden.
            noised = before[where] / _TOP + (self.lam or 0.0) * ndtri(drawn[where])
            before[where] = np.rint(np.clip(noised, 0.0, 1.0) * _TOP).astype(np.uint8)
            result[cells] = before


class PatchPolicy(Protocol):
    """Says what to hide."""

    name: ClassVar[str]

    def flags(self, pixels: Pixels) -> Bools:
        """What to hide of images (n, height, width, channels), (n, m)."""
        ...

    def parts(self) -> Parts:
        """The policy as plain JSON, with its name, and tensors."""
        ...


class PatchDensity(Protocol):
    """What a rule that goes patch by patch asks: a fitted density of images."""

    def observed(self, x: Any, mask: Any) -> Any:
        """`i(s; x_A)`, (n, |S|), of images of which the patches where `mask` (m,) is true are
        seen.
        """
        ...

    def conditionals(self, x: Any) -> Any:
        """`i(s; x_j | x^{j−1})`, (n, m, |S|), of images."""
        ...


@dataclass(frozen=True, eq=False)
class FixedPatches:
    """One choice for everybody, and all choices that keep more or less.

    Attributes:
        grid: the patches.
        hidden: (m,) what is hidden.
        order: (m,) the patches in the order in which they are hidden when less is kept.
        keep: (m,) patches that are shown whatever happens.
        hide: (m,) patches that are hidden whatever happens.
        curve: what attackers are left with, against the share of pixels kept: logistic regression
            on edges, fitted anew for every point.
        marginal: (m,) what each patch carries of the leakage of the raw images, in nats, averaged
            over random orders of hiding; NaN where it had to be hidden.
        shapes: the shapes that are hidden in place of the first patches of the order, each around
            its share kept; none where the order itself is followed.
    """

    name: ClassVar[str] = "fixed"
    grid: Grid
    hidden: Bools
    order: Ints = field(repr=False)
    keep: Bools = field(repr=False)
    hide: Bools = field(repr=False)
    curve: tuple[Point, ...] = field(repr=False)
    marginal: Floats = field(repr=False)
    shapes: tuple[HiddenShape, ...] = field(default=(), repr=False)

    @property
    def shape(self) -> str:
        """The shape of what is hidden, in words."""
        return GREEDY if not self.shapes else self._shape_at(self.kept).name

    @property
    def kept(self) -> float:
        """The share of pixels that is shown."""
        return float(self.grid.sizes[~self.hidden].sum() / self.grid.sizes.sum())

    def flags(self, pixels: Pixels) -> Bools:
        """The same for every image."""
        return np.tile(self.hidden, (len(pixels), 1))

    def at(self, kept: float) -> FixedPatches:
        """The policy that keeps the share `kept` of the pixels, or a little more where patches do
        not add up to it.
        """
        share = float(within("kept", kept, 0.0, 1.0))
        order = self._shape_at(share).order if self.shapes else self.order
        return replace(self, hidden=(hiding(order, self.grid, share) | self.hide) & ~self.keep)

    def _shape_at(self, kept: float) -> HiddenShape:
        return min(self.shapes, key=lambda shape: abs(shape.kept - kept))

    def with_curve(self, points: Sequence[Point]) -> FixedPatches:
        """The same policy with its trade-off curve."""
        return replace(self, curve=tuple(points))

    def everything(self) -> FixedPatches:
        """The policy that hides all that may be hidden."""
        return replace(self, hidden=~self.keep)

    def parts(self) -> Parts:
        """Plain JSON, and the masks and the order as tensors."""
        config, tensors = ordered_parts(
            hidden=self.hidden, keep=self.keep, hide=self.hide, order=self.order, curve=self.curve
        )
        arrays = {
            "marginal": np.nan_to_num(self.marginal)
        }  # a bundle holds finite numbers; `hide` says where NaN was
        if self.shapes:
            arrays["shapes"] = np.stack([shape.order for shape in self.shapes])
            arrays["points"] = np.stack([point.hidden for point in self.curve])
            config["shapes"] = [{"kept": shape.kept, "name": shape.name} for shape in self.shapes]
        return config, {**tensors, **arrays}

    @classmethod
    def read(cls, config: Mapping[str, Any], tensors: Arrays, grid: Grid) -> FixedPatches:
        """Rebuild what `parts` gave."""
        marginal = tensors["marginal"]
        if marginal.shape != (len(grid),):
            raise LowtideError(
                "the information of patches is not one number for each; make it again"
            )
        found = read_ordered(config, tensors, len(grid))
        marginal = np.where(found["hide"], np.nan, marginal)
        plan = cls(grid=grid, marginal=marginal, **found)
        return plan._with_shapes(config["shapes"], tensors) if "shapes" in config else plan

    def _with_shapes(self, said: Sequence[Mapping[str, Any]], tensors: Arrays) -> FixedPatches:
        """The same plan with the shapes that `parts` gave; the points of its curve hide these."""
        orders = tensors["shapes"].astype(np.intp)
        if (
            orders.shape[1:] != (len(self.grid),)
            or (np.sort(orders, axis=1) != np.arange(len(self.grid))).any()
        ):
            raise LowtideError("a shape of the plan does not name every patch once; make it again")
        shapes = tuple(
            HiddenShape(float(one["kept"]), str(one["name"]), own)
            for one, own in zip(said, orders, strict=True)
        )
        masks = [read_mask(mask, len(self.grid)) for mask in tensors["points"]]
        curve = tuple(
            replace(point, hidden=mask) for point, mask in zip(self.curve, masks, strict=True)
        )
        return replace(self, shapes=shapes, curve=curve)


def threshold_parts(
    name: str, density: PatchDensity, epsilon: float, keep: Bools, hide: Bools
) -> Parts:
    """A policy that hides where a density exceeds ε as plain JSON, and the weights of the
    density.
    """
    config, tensors = density_parts(density)
    lists = {"keep": keep.tolist(), "hide": hide.tolist()}
    return {"name": name, "epsilon": epsilon, **lists, "density": config}, tensors


def read_threshold(
    config: Mapping[str, Any], tensors: Arrays, grid: Grid, where: Any
) -> dict[str, Any]:
    """The fields that `threshold_parts` wrote."""
    masks = {name: read_mask(config[name], len(grid)) for name in ("keep", "hide")}
    density = read_density(config["density"], tensors, where)
    return {"density": density, "epsilon": limit_of(config["epsilon"]), **masks}


BATCH = 256


@dataclass(frozen=True, eq=False)
class Released:
    """The release of images; itself `Images`, never in memory as a whole.

    Attributes:
        clean: the images.
        policy: what to hide.
        mechanism: how.
        noise: where noise is drawn from; `None` when none is.
        ids: (n,) numbers of images that their noise is keyed by besides what they show; `None` for
            nothing else.
    """

    clean: Images
    policy: PatchPolicy
    mechanism: ImageMechanism
    noise: KeyedNoise | None = field(default=None, repr=False)
    ids: Ids | None = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.clean.shape

    def __len__(self) -> int:
        return len(self.clean)

    def read(self, index: Ints) -> Pixels:
        """Some released images."""
        if self._filled is not None:
            return self._filled.read(index)
        pixels = self.clean.read(index)
        ids = None if self.ids is None else self.ids[index]
        # One choice for everybody is applied to all images at once.
        hidden = (
            self.policy.hidden
            if isinstance(self.policy, FixedPatches)
            else self.policy.flags(pixels)
        )
        return self.mechanism.hide(pixels, hidden, noise=self.noise, ids=ids)

    @cached_property
    def _filled(self) -> FilledImages | None:
        """The images with their hidden patches filled in; `None` where they are painted over or
        noised.
        """
        grid = self.mechanism.grid
        policy = self.policy
        if self.mechanism.fill != REDRAW or not isinstance(policy, FixedPatches):
            return None
        if not policy.hidden.any() or policy.hidden.all():  # nothing to fill, or nothing to go by
            return None
        if self.noise is None:
            raise LowtideError(
                "fill='redraw' draws who lends; give noise=KeyedNoise(key), with a key from"
                " new_key()"
            )
        return FilledImages(
            self.clean, Region(np.asarray(grid.spread(policy.hidden), bool)), self.noise, self.ids
        )


def all_flags(images: Images, policy: PatchPolicy) -> Bools:
    """What is hidden of every image, (n, m), read batch by batch."""
    parts = [
        policy.flags(images.read(np.arange(start, min(start + BATCH, len(images)))))
        for start in range(0, len(images), BATCH)
    ]
    return np.concatenate(parts)
