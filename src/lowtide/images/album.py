"""Some images out of many, picked by row numbers, as the learners of images read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lowtide.extras import need_torch
from lowtide.images.encoder import Images, Stack, as_images
from lowtide.types import Bools, Floats, Floats32, Ints, Pixels

if TYPE_CHECKING:
    from torch import Tensor


_IN_MEMORY = 1 << 30  # bytes; more is read from where it lies, batch by batch
_CHUNK = 128


@dataclass(frozen=True, eq=False)
class Album:
    """Some images out of many, picked like rows of a table: `album[index]`.

    Attributes:
        images: where the pixels are.
        index: (n,) which of them.
        described: numbers of all images that attackers have asked for, by what they say; shared by
            all parts of an album, so that every fold and attacker finds them again.
        seen: (n, m) which patches of each are seen; `None` for all.
        told: (n, numbers) what others say of each; `None` where nobody was asked.
    """

    images: Images
    index: Ints
    described: dict[str, Floats32] = field(default_factory=dict, repr=False)
    seen: Bools | None = field(default=None, repr=False)
    told: Floats | None = field(default=None, repr=False)

    @classmethod
    def of(cls, images: Any) -> Album:
        """All images of what was given; they are kept in memory up to 1 GiB."""
        opened = as_images(images)
        everything = np.arange(len(opened))
        if not isinstance(opened, Stack) and len(opened) * int(np.prod(opened.shape)) <= _IN_MEMORY:
            opened = Stack(opened.read(everything))
        return cls(opened, everything)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """How many, height, width, channels."""
        return len(self.index), *self.images.shape

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, chosen: Ints | slice) -> Album:
        return replace(
            self,
            index=self.index[chosen],
            seen=None if self.seen is None else self.seen[chosen],
            told=None if self.told is None else self.told[chosen],
        )

    def read(self) -> Pixels:
        """(n, height, width, channels) bytes."""
        return self.images.read(self.index)

    def numbers(self) -> Floats32:
        """(n, height · width · channels) the pixels as numbers between 0 and 1."""
        return self.read().reshape(len(self.index), -1).astype(np.float32) / np.float32(255)

    def inputs(self) -> Iterator[Tensor]:
        """All images in order, as centred inputs of networks, a few at a time."""
        from lowtide.images import convnets

        for start in range(0, len(self.index), _CHUNK):
            yield convnets.to_input(self[start : start + _CHUNK].read())

    def describe(self, what: str, numbers: Callable[[Tensor], Tensor]) -> Floats32:
        """(n, k) numbers of the images.

        Args:
            what: they say: those of all images are kept under this name, up to 1 GiB.
            numbers: from inputs of networks (n, channels, height, width), (n, k).
        """
        if what in self.described:
            return self.described[what][self.index]

        need_torch("every attacker on images")
        import torch

        with torch.no_grad():
            width = next(map(numbers, self[:1].inputs())).shape[1]
            if 4 * width * len(self.images) > _IN_MEMORY:
                return torch.cat([numbers(x) for x in self.inputs()]).numpy()
            every = Album(self.images, np.arange(len(self.images)))
            self.described[what] = torch.cat([numbers(x) for x in every.inputs()]).numpy()
        return self.described[what][self.index]
