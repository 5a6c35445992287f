"""How a release grows with rows and processes: time and memory of plans that redact, add noise and
draw anew.
"""

from __future__ import annotations

import math
import shutil
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bench_redraw import draw, write_rows
from lowtide import Plan, plan, release
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import certify_fixed
from lowtide.engines.releasing import Scale, open_engine
from lowtide.hashes import sha256_of
from lowtide.table_files.formats import type_word
from lowtide.tables.encoder import read_table
from lowtide.tables.hider import TableHider
from lowtide.tables.mechanism import TableMechanism
from lowtide.tables.policies import FixedColumns
from scale_worker import alone

_SECRET = "sex"
_SAMPLE = 600  # rows that the plans are made from
_HIDDEN = ("age", "hours", "wage")
PLANS = ("redact", "noise", "redraw")
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)  # the second is more than a batch of 32,768 rows
QUICK = (2_000, 20_000)
_PARALLEL = {
    "redact": (1_000_000, 10_000_000),
    "noise": (1_000_000, 10_000_000),
    "redraw": (1_000_000,),
}
_RAY = {"redact": (1_000_000, 10_000_000), "noise": (1_000_000, 10_000_000), "redraw": (1_000_000,)}
_SHARD = 250_000  # rows, where shards are compared
_RUNS = 3  # of which the fastest counts


def make_plan(folder: Path, name: str, seed: int) -> Path:
    """Save a plan, when it is first asked for; what those that hide three columns say of
    themselves, nobody reads.
    """
    place = folder / name
    if place.exists():
        return place
    sample = draw(10_000_000_000, _SAMPLE, seed)
    if name == "redraw":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return plan(sample, _SECRET, policy="redraw", steps=20, seed=seed, progress=False).save(
                place
            )
    rows, encoder = read_table(sample.drop_columns(["id", _SECRET]))
    features = encoder.features()
    hidden = np.isin(features.names, _HIDDEN)
    kind: Literal["redact", "gaussian"] = "redact" if name == "redact" else "gaussian"
    lam = None if kind == "redact" else 0.5
    card = ReleaseCard(
        mechanism=kind,
        certificate=certify_fixed(0.1, [0.5, 0.5], ratios=np.zeros(len(hidden)), hidden=hidden),
        features=tuple(map(Feature, features.names, hidden.astype(float).tolist())),
        rows=_SAMPLE,
        classes=2,
        largest_class=0.5,
        changed=float(hidden.mean()),
    )
    mechanism = TableMechanism.build(encoder, features, rows, kind=kind, lam=lam)
    policy = FixedColumns(features, hidden, (), np.full(len(features), np.nan))
    columns = {field.name: type_word(field.type) for field in sample.schema}
    layout: dict[str, object] = {"columns": columns, "blank": ["id"], "kept": [], "utility": None}
    return Plan("tables", _SECRET, layout, TableHider(policy, mechanism, card)).save(place)


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of log cost over log size between neighbours, where it is steepest."""
    pairs = zip(sizes, sizes[1:], costs, costs[1:], strict=False)
    return max(math.log(d / c) / math.log(b / a) for a, b, c, d in pairs)


def file_of(folder: Path, rows: int, seed: int) -> Path:
    """A file of so many people, written when it is first asked for, in row groups of 65,536."""
    path = folder / f"{rows}.parquet"
    if not path.exists():
        write_rows(path, rows, seed)
    return path


def measure_rows(
    folder: Path, seed: int, *, name: str, quick: bool, most: int
) -> list[dict[str, Any]]:
    """Time and memory of a plan at every size, one process."""
    sizes = [n for n in (QUICK if quick else SIZES) if n <= most]
    made = make_plan(folder, name, seed)
    runs = []
    for rows in sizes:
        runs.append(
            {
                "rows": rows,
                **alone(file_of(folder, rows, seed), made, folder / "out.parquet", ids="id"),
            }
        )
    return [
        {
            "plan": name,
            "rows": sizes[-1],
            "microseconds a row": 1e6 * runs[-1]["processor"] / sizes[-1],
            "exponent": exponent(sizes, [one["processor"] for one in runs]),
            "memory ratio": runs[-1]["peak"] / runs[0]["peak"],
            "the same from a full batch on": runs[-1]["peak"] / runs[min(1, len(runs) - 1)]["peak"],
            "peak, MB": runs[-1]["peak"],
            "runs": runs,
        }
    ]


def measure_workers(
    folder: Path, seed: int, *, quick: bool, most: int, plans: Sequence[str] = PLANS
) -> list[dict[str, Any]]:
    """What a second process gains, by the clock and by what the busier of the two has to do, its
    start included.
    """
    results = []
    for name in plans:
        sizes = (QUICK[-1],) if quick else _PARALLEL[name]
        for rows in (n for n in sizes if n <= most):
            source = file_of(folder, rows, seed)
            made = make_plan(folder, name, seed)
            for shards in (None, 5_000 if quick else _SHARD):
                results.append(
                    {"plan": name, "rows": rows, **_one_and_two(folder, source, made, shards)}
                )
    return results


def _one_and_two(folder: Path, source: Path, made: Path, shards: int | None) -> dict[str, Any]:
    """A release by one process and by two, into one file or into shards."""
    out = folder / ("out.parquet" if shards is None else "shards")
    how = {"ids": "id", "shards": shards}
    one = alone(source, made, out, **how)
    single = sha256_of(out)
    two = alone(source, made, out, workers=2, **how)
    busier = max(two["own processor"], two["processor"] - two["own processor"])
    return {
        "into": "one file" if shards is None else "shards",
        "one process, s": one["seconds"],
        "two processes, s": two["seconds"],
        "speed-up by the clock": one["seconds"] / two["seconds"],
        "one process, processor s": one["processor"],
        "busier of two, processor s": busier,
        "speed-up by processor time": one["processor"] / busier,
        "same files": sha256_of(out) == single,
    }


def measure_ray(
    folder: Path, seed: int, *, quick: bool, most: int, plans: Sequence[str] = PLANS
) -> list[dict[str, Any]]:
    """Two workers of Ray against two processes, on shards, by the clock.

    The cluster is started before, and its start timed. So is its first release, of few rows, in
    which its processes import what they need; they live on. The second local process is started for
    every release.
    """
    shard = 5_000 if quick else _SHARD
    results = []
    begun = time.perf_counter()
    with open_engine(Scale(2, engine="ray")):
        start = time.perf_counter() - begun
        first = _by_ray(
            folder,
            file_of(folder, QUICK[0], seed),
            make_plan(folder, PLANS[0], seed),
            QUICK[0] // 2,
        )
        for name in plans:
            for rows in (n for n in (QUICK if quick else _RAY[name]) if n <= most):
                source = file_of(folder, rows, seed)
                made = make_plan(folder, name, seed)
                runs = [_local_and_ray(folder, source, made, shard) for _ in range(_RUNS)]
                local, ray = (min(run[who] for run in runs) for who in (0, 1))
                results.append(
                    {
                        "plan": name,
                        "rows": rows,
                        "local, s": local,
                        "Ray, s": ray,
                        "throughput of Ray / local": local / ray,
                        "same files": sha256_of(folder / "local") == sha256_of(folder / "ray"),
                        "start of the cluster, s": start,
                        "its first release, s": first,
                    }
                )
    return results


def _local_and_ray(folder: Path, source: Path, made: Path, shard: int) -> tuple[float, float]:
    local = alone(source, made, folder / "local", ids="id", workers=2, shards=shard)
    return local["seconds"], _by_ray(folder, source, made, shard)


def _by_ray(folder: Path, source: Path, made: Path, shard: int) -> float:
    """Seconds of a release on the cluster that is running."""
    shutil.rmtree(folder / "ray", ignore_errors=True)
    begun = time.perf_counter()
    release(
        source,
        made,
        folder / "ray",
        ids="id",
        progress=False,
        workers=2,
        shards=shard,
        engine="ray",
    )
    return time.perf_counter() - begun
