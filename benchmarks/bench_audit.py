"""Processor time of an audit with all measures, against fitting and asking each of its attackers
once.

With --data, the folder of `adult.csv`, the table is Adult (48,842 x 14, secret: sex); without it,
50,000 people like those. Five columns of the release are hidden. Then the same audit by two
processes: on a busy machine the clock says little, so that the seconds of the processor of this
process and of the busier of the two stand for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench_redraw import draw
from bench_release import processor_seconds
from lowtide import audit, modalities
from lowtide.attack.attackers import shown_to
from lowtide.engines.mapping import over_processes, spread_over
from lowtide.labels import read_classes
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.splits import set_aside, stream
from lowtide.spread import mapping_by
from lowtide.table_files.reading import read

_SECRET = "sex"
_HIDDEN = 5  # columns, the first ones
_ROWS = 50_000
_QUICK_ROWS = 2_000
_TESTED = 0.2  # of the rows
_MOST_SECONDS = 240.0  # of the processor: two minutes of two cores


def people(folder: Path | None, rows: int, seed: int) -> pa.Table:
    """Adult, or people like those; the secret and 14 columns of each."""
    if folder is None:
        return draw(0, rows, seed).drop_columns(["id"])
    return read(folder / "adult.csv").drop_columns(["split"]).slice(0, rows)


def hidden(table: pa.Table) -> pa.Table:
    """The columns but the secret, with nothing in the first ones."""
    shown = table.drop_columns([_SECRET])
    for place, name in enumerate(shown.column_names[:_HIDDEN]):
        nothing = pc.if_else(True, pa.scalar(None, shown[name].type), shown[name])
        shown = shown.set_column(place, name, nothing)
    return shown


def plain_seconds(release: pa.Table, secret: pa.ChunkedArray, seed: int) -> float:
    """Seconds of the processor to train every attacker of an audit once, and to ask it about the
    other rows.
    """
    kind = modalities.of(release)
    rows = kind.rows(release).data
    _, codes = read_classes(secret.to_numpy())
    split = set_aside(codes, None, _TESTED, seed=stream(seed, "attack panel"))
    start = processor_seconds()
    log_prior = np.log(np.bincount(codes[split.kept]) / len(split.kept))
    for maker in kind.attackers.values():
        learner = maker(seed)
        shown = shown_to(learner, rows)
        held = shown[split.aside], codes[split.aside]
        path = learner.fit(shown[split.kept], codes[split.kept], log_prior, held=held)
        path.scores(held[0])
    return processor_seconds() - start


class Timed:
    """A function that says which process called it, and how many seconds of the processor that has
    spent so far.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, item: Any) -> tuple[Any, int, float]:
        """What the function says, the process, and its seconds."""
        return self._function(item), os.getpid(), time.process_time()


def seconds_of_two(release: pa.Table, table: pa.Table, seed: int) -> tuple[float, float, str]:
    """Seconds of the processor of this process and of the busier of two workers; and what the audit
    says.
    """
    spent: dict[int, float] = {}

    def timed(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        for found, process, seconds in over_processes(2, Timed(function), items):
            spent[process] = max(seconds, spent.get(process, 0.0))
            yield found

    start = time.process_time()
    with spread_over(2), mapping_by(timed):
        report = audit(release, table, _SECRET, seed=seed, progress=False)
    return time.process_time() - start, max(spent.values()), report.text()


def main() -> None:
    """Time an audit in one process, what it rests on, and the same in two."""
    options = parse_arguments(__doc__ or "")
    table = people(options.data, _QUICK_ROWS if options.quick else _ROWS, options.seed)
    release = hidden(table)
    plain = plain_seconds(release, table[_SECRET], options.seed)
    start = processor_seconds()
    report = audit(release, table, _SECRET, seed=options.seed, progress=False)
    said = len(report.text()) + len(report.to_json())  # what is computed only when somebody asks
    spent = processor_seconds() - start
    own, busier, again = seconds_of_two(release, table, options.seed)
    results = {
        "rows": len(table),
        "columns": release.num_columns,
        "measures": len(report.measures),
        "audit, s of the processor": spent,
        "each attacker once, s of the processor": plain,
        "ratio": spent / plain,
        "by two processes: this one, s of the processor": own,
        "by two processes: the busier of them, s of the processor": busier,
        "times as fast, where each has a processor": spent / (own + busier),
        "the same report": again == report.text(),
    }
    note = (
        f"must be: an audit of 50,000 rows in at most {_MOST_SECONDS:g} s of the processor, two"
        " minutes of two cores"
    )
    print_table(
        "An audit with all measures",
        ["what", ""],
        [[name, one] for name, one in results.items()],
        note=note,
    )
    if options.json:
        write_json(
            options.json, {**results, "characters said": said, "most seconds": _MOST_SECONDS}
        )


if __name__ == "__main__":
    main()
