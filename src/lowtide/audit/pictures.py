"""What an audit asks of images: how many pixels changed, and what networks trained on the release still predict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lowtide.attack import attack
from lowtide.audit.change import Change
from lowtide.audit.predictions import Data, Prediction
from lowtide.audit.utility import UtilityReport
from lowtide.density.secrets import read_classes
from lowtide.errors import LowtideError
from lowtide.features.images import as_pictures
from lowtide.interface import Attack

_BATCH = 256
_PEAK = 255.0


def changed_pictures(clean: Any, release: Any) -> Change:
    """Compare released images with the clean ones, pixel by pixel and batch by batch.

    Args:
        clean: n images, `Pictures` or bytes.
        release: the same images after the release, in the same order.

    Returns:
        The share of pixels that changed in any channel, and the PSNR over all of them.
    """
    before, after = as_pictures(clean), as_pictures(release)
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
    return Change(pixels / (len(before) * height * width), None, psnr, (), len(before))


def predicts_pictures(
    release: Any,
    u: ArrayLike,
    *,
    clean: Any = None,
    attackers: Sequence[str] | None = None,
    seed: int = 0,
    level: float = 0.95,
    progress: bool | None = None,
) -> UtilityReport:
    """Train networks on released images to predict the classes `u`, and test them on images they have not seen.

    Args:
        release: n images.
        u: (n,) classes.
        clean: the images before, as a control.
        attackers: names of the models, which are those of attackers; all by default.
        seed: of the split and of the networks.
        level: of the intervals.
        progress: whether to draw a progress bar; by default only on a terminal.
    """
    read_classes(u)
    found = attack(release, u, clean=clean, attackers=attackers, seed=seed, level=level, progress=progress)
    return UtilityReport(
        "classes",
        _prediction(found.guess, "nothing"),
        tuple(_prediction(one, "release") for one in found.retrained),
        tuple(_prediction(one, "clean") for one in found.clean),
        (),
    )


def _prediction(found: Attack, data: Data) -> Prediction:
    return Prediction(found.attacker, data, found.accuracy, found.auc, None)
