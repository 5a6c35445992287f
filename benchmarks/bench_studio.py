"""The studio under load: clients that post texts to `/api/warn` one after the other, all at once.

Prints answers per second, the median and the 99th percentile of the time to an answer, and the
server's memory after a tenth of the time and at the end. The model is fitted to generated posts, in
a folder that vanishes.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pacsv

from lowtide import TIDE
from lowtide.demo_data import make_demo
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.texts.terms import TermOptions

CLIENTS = 20
SECONDS = 20.0
QUICK = 4.0
_TOKEN = "only-for-this-benchmark"
_MODEL = "home.lowtide"


def make_model(folder: Path, *, steps: int | None = None, seed: int = 0) -> list[str]:
    """Save a model of the generated posts in a project's folder; the posts."""
    posts = pacsv.read_csv(make_demo("posts", folder))
    texts = posts["post"].to_pylist()
    homes = posts["home"].to_pylist()
    estimator = TIDE(TermOptions(), max_steps=steps, random_state=seed, progress=False)
    estimator.fit(texts, homes, groups=posts["author"].to_pylist())
    estimator.artefact.save(folder / _MODEL)
    return texts


def post(address: str, text: str) -> dict[str, Any]:
    """Ask about one text."""
    asked = json.dumps({"text": text, "model": _MODEL}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {_TOKEN}"}
    # Our own server.
    request = urllib.request.Request(f"{address}/api/warn", asked, headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        told: dict[str, Any] = json.load(answer)
    return told


def resident_megabytes(process: int) -> float:
    """The memory a process holds now; 0 where the system does not say."""
    try:
        found = re.search(
            r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(encoding="utf-8")
        )
    except OSError:
        return 0.0
    return int(found[1]) / 1e3 if found else 0.0


def load(
    address: str, process: int, texts: list[str], *, clients: int, seconds: float
) -> dict[str, float]:
    """Let clients ask for so long; what it took."""
    times: list[float] = []
    errors: list[str] = []
    begin = time.perf_counter()
    end = begin + seconds

    def ask(number: int) -> None:
        turn = number
        while time.perf_counter() < end:
            start = time.perf_counter()
            try:
                post(address, texts[turn % len(texts)])
            except OSError as error:
                errors.append(type(error).__name__)
            else:
                times.append(time.perf_counter() - start)
            turn += clients

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 10)
    early = resident_megabytes(process)
    for thread in threads:
        thread.join()
    median, late = np.quantile(times, [0.5, 0.99])
    return {
        "clients": clients,
        "answers": len(times),
        "errors": len(errors),
        "answers_per_second": len(times) / (time.perf_counter() - begin),
        "median_ms": 1e3 * float(median),
        "p99_ms": 1e3 * float(late),
        "p99_per_median": float(late / median),
        "early_mb": early,
        "late_mb": resident_megabytes(process),
    }


def serve_and_load(
    folder: Path, texts: list[str], *, clients: int, seconds: float
) -> dict[str, float]:
    """Open a studio in a folder that has the model, put it under load, and end it."""
    command = [
        sys.executable,
        "-m",
        "lowtide",
        "studio",
        str(folder),
        "--no-browser",
        "--port",
        "0",
    ]
    with subprocess.Popen(  # noqa: S603 - our own program
        [*command, "--token", _TOKEN], stdout=subprocess.PIPE, text=True
    ) as studio:
        try:
            found = re.match(
                r"studio: (http://[^/]+)/", studio.stdout.readline() if studio.stdout else ""
            )
            if found is None:
                raise SystemExit("the studio did not start")
            post(found[1], texts[0])  # the model is loaded by the first question
            return load(found[1], studio.pid, texts, clients=clients, seconds=seconds)
        finally:
            studio.send_signal(signal.SIGINT)


def main() -> None:
    """Print how the studio bears the load."""
    arguments = parse_arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        texts = make_model(
            Path(folder), steps=200 if arguments.quick else None, seed=arguments.seed
        )
        seconds = QUICK if arguments.quick else SECONDS
        found = serve_and_load(Path(folder), texts, clients=CLIENTS, seconds=seconds)
    print_table(
        "POST /api/warn",
        ("figure", "value"),
        [(name, f"{value:,.1f}") for name, value in found.items()],
    )
    if arguments.json:
        write_json(
            arguments.json,
            {"experiment": "bench_studio", "quick": arguments.quick, "results": found},
        )


if __name__ == "__main__":
    main()
