"""GENKI-4K (paper, Table 1 and Fig. 1): the paper's estimator at its word, every fill and reading, and ours beside it.

The rule hides a patch by noise of λ = 1 where what it adds to the raw patches before it exceeds ε. The paper's network
is trained on whole faces once, and then asked about prefixes of all patch sizes; what it is shown in place of patches
still to come, the paper does not say. Ours is trained on prefixes. Releases are read by the paper's attacker, its
network trained on clean faces, and by one retrained on each release: ridge regression on edges, light enough for
hundreds of them. Patch sizes are those of 64×64 pixels; faces brought to 32×32 have patches half as wide.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from common import contact_sheet
from image_frontiers import THRESHOLDS, Faces, fit, hide, kept_by, load
from lowtide.attack.attackers import Attacker
from lowtide.density.objectives import fingerprint
from lowtide.errors import LowtideError
from lowtide.files import write_whole
from lowtide.images.attackers import IMAGE_ATTACKERS, Album
from lowtide.images.encoder import Grid, Stack
from lowtide.images.heatmaps import heat
from lowtide.images.paper import PaperImages
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.types import Floats, Floats32
from peers import paper_images
from peers.light_attacker import right_by_edges, right_unclipped

SIDE = 64  # pixels of the paper's faces, which patch sizes refer to
PATCHES = (32, 16, 8, 4, 2)
PAPER = {  # Table 1 of the paper, accuracies in percent of an attacker that was never retrained
    32: (50.54, 50.54, 92.04, 92.04),
    16: (50.72, 51.46, 79.14, 89.52),
    8: (50.93, 68.94, 78.71, 87.33),
    4: (50.60, 65.06, 75.23, 83.89),
    2: (50.64, 62.25, 68.59, 80.26),
}
PAPER_CLEAN, PAPER_LOWER, PAPER_GUESS, PAPER_BITS = 92.04, 50.58, 50.41, 0.594
OURS, AVERAGED = "ours", "mean map, averaged"
BATCH = 256  # of the paper's recipe
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
        retrained: ridge regression on edges, trained on the release; `None` where it was not.
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
    critic = paper_images.fit_once(
        faces.part(True),
        faces.s[faces.train],
        options.work,
        epochs=options.epochs,
        batch=BATCH,
        rate=options.rate,
        cut=options.cut,
        seed=options.seed,
    )
    literal = paper_images.bits(critic, faces.part(False), faces.s[~faces.train])
    bits = {"the paper's network": literal}
    print(f"the paper's network: {literal:.3f} bits on the test faces", file=sys.stderr, flush=True)
    table = Table(faces, asked(faces, options.asked), options.seed)
    fills = paper_images.canvases(faces.part(True), options.fills, seed=options.seed)
    patches = [patch for patch in PATCHES if patch >= options.finest and patch * size // SIDE >= 1]
    maps: dict[tuple[str, int], Floats32] = {}
    for fill, canvas in fills.items():
        for patch in patches:
            maps[fill, patch] = steps_of(critic.asked(patch * size // SIDE, canvas), table, options, f"{fill}-{patch}")
    if options.ours:
        for patch in patches:
            maps[OURS, patch], bits[f"ours, {patch} px"] = ours(table, patch, options)
    cells = [cell for fill in dict.fromkeys(fill for fill, _ in maps) for cell in table.judged(fill, patches, maps)]
    show(cells, table, bits)
    if options.figure is not None:
        draw(table, maps, options.figure)
    if options.json is not None:
        found = {"bits": bits, "clean": table.clean, "lower half": table.lower, "guess": table.guess}
        write_json(options.json, {**found, "cells": [asdict(cell) for cell in cells], "paper": PAPER_BITS})


def arguments() -> argparse.Namespace:
    """The options of every experiment, and those of this one."""
    own = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS)
    own.add_argument("--size", type=int, default=SIDE, help="pixels the faces are brought to, 64 or 32")
    own.add_argument("--epochs", type=int, default=100, help="of the paper's network")
    own.add_argument("--rate", type=float, default=None, help="its step size (the paper's is 0.0001)")
    own.add_argument("--cut", action="store_true", help="train it on prefixes as well, not on whole faces only")
    own.add_argument("--fills", nargs="+", default=paper_images.FILLS, help="what it sees of patches still to come")
    own.add_argument("--asked", type=int, default=None, help="faces that are asked about and released (default: all)")
    own.add_argument("--finest", type=int, default=2, help="the smallest patches to ask about")
    own.add_argument("--no-ours", dest="ours", action="store_false", help="leave our own estimator out")
    own.add_argument("--work", type=Path, default=Path("genki-work"), help="folder from which a stopped run goes on")
    own.add_argument("--figure", type=Path, help="draw the paper's Fig. 1 from your faces; not for publication")
    mine, rest = own.parse_known_args()
    options = parse_arguments(f"{__doc__}\n{own.format_help().replace('options:', 'more options:')}", rest)
    if options.quick:
        mine.size, mine.epochs, mine.finest, mine.asked, mine.rate = 32, 4, 8, 200, 1e-3
        mine.fills = ["grey", "mean face"]
    for name, value in vars(mine).items():
        setattr(options, name, value)
    if options.size not in (32, SIDE):
        raise LowtideError(f"--size must be 32 or 64, got {options.size}")
    options.work.mkdir(parents=True, exist_ok=True)
    return options


def asked(faces: Faces, most: int | None) -> Faces:
    """The faces that releases are made of: all, or so many, three in ten of them for testing, as in the data."""
    rows = np.arange(len(faces.s))
    if most is not None and most < len(rows):
        rng, share = np.random.default_rng(0x6E), most / len(rows)
        parts = [rng.permutation(rows[faces.train == side]) for side in (True, False)]
        rows = np.sort(np.concatenate([part[: round(share * len(part))] for part in parts]))
    return Faces(Stack(faces.images.read(rows)), faces.s[rows], faces.train[rows], faces.folder)


def steps_of(critic: PaperImages, table: Table, options: argparse.Namespace, name: str) -> Floats32:
    """What each patch adds by the paper's network, (n, m, |S|); from an earlier run, if it has asked the same."""
    mark = fingerprint(
        table.asked.images.read(np.arange(2)), table.asked.s, options.epochs, options.rate, options.cut, options.seed
    )
    file, start = options.work / f"{name}-{mark[:12]}.npy", monotonic()
    if file.exists():
        return np.asarray(np.load(file))
    steps = paper_images.conditionals(critic, table.asked.images)
    write_whole(file, paper_images.npy_bytes(steps))
    print(f"{name}: prefixes asked about in {monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return steps


def ours(table: Table, patch: int, options: argparse.Namespace) -> tuple[Floats32, float]:
    """What each patch adds by our density, (n, m, |S|), and the bits it has about the test faces."""
    density, bits = fit(table.faces, patch * options.size // SIDE, options.quick, options.seed, work=options.work)
    steps = density.conditionals(table.asked.images.read(np.arange(len(table.asked.s))))
    return np.asarray(steps, dtype=np.float32), bits


class Table:
    """Releases of some faces, judged.

    Args:
        faces: all faces; the paper's attacker learns from those for training.
        asked: those that are released.
        seed: of attackers and noise.
    """

    def __init__(self, faces: Faces, asked: Faces, seed: int) -> None:
        self.faces, self.asked, self.seed = faces, asked, seed
        train, start = np.flatnonzero(faces.train), monotonic()
        album = Album.of(faces.images)[train]
        self.attacker: Attacker = IMAGE_ATTACKERS["paper's network"](seed).fit(album, faces.s[train])
        print(f"the paper's attacker: trained in {monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        grid = Grid(*asked.images.shape, 1)
        half = np.arange(len(grid)) >= len(grid) // 2
        self.judgements: dict[bytes, tuple[float, float]] = {}
        self.clean, self.lower = (
            (*self.fixed(grid, flags), right_by_edges(hide(asked, grid, flags, seed), asked))
            for flags in (np.zeros(len(grid), dtype=bool), half)
        )
        self.guess = 100 * float(max(np.bincount(asked.s[~asked.train])) / (~asked.train).sum())

    def fixed(self, grid: Grid, flags: Any) -> tuple[float, float]:
        """How often the attacker that knows clean faces is right, in percent: bytes, and noise that is not clipped."""
        test = ~self.asked.train
        key = np.packbits(grid.spread(np.broadcast_to(flags, (len(test), len(grid)))[test])).tobytes()
        if key not in self.judgements:
            some = Faces(
                Stack(self.asked.images.read(np.flatnonzero(test))), self.asked.s[test], test[test], self.faces.folder
            )
            shown = np.broadcast_to(flags, (len(test), len(grid)))[test]
            answers = self.attacker.probabilities(Album.of(hide(some, grid, shown, self.seed)))
            clipped = 100 * float((answers.argmax(axis=1) == some.s).mean())
            self.judgements[key] = clipped, right_unclipped(self.attacker, some, grid, shown, self.seed)
        return self.judgements[key]

    def judged(self, fill: str, patches: Sequence[int], maps: dict[tuple[str, int], Floats32]) -> Iterator[Cell]:
        """The releases of one fill: by every reading, patch and ε; retrained attackers where the paper's rule is it."""
        side, train = self.asked.images.shape[0], self.asked.train
        fine = min(patches)
        finest = paper_images.compared(maps[fill, fine][train], self.asked.s[train], "mean map")
        for patch in patches:
            grid, steps = Grid(*self.asked.images.shape, patch * side // SIDE), maps[fill, patch]
            values: dict[str, Floats] = {
                r: paper_images.compared(steps, self.asked.s, r) for r in paper_images.READINGS
            }
            values["mean map"] = paper_images.compared(steps[train], self.asked.s[train], "mean map")
            values[AVERAGED] = paper_images.averaged(finest, Grid(*self.asked.images.shape, fine * side // SIDE), grid)
            for reading, value in values.items():
                for epsilon in THRESHOLDS:
                    yield self._cell(fill, reading, patch, epsilon, grid, value > epsilon)

    def _cell(self, fill: str, reading: str, patch: int, epsilon: float, grid: Grid, flags: Any) -> Cell:
        fixed, unclipped = self.fixed(grid, flags)
        retrained = None
        if reading == paper_images.READINGS[0]:
            retrained = right_by_edges(hide(self.asked, grid, flags, self.seed), self.asked)
        return Cell(fill, reading, patch, epsilon, 1 - kept_by(grid, flags), fixed, unclipped, retrained)


def show(cells: Sequence[Cell], table: Table, bits: dict[str, float]) -> None:
    """Table 1 for every fill, and which reading is nearest to the paper's figures."""
    for fill in dict.fromkeys(cell.fill for cell in cells):
        mine = {(c.patch, c.epsilon): c for c in cells if c.fill == fill and c.reading == paper_images.READINGS[0]}
        rows = [
            (f"{patch}×{patch}", *(_told(mine[patch, epsilon]) for epsilon in THRESHOLDS))
            for patch in dict.fromkeys(patch for patch, _ in mine)
        ]
        how = "our density" if fill == OURS else f"the paper's network over {fill}"
        print_table(
            f"Table 1 by {how}: the smile, % right",
            ["patch", *(f"ε = {epsilon}" for epsilon in THRESHOLDS)],
            rows,
            note="paper / fixed / fixed, noise not clipped / retrained (share of pixels flagged, %)",
        )
    for name, found, printed in (("clean", table.clean, PAPER_CLEAN), ("lower half", table.lower, PAPER_LOWER)):
        fixed, unclipped, retrained = found
        print(f"{name}: paper {printed}, fixed {fixed:.1f}, not clipped {unclipped:.1f}, retrained {retrained:.1f}")
    print(f"guess: paper {PAPER_GUESS}, here {table.guess:.1f}; {int((~table.asked.train).sum())} test faces")
    leakage = ", ".join(f"{value:.3f} ({name})" for name, value in bits.items())
    print(f"information on the test faces, in bits: {leakage}; the paper prints {PAPER_BITS}")
    nearest = sorted(gaps(cells).items(), key=lambda one: one[1])
    print_table(
        "How far a reading is from the paper's 20 accuracies: root mean square, in points",
        ["fill", "compared with ε", "noise", "gap"],
        [(*reading, gap) for reading, gap in nearest],
    )


def gaps(cells: Sequence[Cell]) -> dict[tuple[str, str, str], float]:
    """Root mean square distance of the fixed attacker's accuracies from the paper's, by fill, reading and noise."""
    squares: dict[tuple[str, str, str], list[float]] = {}
    for cell in cells:
        printed = PAPER[cell.patch][THRESHOLDS.index(cell.epsilon)]
        for noise, value in (("bytes", cell.fixed), ("not clipped", cell.unclipped)):
            squares.setdefault((cell.fill, cell.reading, noise), []).append((value - printed) ** 2)
    return {reading: float(np.sqrt(np.mean(some))) for reading, some in squares.items()}


def draw(table: Table, maps: dict[tuple[str, int], Floats32], path: Path) -> None:
    """Fig. 1: ten test faces, what their patches tell by the paper's network, and the release at ε = 0.5."""
    fill = "mean face" if any(name == "mean face" for name, _ in maps) else next(iter(maps))[0]
    test = np.flatnonzero(~table.asked.train)
    some = test[:: max(1, len(test) // SHOWN)][:SHOWN]
    pixels, side = table.asked.images.read(some), table.asked.images.shape[0]
    rows: list[tuple[str, list[Any]]] = [("(a) original", list(pixels))]
    letters = iter("bcdef")
    patches = [patch for name, patch in maps if name == fill and patch in (32, 8, 2)]
    for patch in patches:
        grid = Grid(*table.asked.images.shape, patch * side // SIDE)
        told = np.abs(maps[fill, patch][some]).max(axis=-1)
        tinted = [heat(face, row, grid, most=1.0) for face, row in zip(pixels, told, strict=True)]
        rows.append((f"({next(letters)}) {patch} px", tinted))
    flags = np.abs(maps[fill, patch]).max(axis=-1) > THRESHOLDS[0]
    released = hide(table.asked, grid, flags, table.seed).read(some)
    rows.append((f"({next(letters)}) {patch} px, ε = {THRESHOLDS[0]}", list(released)))
    contact_sheet(rows, path, title=f"GENKI-4K: the paper's network over {fill}", most=1.0, unit="nats")
    print(f"faces, not for publication: {path}")


def _told(cell: Cell) -> str:
    printed = PAPER[cell.patch][THRESHOLDS.index(cell.epsilon)]
    read = " / ".join(f"{value:.1f}" for value in (printed, cell.fixed, cell.unclipped, cell.retrained) if value)
    return f"{read} ({100 * cell.flagged:.1f})"


if __name__ == "__main__":
    main()
