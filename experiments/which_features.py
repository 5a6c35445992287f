"""Which features leak: TIDE's answer beside the exact one, on a world where it is known.

Six correlated columns, three of which shift with a secret bit. For each feature the table shows
what it adds to the ones before it, and its order-free share, averaged over 500 fresh rows at their
true secret: estimated and exact.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from lowtide import TIDE, worlds
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.types import Floats, Ints
from lowtide.worlds import ShiftedGaussian

NAMES = ("age", "income", "commute", "height", "pets", "shoe size")


def exact_shares(world: ShiftedGaussian, x: Floats, s: Ints, orders: int, seed: int) -> Floats:
    """Mean Shapley value of each feature at the true secret, over random orders (all of them when
    there are few).
    """
    m = len(world.features)
    every = list(permutations(range(m)))
    chosen = np.random.default_rng(seed).permutation(len(every))[:orders]
    total = np.zeros(m)
    at = (np.arange(len(s)), s)
    for order in (every[k] for k in chosen):
        mask = np.zeros(m, dtype=bool)
        before = np.zeros(len(s))
        for j in order:
            mask[j] = True
            after = world.observed(x, mask)[at]
            total[j] += (after - before).mean()
            before = after
    return total / len(chosen)


def main() -> None:
    """Fit and print."""
    options = parse_arguments(__doc__ or "")
    world = worlds.shifted_gaussian(2, 0.4, dimension=6, moved=3)
    x, s = world.sample(500 if options.quick else 2000, options.seed)
    tide = TIDE(random_state=options.seed).fit(x, s)
    fresh, secret = world.sample(500, options.seed + 1)
    at = np.arange(len(secret)), slice(None), secret
    adds = np.asarray(tide.conditionals(fresh))[at].mean(axis=0)
    shares = tide.shapley(fresh).values[at].mean(axis=0)
    truth = world.conditionals(fresh)[at].mean(axis=0)
    order_free = exact_shares(world, fresh, secret, 60, options.seed)
    rows = [
        (*row,)
        for row in zip(
            NAMES,
            map(float, adds),
            map(float, truth),
            map(float, shares),
            map(float, order_free),
            strict=True,
        )
    ]
    held_out = tide.information(fresh, secret)
    print_table(
        "Which features leak, in nats",
        ["feature", "adds (TIDE)", "adds (exact)", "order-free (TIDE)", "order-free (exact)"],
        rows,
        note=(
            f"Held-out information {held_out} nat = {held_out.bits} bits; exact"
            f" {world.information():.4f} nat."
        ),
    )
    if options.json:
        write_json(
            options.json, {"rows": rows, "held_out": vars(held_out), "exact": world.information()}
        )


if __name__ == "__main__":
    main()
