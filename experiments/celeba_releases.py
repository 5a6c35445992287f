"""Releases of the CelebA faces, made and judged in worker processes.

Every function here can be sent to another process: it opens the faces by itself, and releases
travel as files. What is done stays on the shelf, a folder, so that a run that was stopped goes on
from there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import numpy as np

from image_frontiers import Faces, Judge, hide, kept_by, load
from lowtide import TIDE, Obfuscator
from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.files import write_whole
from lowtide.images.encoder import Chosen, Grid, Stack
from lowtide.images.heatmaps import heat
from lowtide.images.mechanism import FixedPatches
from lowtide.images.planner import ImageSettings
from lowtide.labels import read_classes
from lowtide.report.console import write_json
from lowtide.types import Floats32, Ints
from paper import readings
from paper.images import PaperImages
from peers.adversarial import AdversarialFilter
from peers.image_hiders import LowerNoise, LowerRedacted

SECRET = "Smiling"
UTILITY = "Male"
PATCH = 2
QUICK = 40  # faces of a quick look
BATCH = 64  # of the paper's recipe for CelebA
ASKED = 20  # faces whose prefixes are kept together
THRESHOLDS = (0.8, 0.7, 0.6, 0.5)
SHOWN_AT = 0.74  # ε of the paper's Fig. 2
OURS = "the rule, our density"
LIMITS = (0.5, 0.3, 0.2, 0.1, 0.001)  # of the rival, in nats
# shares of pixels that fixed policies keep
REDACTED = (0.95, 0.9, 0.8, 0.6, 0.3)
NOISED = (0.8, 0.5)


@dataclass(frozen=True)
class Setup:
    """What every process must know.

    Attributes:
        data: folder of the faces.
        size: width and height they are brought to.
        quick: whether to use few faces and settings.
        seed: of everything.
        shelf: folder for releases, and for what is half done.
        epochs: of the paper's network.
        fill: what it sees in place of patches still to come.
    """

    data: Path | None
    size: tuple[int, int]
    quick: bool
    seed: int
    shelf: Path
    epochs: int = 20
    fill: str = "mean face"


@dataclass(frozen=True)
class Made:
    """A release of all faces.

    Attributes:
        method: the way to hide.
        setting: how much.
        kept: share of pixels left as they were.
        file: (n, height, width, 3) bytes.
        digest: the same for releases that are the same, byte for byte.
        seconds: that the method took to learn, for all of its settings.
        own: what the rival's own networks make of it on the test faces, in percent and nats.
    """

    method: str
    setting: str
    kept: float
    file: Path
    digest: str
    seconds: float = 0.0
    own: dict[str, float] | None = None


@dataclass(frozen=True)
class Read:
    """What attackers read of one label; accuracies in percent.

    Attributes:
        fixed: of the attacker that does best on clean faces and has seen no others.
        retrained: of the attacker that did best on validation faces of the release.
        attacker: its name.
        low: lower end of the interval of `retrained`.
        high: upper end.
        bits: information that it has about the label.
        seconds: that judging took.
    """

    fixed: float
    retrained: float
    attacker: str
    low: float
    high: float
    bits: float
    seconds: float


@lru_cache(maxsize=1)
def faces(setup: Setup) -> Faces:
    """The faces, with the secret."""
    return load(setup.data, SECRET, size=setup.size, most=QUICK if setup.quick else None)


def labels(setup: Setup, name: str) -> Ints:
    """One label of all faces, in classes."""
    return read_classes(faces(setup).folder.column(name))[1]


@lru_cache(maxsize=2)
def judge_of(setup: Setup, name: str) -> Judge:
    """Attackers on one label; those that know clean faces only are trained once in each process."""
    fixed = ("edges",) if setup.quick else ("edges", "small network")
    return Judge(
        faces(setup), s=labels(setup, name), fixed=fixed, networks=not setup.quick, seed=setup.seed
    )


def read_label(setup: Setup, made: Made, name: str) -> Read:
    """Attack one release for one label, or read what an earlier run has found."""
    kept = setup.shelf / f"{made.digest}-{name}.json"
    if kept.exists():
        return Read(**json.loads(kept.read_text()))
    start = monotonic()
    judge = judge_of(setup, name)
    release = Stack(np.load(made.file))
    best = max(judge.known, key=lambda one: judge.known[one].gain)
    found = judge.read(release)
    fixed = judge.fixed(release)[best]
    seconds = monotonic() - start
    read = Read(fixed, found.right, found.attacker, found.low, found.high, found.bits, seconds)
    write_json(kept, asdict(read))
    return read


def make(setup: Setup, way: str) -> list[Made]:
    """Make the releases of one of `WAYS`, or find those of an earlier run."""
    kept = setup.shelf / f"{way}.json"
    if kept.exists():
        return [
            Made(**{**one, "file": Path(one["file"])})
            for one in json.loads(kept.read_text())["made"]
        ]
    made = list(WAYS[way](setup))
    write_json(kept, {"made": [{**asdict(one), "file": str(one.file)} for one in made]})
    return made


def by_hand(setup: Setup) -> Iterator[Made]:
    """The faces as they are, and without their lower half."""
    every = faces(setup)
    yield _keep(setup, "clean", "ε = ∞", 1.0, every.images.read(np.arange(len(every.s))))
    for rival, strength in ((LowerNoise(seed=setup.seed), 1.0), (LowerRedacted(), 0.5)):
        released = rival.fit(every.part(True), strength=strength).apply(every.images)
        setting = "λ = 1" if isinstance(rival, LowerNoise) else "lower half"
        yield _keep(setup, rival.name, setting, released.untouched, released.stack().pixels)


def by_fixed(setup: Setup) -> Iterator[Made]:
    """Plans at several shares kept, which know nothing of the utility."""
    every = faces(setup)
    ways: tuple[tuple[Literal["redact", "gaussian"], Sequence[float]], ...]
    ways = ("redact", REDACTED), ("gaussian", NOISED)
    ways = ways[:1] if setup.quick else ways
    for mechanism, shares in ways:
        start = monotonic()
        lam = None if mechanism == "redact" else 1.0
        hider = Obfuscator(
            TIDE(PATCH, progress=False, random_state=setup.seed),
            "fixed",
            mechanism,
            kept=0.7,
            lam=lam,
            settings=ImageSettings(attackers=("edges",)),  # the releases below are judged by others
            progress=False,
            random_state=setup.seed,
        )
        plan = hider.fit(every.part(True), every.s[every.train]).policy_
        if not isinstance(plan, FixedPatches):
            raise LowtideError("a fixed policy was expected")
        took = monotonic() - start
        for share in shares[2::2] if setup.quick else shares:
            at = plan.at(share)
            pixels = hide(every, at.grid, at.hidden, setup.seed, lam).pixels
            name = "fixed, redacted" if lam is None else "fixed, noise λ = 1"
            yield _keep(setup, name, f"keep {share:.0%}", at.kept, pixels, seconds=took)


def by_rule(setup: Setup) -> Iterator[Made]:
    """The paper's rule by our density, which was trained on prefixes."""
    every = faces(setup)
    start = monotonic()
    tide = TIDE(
        features=PATCH,
        random_state=setup.seed,
        max_steps=4 if setup.quick else None,
        checkpoint=str(setup.shelf / "ours"),
    )
    density = tide.fit(every.part(True), every.s[every.train]).artefact
    if not isinstance(density, Density):
        raise LowtideError("a finite secret was expected")
    took = monotonic() - start
    peaks = []
    for index in np.array_split(np.arange(len(every.s)), -(-len(every.s) // 64)):
        steps = np.asarray(density.conditionals(every.images.read(index)))
        peaks.append(np.abs(steps).max(axis=-1))  # asked once for all ε
    yield from _above(setup, OURS, np.concatenate(peaks), took)


def by_paper(setup: Setup) -> Iterator[Made]:
    """The same by the paper's network, trained on whole faces and asked about prefixes over a
    canvas.
    """
    every = faces(setup)
    start = monotonic()
    epochs = 1 if setup.quick else setup.epochs
    critic = readings.fit_once(
        every.part(True),
        every.s[every.train],
        setup.shelf,
        epochs=epochs,
        batch=BATCH,
        seed=setup.seed,
    )
    canvas = readings.canvases(every.part(True), [setup.fill], seed=setup.seed)[setup.fill]
    asked = critic.asked(PATCH, canvas)
    took = monotonic() - start
    yield from _above(setup, "paper", _peaks(setup, asked), took)


def leaking(setup: Setup, some: Ints) -> list[tuple[str, list[Any]]]:
    """Rows of a sheet: what patches of some faces tell by the paper's network, and their release as
    in its Fig. 2.
    """
    every = faces(setup)
    grid = Grid(*faces(setup).images.shape, PATCH)
    peaks = _peaks(setup, None)[some]
    pixels = every.images.read(some)
    few = Faces(Stack(pixels), every.s[some], every.train[some], every.folder)
    tinted = [heat(face, row, grid, most=1.0) for face, row in zip(pixels, peaks, strict=True)]
    released = hide(few, grid, peaks > SHOWN_AT, setup.seed).pixels
    return [("what 2x2 patches tell", tinted), (f"paper, eps = {SHOWN_AT:g}", list(released))]


def _peaks(setup: Setup, asked: PaperImages | None) -> Floats32:
    """What each patch of each face adds at most, (n, m), twenty faces at a time; what an earlier
    run asked is read.
    """
    every = faces(setup)
    peaks = []
    for k, index in enumerate(np.array_split(np.arange(len(every.s)), -(-len(every.s) // ASKED))):
        file = setup.shelf / f"prefixes-{setup.fill}-{k}.npy"
        if asked is not None and not file.exists():
            steps = readings.conditionals(asked, Chosen(every.images, index))
            write_whole(file, readings.npy_bytes(np.abs(steps).max(axis=-1)))
        peaks.append(np.load(file))
    return np.concatenate(peaks)


def _above(setup: Setup, method: str, peaks: Floats32, took: float) -> Iterator[Made]:
    """Releases with noise of λ = 1 on patches whose density (n, m) given the raw ones before
    exceeds ε.
    """
    every = faces(setup)
    grid = Grid(*every.images.shape, PATCH)
    for epsilon in THRESHOLDS[-1:] if setup.quick else THRESHOLDS:
        flags = peaks > epsilon
        pixels = hide(every, grid, flags, setup.seed).pixels
        yield _keep(setup, method, f"ε = {epsilon:g}", kept_by(grid, flags), pixels, seconds=took)


def by_rival(setup: Setup) -> Iterator[Made]:
    """The filter learnt against an adversary; it is told the utility."""
    every = faces(setup)
    start = monotonic()
    useful = labels(setup, UTILITY)
    few = {"limits": (0.5, 0.1), "epochs": 1, "pretraining": 2, "widths": (8, 16, 32)}
    options: dict[str, Any] = few if setup.quick else {"limits": LIMITS}
    rival = AdversarialFilter(seed=setup.seed, progress=False, **options)
    filters = rival.fit(every.part(True), every.s[every.train], useful[every.train])
    took = monotonic() - start
    for one in filters:
        pixels = one.apply(every.images).stack().pixels
        test = pixels[~every.train]
        read = one.read_secret(test).argmax(axis=1)
        used = one.read_utility(test).argmax(axis=1)
        own = {
            "limit": one.limit,
            "leakage": one.leakage,
            "adversary": 100 * float((read == every.s[~every.train]).mean()),
            "classifier": 100 * float((used == useful[~every.train]).mean()),
        }
        yield _keep(setup, "rival", f"k = {one.limit:g}", 0.0, pixels, seconds=took, own=own)


WAYS = {
    "paper": by_paper,
    "rival": by_rival,
    "by hand": by_hand,
    "fixed": by_fixed,
    "ours": by_rule,
}


def _keep(setup: Setup, method: str, setting: str, kept: float, pixels: Any, **more: Any) -> Made:
    """Put a release on the shelf."""
    file = setup.shelf / f"{method}, {setting}.npy"
    np.save(file, pixels)
    return Made(
        method,
        setting,
        kept,
        file,
        hashlib.blake2b(pixels.tobytes(), digest_size=16).hexdigest(),
        **more,
    )
