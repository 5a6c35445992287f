"""Merging beside other ways to hide, on Adult and COMPAS: what attackers are left with against what
is still predicted.

Every way learns from the training rows and releases all rows. Attackers are trained on the released
training rows and tested on the released test rows; so are the models that predict the utility,
whose column is not released. Where a release is the same for everybody, the counts of the test
rows, which had no part in any plan, bound what every attacker achieves.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from compas import group_races
from lowtide import TIDE, Obfuscator
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise
from lowtide.errors import LowtideError
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.tables.encoder import read_table
from lowtide.theory import counts
from plots import Series, plot_frontiers
from table_frontiers import PANEL, USERS, Task, best_auc, load, task

_STEPS = 160  # of networks
# A peer with `Mondrian(k).fit(table).transform(table)`; left out where it is not there
_K_ANONYMITY = "peers.mondrian"


@dataclass(frozen=True)
class Outcome:
    """What was found of one release.

    Attributes:
        table: its name.
        method: how it was made.
        setting: what was asked for.
        secret_auc: of the strongest retrained attacker.
        low: its lower end.
        high: its upper end.
        utility_auc: of models learnt from the release.
        cells: how many different rows the release of the test rows shows.
        bound: how often any attacker is right at most, with 95 % confidence; `None` where nothing
            bounds it.
        blind: how often a blind guess is right.
        seconds: to plan and release.
    """

    table: str
    method: str
    setting: str
    secret_auc: float
    low: float
    high: float
    utility_auc: float
    cells: int
    bound: float | None
    blind: float
    seconds: float


@dataclass(frozen=True)
class Settings:
    """What is tried on one table: budgets in nats, and certified shares of right guesses."""

    budgets: tuple[float, ...]
    certified: tuple[float, ...]
    boxes: tuple[int, ...] = (10, 50, 250)


def planned(job: Task, mechanism: str, **options: Any) -> pa.Table:
    """All rows, released by a plan of the training rows."""
    place = np.flatnonzero(job.train)
    seed = job.seed
    tide = TIDE(random_state=seed, progress=False, max_steps=_STEPS)
    hider = Obfuscator(tide, "fixed", mechanism, random_state=seed, progress=False, **options)
    useful = None if job.utility is None else job.utility[place]
    hider.fit(job.x.take(pa.array(place)), job.secret[place], utility=useful)
    noise = KeyedNoise(_key(seed)) if hider.hider_.draws else None
    released: pa.Table = hider.hider_.transform(job.x, noise=noise, ids=np.arange(len(job.x)))
    return released


def redrawn(job: Task) -> pa.Table:
    """All rows, redrawn by a plan of the training rows, at the strictest budget."""
    place = np.flatnonzero(job.train)
    seed = job.seed
    tide = TIDE(random_state=seed, progress=False, max_steps=_STEPS)
    hider = Obfuscator(tide, "redraw", random_state=seed, progress=False)
    hider.fit(job.x.take(pa.array(place)), job.secret[place], utility=None)
    made: Any = hider.hider_
    released: pa.Table = made.redraw(
        job.x, job.secret, noise=KeyedNoise(_key(seed)), ids=np.arange(len(job.x))
    ).table
    return released


def _key(seed: int) -> bytes:
    return np.random.SeedSequence([seed, 0x7AB1E]).generate_state(KEY_BYTES // 4).tobytes()


def ways(job: Task, settings: Settings) -> Iterator[tuple[str, str, bool, Callable[[], pa.Table]]]:
    """Every way: its name, its setting, whether counts bound it, and what makes it."""
    yield "clean", "", True, lambda: job.x
    for budget in settings.budgets:
        said = f"budget {budget:g} nat"
        yield "redaction", said, True, lambda b=budget: planned(job, "redact", budget=b)  # type: ignore[misc]
        yield "merge", said, True, lambda b=budget: planned(job, "merge", budget=b)  # type: ignore[misc]
    for share in settings.certified:
        said = f"certified, {share:.1%} right"

        def certified(limit: float = share) -> pa.Table:
            return planned(job, "merge", budget=f"{100 * limit:g}%", certify=0.95)

        yield "merge, certified", said, True, certified
    if importlib.util.find_spec(_K_ANONYMITY) is not None:
        maker = importlib.import_module(_K_ANONYMITY).Mondrian
        train = job.x.filter(pa.array(job.train))
        for k in settings.boxes:
            yield "k-anonymity", f"k = {k}", True, lambda k=k: maker(k).fit(train).transform(job.x)  # type: ignore[misc]
    yield "redraw", "budget 0", False, lambda: redrawn(job)


def judge(
    job: Task, method: str, setting: str, countable: bool, make: Callable[[], pa.Table]
) -> Outcome:
    """Release, attack, use, and count."""
    start = time.perf_counter()
    released = make()
    seconds = time.perf_counter() - start
    rows = read_table(released)[0]
    auc, _ = best_auc(rows, job.secret, job.train, job.seed, PANEL)
    if job.utility is None:
        raise LowtideError("the frontier needs a utility; name one")
    useful = best_auc(rows, job.utility, job.train, job.seed, USERS)[0]
    table = counts.count_cells(rows[~job.train], job.secret[~job.train], int(job.secret.max()) + 1)
    bound = counts.accuracy(table) if countable else None
    blind = float(table.sum(axis=1).max() / table.sum())
    cells = table.shape[1]
    return Outcome(
        job.name,
        method,
        setting,
        auc.value,
        auc.low,
        auc.high,
        useful.value,
        cells,
        bound,
        blind,
        seconds,
    )


def jobs(folder: Path | None, quick: bool, seed: int) -> Iterator[tuple[Task, Settings]]:
    """Adult and COMPAS."""
    table = load(folder, "adult.csv")
    train = np.array(table["split"].to_pylist()) == "train"
    table = table.drop_columns(["split"])
    if quick:
        table = table.slice(0, 6000)
        train = np.arange(6000) % 3 > 0
    settings = Settings((0.02,), (0.7,) if quick else (0.695, 0.68))
    yield task("Adult", table, "sex", "income", train, seed), settings
    table = group_races(load(folder, "compas.csv"))
    train = np.random.default_rng([seed, 84]).random(len(table)) < 0.6
    settings = Settings((0.05,) if quick else (0.05, 0.02), (0.58,))
    yield task("COMPAS", table, "race", "two_year_recid", train, seed), settings


def report(found: list[Outcome], json: Path | None) -> None:
    """Print the table, write the results, draw the figure."""
    print_table(
        "What attackers are left with, against what is still predicted",
        [
            "table",
            "way",
            "setting",
            "secret AUC",
            "utility AUC",
            "cells",
            "no attacker is right more than",
            "seconds",
        ],
        [
            (
                one.table,
                one.method,
                one.setting,
                f"{one.secret_auc:.3f} [{one.low:.3f}, {one.high:.3f}]",
                f"{one.utility_auc:.3f}",
                one.cells,
                "-" if one.bound is None else f"{one.bound:.1%} (blind {one.blind:.1%})",
                f"{one.seconds:.0f}",
            )
            for one in found
        ],
        note=(
            "Attackers and models learn from released training rows and are tested on released test"
            " rows. The last bound holds with 95 % confidence; - where the release draws at random."
        ),
    )
    if json is not None:
        write_json(json, {"releases": [asdict(one) for one in found]})
    panels = {
        name: {
            method: Series(
                [one.utility_auc for one in found if (one.table, one.method) == (name, method)],
                [one.secret_auc for one in found if (one.table, one.method) == (name, method)],
                ours=method.startswith("merge"),
            )
            for method in dict.fromkeys(one.method for one in found if one.table == name)
        }
        for name in dict.fromkeys(one.table for one in found)
    }
    figure = (json or Path("merge_frontier.json")).with_suffix(".png")
    plot_frontiers(
        panels,
        figure,
        horizontal="AUC of the utility column",
        vertical="best retrained attacker's AUC on the secret",
        title="What is left for an attacker",
    )
    print(f"figure: {figure}")


def main() -> None:
    """Judge all ways on both tables."""
    options = parse_arguments(__doc__ or "")
    found: list[Outcome] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for job, settings in jobs(options.data, options.quick, options.seed):
            for method, setting, countable, make in ways(job, settings):
                try:
                    found.append(judge(job, method, setting, countable, make))
                except LowtideError as error:
                    print(f"{job.name}, {method}, {setting}: {error}", file=sys.stderr)
                    continue
                print(
                    f"{job.name}, {method}, {setting}: AUC {found[-1].secret_auc:.3f}",
                    file=sys.stderr,
                    flush=True,
                )
    report(found, options.json)


if __name__ == "__main__":
    main()
