"""Processor time of planning a table by its columns: how it grows, and whether the columns that
tell are hidden.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from lowtide import TIDE, Obfuscator
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.types import Bools, Floats, Ints

_BUDGET = 0.02  # nats
_LAWS = ("few", "many")
_ROUND = 0.5  # ε of the paper's rule


def draw(law: str, columns: int, rows: int, seed: int) -> tuple[Floats, Ints, Bools]:
    """A secret, columns of which some tell it and the others are noise, and the mask of those that
    tell.

    Of `few` five columns tell much and three are near copies of them; of `many` every fifth tells a
    little.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, columns]))
    s = rng.integers(0, 2, rows)
    x = rng.normal(size=(rows, columns))
    order = rng.permutation(columns)
    telling = np.zeros(columns, dtype=bool)
    if law == "few":
        x[:, order[:5]] += np.linspace(2.0, 1.0, 5) * (s[:, None] - 0.5)
        x[:, order[5:8]] = x[:, order[:3]] + 0.3 * rng.normal(size=(rows, 3))
        telling[order[:8]] = True
    else:
        telling[order[: columns // 5]] = True
        x[:, telling] += 0.4 * (s[:, None] - 0.5)
    return x, s, telling


def measure(
    law: str, columns: int, rows: int, seed: int, options: dict[str, Any]
) -> dict[str, Any]:
    """Plan one table."""
    x, s, telling = draw(law, columns, rows, seed)
    start = time.process_time()
    hider = Obfuscator(TIDE(random_state=seed, progress=False), **options).fit(x, s)
    seconds = time.process_time() - start
    flags = hider.flags(x, ids=np.arange(rows)).mean(axis=0)
    return {
        "policy": options["policy"],
        "mechanism": options["mechanism"],
        "columns that tell": law,
        "columns": columns,
        "rows": rows,
        "processor seconds": seconds,
        "telling hidden": float(flags[telling].mean()),
        "others hidden": float(flags[~telling].mean()),
        "left at most, nats": hider.check_.measured.high,
    }


def growth(found: list[dict[str, Any]]) -> float:
    """The slope of log seconds against log columns."""
    if len(found) < 2:
        return float("nan")
    columns, seconds = (
        np.log([run[name] for run in found]) for name in ("columns", "processor seconds")
    )
    return float(np.polyfit(columns, seconds, 1)[0])


def main() -> None:
    """Print the figures."""
    options = parse_arguments(__doc__ or "")
    widths, rows = ((80, 120), 200) if options.quick else ((125, 250, 500), 1_000)
    fixed = {"policy": "fixed", "mechanism": "redact", "budget": _BUDGET}
    jobs = [
        (law, columns, rows, fixed)
        for law in _LAWS[: 1 if options.quick else 2]
        for columns in widths
    ]
    if not options.quick:
        jobs += [
            ("few", 500, 200, fixed),
            ("few", 500, rows, {**fixed, "mechanism": "gaussian", "lam": 0.5}),
            (
                "few",
                500,
                rows,
                {"policy": "sequential", "past": "raw", "mechanism": "redact", "epsilon": _ROUND},
            ),
        ]
    found = [measure(law, columns, n, options.seed, how) for law, columns, n, how in jobs]
    exponents = {
        law: growth([run for run in found if run["columns that tell"] == law][: len(widths)])
        for law in _LAWS[: 1 if options.quick else 2]
    }
    note = ", ".join(
        f"{law}: seconds grow as columns^{power:.2f}" for law, power in exponents.items()
    )
    print_table(
        "Planning wide tables", list(found[0]), [list(run.values()) for run in found], note=note
    )
    if options.json:
        write_json(options.json, {"runs": found, "growth": exponents})


if __name__ == "__main__":
    main()
