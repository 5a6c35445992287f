"""Is the estimated leakage of a release right? Fifty releases of worlds whose exact leakage is
known.

Each run fits an Obfuscator on 2,000 rows, takes what it hides of every possible row, and computes
the exact information of that release. A run is right when the estimate is within 0.02 nat of it, or
its interval covers it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product

import numpy as np

from lowtide import TIDE, Obfuscator, worlds
from lowtide.disclose.certificate import PolicyName
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.worlds import EnumerableWorld

_CLOSE = 0.02
_BUDGETS = (0.02, 0.05, 0.1, 0.2, 0.35)


@dataclass(frozen=True)
class Run:
    """One release."""

    world: str
    policy: str
    budget: float
    hidden: float
    exact: float
    estimate: float
    low: float
    high: float

    @property
    def right(self) -> bool:
        """Whether the estimate is close, or its interval covers the truth."""
        return abs(self.estimate - self.exact) <= _CLOSE or self.low <= self.exact <= self.high


def laws() -> dict[str, EnumerableWorld]:
    """Worlds with finitely many rows."""
    return {
        "redundant_bit(3)": worlds.redundant_bit(3),
        "redundant_bit(4, flip=0.2)": worlds.redundant_bit(4, flip=0.2),
        "redundant_bit(5, flip=0.35)": worlds.redundant_bit(5, flip=0.35),
        "rare_value(0.3)": worlds.rare_value(0.3),
        "parity(3)": worlds.parity(3),
    }


def release(
    name: str, world: EnumerableWorld, policy: PolicyName, budget: float, seed: int, steps: int
) -> Run:
    """Fit, hide, and compare with the exact law."""
    x, s = world.sample(2000, seed=seed)
    tide = TIDE(max_steps=steps, random_state=seed, progress=False)
    fitted = Obfuscator(tide, policy, budget=budget, progress=False, random_state=seed).fit(x, s)
    hidden = fitted.flags(world.atoms)
    leakage = fitted.check_.measured
    share = float((world.joint.sum(axis=0)[:, None] * hidden).sum() / hidden.shape[1])
    exact = world.release(hidden).information()
    return Run(name, policy, budget, share, exact, leakage.value, leakage.low, leakage.high)


def main() -> None:
    """Run all releases and count."""
    options = parse_arguments(__doc__ or "")
    policies: tuple[PolicyName, ...] = ("fixed", "sequential")
    seeds, steps = (1, 160) if options.quick else (len(_BUDGETS), 600)
    runs = [
        release(name, world, policy, _BUDGETS[k % len(_BUDGETS)], options.seed + k, steps)
        for (name, world), policy, k in product(laws().items(), policies, range(seeds))
    ]
    print_table(
        "Estimated against exact leakage of a release, in nats",
        ["world", "policy", "budget", "hidden", "exact", "estimate", "interval", "right"],
        [
            (
                r.world,
                r.policy,
                r.budget,
                r.hidden,
                r.exact,
                r.estimate,
                f"[{r.low:.4f}, {r.high:.4f}]",
                r.right,
            )
            for r in runs
        ],
        note=(
            f"{sum(r.right for r in runs)} of {len(runs)} right; largest error"
            f" {max(abs(r.estimate - r.exact) for r in runs):.4f} nat; exact leakage above its"
            f" budget in {sum(r.exact > r.budget for r in runs)} runs, by at most"
            f" {max(0.0, *(r.exact - r.budget for r in runs)):.4f} nat."
        ),
    )
    if options.json:
        right = float(np.mean([r.right for r in runs]))
        write_json(
            options.json,
            {"share_right": right, "runs": [{**asdict(r), "right": r.right} for r in runs]},
        )


if __name__ == "__main__":
    main()
