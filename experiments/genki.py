"""GENKI-4K (paper, Table 1): the rule by patch and ε, read by the paper's attacker and by retrained ones.

The rule hides a patch by noise where its density given the raw patches before it exceeds ε. The paper attacks with a
network that has never seen a release. Here the same releases are also attacked by models trained on them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic

import numpy as np

from common import contact_sheet
from image_frontiers import Faces, Judge, Judged, hide, kept_by, load
from lowtide import TIDE
from lowtide.density.artefact import Density
from lowtide.errors import LowtideError
from lowtide.images.encoder import Grid
from lowtide.images.heatmaps import heat
from lowtide.images.mechanism import PaperPatches, all_flags
from lowtide.report.console import parse_arguments, print_table, write_json
from peers.image_hiders import LowerNoise

PATCHES = (32, 16, 8, 4, 2)
THRESHOLDS = (0.5, 0.6, 0.7, 0.8)
PAPER = {  # Table 1 of the paper, accuracies in percent of an attacker that was never retrained
    32: (50.54, 50.54, 92.04, 92.04),
    16: (50.72, 51.46, 79.14, 89.52),
    8: (50.93, 68.94, 78.71, 87.33),
    4: (50.60, 65.06, 75.23, 83.89),
    2: (50.64, 62.25, 68.59, 80.26),
}
PAPER_CLEAN, PAPER_LOWER, PAPER_GUESS, PAPER_BITS = 92.04, 50.58, 50.41, 0.594
THEIRS = "paper's network"
SHOWN = 10  # faces on the sheet


def main() -> None:
    """Fit a density for every patch size, and judge the releases by its rule."""
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--faces", type=Path, help="draw some faces, what their patches tell, and their release")
    mine, rest = own.parse_known_args()
    options = parse_arguments(f"{__doc__}\nMore: --faces FILE.png draws single faces; not for publication.", rest)
    faces = load(options.data, "smile", most=400 if options.quick else None)
    fixed = ("small network",) if options.quick else (THEIRS, "small network")
    judge = Judge(faces, fixed=fixed, networks=not options.quick, seed=options.seed)
    clean = judge.judge("clean", "nothing hidden", faces.images, 1.0)
    lower = LowerNoise(seed=options.seed).fit(faces.part(True), strength=1.0).apply(faces.images)
    half = judge.judge("lower half", "λ = 1", lower.stack(), lower.untouched)
    table: list[Judged] = []
    bits: dict[int, float] = {}
    densities: dict[int, Density] = {}
    for patch in (16,) if options.quick else PATCHES:
        densities[patch], bits[patch] = fit(faces, patch, options.quick, options.seed)
        table += by_rule(faces, judge, densities[patch], patch, options.seed)
    if mine.faces is not None:
        draw_faces(faces, densities, mine.faces, options.seed)
    guess = 100 * max(np.bincount(faces.s[~faces.train])) / int((~faces.train).sum())
    show(table, clean, half, guess, bits)
    if options.json is not None:
        rows = [asdict(one) for one in (clean, half, *table)]
        write_json(options.json, {"bits": {str(p): b for p, b in bits.items()}, "guess": guess, "releases": rows})


def fit(faces: Faces, patch: int, quick: bool, seed: int) -> tuple[Density, float]:
    """The density of the training faces, and the bits it has about the test faces."""
    start = monotonic()
    tide = TIDE(features=patch, random_state=seed, max_steps=40 if quick else None, progress=False)
    density = tide.fit(faces.part(True), faces.s[faces.train]).artefact
    if not isinstance(density, Density):
        raise LowtideError("a finite secret was expected")
    bits = density.information(faces.part(False), faces.s[~faces.train]).bits.value
    said = f"patch {patch}: fitted in {monotonic() - start:.0f} s, {bits:.3f} bits on the test faces"
    print(said, file=sys.stderr, flush=True)
    return density, bits


def by_rule(faces: Faces, judge: Judge, density: Density, patch: int, seed: int) -> list[Judged]:
    """The releases by the paper's rule with noise of λ = 1, one for every ε."""
    grid = Grid(*faces.images.shape, patch)
    none, found, before = np.zeros(len(grid), dtype=bool), list[Judged](), np.zeros(0, dtype=bool)
    for epsilon in THRESHOLDS:
        flags = all_flags(faces.images, PaperPatches(density, epsilon, none, none))
        setting = f"{patch} {epsilon}"
        if np.array_equal(before, flags):  # the same release, then
            found.append(replace(found[-1], setting=setting))
        else:
            found.append(judge.judge("paper", setting, hide(faces, grid, flags, seed), kept_by(grid, flags)))
        before = flags
    return found


def show(table: Sequence[Judged], clean: Judged, half: Judged, guess: float, bits: dict[int, float]) -> None:
    """Table 1 with the paper's figures beside ours."""
    rows = []
    for one in table:
        patch, epsilon = one.setting.split()
        printed = PAPER[int(patch)][THRESHOLDS.index(float(epsilon))]
        rows.append(
            (f"{patch}×{patch}", epsilon, one.kept, printed, _theirs(one), one.retrained.right, one.retrained.attacker)
        )
    rows.append(("any", "∞", 1.0, PAPER_CLEAN, _theirs(clean), clean.retrained.right, clean.retrained.attacker))
    rows.append(
        ("lower half", "", half.kept, PAPER_LOWER, _theirs(half), half.retrained.right, half.retrained.attacker)
    )
    rows.append(("guess", "", 0.0, PAPER_GUESS, guess, guess, ""))
    print_table(
        "Table 1: how often attackers read the smile, in %",
        ["patch", "ε", "pixels kept", "paper", "fixed attacker", "retrained attacker", "which"],
        rows,
    )
    leakage = ", ".join(f"{value:.3f} ({patch} px)" for patch, value in bits.items())
    print(f"information on the test faces, in bits: {leakage}; the paper prints {PAPER_BITS}")


def draw_faces(faces: Faces, densities: dict[int, Density], path: Path, seed: int) -> None:
    """Rows of faces (paper, Fig. 1): test faces, what patches of each size tell, and the release at ε = 0.5."""
    some = np.flatnonzero(~faces.train)[:: max(1, int((~faces.train).sum()) // SHOWN)][:SHOWN]
    pixels = faces.images.read(some)
    rows = [("original", list(pixels))]
    for patch, density in densities.items():
        grid = Grid(*faces.images.shape, patch)
        leakage = np.abs(np.asarray(density.conditionals(pixels))).max(axis=-1)
        rows.append(
            (f"{patch} px", [heat(face, row, grid, most=1.0) for face, row in zip(pixels, leakage, strict=True)])
        )
    none = np.zeros(len(grid), dtype=bool)
    flags = all_flags(faces.images, PaperPatches(density, THRESHOLDS[0], none, none))
    rows.append((f"{patch} px, ε = {THRESHOLDS[0]}", list(hide(faces, grid, flags, seed).read(some))))
    contact_sheet(rows, path, title="GENKI-4K: what patches tell about the smile", most=1.0, unit="nats")
    print(f"faces, not for publication: {path}")


def _theirs(one: Judged) -> float:
    """The paper's own network, where it was trained."""
    return one.fixed_by.get(THEIRS, one.fixed)


if __name__ == "__main__":
    main()
