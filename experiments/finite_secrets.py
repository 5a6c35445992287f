"""TIDE on finite secrets: error against exact densities, and how often its intervals hold.

Seven laws, 2,000 training rows each, the same TIDE() call; the error is the mean of |estimate −
truth| at the true class over 5,000 fresh rows, both clipped to ±3: for whole rows, random subsets
of the features, and random prefixes. Then the two laws of raw bits, and the share of repetitions in
which the 95 % interval of the information holds the truth.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass

import numpy as np

from lowtide import TIDE, worlds
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.types import Floats, Ints
from lowtide.worlds import FiniteWorld
from peers.estimators import Classifier, Neighbours

World = FiniteWorld[Floats]
TRIM = 3.0
TRAIN = 2000
TEST = 5000


@dataclass(frozen=True)
class Row:
    """Errors on one law, averaged over seeds."""

    law: str
    zero: float
    trees: float
    neighbours: float
    tide: float
    subsets: float
    prefixes: float
    seconds: float


def laws() -> dict[str, World]:
    """The seven laws."""
    return {
        "shift 1, d=1": worlds.shifted_gaussian(2),
        "shift 1, 3 of 10": worlds.shifted_gaussian(2, dimension=10, moved=3),
        "shift 1, 3 of 10, 20/80": worlds.shifted_gaussian(
            2, dimension=10, moved=3, prior=[0.8, 0.2]
        ),
        "shift .3, 3 of 10": worlds.shifted_gaussian(2, dimension=10, moved=3, shift=0.3),
        "independent, d=10": worlds.shifted_gaussian(2, dimension=10, moved=0),
        "XOR, 10 % flips, d=2": worlds.gaussian_xor(2),
        "XOR, 10 % flips, d=10": worlds.gaussian_xor(10),
    }


def error(estimate: Floats, truth: Floats, s: Ints) -> float:
    """Mean |estimate − truth| at the true class, both trimmed."""
    at = np.arange(len(s)), s
    return float(
        np.abs(np.clip(estimate[at], -TRIM, TRIM) - np.clip(truth[at], -TRIM, TRIM)).mean()
    )


def measure(name: str, world: World, seeds: range) -> Row:
    """Fit and compare, for each seed."""
    found = []
    for seed in seeds:
        x, s = world.sample(TRAIN, seed)
        fresh, secret = world.sample(TEST, 10_000 + seed)
        truth = world.density(fresh)
        m = len(world.features)
        start = time.perf_counter()
        tide = TIDE(random_state=seed).fit(x, s)
        seconds = time.perf_counter() - start
        rng = np.random.default_rng(seed)
        subset = rng.random((TEST, m)) < rng.random((TEST, 1))
        prefix = np.arange(m) < rng.integers(1, m + 1, TEST)[:, None]
        rivals = [
            error(rival.fit(x, s).density(fresh), truth, secret)
            for rival in (Classifier(trim=TRIM), Neighbours(trim=TRIM))
        ]
        partial = [
            error(tide.observed(fresh, seen), world.observed(fresh, seen), secret)
            for seen in (subset, prefix)
        ]
        own = error(tide.density(fresh), truth, secret)
        found.append([error(np.zeros_like(truth), truth, secret), *rivals, own, *partial, seconds])
    return Row(name, *map(float, np.mean(found, axis=0)))


def bits(m: int, seed: int) -> float:
    """The worst error of any conditional density of the parity of m raw bits."""
    world = worlds.parity(m)
    tide = TIDE(random_state=seed).fit(*world.sample(TRAIN, seed))
    truth = np.clip(world.conditionals(world.atoms), -TRIM, TRIM)
    return float(np.abs(np.asarray(tide.conditionals(world.atoms)) - truth).max())


def coverage(world: World, repetitions: int, seed: int) -> float:
    """How often the interval from 1,000 held-out rows holds the true information."""
    hits = 0
    for k in range(repetitions):
        tide = TIDE(random_state=seed + k).fit(*world.sample(TRAIN, seed + k))
        estimate = tide.information(*world.sample(1000, 50_000 + seed + k))
        hits += estimate.low <= world.information() <= estimate.high
    return hits / repetitions


def main() -> None:
    """Print the tables."""
    options = parse_arguments(__doc__ or "")
    warnings.simplefilter("ignore")
    seeds = range(options.seed, options.seed + (1 if options.quick else 5))
    rows = []
    for name, world in laws().items():
        rows.append(measure(name, world, seeds))
        print(f"  {name:26s} {rows[-1].tide:.3f}", flush=True)
    fields = ("zero", "trees", "neighbours", "tide", "subsets", "prefixes", "seconds")
    mean = [
        "mean of 7",
        *(float(np.mean([getattr(row, field) for row in rows])) for field in fields),
    ]
    columns = [
        "law",
        "g = 0",
        "boosted trees",
        "neighbours",
        "TIDE",
        "TIDE, subsets",
        "TIDE, prefixes",
        "s a fit",
    ]
    print_table(
        "Error of the density", columns, [*(list(asdict(row).values()) for row in rows), mean]
    )
    parity = {m: bits(m, options.seed) for m in (2, 3)}
    print_table(
        "Worst error of a conditional density, raw bits",
        ["parity of", "error"],
        [[str(m), e] for m, e in parity.items()],
    )
    repetitions = 5 if options.quick else 100
    covered = {
        name: coverage(laws()[name], repetitions, options.seed)
        for name in ("shift 1, 3 of 10", "shift 1, 3 of 10, 20/80")
    }
    print_table(
        f"Share of {repetitions} repetitions in which the 95 % interval holds the true information",
        ["law", "share"],
        list(covered.items()),
    )
    if options.json:
        results = {"laws": [asdict(row) for row in rows], "parity": parity, "coverage": covered}
        write_json(options.json, results)


if __name__ == "__main__":
    main()
