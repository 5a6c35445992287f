"""Speed and memory of releasing a large table by a redraw plan: seconds a row, and how both grow
with the rows.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench_release import peak_megabytes, processor_seconds
from lowtide import Plan, plan, release
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.table_files.writing import Writer

_SECRET = "sex"
_SAMPLE = 2_000  # rows that the plan is made from
_BATCH = 65_536  # rows written at once
_CATEGORIES = {"workclass": 8, "education": 16, "occupation": 14, "relationship": 6, "country": 40}
# a row, and what 10 times the rows may take; both are asked for
_MOST_MICROSECONDS = 200.0
_MEMORY = 1.3


def draw(start: int, n: int, seed: int) -> pa.Table:
    """People like those of the Adult table: 14 columns of which most lean with the secret, ids and
    the secret.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, start, 15]))
    s = (rng.random(n) < 0.67).astype(np.int64)
    columns: dict[str, Any] = {
        "id": np.arange(start, start + n),
        "age": rng.integers(17, 88, n) + 2 * s,
        "years": np.clip(rng.normal(10 + 0.2 * s, 2.5, n).round().astype(int), 1, 16),
        "capital": rng.integers(1, 1_000, n) * 100 * (rng.random(n) < 0.06 + 0.04 * s),
        "loss": rng.integers(1, 40, n) * 100 * (rng.random(n) < 0.04 + 0.02 * s),
        "hours": np.clip(rng.normal(36 + 6 * s, 10, n).round().astype(int), 1, 99),
        "household": rng.integers(1, 9, n),
        "weight": rng.lognormal(12, 0.5, n).round(),
        "wage": rng.normal(20 + 2 * s, 5, n).round(2),
        "score": rng.random(n).round(6),
    }
    for name, k in _CATEGORIES.items():
        lean = np.random.default_rng([seed, k]).normal(0, 0.4, (2, k))
        shares = np.cumsum(np.exp(lean) / np.exp(lean).sum(axis=1, keepdims=True), axis=1)
        place = (rng.random(n)[:, None] > shares[s][:, :-1]).sum(axis=1)
        columns[name] = np.array([f"{name} number {j}" for j in range(k)])[place]
    columns[_SECRET] = np.array(["Female", "Male"])[s]
    return pa.table(columns)


def write_rows(path: Path, rows: int, seed: int) -> None:
    """Write a file of people."""
    with Writer(path, draw(0, 1, seed).schema) as writer:
        for start in range(0, rows, _BATCH):
            writer.write(draw(start, min(_BATCH, rows - start), seed))


def work(source: Path, target: Path, made: Path) -> dict[str, float]:
    """Release a file: seconds, seconds of the processor, the most memory before and after, the
    share changed.
    """
    plan_ = Plan.load(made)
    before = peak_megabytes()
    start = time.perf_counter()
    spent = processor_seconds()
    done = release(
        source, plan_, target, ids="id", key_file=made.with_name("draws.key"), progress=False
    )
    return {
        "seconds": time.perf_counter() - start,
        "processor": processor_seconds() - spent,
        "before": before,
        "peak": peak_megabytes(),
        "changed": done.card.changed,
    }


def alone(source: Path, target: Path, made: Path) -> dict[str, float]:
    """The same in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, source, target, made).result()


def main() -> None:
    """Print the figures of both sizes."""
    options = parse_arguments(__doc__ or "")
    sizes = (2_000, 20_000) if options.quick else (100_000, 1_000_000)
    found = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = Path(folder) / "plan"
        sample = draw(10_000_000, _SAMPLE, options.seed)
        plan(sample, _SECRET, policy="redraw", steps=20, seed=options.seed, progress=False).save(
            made
        )
        for rows in sizes:
            source = Path(folder) / f"{rows}.parquet"
            target = Path(folder) / "released.parquet"
            write_rows(source, rows, options.seed)
            found.append({"rows": rows, **alone(source, target, made)})
            found[-1]["microseconds a row"] = 1e6 * found[-1]["seconds"] / rows
            found[-1]["of the processor"] = 1e6 * found[-1]["processor"] / rows
    memory = found[1]["peak"] / found[0]["peak"]
    growth = found[1]["microseconds a row"] / found[0]["microseconds a row"]
    print_table(
        "Releasing a table by a redraw plan",
        ["what", *(f"{rows:,} rows" for rows in sizes)],
        [[name, *(round(one[name], 3) for one in found)] for name in found[0]],
        note=(
            f"memory ratio {memory:.2f}, time per row grows by {growth:.2f}; must be: at most"
            f" {_MEMORY} and {_MOST_MICROSECONDS:g} µs a row"
        ),
    )
    if options.json:
        write_json(
            options.json,
            {"results": found, "memory ratio": memory, "growth of the time a row": growth},
        )


if __name__ == "__main__":
    main()
