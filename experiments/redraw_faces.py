"""Faces whose smile is hidden by redraw, by a filled region and by the lower half redacted, judged
by fresh attackers.

`--data` names GENKI-4K or CelebA in their own layouts. Of CelebA it is measured, too, whether the
release tells the gender, which is not to be hidden. The sheet beside the JSON shows faces before
and after: it stays inside.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from common import contact_sheet
from image_frontiers import Faces, load
from lowtide import TIDE, Obfuscator
from lowtide.attack.panel import attack
from lowtide.disclose.noise import KeyedNoise
from lowtide.errors import LowtideError
from lowtide.images.convnets import to_input
from lowtide.images.edges import edges_and_shades
from lowtide.images.encoder import Images, Stack
from lowtide.images.filling import FilledImages
from lowtide.images.planner import ImageSettings
from lowtide.images.redrawing import RedrawnImages, RedrawRegion
from lowtide.images.region_donors import Looks
from lowtide.labels import read_classes
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.types import Floats, Ints
from peers.image_hiders import LowerRedacted

PATCH = 4
SHOWN = 12  # faces in a row of the sheet
_LIKE = 8  # faces that whoever makes composites chooses from
_CELEBA = (64, 80)


@dataclass(frozen=True)
class JudgedFaces:
    """One release, attacked on the test images; accuracies in percent.

    Attributes:
        way: how the smile was hidden.
        faces: share of the faces that are as they were.
        pixels: share of the pixels that are.
        right: of each attacker trained on the release, how often it is right about the secret.
        knowing: the same of one who has other clean faces, makes composites of them, and so learns
            to recognise what was changed and to turn round what it seems to say; `None` where no
            region changes places.
        low: lower end of the strongest one's interval.
        high: upper end.
        utility: the same for what should still be told; empty where nothing should.
    """

    way: str
    faces: float
    pixels: float
    right: dict[str, float]
    knowing: float | None
    low: float
    high: float
    utility: dict[str, float]

    @property
    def strongest(self) -> float:
        """What the strongest attacker reads."""
        return max(self.right.values())


def main() -> None:
    """Hide the smile in several ways, attack each, and draw the sheet."""
    options = parse_arguments(__doc__ or "")
    celeba = options.data is not None and (options.data / "list_attr_celeba.txt").exists()
    most = 300 if options.quick else None
    faces = load(
        options.data, "Smiling" if celeba else "smile", size=_CELEBA if celeba else None, most=most
    )
    gender = read_classes(faces.folder.column("Male"))[1] if celeba else None
    redrawn, policy, seconds = redraw(faces, gender, options.quick, options.seed)
    print(
        f"planned and released in {seconds['clock']:.0f} s, {seconds['processor']:.0f} s of a core",
        file=sys.stderr,
    )
    filled = FilledImages(faces.images, policy.region, noise(options.seed))
    half = LowerRedacted().fit(faces.part(True), strength=0.5).apply(faces.images).stack()
    ways: dict[str, Images] = {
        "redraw": redrawn,
        "lower half redacted": half,
        "region filled in": filled,
    }
    target = options.json or Path("redraw_faces.json")
    sheet(
        faces,
        {"redraw": redrawn, "region filled in": filled},
        redrawn.changed,
        target.with_suffix(".png"),
    )
    found = []
    for way, release in {**ways, "clean": faces.images}.items():
        knowing = (
            seen_through(faces, release, options.seed)
            if isinstance(release, RedrawnImages)
            else None
        )
        found.append(judge(way, faces, release, gender, knowing, options.quick, options.seed))
        results = {"region": policy.region.share, "passes": len(policy.passes), "seconds": seconds}
        if options.json is not None:  # after each: the long run may be interrupted
            write_json(options.json, {**results, "releases": [asdict(one) for one in found]})
    show(found)


def redraw(
    faces: Faces, gender: Ints | None, quick: bool, seed: int
) -> tuple[RedrawnImages, RedrawRegion, Any]:
    """Plan on all faces and release them under another key than that of the rehearsal."""
    clock = monotonic()
    processor = process_time()
    settings = ImageSettings(attackers=("edges",))
    tide = TIDE(PATCH, progress=False, random_state=seed, max_steps=40 if quick else None)
    made = Obfuscator(tide, "redraw", settings=settings, progress=False, random_state=seed)
    policy = made.fit(faces.images, faces.s, utility=gender).policy_
    if not isinstance(policy, RedrawRegion):
        raise LowtideError("the policy redraw was expected")
    released = policy.release(faces.images, faces.s, noise=noise(seed))
    return released, policy, {"clock": monotonic() - clock, "processor": process_time() - processor}


def noise(seed: int) -> KeyedNoise:
    """The key of the releases."""
    return KeyedNoise(np.random.SeedSequence([seed, 0xFACE]).generate_state(8).tobytes())


def judge(
    way: str,
    faces: Faces,
    release: Images,
    gender: Ints | None,
    knowing: float | None,
    quick: bool,
    seed: int,
) -> JudgedFaces:
    """Train attackers of three makes on the released training images, and test them on the
    others.
    """
    start = monotonic()
    every = np.arange(len(faces.s))
    pixels = np.concatenate(
        [release.read(part) for part in np.array_split(every, 1 + len(every) // 256)]
    )
    clean = faces.images.read(every)
    same = (pixels == clean).all(axis=3)
    trees = HistGradientBoostingClassifier(
        max_iter=30 if quick else 150, learning_rate=0.06, random_state=seed
    )
    networks = () if quick else ("small network",)

    def read(s: Ints) -> Any:
        makers = ("edges", *networks, make_pipeline(PCA(60, random_state=seed), trees))
        return attack(
            Stack(pixels), s, attackers=makers, test=~faces.train, seed=seed, progress=False
        )

    told = read(faces.s)
    useful = {} if gender is None else _accuracies(read(gender))
    best = max(told.retrained, key=lambda one: one.accuracy.value).accuracy
    judged = JudgedFaces(
        way,
        float(same.all(axis=(1, 2)).mean()),
        float(same.mean()),
        _accuracies(told),
        knowing,
        100 * best.low,
        100 * best.high,
        useful,
    )
    print(
        f"{way}: {judged.strongest:.1f} % ({monotonic() - start:.0f} s)",
        file=sys.stderr,
        flush=True,
    )
    return judged


def seen_through(faces: Faces, release: RedrawnImages, seed: int) -> float:
    """How often one is right, in percent, who knows how the release was made and holds clean faces
    of others.

    The clean faces are those for training. Half of them get the region of a like one: a regression
    on edges learns to recognise these, another one to read the secret of clean faces. What both say
    of the released faces, and its product, goes to a third, which learns from the released training
    faces.
    """
    rng = np.random.default_rng([seed, 0x5EE])
    region = release.region
    train = np.flatnonzero(faces.train)
    every = np.arange(len(faces.s))
    own = faces.images.read(train)
    near = Looks.of(Stack(own), region).nearest(np.arange(len(own)), np.arange(len(own)), _LIKE)
    lender = near[np.arange(len(own)), rng.integers(0, near.shape[1], len(own))]
    lent = rng.random(len(own)) < 0.5
    made = np.array(own)
    made[lent] = region.fill(own[lent], region.detail(own[lender[lent]]))
    changed, smile = (_regression(_edges(x), s) for x, s in ((made, lent), (own, faces.s[train])))
    shown = np.concatenate(
        [_edges(release.read(part)) for part in np.array_split(every, 1 + len(every) // 256)]
    )
    one = changed.decision_function(shown)
    other = smile.decision_function(shown)
    joint = np.column_stack([other, one, one * other, np.tanh(other) * one])
    model = _regression(joint[train], faces.s[train], penalty=1.0)
    return 100 * float(model.score(joint[~faces.train], faces.s[~faces.train]))


def _edges(pixels: Any) -> Floats:
    with torch.no_grad():
        parts = [
            edges_and_shades(to_input(pixels[start : start + 128]))
            for start in range(0, len(pixels), 128)
        ]
    return np.asarray(torch.cat(parts).numpy())


def _regression(x: Floats, s: Any, penalty: float | None = None) -> Any:
    chosen = 1.0 / len(x) if penalty is None else penalty
    return make_pipeline(
        StandardScaler(), LogisticRegression(C=chosen, max_iter=200, tol=1e-3)
    ).fit(x, s)


def _accuracies(report: Any) -> dict[str, float]:
    return {one.attacker: 100 * one.accuracy.value for one in report.retrained}


def show(found: list[JudgedFaces]) -> None:
    """One line for each release."""
    attackers = list(found[0].right)
    useful = list(found[0].utility)
    print_table(
        "How often attackers trained on a release are right about the secret, in %, on test images",
        [
            "way",
            "faces as they were",
            "pixels",
            *attackers,
            "strongest",
            "who knows how",
            *(f"gender: {name}" for name in useful),
        ],
        [
            (
                one.way,
                f"{one.faces:.1%}",
                f"{one.pixels:.1%}",
                *(f"{one.right[name]:.1f}" for name in attackers),
                f"{one.strongest:.1f} [{one.low:.1f}, {one.high:.1f}]",
                "" if one.knowing is None else f"{one.knowing:.1f}",
                *(f"{one.utility[name]:.1f}" for name in useful),
            )
            for one in found
        ],
    )


def sheet(faces: Faces, ways: dict[str, Images], changed: Any, path: Path) -> None:
    """Faces that redraw has changed, and some as they come, before and after."""
    some = np.flatnonzero(changed)
    groups = {
        "changed by redraw": some[:: max(1, len(some) // SHOWN)][:SHOWN],
        "as they come": np.arange(SHOWN),
    }
    rows: list[tuple[str, list[Floats]]] = []
    for name, index in groups.items():
        rows.append((f"{name}: clean", list(faces.images.read(index))))
        rows += [(f"{name}: {way}", list(release.read(index))) for way, release in ways.items()]
    contact_sheet(
        rows, path, title="The smile hidden by redraw, and by a region that is filled in", bar=False
    )
    print(f"sheet: {path}")


if __name__ == "__main__":
    main()
