"""Speed on images: all prefixes in one pass, the time of a fit, and that of a release.

One forward pass of the critic about the whole image is `density(x)`: the same causal networks, read
at the last patch only; it is timed against `prefixes(x)`, which reads them after every patch, in
the same run, on 64×64 images with 2×2 patches (1,024 prefixes) and on one image of CelebA's size
(9,701).

A step of training at that size is timed against the same network as one would write it down: every
level picked at every patch before it is mapped to the channels of the row, 32 of them, and all
states summed for the few prefixes that are looked at. With `--data` (faces with the columns smile
and split) a fit on its training faces is timed and judged on its test faces.

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
from torch import Tensor
from torch.nn import functional

from lowtide import TIDE, Plan, release
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import certify_fixed
from lowtide.estimate.density import Density
from lowtide.images.causal import CausalNet
from lowtide.images.convnets import ImageCritic, fast
from lowtide.images.dataset import open_images
from lowtide.images.encoder import Grid, ImageEncoder
from lowtide.images.hider import ImageHider
from lowtide.images.mechanism import FixedPatches, ImageMechanism
from lowtide.labels import Classes
from lowtide.report.console import parse_arguments, print_table, shortest, write_json
from lowtide.training import descend
from scale_worker import again


def density_of(grid: Grid, nets: int, seed: int) -> Density:
    """A density with causal networks as they are before training: their speed does not depend on
    their weights.
    """
    torch.manual_seed(seed)
    critic = ImageCritic(grid, 2, [CausalNet(grid, 2) for _ in range(nets)], [])
    return Density(
        Classes((0, 1), np.array([0.5, 0.5])), grid.features, critic, 3.0, ImageEncoder(grid)
    )


def one_pass(grid: Grid, images: int, seed: int) -> dict[str, float | str]:
    """Prefixes against the whole image, and against prefixes asked one by one."""
    density = density_of(grid, 1, seed)
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0xBE4C]))
    x = rng.integers(0, 256, (images, grid.height, grid.width, grid.channels), dtype=np.uint8)
    m = len(grid)
    whole = shortest(lambda: density.density(x))
    prefixes = shortest(lambda: density.prefixes(x))
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


class PickingCausalNet(CausalNet):
    """The yardstick of a step of training: the same answers, with nothing done to have them
    soon.
    """

    def __init__(self, grid: Grid, classes: int) -> None:
        super().__init__(grid, classes, row=32)

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        """Scores (n, k, |S|) after the patches `at`."""
        grid = self.grid
        m = len(self.grid)
        z = self._cut(x)
        top, side = self._padding()
        rows = torch.arange(grid.down) * grid.patch + top
        columns = torch.arange(grid.across) * grid.patch
        for level, seen in enumerate(self.trunk(functional.pad(x, (0, side, top, 0)))):
            tall, wide = self.trunk.strides[level]
            above = functional.pad(seen, (0, 0, 1, 0)).index_select(2, rows // tall)
            z = z + self.handed[level](above).index_select(3, columns // wide)
        rows = ((torch.arange(grid.down) + 1) * grid.patch).clamp(max=grid.height) + top
        columns = ((torch.arange(grid.across) + 1) * grid.patch).clamp(max=grid.width) + side
        for level, seen in enumerate(self.corner(functional.pad(x, (side, 0, top, 0)))):
            tall, wide = self.corner.strides[level]
            known = functional.pad(seen, (1, 0, 1, 0)).index_select(2, rows // tall)
            z = z + self.own[level](known.index_select(3, columns // wide))
        z = self.norm(z + self._spread(self.place)).relu()
        for convolution in self.row:
            z = convolution(z)
        phi = self.evidence(z).relu().permute(2, 3, 0, 1).reshape(m, len(x), -1)
        matrices = self._spread(self.matrices)[0].flatten(1).T.reshape(m, phi.shape[2], -1)
        told = torch.bmm(phi, matrices.to(phi.dtype)).transpose(0, 1)
        bias = self._spread(self.bias).flatten(2).transpose(1, 2)
        at = torch.arange(m) if at is None else at
        state = (torch.arange(m) <= at[:, None]).to(told.dtype) @ told + bias[:, at]
        return self.head(state * self.dropout(torch.ones(len(x), 1, state.shape[2])))

    def _cut(self, x: Tensor) -> Tensor:
        """Every patch as a row of a table, through two dense layers."""
        grid = self.grid
        p = grid.patch
        down = grid.down
        across = grid.across
        weights = self.patch.state_dict(keep_vars=True)
        first, second, bias = (
            weights[f"layers.{name}"] for name in ("0.weight", "3.weight", "3.bias")
        )
        cut = (
            x.reshape(len(x), -1, down, p, across, p)
            .permute(0, 2, 4, 1, 3, 5)
            .flatten(0, 2)
            .flatten(1)
        )
        wide = self.patch.layers[1](
            functional.linear(cut, first.flatten(1))[:, :, None, None]
        ).relu()
        rows = functional.linear(wide.flatten(1), second.flatten(1), bias)
        return rows.view(len(x), down, across, -1).permute(0, 3, 1, 2)


def step_time(grid: Grid, batch: int, seed: int) -> dict[str, float | str]:
    """Processor seconds of a step of training, ours and the yardstick's, the shortest of three in
    turns.
    """
    torch.manual_seed(seed)
    x = torch.randn(batch, grid.channels, grid.height, grid.width).contiguous(
        memory_format=torch.channels_last
    )
    at = torch.linspace(0, len(grid) - 1, 49).long()
    nets = {"ours": CausalNet(grid, 2).train(), "yardstick": PickingCausalNet(grid, 2).train()}
    optimisers = {name: torch.optim.AdamW(net.parameters(), 1e-3) for name, net in nets.items()}
    took = dict.fromkeys(nets, float("inf"))
    for _ in range(3):
        for name, net in nets.items():
            start = time.process_time()
            with fast():
                scores = net(x, at)
            descend(scores.float().square().mean(), optimisers[name])
            took[name] = min(took[name], time.process_time() - start)
    plain = PickingCausalNet(grid, 2).eval()
    same = CausalNet(grid, 2, row=32).eval()
    same.load_state_dict(plain.state_dict())
    with torch.no_grad():
        gap = float((plain(x[:1], at) - same(x[:1], at)).abs().max())
    image = f"{grid.width}×{grid.height}, {len(grid)} patches, batches of {batch}"
    return {
        "image": image,
        **took,
        "yardstick / ours": took["yardstick"] / took["ours"],
        "gap": gap,
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
    sizes = [(Grid(64, 64, 3, 2), 16), (Grid(64, 64, 3, 8), 16), (Grid(218, 178, 3, 2), 1)]
    passes = [
        one_pass(grid, images, options.seed)
        for grid, images in (sizes[:1] if options.quick else sizes)
    ]
    print_table("All prefixes in one pass", list(passes[0]), [list(row.values()) for row in passes])
    steps = [
        step_time(grid, 4 if options.quick else 64, options.seed)
        for grid in (sizes[0][0], sizes[-1][0])
    ]
    print_table(
        "A step of training, processor seconds",
        list(steps[0]),
        [list(row.values()) for row in steps],
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
                "one_pass": passes,
                "steps": steps,
                "releases": releases,
                "fits": fits,
                "threads": torch.get_num_threads(),
            },
        )


if __name__ == "__main__":
    main()
