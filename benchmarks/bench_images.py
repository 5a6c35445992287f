"""Speed of the critics of images: all prefixes in one pass, and the time of a fit.

One forward pass of the critic about the whole image is `density(x)`: the same causal networks, read at the last patch
only. It is timed against `prefixes(x)`, which reads them after every patch, in the same run, on 64×64 images with 2×2
patches (1,024 prefixes) and on one image of CelebA's size (9,701). With `--data` (a folder in GENKI-4K's layout with a
split.csv) a fit on its training faces is timed and judged on its test faces.
"""

from __future__ import annotations

import csv
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from lowtide import TIDE
from lowtide.density.artefact import Density
from lowtide.density.critics import Images
from lowtide.density.critics.causal import CausalNet
from lowtide.density.secrets import Classes
from lowtide.features.images import Grid, ImageEncoder
from lowtide.report.console import parse_arguments, print_table, shortest, write_json


def density_of(grid: Grid, nets: int, seed: int) -> Density:
    """A density with causal networks as they are before training: their speed does not depend on their weights."""
    torch.manual_seed(seed)
    critic = Images(grid, 2, [CausalNet(grid, 2) for _ in range(nets)], [])
    return Density(Classes((0, 1), np.array([0.5, 0.5])), grid.features, critic, 3.0, ImageEncoder(grid))


def one_pass(grid: Grid, images: int, seed: int) -> dict[str, float | str]:
    """Prefixes against the whole image, and against prefixes asked one by one."""
    density = density_of(grid, 1, seed)
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0xBE4C]))
    x = rng.integers(0, 256, (images, grid.height, grid.width, grid.channels), dtype=np.uint8)
    m = len(grid)
    whole, prefixes = shortest(lambda: density.density(x)), shortest(lambda: density.prefixes(x))
    some = np.unique(np.linspace(0, m, 8).astype(int))
    start = time.perf_counter()
    separate = [density.observed(x, np.arange(m) < j) for j in some]
    apart = (time.perf_counter() - start) * (m + 1) / len(some)
    return {
        "image": f"{grid.width}×{grid.height}, {m} patches",
        "whole, s per image": whole / images,
        "prefixes / whole": prefixes / whole,
        "one by one / prefixes": apart / prefixes,
        "gap": float(np.abs(np.stack(separate, axis=1) - density.prefixes(x)[:, some]).max()),
    }


def faces(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pixels, whether they smile, and which are for training."""
    smiles = [int(line.split()[0]) for line in (folder / "labels.txt").read_text().splitlines() if line.strip()]
    with (folder / "split.csv").open() as file:
        rows = [(row["file"], row["split"]) for row in csv.DictReader(file)]
    pixels = np.stack([np.asarray(Image.open(folder / "files" / name).convert("RGB")) for name, _ in rows])
    s = np.array([smiles[int(name[4:8]) - 1] for name, _ in rows])
    return pixels, s, np.array([split == "train" for _, split in rows])


def fit_time(folder: Path, patch: int, *, quick: bool, seed: int) -> dict[str, Any]:
    """Seconds of a fit on the training faces, and what it finds in the test faces."""
    x, s, train = faces(folder)
    tide = TIDE(features=patch, max_steps=10 if quick else None, random_state=seed)
    start = time.perf_counter()
    tide.fit(x[train], s[train])
    seconds = time.perf_counter() - start
    found = tide.information(x[~train], s[~train])
    held_out = tide.information_
    return {
        "patch": patch,
        "seconds": seconds,
        "test bits": found.bits.value,
        "low": found.bits.low,
        "high": found.bits.high,
        "cross-fitted bits": held_out.bits.value if held_out else None,
    }


def main() -> None:
    """Print the ratios and the seconds."""
    options = parse_arguments(__doc__ or "")
    warnings.simplefilter("ignore")
    sizes = [(Grid(64, 64, 3, 2), 16), (Grid(64, 64, 3, 8), 16), (Grid(218, 178, 3, 2), 1)]
    passes = [one_pass(grid, images, options.seed) for grid, images in (sizes[:1] if options.quick else sizes)]
    print_table("All prefixes in one pass", list(passes[0]), [list(row.values()) for row in passes])
    fits = []
    if options.data:
        patches = (8,) if options.quick else (8, 2)
        fits = [fit_time(options.data, patch, quick=options.quick, seed=options.seed) for patch in patches]
        print_table("A fit on GENKI-4K", list(fits[0]), [list(row.values()) for row in fits])
    if options.json:
        write_json(options.json, {"one_pass": passes, "fits": fits, "threads": torch.get_num_threads()})


if __name__ == "__main__":
    main()
