"""How the release of a folder of images grows: drawn faces in JPEG files, made on the fly."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from lowtide.images.encoder import Grid
from lowtide.images.files import encode
from lowtide.worlds.faces import DrawnFaces
from scale_rows import exponent
from scale_worker import alone

SIDE = 64
PATCH = 8
_NOISE = 0.1
_FOLDER = 1_000  # images drawn at once
SIZES = (2_000, 20_000, 200_000)
QUICK = (500, 2_000)


def make_faces(place: Path, images: int, seed: int) -> None:
    """Write so many drawn faces as JPEG files."""
    place.mkdir()
    world = DrawnFaces(SIDE, 2, PATCH, _NOISE)
    for start in range(0, images, _FOLDER):
        drawn = world.images(world.sample(min(_FOLDER, images - start), seed + start).x)
        for k, pixels in enumerate(np.rint(255 * drawn).astype(np.uint8), start):
            (place / f"{k:06d}.jpg").write_bytes(encode(pixels, ".jpg", quality=90))


def measure_faces(folder: Path, seed: int, *, quick: bool, most: int) -> list[dict[str, Any]]:
    """Time and memory of a release at several sizes, against decoding and encoding the same files.

    Nothing is removed before all is measured, and 200,000 faces take 6 GB: to make files where many
    were just removed can take several times as long (ext4 without a journal passes over their
    inodes for a minute, one by one).
    """
    from bench_images import plan_of  # which brings PyTorch along

    sizes = [n for n in (QUICK if quick else SIZES) if n <= most]
    runs = []
    place = folder / "faces"
    place.mkdir()
    made = plan_of(Grid(SIDE, SIDE, 3, PATCH)).save(place / "plan")
    for images in sizes:
        source = place / f"{images}"
        make_faces(source, images, seed)
        plain = alone(source, None, place / f"{images} plain")
        released = alone(source, made, place / f"{images} released")
        runs.append(
            {"images": images, **released, "plain": plain["processor"], "plain peak": plain["peak"]}
        )
    shutil.rmtree(place)
    return [
        {
            "what": f"{SIDE}×{SIDE} JPEG",
            "images": sizes[-1],
            "microseconds an image": 1e6 * runs[-1]["processor"] / sizes[-1],
            "decode and encode, microseconds": 1e6 * runs[-1]["plain"] / sizes[-1],
            "release / plain": runs[-1]["processor"] / runs[-1]["plain"],
            "exponent": exponent(sizes, [one["processor"] for one in runs]),
            "memory ratio": runs[-1]["peak"] / runs[0]["peak"],
            "peak, MB": runs[-1]["peak"],
            "runs": runs,
        }
    ]
