"""What an audit needs of images: who attacks, and how many pixels changed."""

from __future__ import annotations

import math
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from lowtide.attack.attackers import Continued, Maker
from lowtide.auditing.utility import Change
from lowtide.errors import LowtideError
from lowtide.estimate.learners.base import Learner, Path
from lowtide.images.album import Album
from lowtide.images.edges import Regression, both_sides
from lowtide.images.encoder import as_images
from lowtide.images.kernel import KernelMachine
from lowtide.images.networks import (
    Convolutional,
    Network,
    NetworkRecipe,
    paper_network,
    small_network,
)
from lowtide.images.patterns import PatternTrees, local_patterns
from lowtide.types import Floats32


def _patterns(album: Album) -> Floats32:
    return album.describe("patterns", local_patterns)


_PAPER = NetworkRecipe(paper_network, passes=12, rate=1e-3, decay=0.05)
_SMALL = NetworkRecipe(small_network, passes=16, rate=4e-3, decay=0.05, erase=True)

SMALL = "small network"
PAPER = "paper's network"
IMAGE_ATTACKERS: dict[str, Maker] = {
    "edges": Regression,
    "oriented gradients": partial(KernelMachine, both_sides),
    "local patterns": partial(PatternTrees, _patterns),
    SMALL: partial(Convolutional, _SMALL),
    PAPER: partial(Convolutional, _PAPER),
}
"""Makers of attackers on images, from a seed, by name."""

FROM_CLEAN = "small network, from clean"
"""An attacker that has clean images, too: it starts from the small network that was trained on
them.
"""

NETWORKS = frozenset((SMALL, PAPER, FROM_CLEAN))
"""Those that take minutes: trained once, and not for every fold."""


def from_clean(path: Path, seed: int) -> Learner:
    """The attacker that goes on from a small network trained on clean images; it learns from a
    release as any other.

    Args:
        path: what "small network" has become on the clean images of the same rows.
        seed: the one that was made from.
    """
    known = path.at(0)
    if not isinstance(known, Network):
        raise LowtideError(
            "only an attacker that is a convolutional network can be trained further"
        )
    tuned = NetworkRecipe(lambda *_: deepcopy(known.net), passes=6, rate=1e-3, decay=0.05)
    return Convolutional(tuned, seed)


CONTINUED_ATTACKERS: dict[str, Continued] = {FROM_CLEAN: Continued(SMALL, from_clean)}
"""Makers of attackers that go on from one trained on clean images, by name."""


_COMPARED_AT_ONCE = 256
_PEAK = 255.0


def changed_images(clean: Any, release: Any) -> Change:
    """Compare released images with the clean ones, pixel by pixel and batch by batch.

    Args:
        clean: n images, `Images` or bytes.
        release: the same images after the release, in the same order.

    Returns:
        The share of pixels that changed in any channel, and the PSNR over all of them.
    """
    before = as_images(clean)
    after = as_images(release)
    if len(before) != len(after) or before.shape != after.shape:
        raise LowtideError(
            f"the release has {len(after)} images of shape {after.shape}, the reference"
            f" {len(before)} of shape {before.shape}; they must be the same images, in the same"
            " order"
        )
    pixels = 0
    squares = 0.0
    for start in range(0, len(before), _COMPARED_AT_ONCE):
        index = np.arange(start, min(start + _COMPARED_AT_ONCE, len(before)))
        step = after.read(index).astype(np.int32) - before.read(index)
        pixels += int((step != 0).any(axis=-1).sum())
        squares += float(np.square(step).sum())
    height, width, channels = before.shape
    mean = squares / (len(before) * height * width * channels)
    psnr = math.inf if mean == 0 else 10.0 * math.log10(_PEAK**2 / mean)
    return Change(pixels / (len(before) * height * width), None, psnr, (), len(before), "pixels")
