"""What an audit asks of images: how many of their pixels changed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lowtide.auditing.utility import Change
from lowtide.errors import LowtideError
from lowtide.images.encoder import as_images

_BATCH = 256
_PEAK = 255.0


def changed_images(clean: Any, release: Any) -> Change:
    """Compare released images with the clean ones, pixel by pixel and batch by batch.

    Args:
        clean: n images, `Images` or bytes.
        release: the same images after the release, in the same order.

    Returns:
        The share of pixels that changed in any channel, and the PSNR over all of them.
    """
    before, after = as_images(clean), as_images(release)
    if len(before) != len(after) or before.shape != after.shape:
        raise LowtideError(
            f"the release has {len(after)} images of shape {after.shape}, the reference {len(before)} of shape "
            f"{before.shape}; they must be the same images, in the same order"
        )
    pixels, squares = 0, 0.0
    for start in range(0, len(before), _BATCH):
        index = np.arange(start, min(start + _BATCH, len(before)))
        step = after.read(index).astype(np.int32) - before.read(index)
        pixels += int((step != 0).any(axis=-1).sum())
        squares += float(np.square(step).sum())
    height, width, channels = before.shape
    mean = squares / (len(before) * height * width * channels)
    psnr = math.inf if mean == 0 else 10.0 * math.log10(_PEAK**2 / mean)
    return Change(pixels / (len(before) * height * width), None, psnr, (), len(before), "pixels")
