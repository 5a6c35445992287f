"""Redraw plans on laws whose rows can be listed: what a fitted plan really leaves, exactly.

Each law is drawn a few times; from so many rows a redraw plan is fitted, and the law of what it
releases of fresh rows is computed by enumeration, not sampled. Beside it stands what no estimate
from so many rows knows, half a free parameter of the columns per row, and the share of the cells
that a plan with the exact densities would change. With a budget the release has no law that can be
enumerated: a large release is drawn, and the highest density of a row that is seen often enough is
stated with its standard error.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass

import numpy as np

from exact_redraw import exact, fitted, sampled
from kept_budgets import Case, laws, table
from lowtide import worlds
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.types import Floats
from redrawn_laws import redraw

_ROWS = 2_000
_DRAWS = 3
_LIMIT = 0.005  # nats that a release may leave
_BUDGET = 0.2  # nats, of the plans with a budget
_SAMPLED = 100_000  # rows of a drawn release
_SEEN = 0.01  # share of these that an outcome must have to be judged, or that of an average one
_CLEARLY = 3.0  # standard errors


@dataclass(frozen=True)
class Result:
    """What was found of one law.

    Attributes:
        law: its name.
        clean: nats that the rows tell.
        left: nats that the release tells, for each draw of the reference rows.
        unknown: nats that the errors of a free estimate of the columns' own laws would leave.
        changed: the share of the cells that the release changes.
        needed: the same of a plan with the exact densities.
        moved: the sum over all steps of the share of the rows that a step changes.
        variation: the sum over all steps of the total variation between the laws before and after
            it.
        highest: with a budget, the highest density towards a class.
        error: its standard error.
        changed_with_budget: the share of the cells that the release with a budget changes.
    """

    law: str
    clean: float
    left: tuple[float, ...]
    unknown: float
    changed: float
    needed: float
    moved: float
    variation: float
    highest: float
    error: float
    changed_with_budget: float


def cases() -> dict[str, Case]:
    """All small laws: those of the library, and those on which kept budgets are measured."""
    own = {
        "XOR": worlds.xor(),
        "parity of 3": worlds.parity(3),
        "parity of 4": worlds.parity(4),
        "parity of 6": worlds.parity(6),
        "two copies": worlds.redundant_bit(2),
        "four noisy copies": worlds.redundant_bit(4, flip=0.25),
        "a rare value, 10 %": worlds.rare_value(0.1),
        "a rare value, 2 %": worlds.rare_value(0.02),
        "the secret itself": worlds.two_points(),
        "the secret itself, 10 %": worlds.two_points(0.1),
    }
    return {name: Case(world) for name, world in own.items()} | laws()


def judge(name: str, case: Case, seed: int, *, draws: int, rows: int) -> Result:
    """Fit plans to reference rows of a law, and compute what they release."""
    world = case.world
    atoms = table(case, world.atoms)
    found = []
    for draw in range(draws):
        x, s = world.sample(_ROWS, seed=seed + draw)
        found.append(exact(fitted(table(case, x), s, seed=seed + draw), world, atoms))
    x, s = world.sample(_ROWS, seed=seed)
    counts, changed = sampled(
        fitted(table(case, x), s, budget=_BUDGET, seed=seed), world, atoms, rows, seed
    )
    free = sum(len(np.unique(column)) - 1 for column in world.atoms.T) * (len(world.prior) - 1)
    return Result(
        name,
        world.information(),
        tuple(one.law.information() for one in found),
        free / (2 * _ROWS),
        float(np.mean([1 - one.kept.mean() for one in found])),
        float(redraw(world).changed.mean()),
        float(np.mean([one.changed.sum() for one in found])),
        float(np.mean([one.variation.sum() for one in found])),
        *highest(counts),
        changed,
    )


def highest(counts: Floats) -> tuple[float, float]:
    """The highest density towards a class among outcomes that are seen often, and its standard
    error.
    """
    prior = counts.sum(axis=1) / counts.sum()
    often = counts[:, counts.sum(axis=0) >= min(_SEEN, 1 / counts.shape[1]) * counts.sum()]
    posterior = often / often.sum(axis=0)
    with np.errstate(divide="ignore"):
        density = np.log(posterior / prior[:, None])
    s, y = np.unravel_index(int(np.argmax(density)), density.shape)
    return float(density[s, y]), float(np.sqrt((1 - posterior[s, y]) / often[s, y]))


def main() -> None:
    """Judge all laws."""
    options = parse_arguments(__doc__ or "")
    chosen = cases()
    if options.quick:
        chosen = {name: chosen[name] for name in ("XOR", "two copies", "a rare value, 10 %")}
    found = []
    for name, case in chosen.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            draws, rows = (1, 5_000) if options.quick else (_DRAWS, _SAMPLED)
            found.append(judge(name, case, options.seed, draws=draws, rows=rows))
        print(f"{name}: {found[-1].clean:.4f} → {max(found[-1].left):.4f} nat", flush=True)
    above = [one.law for one in found if max(one.left) > _LIMIT]
    beyond = [one.law for one in found if one.highest - _CLEARLY * one.error > _BUDGET]
    headings = [
        "law",
        "nats",
        "left: mean",
        "most",
        "unknown",
        "changed",
        "exact",
        "moved",
        "variation",
        "highest",
    ]
    print_table(
        f"Redraw plans of {_ROWS:,} rows, and the exact law of what they release",
        [*headings, "changed then"],
        [
            (
                one.law,
                f"{one.clean:.4f}",
                f"{np.mean(one.left):.4f}",
                f"{max(one.left):.4f}",
                f"{one.unknown:.4f}",
                f"{one.changed:.1%}",
                f"{one.needed:.1%}",
                f"{one.moved:.4f}",
                f"{one.variation:.4f}",
                f"{one.highest:.3f} ± {one.error:.3f}",
                f"{one.changed_with_budget:.1%}",
            )
            for one in found
        ],
        note=(
            f"Above {_LIMIT} nat: {', '.join(above) or 'none'}. Highest: density of a row, with a"
            f" budget of {_BUDGET} nat; clearly above it: {', '.join(beyond) or 'none'}."
        ),
    )
    if options.json:
        write_json(
            options.json, {"laws": [asdict(one) for one in found], "above": above, "beyond": beyond}
        )


if __name__ == "__main__":
    main()
