"""Time and memory of the density of short texts: a fit, and the conditionals of every present term,
all sparse.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import numpy as np

from lowtide import TIDE, worlds
from lowtide.report.console import parse_arguments, print_table, write_json

_TRIM = 3.0
_FRESH = 5_000  # rows drawn after the fit, to compare with the exact density


def peak_gigabytes() -> float:
    """The most memory this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)


def measure(vocabulary: int, rows: int, seed: int) -> dict[str, Any]:
    """Fit texts of a world, ask about all present terms, and compare fresh texts with the exact
    density.
    """
    world = worlds.naive_bayes_text(vocabulary, 2)
    x, s = world.sample(rows, seed)
    before = peak_gigabytes()
    start = time.perf_counter()
    tide = TIDE(trim=_TRIM, random_state=seed).fit(x, s)
    fitted = time.perf_counter()
    tide.conditionals(x)
    done = time.perf_counter()
    peak = peak_gigabytes()
    fresh, secret = world.sample(_FRESH, seed + 1)
    held_out = tide.information(fresh, secret)
    error = np.abs(tide.density(fresh) - world.density(fresh).clip(-_TRIM, _TRIM)).mean()
    return {
        "rows": rows,
        "terms": vocabulary,
        "present terms": x.nnz,
        "critic": tide.artefact.report.chosen if tide.artefact.report else "",
        "seconds of the fit": fitted - start,
        "seconds of the conditionals": done - fitted,
        "peak memory, GB": peak,
        "of it before the fit, GB": before,
        "held-out information, nats": held_out.value,
        "its 95 % interval": f"{held_out.low:.4f} to {held_out.high:.4f}",
        "exact information, nats": world.information(),
        "mean |density - truth|, fresh texts, nats": float(error),
    }


def main() -> None:
    """Print the figures."""
    options = parse_arguments(__doc__ or "")
    vocabulary, rows = (2_000, 5_000) if options.quick else (24_657, 75_946)
    figures = measure(vocabulary, rows, options.seed)
    print_table(
        "Sparse texts",
        ["what", "figure"],
        list(figures.items()),
        note="exact density and ours trimmed at 3 nats",
    )
    if options.json:
        write_json(options.json, figures)


if __name__ == "__main__":
    main()
