"""How Lowtide grows: releases by rows, processes and images, and scans, plans and releases by
columns.

The whole run takes about an hour; `--parts redact,faces` and `--plans noise` do some of it, and
`--most 1000000` leaves out larger files; `--widths 10,50,150` chooses the columns of the part
`columns`. With `--json`, parts that are already in the file and are not asked for stay there, and a
figure is drawn beside it. Time is that of the processor, which other work on the machine hardly
changes, unless it says "by the clock".
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import scale_columns
import scale_driver
import scale_faces
import scale_rows
from lowtide.report.console import parse_arguments, print_table, write_json

Results = list[dict[str, Any]]

_PARTS: dict[str, Callable[..., Results]] = {
    **{name: partial(scale_rows.measure_rows, name=name) for name in scale_rows.PLANS},
    "workers": scale_rows.measure_workers,
    "ray": scale_rows.measure_ray,
    "columns": scale_columns.measure_columns,
    "faces": scale_faces.measure_faces,
    "driver": scale_driver.measure_driver,
}
_TITLES = {
    "redact": (
        "Releasing a table of 15 columns, one process",
        "must be: exponent <= 1.05, memory ratio <= 1.2",
    ),
    "workers": ("Two processes against one", "must be: speed-up >= 1.6"),
    "ray": (
        "Two workers of Ray against two processes",
        "must be: throughput >= 0.8, the same files",
    ),
    "columns": ("Columns", "exponent: of the processor time over columns, where it grows fastest"),
    "faces": ("Releasing a folder of faces", "must be: memory ratio <= 1.2, release / plain <= 2"),
    "driver": ("What one process does for a release in parts", "seconds of the processor"),
}


def show(name: str, results: Results) -> None:
    """Print one part as a table with a row for each figure."""
    shown = [key for key, value in results[0].items() if not isinstance(value, list)]
    title, note = _TITLES.get(name, _TITLES[scale_rows.PLANS[0]])
    first, *rest = shown
    rows = [[key, *(one[key] for one in results)] for key in rest]
    print_table(title, [first, *(str(one[first]) for one in results)], rows, note=note)


def figure(found: Mapping[str, Any], path: Path) -> None:
    """Processor time over rows, columns and images, and peak memory over rows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # an extra
    from matplotlib.figure import Figure

    panels = 3 if "columns" in found else 2
    canvas = Figure(figsize=(3.4 * panels, 3.4), layout="constrained")
    FigureCanvasAgg(canvas)
    time, memory, *more = canvas.subplots(1, panels)
    for one in [one for name in (*scale_rows.PLANS, "faces") for one in found.get(name, [])]:
        size = "rows" if "rows" in one["runs"][0] else "images"
        label = one["plan"] if size == "rows" else "faces, redact"
        at = [run[size] for run in one["runs"]]
        time.loglog(at, [run["processor"] for run in one["runs"]], "o-", label=label)
        memory.semilogx(at, [run["peak"] for run in one["runs"]], "o-", label=label)
    time.set(xlabel="rows, or images", ylabel="seconds of the processor", title="time of a release")
    memory.set(xlabel="rows, or images", ylabel="MB", title="peak memory of a release")
    memory.set_ylim(0, 1.1 * memory.get_ylim()[1])
    for columns in more:
        for one in found["columns"]:
            at, took = ([run[what] for run in one["runs"]] for what in ("columns", "processor"))
            columns.loglog(at, took, "o-", label=one["what"])
        columns.set(xlabel="columns", ylabel="seconds of the processor", title="time by columns")
    for axes in (time, memory, *more):
        axes.grid(alpha=0.3)
        # Over columns a release is far below the rest, and there is room in between.
        place: dict[str, Any] = (
            {"loc": "center", "bbox_to_anchor": (0.5, 0.42), "ncols": 2} if axes in more else {}
        )
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize="small", **place)
    canvas.savefig(path)


def machine() -> dict[str, Any]:
    """Where it was measured."""
    return {
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.machine(),
    }


def main() -> None:
    """Do the parts that are asked for, one after the other."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--parts", default=",".join(_PARTS))
    parser.add_argument(
        "--plans", default=",".join(scale_rows.PLANS), help="of the parts workers and ray"
    )
    parser.add_argument(
        "--widths", default="", help="columns of the tables of the part columns, such as 10,50,150"
    )
    parser.add_argument("--most", type=int, help="rows and images at most")
    chosen, rest = parser.parse_known_args()
    options = parse_arguments(__doc__ or "", rest)
    names = chosen.parts.split(",")
    unknown = [name for name in names if name not in _PARTS]
    if unknown:
        sys.exit(f"--parts: {', '.join(unknown)} is not one of {', '.join(_PARTS)}")
    found: dict[str, Any] = {"machine": machine()}
    if options.json and options.json.exists():
        found = {**json.loads(options.json.read_text(encoding="utf-8")), **found}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in names:
            some: dict[str, Any] = (
                {"plans": chosen.plans.split(",")} if name in ("workers", "ray") else {}
            )
            if name == "columns" and chosen.widths:
                some["widths"] = [int(width) for width in chosen.widths.split(",")]
            found[name] = _PARTS[name](
                folder, options.seed, quick=options.quick, most=chosen.most or 10**9, **some
            )
            show(name, found[name])
            if options.json:
                write_json(options.json, found)
    if options.json:
        figure(found, options.json.with_suffix(".svg"))


if __name__ == "__main__":
    main()
