"""What does synthetic data teach about real people? Audits of synthetic rows of Adult (secret:
sex).

Synthesisers learn from some people; attackers learn from the synthetic rows alone, and are tested
on other, real people, whose rows nothing was learnt from. The control learns from real rows. Four
kinds of synthetic rows: trees over the columns before (`peers.table_repair.synthesise`), the same
with the secret drawn apart, columns drawn independently, and a Gaussian copula by SDV where that is
installed. Last, rows that nobody can learn from, real ones neither: a secret drawn by a coin. The
verdict must tell "tells nothing" from "the attacker failed, even on clean rows".
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lowtide.errors import LowtideError
from lowtide.formatting import in_ascii, interval
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.table_files.reading import read
from lowtide.verbs import audit
from peers.table_repair import synthesise

_ATTACKERS = ("logistic regression", "boosted trees")
# to learn from, and as many to test on
_ROWS = 8_000
_QUICK_ROWS = 1_500
_SECRET = "sex"
Maker = Callable[[pa.Table, int], pa.Table]


def by_trees(table: pa.Table, seed: int) -> pa.Table:
    """As many rows, every column by a tree over those before it, the secret first."""
    first = table.select([_SECRET, *(name for name in table.column_names if name != _SECRET)])
    return synthesise(first, np.zeros(len(table), dtype=np.intp), seed=seed)


def by_trees_apart(table: pa.Table, seed: int) -> pa.Table:
    """The same of all columns but the secret, which is then drawn by its shares alone."""
    rest = table.drop_columns([_SECRET])
    made = synthesise(rest, np.zeros(len(table), dtype=np.intp), seed=seed)
    order = np.random.default_rng([seed, 3]).permutation(len(table))
    return made.append_column(_SECRET, table[_SECRET].take(pa.array(order)))


def independent(table: pa.Table, seed: int) -> pa.Table:
    """Every column shuffled by itself."""
    rng = np.random.default_rng([seed, 4])
    return pa.table(
        {
            name: table[name].take(pa.array(rng.permutation(len(table))))
            for name in table.column_names
        }
    )


def by_copula(table: pa.Table, seed: int) -> pa.Table:
    """A Gaussian copula, by SDV."""
    metadata = importlib.import_module("sdv.metadata").Metadata
    maker = importlib.import_module("sdv.single_table").GaussianCopulaSynthesizer
    people = {"people": table.to_pandas()}
    made = maker(metadata.detect_from_dataframes(people))
    np.random.seed(seed)  # noqa: NPY002 - what SDV draws from
    made.fit(people)
    drawn = made.sample(len(table))
    frame = drawn["people"] if isinstance(drawn, dict) else drawn
    return pa.Table.from_pandas(frame[table.column_names], preserve_index=False).cast(table.schema)


def releases(table: pa.Table, seed: int) -> Iterator[tuple[str, Callable[[], pa.Table]]]:
    """Every kind of synthetic rows, and what makes it."""
    makers: dict[str, Maker] = {
        "trees over the columns before": by_trees,
        "trees, the secret drawn apart": by_trees_apart,
        "columns drawn independently": independent,
    }
    if importlib.util.find_spec("sdv") is not None:
        makers["Gaussian copula (SDV)"] = by_copula
    for name, maker in makers.items():
        yield name, lambda maker=maker: maker(table, seed)  # type: ignore[misc]


def coin(table: pa.Table, seed: int) -> pa.Table:
    """The table with a secret that goes with nothing."""
    drawn = np.random.default_rng([seed, 5]).random(len(table)) < 1 / 2
    place = table.column_names.index(_SECRET)
    return table.set_column(place, _SECRET, pa.array(np.where(drawn, "heads", "tails")))


def audited(name: str, release: pa.Table, real: pa.Table, seed: int, seconds: float) -> list[Any]:
    """What attackers learn from a release about real people, and the verdict on it."""
    report = audit(
        release,
        real,
        _SECRET,
        synthetic=True,
        attackers=list(_ATTACKERS),
        seed=seed,
        progress=False,
    )
    here = report.attacks.headline
    control = report.attacks.headline_clean
    if control is None:
        raise LowtideError("an audit of synthetic rows has its control")
    right = [in_ascii(interval(one.accuracy, 3)) for one in (here, control)]
    return [
        name,
        *right,
        f"{report.attacks.guess.accuracy.value:.3f}",
        str(report.verdict),
        f"{seconds:.1f}",
    ]


def adult(data: Path, rows: int, seed: int) -> tuple[pa.Table, pa.Table]:
    """So many people to learn from, and as many others."""
    table = read(data / "adult.csv").drop_columns(["split", "fnlwgt"])
    order = np.random.default_rng(seed).permutation(len(table))
    return table.take(pa.array(np.sort(order[:rows]))), table.take(
        pa.array(np.sort(order[rows : 2 * rows]))
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Synthesise, audit, print and write."""
    options = parse_arguments(__doc__ or "", argv)
    if options.data is None:
        raise LowtideError("these audits are of adult.csv; name its folder with --data")
    learnt, real = adult(options.data, _QUICK_ROWS if options.quick else _ROWS, options.seed)
    found = []
    for name, make in releases(learnt, options.seed):
        start = time.process_time()
        made = make()
        found.append(audited(name, made, real, options.seed, time.process_time() - start))
    found.append(
        audited(
            "a coin for a secret", coin(learnt, options.seed), coin(real, options.seed + 1), 0, 0.0
        )
    )
    columns = ["synthetic rows", "right", "right, learnt from real rows", "blind"]
    title = (
        f"Adult, {len(real):,} people: how often attackers guess the sex who learn from synthetic"
        " rows"
    )
    print_table(title, [*columns, "seconds to make"], [[*one[:4], one[5]] for one in found])
    for one in found:
        print(f"{one[0]}: {one[4]}")
    if options.json is not None:
        write_json(
            options.json,
            {
                "audits": [
                    dict(zip([*columns, "verdict", "seconds"], one, strict=True)) for one in found
                ]
            },
        )


if __name__ == "__main__":
    main()
