"""Speed of the closed forms, as ratios measured in one run."""

from __future__ import annotations

import dp_accounting
import numpy as np
from scipy.stats import norm

from lowtide import worlds
from lowtide.report.console import parse_arguments, print_table, shortest, write_json
from lowtide.theory import calibration, hockey_stick


def theta_against_textbook(n: int, rng: np.random.Generator) -> float:
    """θ without cancellation against the two-term formula as printed."""
    gamma = np.exp(rng.uniform(0, 5, n))
    ratio = rng.uniform(0.1, 5, n)

    def textbook() -> object:
        a = np.log(gamma) / ratio
        return norm.sf(a - ratio / 2) - gamma * norm.sf(a + ratio / 2)

    return shortest(lambda: hockey_stick.gaussian(gamma, ratio, 1.0)) / shortest(textbook)


def calibration_against_dp_accounting(n: int, rng: np.random.Generator) -> float:
    """n noise scales at once against dp-accounting one by one."""
    epsilon = rng.uniform(0.1, 5, n)
    delta = 10 ** rng.uniform(-9, -1, n)

    def theirs() -> object:
        return [dp_accounting.get_sigma_gaussian(e, d) for e, d in zip(epsilon, delta, strict=True)]

    return shortest(lambda: calibration.scale_for(epsilon, delta, 1.0), 3) / shortest(theirs, 1)


def prefixes_against_subsets(rows: int, seed: int) -> float:
    """All prefixes of a drawn face in one pass against one question per prefix."""
    world = worlds.drawn_faces(32, patch=4)
    x, _ = world.sample(rows, seed)
    m = len(world.features)

    def one_by_one() -> object:
        return [world.observed(x, np.arange(m) < j) for j in range(m + 1)]

    return shortest(lambda: world.prefixes(x), 3) / shortest(one_by_one, 1)


def main() -> None:
    """Print the ratios."""
    options = parse_arguments(__doc__ or "")
    rng = np.random.default_rng(options.seed)
    small = options.quick
    ratios = {
        "θ in the log domain / textbook formula": theta_against_textbook(
            10_000 if small else 200_000, rng
        ),
        "scale_for, vectorised / dp-accounting, one by one": calibration_against_dp_accounting(
            20 if small else 200, rng
        ),
        "prefixes of a world / one question per prefix": prefixes_against_subsets(
            8 if small else 64, options.seed
        ),
    }
    print_table("Time ratios (below 1: ours is faster)", ["what", "ratio"], list(ratios.items()))
    if options.json:
        write_json(options.json, {"ratios": ratios})


if __name__ == "__main__":
    main()
