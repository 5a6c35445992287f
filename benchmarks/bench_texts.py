"""Time and memory of the density of texts: a fit with writers kept apart, all present terms, the
table, a text, a page.

Texts are drawn from a world; with --data they are the tweets of the file congress_tweets.csv.gz in
that folder.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lowtide import TIDE, worlds
from lowtide.browser.page import page_of
from lowtide.estimate.density import Density
from lowtide.report.console import parse_arguments, print_table, shortest, write_json
from lowtide.texts.reading import read_texts
from lowtide.texts.scan import scan_terms
from lowtide.texts.terms import TermOptions

_FILE = "congress_tweets.csv.gz"
_EACH = 75  # texts of a writer in the world
_ASKED = 200  # texts asked about one by one
_BUDGET = 0.5  # nats
_STARTS = 5  # of the program, the first of which may write its bytecode


def peak_gigabytes() -> float:
    """The most memory this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)


def drawn(vocabulary: int, rows: int, seed: int) -> tuple[list[str], list[Any], list[Any]]:
    """Texts of a world, with their classes and writers."""
    world = worlds.naive_bayes_text(vocabulary, 2)
    sequences, s = world.sample_sequences(rows, seed)
    return (
        [world.text(words) for words in sequences],
        s.tolist(),
        (np.arange(rows) // _EACH).tolist(),
    )


def tweets(folder: Path, rows: int, seed: int) -> tuple[list[str], list[Any], list[Any]]:
    """Some of the training tweets, with the parties and numbers of their authors."""
    read = read_texts(folder / _FILE, text="text", secret="party", group="author")
    training = np.flatnonzero(np.array(read.others["split"].to_pylist()) == "train")
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0xBE7E]))
    some = read.take(np.sort(rng.permutation(training)[:rows]))
    if some.secret is None or some.groups is None:
        raise SystemExit(f"{_FILE} must have the columns party and author")
    return list(some.texts), some.secret.to_pylist(), some.groups.to_pylist()


def measure(
    texts: list[str], s: list[Any], groups: list[Any], *, terms: int, seed: int
) -> dict[str, Any]:
    """Fit, ask about all present terms, make the table, and ask about single texts."""
    before = peak_gigabytes()
    start = time.perf_counter()
    tide = TIDE(TermOptions(most=terms), random_state=seed).fit(texts, s, groups=groups)
    fitted = time.perf_counter() - start
    peak = peak_gigabytes()
    density = tide.artefact
    if (
        not isinstance(density, Density)
        or density.report is None
        or density.report.held_out is None
    ):
        raise SystemExit("the fit has left no report")
    rows: Any = density.encoder.encode(texts)
    held_out = density.report.held_out.bits
    return {
        "texts": len(texts),
        "writers": len(set(groups)),
        "terms": tide.n_features_in_,
        "present terms": int(rows[:, : tide.n_features_in_].nnz),
        "critic": density.report.chosen,
        "seconds of the fit": fitted,
        "peak memory, GB": peak,
        "of it before the fit, GB": before,
        "seconds to count terms": shortest(lambda: density.encoder.encode(texts), 1),
        "seconds of the conditionals": shortest(lambda: density.conditionals(rows)),
        "seconds of the table of terms": shortest(
            lambda: scan_terms(density, rows, s, groups=groups), 1
        ),
        **explained(density, texts[:_ASKED]),
        "CPU seconds of one `lowtide warn`": warned(density, texts[0]),
        **{
            f"MB of a page that warns, {bits} bits": len(page_of(density, bits=bits)) / 1e6
            for bits in (4, 8)
        },
        "held-out information, bits": held_out.value,
        "its 95 % interval": f"{held_out.low:.4f} to {held_out.high:.4f}",
        "training information, bits": density.report.training / np.log(2),
    }


def explained(density: Density, texts: list[str]) -> dict[str, float]:
    """Milliseconds to explain one text, and to find a remedy for it, too."""
    found = {}
    for name, budget in (("without a remedy", None), ("with one", _BUDGET)):
        times = [1e3 * shortest(partial(density.explain, text, budget=budget), 1) for text in texts]
        for share in (0.5, 0.95):
            found[f"ms to explain a text {name}, {share:.0%} within"] = float(
                np.quantile(times, share)
            )
    return found


def warned(density: Density, text: str) -> float:
    """CPU seconds of one `lowtide warn`, from the start of the program to its end; the least of
    some.
    """
    with tempfile.TemporaryDirectory() as folder:
        density.save(Path(folder) / "model")
        command = [
            sys.executable,
            "-m",
            "lowtide",
            "warn",
            text,
            "--model",
            str(Path(folder) / "model"),
        ]
        taken = []
        for _ in range(_STARTS):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - ours
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def main() -> None:
    """Print the figures."""
    options = parse_arguments(__doc__ or "")
    vocabulary, rows = (2_000, 5_000) if options.quick else (24_657, 75_946)
    given = (
        drawn(vocabulary, rows, options.seed)
        if options.data is None
        else tweets(options.data, rows, options.seed)
    )
    figures = measure(*given, terms=vocabulary, seed=options.seed)
    print_table("Texts", ["what", "figure"], list(figures.items()))
    if options.json:
        write_json(options.json, figures)


if __name__ == "__main__":
    main()
