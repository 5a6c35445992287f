"""Speed of the density: one pass for all prefixes, and time and memory of a fit to many rows and to
more than are used.

The prefixes of a fitted density are timed against the density of the same rows, for 1,024 features
of one column and for 1,024 patches of 2×2 pixels in colour, and compared with 32 separate
evaluations of them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from lowtide import TIDE, Density
from lowtide.features import Features, one_per_column, patches
from lowtide.report.console import parse_arguments, print_table, shortest, write_json

_GROWTH = """
import re, sys, time, warnings
from pathlib import Path
import numpy as np
from lowtide import TIDE
warnings.simplefilter("ignore")
path, rows, columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
x = np.memmap(path, dtype=np.float32, mode="r", shape=(rows, columns))
s = (np.arange(rows) % 2).astype(int)
start = time.perf_counter()
TIDE(max_steps=400).fit(x, s)
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(time.perf_counter() - start, int(peak) / 1024)
"""


def fitted(features: Features, seed: int) -> tuple[Density, np.ndarray]:
    """A density fitted to rows in which every tenth feature tells a little."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, 600)
    leakage = np.isin(features.groups, np.arange(0, len(features), 10))
    x = rng.standard_normal((600, len(features.groups))) + 0.3 * s[:, None] * leakage
    tide = TIDE(features=features, max_steps=160, folds=2, random_state=seed).fit(
        x.astype(np.float32), s
    )
    if not isinstance(tide.artefact, Density):
        raise TypeError("a finite secret gives a Density")
    return tide.artefact, rng.standard_normal((256, len(features.groups))).astype(np.float32)


def one_pass(name: str, features: Features, seed: int) -> dict[str, float | str]:
    """Prefixes against the density, and against separate evaluations."""
    density, rows = fitted(features, seed)
    m = len(features)
    some = np.linspace(0, m, 32).astype(int)
    whole = shortest(lambda: density.density(rows))
    prefixes = shortest(lambda: density.prefixes(rows))
    start = time.perf_counter()
    separate = [density.observed(rows, np.arange(m) < j) for j in some]
    apart = (time.perf_counter() - start) * (m + 1) / len(some)
    gap = float(np.abs(np.stack(separate, axis=1) - density.prefixes(rows)[:, some]).max())
    return {
        "features": name,
        "prefixes / density": prefixes / whole,
        "one by one / prefixes": apart / prefixes,
        "gap": gap,
    }


def growth(rows: int, columns: int) -> tuple[float, float]:
    """Seconds and peak memory (MB) of a fit on a memory map, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.dat"
        x = np.memmap(path, dtype=np.float32, mode="w+", shape=(rows, columns))
        rng = np.random.default_rng(0)
        for start in range(0, rows, 50_000):
            part = x[start : start + 50_000]
            part[:] = rng.standard_normal(part.shape)
            part[:, 0] += (start + np.arange(len(part))) % 2
        x.flush()
        command = [sys.executable, "-c", _GROWTH, str(path), str(rows), str(columns)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    elapsed, memory = map(float, out.split())
    return elapsed, memory


def main() -> None:
    """Print the ratios."""
    options = parse_arguments(__doc__ or "")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    side = 16 if options.quick else 64
    count = (side // 2) ** 2
    kinds = {
        f"{count} columns": one_per_column(count),
        f"{count} patches of 12 columns": patches(side, side, 2),
    }
    passes = [one_pass(name, features, options.seed) for name, features in kinds.items()]
    print_table(
        "One pass for all prefixes", list(passes[0]), [list(row.values()) for row in passes]
    )
    sizes = (30_000, 60_000) if options.quick else (100_000, 1_000_000)
    runs = {rows: growth(rows, 20) for rows in sizes}
    table = [[f"{rows:,}", *runs[rows]] for rows in sizes]
    print_table("A fit on a memory map of 20 columns", ["rows", "seconds", "peak MB"], table)
    if options.json:
        write_json(
            options.json, {"one_pass": passes, "growth": {str(rows): runs[rows] for rows in sizes}}
        )


if __name__ == "__main__":
    main()
