"""Redraw on real tables: how much of a release is the person's own, what attackers read, what it
still predicts.

Every table is planned and released with the policy `redraw`; its densities are cross-fitted on the
rows that are released. Attackers are retrained on the release, those of the audit and one of
another make, and tested on rows they have not seen. The utility is predicted by boosted trees that
learn from the release, tested on the release and on clean rows.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from lowtide import plan, release
from lowtide.attack.panel import AttackReport, attack
from lowtide.errors import LowtideError
from lowtide.labels import read_classes
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.table_files.survey import load_survey
from lowtide.tables.encoder import TableEncoder, read_table
from lowtide.types import Floats, Ints
from table_frontiers import load

_ATTACKERS = ("logistic regression", "boosted trees", "network", "surface")
_FOLDS = 5


@dataclass(frozen=True)
class Case:
    """A table, its secret and its use."""

    name: str
    table: pa.Table
    secret: str
    utility: str | None


@dataclass(frozen=True)
class Outcome:
    """What was found of one release.

    Attributes:
        table: its name.
        rows: how many.
        own: the share of the cells that are the person's own.
        clean: AUC of the strongest attacker on the clean table.
        values: the same on the release, of attackers that read values.
        low: its lower end.
        high: its upper end.
        turned: the largest AUC of an attacker that turns its answers round.
        surface: AUC of the attacker that reads how often values occur, and how they are written.
        strongest: who reads most values.
        utility: AUC on clean rows, of models of clean rows.
        utility_release: the same learnt from and tested on the release.
        utility_clean: learnt from the release, tested on clean rows.
        seconds: to plan and release.
    """

    table: str
    rows: int
    own: float
    clean: float
    values: float
    low: float
    high: float
    turned: float
    surface: float
    strongest: str
    utility: float | None
    utility_release: float | None
    utility_clean: float | None
    seconds: float


def cases(folder: Path | None, *, quick: bool) -> list[Case]:
    """The election study that ships, and the tables that are there."""
    found = [Case("election study", load_survey(), "vote", None)]
    listed: list[tuple[str, str, str, str | None, tuple[str, ...]]] = [
        ("house votes", "house_votes_84.csv", "party", None, ()),
        ("German credit", "german_credit.csv", "sex", "credit_risk", ("personal_status_sex",)),
        ("COMPAS", "compas.csv", "race", "two_year_recid", ()),
        ("Adult", "adult.csv", "sex", "income", ("split",)),
    ]
    for name, file, secret, utility, drop in listed if folder is not None else ():
        try:
            table = load(folder, file, drop=drop)
        except LowtideError:
            continue
        found.append(Case(name, table, secret, utility))
    return (
        [Case(c.name, c.table.slice(0, 1500), c.secret, c.utility) for c in found[:3]]
        if quick
        else found
    )


def judge(case: Case, seed: int) -> Outcome:
    """Plan, release, attack."""
    start = time.perf_counter()
    made = plan(
        case.table, case.secret, policy="redraw", utility=case.utility, seed=seed, steps=160
    )
    with TemporaryDirectory() as folder:
        key = Path(folder) / "draws.key"
        key.write_text(f"{seed:064x}")  # so that the same seed draws the same
        done = release(case.table, made, ids=np.arange(len(case.table)), key_file=key)
    seconds = time.perf_counter() - start
    codes = read_classes(case.table[case.secret].to_pylist())[1]
    clean = case.table.drop_columns([case.secret])
    judged = [name for name in done.data.column_names if name in made.hider.mechanism.encoder.names]
    before, after = (attacked(table.select(judged), codes, seed) for table in (clean, done.data))
    values = [one for one in after.retrained if one.attacker != "surface"]
    best = max(values, key=lambda one: one.auc.value)
    useful: tuple[float | None, float | None, float | None] = (None, None, None)
    if case.utility is not None:
        useful = utility_of(clean.select(judged), done.data.select(judged), case.utility, seed)
    return Outcome(
        case.name,
        len(codes),
        1 - done.card.changed,
        max(one.auc.value for one in before.retrained),
        best.auc.value,
        best.auc.low,
        best.auc.high,
        1 - min(one.auc.value for one in values),
        next(one.auc.value for one in after.retrained if one.attacker == "surface"),
        best.attacker,
        *useful,
        seconds,
    )


def attacked(table: pa.Table, codes: Ints, seed: int) -> AttackReport:
    """What fresh attackers read, those of the audit and one of another make."""
    other = ExtraTreesClassifier(200, min_samples_leaf=5, random_state=seed)
    return attack(table, codes, attackers=[*_ATTACKERS, other], seed=seed, progress=False)


def utility_of(
    clean: pa.Table, released: pa.Table, name: str, seed: int
) -> tuple[float, float, float]:
    """AUC of what the other columns tell about one: clean, on the release, and from the release on
    clean rows.
    """
    truth = [read_classes(table[name].to_pylist())[1] for table in (clean, released)]
    rows, encoder = read_table(clean.drop_columns([name]))
    seen: tuple[Floats, Floats] = (rows, _encoded(encoder, released.drop_columns([name])))
    scores = np.zeros((3, len(truth[0])))
    for learn, test in StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(
        rows, truth[0]
    ):
        for k, (source, target) in enumerate(((0, 0), (1, 1), (1, 0))):
            model = HistGradientBoostingClassifier(random_state=seed).fit(
                seen[source][learn], truth[source][learn]
            )
            scores[k, test] = model.predict_proba(seen[target][test])[:, 1]
    first, second, third = (roc_auc_score(truth[t], scores[k]) for k, t in enumerate((0, 1, 0)))
    return float(first), float(second), float(third)


def _encoded(encoder: TableEncoder, table: pa.Table) -> Any:
    return encoder.encode(table)


def _useful(one: Outcome) -> str:
    return (
        ""
        if one.utility is None
        else f"{one.utility:.3f} → {one.utility_release:.3f} / {one.utility_clean:.3f}"
    )


def main() -> None:
    """Judge all tables."""
    options = parse_arguments(__doc__ or "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = []
        for case in cases(options.data, quick=options.quick):
            found.append(judge(case, options.seed))
            print(f"{case.name}: AUC {found[-1].clean:.3f} → {found[-1].values:.3f}", flush=True)
    print_table(
        "Redraw on real tables",
        [
            "table",
            "rows",
            "own cells",
            "AUC clean",
            "on the release",
            "turned round",
            "surface",
            "utility",
            "seconds",
        ],
        [
            (
                one.table,
                one.rows,
                f"{one.own:.1%}",
                f"{one.clean:.3f}",
                f"{one.values:.3f} [{one.low:.3f}, {one.high:.3f}]",
                f"{one.turned:.3f}",
                f"{one.surface:.3f}",
                _useful(one),
                f"{one.seconds:.0f}",
            )
            for one in found
        ],
        note=(
            "AUC of the strongest attacker, retrained on the release. Utility: AUC on clean rows →"
            " learnt from the release, tested on it / on clean rows."
        ),
    )
    if options.json:
        write_json(options.json, {"tables": [asdict(one) for one in found]})


if __name__ == "__main__":
    main()
