"""Shared by the experiments on real tables: what attackers are left with against what the table is
still good for.

Every way to hide learns from the training rows. Attackers are trained on the released training rows
and tested on the released test rows; so are the models that predict the utility column.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lowtide import TIDE, Obfuscator
from lowtide.attack import scores
from lowtide.attack.attackers import taught
from lowtide.disclose.budget import Point
from lowtide.errors import LowtideError
from lowtide.features import Features
from lowtide.interface import Estimate
from lowtide.labels import read_classes
from lowtide.report.console import print_table, write_json
from lowtide.table_files.reading import read
from lowtide.tables.attackers import ATTACKERS
from lowtide.tables.encoder import read_table
from lowtide.tables.mechanism import TableMechanism
from lowtide.tables.policies import FixedColumns
from lowtide.training import one_thread
from lowtide.types import Bools, Floats32, Ints
from peers.erasers import CorrelationRemover, Leace
from peers.hiders import MutualInformation, RandomFeatures, Rival, UniformNoise
from plots import Series, plot_frontiers

PANEL = ("logistic regression", "boosted trees")  # on these tables nobody else reads more
USERS = ("boosted trees",)


@dataclass(frozen=True)
class Task:
    """A table with a secret and a use.

    Attributes:
        name: for people.
        x: the columns to release.
        secret: the secret of every row.
        utility: what the release should still tell; `None` when there is nothing.
        train: which rows are for learning.
        seed: of everything.
    """

    name: str
    x: pa.Table
    secret: Ints
    utility: Ints | None
    train: Bools
    seed: int


@dataclass(frozen=True)
class Release:
    """One way to hide, judged on the test rows."""

    method: str
    setting: str
    kept: float
    secret_auc: float
    secret_low: float
    secret_high: float
    attacker: str
    utility_auc: float | None
    released: tuple[str, ...] = ()


def load(folder: Path | None, file: str, *, drop: Sequence[str] = ()) -> pa.Table:
    """Read one of the tables, or say where it should lie."""
    if folder is None or not (folder / file).is_file():
        raise LowtideError(f"{file} is not there; name its folder with --data")
    table = read(folder / file)
    return table.drop_columns([name for name in drop if name in table.column_names])


def codes(column: pa.ChunkedArray) -> Ints:
    """The classes of a column."""
    return read_classes(column.to_pylist())[1]


def task(
    name: str, table: pa.Table, secret: str, utility: str | None, train: Any, seed: int
) -> Task:
    """Take the secret and the use out of a table."""
    rest = table.drop_columns([column for column in (secret, utility) if column is not None])
    useful = None if utility is None else codes(table[utility])
    return Task(name, rest, codes(table[secret]), useful, np.asarray(train, dtype=bool), seed)


def best_auc(
    rows: Floats32, labels: Ints, train: Any, seed: int, names: Sequence[str]
) -> tuple[Estimate, str]:
    """The best AUC of some attackers on the test rows; they are trained on the others."""
    varied = rows[:, rows[train].std(axis=0) > 0]
    if varied.shape[1] == 0:
        varied = rows[:, :1] * 0
    found = []
    with one_thread():
        for name in names:
            attacker = taught(ATTACKERS[name](seed), varied[train], labels[train])
            found.append(
                (
                    scores.auc(attacker.probabilities(varied[~train]), labels[~train], level=0.95),
                    name,
                )
            )
    return max(found, key=lambda pair: pair[0].value)


def judge(job: Task, method: str, setting: str, rows: Floats32, kept: float) -> Release:
    """Attack released rows, and use them."""
    auc, attacker = best_auc(rows, job.secret, job.train, job.seed, PANEL)
    useful = (
        None
        if job.utility is None
        else best_auc(rows, job.utility, job.train, job.seed, USERS)[0].value
    )
    return Release(method, setting, kept, auc.value, auc.low, auc.high, attacker, useful)


def ours(
    job: Task, rows: Floats32, features: Features, budgets: Sequence[float]
) -> Iterator[Release]:
    """Every point that planning visits, and the ones it chooses: columns raw or redacted."""
    place = np.flatnonzero(job.train)
    seen = set()
    for budget in budgets:
        tide = TIDE(random_state=job.seed, progress=False)
        hider = Obfuscator(tide, "fixed", budget=budget, random_state=job.seed)
        useful = None if job.utility is None else job.utility[place]
        hider.fit(job.x.take(place), job.secret[place], utility=useful)
        if not isinstance(hider.policy_, FixedColumns):
            raise TypeError("a fixed policy was asked for")
        last = Point(hider.policy_.hidden, 0.0, hider.policy_.curve[0].reading)
        for point in (*hider.policy_.curve, last):
            key = point.hidden.tobytes()
            if key not in seen:
                seen.add(key)
                mark = f", chosen for {budget:g} nat" if key == last.hidden.tobytes() else ""
                yield judge_point(job, point, rows, features, mark)


def judge_point(job: Task, point: Point, rows: Floats32, features: Features, mark: str) -> Release:
    """Release the table as a point of the curve says, and judge it."""
    encoder = read_table(job.x)[1]
    mechanism = TableMechanism.build(encoder, features, rows[job.train], kind="redact")
    released = mechanism.hide(rows, point.hidden)
    shown = [name for name, hidden in zip(features.names, point.hidden, strict=True) if not hidden]
    setting = f"{len(shown)} columns{mark}"
    judged = judge(job, "fixed", setting, released, float((~point.hidden).mean()))
    return replace(judged, released=tuple(shown))


def rivals(job: Task, rows: Floats32, features: Features, quick: bool) -> Iterator[Release]:
    """The rivals of the audit."""
    every = list(range(2, len(features), 4 if quick else 1 if len(rows) < 10_000 else 2))
    ways: list[tuple[Rival, Sequence[float]]] = [
        (UniformNoise(seed=job.seed), (0.3, 1.0, 3.0)),
        (RandomFeatures(features=features, seed=job.seed), every[::2]),
        (MutualInformation(features=features, seed=job.seed), every),
        (CorrelationRemover(), (1.0,)),
        (Leace(), (1.0,)),
    ]
    for rival, strengths in ways:
        for strength in strengths:
            fitted = rival.fit(rows[job.train], job.secret[job.train], strength=strength)
            released = fitted.apply(rows, job.secret)
            moved = released.rows.astype(np.float32)
            yield judge(job, rival.name, f"strength {strength:g}", moved, released.kept)


def run(
    job: Task, budgets: Sequence[float], quick: bool, json: Path | None, *, limit: float
) -> None:
    """Judge everything, print the table, draw the figure.

    Args:
        job: the table.
        budgets: of our fixed policies, in nats.
        quick: whether to try fewer settings.
        json: where to write the results, and beside it the figure.
        limit: the attacker's AUC at which ways to hide are compared.
    """
    rows, encoder = read_table(job.x)
    features = encoder.features()
    releases = []
    for release in chain(ours(job, rows, features, budgets), rivals(job, rows, features, quick)):
        releases.append(release)
        print(f"{release.method}: {_said(release)}", file=sys.stderr)
    print_table(
        f"{job.name}: best retrained attacker's AUC on the secret, and what the release still"
        " predicts",
        ["way to hide", "setting", "kept", "secret AUC", "interval", "attacker", "utility AUC"],
        [
            (
                r.method,
                r.setting,
                r.kept,
                r.secret_auc,
                f"[{r.secret_low:.3f}, {r.secret_high:.3f}]",
                r.attacker,
                "" if r.utility_auc is None else f"{r.utility_auc:.4f}",
            )
            for r in releases
        ],
    )
    best = at_most(releases, limit)
    for method, found in best.items():
        said = "does not get there" if found is None else _said(found)
        print(f"{method}, attacker's AUC at most {limit:g}: {said}")
    if json is not None:
        write_json(
            json,
            {
                "limit": limit,
                "best": {method: release and asdict(release) for method, release in best.items()},
                "releases": [asdict(release) for release in releases],
            },
        )
    figure = (json or Path(f"{job.name}.json")).with_suffix(".png")
    _draw(job, releases, figure)
    print(f"figure: {figure}")


def at_most(releases: Sequence[Release], limit: float) -> dict[str, Release | None]:
    """For each way to hide, the most useful release (or the one that keeps most) under the
    attacker's AUC.
    """
    best: dict[str, Release | None] = {}
    for release in releases:
        best.setdefault(release.method, None)
        known = best[release.method]
        if release.secret_auc <= limit and (known is None or _worth(release) > _worth(known)):
            best[release.method] = release
    return best


def _worth(release: Release) -> float:
    return release.kept if release.utility_auc is None else release.utility_auc


def _said(release: Release) -> str:
    useful = "" if release.utility_auc is None else f", utility AUC {release.utility_auc:.3f}"
    what = ", ".join(release.released) or release.setting
    return (
        f"secret AUC {release.secret_auc:.3f}{useful}, {release.kept:.0%} of the values kept"
        f" ({what})"
    )


def _draw(job: Task, releases: Sequence[Release], path: Path) -> None:
    curves = {
        method: Series(
            [_worth(r) for r in releases if r.method == method],
            [r.secret_auc for r in releases if r.method == method],
            ours=method == "fixed",
        )
        for method in dict.fromkeys(r.method for r in releases)
    }
    plot_frontiers(
        {job.name: curves},
        path,
        horizontal="share of values kept" if job.utility is None else "AUC of the utility column",
        vertical="best retrained attacker's AUC on the secret",
        title="What is left for an attacker",
    )
