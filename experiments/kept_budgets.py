"""Does a card that says *kept* keep its word? Plans of laws whose exact leakage is known, on few
and many rows.

Each run draws n rows of a law, plans a release for a budget, and computes what that release tells
exactly: the information of its law, or how often the best attacker is right. A card is wrong when
it says *kept* and the exact figure lies above the budget. An interval is right when it holds the
exact figure. The price is stated beside: how much more is hidden than by a rule that asks the point
estimate only.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np
import pyarrow as pa
import torch
from scipy.stats import binomtest

from lowtide import TIDE, Budget, Obfuscator
from lowtide.disclose.aim import Aim
from lowtide.disclose.certificate import PolicyName
from lowtide.disclose.rehearsal import Goal, Planner, Task
from lowtide.disclose.standing import STATES
from lowtide.errors import LowtideError
from lowtide.progress import progress_bar
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.types import Floats, Labels
from lowtide.worlds import EnumerableWorld, ExactRelease

_SIZES = {300: 3, 500: 3, 1000: 3, 2000: 2, 5000: 1}  # rows, and how often each case is drawn
_BUDGETS = (
    Budget(0.02),
    Budget(0.05),
    Budget.bits(0.15),
    Budget.accuracy(0.1),
)  # an accuracy: so much above a guess
_HOW: tuple[tuple[PolicyName, str], ...] = (
    ("fixed", "redact"),
    ("sequential", "redact"),
    ("fixed", "gaussian"),
)
_STEPS = 160  # of the networks: small tables
_KEPT_EVERY = 20  # plans after which the results so far are written


@dataclass(frozen=True)
class Case:
    """A law, and whether its columns are texts, which have no noise."""

    world: EnumerableWorld
    texts: bool = False


@dataclass(frozen=True)
class Run:
    """One plan."""

    law: str
    n: int
    policy: str
    mechanism: str
    budget: str
    unit: str
    state: str
    hidden: float
    exact: float
    limit: float
    low: float
    high: float
    bare_zero: bool
    hidden_by_value: float | None = None

    @property
    def wrong(self) -> bool:
        """Whether the card says *kept* of a release that tells more."""
        return self.state == "kept" and self.exact > self.limit

    @property
    def covers(self) -> bool:
        """Whether the interval holds the exact figure."""
        return self.low - 1e-9 <= self.exact <= self.high + 1e-9


def independent(tables: list[Floats], prior: list[float]) -> EnumerableWorld:
    """Columns that are independent given the secret: `tables` give P(x_j | s), (|S|, values), of
    each column.
    """
    atoms = np.array(list(product(*(range(table.shape[1]) for table in tables))), dtype=np.float64)
    joint = np.repeat(np.array(prior)[:, None], len(atoms), axis=1)
    for j, table in enumerate(tables):
        joint = joint * table[:, atoms[:, j].astype(int)]
    return EnumerableWorld(atoms, joint)


def copies(flips: list[float], rare: float = 0.5) -> EnumerableWorld:
    """Copies of a bit, the j-th one turned round with probability `flips[j]`; the bit is 1 with
    probability `rare`.
    """
    return independent(
        [np.array([[1 - flip, flip], [flip, 1 - flip]]) for flip in flips], [1 - rare, rare]
    )


def categories(number: int, spread: float, seed: int) -> EnumerableWorld:
    """A column of many categories, each a little more or less likely given the secret, beside a
    weak copy and noise.
    """
    rng = np.random.default_rng(seed)
    base = rng.dirichlet(np.full(number, 5.0))
    tilted = base * np.exp(spread * rng.standard_normal(number))
    weak = np.array([[0.6, 0.4], [0.4, 0.6]])
    return independent(
        [np.stack([base, tilted / tilted.sum()]), weak, np.full((2, 3), 1 / 3)], [0.5, 0.5]
    )


def parity(flip: float, weak: float, columns: int = 4) -> EnumerableWorld:
    """The secret is the parity of two bits, turned round with probability `flip`; further columns
    are weak copies.
    """
    atoms = np.array(list(product((0.0, 1.0), repeat=columns)))
    odd = (atoms[:, 0] + atoms[:, 1]) % 2
    joint = np.empty((2, len(atoms)))
    for s in (0, 1):
        joint[s] = 0.25 * np.where(odd == s, 1 - flip, flip)
        joint[s] *= np.where(atoms[:, 2:] == s, 1 - weak, weak).prod(axis=1)
    return EnumerableWorld(atoms, joint)


def classes(spread: float, seed: int, columns: int = 3, values: int = 4) -> EnumerableWorld:
    """Three classes, and columns whose values are more or less likely in each."""
    rng = np.random.default_rng(seed)
    odds = [np.exp(spread * rng.standard_normal((3, values))) for _ in range(columns)]
    return independent(
        [table / table.sum(axis=1, keepdims=True) for table in odds], [0.5, 0.3, 0.2]
    )


def laws() -> dict[str, Case]:
    """Laws with finitely many rows."""
    return {
        "six weak copies": Case(copies([0.45] * 6)),
        "eight copies, weak to strong": Case(
            copies([0.48, 0.47, 0.46, 0.45, 0.43, 0.4, 0.35, 0.3])
        ),
        "a strong copy and three weak": Case(copies([0.15, 0.42, 0.45, 0.47])),
        "60 categories, weak": Case(categories(60, 0.25, 1), texts=True),
        "60 categories, strong": Case(categories(60, 0.6, 2), texts=True),
        "parity and a weak bit": Case(parity(0.35, 0.44)),
        "weak parity": Case(parity(0.42, 0.47)),
        "three classes, weak": Case(classes(0.25, 3), texts=True),
        "three classes, strong": Case(classes(0.6, 4), texts=True),
        "a class of 10 %": Case(copies([0.44, 0.4, 0.36, 0.3], rare=0.1)),
        "nothing to tell": Case(copies([0.5] * 5)),
    }


def table(case: Case, x: Floats) -> pa.Table:
    """Rows as a table: numbers, or texts."""
    names = [f"x{j + 1}" for j in range(x.shape[1])]
    if case.texts:
        return pa.table(
            {
                name: [f"v{int(value)}" for value in column]
                for name, column in zip(names, x.T, strict=True)
            }
        )
    return pa.table(dict(zip(names, x.T, strict=True)))


def exact(case: Case, fitted: Obfuscator, unit: str) -> tuple[float, float]:
    """The exact figure of a release, and the share of the values that it hides."""
    world = case.world
    hidden = fitted.flags(table(case, world.atoms), ids=np.arange(len(world.atoms)))
    share = float((world.joint.sum(axis=0)[:, None] * hidden).sum() / hidden.shape[1])
    ranges = np.ptp(world.atoms, axis=0)
    noised = fitted.mechanism_.ratios() > 0
    scale = np.where(
        noised, (fitted.mechanism_.lam or 1.0) * np.where(ranges > 0, ranges, 1.0), np.inf
    )
    law = world.release(hidden[0] if fitted.policy == "fixed" else hidden, scale)
    return (law.information() if unit == "nats" else best_guess(law)), share


def best_guess(law: ExactRelease) -> float:
    """How often the best attacker is right."""
    if len(law.prior) == 2:
        return law.accuracy()
    return float((law.prior[:, None] * law.outcomes).max(axis=0).sum())


def plan(job: tuple[str, int, PolicyName, str, Budget, int, bool]) -> Run | None:
    """Plan once; `None` where the budget cannot be reached, or the release has no exact law."""
    name, n, policy, mechanism, budget, seed, priced = job
    case = laws()[name]
    x, s = case.world.sample(n, seed=seed)
    if budget.unit == "accuracy":
        budget = Budget.accuracy(min(0.95, float(np.bincount(s).max() / n) + budget.limit))
    rows = table(case, x)
    tide = TIDE(max_steps=_STEPS, random_state=seed, progress=False)
    lam = 0.5 if mechanism == "gaussian" else None
    fitted = Obfuscator(
        tide, policy, mechanism, budget=budget, lam=lam, progress=False, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        try:
            fitted.fit(rows, s)
        except LowtideError:
            return None
        by_value = _hidden_by_value(case, fitted, rows, s) if priced else None
    standing = fitted.check_.standing(budget, reference=n)
    found = fitted.check_.measured
    try:
        truth, hidden = exact(case, fitted, budget.unit)
    except LowtideError:  # noise on four columns has no exact law
        return None
    low = found.low if budget.unit == "nats" else standing.lower
    return Run(
        name,
        n,
        policy,
        mechanism,
        str(budget),
        budget.unit,
        standing.state,
        hidden,
        truth,
        budget.limit,
        low,
        standing.upper,
        "0.0000 [0.0000" in fitted.card_.text() and "none" not in fitted.card_.text(),
        by_value,
    )


class _ByValue(Obfuscator):
    """Stops hiding as soon as the point estimate lies within the budget and no attack is clearly
    above it.
    """

    def _goal(self, planner: Planner, task: Task) -> Goal | None:
        goal = super()._goal(planner, task)
        return None if goal is None else Goal(Aim(goal.budget, goal.budget, np.inf), goal.reference)


def _hidden_by_value(case: Case, fitted: Obfuscator, rows: pa.Table, s: Labels) -> float | None:
    options = {
        name: value for name, value in fitted.get_params(deep=False).items() if name != "strict"
    }
    try:
        return exact(case, _ByValue(**options).fit(rows, s), "nats")[1]
    except LowtideError:
        return None


def jobs(seed: int, *, quick: bool) -> list[tuple[str, int, PolicyName, str, Budget, int, bool]]:
    """What to plan: every law at every size, each with all budgets, and in turn all policies and
    mechanisms.
    """
    found: list[tuple[str, int, PolicyName, str, Budget, int, bool]] = []
    sizes = dict.fromkeys((300, 1000, 2000), 1) if quick else _SIZES
    draws = [(n, repeat) for n, repeats in sizes.items() for repeat in range(repeats)]
    for k, ((name, case), (n, repeat), budget) in enumerate(
        product(laws().items(), draws, _BUDGETS)
    ):
        usable = [how for how in _HOW if not case.texts or how[1] == "redact"]
        few = case.world.atoms.shape[1] <= 4  # noise on more columns has no exact law
        usable = [how for how in usable if few or how[1] == "redact"]
        policy, mechanism = usable[(k + repeat) % len(usable)]
        found.append((name, n, policy, mechanism, budget, seed + k, repeat == 0 and k % 3 == 0))
    # In an order that mixes laws, sizes and budgets, so that what is done when somebody stops is a
    # fair sample.
    order = np.random.default_rng(seed).permutation(len(found))
    return [found[k] for k in (order[: len(found) // 7] if quick else order)]


def stated(run: Run) -> dict[str, object]:
    """A run as plain values, and whether its card is right."""
    return asdict(run) | {"wrong": run.wrong, "covers": run.covers}


def summary(runs: list[Run]) -> list[tuple[object, ...]]:
    """One line per size."""
    lines: list[tuple[object, ...]] = []
    for n in (*sorted({run.n for run in runs}), None):
        some = [run for run in runs if n in (None, run.n)]
        kept = [run for run in some if run.state == "kept"]
        shares = [sum(run.state == state for run in some) for state in STATES]
        priced = [run for run in some if run.hidden_by_value is not None]
        now, before = (
            float(np.mean([getattr(run, name) for run in priced])) if priced else float("nan")
            for name in ("hidden", "hidden_by_value")
        )
        wrong = sum(run.wrong for run in kept)
        cover = float(np.mean([run.covers for run in some]))
        lines.append(
            (n or "all", len(some), *shares, wrong, f"{cover:.1%}", f"{now:.0%}", f"{before:.0%}")
        )
    return lines


def main() -> None:
    """Make all plans and count."""
    options = parse_arguments(__doc__ or "")
    todo = jobs(options.seed, quick=options.quick)
    runs: list[Run] = []
    with ProcessPoolExecutor(max_workers=2) as pool, progress_bar("planning", len(todo)) as tick:
        for number, run in enumerate(pool.map(plan, todo), start=1):
            runs += [] if run is None else [run]
            tick(number)
            if options.json and number % _KEPT_EVERY == 0:  # what is done is not lost on Ctrl-C
                write_json(options.json, {"of": len(todo), "runs": [stated(run) for run in runs]})
    kept = [run for run in runs if run.state == "kept"]
    wrong = sum(run.wrong for run in kept)
    ends = binomtest(wrong, max(1, len(kept))).proportion_ci(0.95, "exact")
    print_table(
        "Cards against exact laws",
        [
            "rows",
            "plans",
            "kept",
            "not shown",
            "exceeded",
            "kept, wrong",
            "intervals cover",
            "hidden",
            "by value",
        ],
        summary(runs),
        note=(
            f"{wrong} of {len(kept)} cards that say kept are wrong: {wrong / max(1, len(kept)):.1%}"
            f" [{ends.low:.1%}, {ends.high:.1%}]; {len(todo) - len(runs)} budgets were refused as"
            " out of reach, or their releases have no exact law;"
            f" {sum(run.bare_zero for run in runs)} cards print a bare 0"
        ),
    )
    if options.json:
        write_json(options.json, {"of": len(todo), "runs": [stated(run) for run in runs]})


if __name__ == "__main__":
    main()
