"""Redraw beside other ways to hide, under one audit: what attackers read, what stays true, what it
still predicts.

Every way releases the same rows of the same table. Attackers are retrained on each release, those
of the audit and one of another make, and tested on rows they have not seen; the strongest of those
that read values counts. The utility is predicted by boosted trees that learn from the release,
tested on clean rows. CorrelationRemover and LEACE work on encoded columns, one for each category;
their shares of unchanged cells are of these.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lowtide import plan, release
from lowtide.errors import LowtideError
from lowtide.labels import read_classes
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.tables.encoder import read_table
from lowtide.types import Floats, Ints
from peers.erasers import CorrelationRemover, Leace
from peers.hiders import Rival
from peers.table_repair import repair, synthesise
from plots import Series, plot_frontiers
from redraw import Case, attacked, cases, utility_of

_BUDGET = 0.02  # nats, of plans that hide
_WIDE = 0.1  # nats, of the second redraw plan
_MOST_ROWS = 6_500  # of a table; a random part of longer ones


class Way(NamedTuple):
    """A release, and the same columns clean.

    Attributes:
        method: its name.
        setting: what was chosen.
        clean: n rows.
        released: n rows of the same columns.
        own: the share of the cells that are the person's own.
    """

    method: str
    setting: str
    clean: pa.Table
    released: pa.Table
    own: float


@dataclass(frozen=True)
class Judged:
    """What was found of one release.

    Attributes:
        method: how it was made.
        setting: what was chosen.
        own: the share of the cells that are the person's own.
        values: AUC of the strongest attacker that reads values.
        low: its lower end.
        high: its upper end.
        attacker: which one it is.
        turned: the largest AUC of an attacker that turns its answers round.
        surface: AUC of the attacker that reads how often values occur, and how they are written.
        utility_release: AUC of the utility, learnt from the release and tested on it.
        utility_clean: learnt from the release, tested on clean rows.
        seconds: to make the release.
    """

    method: str
    setting: str
    own: float
    values: float
    low: float
    high: float
    attacker: str
    turned: float
    surface: float
    utility_release: float | None
    utility_clean: float | None
    seconds: float


def ways(case: Case, secret: Ints, seed: int) -> Iterator[Callable[[], Way]]:
    """All ways to release a table, each to be called."""
    clean = case.table.drop_columns([case.secret])
    settings: list[tuple[str, str, float]] = [
        ("redraw", "", 0.0),
        ("redraw", "", _WIDE),
        ("fixed", "redact", _BUDGET),
    ]
    yield lambda: Way("clean", "", clean, clean, 1.0)
    for policy, mechanism, budget in settings:
        yield lambda p=policy, m=mechanism, b=budget: _ours(case, clean, p, m, b, seed)  # type: ignore[misc]
    yield lambda: _own("repair of columns", clean, repair(clean, secret, seed=seed))
    yield lambda: _own("synthesis by class", clean, synthesise(clean, secret, seed=seed))
    yield lambda: _own(
        "synthesis, pooled",
        clean,
        synthesise(clean, np.zeros(len(secret), dtype=np.intp), seed=seed),
    )
    for rival in (CorrelationRemover(), Leace()):
        yield lambda r=rival: _erased(case, clean, secret, r)  # type: ignore[misc]


def _ours(
    case: Case, clean: pa.Table, policy: str, mechanism: str, budget: float, seed: int
) -> Way:
    how = {"mechanism": mechanism} if mechanism else {}
    made = plan(
        case.table,
        case.secret,
        policy=policy,  # type: ignore[arg-type]
        utility=case.utility,
        budget=budget,
        seed=seed,
        steps=160,
        progress=False,
        **how,
    )
    with TemporaryDirectory() as folder:
        key = Path(folder) / "draws.key"
        key.write_text(f"{seed:064x}")  # so that the same seed draws the same
        drawn = {"ids": np.arange(len(clean)), "key_file": key} if made.hider.draws else {}
        released = release(case.table, made, **drawn).data  # type: ignore[arg-type]
    judged = [name for name in clean.column_names if name in made.hider.mechanism.encoder.names]
    return _own(policy, clean.select(judged), released.select(judged), f"budget {budget:g} nat")


def _own(method: str, clean: pa.Table, released: pa.Table, setting: str = "") -> Way:
    """A release of the very columns, and the share of cells that are as they were."""
    same = [
        np.mean(
            [
                a == b or (a is None and b is None)
                for a, b in zip(*(t[c].to_pylist() for t in pair), strict=True)
            ]
        )
        for pair in [(clean, released)]
        for c in clean.column_names
    ]
    return Way(method, setting, clean, released, float(np.mean(same)))


def _erased(case: Case, clean: pa.Table, secret: Ints, rival: Rival) -> Way:
    """A release by an eraser: all columns but the utility, encoded."""
    rest = clean if case.utility is None else clean.drop_columns([case.utility])
    rows = read_table(rest)[0].astype(np.float64)
    rows = rows[:, rows.std(axis=0) > 0]
    found = rival.release(rows, secret, strength=1.0)
    before, after = (_numbered(one, clean, case.utility) for one in (rows, found.rows))
    return Way(rival.name, "", before, after, found.kept)


def _numbered(rows: Floats, clean: pa.Table, utility: str | None) -> pa.Table:
    table = pa.table({f"c{j}": column for j, column in enumerate(rows.T)})
    return table if utility is None else table.append_column(utility, clean[utility])


def judge(case: Case, way: Way, secret: Ints, seed: int, seconds: float) -> Judged:
    """Attack a release, and use it."""
    found = attacked(way.released, secret, seed).retrained
    values = [one for one in found if one.attacker != "surface"]
    best = max(values, key=lambda one: one.auc.value)
    useful: tuple[float | None, float | None] = (None, None)
    if case.utility is not None:
        useful = utility_of(way.clean, way.released, case.utility, seed)[1:]
    return Judged(
        way.method,
        way.setting,
        way.own,
        best.auc.value,
        best.auc.low,
        best.auc.high,
        best.attacker,
        1 - min(one.auc.value for one in values),
        next(one.auc.value for one in found if one.attacker == "surface"),
        *useful,
        seconds,
    )


def run(case: Case, seed: int) -> list[Judged]:
    """All ways on one table."""
    secret = read_classes(case.table[case.secret].to_pylist())[1]
    found = []
    for make in ways(case, secret, seed):
        start = time.perf_counter()
        try:
            way = make()
        except LowtideError as error:  # a budget that cannot be reached
            print(f"{case.name}: {error}", flush=True)
            continue
        seconds = time.perf_counter() - start
        found.append(judge(case, way, secret, seed, seconds))
        print(
            f"{case.name}, {way.method} {way.setting}: AUC {found[-1].values:.3f}, own"
            f" {way.own:.1%}",
            flush=True,
        )
    return found


def _row(one: Judged) -> tuple[object, ...]:
    useful = (
        "" if one.utility_clean is None else f"{one.utility_release:.3f} / {one.utility_clean:.3f}"
    )
    auc = f"{one.values:.3f} [{one.low:.3f}, {one.high:.3f}]"
    return (
        one.method,
        one.setting,
        f"{one.own:.1%}",
        auc,
        f"{one.turned:.3f}",
        f"{one.surface:.3f}",
        useful,
    )


def draw(found: dict[str, list[Judged]], path: Path) -> list[Path]:
    """Two figures: the attacker against the share of own cells, and against the utility where there
    is one.
    """
    drawn = []
    for name, label in (
        ("own", "share of the cells that are the person's own"),
        ("utility_clean", "AUC of the utility"),
    ):
        panels = {
            table: {
                method: Series(
                    [getattr(one, name) for one in judged if one.method == method],
                    [max(one.values, one.turned) for one in judged if one.method == method],
                    ours=method == "redraw",
                )
                for method in dict.fromkeys(one.method for one in judged)
            }
            for table, judged in found.items()
            if all(getattr(one, name) is not None for one in judged)
        }
        if panels:
            drawn.append(
                path.with_name(f"{path.stem}_{'cells' if name == 'own' else 'utility'}.png")
            )
            plot_frontiers(
                panels,
                drawn[-1],
                horizontal=label,
                vertical="AUC of the strongest retrained attacker, either way round",
                title="What is left for an attacker, against what is left of the table",
            )
    return drawn


def main() -> None:
    """Judge all ways on all tables."""
    options = parse_arguments(__doc__ or "")
    found: dict[str, list[Judged]] = {}
    for case in cases(options.data, quick=options.quick):
        if len(case.table) > _MOST_ROWS:
            some = np.sort(
                np.random.default_rng(options.seed).permutation(len(case.table))[:_MOST_ROWS]
            )
            case = Case(case.name, case.table.take(some), case.secret, case.utility)  # noqa: PLW2901
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[case.name] = run(case, options.seed)
        print_table(
            f"{case.name}, {len(case.table):,} rows",
            [
                "way",
                "setting",
                "own cells",
                "AUC of the secret",
                "turned round",
                "surface",
                "utility: release / clean",
            ],
            [_row(one) for one in found[case.name]],
        )
        if options.json:  # what is done is not lost on Ctrl-C
            write_json(
                options.json,
                {"tables": {name: [asdict(one) for one in rows] for name, rows in found.items()}},
            )
        drawn = draw(found, options.json or Path("redraw_rivals.json"))
    print(f"figures: {', '.join(map(str, drawn))}")


if __name__ == "__main__":
    main()
