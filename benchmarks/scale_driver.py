"""What one process does for a release in parts, however many others there are: it grows with rows
and parts.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from lowtide import Plan
from lowtide.disclose.repeated_ids import check_repeats
from lowtide.hashes import sha256_of
from lowtide.images.encoder import Grid
from lowtide.images.options import ImageOptions
from lowtide.images.parted import ImagePartedJob
from scale_faces import PATCH, SIDE, make_faces
from scale_rows import make_plan

_PART = 250_000  # rows
_ROWS = 10_000_000
_QUICK = 500_000
_IMAGES = 10_000
_FEW = 500


def measure_driver(folder: Path, seed: int, *, quick: bool, most: int) -> list[dict[str, Any]]:
    """Processor seconds of comparing ids, adding up what a plan that draws anew must know, hashing,
    and images.
    """
    rows = min(most, _QUICK if quick else _ROWS)
    rng = np.random.default_rng(seed)
    ids = rng.permutation(rows).astype(np.uint64)
    runs = list[Path]()
    for start in range(0, rows, _PART):
        runs.append(folder / f"ids {start}.npy")
        np.save(runs[-1], np.sort(ids[start : start + _PART]))
    begun = time.process_time()
    check_repeats(runs, "row")
    compared = time.process_time() - begun
    policy = Plan.load(make_plan(folder, "redraw", seed)).hider.policy
    part = policy.counted()
    whole = policy.counted()
    place = folder / "counts.npz"
    part.add(rng.random((_PART, len(policy.columns.coded))))
    with place.open("wb") as file:
        np.savez(file, **part.arrays())
    begun = time.process_time()
    with np.load(place, allow_pickle=False) as found:
        whole.merge(found)
    added = time.process_time() - begun
    begun = time.process_time()
    sha256_of(place)
    hashed = time.process_time() - begun
    return [
        {
            "what": "one process",
            "rows": rows,
            "ids of a million rows compared, s": 1e6 * compared / rows,
            "counts of a part, MB": place.stat().st_size / 1e6,
            "the same added up, s": added,
            "a gigabyte hashed, s": 1e9 * hashed / place.stat().st_size,
            "an image, microseconds": 1e6 * _per_image(folder, _FEW if quick else _IMAGES, seed),
        }
    ]


def _per_image(folder: Path, images: int, seed: int) -> float:
    """Processor seconds of reading a header, describing it to a worker, and naming and hashing what
    that wrote.
    """
    from bench_images import plan_of  # which brings PyTorch along

    source, shard, out = (folder / f"driver {name}" for name in ("faces", "shard", "out"))
    make_faces(source, images, seed)
    plan = plan_of(Grid(SIDE, SIDE, 3, PATCH))
    begun = time.process_time()
    job = ImagePartedJob(source, plan, ImageOptions(), ids=None)
    job.recipe(out, sharded=False)
    parts = list(job.parts(_PART, folder, frozenset()))
    opened = time.process_time() - begun
    shard.mkdir()
    for part in parts:
        for number, name in enumerate(part["files"], part["start"]):
            shutil.copyfile(source / name, shard / f"{number:09d}.jpg")
    begun = time.process_time()
    job.join([shard], [], out, lambda path, **_: Path(path), sharded=False)
    sha256_of(out)
    return (opened + time.process_time() - begun) / images
