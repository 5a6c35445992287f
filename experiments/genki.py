"""GENKI-4K (paper, Table 1 and Fig. 1): the paper's estimator at its word, every fill and reading,
and ours beside it.

The rule hides a patch by noise of λ = 1 where what it adds to the raw patches before it exceeds ε.
The paper's network is trained on whole faces once, and then asked about prefixes of all patch
sizes; what it is shown in place of patches still to come, the paper does not say. Ours is trained
on prefixes. Releases are read by the paper's attacker, its network trained on clean faces, and by
one retrained on each release: ridge regression on edges, light enough for hundreds of them. Patch
sizes are those of 64×64 pixels; faces brought to 32×32 have patches half as wide.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from common import contact_sheet
from image_frontiers import THRESHOLDS, Faces, fit, hide, kept_by, load
from lowtide.errors import LowtideError
from lowtide.estimate.objectives import fingerprint
from lowtide.files import write_whole
from lowtide.images.album import Album
from lowtide.images.encoder import Grid, Stack
from lowtide.images.heatmaps import heat
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.types import Floats, Floats32, Pixels
from paper import readings
from paper.images import PaperImages
from peers.light_attacker import PaperAttacker, right_by_edges, right_unclipped

SIDE = 64  # pixels of the paper's faces, which patch sizes refer to
PATCHES = (32, 16, 8, 4, 2)
PAPER = {  # Table 1 of the paper, accuracies in percent of an attacker that was never retrained
    32: (50.54, 50.54, 92.04, 92.04),
    16: (50.72, 51.46, 79.14, 89.52),
    8: (50.93, 68.94, 78.71, 87.33),
    4: (50.60, 65.06, 75.23, 83.89),
    2: (50.64, 62.25, 68.59, 80.26),
}
PAPER_CLEAN = 92.04
PAPER_LOWER = 50.58
PAPER_GUESS = 50.41
PAPER_BITS = 0.594
OURS = "ours"
AVERAGED = "finest mean map, relative, averaged"
BATCH = 256  # of the paper's recipe
FINE_SHARE = 1 / 3  # of the faces asked about, for the smallest patches: they take most of the time
SHOWN = 10  # faces on the sheet


@dataclass(frozen=True)
class Cell:
    """One release of the faces that were asked about; accuracies in percent on those for testing.

    Attributes:
        fill: the canvas, or `ours`.
        reading: what was compared with ε.
        patch: the side of patches, of faces of 64 pixels.
        epsilon: ε.
        flagged: share of pixels that were hidden.
        fixed: the paper's attacker, on images in bytes.
        unclipped: the same where the noise is neither clipped nor rounded.
        retrained: ridge regression on edges, trained on the release; `None` for other readings than
            Definition 2.
    """

    fill: str
    reading: str
    patch: int
    epsilon: float
    flagged: float
    fixed: float
    unclipped: float
    retrained: float | None


def main() -> None:
    """Fit both estimators, and judge the releases by the rule."""
    options = arguments()
    size = options.size
    faces = load(options.data, "smile", size=(size, size), most=400 if options.quick else None)
    critic = readings.fit_once(
        faces.part(True),
        faces.s[faces.train],
        options.work,
        epochs=options.epochs,
        batch=BATCH,
        rate=options.rate,
        cut=options.cut,
        seed=options.seed,
    )
    literal = readings.bits(critic, faces.part(False), faces.s[~faces.train])
    bits = {"the paper's network": literal}
    print(f"the paper's network: {literal:.3f} bits on the test faces", file=sys.stderr, flush=True)
    attacker = PaperAttacker(faces, options.work, options.seed)
    every, fewer = (asked(faces, options.test, options.train, share) for share in (1.0, FINE_SHARE))
    table = Table(faces, every, attacker, options.seed)
    tables = dict.fromkeys(PATCHES, table) | {2: Table(faces, fewer, attacker, options.seed)}
    fills = readings.canvases(faces.part(True), options.fills, seed=options.seed)
    patches = [patch for patch in PATCHES if patch >= options.finest and patch * size // SIDE >= 1]
    maps: dict[tuple[str, int], Floats32] = {}
    for fill, canvas in fills.items():
        for patch in patches:
            network = critic.asked(patch * size // SIDE, canvas)
            maps[fill, patch] = steps_of(network, tables[patch].asked, options, f"{fill}-{patch}")
    if options.ours:
        for patch in patches:
            maps[OURS, patch], bits[f"ours, {patch} px"] = ours(tables[patch], patch, options)
    cells: list[Cell] = []
    for fill in dict.fromkeys(fill for fill, _ in maps):
        fine = min(patches)
        finest = tables[fine].mean_map(maps[fill, fine]), tables[fine].grid(fine)
        for patch in patches:
            cells += tables[patch].judged(fill, patch, maps[fill, patch], finest)
    show(cells, table, bits)
    for fill in fills:
        as_printed = share_as_printed(maps[fill, PATCHES[0]])
        print(f"faces whose quarters give the paper's first row, over {fill}: {as_printed:.1%}")
    if options.figure is not None:
        draw(tables, maps, options.figure)
    if options.json is not None:
        found = {
            "bits": bits,
            "clean": table.half(False),
            "lower half": table.half(True),
            "guess": table.guess,
        }
        write_json(
            options.json, {**found, "cells": [asdict(cell) for cell in cells], "paper": PAPER_BITS}
        )


def arguments() -> argparse.Namespace:
    """The options of every experiment, and those of this one."""
    own = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS)
    own.add_argument(
        "--size", type=int, default=SIDE, help="pixels the faces are brought to, 64 or 32"
    )
    own.add_argument("--epochs", type=int, default=100, help="of the paper's network")
    own.add_argument(
        "--rate", type=float, default=None, help="its step size (the paper's is 0.0001)"
    )
    own.add_argument(
        "--cut", action="store_true", help="train it on prefixes as well, not on whole faces only"
    )
    own.add_argument(
        "--fills", nargs="+", default=readings.FILLS, help="what it sees of patches still to come"
    )
    own.add_argument(
        "--test", type=int, default=None, help="test faces that are released (default: all)"
    )
    own.add_argument(
        "--train",
        type=int,
        default=None,
        help="training faces, for retrained attackers (default: all)",
    )
    own.add_argument("--finest", type=int, default=2, help="the smallest patches to ask about")
    own.add_argument(
        "--no-ours", dest="ours", action="store_false", help="leave our own estimator out"
    )
    own.add_argument(
        "--work",
        type=Path,
        default=Path("genki-work"),
        help="folder from which a stopped run goes on",
    )
    own.add_argument(
        "--figure", type=Path, help="draw the paper's Fig. 1 from your faces; not for publication"
    )
    mine, rest = own.parse_known_args()
    options = parse_arguments(
        f"{__doc__}\n{own.format_help().replace('options:', 'more options:')}", rest
    )
    if options.quick:
        mine.size = 32
        mine.epochs = 4
        mine.finest = 8
        mine.test = 60
        mine.train = 140
        mine.rate = 1e-3
        mine.fills = ["grey", "mean face"]
    for name, value in vars(mine).items():
        setattr(options, name, value)
    if options.size not in (32, SIDE):
        raise LowtideError(f"--size must be 32 or 64, got {options.size}")
    options.work.mkdir(parents=True, exist_ok=True)
    return options


def asked(faces: Faces, test: int | None, train: int | None, share: float) -> Faces:
    """The faces that releases are made of: so many for testing and for training, or all, or a share
    of these.
    """
    rows = []
    for side, most in ((True, train), (False, test)):
        # The same order each time: fewer faces are among more.
        mine = np.random.default_rng(0x6E).permutation(np.flatnonzero(faces.train == side))
        rows.append(mine[: round(share * min(len(mine), len(mine) if most is None else most))])
    chosen = np.sort(np.concatenate(rows))
    return Faces(
        Stack(faces.images.read(chosen)), faces.s[chosen], faces.train[chosen], faces.folder
    )


def steps_of(critic: PaperImages, asked: Faces, options: argparse.Namespace, name: str) -> Floats32:
    """What each patch adds by the paper's network, (n, m, |S|); from an earlier run, if it has
    asked the same.
    """
    mark = fingerprint(
        asked.images.read(np.arange(2)),
        asked.s,
        options.epochs,
        options.rate,
        options.cut,
        options.seed,
    )
    file = options.work / f"{name}-{mark[:12]}.npy"
    start = monotonic()
    if file.exists():
        return np.asarray(np.load(file))
    steps = readings.conditionals(critic, asked.images)
    write_whole(file, readings.npy_bytes(steps))
    print(
        f"{name}: prefixes asked about in {monotonic() - start:.0f} s", file=sys.stderr, flush=True
    )
    return steps


def ours(table: Table, patch: int, options: argparse.Namespace) -> tuple[Floats32, float]:
    """What each patch adds by our density, (n, m, |S|), and the bits it has about the test
    faces.
    """
    density, bits = fit(
        table.faces, patch * options.size // SIDE, options.quick, options.seed, work=options.work
    )
    steps = density.conditionals(table.asked.images.read(np.arange(len(table.asked.s))))
    return np.asarray(steps, dtype=np.float32), bits


class Table:
    """Releases of some faces, judged.

    Args:
        faces: all faces.
        asked: those that are released.
        attacker: the paper's, which knows clean faces only.
        seed: of noise.
    """

    def __init__(self, faces: Faces, asked: Faces, attacker: PaperAttacker, seed: int) -> None:
        self.faces = faces
        self.asked = asked
        self.attacker = attacker
        self.seed = seed
        test = ~asked.train
        self.test = Faces(
            Stack(asked.images.read(np.flatnonzero(test))), asked.s[test], test[test], asked.folder
        )
        self.guess = 100 * float(max(np.bincount(self.test.s)) / len(self.test.s))
        self.known: dict[bytes, tuple[float, float]] = {}

    def grid(self, patch: int) -> Grid:
        """The grid of patches that have this side in faces of 64 pixels."""
        return Grid(*self.asked.images.shape, patch * self.asked.images.shape[0] // SIDE)

    def mean_map(self, steps: Floats32) -> Floats:
        """(m,) what patches add on average over the faces."""
        return readings.compared(steps, self.asked.s, "mean map")

    def half(self, hidden: bool) -> tuple[float, float, float | None]:
        """What is read of clean faces, or with noise on their lower half, by fixed attackers and by
        a retrained one.
        """
        grid = self.grid(SIDE // 16)
        flags = (np.arange(len(grid)) >= len(grid) // 2) & hidden
        return *self.fixed(grid, flags), self.retrained(grid, flags)

    def fixed(self, grid: Grid, flags: Any) -> tuple[float, float]:
        """How often the paper's attacker is right, in percent: on bytes, and on noise that is not
        clipped.
        """
        shown = np.broadcast_to(flags, (len(self.asked.s), len(grid)))[~self.asked.train]
        key = np.packbits(grid.spread(shown)).tobytes()
        if key not in self.known:
            answers = self.attacker.log_scores(Album.of(hide(self.test, grid, shown, self.seed)))
            clipped = 100 * float((answers.argmax(axis=1) == self.test.s).mean())
            self.known[key] = (
                clipped,
                right_unclipped(self.attacker, self.test, grid, shown, self.seed),
            )
        return self.known[key]

    def retrained(self, grid: Grid, flags: Any) -> float | None:
        """How often an attacker trained on the release is right, in percent; `None` without faces
        for training.
        """
        if not self.asked.train.any():
            return None
        return right_by_edges(hide(self.asked, grid, flags, self.seed), self.asked)

    def judged(
        self, fill: str, patch: int, steps: Floats32, finest: tuple[Floats, Grid]
    ) -> Iterator[Cell]:
        """The releases of one fill and patch, by every reading and ε.

        Args:
            fill: the canvas, or `ours`.
            patch: the side of patches.
            steps: (n, m, |S|) what they add.
            finest: the average map of the finest patches, and their grid.
        """
        grid = self.grid(patch)
        values = {
            reading: readings.compared(steps, self.asked.s, reading)
            for reading in readings.READINGS
        }
        values[AVERAGED] = readings.averaged(*finest, grid)
        for reading, value in values.items():
            for epsilon in THRESHOLDS:
                flags = value > epsilon
                retrained = self.retrained(grid, flags) if reading == readings.READINGS[0] else None
                share = 1 - kept_by(grid, flags)
                yield Cell(
                    fill, reading, patch, epsilon, share, *self.fixed(grid, flags), retrained
                )


def show(cells: Sequence[Cell], table: Table, bits: dict[str, float]) -> None:
    """Table 1 for every fill, and which reading is nearest to the paper's figures."""
    for fill in dict.fromkeys(cell.fill for cell in cells):
        mine = {
            (c.patch, c.epsilon): c
            for c in cells
            if c.fill == fill and c.reading == readings.READINGS[0]
        }
        rows = [
            (f"{patch}×{patch}", *(_told(mine[patch, epsilon]) for epsilon in THRESHOLDS))
            for patch in dict.fromkeys(patch for patch, _ in mine)
        ]
        how = "our density" if fill == OURS else f"the paper's network over {fill}"
        print_table(
            f"Table 1 by {how}: the smile, % right",
            ["patch", *(f"ε = {epsilon}" for epsilon in THRESHOLDS)],
            rows,
            note=(
                "paper / fixed / fixed, noise not clipped / retrained (share of pixels flagged, %)"
            ),
        )
    for name, hidden, printed in (("clean", False, PAPER_CLEAN), ("lower half", True, PAPER_LOWER)):
        fixed, unclipped, retrained = map(_percent, table.half(hidden))
        print(
            f"{name}: paper {printed}, fixed {fixed}, not clipped {unclipped}, retrained"
            f" {retrained}"
        )
    print(
        f"guess: paper {PAPER_GUESS}, here {table.guess:.1f}; {int((~table.asked.train).sum())}"
        " test faces"
    )
    leakage = ", ".join(f"{value:.3f} ({name})" for name, value in bits.items())
    print(f"information on the test faces, in bits: {leakage}; the paper prints {PAPER_BITS}")
    nearest = sorted(gaps(cells).items(), key=lambda one: one[1])
    print_table(
        "How far a reading is from the paper's 20 accuracies: root mean square, in points",
        ["fill", "compared with ε", "noise", "gap"],
        [(*reading, gap) for reading, gap in nearest],
    )


def share_as_printed(steps: Floats32) -> float:
    """The share of faces that are released as the first row says: the lower quarters up to ε = 0.6,
    nothing from 0.7.

    Args:
        steps: (n, 4, |S|) what quarters of a face add.
    """
    told = np.abs(steps).max(axis=-1)
    upper = told[:, :2]
    lower = told[:, 2:]
    return float(
        ((upper <= 0.5).all(axis=1) & (lower > 0.6).all(axis=1) & (lower <= 0.7).all(axis=1)).mean()
    )


def gaps(cells: Sequence[Cell]) -> dict[tuple[str, str, str], float]:
    """Root mean square distance of the fixed attacker's accuracies from the paper's, by fill,
    reading and noise.
    """
    squares: dict[tuple[str, str, str], list[float]] = {}
    for cell in cells:
        printed = PAPER[cell.patch][THRESHOLDS.index(cell.epsilon)]
        for noise, value in (("bytes", cell.fixed), ("not clipped", cell.unclipped)):
            squares.setdefault((cell.fill, cell.reading, noise), []).append((value - printed) ** 2)
    return {reading: float(np.sqrt(np.mean(some))) for reading, some in squares.items()}


def draw(tables: Mapping[int, Table], maps: dict[tuple[str, int], Floats32], path: Path) -> None:
    """Ten test faces, what their patches tell by the paper's network, and the release at ε = 0.5
    (paper, Fig. 1).
    """
    fill = "mean face" if any(name == "mean face" for name, _ in maps) else next(iter(maps))[0]
    patches = [patch for name, patch in maps if name == fill and patch in (32, 8, 2)]
    finest = tables[patches[-1]].asked
    some = np.flatnonzero(~finest.train)[:SHOWN]
    pixels = finest.images.read(some)
    rows: list[tuple[str, list[Any]]] = [("(a) original", list(pixels))]
    for letter, patch in zip("bcd", patches, strict=False):
        table = tables[patch]
        # The faces of the finest patches are among those of the others.
        told = np.abs(maps[fill, patch]).max(axis=-1)[_places(table.asked, pixels)]
        tinted = [
            heat(face, row, table.grid(patch), most=1.0)
            for face, row in zip(pixels, told, strict=True)
        ]
        rows.append((f"({letter}) {patch} px", tinted))
    flags = np.abs(maps[fill, patch]).max(axis=-1) > THRESHOLDS[0]
    released = hide(finest, table.grid(patch), flags, table.seed).read(some)
    rows.append(
        (f"(e) {patch} px, above {THRESHOLDS[0]}", list(released))
    )  # the font of sheets has no Greek letters
    contact_sheet(
        rows, path, title=f"GENKI-4K: the paper's network over {fill}", most=1.0, unit="nats"
    )
    print(f"faces, not for publication: {path}")


def _places(asked: Faces, pixels: Pixels) -> list[int]:
    """Where faces lie among those that were asked about."""
    every = {
        image.tobytes(): k for k, image in enumerate(asked.images.read(np.arange(len(asked.s))))
    }
    return [every[image.tobytes()] for image in pixels]


def _told(cell: Cell) -> str:
    printed = PAPER[cell.patch][THRESHOLDS.index(cell.epsilon)]
    read = " / ".join(map(_percent, (printed, cell.fixed, cell.unclipped, cell.retrained)))
    return f"{read} ({100 * cell.flagged:.1f})"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


if __name__ == "__main__":
    main()
