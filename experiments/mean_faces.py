"""Averages of faces: can somebody who holds a face tell that it is one of the n behind a published
average?

The attacker has faces of others for reference. A face is scored by how far it points towards where
the average lies from the mean of the reference, plainly and after whitening by the leading
directions of the reference. AUC of members against others; 0.5 is chance.
"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from lowtide.errors import LowtideError
from lowtide.images.dataset import open_images
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.types import Floats32
from paper import layouts

SIZES = (20, 50, 100, 200, 500, 1000)
DIRECTIONS = (50, 200, 800)
_ROOM = 0x3EA


def main() -> None:
    """Attack averages of growing size."""
    options = parse_arguments(__doc__ or "")
    if options.data is None:
        raise LowtideError("the faces are not there; name their folder with --data")
    faces = open_images(options.data, listing=layouts.read(options.data))
    rng = np.random.default_rng(np.random.SeedSequence([options.seed, _ROOM]))
    order = rng.permutation(len(faces))
    most = 1200 if options.quick else 4000
    rows = faces.read(order[:most]).reshape(min(most, len(order)), -1).astype(np.float32)
    reference = rows[: 3 * len(rows) // 8]
    pool = rows[3 * len(rows) // 8 :]
    whiten = whitenings(reference)
    found = {}
    for size in SIZES[:4] if options.quick else SIZES:
        draws = [
            strongest(reference, rng.permutation(pool), size, whiten)
            for _ in range(2 if options.quick else 6)
        ]
        found[size] = float(np.mean(draws))
    print_table(
        "Who is in the average?",
        ["faces in the average", "AUC of the strongest attack"],
        list(found.items()),
    )
    if options.json is not None:
        write_json(options.json, {"auc": {str(size): auc for size, auc in found.items()}})


def whitenings(reference: Floats32) -> list[Floats32]:
    """Maps onto leading directions of the reference, in units of their spread."""
    _, values, directions = np.linalg.svd(reference - reference.mean(axis=0), full_matrices=False)
    return [directions[:k].T / (values[:k] / np.sqrt(len(reference))) for k in DIRECTIONS]


def strongest(reference: Floats32, faces: Floats32, size: int, whiten: list[Floats32]) -> float:
    """The best AUC of four ways to tell the first `size` faces, whose average is published, from
    the next ones.
    """
    middle = reference.mean(axis=0)
    average = np.rint(faces[:size].mean(axis=0)) - middle
    shown = faces[: min(size + 1000, len(faces))] - middle
    member = np.arange(len(shown)) < size
    scores = [shown @ average, *((shown @ turn) @ (average @ turn) for turn in whiten)]
    return max(float(roc_auc_score(member, score)) for score in scores)


if __name__ == "__main__":
    main()
