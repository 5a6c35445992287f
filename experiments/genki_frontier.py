"""GENKI-4K: what retrained attackers read of the smile against the share of pixels kept, for every
way to hide it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import numpy as np

from image_frontiers import Faces, Judge, Judged, by_rule, fit, hide, kept_by, load
from lowtide import TIDE, Obfuscator
from lowtide.errors import LowtideError
from lowtide.images.mechanism import FixedPatches, all_flags
from lowtide.images.planner import ImageSettings
from lowtide.images.problem import SequentialPatches
from lowtide.report.console import parse_arguments, print_table, write_json
from peers.image_hiders import Blur, LowerNoise, LowerRedacted, Pixelation, WholeNoise
from plots import Series, plot_frontiers

KEPT = (0.9, 0.8, 0.75, 0.7, 0.65, 0.6, 0.5, 0.4)
PATCH = 4
# side of the patches, and thresholds, of the policy `sequential`
SEQUENTIAL = 8
EPSILONS = (0.5, 0.25, 0.1)
EDGES = ImageSettings(attackers=("edges",))
WAYS = ("by hand", "fixed", "sequential", "paper")


def main() -> None:
    """Judge our policies, rivals and the paper's rule."""
    options = arguments()
    faces = load(options.data, "smile", most=400 if options.quick else None)
    judge = Judge(faces, networks=not options.quick, seed=options.seed)
    found = [judge.judge("clean", "nothing hidden", faces.images, 1.0)]
    if "by hand" in options.ways:
        found += by_hand(faces, judge, options.quick, options.seed)
    if "fixed" in options.ways:
        found += ours(faces, judge, options.quick, options.seed)
    if "sequential" in options.ways and not options.quick:
        found += step_by_step(faces, judge, options.seed)
    if "paper" in options.ways and not options.quick:
        found += by_rule(
            faces, judge, fit(faces, 16, options.quick, options.seed)[0], 16, options.seed
        )
    show(found)
    claims = compare(found) if {"by hand", "fixed"} <= set(options.ways) else {}
    for name, value in claims.items():
        print(f"{name}: {value:.1f} %" if np.isfinite(value) else f"{name}: not reached")
    figure = (options.json or Path("genki_frontier.json")).with_suffix(".png")
    if options.json is not None:
        plain = {name: value if np.isfinite(value) else None for name, value in claims.items()}
        write_json(options.json, {"claims": plain, "releases": [asdict(one) for one in found]})
    draw(found, figure)
    print(f"figure: {figure}")


def arguments() -> argparse.Namespace:
    """The options of every experiment, and those of this one."""
    own = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS)
    own.add_argument(
        "--ways", nargs="+", choices=WAYS, default=list(WAYS), help="leave other ways to hide out"
    )
    mine, rest = own.parse_known_args()
    options = parse_arguments(
        f"{__doc__}\n{own.format_help().replace('options:', 'more options:')}", rest
    )
    options.ways = mine.ways
    return options


def ours(faces: Faces, judge: Judge, quick: bool, seed: int) -> Iterator[Judged]:
    """Plans at several shares kept, by redaction and by noise."""
    ways: tuple[Literal["redact", "gaussian"], ...] = (
        ("redact",) if quick else ("redact", "gaussian")
    )
    for mechanism in ways:
        start = monotonic()
        lam = None if mechanism == "redact" else 1.0
        tide = TIDE(PATCH, progress=False, random_state=seed)
        fitted = Obfuscator(
            tide,
            "fixed",
            mechanism,
            kept=0.7,
            lam=lam,
            settings=EDGES,
            progress=False,
            random_state=seed,
        ).fit(faces.part(True), faces.s[faces.train])
        plan = fitted.policy_
        if not isinstance(plan, FixedPatches):
            raise LowtideError("a fixed policy was expected")
        print(f"fixed, {mechanism}: {monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        for kept in KEPT[3::3] if quick or lam is not None else KEPT:
            at = plan.at(kept)
            yield judge.judge(
                f"fixed, {mechanism}",
                f"keep {kept:.0%}",
                hide(faces, at.grid, at.hidden, seed, lam),
                at.kept,
            )


def step_by_step(faces: Faces, judge: Judge, seed: int) -> Iterator[Judged]:
    """Patch by patch, given what each image has already disclosed."""
    start = monotonic()
    fitted = Obfuscator(
        TIDE(SEQUENTIAL, progress=False, random_state=seed),
        "sequential",
        "redact",
        epsilon=EPSILONS[0],
        settings=EDGES,
        progress=False,
        random_state=seed,
    ).fit(faces.part(True), faces.s[faces.train])
    policy = fitted.policy_
    if not isinstance(policy, SequentialPatches):
        raise LowtideError("a sequential policy was expected")
    print(f"sequential: {monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    grid = policy.mechanism.grid
    for epsilon in EPSILONS:
        flags = all_flags(faces.images, replace(policy, epsilon=epsilon))
        yield judge.judge(
            "sequential",
            f"{SEQUENTIAL} px, ε = {epsilon}",
            hide(faces, grid, flags, seed, None),
            kept_by(grid, flags),
        )


def by_hand(faces: Faces, judge: Judge, quick: bool, seed: int) -> Iterator[Judged]:
    """What people do without a method."""
    ways: list[tuple[Any, Sequence[float]]] = [
        (LowerRedacted(), (0.5,) if quick else (0.3, 0.5)),
        (LowerNoise(seed=seed), (1.0,)),
        (WholeNoise(seed=seed), () if quick else (0.5, 2.0)),
        (Blur(), () if quick else (2.0, 6.0)),
        (Pixelation(), () if quick else (16,)),
    ]
    for rival, strengths in ways:
        for strength in strengths:
            released = rival.fit(faces.part(True), strength=strength).apply(faces.images)
            yield judge.judge(
                rival.name, f"strength {strength:g}", released.stack(), released.untouched
            )


def compare(found: Sequence[Judged]) -> dict[str, float]:
    """The fixed policy by redaction held against hiding the lower half."""
    half = next(
        one for one in found if one.method == LowerRedacted.name and abs(one.kept - 0.5) < 0.01
    )
    plan = sorted((one for one in found if one.method == "fixed, redact"), key=lambda one: one.kept)
    below = [one.kept for one in plan if one.retrained.right <= half.retrained.right]
    at_half = float(
        np.interp(0.5, [one.kept for one in plan], [one.retrained.right for one in plan])
    )
    return {
        "lower half redacted, the retrained attacker reads": half.retrained.right,
        "pixels that the fixed policy keeps at no more than that": 100 * max(below, default=np.nan),
        "fixed at 50 % kept, the retrained attacker reads": at_half,
        "points below the lower half there": half.retrained.right - at_half,
    }


def show(found: Sequence[Judged]) -> None:
    """Everything by what it keeps."""
    print_table(
        "What a retrained attacker reads of the smile, in %, against the pixels kept",
        ["way to hide", "setting", "kept", "retrained", "interval", "which", "fixed", "bits"],
        [
            (
                o.method,
                o.setting,
                o.kept,
                r.right,
                f"[{r.low:.1f}, {r.high:.1f}]",
                r.attacker,
                o.fixed,
                r.bits,
            )
            for o, r in (
                (one, one.retrained)
                for one in sorted(found, key=lambda one: (one.method, -one.kept))
            )
        ],
    )


def draw(found: Sequence[Judged], path: Path) -> None:
    """Accuracy against pixels kept."""
    curves = {
        method: Series(
            [one.kept for one in found if one.method == method],
            [one.retrained.right for one in found if one.method == method],
            ours=method.startswith("fixed"),
        )
        for method in dict.fromkeys(one.method for one in found if one.method != "clean")
    }
    plot_frontiers(
        {"GENKI-4K": curves},
        path,
        horizontal="share of pixels kept",
        vertical="strongest retrained attacker, % right",
        title="What is left of the smile",
    )


if __name__ == "__main__":
    main()
