"""Attackers light enough for hundreds of releases: ridge regression on edges, and networks on noise not clipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lowtide.attack.attackers import Attacker, Calibrated
from lowtide.errors import LowtideError
from lowtide.images.attackers import Convolutional, edges_and_shades
from lowtide.images.convnets import to_input
from lowtide.images.encoder import Grid, Stack
from lowtide.types import Bools, Floats32

if TYPE_CHECKING:
    from image_frontiers import Faces

_PENALTIES = (1e3, 3e3, 1e4, 3e4)  # chosen by leave-one-out; features have spread 1, and there are some 3,600
_AT_ONCE = 128


def right_by_edges(release: Stack, faces: Faces) -> float:
    """How often ridge regression on edges and shades, trained on a release, reads the test images, in percent."""
    features = np.concatenate([_edges(release, start) for start in range(0, len(release), _AT_ONCE)])
    train = faces.train
    model = make_pipeline(StandardScaler(), RidgeClassifierCV(_PENALTIES)).fit(features[train], faces.s[train])
    return 100 * float((model.predict(features[~train]) == faces.s[~train]).mean())


@torch.no_grad()
def _edges(release: Stack, start: int) -> Floats32:
    index = np.arange(start, min(start + _AT_ONCE, len(release)))
    return np.asarray(edges_and_shades(to_input(release.read(index))).numpy())


@torch.no_grad()
def right_unclipped(attacker: Attacker, faces: Faces, grid: Grid, flags: Bools, seed: int) -> float:
    """How often a network reads images whose flagged patches have noise of λ = 1, not clipped to bytes, in percent.

    Args:
        attacker: a network that was trained on clean images.
        faces: the images.
        grid: their patches.
        flags: (n, m) which to noise.
        seed: of the noise.
    """
    if not (isinstance(attacker, Calibrated) and isinstance(attacker.learner, Convolutional)):
        raise LowtideError("only a convolutional network reads numbers that are not bytes")
    net, generator, right = attacker.learner.net, torch.Generator().manual_seed(seed), 0
    for index in np.array_split(np.arange(len(faces.s)), max(1, -(-len(faces.s) // _AT_ONCE))):
        x = to_input(faces.images.read(index))
        where = torch.from_numpy(np.asarray(grid.spread(flags[index])))[:, None]
        white = to_input(np.full((1, 1, 1, 1), 255, dtype=np.uint8)).item()  # inputs run from −white to white
        noised = x + 2 * white * torch.randn(x.shape, generator=generator) * where
        right += int((net(noised).argmax(dim=1).numpy() == faces.s[index]).sum())
    return 100 * right / len(faces.s)
