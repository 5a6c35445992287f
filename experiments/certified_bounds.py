"""Do bounds from counts hold against every attacker, and do they say something?

Three tables. First: random laws of 2 to 4 classes on 2 to 1,000 cells, shown as they are, noised,
or answered at random; how often each bound lies below the exact figure of the law, which may happen
in 5 % of samples, and how often it is better than none. Second: laws whose rows are attacked, too:
bound, exact figure and what an attack proves, in this order. Third, with --data: the bounds of
releases of Adult (secret: sex) and, with statsmodels, of the election study (vote).
"""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import binomtest

from kept_budgets import laws as enumerable_laws
from lowtide.attack.lower_bound import audit_divergence
from lowtide.attack.panel import attack
from lowtide.progress import progress_bar
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.theory import channels, counts
from lowtide.theory.measures import Lifts
from lowtide.types import Floats, Ints

_FAILURE = 0.05
# some samples miss a class and are left out
_LAWS = 10_500
_QUICK_LAWS = 120
_SIZES = (100, 300, 1000, 3000, 10_000, 30_000)  # rows; each law is drawn at one of them
_OUTPUTS = 48  # of a channel of noise: intervals
# of the divergence, and of the pointwise tails
_EPSILON = 0.1
_TAIL = 0.4
_BOUNDS = ("accuracy", "information", "forward", "reverse", "leakage", "cost")
_WORDS = {
    "accuracy": "right guesses",
    "information": "information",
    "forward": f"E_γ forward, ε = {_EPSILON}",
    "reverse": f"E_γ reverse, ε = {_EPSILON}",
    "leakage": f"Pr(max i > {_TAIL})",
    "cost": f"Pr(max −i > {_TAIL})",
}
_ATTACKED = (300, 1000, 3000)  # rows of each enumerable law
# to choose from
_ADULT_COLUMNS = 14
_VOTE_COLUMNS = 9


@dataclass(frozen=True, eq=False)
class Law:
    """A random law: probabilities (|S|, cells), and the channel (cells, outputs) that shows them,
    if any.
    """

    joint: Floats
    shown: str
    channel: Floats | None

    @property
    def released(self) -> Floats:
        """(|S|, outputs) the law of what is shown."""
        return self.joint if self.channel is None else self.joint @ self.channel


def draw_law(rng: np.random.Generator) -> Law:
    """A law of 2 to 4 classes on 2 to 1,000 cells: none to strong leakage, even to skewed priors
    and cells.
    """
    classes = int(rng.integers(2, 5))
    cells = int(np.exp(rng.uniform(np.log(2), np.log(1000))))
    prior = rng.dirichlet(np.full(classes, rng.choice([0.7, 3.0, 30.0])))
    prior = 0.97 * prior + 0.03 / classes  # a class of less than 1 % has hardly any rows
    base = rng.dirichlet(np.full(cells, rng.choice([0.2, 1.0, 20.0])))
    tilt = np.exp(rng.choice([0.0, 0.05, 0.2, 0.7, 2.0]) * rng.standard_normal((classes, cells)))
    given_s = base * tilt + 1e-12
    joint = prior[:, None] * given_s / given_s.sum(axis=1, keepdims=True)
    shown = str(rng.choice(["as it is", "noise", "response"]))
    if shown == "noise":
        edges = np.linspace(0, 1, _OUTPUTS - 1)
        return Law(
            joint, shown, channels.gaussian(np.linspace(0, 1, cells), rng.uniform(0.02, 0.5), edges)
        )
    channel = (
        channels.response(float(rng.uniform(0.1, 0.9)), cells) if shown == "response" else None
    )
    return Law(joint, shown, channel)


def exact(joint: Floats) -> dict[str, float]:
    """What a law tells."""
    law = Lifts.of_joint(joint / joint.sum())
    forward, reverse = law.profile(_EPSILON)
    return {
        "accuracy": law.bayes_vulnerability(),
        "information": law.information(),
        "forward": float(forward),
        "reverse": float(reverse),
        "leakage": float(law.pointwise_leakage(_TAIL)),
        "cost": float(law.pointwise_cost(_TAIL)),
    }


def bounds(table: Floats, channel: Floats | None = None) -> dict[str, float]:
    """What counts say that it tells at most."""
    found = {
        "accuracy": counts.accuracy(table, _FAILURE, channel=channel),
        "information": counts.information(table, _FAILURE, channel=channel),
    }
    found["forward"], found["reverse"] = counts.divergence(
        table, _EPSILON, _FAILURE, channel=channel
    )
    found["leakage"], found["cost"] = counts.pointwise(table, _TAIL, _FAILURE, channel=channel)
    return found


def check_random_laws(number: int, seed: int) -> list[dict[str, object]]:
    """Every law at one size: each bound, the exact figure, and what nobody could be above."""
    results: list[dict[str, object]] = []
    with progress_bar("random laws", number) as tick:
        for k in range(number):
            rng = np.random.default_rng([seed, 0xB0, k])
            law = draw_law(rng)
            truth = exact(law.released)
            prior = law.joint.sum(axis=1)
            most = {
                "information": float(-(prior * np.log(prior)).sum()),
                "forward": 1 - np.exp(_EPSILON) * prior.min(),
            }
            n = int(rng.choice(_SIZES))
            table = (
                rng.multinomial(n, law.joint.ravel() / law.joint.sum())
                .reshape(law.joint.shape)
                .astype(float)
            )
            if (table.sum(axis=1) > 0).all():  # a class that nobody has seen is refused
                for name, bound in bounds(table, law.channel).items():
                    known = {"bound": bound, "exact": truth[name], "most": most.get(name, 1.0)}
                    results.append(
                        {
                            "name": name,
                            "n": n,
                            "cells": law.joint.shape[1],
                            "shown": law.shown,
                            **known,
                        }
                    )
            tick(k + 1)
    return results


def coverage(results: Sequence[dict[str, object]]) -> list[tuple[object, ...]]:
    """One line per bound: samples, how often it lies below the truth with its interval, how often
    it says something.
    """
    lines: list[tuple[object, ...]] = []
    for name in _BOUNDS:
        some = [one for one in results if one["name"] == name]
        bound, truth, most = (
            np.array([one[key] for one in some], dtype=float) for key in ("bound", "exact", "most")
        )
        below = bound < truth - 1e-9
        ends = binomtest(int(below.sum()), len(some)).proportion_ci(0.95, "exact")
        said = bound < most - 1e-9
        dense = np.array([one["n"] >= 25 * one["cells"] for one in some])  # type: ignore[operator]
        lines.append(
            (
                _WORDS[name],
                len(some),
                int(below.sum()),
                f"{below.mean():.2%} [{ends.low:.2%}, {ends.high:.2%}]",
                f"{said.mean():.0%}",
                f"{said[dense].mean():.0%}",
                float(np.median((bound - truth)[said & dense])),
            )
        )
    return lines


def check_attacked_laws(seed: int, *, quick: bool) -> list[dict[str, object]]:
    """Bound, exact figure and attack of enumerable laws."""
    sizes = _ATTACKED[:1] if quick else _ATTACKED
    cases = list(enumerable_laws().items())[: 2 if quick else None]
    names = ["logistic regression"] if quick else ["logistic regression", "boosted trees"]
    jobs = [(name, case, n) for name, case in cases for n in sizes]
    results: list[dict[str, object]] = []
    with progress_bar("attacked laws", len(jobs)) as tick:
        for k, (name, case, n) in enumerate(jobs):
            x, s = case.world.sample(n, seed=1000 * seed + k)
            table = counts.count_cells(x, s, len(case.world.prior))
            held = bounds(table)
            truth = exact(case.world.joint)
            report = attack(x, s, attackers=names, seed=seed, progress=False)
            proven = audit_divergence(report, _EPSILON, failure=_FAILURE, seed=seed)
            shown = {
                "accuracy": report.headline.accuracy.low,
                "information": report.headline.information.low,
                "forward": proven.forward_max,
                "reverse": proven.reverse_max,
            }
            for what, low in shown.items():
                known = {"bound": held[what], "exact": truth[what], "attack": low}
                results.append({"law": name, "n": n, "name": what, **known})
            tick(k + 1)
    return results


def in_order(results: Sequence[dict[str, object]]) -> list[tuple[object, ...]]:
    """One line per figure: how often it is out of order, and the medians of all three."""
    lines: list[tuple[object, ...]] = []
    for name in dict.fromkeys(one["name"] for one in results):
        some = [one for one in results if one["name"] == name]
        bound, truth, low = (
            np.array([one[key] for one in some], dtype=float)
            for key in ("bound", "exact", "attack")
        )
        middles = [float(np.median(values)) for values in (low, truth, bound)]
        below = int((bound < truth - 1e-9).sum())
        above = int((low > truth + 1e-9).sum())
        lines.append((_WORDS[str(name)], len(some), below, above, *middles))
    return lines


def codes(column: Sequence[str]) -> Ints:
    """Values as numbers."""
    return np.unique(np.array(column), return_inverse=True)[1].ravel()


@dataclass(frozen=True)
class Bounded:
    """A release of a real table: how often a guess is right, blind, by the counts and at most; and
    nats.

    The last of each is a bound that holds even if these rows chose which columns are shown.
    """

    release: str
    rows: int
    cells: int
    blind: float
    plug_in: float
    accuracy: float
    accuracy_any_columns: float
    told: float
    information: float
    information_any_columns: float


def stated(name: str, table: Floats, columns: int, channel: Any = None) -> Bounded:
    """The bounds of a release chosen from so many columns."""
    shown = table if channel is None else table @ channel
    n = table.sum()
    chosen = _FAILURE / 2.0**columns
    return Bounded(
        release=name,
        rows=int(n),
        cells=int((shown.sum(axis=0) > 0).sum()),
        blind=float(table.sum(axis=1).max() / n),
        plug_in=float(shown.max(axis=0).sum() / n),
        accuracy=counts.accuracy(table, _FAILURE, channel=channel),
        accuracy_any_columns=counts.accuracy(table, chosen, channel=channel),
        told=counts.plug_in_information(shown),
        information=counts.information(table, _FAILURE, channel=channel),
        information_any_columns=counts.information(table, chosen, channel=channel),
    )


def adult(data: Path) -> list[Bounded]:
    """Releases of Adult; age is noised by 0.06 of its range and rounded to whole years."""
    with (data / "adult.csv").open() as file:
        people = list(csv.DictReader(file))
    read = {name: [one[name] for one in people] for name in people[0]}
    sex = codes(read["sex"])
    age = np.array(read["age"], dtype=int)
    education = codes(read["education_num"])
    race = codes(read["race"])
    gain, loss = (np.array(read[name], dtype=int) for name in ("capital_gain", "capital_loss"))
    coarse = np.column_stack([education, gain > 0, loss > 0])
    as_it_is = np.column_stack([education, gain, loss])
    found = [
        stated("education, any gain, any loss", counts.count_cells(coarse, sex, 2), _ADULT_COLUMNS),
        stated(
            "… and race, age in decades up to 70",
            counts.count_cells(np.column_stack([coarse, race, np.minimum(age // 10, 7)]), sex, 2),
            _ADULT_COLUMNS,
        ),
        stated(
            "education, gain and loss as they are",
            counts.count_cells(as_it_is, sex, 2),
            _ADULT_COLUMNS,
        ),
    ]
    _, group = np.unique(as_it_is, axis=0, return_inverse=True)
    cells, place = np.unique(np.column_stack([group.ravel(), age]), axis=0, return_inverse=True)
    table = counts.count_cells(place.ravel()[:, None], sex, 2)
    low = int(age.min())
    high = int(age.max())
    years = channels.gaussian(
        np.arange(low, high + 1), 0.06 * (high - low), np.arange(low, high) + 0.5
    )
    groups = sparse.csr_array((np.ones(len(cells)), (np.arange(len(cells)), cells[:, 0])))
    # Each cell goes to its own group and to the years around its age.
    spread = sparse.csr_array(years[cells[:, 1] - low])
    width = years.shape[1]
    rows = np.repeat(np.arange(len(cells)), np.diff(spread.indptr))
    channel = sparse.csr_array(
        (spread.data, (rows, cells[rows, 0] * width + spread.indices)),
        shape=(len(cells), groups.shape[1] * width),
    )
    return [*found, stated("… and age noised by 0.06 of its range", table, _ADULT_COLUMNS, channel)]


def election_study() -> list[Bounded]:
    """Releases of the election study, as the demo reads it; nothing where statsmodels is
    missing.
    """
    try:
        from statsmodels.datasets import anes96  # an extra
    except ImportError:
        return []
    frame = anes96.load_pandas().data
    vote = frame["vote"].to_numpy(dtype=int)
    halves = np.column_stack(
        [frame[name] > frame[name].median() for name in ("age", "income", "educ")]
    )
    raw = frame[
        ["popul", "TVnews", "selfLR", "ClinLR", "DoleLR", "PID", "age", "educ", "income"]
    ].to_numpy()
    return [
        stated("vote: education in 7", counts.count_cells(frame[["educ"]].to_numpy(), vote, 2), 0),
        stated("vote: age, income, education in halves", counts.count_cells(halves, vote, 2), 0),
        stated("vote: nine columns as they are", counts.count_cells(raw, vote, 2), 0),
    ]


def print_releases(found: Sequence[Bounded]) -> None:
    """The third table."""
    rows = []
    for one in found:
        shares = (one.blind, one.plug_in, one.accuracy, one.accuracy_any_columns)
        nats = (one.told, one.information, one.information_any_columns)
        rows.append(
            (one.release, one.rows, one.cells, *(f"{100 * share:.1f}" for share in shares), *nats)
        )
    head = [
        "release",
        "rows",
        "cells",
        "blind %",
        "plug-in %",
        "at most %",
        "any columns",
        "nats",
        "at most",
        "any ones",
    ]
    print_table(
        "Releases of real tables, 95 %",
        head,
        rows,
        note="any columns: if these rows chose which to hide",
    )


def main() -> None:
    """Check all laws, then real tables."""
    options = parse_arguments(__doc__ or "")
    started = time.perf_counter()
    random = check_random_laws(_QUICK_LAWS if options.quick else _LAWS, options.seed)
    lines = coverage(random)
    print_table(
        "Bounds from counts against exact laws",
        [
            "bound",
            "samples",
            "below the truth",
            "share, nominally 5 %",
            "says something",
            "… 25 rows a cell",
            "above by",
        ],
        lines,
        note=(
            f"{time.perf_counter() - started:.0f} s; above by: median, where it says something, of"
            " 25 rows a cell"
        ),
    )
    attacked = check_attacked_laws(options.seed, quick=options.quick)
    print_table(
        "Attack, exact figure and bound",
        ["figure", "samples", "bound below", "attack above", "attack", "exact", "bound"],
        in_order(attacked),
        note="medians; each may be out of order in 5 % of samples",
    )
    releases = [] if options.data is None else [*adult(options.data), *election_study()]
    if releases:
        print_releases(releases)
    if options.json:
        write_json(
            options.json,
            {
                "coverage": lines,
                "attacked": in_order(attacked),
                "releases": [asdict(one) for one in releases],
            },
        )


if __name__ == "__main__":
    main()
