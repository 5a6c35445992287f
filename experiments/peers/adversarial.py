"""The rival for images: a filter learnt against an adversary (Bertran et al. 2019), from its
published description.

A stochastic map `Y = q(X, Z)` to images of the same size is to keep what X tells about a utility U,
which it must be told, while Y tells at most k nats about the secret S. Its loss is

    E KL(p(u|x) ‖ p(u|y)) + λ · max(0, E KL(p(s|y) ‖ P_S) − k)²

with a classifier p(u|·) of raw images, which stays as it is, and an adversary p(s|·) trained along.
The limit k holds for this adversary and softly: what fresh attackers read from the release is the
audit's business.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from lowtide.checks import LowtideError, count, within
from lowtide.images.convnets import to_input
from lowtide.images.encoder import Images, as_images
from lowtide.training import computing_on, one_thread, seeded
from lowtide.types import Floats, Pixels
from peers.filter_training import Training
from peers.image_hiders import RivalledImages
from peers.unet import UNet

_ROOM = 0xAD7E45
_CHUNK = 256
_LEAST_SIDE = 2  # at the bottom of the U-Net: one pixel alone cannot be normalised


@dataclass(frozen=True, eq=False)
class FittedFilter:
    """A filter for one limit k, and those it was trained against.

    Attributes:
        limit: k, in nats.
        leakage: `KL(p(s|y) ‖ P_S)` that its own adversary saw in the last pass over the training
            images, in nats.
        lost: `KL(p(u|x) ‖ p(u|y))` in the same pass.
        shape: height, width and channels of the images.
        seed: of the noise.
        net: the filter.
        adversary: p(s|y), as it was when training ended.
        utility: p(u|x), trained on raw images.
    """

    limit: float
    leakage: float
    lost: float
    shape: tuple[int, int, int]
    seed: int
    net: UNet = field(repr=False)
    adversary: nn.Module = field(repr=False)
    utility: nn.Module = field(repr=False)

    def apply(self, images: Any) -> RivalledImages:
        """Release images. The noise depends on the seed and the image: the same image is released
        the same way twice.

        Args:
            images: `Images`, or (n, height, width) or (n, height, width, channels) bytes.
        """
        return RivalledImages(self._fitting(images), self._change, 0.0)

    def read_secret(self, released: Any) -> Floats:
        """Its own adversary's `p(s|y)` of released images, (n, |S|)."""
        return _answer(self.adversary, self._fitting(released))

    def read_utility(self, released: Any) -> Floats:
        """`p(u|y)` of released images, (n, |U|), by the classifier of raw images."""
        return _answer(self.utility, self._fitting(released))

    def _fitting(self, images: Any) -> Images:
        opened = as_images(images)
        if opened.shape != self.shape:
            raise LowtideError(
                f"the images are of shape {images.shape}, but the filter was fitted on {self.shape}"
            )
        return opened

    @torch.no_grad()
    def _change(self, pixels: Pixels) -> Pixels:
        """One image at a time: in a batch, the last bits would depend on its size."""
        released = np.empty_like(pixels)
        shape = self.net.noise_shape(*self.shape[:2])
        with one_thread():
            for place, image in enumerate(pixels):
                digest = int.from_bytes(
                    hashlib.blake2b(image.tobytes(), digest_size=8).digest(), "big"
                )
                rng = np.random.default_rng(np.random.SeedSequence([self.seed, _ROOM, digest]))
                z = torch.from_numpy(rng.standard_normal((1, *shape), dtype=np.float32))
                y = self.net(to_input(image[None]), z)[0].permute(1, 2, 0)
                released[place] = y.mul(255).round().to(torch.uint8).numpy()
        return released


@dataclass(frozen=True)
class AdversarialFilter:
    """Learns a filter for each of several limits k, one after the other, each from the one before.

    Attributes:
        seed: of everything.
        limits: k in nats, falling.
        epochs: passes over the images for each limit.
        pretraining: passes in which classifier and adversary learn from raw images.
        drawing: passes in which the filter learns to draw what it sees, before anything is to be
            hidden.
        adversary_steps: of the adversary after each step of the filter, each on images of its own.
            The publication takes one; with more the adversary keeps up better, and the limit means
            more.
        weight: λ of the loss.
        rate: Adam's step for the filter.
        widths: channels of the levels of the U-Net, from the finest.
        batch: images in a step.
        flip: whether mirrored images are as likely; not where left and right mean something.
        device: where its networks are trained, as in `TIDE`.
        progress: whether to draw a progress bar; by default only on a terminal.
    """

    seed: int = 0
    limits: tuple[float, ...] = (0.5, 0.4, 0.3, 0.2, 0.1, 0.001)
    epochs: int = 3
    pretraining: int = 8
    drawing: int = 1
    adversary_steps: int = 2
    weight: float = 50.0
    rate: float = 5e-4
    widths: tuple[int, ...] = (16, 32, 64, 128)
    batch: int = 32
    flip: bool = True
    device: str = "cpu"
    progress: bool | None = None

    def __post_init__(self) -> None:
        count("seed", self.seed, 0)
        for name in ("epochs", "pretraining", "drawing", "adversary_steps"):
            count(name, getattr(self, name), 1)
        count("batch", self.batch, 2)
        within("weight", self.weight, 0.0, np.inf, high_open=True)
        within("rate", self.rate, 0.0, 1.0, low_open=True)
        within("limits", self.limits, 0.0, np.inf, high_open=True, hint="they are in nats")
        if not self.limits or any(
            a <= b for a, b in zip(self.limits, self.limits[1:], strict=False)
        ):
            raise LowtideError(f"limits must fall from one to the next, got {self.limits}")
        for width in self.widths:
            count("widths", width, 1)
        if len(self.widths) < 2:
            raise LowtideError(f"widths must hold two levels or more, got {self.widths}")

    def fit(self, images: Any, s: ArrayLike, u: ArrayLike) -> tuple[FittedFilter, ...]:
        """Learn from images, read batch by batch.

        Args:
            images: n images: `Images`, or (n, height, width) or (n, height, width, channels) bytes.
            s: (n,) the secret, finitely many values.
            u: (n,) the utility, finitely many values.

        Returns:
            A filter for each limit, in their order.
        """
        opened = as_images(images)
        for name, labels in (("s", s), ("u", u)):
            if np.asarray(labels).shape != (len(opened),):
                raise LowtideError(
                    f"there are {len(images)} images and {name} has shape"
                    f" {np.asarray(labels).shape}"
                )
        least = _LEAST_SIDE << (len(self.widths) - 1)
        if min(opened.shape[:2]) < least:
            raise LowtideError(
                f"the images are of shape {images.shape}, but {len(self.widths)} levels need"
                f" {least} pixels on each side; give fewer widths"
            )
        root = np.random.SeedSequence([self.seed, _ROOM])
        with computing_on(self.device), one_thread(), seeded(int(root.generate_state(1)[0])):
            training = Training(self, opened, s, u, root)
            found = training.run()
        return tuple(
            FittedFilter(
                one.limit,
                one.leakage,
                one.lost,
                opened.shape,
                self.seed,
                *one.nets,
                training.utility.cpu(),
            )
            for one in found
        )


@torch.no_grad()
def _answer(net: nn.Module, images: Images) -> Floats:
    """Probabilities of a network, (n, classes)."""
    parts = (np.arange(at, min(at + _CHUNK, len(images))) for at in range(0, len(images), _CHUNK))
    with one_thread():
        leakage = [net(to_input(images.read(part))).double().softmax(dim=1) for part in parts]
    return np.asarray(torch.cat(leakage).numpy())
