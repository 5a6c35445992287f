"""Attackers light enough for hundreds of releases.

The paper's is its network, trained on clean images and never again; the retrained one is ridge
regression on edges.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lowtide.estimate.objectives import Checkpoints, fingerprint
from lowtide.images.album import Album
from lowtide.images.convnets import paper_cnn, to_input
from lowtide.images.edges import edges_and_shades
from lowtide.images.encoder import Grid, Stack
from lowtide.images.networks import Convolutional, Network, NetworkRecipe, paper_network
from lowtide.types import Bools, Floats, Floats32

if TYPE_CHECKING:
    from image_frontiers import Faces

_PENALTIES = (
    1e3,
    3e3,
    1e4,
    3e4,
)  # chosen by leave-one-out; features have spread 1, and there are some 3,600
_AT_ONCE = 128


_RECIPE = NetworkRecipe(paper_network, passes=12, rate=1e-3, decay=0.05)


class PaperAttacker:
    """The paper's network, trained to tell the secret of clean faces, mirrored or not, as an audit
    trains it.

    Args:
        faces: those for training are learnt from.
        work: a folder; a network that an earlier run has trained is read back.
        seed: of the training.
    """

    def __init__(self, faces: Faces, work: Path, seed: int) -> None:
        train = np.flatnonzero(faces.train)
        codes = faces.s[train]
        log_prior = np.log(np.bincount(codes) / len(train))
        kept = Checkpoints(
            work, fingerprint(codes, faces.images.shape, faces.images.read(train[:4]), seed)
        )
        saved = kept.load("attacker")
        if saved is None:
            album = Album.of(faces.images)[train]
            # Faces are symmetric.
            path = Convolutional(_RECIPE, seed, mirror=True).fit(album, codes, log_prior)
            self.network = path.at(0)
            kept.save("attacker", dict(self.network.net.state_dict()))
        else:
            net = paper_cnn(*faces.images.shape, len(log_prior)).eval()
            net.load_state_dict(saved)
            self.network = Network(net, True, log_prior)

    @property
    def net(self) -> torch.nn.Module:
        """The network."""
        return self.network.net

    def log_scores(self, rows: Album) -> Floats:
        """`log p̂(s|y)` up to a constant, (n, |S|)."""
        return self.network.scores(rows) + self.network.log_prior


def right_by_edges(release: Stack, faces: Faces) -> float:
    """How often ridge regression on edges and shades, trained on a release, reads the test images,
    in percent.
    """
    features = np.concatenate(
        [_edges(release, start) for start in range(0, len(release), _AT_ONCE)]
    )
    train = faces.train
    model = make_pipeline(StandardScaler(), RidgeClassifierCV(_PENALTIES)).fit(
        features[train], faces.s[train]
    )
    return 100 * float((model.predict(features[~train]) == faces.s[~train]).mean())


@torch.no_grad()
def _edges(release: Stack, start: int) -> Floats32:
    index = np.arange(start, min(start + _AT_ONCE, len(release)))
    return np.asarray(edges_and_shades(to_input(release.read(index))).numpy())


@torch.no_grad()
def right_unclipped(
    attacker: PaperAttacker, faces: Faces, grid: Grid, flags: Bools, seed: int
) -> float:
    """How often a network reads images whose flagged patches have noise of λ = 1, not clipped to
    bytes, in percent.

    Args:
        attacker: a network that was trained on clean images.
        faces: the images.
        grid: their patches.
        flags: (n, m) which to noise.
        seed: of the noise.
    """
    generator = torch.Generator().manual_seed(seed)
    right = 0
    white = to_input(
        np.full((1, 1, 1, 1), 255, dtype=np.uint8)
    ).item()  # inputs run from −white to white
    for index in np.array_split(np.arange(len(faces.s)), max(1, -(-len(faces.s) // _AT_ONCE))):
        x = to_input(faces.images.read(index))
        where = torch.from_numpy(np.asarray(grid.spread(flags[index])))[:, None]
        noised = x + 2 * white * torch.randn(x.shape, generator=generator) * where
        right += int((attacker.net(noised).argmax(dim=1).numpy() == faces.s[index]).sum())
    return 100 * right / len(faces.s)
