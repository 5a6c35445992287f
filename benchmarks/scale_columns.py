"""How scan, plan and release grow with the columns of a table."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lowtide import plan, release, scan
from scale_rows import exponent

_SECRET = "s"
_WIDTHS = (10, 50, 150, 500)
_QUICK = (10, 20)
_ROWS = 1_000
_RELEASED = 20_000
_SHORT = 1.0  # seconds


def wide(columns: int, rows: int, seed: int) -> pa.Table:
    """Five columns that tell much of the secret, three near copies of them, and others that tell
    nothing; and ids.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, columns, rows]))
    s = rng.integers(0, 2, rows)
    x = rng.normal(size=(rows, columns))
    x[:, :5] += np.linspace(2.0, 1.0, 5) * (s[:, None] - 0.5)
    x[:, 5:8] = x[:, :3] + 0.3 * rng.normal(size=(rows, 3))
    made: dict[str, Any] = {f"c{j}": x[:, j].round(3) for j in range(columns)}
    return pa.table({"id": np.arange(rows), **made, _SECRET: s})


def spent(what: Any) -> tuple[float, Any]:
    """Processor seconds of a call, and its answer; of short calls the least of three."""
    least = float("inf")
    for _ in range(3):
        start = time.process_time()
        found = what()
        least = min(least, time.process_time() - start)
        if least > _SHORT:
            break
    return least, found


def measure_columns(
    folder: Path, seed: int, *, quick: bool, most: int, widths: Sequence[int] = ()
) -> list[dict[str, Any]]:
    """Processor seconds of scan, of plans that redact and that draw anew, and of their releases."""
    warnings.simplefilter("ignore")
    usual, rows, more = (_QUICK, 300, 500) if quick else (_WIDTHS, _ROWS, min(most, _RELEASED))
    runs: dict[str, list[dict[str, float]]] = {}

    def note(what: str, columns: int, took: float) -> None:
        """Keep a figure, and say it at once: a run takes minutes."""
        runs.setdefault(what, []).append({"columns": columns, "processor": took})
        print(f"{what}, {columns} columns: {took:.1f} s", file=sys.stderr, flush=True)

    small = wide(10, 200, seed).drop_columns("id")
    scan(
        small, _SECRET, seed=seed, progress=False
    )  # what is imported at the first call is not counted
    release(
        small, plan(small, _SECRET, policy="redraw", seed=seed, progress=False), ids=np.arange(200)
    )
    for columns in widths or usual:
        few = wide(columns, rows, seed)
        many = wide(columns, more, seed + 1)
        took, _ = spent(
            lambda few=few: scan(few.drop_columns("id"), _SECRET, seed=seed, progress=False)
        )
        note("scan", columns, took)
        for policy in ("fixed", "redraw"):
            how: dict[str, Any] = {"policy": policy, "seed": seed, "progress": False}
            took, made = spent(
                lambda few=few, how=how: plan(few.drop_columns("id"), _SECRET, **how)
            )
            note(f"plan, {policy}", columns, took)
            took, _ = spent(
                lambda made=made, many=many: release(
                    many.drop_columns("id"), made, ids=np.arange(more)
                )
            )
            note(f"release, {policy}", columns, took)
    return [
        {
            "what": what,
            "rows": more if what.startswith("release") else rows,
            **{f"{one['columns']} columns, s": one["processor"] for one in found},
            "exponent": exponent(
                [one["columns"] for one in found], [one["processor"] for one in found]
            ),
            "runs": found,
        }
        for what, found in runs.items()
    ]
