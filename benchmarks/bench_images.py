"""Speed on images: all prefixes beside the whole image, the time of a fit, and that of a release.

A prefix is one evaluation of the any-mask network, so that all of them cost about as many times the
whole image as there are patches. With `--data` (faces with the columns smile and split) a fit on
its training faces is timed and judged on its test faces.

A release of a folder of JPEG files under a plan is timed against decoding and encoding the same
files, as they were encoded, on as many threads, and nothing else (`scale_worker.again`).
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from lowtide import TIDE, Plan, release
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import certify_fixed
from lowtide.estimate.density import Density
from lowtide.images.any_mask import PatchCritic
from lowtide.images.convnets import small_cnn
from lowtide.images.dataset import open_images
from lowtide.images.encoder import Grid, ImageEncoder
from lowtide.images.hider import ImageHider
from lowtide.images.mechanism import FixedPatches, ImageMechanism
from lowtide.labels import Classes
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.training import one_thread
from scale_worker import again


def prefix_time(grid: Grid, images: int, seed: int) -> dict[str, float | str]:
    """Processor seconds for an image: the whole image alone, and all of its prefixes.

    The network is as it is before training: its speed does not depend on its weights.
    """
    torch.manual_seed(seed)
    critic = PatchCritic(grid, 2, [small_cnn(grid.channels + 1, 2)])
    classes = Classes((0, 1), np.array([0.5, 0.5]))
    density = Density(classes, grid.features, critic, 3.0, ImageEncoder(grid))
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0xBE4C]))
    x = rng.integers(0, 256, (images, grid.height, grid.width, grid.channels), dtype=np.uint8)
    took = {}
    for name, ask in (("whole", density.density), ("prefixes", density.prefixes)):
        start = time.process_time()
        ask(x)
        took[name] = (time.process_time() - start) / images
    return {
        "image": f"{grid.width}×{grid.height}, {len(grid)} patches",
        "whole, s per image": took["whole"],
        "all prefixes, s per image": took["prefixes"],
    }


def fit_time(folder: Path, patch: int, *, quick: bool, seed: int) -> dict[str, Any]:
    """Seconds of a fit on the training faces, and what it finds in the test faces."""
    found = open_images(folder)
    x = found.read(np.arange(len(found)))
    s = found.column("smile")
    train = np.asarray(found.split) == "train"
    tide = TIDE(features=patch, max_steps=10 if quick else None, random_state=seed)
    start = time.perf_counter()
    tide.fit(x[train], s[train])
    seconds = time.perf_counter() - start
    leakage = tide.information(x[~train], s[~train])
    held_out = tide.information_
    return {
        "patch": patch,
        "seconds": seconds,
        "test bits": leakage.bits.value,
        "low": leakage.bits.low,
        "high": leakage.bits.high,
        "cross-fitted bits": held_out.bits.value if held_out else None,
    }


def release_time(images: int, side: int, seed: int) -> dict[str, float]:
    """Processor time of a release, and of nothing but decoding and encoding, the shortest of three
    in turns.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0xBE4D]))
    grid = Grid(side, side, 3, 8)
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "source"
        source.mkdir()
        for k in range(images):
            coarse = rng.integers(0, 256, (side // 8, side // 8, 3), dtype=np.uint8)
            Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(
                source / f"{k:05}.jpg", quality=95
            )
        plan = plan_of(grid)
        runs = iter(range(100))
        tasks: dict[str, Callable[[Path], object]] = {
            "plain": lambda target: again(source, target),
            "release": lambda target: release(source, plan, target, progress=False),
        }
        took = dict.fromkeys(tasks, float("inf"))
        for _ in range(3):
            for name, task in tasks.items():
                start = time.process_time()
                task(Path(place) / f"{name} {next(runs)}")
                took[name] = min(took[name], time.process_time() - start)
    each = {
        f"{name}, microseconds an image": 1e6 * seconds / images for name, seconds in took.items()
    }
    return {
        "images": images,
        "side": side,
        **each,
        "release / plain": took["release"] / took["plain"],
    }


def plan_of(grid: Grid) -> Plan:
    """A plan that hides the lower middle of the image; what it rests on does not matter here."""
    rows, columns = np.divmod(np.arange(len(grid)), grid.across)
    hidden = (rows >= grid.down // 2) & (np.abs(columns - grid.across / 2) < grid.across / 4)
    certificate = certify_fixed(0.1, [0.5, 0.5], ratios=np.zeros(len(grid)), hidden=hidden)
    features = tuple(
        Feature(name, float(flag)) for name, flag in zip(grid.features.names, hidden, strict=True)
    )
    card = ReleaseCard(
        mechanism="redact",
        certificate=certificate,
        features=features,
        rows=1,
        classes=2,
        largest_class=0.5,
        changed=float(hidden.mean()),
    )
    none = np.zeros(len(grid), dtype=bool)
    order = np.argsort(~hidden, kind="stable")
    policy = FixedPatches(grid, hidden, order, none, none, (), np.zeros(len(grid)))
    hider = ImageHider(policy, ImageMechanism(grid, "redact", None), card)
    return Plan("images", "secret", {"resize": None, "grey": False, "kept": []}, hider)


def main() -> None:
    """Print the ratios and the seconds."""
    options = parse_arguments(__doc__ or "")
    warnings.simplefilter("ignore")
    sizes = [(Grid(64, 64, 3, 8), 16), (Grid(64, 64, 3, 4), 4), (Grid(218, 178, 3, 8), 1)]
    with one_thread():
        passes = [
            prefix_time(grid, images, options.seed)
            for grid, images in (sizes[:1] if options.quick else sizes)
        ]
    print_table(
        "Whole images and prefixes", list(passes[0]), [list(row.values()) for row in passes]
    )
    sizes_of_folders = [(300, 64)] if options.quick else [(3000, 64), (1500, 192)]
    releases = [release_time(images, side, options.seed) for images, side in sizes_of_folders]
    print_table(
        "A release of a folder, processor time",
        list(releases[0]),
        [list(row.values()) for row in releases],
    )
    fits = []
    if options.data:
        patches = (8,) if options.quick else (8, 2)
        fits = [
            fit_time(options.data, patch, quick=options.quick, seed=options.seed)
            for patch in patches
        ]
        print_table("A fit on GENKI-4K", list(fits[0]), [list(row.values()) for row in fits])
    if options.json:
        write_json(
            options.json,
            {
                "prefixes": passes,
                "releases": releases,
                "fits": fits,
                "threads": torch.get_num_threads(),
            },
        )


if __name__ == "__main__":
    main()
