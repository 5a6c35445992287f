"""Time and memory of the density of texts: a fit with writers kept apart, all present terms, the table, a text, a page.

Texts are drawn from a world; with --data they are the tweets of the file congress_tweets.csv.gz in that folder. Fits on
streams follow: their peak memory as texts of a world grow tenfold, and with --data the information about writers whose
tweets were not trained on, of a fit on a stream of all training tweets and of one from memory.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lowtide import TIDE, worlds
from lowtide.browser.page import page_of
from lowtide.density.artefact import Density
from lowtide.report.console import parse_arguments, print_table, shortest, write_json
from lowtide.texts.reading import read_texts
from lowtide.texts.scan import scan_terms
from lowtide.texts.terms import TermOptions

_FILE = "congress_tweets.csv.gz"
_EACH = 75  # texts of a writer in the world
_AT_ONCE = 10_000  # texts drawn, or given, at once
_ASKED = 200  # texts asked about one by one
_BUDGET = 0.5  # nats
_STEPS = 256  # of training on a stream, whatever its length: memory does not depend on it
_STREAM = """
import re, sys, time, warnings
from pathlib import Path
from lowtide import TIDE
from lowtide.table_files.reading import batches
from lowtide.texts.terms import TermOptions
warnings.simplefilter("ignore")
path, terms, steps = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
class Texts:
    def __iter__(self):
        for table in batches(path):
            yield table["text"], table["s"], table["writer"]
start = time.process_time()
TIDE(TermOptions(most=terms), max_steps=steps, progress=False).fit(Texts())
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
print(time.process_time() - start, peak)
"""
_STARTS = 5  # of the program, the first of which may write its bytecode


def peak_gigabytes() -> float:
    """The most memory this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)


def drawn(vocabulary: int, rows: int, seed: int) -> tuple[list[str], list[Any], list[Any]]:
    """Texts of a world, with their classes and writers."""
    world = worlds.naive_bayes_text(vocabulary, 2)
    sequences, s = world.sample_sequences(rows, seed)
    return [world.text(words) for words in sequences], s.tolist(), (np.arange(rows) // _EACH).tolist()


def tweets(folder: Path, rows: int, seed: int) -> tuple[list[str], list[Any], list[Any]]:
    """Some of the training tweets, with the parties and numbers of their authors."""
    read = read_texts(folder / _FILE, text="text", secret="party", group="author")
    training = np.flatnonzero(np.array(read.others["split"].to_pylist()) == "train")
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0xBE7E]))
    some = read.take(np.sort(rng.permutation(training)[:rows]))
    if some.secret is None or some.groups is None:
        raise SystemExit(f"{_FILE} must have the columns party and author")
    return list(some.texts), some.secret.to_pylist(), some.groups.to_pylist()


def measure(texts: list[str], s: list[Any], groups: list[Any], *, terms: int, seed: int) -> dict[str, Any]:
    """Fit, ask about all present terms, make the table, and ask about single texts."""
    before, start = peak_gigabytes(), time.perf_counter()
    with warnings.catch_warnings():
        # That training writers are known better than new ones is expected, and in the figures.
        warnings.filterwarnings("ignore", message="the training estimate")
        tide = TIDE(TermOptions(most=terms), random_state=seed).fit(texts, s, groups=groups)
    fitted, peak, density = time.perf_counter() - start, peak_gigabytes(), tide.artefact
    if not isinstance(density, Density) or density.report is None or density.report.held_out is None:
        raise SystemExit("the fit has left no report")
    rows: Any = density.encoder.encode(texts)
    held_out = density.report.held_out.bits
    return {
        "texts": len(texts),
        "writers": len(set(groups)),
        "terms": len(density.features),
        "present terms": int(rows.nnz),
        "critic": density.report.chosen,
        "seconds of the fit": fitted,
        "peak memory, GB": peak,
        "of it before the fit, GB": before,
        "seconds to count terms": shortest(lambda: density.encoder.encode(texts), 1),
        "seconds of the conditionals": shortest(lambda: density.conditionals(rows)),
        "seconds of the table of terms": shortest(lambda: scan_terms(density, rows, s, groups=groups), 1),
        **explained(density, texts[:_ASKED]),
        "CPU seconds of one `lowtide warn`": warned(density, texts[0]),
        **{f"MB of a page that warns, {bits} bits": len(page_of(density, bits=bits)) / 1e6 for bits in (4, 8)},
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
            found[f"ms to explain a text {name}, {share:.0%} within"] = float(np.quantile(times, share))
    return found


def warned(density: Density, text: str) -> float:
    """CPU seconds of one `lowtide warn`, from the start of the program to its end; the least of some."""
    with tempfile.TemporaryDirectory() as folder:
        density.save(Path(folder) / "model")
        command = [sys.executable, "-m", "lowtide", "warn", text, "--model", str(Path(folder) / "model")]
        taken = []
        for _ in range(_STARTS):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - ours
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def growth(vocabulary: int, rows: int, seed: int) -> tuple[float, float]:
    """CPU seconds and peak memory (MB) of a fit on a stream from Parquet, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.parquet"
        schema = pa.schema({"text": pa.string(), "s": pa.int64(), "writer": pa.int64()})
        with pq.ParquetWriter(path, schema) as writer:
            for start in range(0, rows, _AT_ONCE):
                some = min(_AT_ONCE, rows - start)
                texts, s, writers = drawn(vocabulary, some, seed + 1 + start)
                writer.write(pa.table([texts, s, np.array(writers) + start], schema=schema))
        command = [sys.executable, "-c", _STREAM, str(path), str(vocabulary), str(_STEPS)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - ours
    taken, peak = map(float, out.split())
    return taken, peak


def unseen(folder: Path, *, terms: int, seed: int) -> dict[str, Any]:
    """What fits from memory and from a stream know about writers whose tweets were not trained on, in bits."""
    read = read_texts(folder / _FILE, text="text", secret="party", group="author")
    if read.secret is None or read.groups is None:
        raise SystemExit(f"{_FILE} must have the columns party and author")
    training = np.array(read.others["split"].to_pylist()) == "train"
    columns = [
        np.array(list(part), dtype=object) for part in (read.texts, read.secret.to_pylist(), read.groups.to_pylist())
    ]
    texts, s, writers = (column[training] for column in columns)
    batches = [
        (texts[k : k + _AT_ONCE], s[k : k + _AT_ONCE], writers[k : k + _AT_ONCE]) for k in range(0, len(s), _AT_ONCE)
    ]
    found: dict[str, Any] = {"texts trained on": len(s), "texts of other writers": int((~training).sum())}
    for name, given in (("memory", (texts, s, writers)), ("stream", (batches,))):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="the training estimate")
            tide = TIDE(TermOptions(most=terms), progress=False, random_state=seed).fit(*given)
        found[f"CPU seconds of a fit from {name}"] = time.process_time() - start
        told = tide.information(columns[0][~training], columns[1][~training]).bits
        found[f"bits about other writers, {name}"] = told.value
        found[f"its 95 % interval, {name}"] = f"{told.low:.4f} to {told.high:.4f}"
    return found


def main() -> None:
    """Print the figures."""
    options = parse_arguments(__doc__ or "")
    vocabulary, rows = (2_000, 5_000) if options.quick else (24_657, 75_946)
    given = drawn(vocabulary, rows, options.seed) if options.data is None else tweets(options.data, rows, options.seed)
    figures = measure(*given, terms=vocabulary, seed=options.seed)
    print_table("Texts", ["what", "figure"], list(figures.items()))
    sizes = (70_000, 140_000) if options.quick else (70_000, 700_000)
    streams = {rows: growth(vocabulary, rows, options.seed) for rows in sizes}
    few, many = (streams[rows][1] for rows in sizes)
    table = [[f"{rows:,}", *streams[rows]] for rows in sizes]
    note = f"{sizes[1] / sizes[0]:g} times the texts take {many / few:.2f} times the memory."
    print_table("A fit on a stream of texts", ["texts", "CPU seconds", "peak MB"], table, note)
    figures["streams"] = {str(rows): streams[rows] for rows in sizes}
    if options.data is not None:
        figures["unseen"] = unseen(options.data, terms=vocabulary, seed=options.seed)
        print_table("Writers that were not trained on", ["what", "figure"], list(figures["unseen"].items()))
    if options.json:
        write_json(options.json, figures)


if __name__ == "__main__":
    main()
