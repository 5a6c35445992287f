"""GENKI-4K: does an audit of released faces find what attackers with more faces would read?

The 2,800 faces for learning are released, as they are and with the lower half painted over, and
audited: the panel learns from four fifths of them at a time. Beside it stand attackers that learn
from all 2,800 and are asked about the 1,200 test faces, which the audit never sees: the same makes,
and a support vector machine on eigenfaces, which is not ours. The learning curve says what ten
times as many faces might tell. And what `scan` says of the clean faces. Quickly: without networks,
and without the scan.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from image_frontiers import Faces, load
from lowtide import TIDE
from lowtide.attack import scores
from lowtide.attack.attackers import as_maker, taught
from lowtide.attack.panel import AttackReport, attack
from lowtide.images.album import Album
from lowtide.images.attackers import IMAGE_ATTACKERS, NETWORKS
from lowtide.images.scan import scan_images
from lowtide.interface import Estimate
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.types import Ints, Pixels

EIGENFACES = 120
PATCH = 8


def main() -> None:
    """Audit two releases, and look for what the audits miss."""
    options = parse_arguments(__doc__ or "")
    faces = load(options.data, "smile")
    names = [name for name in IMAGE_ATTACKERS if not options.quick or name not in NETWORKS]
    every = faces.images.read(np.arange(len(faces.s)))
    found = {}
    for release, pixels in (("clean", every), ("lower half painted over", painted(every))):
        start = process_time()
        report = attack(
            pixels[faces.train],
            faces.s[faces.train],
            attackers=names,
            seed=options.seed,
            curve=True,
            progress=False,
        )
        took = process_time() - start
        found[release] = judged(report, outside(faces, pixels, names, options.seed), took)
        show(release, found[release])
    scan = (
        None if options.quick else scanned(every[faces.train], faces.s[faces.train], options.seed)
    )
    if options.json is not None:
        write_json(options.json, {"releases": found, "scan": scan})


def scanned(pixels: Pixels, s: Ints, seed: int) -> dict[str, float]:
    """What a scan says of clean faces, in bits, and how long it takes."""
    start = process_time()
    looked = scan_images(
        pixels, s, estimator=TIDE(PATCH, progress=False, random_state=seed)
    ).information.bits
    seconds = process_time() - start
    print(f"scan of the clean faces: {looked} bits or more, {seconds:.0f} s of one core")
    return {"bits": looked.value, "low": looked.low, "high": looked.high, "cpu_seconds": seconds}


def painted(pixels: Pixels) -> Pixels:
    """Faces (n, height, width, channels) with the lower half in mid-grey."""
    covered = pixels.copy()
    covered[:, pixels.shape[1] // 2 :] = 128
    return covered


def outside(faces: Faces, pixels: Pixels, names: list[str], seed: int) -> dict[str, Estimate]:
    """How often attackers that learnt from all released faces are right about the test faces, by
    name.
    """
    album = Album.of(pixels)
    codes = faces.s
    machine = CalibratedClassifierCV(SVC(), ensemble=False)
    eigenfaces = make_pipeline(PCA(EIGENFACES, whiten=True, random_state=seed), machine)
    makers: dict[str, Any] = {name: IMAGE_ATTACKERS[name] for name in names}
    makers["eigenfaces"] = as_maker(eigenfaces, Album.numbers)
    learn = np.flatnonzero(faces.train)
    test = np.flatnonzero(~faces.train)
    found = {}
    for name, maker in makers.items():
        attacker = taught(maker(seed), album[learn], codes[learn])
        found[name] = scores.accuracy(attacker.probabilities(album[test]), codes[test])
    return found


def judged(report: AttackReport, others: dict[str, Estimate], seconds: float) -> dict[str, Any]:
    """All figures of one release, in percent."""
    curve = report.curve
    return {
        "audit": {one.attacker: _percent(one.accuracy) for one in report.retrained},
        "bits": {one.attacker: one.information.bits.value for one in report.retrained},
        "strongest": _percent(report.headline.accuracy),
        "whole release, fresh faces": {name: _percent(one) for name, one in others.items()},
        "gap": 100 * (max(one.value for one in others.values()) - report.headline.accuracy.value),
        "curve": (
            [] if curve is None else [(p.rows, *_percent(p.attack.accuracy)) for p in curve.points]
        ),
        "extrapolated": None if curve is None else (curve.further, *_percent(curve.accuracy)),
        "cpu_seconds": seconds,
    }


def show(release: str, found: dict[str, Any]) -> None:
    """Print one release as a table."""
    audit = found["audit"]
    others = found["whole release, fresh faces"]
    rows = [
        (name, *(_said(side.get(name)) for side in (audit, others)))
        for name in dict.fromkeys((*audit, *others))
    ]
    header = ["attacker", "in the audit", "learnt from the whole release, fresh faces"]
    note = (
        f"strongest in the audit {_said(found['strongest'])}; the others find {found['gap']:+.1f}"
        " points"
    )
    print_table(f"{release}: right guesses, %", header, rows, note)
    if found["extrapolated"] is not None:
        points = ", ".join(f"{share:.1f} % from {rows:,}" for rows, share, *_ in found["curve"])
        further, *beyond = found["extrapolated"]
        print(f"learning curve: {points}; extrapolated to {further:,}: {_said(beyond)}")
    print(f"the audit took {found['cpu_seconds']:.0f} s of one core\n", flush=True)


def _percent(share: Estimate) -> tuple[float, float, float]:
    return 100 * share.value, 100 * share.low, 100 * share.high


def _said(share: Any) -> str:
    return "–" if share is None else f"{share[0]:.1f} [{share[1]:.1f}, {share[2]:.1f}]"


if __name__ == "__main__":
    main()
