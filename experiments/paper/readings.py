"""The paper's estimator of images, fitted once and asked about every patch size, over every canvas.

What the paper leaves open is an argument here: the step size, what stands in for patches still to
come, and what is compared with ε.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lowtide import Density
from lowtide.checks import one_of
from lowtide.estimate.objectives import Options, fingerprint
from lowtide.images.album import Album
from lowtide.images.convnets import fast
from lowtide.images.encoder import Grid, ImageEncoder, Images, mean_image
from lowtide.interface import NATS_PER_BIT
from lowtide.labels import read_classes
from lowtide.progress import progress_bar
from lowtide.types import Floats, Floats32, Ints
from paper.images import PaperImages, fit_paper_images
from paper.training_images import TrainingImages

FILLS = ("grey", "black", "white", "mean face", "noise")
READINGS = ("face by face", "own class", "mean map", "face by face, relative", "mean map, relative")
"""What is compared with ε: the largest over the classes, for each face (Definition 2); that of the
face's own class; the average of the first over the faces, one map for all of them; and these maps
relative to their largest value, as a picture of them would be coloured.
"""
TRIM = 3.0  # M of the paper, for images
_AT_ONCE = 100  # faces walked through at once


def canvases(images: Images, names: Sequence[str] = FILLS, *, seed: int = 0) -> dict[str, Tensor]:
    """What the network is shown in place of unseen patches, (channels, height, width), by name.

    Args:
        images: the training images, which the mean is taken over.
        names: of `FILLS`.
        seed: of the noise, one draw of uniform bytes for all images.
    """
    height, width, channels = images.shape
    made = {}
    for name in names:
        one_of("fill", name, FILLS)
        pixels = np.full((height, width, channels), {"black": 0.0, "white": 255.0}.get(name, 127.5))
        if name == "mean face":
            pixels = mean_image(images)
        elif name == "noise":
            pixels = np.random.default_rng([seed, 0xF111]).uniform(0, 255, pixels.shape)
        made[name] = torch.from_numpy(pixels / 255 * 4 - 2).float().permute(2, 0, 1).contiguous()
    return made


def fit_once(
    images: Images,
    s: Ints,
    shelf: Path,
    *,
    epochs: int,
    batch: int,
    rate: float | None = None,
    cut: bool = False,
    seed: int = 0,
) -> PaperImages:
    """The paper's network trained on whole images, or what an earlier run has left on the shelf.

    Args:
        images: the training images.
        s: (n,) their classes.
        shelf: a folder; an interrupted fit goes on from what it holds, a finished one is read back.
        epochs: passes over the images; the paper's are 100.
        batch: images in a step, of which an epoch is made.
        rate: of Adagrad; by default the paper's.
        cut: whether to train on prefixes as well.
        seed: of everything.
    """
    name = fingerprint(s, images.shape, epochs, batch, rate, cut, seed)[:16]
    folder = shelf / f"paper-{name}"
    if folder.is_dir():
        found = Density.load(folder, critics=[PaperImages]).critic
        if isinstance(found, PaperImages):
            return found
    classes, codes = read_classes(s)
    grid = Grid(*images.shape, min(8, *images.shape[:2]))
    album = TrainingImages(Album.of(images).images, codes, grid, classes.prior)
    steps = epochs * max(1, len(s) // min(batch, len(s)))
    options = Options(
        features=grid.patch,
        trim=TRIM,
        steps=steps,
        seed=seed,
        checkpoint=str(shelf / f"state-{name}"),
    )
    critic, report = fit_paper_images(album, options, rate=rate, cut=cut)
    Density(classes, grid.features, critic, TRIM, ImageEncoder(grid), report).save(folder)
    return critic


def bits(critic: PaperImages, images: Images, s: Ints) -> float:
    """The information the paper reports, Donsker–Varadhan's bound over all pairs of the images
    given, in bits.
    """
    parts = [critic.scores(images.read(index)) for index in _batches(len(images))]
    g = np.clip(np.concatenate(parts).astype(float), -TRIM, TRIM)
    prior = np.bincount(s, minlength=g.shape[1]) / len(s)
    joint = g[np.arange(len(s)), s].mean()
    return float(joint - np.log((np.exp(g) @ prior).mean())) / NATS_PER_BIT


def conditionals(critic: PaperImages, images: Images, *, show: bool | None = None) -> Floats32:
    """`g(s, x^j) − g(s, x^{j−1})` of clipped scores (paper, Sec. 4.3), (n, m, |S|), the empty
    prefix at the canvas.

    In bfloat16 where the processor can: thresholds are far coarser.
    """
    parts = []
    with progress_bar("prefixes", len(images), show) as tick:
        for index in _batches(len(images)):
            with torch.no_grad(), fast():
                g = np.clip(critic.prefix_scores(images.read(index)), -TRIM, TRIM)
            parts.append(np.diff(g, axis=1))
            tick(int(index[-1]) + 1)
    return np.concatenate(parts)


def compared(steps: Floats32, s: Ints, reading: str) -> Floats:
    """What is compared with ε, (n, m), or (m,) for all faces alike, as the paper may be read.

    Args:
        steps: (n, m, |S|) conditionals.
        s: (n,) classes.
        reading: of `READINGS`.
    """
    one_of("reading", reading, READINGS)
    if reading == "own class":
        return np.abs(steps[np.arange(len(s)), :, s]).astype(np.float64)
    values = np.abs(steps).max(axis=-1).astype(np.float64)
    if reading.startswith("mean map"):
        values = values.mean(axis=0)
    if reading.endswith("relative"):
        values = values / np.maximum(values.max(axis=-1, keepdims=True), np.finfo(float).tiny)
    return np.asarray(values)


def averaged(finest: Floats, fine: Grid, grid: Grid) -> Floats:
    """One map (m,) for all faces from that of the finest patches: relative to its largest value,
    averaged over patches.

    Args:
        finest: (fine,) what the finest patches tell on average.
        fine: their grid.
        grid: the patches that are asked about.
    """
    pixels = np.asarray(
        fine.spread(finest / max(finest.max(), np.finfo(float).tiny)), dtype=np.float64
    )
    cell = np.asarray(grid.spread(np.arange(len(grid))), dtype=np.intp)
    return np.asarray(np.bincount(cell.ravel(), pixels.ravel(), len(grid)) / grid.sizes)


def npy_bytes(values: Floats32) -> bytes:
    """An array as the content of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    return buffer.getvalue()


def _batches(n: int) -> list[Ints]:
    return np.array_split(np.arange(n), max(1, -(-n // _AT_ONCE)))
