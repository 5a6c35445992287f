"""How hidden patches are disclosed: painted over, or noised.

Pixels are numbers in [0, 1], steps of 1/255. Noise is added there, clipped to the range and rounded to a step again,
which is post-processing: it never raises E_γ.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from lowtide.disclose.noise import Ids, KeyedNoise, row_ids
from lowtide.errors import LowtideError, count, one_of, within
from lowtide.images.encoder import Grid
from lowtide.types import Bools, Floats, Pixels

Kind = Literal["redact", "gaussian"]
_TOP = 255
GREY = 128  # what a painted-over pixel shows: the middle of the range tells nothing, nor what images usually show


@dataclass(frozen=True)
class ImageMechanism:
    """How the hidden patches of images are disclosed.

    Attributes:
        grid: the size of the images and of their patches.
        kind: `redact` or `gaussian`.
        lam: λ of the noise, in units of the pixel range; `None` when patches are redacted.
        fill: the byte that a redacted pixel shows in every channel.
    """

    grid: Grid
    kind: Kind = "redact"
    lam: float | None = None
    fill: int = GREY

    def __post_init__(self) -> None:
        one_of("mechanism", self.kind, ("redact", "gaussian"))
        count("fill", self.fill, 0, _TOP)
        if self.kind == "gaussian":
            if self.lam is None:
                raise LowtideError("gaussian noise needs its scale; give lam, in units of the pixel range: 1 is strong")
            within("lam", self.lam, 0.0, np.inf, low_open=True, high_open=True)
            object.__setattr__(self, "lam", float(self.lam))
        elif self.lam is not None:
            raise LowtideError("redaction draws no noise; leave lam out, or use 'gaussian'")

    @property
    def draws(self) -> bool:
        """Whether it needs noise, and therefore a key and image ids."""
        return self.kind == "gaussian"

    def ratios(self) -> Floats:
        """`D_j/λ` of each patch, (m,): √(pixels · channels)/λ, and 0 where patches are redacted."""
        if self.lam is None:
            return np.zeros(len(self.grid))
        return np.asarray(np.sqrt(self.grid.sizes * self.grid.channels) / self.lam, dtype=np.float64)

    def hide(self, pixels: Pixels, hidden: ArrayLike, *, noise: KeyedNoise | None = None, ids: Any = None) -> Pixels:
        """Return new images with the hidden patches disclosed (paper, Eq. 14); all other pixels stay bit for bit.

        Args:
            pixels: (n, height, width, channels) bytes.
            hidden: (m,) or (n, m), true where a patch is hidden.
            noise: keyed noise; every pixel of every image has one number of its own in it, whatever else is hidden, so
                that releases with other patches, or patches of another size, show the same noised pixel and not a
                second look at it.
            ids: n image ids; see `noise.row_ids`.
        """
        grid = self.grid
        if pixels.dtype != np.uint8 or pixels.shape[1:] != (grid.height, grid.width, grid.channels):
            raise LowtideError(
                f"images must be bytes of shape (n, {grid.height}, {grid.width}, {grid.channels}), "
                f"got {pixels.dtype} {pixels.shape}"
            )
        mask = self._pixels(hidden, len(pixels))
        result = np.array(pixels)
        if self.kind == "redact":
            np.copyto(result, np.uint8(self.fill), where=mask[..., None])
        elif mask.any():
            numbers = row_ids(ids, len(pixels))
            if noise is None:
                raise LowtideError("hidden patches need noise; give noise=KeyedNoise(key), with a key from new_key()")
            self._draw(result, np.broadcast_to(mask, result.shape[:3]), numbers, noise.derive(self._label))
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
        """Names the stream. With one noise at two scales the difference of two releases would give the image away."""
        size = (self.grid.height, self.grid.width, self.grid.channels)
        return hashlib.blake2b(json.dumps(["pixels", *size, self.lam]).encode()).digest()

    def _pixels(self, hidden: ArrayLike, n: int) -> Bools:
        """The mask of pixels, (height, width) or (n, height, width)."""
        mask = self.grid.features.mask(hidden)
        if mask.ndim == 2 and len(mask) != n:
            raise LowtideError(f"hidden has {len(mask)} rows for {n} images; give one choice, or one per image")
        return np.asarray(self.grid.spread(mask), dtype=bool)

    def _draw(self, result: Pixels, mask: Bools, ids: Ids, noise: KeyedNoise) -> None:
        """Noise the hidden pixels, one line of the images after the other; a line is a feature of the cipher."""
        width = self.grid.width * self.grid.channels
        for line in np.flatnonzero(mask.any(axis=(0, 2))):
            some = np.flatnonzero(mask[:, line].any(axis=1))
            drawn = noise.uniform(ids[some], int(line), width).reshape(len(some), self.grid.width, self.grid.channels)
            cells = some[:, None], line, np.arange(self.grid.width)
            before, where = result[cells], mask[some, line]
            # The normal quantile is the dear part: only for pixels that are hidden.
            noised = before[where] / _TOP + (self.lam or 0.0) * ndtri(drawn[where])
            before[where] = np.rint(np.clip(noised, 0.0, 1.0) * _TOP).astype(np.uint8)
            result[cells] = before
