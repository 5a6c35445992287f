"""Do the figures of an audit hold? Audits of laws whose every measure is known exactly.

Rows of enumerable laws are audited as they are, again and again. For every measure of leakage: in
how many audits its interval holds the exact figure. For every lower bound: in how many audits it
lies above the exact figure, with the choice of the strongest attacker inside, and across all laws.
The laws are in four groups: those that the rule for intervals was chosen on, some that decided
between two rules for one kind of measure, fresh ones, and laws drawn at random, another one for
every audit; these are attacked by boosted trees, too, which cost ten times a single tree. How wide
the intervals are stands beside.
"""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom
from sklearn.tree import DecisionTreeClassifier

from kept_budgets import Case, independent, laws, table
from lowtide.attack.lower_bound import LowerBound, audit_divergence
from lowtide.attack.panel import AttackReport, attack
from lowtide.auditing.measures import measure
from lowtide.errors import LowtideError
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.theory.measures import Lifts
from lowtide.theory.shares import upper_limit
from lowtide.types import Floats
from lowtide.worlds.base import EnumerableWorld

_DESIGN = (  # the rule for intervals was chosen on these
    "eight copies, weak to strong",
    "a strong copy and three weak",
    "three classes, strong",
    "parity and a weak bit",
    "a class of 10 %",
)
_SECOND = (  # these have decided between two rules for shares of rows, and nothing else
    "six weak copies",
    "60 categories, weak",
    "60 categories, strong",
    "weak parity",
    "three classes, weak",
)
_NOTHING = "nothing to tell"
# Added to the seed, so that no rows are drawn twice.
_SEED = {"design": 0, "second": 1_000, "fresh": 20_000, "drawn": 40_000}
_LEAF = 20  # rows of a leaf of the tree
_RUNS = 50
_QUICK_RUNS = 2
_LAWS = 2  # times as many audits of drawn laws
# what it costs to miss the last class, and to say nothing; other wrong guesses cost 1
_MISSED = 5.0
_SILENT = 0.5
_ROWS = 2_000
_QUICK_ROWS = 500
_EPSILON = 0.1  # of the divergence
_ORDERS = (
    0.5,
    1.5,
    2.0,
    3.0,
    4.0,
    5.0,
    8.0,
    10.0,
    16.0,
    100.0,
)  # of Sibson's and Arimoto's information
_ROUNDING = 1e-9  # of exact figures: what a law does not tell is 0 up to that
_STATED = 0.05  # how often a lower bound may lie above
_FAILURE = 0.05  # of the upper limit of how often one does

Tally = dict[str, list[bool]]
Widths = dict[str, list[float]]


def fresh_laws() -> dict[str, Case]:
    """Laws that had no part in any choice."""
    rng = np.random.default_rng(77)
    grid = np.array(list(product(range(6), range(5))), dtype=np.float64)
    steps = np.arange(20.0)[:, None]
    trend = [binom.pmf(steps[:, 0], 19, share) for share in (0.4, 0.5)]
    bits = np.array(list(product((0.0, 1.0), repeat=3)))
    both = np.where(bits[:, 0] * bits[:, 1] > 0, 0.8, 0.35) * np.where(bits[:, 2] > 0, 1.1, 0.9)
    rare = independent(
        [np.array([[0.97, 0.03], [0.6, 0.4]]), np.array([[0.5, 0.5], [0.4, 0.6]])], [0.95, 0.05]
    )
    return {
        "four classes, any law": Case(
            EnumerableWorld(grid, rng.dirichlet(np.full(120, 1.0)).reshape(4, 30))
        ),
        "a number, shifted": Case(EnumerableWorld(steps, 0.5 * np.array(trend))),
        "both of two bits": Case(EnumerableWorld(bits, np.stack([1 - both, both]) / 8)),
        "a class of 5 %, one value": Case(rare),
    }


def drawn_law(seed: int) -> Case:
    """Two to four classes, two to four columns of two to five values; in half of the laws two
    columns act together.
    """
    rng = np.random.default_rng([seed, 4])
    classes = int(rng.integers(2, 5))
    values = rng.integers(2, 6, rng.integers(2, 5))
    spread = rng.uniform(0.1, 0.7)
    prior = 0.05 + (1 - 0.05 * classes) * rng.dirichlet(np.full(classes, 3.0))
    odds = [np.exp(spread * rng.standard_normal((classes, number))) for number in values]
    world = independent([one / one.sum(axis=1, keepdims=True) for one in odds], prior.tolist())
    if rng.random() < 1 / 2:
        together = np.exp(spread * rng.standard_normal((classes, *values[:2])))
        first, second = world.atoms[:, :2].astype(int).T
        joint = world.joint * together[:, first, second]
        world = EnumerableWorld(world.atoms, joint * (prior / joint.sum(axis=1))[:, None])
    return Case(world)


def costs_of(classes: int) -> Floats:
    """(classes + 1, classes) what every guess costs, and last what saying nothing costs."""
    wrong = 1.0 - np.eye(classes)
    wrong[:-1, -1] = _MISSED
    return np.vstack([wrong, np.full(classes, _SILENT)])


def exact(joint: ArrayLike) -> dict[str, float]:
    """The measures of a law (|S|, outcomes) and its divergence, by the keys of an audit."""
    law = Lifts.of_joint(joint)
    right = law.bayes_vulnerability()
    costs = costs_of(len(law.prior))
    gains = costs.max() - costs
    forward, reverse = law.profile(_EPSILON)
    return {
        "information": law.information(),
        "claimed_information": law.information(),
        "bayes_vulnerability": right,
        "bayes_leakage": float(np.log(right / law.prior.max())),
        "maximal_leakage": law.maximal_leakage(),
        **{f"sibson_{order:g}": law.sibson(order) for order in _ORDERS},
        **{f"arimoto_{order:g}": law.arimoto(order) for order in _ORDERS},
        "total_variation": law.total_variation(),
        "chi_squared": law.chi_squared(),
        "principal_inertia": float(law.principal_inertias()[0]),
        **{
            f"principal_inertia_{k}": float(one)
            for k, one in enumerate(law.principal_inertias()[1:], start=2)
        },
        **{f"pointwise_leakage_{e:g}": float(law.pointwise_leakage(e)) for e in (0.5, 1.0)},
        **{f"pointwise_cost_{e:g}": float(law.pointwise_cost(e)) for e in (0.5, 1.0)},
        "cost_saved": law.g_vulnerability(gains) - float((gains @ law.prior).max()),
        "g_leakage": law.g_leakage(gains),
        "divergence, forward": float(forward),
        "divergence, reverse": float(reverse),
    }


def audited(case: Case, rows: int, seed: int, trees: Any = None) -> tuple[AttackReport, LowerBound]:
    """What an audit of fresh rows of a law rests on: attackers of two makes, and the divergence
    they prove.

    A single tree is a strong attacker where rows have few different values, and a quick one.
    """
    x, s = case.world.sample(rows, seed)
    trees = trees or DecisionTreeClassifier(min_samples_leaf=_LEAF, random_state=seed)
    options: dict[str, Any] = {
        "attackers": ["logistic regression", trees],
        "seed": seed,
        "curve": True,
    }
    report = attack(table(case, x), s, progress=False, **options)
    return report, audit_divergence(report, _EPSILON, failure=_STATED, seed=seed)


def compare(
    case: Case,
    audited: tuple[AttackReport, LowerBound],
    inside: Tally,
    above: Tally,
    widths: Widths,
) -> None:
    """Note of each measure whether its interval holds the exact one, and of each lower bound
    whether it is above.
    """
    report, divergence = audited
    truth = exact(case.world.joint)
    found = measure(report, costs=costs_of(len(report.prior)))
    for one in found:
        widths.setdefault(one.key, []).append(one.estimate.high - one.estimate.low)
        if one.key not in truth:
            raise LowtideError(
                f"no exact figure is known of the measure {one.key!r}; add it to `exact`"
            )
        low = one.estimate.low
        high = one.estimate.high
        figure = truth[one.key]
        inside.setdefault(one.key, []).append(low - _ROUNDING <= figure <= high + _ROUNDING)
        if one.rests == "held out":
            above.setdefault(one.key, []).append(low > figure + _ROUNDING)
    if not found:  # nothing was learnt: what stays is the interval of the attack
        above.setdefault("information", []).append(
            report.headline.information.low > truth["information"]
        )
    for side, bound in (("forward", divergence.forward_max), ("reverse", divergence.reverse_max)):
        above.setdefault(f"divergence, {side}", []).append(bound > truth[f"divergence, {side}"])


def groups() -> dict[str, dict[str, Case]]:
    """The laws, by what part they had in choosing the rule for intervals."""
    known = laws()
    return {
        "design": {name: known[name] for name in _DESIGN},
        "second": {name: known[name] for name in _SECOND},
        "fresh": {**fresh_laws(), _NOTHING: known[_NOTHING]},
    }


def main() -> None:
    """Audit, count, print and write."""
    options = parse_arguments(__doc__ or "")
    runs, rows = (_QUICK_RUNS, _QUICK_ROWS) if options.quick else (_RUNS, _ROWS)
    inside = dict[str, dict[str, Tally]]()
    above = Tally()
    widths = Widths()
    for group, cases in groups().items():
        inside[group] = {}
        for name, case in cases.items():
            own = Tally()
            for run in range(runs):
                compare(
                    case, audited(case, rows, options.seed + _SEED[group] + run), own, above, widths
                )
            inside[group][name] = own
            print(f"{name}: {runs} audits", file=sys.stderr, flush=True)
    inside["drawn"] = {}
    for name, trees in (("a tree", None), ("boosted trees", "boosted trees")):
        own = Tally()
        for run in range(_LAWS * runs):
            seed = options.seed + _SEED["drawn"] + run
            compare(case := drawn_law(seed), audited(case, rows, seed, trees), own, above, widths)
        inside["drawn"][f"{name} and logistic regression"] = own
    show(inside, above, widths, runs, rows)
    if options.json is not None:
        results: dict[str, Any] = {
            "inside": inside,
            "above": above,
            "widths": widths,
            "rows": rows,
            "runs": runs,
        }
        write_json(options.json, results)


def show(
    inside: dict[str, dict[str, Tally]], above: Tally, widths: Widths, runs: int, rows: int
) -> None:
    """Print a table for every group, and one over all laws."""
    for group, found in inside.items():
        shown = [
            name for name in found if name != _NOTHING
        ]  # of nothing, every figure is at the end of its range
        keys = list(dict.fromkeys(key for name in shown for key in found[name]))
        covered = [[key, *(_share(found[name].get(key, [])) for name in shown)] for key in keys]
        audits = runs * (_LAWS if group == "drawn" else 1)
        title = (
            f"Intervals that hold the exact figure, of {audits} audits of {rows:,} rows ({group}"
            " laws)"
        )
        print_table(title, ["measure", *shown], covered)
    bounds = [[key, len(hits), sum(hits), _most(hits)] for key, hits in above.items()]
    columns = ["lower bound", "audits", "above the exact figure", "of all audits at most"]
    note = (
        f"Stated: at most {_STATED:.0%}. The last column is an upper limit with {1 - _FAILURE:.0%}"
        " confidence."
    )
    print_table(
        "Lower bounds that lie above the exact figure, all laws", columns, bounds, note=note
    )
    wide = [
        [key, *(f"{end:.4f}" for end in np.quantile(found, (0.5, 0.9)))]
        for key, found in widths.items()
    ]
    print_table(
        "How wide the intervals are, all laws",
        ["measure", "median", "nine in ten are narrower"],
        wide,
    )


def _share(hits: list[bool]) -> str:
    return f"{np.mean(hits):.0%}" if hits else "-"


def _most(hits: list[bool]) -> str:
    return f"{float(upper_limit(sum(hits), len(hits), _FAILURE)):.1%}"


if __name__ == "__main__":
    main()
