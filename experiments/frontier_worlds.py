"""What an attacker is left with against what is kept, for our policies and every rival, on three
worlds.

Each way to hide learns from reference rows; fresh rows are then released and attacked by all
retrained attackers. The figure shows the strongest attacker's bits against the share of values that
are kept as they were. Erasers that move every cell a little keep none of them: their distortion
stands in the table and in the JSON.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from lowtide import TIDE, Obfuscator, worlds
from lowtide.attack.panel import attack
from lowtide.auditing.utility import column_rms, overall_rms
from lowtide.interface import World
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.tables.policies import FixedColumns
from lowtide.types import Floats, Ints
from peers.erasers import CorrelationRemover, Leace
from peers.hiders import MutualInformation, RandomFeatures, Rival, UniformNoise
from plots import Series, plot_frontiers

Way = tuple[str, str, Floats, float]
"""A way to hide, its setting, the fresh rows as it releases them, and the share of values it keeps
as they were.
"""

OURS = ("fixed", "sequential")
PAPER = "the paper's rule"
RIVALS = ("uniform noise", "random features", "mutual information", "correlation remover", "LEACE")
_NOISE = 0.015  # bits that an attack on fresh rows may be off by chance


@dataclass(frozen=True)
class Release:
    """One released sample, judged."""

    method: str
    setting: str
    kept: float
    distortion: float
    bits: float
    low: float
    high: float
    accuracy: float
    attacker: str


@dataclass(frozen=True)
class Rows:
    """Reference rows to learn from, fresh rows to release."""

    x: Floats
    s: Ints
    fresh: Floats
    secrets: Ints
    seed: int


def laws() -> dict[str, World[Floats]]:
    """Three worlds: correlated copies of a signal, a pure interaction, a survey of noisy and
    neutral bits.
    """
    covariance = np.eye(8)
    covariance[:3, :3] = 0.8 + 0.2 * np.eye(3)
    bits = worlds.redundant_bit(4, flip=0.25)
    neutral = np.array(np.meshgrid(*[[0.0, 1.0]] * 4)).reshape(4, -1).T
    atoms = np.array([[*atom, *extra] for atom in bits.atoms for extra in neutral])
    survey = worlds.EnumerableWorld(
        atoms, np.repeat(bits.joint, len(neutral), axis=1) / len(neutral)
    )
    return {
        "correlated copies (Gaussian)": worlds.shifted_gaussian(
            2, covariance, dimension=8, moved=3, shift=1.5
        ),
        "interaction (XOR of two signs)": worlds.gaussian_xor(8),
        "survey of bits (noisy copies)": survey,
    }


def judge(method: str, setting: str, rows: Rows, released: Floats, kept: float) -> Release:
    """Attack released fresh rows."""
    report = attack(released, rows.secrets, seed=rows.seed, progress=False)
    best = max(report.retrained, key=lambda found: found.information.value)
    bits = best.information.bits
    return Release(
        method,
        setting,
        kept,
        overall_rms(column_rms(rows.fresh, released)),
        bits.value,
        bits.low,
        bits.high,
        best.accuracy.value,
        best.attacker,
    )


def ours(rows: Rows, quick: bool) -> Iterator[Way]:
    """Releases of our policies, and of the paper's."""
    steps = 200 if quick else 600
    ids = np.arange(len(rows.fresh))
    tide = partial(TIDE, max_steps=steps, progress=False, random_state=rows.seed)
    fixed = Obfuscator(tide(), "fixed", budget=0.005, progress=False).fit(rows.x, rows.s)
    if not isinstance(fixed.policy_, FixedColumns):
        raise TypeError("a fixed policy was asked for")
    for hidden in (*(point.hidden for point in fixed.policy_.curve), fixed.policy_.hidden):
        yield (
            "fixed",
            f"{hidden.sum()} hidden",
            np.where(hidden, 0.0, rows.fresh),
            float((~hidden).mean()),
        )
    for budget in (0.01, 0.1) if quick else (0.003, 0.03, 0.12, 0.2):
        policy = Obfuscator(tide(), "sequential", budget=budget, progress=False).fit(rows.x, rows.s)
        kept = float((~policy.flags(rows.fresh)).mean())
        yield "sequential", f"budget {budget:g} nat", policy.transform(rows.fresh), kept
    for epsilon in (0.2,) if quick else (0.05, 0.2, 0.5):
        policy = Obfuscator(
            tide(), "sequential", "gaussian", past="raw", epsilon=epsilon, lam=1.0, progress=False
        )
        policy.fit(rows.x, rows.s)
        released = policy.transform(rows.fresh, ids=ids)
        yield (
            PAPER,
            f"ε = {epsilon:g}",
            released,
            float((~policy.flags(rows.fresh, ids=ids)).mean()),
        )


def rivals(rows: Rows, quick: bool) -> Iterator[Way]:
    """Releases of the rivals."""
    columns = rows.x.shape[1]
    counts = (2, 4) if quick else tuple(range(1, columns, 2))
    settings: list[tuple[Rival, tuple[float, ...]]] = [
        (UniformNoise(seed=rows.seed), (0.3,) if quick else (0.1, 0.3, 1.0)),
        (RandomFeatures(seed=rows.seed), counts),
        (MutualInformation(seed=rows.seed), counts),
        (CorrelationRemover(), (1.0,)),
        (Leace(), (1.0,)),
    ]
    for rival, strengths in settings:
        for strength in strengths:
            fitted = rival.fit(rows.x, rows.s, strength=strength)
            released = fitted.apply(rows.fresh, rows.secrets)
            yield rival.name, f"strength {strength:g}", released.rows, released.kept


def shortfall(releases: list[Release], others: Collection[str]) -> float:
    """By how many bits some others lie below our frontier at the worst place: 0 when it is on or
    outside all of them.

    Two policies can be mixed, each row by one of them at random: that keeps and tells what lies
    between. So our frontier is the lower convex hull of our points, nothing kept and nothing told
    among them.
    """
    points = sorted([(0.0, 0.0), *((r.kept, r.bits) for r in releases if r.method in OURS)])
    hull: list[tuple[float, float]] = []
    for x, y in points:
        while len(hull) > 1 and _turns_up(hull[-2], hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
    kept, bits = zip(*hull, strict=True)
    # Above everything we kept there is nothing to compare; hiding more of a release never tells
    # more.
    best = np.minimum.accumulate(np.array(bits)[::-1])[::-1]
    gaps = [float(np.interp(r.kept, kept, best)) - r.bits for r in releases if r.method in others]
    return max(0.0, *gaps)


def _turns_up(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b lies on or above the line from a to c, and so is no corner of the lower hull."""
    return (b[0] - a[0]) * (c[1] - a[1]) <= (c[0] - a[0]) * (b[1] - a[1])


def run(name: str, world: World[Floats], seed: int, quick: bool) -> list[Release]:
    """All releases of one world."""
    n = 1000 if quick else 4000
    rows = Rows(*world.sample(n, seed=seed), *world.sample(2 * n, seed=seed + 1_000_000), seed)
    ways = (*ours(rows, quick), *rivals(rows, quick))
    releases = [
        judge(method, setting, rows, released, kept) for method, setting, released, kept in ways
    ]
    print_table(
        f"{name}: {world.information() / np.log(2):.3f} bits before hiding",
        [
            "way to hide",
            "setting",
            "kept",
            "distortion",
            "bits left, interval",
            "accuracy",
            "best attacker",
        ],
        [
            (
                r.method,
                r.setting,
                r.kept,
                r.distortion,
                f"{r.bits:.3f} [{r.low:.3f}, {r.high:.3f}]",
                r.accuracy,
                r.attacker,
            )
            for r in releases
        ],
        note=(
            f"At the worst place our frontier lies {shortfall(releases, RIVALS):.4f} bits above a"
            f" rival's point, and {shortfall(releases, [PAPER]):.4f} above one of the paper's rule."
        ),
    )
    return releases


def main() -> None:
    """Run the three worlds, print their tables, draw the figure."""
    options = parse_arguments(__doc__ or "")
    found = {name: run(name, world, options.seed, options.quick) for name, world in laws().items()}
    panels = {
        name: {
            method: Series(
                [r.kept for r in releases if r.method == method],
                [r.bits for r in releases if r.method == method],
                ours=method in OURS,
            )
            for method in dict.fromkeys(r.method for r in releases)
        }
        for name, releases in found.items()
    }
    figure = (options.json or Path("frontier_worlds.json")).with_suffix(".png")
    plot_frontiers(
        panels,
        figure,
        horizontal="share of values kept",
        vertical="bits the strongest retrained attacker learns",
        title="What is left for an attacker, against what is kept",
    )
    print(f"figure: {figure}")
    if options.json:
        worst = {name: shortfall(releases, RIVALS) for name, releases in found.items()}
        summary = {
            "worst_gap_bits": worst,
            "on_or_outside": {name: gap <= _NOISE for name, gap in worst.items()},
            "worst_gap_bits_of_the_papers_rule": {
                name: shortfall(r, [PAPER]) for name, r in found.items()
            },
        }
        write_json(
            options.json,
            {
                **summary,
                "releases": {
                    name: [asdict(r) for r in releases] for name, releases in found.items()
                },
            },
        )


if __name__ == "__main__":
    main()
