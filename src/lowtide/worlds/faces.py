"""Drawn faces: images whose every patch has an exact information density.

A face is one of finitely many looks plus independent pixel noise. The density of any set of patches is then a
finite sum over looks. The smile sits in the mouth and, weakly, in the eyes and the hair.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.special import xlogy

from lowtide.errors import LowtideError, count, within
from lowtide.features import patches
from lowtide.interface import Sample
from lowtide.types import Bools, Floats, Ints, Labels
from lowtide.worlds.base import FiniteWorld, draw_secrets
from lowtide.worlds.drawing import CHOICES, Look, draw, mouth_box

# P(mouth | s): frown, flat, slight smile, broad smile. No mouth is impossible for anybody.
_MOUTHS = {
    2: ((0.40, 0.45, 0.12, 0.03), (0.03, 0.12, 0.40, 0.45)),
    3: ((0.70, 0.20, 0.07, 0.03), (0.15, 0.60, 0.20, 0.05), (0.03, 0.07, 0.40, 0.50)),
}
_SQUINT = {2: (0.35, 0.65), 3: (0.30, 0.35, 0.65)}
_LONG_HAIR = {2: (0.46, 0.54), 3: (0.45, 0.50, 0.55)}
_CHUNK = 32


class DrawnFaces(FiniteWorld[Floats]):
    """Faces of size × size pixels in colour; a row of x holds the pixels row by row, channels side by side.

    Attributes:
        size: height and width in pixels.
        noise: standard deviation of the pixel noise.
        looks: the traits of every possible face.
        drawn: (looks, columns) the faces without noise.
    """

    def __init__(self, size: int, classes: int, patch: int, noise: float) -> None:
        super().__init__(patches(size, size, patch), np.full(classes, 1.0 / classes))
        self.size, self.noise = size, noise
        self.looks = [Look(*choice) for choice in product(*map(range, CHOICES.values()))]
        self.drawn = np.stack([draw(look, size).ravel() for look in self.looks])
        self._given_s = np.stack([_law_of_looks(self.looks, s, classes) for s in range(classes)])
        self._check_separation()

    def sample(self, n: int, seed: int) -> Sample[Floats, Labels]:
        """Draw n noisy faces, (n, size·size·3), and whether they smile."""
        rng = np.random.default_rng(seed)
        s = draw_secrets(self.prior, n, rng)
        cumulative = np.cumsum(self._given_s, axis=1)
        look = np.array(
            [np.searchsorted(cumulative[k], u * cumulative[k, -1]) for k, u in zip(s, rng.random(n), strict=True)]
        )
        return Sample(self.drawn[look] + self.noise * rng.standard_normal((n, self.drawn.shape[1])), s)

    def images(self, x: Floats) -> Floats:
        """Rows as images in [0, 1], (n, size, size, 3)."""
        return np.clip(self._rows(x), 0.0, 1.0).reshape(-1, self.size, self.size, 3)

    def hair(self, x: Floats) -> Labels:
        """The utility attribute of each row: short (0) or long (1) hair, read off the most likely look."""
        likeliest = self._fit(self._rows(x), slice(None)).argmax(axis=1)
        return np.array([self.looks[k].hair for k in likeliest], dtype=np.intp)

    def leaking_patches(self) -> Bools:
        """Which patches touch a mouth: where nearly all of the secret sits, (m,)."""
        top, left, bottom, right = mouth_box(self.size)
        inside = np.zeros((self.size, self.size, 3), dtype=bool)
        inside[top:bottom, left:right] = True
        return np.isin(np.arange(len(self.features)), self.features.groups[inside.ravel()])

    def information(self) -> float:
        """`I(S; X)` in nats: that of the look, which the noise is too weak to blur."""
        joint = self.prior[:, None] * self._given_s
        independent = np.outer(self.prior, joint.sum(axis=0))
        return float((xlogy(joint, joint) - xlogy(joint, independent)).sum())

    def _rows(self, x: Floats) -> Floats:
        return self._dense_rows(x)

    def _fit(self, x: Floats, columns: Ints | slice) -> Floats:
        """`log N(x_A; look_A, σ²)` up to a term without the look, (n, looks)."""
        faces = self.drawn[:, columns]
        return (x[:, columns] @ faces.T - 0.5 * (faces**2).sum(axis=1)) / self.noise**2

    def _patch_fits(self, x: Floats) -> list[Floats]:
        order = np.argsort(self.features.groups, kind="stable")
        ends = np.cumsum(np.bincount(self.features.groups))[:-1]
        return [self._fit(x, columns) for columns in np.split(order, ends)]

    def _mix(self, fits: Floats) -> Floats:
        """From `log p(x_A | look)` to `log p(x_A | s)`, (n, |S|)."""
        top = fits.max(axis=1, keepdims=True)
        return np.log(np.exp(fits - top) @ self._given_s.T) + top

    def _log_likelihood(self, x: Floats, mask: Bools) -> Floats:
        if mask.ndim == 1:
            return self._mix(self._fit(x, np.flatnonzero(self.features.columns(mask))))
        blocks = []
        for start in range(0, len(x), _CHUNK):
            fits = zip(mask[start : start + _CHUNK].T, self._patch_fits(x[start : start + _CHUNK]), strict=True)
            blocks.append(self._mix(np.sum([seen[:, None] * fit for seen, fit in fits], axis=0)))
        return np.concatenate(blocks)

    def _prefix_log_likelihood(self, x: Floats) -> Floats:
        blocks = []
        for start in range(0, len(x), _CHUNK):
            rows = x[start : start + _CHUNK]
            total = np.zeros((len(rows), len(self.looks)))
            steps = [self._mix(total)]
            for fit in self._patch_fits(rows):
                total = total + fit
                steps.append(self._mix(total))
            blocks.append(np.stack(steps, axis=1))
        return np.concatenate(blocks)

    def _check_separation(self) -> None:
        """Refuse noise that would blur looks into each other: `information` would no longer be exact."""
        squares = (self.drawn**2).sum(axis=1)
        gaps = squares[:, None] + squares[None, :] - 2 * self.drawn @ self.drawn.T
        np.fill_diagonal(gaps, np.inf)
        closest = float(np.sqrt(max(gaps.min(), 0.0)))
        # Two looks 12 σ apart are confused with probability 1e-9.
        if closest < 12 * self.noise:
            raise LowtideError(
                f"noise {self.noise:g} blurs faces of {self.size} pixels into each other; "
                f"use at most {closest / 12:.3g}"
            )


def drawn_faces(size: int = 32, classes: int = 2, *, patch: int = 4, noise: float | None = None) -> DrawnFaces:
    """Faces that smile or not.

    Args:
        size: height and width in pixels, 16 to 128.
        classes: 2 (neutral, smiling) or 3 (sad, neutral, smiling).
        patch: a feature is a patch of patch × patch pixels.
        noise: standard deviation of the pixel noise; by default 0.03, or 0.015 below 32 pixels.
    """
    count("size", size, 16, 128)
    count("classes", classes, 2, max(_MOUTHS))
    default = 0.03 if size >= 32 else 0.015
    sigma = float(within("noise", default if noise is None else noise, 0.0, 1.0, low_open=True))
    return DrawnFaces(size, classes, patch, sigma)


def _law_of_looks(looks: list[Look], s: int, classes: int) -> Floats:
    """P(look | s): mouth, eyes and hair depend on s, the rest is uniform."""
    law = np.array(
        [
            _MOUTHS[classes][s][look.mouth]
            * (_SQUINT[classes][s] if look.eyes else 1 - _SQUINT[classes][s])
            * (_LONG_HAIR[classes][s] if look.hair else 1 - _LONG_HAIR[classes][s])
            for look in looks
        ]
    )
    return law / law.sum()
