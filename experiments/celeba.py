"""CelebA (paper, Table 2 and Fig. 2) on the faces given. The smile is hidden, the gender is to stay
readable.

The paper's rule by its own network and by our density, our fixed policies, an adversarially learnt
filter (Bertran et al. 2019) and hiding the lower half are read by attackers that know clean faces
only, as in the paper, and by attackers retrained on the release. Only the rival knows what the
release should be useful for. Everything is learnt from the training faces and tested on all others.
A run that was stopped goes on from its folder --work.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import numpy as np
import torch

from celeba_releases import (
    SECRET,
    UTILITY,
    WAYS,
    Made,
    Read,
    Setup,
    faces,
    labels,
    leaking,
    make,
    read_label,
)
from common import contact_sheet
from lowtide.errors import LowtideError
from lowtide.estimate.objectives import fingerprint
from lowtide.report.console import parse_arguments, print_table, write_json
from paper.readings import FILLS
from plots import Series, plot_frontiers

# Table 2 of the paper, in percent: emotion and gender, by attackers that were never retrained.
PAPER = {
    ("clean", "ε = ∞"): (92.04, 94.29),
    ("paper", "ε = 0.8"): (85.97, 91.48),
    ("paper", "ε = 0.7"): (75.15, 90.39),
    ("paper", "ε = 0.6"): (71.33, 87.61),
    ("paper", "ε = 0.5"): (69.01, 86.97),
    ("lower half noised", "λ = 1"): (53.91, 69.35),
    ("guess", ""): (51.79, 58.32),
}
PAPER_RIVAL = (
    (85.59, 92.53),
    (76.40, 91.20),
    (70.88, 89.77),
    (68.60, 89.47),
)  # its settings are not stated
SHOWN = 6  # faces on the sheet
NATIVE = (178, 218)  # pixels, as the paper has them


@dataclass(frozen=True)
class Row:
    """One release, judged for both labels."""

    made: Made
    smiling: Read
    gender: Read


def main() -> None:
    """Make, judge and compare all releases."""
    options = arguments()
    start = monotonic()
    settings = options.size, options.quick, options.seed, options.epochs, options.fill
    shelf = options.work / fingerprint(str(options.data), *settings)[:12]
    shelf.mkdir(parents=True, exist_ok=True)
    setup = Setup(
        options.data, options.size, options.quick, options.seed, shelf, options.epochs, options.fill
    )
    rows = judged(setup, options.ways)
    guesses = guess(setup, SECRET), guess(setup, UTILITY)
    if options.faces is not None:
        draw_faces(setup, [row.made for row in rows], options.faces)
    print_results(rows, guesses)
    claims = compare(rows)
    for claim in claims:
        print(sentence(claim))
    minutes = (monotonic() - start) / 60
    print(f"{minutes:.0f} minutes")
    if options.json is not None:
        plain = [{**asdict(row), "made": {**asdict(row.made), "file": None}} for row in rows]
        found = {
            "guess": guesses,
            "claims": claims,
            "releases": plain,
            "paper": printed(),
            "minutes": minutes,
        }
        write_json(options.json, found)
    figure = (options.json or Path("celeba.json")).with_suffix(".png")
    draw(rows, figure)
    print(f"figure: {figure}")


def arguments() -> argparse.Namespace:
    """The options of every experiment, and those of this one."""
    own = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS)
    own.add_argument(
        "--size",
        type=_size,
        default=NATIVE,
        metavar="WxH",
        help="bring the faces to this size (178x218)",
    )
    own.add_argument(
        "--ways", nargs="+", choices=WAYS, default=list(WAYS), help="leave other ways to hide out"
    )
    own.add_argument(
        "--epochs", type=int, default=20, help="of the paper's network (the paper's are 100)"
    )
    own.add_argument(
        "--fill", choices=FILLS, default="mean face", help="what it sees of patches still to come"
    )
    own.add_argument(
        "--work",
        type=Path,
        default=Path("celeba-work"),
        help="folder from which a stopped run goes on",
    )
    own.add_argument(
        "--faces",
        type=Path,
        metavar="FILE",
        help="draw some faces as released; not for publication",
    )
    mine, rest = own.parse_known_args()
    options = parse_arguments(
        f"{__doc__}\n{own.format_help().replace('options:', 'more options:')}", rest
    )
    for name, value in vars(mine).items():
        setattr(options, name, value)
    options.ways = list(
        dict.fromkeys(["by hand", *options.ways])
    )  # clean faces are the start of every curve
    _check(options.json, options.faces)
    return options


def _check(*files: Path | None) -> None:
    """Refuse files that cannot be written now rather than after an hour."""
    for file in files:
        if file is not None and not file.absolute().parent.is_dir():
            raise LowtideError(
                f"{file.parent} is not a folder; make it first, or choose another for {file.name}"
            )


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdigit() and height.isdigit()):
        raise argparse.ArgumentTypeError("give width and height as in 64x80")
    return int(width), int(height)


def judged(setup: Setup, ways: Sequence[str]) -> list[Row]:
    """All releases with what attackers read of both labels; two processes work on them."""
    faces(setup)  # says what is wrong with the data before anything starts
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(2, os.cpu_count() or 1), context, torch.set_num_threads, (1,))
    every: list[Made] = []
    read: dict[tuple[str, str], Read] = {}
    try:
        making: list[Future[list[Made]]] = [pool.submit(make, setup, way) for way in ways]
        reading: dict[Future[Read], tuple[Made, str]] = {}
        while making or reading:
            waiting: list[Future[Any]] = [*making, *reading]
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for made in [made for future in making if future in done for made in future.result()]:
                # A rule that flags nothing, or nothing else, gives the same release again.
                if made.digest not in {other.digest for other in every}:
                    reading |= {
                        pool.submit(read_label, setup, made, name): (made, name)
                        for name in (SECRET, UTILITY)
                    }
                every.append(made)
            making = [future for future in making if future not in done]
            for finished in [future for future in reading if future in done]:
                made, name = reading.pop(finished)
                read[made.digest, name] = finished.result()
                say(made, name, read[made.digest, name])
    finally:
        pool.shutdown(cancel_futures=True)
    every.sort(key=lambda made: (made.method != "clean", made.method))
    return [Row(made, read[made.digest, SECRET], read[made.digest, UTILITY]) for made in every]


def say(made: Made, name: str, found: Read) -> None:
    """Tell a result while others are waited for."""
    own = "" if made.own is None else f", its own adversary {made.own['adversary']:.1f} %"
    print(
        f"{made.method}, {made.setting} (learnt in {made.seconds:.0f} s), {made.kept:.1%} kept:"
        f" {name} fixed {found.fixed:.1f} %, retrained {found.retrained:.1f} %"
        f" ({found.attacker}){own}, {found.seconds:.0f} s",
        file=sys.stderr,
        flush=True,
    )


def guess(setup: Setup, name: str) -> float:
    """How often the commoner class of the training faces is right, in percent."""
    codes = labels(setup, name)
    train = faces(setup).train
    return 100 * float((codes[~train] == np.bincount(codes[train]).argmax()).mean())


def draw_faces(setup: Setup, every: Sequence[Made], path: Path) -> None:
    """Some test faces as they were, what their patches tell, and as released (paper, Fig. 2)."""
    some = np.flatnonzero(~faces(setup).train)[:SHOWN]
    plain = str.maketrans(
        {"ε": "eps", "λ": "lambda", "∞": "none"}
    )  # the font of sheets has no Greek letters
    rows = [
        (
            f"{made.method}, {made.setting.translate(plain)}",
            list(np.load(made.file, mmap_mode="r")[some]),
        )
        for made in every
    ]
    if any(made.method == "paper" for made in every):
        rows[1:1] = leaking(setup, some)
    contact_sheet(rows, path, title="Faces as released; not for publication", most=1.0, unit="nats")


def compare(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For every setting of the rival, the fixed policy that keeps most of the gender and tells no
    more of the smile.
    """
    plans = [row for row in rows if row.made.method.startswith("fixed")]
    claims = []
    for rival in (row for row in rows if row.made.method == "rival"):
        under = [row for row in plans if row.smiling.retrained <= rival.smiling.retrained]
        best = max(under, key=lambda row: row.gender.retrained, default=None)
        claims.append(
            {
                "rival": rival.made.setting,
                "rival_smiling": rival.smiling.retrained,
                "rival_gender": rival.gender.retrained,
                "ours": best and f"{best.made.method}, {best.made.setting}",
                "ours_smiling": best and best.smiling.retrained,
                "ours_gender": best and best.gender.retrained,
                "ahead": best and best.gender.retrained - rival.gender.retrained,
            }
        )
    return claims


def sentence(claim: dict[str, Any]) -> str:
    """A comparison in words."""
    there = (
        f"rival at {claim['rival']}: smile {claim['rival_smiling']:.1f} %, gender"
        f" {claim['rival_gender']:.1f} %"
    )
    if claim["ours"] is None:
        return f"{there}; no fixed policy that was tried reveals so little of the smile"
    here = f"smile {claim['ours_smiling']:.1f} %, gender {claim['ours_gender']:.1f} %"
    return f"{there}; {claim['ours']}: {here}, {claim['ahead']:+.1f} points"


def printed() -> list[dict[str, Any]]:
    """The paper's figures."""
    ours = [
        {"method": m, "setting": s, "smiling": e, "gender": g} for (m, s), (e, g) in PAPER.items()
    ]
    return [
        *ours,
        *({"method": "rival", "setting": "", "smiling": e, "gender": g} for e, g in PAPER_RIVAL),
    ]


def print_results(rows: Sequence[Row], guesses: tuple[float, float]) -> None:
    """Table 2, with the paper's figures beside ours, and what the rival's own networks say."""
    cells = [
        (
            row.made.method,
            row.made.setting,
            f"{row.made.kept:.0%}",
            *(
                f"{part.retrained:.1f} ±{(part.high - part.low) / 2:.1f}"
                for part in (row.smiling, row.gender)
            ),
            *(f"{part.fixed:.1f}" for part in (row.smiling, row.gender)),
            *(f"{value:.2f}" for value in PAPER.get((row.made.method, row.made.setting), ())),
        )
        for row in rows
    ]
    both = [f"{value:.1f}" for value in guesses]
    cells.append(
        ("guess", "", "0%", *both, *both, *(f"{value:.2f}" for value in PAPER["guess", ""]))
    )
    columns = [
        "way to hide",
        "setting",
        "kept",
        "smile",
        "gender",
        "smile, fixed",
        "gender, fixed",
        "paper",
        "paper",
    ]
    print_table(
        "Table 2: how often the smile (to be hidden) and the gender (to be kept) are read, in %",
        columns,
        [(*cell, *[""] * (len(columns) - len(cell))) for cell in cells],
        note=(
            "by attackers retrained on the release, then by fixed ones as in the paper; last, what"
            " the paper prints: smile, gender. Its rival: "
        )
        + ", ".join(f"{e:.2f}/{g:.2f}" for e, g in PAPER_RIVAL),
    )
    own = [(row, row.made.own) for row in rows if row.made.own is not None]
    if not own:
        return
    print_table(
        "The rival by its own networks on the test faces, and by fresh ones",
        [
            "k, nats",
            "told, nats",
            "own adversary %",
            "fresh attacker %",
            "own classifier %",
            "fresh classifier %",
        ],
        [
            (
                o["limit"],
                o["leakage"],
                o["adversary"],
                row.smiling.retrained,
                o["classifier"],
                row.gender.retrained,
            )
            for row, o in own
        ],
    )


def draw(rows: Sequence[Row], path: Path) -> None:
    """Gender against smile, by retrained attackers and by fixed ones."""
    panels = {
        "attackers retrained on the release": _curves(rows, "retrained"),
        "attackers that know clean faces only": _curves(rows, "fixed"),
    }
    plot_frontiers(
        panels,
        path,
        horizontal="gender, % right",
        vertical="smile, % right",
        title="CelebA: the smile is to be hidden, the gender kept",
    )


def _curves(rows: Sequence[Row], attackers: Literal["retrained", "fixed"]) -> dict[str, Series]:
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        points.setdefault(row.made.method, []).append(
            (getattr(row.gender, attackers), getattr(row.smiling, attackers))
        )
    (clean,) = points.pop("clean")
    curves = {}
    for method, some in points.items():
        # What has more than one setting begins where nothing is hidden.
        gender, smiling = zip(*sorted([*some, clean] if len(some) > 1 else some), strict=True)
        curves[method] = Series(gender, smiling, ours=method.startswith("fixed"))
    return curves


if __name__ == "__main__":
    main()
