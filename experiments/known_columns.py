"""What does a release add to what an attacker has anyway, and what does synthetic data teach about
real people?

Three tables. First: laws of two noisy copies of a secret bit, one of them known and the other
released; what is found to be added beside the exact conditional information. With --data, the
folder of `adult.csv` (secret: sex): what six columns of Adult add to several sets of known columns,
and what attackers learn from other people's rows and from synthetic rows of two kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lowtide.auditing.report import AuditReport
from lowtide.formatting import in_ascii, interval
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.table_files.reading import read
from lowtide.theory.measures import Lifts
from lowtide.types import Floats
from lowtide.verbs import audit
from lowtide.worlds.base import EnumerableWorld

_ATTACKERS = ("logistic regression", "boosted trees")
_FLIPS = (
    (0.3, 0.2),
    (0.1, 0.3),
    (0.2, 0.5),
    (0.5, 0.2),
)  # of what is known, and of what is released
# of each law
_ROWS = 5_000
_QUICK_ROWS = 1_000
# half of Adult; the other half are other people
_ADULT = 24_421
_QUICK_ADULT = 1_000
_RELEASED = ("age", "education_num", "hours_per_week", "occupation", "workclass", "income")
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "age, race": ("age", "race"),
    "age, occupation": ("age", "occupation"),
    "relationship, marital status": ("relationship", "marital_status"),
    "all that is released": _RELEASED,
}
_SHOWN = ("known", "right, known", "right, both", "added, nats")


def two_bits(known: float, released: float) -> EnumerableWorld:
    """Two copies of a fair secret bit, each flipped with its own probability."""
    atoms = np.array(list(np.ndindex(2, 2)), dtype=float)
    flips = np.array([known, released])
    joint = [0.5 * np.where(atoms == s, 1 - flips, flips).prod(axis=1) for s in (0, 1)]
    return EnumerableWorld(atoms, joint)


def conditional(law: Floats) -> float:
    """`I(S; Y | K)` from the probabilities (2, 4) of a secret and the pairs (k, y), in nats."""
    of_known = np.stack([law[:, :2].sum(axis=1), law[:, 2:].sum(axis=1)], axis=1)
    return Lifts.of_joint(law).information() - Lifts.of_joint(of_known).information()


def on_laws(rows: int, seed: int) -> list[list[Any]]:
    """Exact and found, for every law."""
    found = []
    for flips in _FLIPS:
        world = two_bits(*flips)
        x, s = world.sample(rows, seed)
        table = pa.table({"known": x[:, 0], "shown": x[:, 1], "secret": s})
        report = _audited(table.select(["shown"]), table, "secret", seed, known=("known",))
        added = report.added
        if added is None:
            raise AssertionError("an audit that was told what is known says what is added")
        inside = added.information.low <= conditional(world.joint) <= added.information.high
        found.append(
            [*flips, conditional(world.joint), _shown(added.information), "yes" if inside else "no"]
        )
    return found


def on_adult(table: pa.Table, seed: int) -> list[list[Any]]:
    """What six columns add, by what is known."""
    release = table.select(list(_RELEASED))
    found = []
    for name, known in _KNOWN.items():
        report = _audited(release, table, "sex", seed, known=known)
        added = report.added
        if added is None:
            raise AssertionError("an audit that was told what is known says what is added")
        right = (_shown(added.known.accuracy, 3), _shown(added.both.accuracy, 3))
        found.append([name, *right, _shown(added.information)])
    alone = report.attacks.headline
    return [["nothing", "", _shown(alone.accuracy, 3), _shown(alone.information)], *found]


def elsewhere(table: pa.Table, others: pa.Table, seed: int) -> list[list[Any]]:
    """What attackers learn from rows of other people, and from synthetic ones, about the people of
    a table.
    """
    rng = np.random.default_rng(seed)
    columns = [*_RELEASED, "sex"]
    real = table.select(columns)
    shown = others.select(columns)
    apart = pa.table(
        {name: shown[name].take(pa.array(rng.permutation(len(shown)))) for name in columns}
    )
    copies = real.take(pa.array(rng.integers(0, len(real), len(real))))
    kinds: dict[str, tuple[pa.Table, dict[str, Any]]] = {
        "rows of other people": (shown, {"rows": "other"}),
        "columns drawn independently": (apart, {"synthetic": True}),
        "these people, drawn again": (copies, {"synthetic": True}),
    }
    found = []
    for name, (release, options) in kinds.items():
        report = _audited(release, real, "sex", seed, **options)
        here = report.attacks.headline
        control = report.attacks.headline_clean
        if control is None:
            raise AssertionError("an attack on other rows has its control")
        found.append(
            [
                name,
                _shown(here.accuracy, 3),
                _shown(control.accuracy, 3),
                report.attacks.guess.accuracy.value,
            ]
        )
    return found


def _audited(
    release: pa.Table, reference: pa.Table, secret: str, seed: int, **options: Any
) -> AuditReport:
    return audit(
        release, reference, secret, attackers=_ATTACKERS, seed=seed, progress=False, **options
    )


def _shown(estimate: Any, digits: int = 4) -> str:
    return in_ascii(interval(estimate, digits))


def _adult(data: Path, rows: int, seed: int) -> tuple[pa.Table, pa.Table]:
    """So many rows of Adult, and as many others."""
    table = read(data / "adult.csv").drop_columns(["split"])
    order = np.random.default_rng(seed).permutation(len(table))
    return table.take(pa.array(np.sort(order[:rows]))), table.take(
        pa.array(np.sort(order[rows : 2 * rows]))
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run, print and write."""
    options = parse_arguments(__doc__ or "", argv)
    rows = _QUICK_ROWS if options.quick else _ROWS
    laws = on_laws(rows, options.seed)
    columns = ("flips of what is known", "of the release", "exact", "found", "inside")
    print_table(f"What is added, nats: {rows:,} rows of each law", columns, laws)
    results: dict[str, Any] = {"laws": laws}
    if options.data is not None:
        table, others = _adult(
            options.data, _QUICK_ADULT if options.quick else _ADULT, options.seed
        )
        everybody = pa.concat_tables([table, others])
        results["adult"] = on_adult(everybody, options.seed)
        title = f"Adult, {len(everybody):,} rows: what {', '.join(_RELEASED)} add about sex"
        print_table(title, _SHOWN, results["adult"])
        results["elsewhere"] = elsewhere(table, others, options.seed)
        taught = ("attackers learn from", "right", "right, learnt from real rows", "blind")
        title = f"Adult: what they learn about the sex of {len(table):,} real people"
        print_table(title, taught, results["elsewhere"])
    if options.json is not None:
        write_json(options.json, results)


if __name__ == "__main__":
    main()
