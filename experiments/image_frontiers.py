"""Shared by the experiments on images: releases judged by attackers that know clean images, and by
retrained ones.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from lowtide import TIDE
from lowtide.attack import scores
from lowtide.attack.attackers import Attacker, taught
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise, row_ids
from lowtide.disclose.raw_past import RawPast
from lowtide.errors import LowtideError
from lowtide.estimate import stack
from lowtide.estimate.density import Density
from lowtide.images.album import Album
from lowtide.images.attackers import FROM_CLEAN, IMAGE_ATTACKERS, from_clean
from lowtide.images.dataset import open_images
from lowtide.images.encoder import Chosen, Grid, Images, Stack
from lowtide.images.folder import ImageFolder, cached
from lowtide.images.mechanism import ImageMechanism, all_flags
from lowtide.interface import NATS_PER_BIT
from lowtide.labels import read_classes
from lowtide.types import Bools, Floats, Ints
from paper import layouts

FIXED = ("small network",)
THRESHOLDS = (0.5, 0.6, 0.7, 0.8)  # ε of the paper's tables
_SMALL = "small network"


@dataclass(frozen=True, eq=False)
class Faces:
    """Images with a secret and a split.

    Attributes:
        images: all images.
        s: (n,) the secret.
        train: (n,) which images are for learning.
        folder: where they come from, with all labels.
    """

    images: Images
    s: Ints
    train: Bools
    folder: ImageFolder

    def part(self, train: bool) -> Images:
        """The images for learning, or the others."""
        return Chosen(self.images, np.flatnonzero(self.train == train))


@dataclass(frozen=True)
class Read:
    """What a retrained attacker reads of the test images of a release.

    Attributes:
        attacker: its name: of those trained on the release, the one that did best on validation
            images.
        right: how often it is right, in percent.
        low: lower end of the interval.
        high: upper end.
        bits: information that it has about the secret.
    """

    attacker: str
    right: float
    low: float
    high: float
    bits: float


@dataclass(frozen=True)
class Judged:
    """One release, judged on the test images; accuracies in percent.

    Attributes:
        method: the way to hide.
        setting: how much.
        kept: share of pixels that are as they were.
        fixed: the best attacker among those that know clean images only.
        retrained: the strongest of those trained on the release.
        fixed_by: the fixed attackers one by one.
    """

    method: str
    setting: str
    kept: float
    fixed: float
    retrained: Read
    fixed_by: dict[str, float]


def load(
    folder: Path | None,
    secret: str,
    *,
    size: tuple[int, int] | None = None,
    most: int | None = None,
) -> Faces:
    """Open images with a split of their own, or say where they should lie.

    Args:
        folder: where they are.
        secret: the label to hide.
        size: width and height to bring them to.
        most: use so many images only, for a quick look.
    """
    if folder is None or not folder.is_dir():
        raise LowtideError("the images are not there; name their folder with --data")
    found = open_images(folder, resize=size, listing=layouts.read(folder))
    if found.split is None:
        raise LowtideError(f"{folder} says of no image whether it is for training; add a split.csv")
    if most is not None:
        found = found.take(np.sort(np.random.default_rng(0x6E).permutation(len(found))[:most]))
    split = found.split
    return Faces(
        cached(found), read_classes(found.column(secret))[1], np.asarray(split) == "train", found
    )


class Judge:
    """Attackers trained on clean images once, and others retrained on every release.

    Retrained are logistic regression on edges and, unless told otherwise, a small network that goes
    on from what it learnt of clean images: where little is left of the secret, it learns to read
    that sooner than one that starts from nothing. The one that did best on validation images
    counts, or both together.

    Args:
        faces: the images.
        s: (n,) what is to be read; by default the secret of the faces.
        fixed: names of the attackers that know clean images only.
        networks: whether a network is retrained, too.
        seed: of all of them.
    """

    def __init__(
        self,
        faces: Faces,
        *,
        s: Ints | None = None,
        fixed: Sequence[str] = FIXED,
        networks: bool = True,
        seed: int = 0,
    ) -> None:
        self.faces = faces
        self.s = faces.s if s is None else s
        self.seed = seed
        self.networks = networks
        self.train, self.test = np.flatnonzero(faces.train), np.flatnonzero(~faces.train)
        self.known: dict[str, Attacker] = {}
        for name in dict.fromkeys((*fixed, _SMALL) if networks else fixed):
            start = monotonic()
            clean = Album.of(faces.images)[self.train]
            self.known[name] = taught(IMAGE_ATTACKERS[name](seed), clean, self.s[self.train])
            print(
                f"{name} trained on clean images: {monotonic() - start:.0f} s",
                file=sys.stderr,
                flush=True,
            )

    def fixed(self, release: Any) -> dict[str, float]:
        """The accuracy, in percent, of attackers that know clean images only."""
        album = Album.of(release)[self.test]
        return {
            name: 100 * _right(attacker, album, self.s[self.test])
            for name, attacker in self.known.items()
        }

    def read(self, release: Any) -> Read:
        """What the strongest retrained attacker reads of the test images; both together are a third
        one.
        """
        album = Album.of(release)
        makers = {"edges": IMAGE_ATTACKERS["edges"](self.seed)}
        known = self.known[_SMALL].path if self.networks else None
        if known is not None:
            makers[FROM_CLEAN] = from_clean(known, self.seed)
        fitted = {
            name: taught(maker, album[self.train], self.s[self.train])
            for name, maker in makers.items()
        }
        prior = np.bincount(self.s[self.train]) / len(self.train)
        answers = {
            name: attacker.probabilities(album[self.test]) for name, attacker in fitted.items()
        }
        promised = {name: attacker.gain for name, attacker in fitted.items()}
        if len(fitted) > 1:
            answers["together"], promised["together"] = together(
                list(fitted.values()), album[self.test]
            )
        name = max(promised, key=lambda one: promised[one])
        accuracy = scores.accuracy(answers[name], self.s[self.test], level=0.95)
        bits = float(scores.gains(answers[name], self.s[self.test], prior).mean()) / NATS_PER_BIT
        return Read(name, 100 * accuracy.value, 100 * accuracy.low, 100 * accuracy.high, bits)

    def judge(self, method: str, setting: str, release: Any, kept: float) -> Judged:
        """Judge one release, and say so while others are waited for."""
        start = monotonic()
        fixed = self.fixed(release)
        found = self.read(release)
        judged = Judged(method, setting, kept, max(fixed.values()), found, fixed)
        print(
            f"{method}, {setting}: {kept:.1%} kept, fixed {judged.fixed:.1f} %, retrained"
            f" {found.right:.1f} % ({found.attacker}), {monotonic() - start:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        return judged


def together(attackers: Sequence[Attacker], album: Album) -> tuple[Floats, float]:
    """`q(s|y)` (n, |S|) of images by several attackers that held the same images out, and what they
    gained on these, in nats.
    """
    reading = attackers[0].reading
    told = np.concatenate([one.held_out[None] for a in attackers for one in a.reading.tried])
    weights = stack.weigh(told, reading.codes, reading.log_prior)
    honest = stack.cross_weighed(told, reading.codes, reading.log_prior, reading.part)
    gain = float(honest[np.arange(len(reading.codes)), reading.codes].mean())
    said = np.stack([attacker.answers(album) for attacker in attackers if attacker.reading.tried])
    density = stack.mixed(said, weights, reading.log_prior)
    return stack.never_certain(density, reading.log_prior, len(reading.rows)), gain


def _right(attacker: Attacker, album: Album, codes: Ints) -> float:
    return float((attacker.probabilities(album).argmax(axis=1) == codes).mean())


def hide(faces: Faces, grid: Grid, flags: Any, seed: int, lam: float | None = 1.0) -> Stack:
    """All images with flagged patches, (m,) or (n, m), noised, or redacted when λ is `None`."""
    mechanism = ImageMechanism(grid, "redact" if lam is None else "gaussian", lam)
    key = np.random.SeedSequence([seed, 0x6E4]).generate_state(KEY_BYTES // 4).tobytes()
    ids = row_ids(np.arange(len(faces.s)), len(faces.s))
    every = faces.images.read(np.arange(len(faces.s)))
    return Stack(mechanism.hide(every, flags, noise=KeyedNoise(key), ids=ids))


def fit(
    faces: Faces, patch: int, quick: bool, seed: int, *, work: Path | None = None
) -> tuple[Density, float]:
    """The density of the training faces, and the bits it has about the test faces.

    Args:
        faces: the images.
        patch: the side of patches.
        quick: whether a few steps will do.
        seed: of the fit.
        work: a folder from which a fit that was stopped goes on.
    """
    start = monotonic()
    steps = 40 if quick else None
    kept = None if work is None else str(work / f"ours-{patch}")
    tide = TIDE(features=patch, random_state=seed, max_steps=steps, progress=False, checkpoint=kept)
    density = tide.fit(faces.part(True), faces.s[faces.train]).artefact
    if not isinstance(density, Density):
        raise LowtideError("a finite secret was expected")
    bits = density.information(faces.part(False), faces.s[~faces.train]).bits.value
    said = (
        f"patch {patch}: fitted in {monotonic() - start:.0f} s, {bits:.3f} bits on the test faces"
    )
    print(said, file=sys.stderr, flush=True)
    return density, bits


def by_rule(faces: Faces, judge: Judge, density: Density, patch: int, seed: int) -> list[Judged]:
    """The releases by the paper's rule with noise of λ = 1, one for every ε."""
    grid = Grid(*faces.images.shape, patch)
    none = np.zeros(len(grid), dtype=bool)
    found = list[Judged]()
    before = np.zeros(0, dtype=bool)
    for epsilon in THRESHOLDS:
        flags = all_flags(faces.images, RawPast(density, epsilon, none, none))
        setting = f"{patch} {epsilon}"
        if np.array_equal(before, flags):  # the same release, then
            found.append(replace(found[-1], setting=setting))
        else:
            found.append(
                judge.judge("paper", setting, hide(faces, grid, flags, seed), kept_by(grid, flags))
            )
        before = flags
    return found


def kept_by(grid: Grid, flags: Any) -> float:
    """The share of pixels that flags, (m,) or (n, m), leave as they are."""
    return float(1 - (np.atleast_2d(flags) @ grid.sizes).mean() / grid.sizes.sum())
