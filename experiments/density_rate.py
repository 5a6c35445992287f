"""How fast the error of TIDE falls with the number of samples, beside the rate of the paper (Thm 4
and Thm 5).

Three worlds: Gaussian classes, whose density is smooth; a law on 16 rows of four bits, which can be
listed; and an exclusive or of signs with flips, whose density jumps, so that it is outside the
continuous functions of Theorem 4. For each number of samples and each seed, TIDE() is fitted
afresh. Errors are |estimate − truth|, both clipped to ±3 nats: their mean over rows and classes as
the law weighs them, and the largest of all rows and classes, which the theorems are about. The 16
rows are all looked at; of the other worlds 10,000 fresh rows. Then the slope of log error against
log n, with a 95 % interval from a bootstrap over seeds, and the error that the formula of Theorem 5
states for so many rows.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch

from lowtide import TIDE, worlds
from lowtide.estimate.masking import Shape
from lowtide.estimate.training import initial_weights
from lowtide.interface import Estimate
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.theory.sample_size import tide, tide_error
from lowtide.types import Floats
from lowtide.worlds import EnumerableWorld, FiniteWorld
from plots import Rate, plot_rates

World = FiniteWorld[Floats]
TRIM = 3.0
TEST = 10_000
BOOTSTRAP = 4000
_SIZES = (256, 800, 2600, 8200)
_SEEDS = 5
_QUICK_SIZES = (128, 512, 2048)
_QUICK_SEEDS = 2
_BITS = 4
MEAN = "mean error"
LARGEST = "largest error"


def listed_bits() -> EnumerableWorld:
    """A fair bit and four others: their log-odds are sums over the bits and over neighbouring
    pairs, with fixed signs.

    No row settles the secret, so every density is finite and lies within the trim.
    """
    atoms = np.array(list(product((0.0, 1.0), repeat=_BITS)))
    signs = 2 * atoms - 1
    odds = signs @ np.array([0.6, -0.4, 0.3, 0.0]) + (signs[:, :-1] * signs[:, 1:]) @ np.array(
        [0.5, 0.0, -0.5]
    )
    chance = 1 / (1 + np.exp(-odds))
    return EnumerableWorld(atoms, np.stack([1 - chance, chance]) / len(atoms))


def laws() -> dict[str, World]:
    """The worlds, by name."""
    return {
        "Gaussian classes, 3 of 10": worlds.shifted_gaussian(2, dimension=10, moved=3),
        "four bits": listed_bits(),
        "XOR of signs, 10 % flips": worlds.gaussian_xor(2),
    }


@dataclass(frozen=True)
class Slope:
    """What was measured on one world.

    Attributes:
        law: its name.
        parameters: weights of one of the networks of TIDE, d of Theorem 5.
        errors: by the name of the error, (sizes, seeds).
        slopes: by the name of the error, of its logarithm against log n.
        stated: (sizes,) the error that the formula of Theorem 5 states.
        stated_slope: of its logarithm.
        vacuous_below: the fewest samples for which the formula states an error of at most 2M.
    """

    law: str
    parameters: int
    errors: dict[str, list[list[float]]]
    slopes: dict[str, Estimate]
    stated: list[float]
    stated_slope: float
    vacuous_below: int


def errors_of(world: World, n: int, seed: int) -> tuple[float, float]:
    """The mean and the largest |estimate − truth| of a fit to n rows, which is to fall to 0 (paper,
    Thm 4).
    """
    found = TIDE(trim=TRIM, random_state=seed).fit(*world.sample(n, seed))
    if isinstance(world, EnumerableWorld):
        rows = world.atoms
        weights = world.joint.sum(axis=0)
    else:
        rows = world.sample(TEST, 10_000 + seed).x
        weights = np.full(TEST, 1 / TEST)
    truth = np.clip(world.density(rows), -TRIM, TRIM)
    gaps = np.abs(found.density(rows) - truth)
    joint = weights[:, None] * world.posterior(rows)
    return float((gaps * joint).sum()), float(gaps.max())


def slope(sizes: Floats, errors: Floats, seed: int) -> Estimate:
    """The least-squares slope of the log of the mean error (sizes, seeds) against log n,
    bootstrapped over seeds.
    """
    rng = np.random.default_rng(seed)
    seeds = errors.shape[1]
    drawn = rng.integers(seeds, size=(BOOTSTRAP, seeds))
    means = np.log(np.column_stack([errors.mean(axis=1), errors[:, drawn].mean(axis=2)]))
    found = np.polyfit(np.log(sizes), means, 1)[0]
    low, high = np.quantile(found[1:], [0.025, 0.975])
    return Estimate(float(found[0]), float(low), float(high), errors.size)


def weights_of(world: World) -> int:
    """How many weights one network of TIDE has for such rows."""
    groups = torch.from_numpy(world.features.groups)
    start = initial_weights(1, groups, len(world.prior), Shape(), torch.Generator())
    return sum(value.numel() for value in start.values())


def measure(name: str, world: World, sizes: tuple[int, ...], seeds: range) -> Slope:
    """Fit, compare, and take the slopes: that of the errors, and the stated one (paper, Thm 5)."""
    found = np.empty((2, len(sizes), len(seeds)))
    for k, n in enumerate(sizes):
        for j, seed in enumerate(seeds):
            found[:, k, j] = errors_of(world, n, seed)
        print(
            f"  {name:28s} n = {n:6d}: mean {found[0, k].mean():.4f}, largest"
            f" {found[1, k].mean():.4f}",
            flush=True,
        )
    both = dict(zip((MEAN, LARGEST), found, strict=True))
    parameters = weights_of(world)
    logs = np.log(sizes)
    stated = [tide_error(n, parameters=parameters, trim=TRIM) for n in sizes]
    return Slope(
        name,
        parameters,
        {which: errors.tolist() for which, errors in both.items()},
        {
            which: slope(np.array(sizes, dtype=float), errors, seeds.start)
            for which, errors in both.items()
        },
        stated,
        float(np.polyfit(logs, np.log(stated), 1)[0]),
        tide(2 * TRIM, parameters=parameters, trim=TRIM),
    )


def show(rows: list[Slope], sizes: tuple[int, ...], seeds: int) -> None:
    """Print the errors and the slopes."""
    errors = [
        [row.law, which, *(float(np.mean(some)) for some in row.errors[which])]
        for row in rows
        for which in (MEAN, LARGEST)
    ]
    stated = [[row.law, "Theorem 5", *row.stated] for row in rows]
    print_table(
        f"Errors in nats, averaged over {seeds} seeds",
        ["law", "", *map(str, sizes)],
        [*errors, *stated],
    )
    slopes = [
        [
            row.law,
            *(
                f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"
                for found in row.slopes.values()
            ),
            row.stated_slope,
            row.parameters,
            row.vacuous_below,
        ]
        for row in rows
    ]
    columns = [
        "law",
        f"slope, {MEAN}",
        f"slope, {LARGEST}",
        "slope, Theorem 5",
        "weights d",
        "vacuous below n",
    ]
    print_table(
        "Slope of log error against log n, with its 95 % interval over seeds", columns, slopes
    )


def draw(rows: list[Slope], sizes: tuple[int, ...], path: Path) -> None:
    """The figure: measured errors and the theorem's, a panel for each world."""
    panels = {
        row.law: {
            **{which: Rate(sizes, row.errors[which]) for which in (MEAN, LARGEST)},
            "η(n) of Theorem 5": Rate(sizes, [[value] for value in row.stated], measured=False),
            "2M: nothing stated above": Rate(sizes, [[2 * TRIM]] * len(sizes), measured=False),
        }
        for row in rows
    }
    plot_rates(
        panels,
        path,
        horizontal="samples n",
        vertical="error in nats",
        title="Error of TIDE against samples",
    )


def main() -> None:
    """Print the tables, draw the figure."""
    options = parse_arguments(__doc__ or "")
    warnings.simplefilter("ignore")
    sizes = _QUICK_SIZES if options.quick else _SIZES
    seeds = range(options.seed, options.seed + (_QUICK_SEEDS if options.quick else _SEEDS))
    rows = [measure(name, world, sizes, seeds) for name, world in laws().items()]
    show(rows, sizes, len(seeds))
    figure = (options.json or Path("density_rate.json")).with_suffix(".png")
    draw(rows, sizes, figure)
    print(f"figure: {figure}")
    if options.json:
        write_json(options.json, {"sizes": sizes, "laws": [asdict(row) for row in rows]})


if __name__ == "__main__":
    main()
