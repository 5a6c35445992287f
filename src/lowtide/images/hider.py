"""The frozen result for images: what to hide and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lowtide.checks import LowtideError, check_rows
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.disclose.raw_past import RawPast, is_raw_past
from lowtide.disclose.saved import Hider, Tensors, reading
from lowtide.images.encoder import Images, as_images
from lowtide.images.mechanism import (
    FixedPatches,
    ImageMechanism,
    PatchPolicy,
    Released,
    all_flags,
    read_threshold,
)
from lowtide.images.problem import SequentialPatches
from lowtide.images.redrawing import RedrawnImages, RedrawRegion
from lowtide.types import Bools

Config = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class ImageHider(Hider):
    """Hides in images what a policy says, by a mechanism.

    Attributes:
        policy: what to hide.
        mechanism: how it is disclosed.
        card: what is known of the release it was rehearsed with.
    """

    kind: ClassVar[str] = "images"
    policy: PatchPolicy
    mechanism: ImageMechanism
    card: ReleaseCard

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the patches."""
        return self.mechanism.grid.features.names

    @property
    def draws(self) -> bool:
        """Whether a release draws random numbers."""
        return self.mechanism.draws or isinstance(self.policy, RedrawRegion)

    def transform(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> Any:
        """Hide in images: an array gives an array of the same shape, `Images` give `Images` that
        hide when read.

        Args:
            x: bytes (n, height, width) or (n, height, width, channels), or `Images`.
            noise: where noise is drawn from, if the mechanism draws any.
            ids: one value per image that stays with it, which noise is keyed by besides what the
                image shows.
        """
        if isinstance(self.policy, RedrawRegion):
            raise LowtideError(
                "redraw needs the secret of every image: release them with release(), secret=..."
            )
        opened = self.read(x)
        numbers = None if ids is None else row_ids(ids, len(opened))
        if self.mechanism.draws and noise is None:
            raise LowtideError(
                "hidden patches need noise; give noise=KeyedNoise(key), with a key from new_key()"
            )
        release = Released(opened, self.policy, self.mechanism, noise, numbers)
        if isinstance(x, np.ndarray):
            return release.read(np.arange(len(opened))).reshape(x.shape)
        return release

    def redraw(self, x: Any, secret: Any, *, noise: KeyedNoise, ids: Any = None) -> RedrawnImages:
        """Redraw in all images of a file.

        Args:
            x: as for `transform`.
            secret: (n,) the secret of every image, as the reference data had it; it stays inside.
            noise: where draws come from.
            ids: one value per image that stays with it, which draws are keyed by besides what the
                image shows.
        """
        if not isinstance(self.policy, RedrawRegion):
            raise LowtideError(
                f"the policy {self.policy.name!r} draws nothing anew; call transform()"
            )
        opened = self.read(x)
        check_rows("the secret", np.shape(secret), len(opened), "images", flat=True)
        codes = self.policy.secret.read(np.asarray(secret).tolist(), "images")
        return self.policy.release(
            opened, codes, noise=noise, ids=None if ids is None else row_ids(ids, len(opened))
        )

    def flags(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> Bools:
        """What is hidden of each image, (n, m); noise does not matter."""
        return all_flags(self.read(x), self.policy)

    def read(self, images: Any) -> Images:
        """Images of the size that was fitted, or an error."""
        opened = as_images(images)
        grid = self.mechanism.grid
        if tuple(opened.shape) != (grid.height, grid.width, grid.channels):
            height, width, channels = opened.shape
            raise LowtideError(
                f"the plan is for images of {grid.width}×{grid.height} pixels and {grid.channels}"
                f" channel(s), got {width}×{height} and {channels}; resize them, or plan for that"
                " size"
            )
        return opened

    @classmethod
    def from_parts(
        cls, config: Mapping[str, Any], tensors: Tensors, where: str | Path
    ) -> ImageHider:
        """Rebuild what `parts` took apart; `where` it came from is for the error message."""
        with reading(where):
            mechanism = ImageMechanism.from_config(config["mechanism"])
            policy = _read_policy(config["policy"], tensors, mechanism, where)
            card = ReleaseCard.from_json(config["card"])
            if len(card.features) != len(mechanism.grid):
                raise LowtideError(
                    "the card is about other patches than the mechanism; make it again"
                )
            return cls(policy, mechanism, card)


def _read_policy(
    config: Config, tensors: Tensors, mechanism: ImageMechanism, where: Any
) -> PatchPolicy:
    if is_raw_past(config):
        return RawPast.read(config, tensors, len(mechanism.grid), where)
    return _POLICIES[config["name"]](config, tensors, mechanism, where)


def _read_fixed(
    config: Config, tensors: Tensors, mechanism: ImageMechanism, where: Any
) -> PatchPolicy:
    return FixedPatches.read(config, tensors, mechanism.grid)


def _read_sequential(
    config: Config, tensors: Tensors, mechanism: ImageMechanism, where: Any
) -> PatchPolicy:
    return SequentialPatches(
        mechanism=mechanism, **read_threshold(config, tensors, mechanism.grid, where)
    )


def _read_redraw(
    config: Config, tensors: Tensors, mechanism: ImageMechanism, where: Any
) -> PatchPolicy:
    return RedrawRegion.read(config, tensors, mechanism.grid)


_POLICIES = {"fixed": _read_fixed, "redraw": _read_redraw, "sequential": _read_sequential}
