"""Images as they are released: read from where the clean ones lie, hidden when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lowtide.disclose.noise import Ids, KeyedNoise
from lowtide.images.encoder import Images
from lowtide.images.mechanism import ImageMechanism
from lowtide.images.policies import FixedPatches, PatchPolicy
from lowtide.types import Bools, Ints, Pixels

BATCH = 256


@dataclass(frozen=True, eq=False)
class Released:
    """The release of images; itself `Images`, never in memory as a whole.

    Attributes:
        clean: the images.
        policy: what to hide.
        mechanism: how.
        noise: where noise is drawn from; `None` when none is.
        ids: (n,) the numbers of the images that their noise is keyed by; `None` when none is drawn.
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
        pixels = self.clean.read(index)
        ids = None if self.ids is None else self.ids[index]
        # One choice for everybody is applied to all images at once.
        hidden = self.policy.hidden if isinstance(self.policy, FixedPatches) else self.policy.flags(pixels)
        return self.mechanism.hide(pixels, hidden, noise=self.noise, ids=ids)


def all_flags(images: Images, policy: PatchPolicy) -> Bools:
    """What is hidden of every image, (n, m), read batch by batch."""
    parts = [
        policy.flags(images.read(np.arange(start, min(start + BATCH, len(images)))))
        for start in range(0, len(images), BATCH)
    ]
    return np.concatenate(parts)
