"""Sparse pairwise correction of a separable critic, kept only if held-out rows clearly gain by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lowtide.errors import Floats
from lowtide.vectors.hermite import Hermite
from lowtide.vectors.logistic import Path, Problem
from lowtide.vectors.score import Gain, gains_of, others
from lowtide.vectors.separable import Order, Parts, Separable

Base = Callable[[Floats, Floats], Separable]
"""Fits the critic to be corrected on rows s (n, d_s) and x (n, d_x)."""


@dataclass(frozen=True)
class Pairwise:
    """`g(s, x) = φ(s)' W ψ(x)`; both feature maps lead with a constant, so W holds main effects too.

    Attributes:
        phi: the a features of s.
        psi: the b features of x.
        weights: (a, b) W, mostly zeros.
    """

    phi: Hermite
    psi: Hermite
    weights: Floats

    def parts(self, s: Floats, x: Floats) -> Parts:
        """The pieces on rows s (n_s, d_s) and x (n_x, d_x); only features with a weight take part."""
        left, right, w = self.phi(s), self.psi(x), self.weights
        rows, cols = np.flatnonzero(w[1:].any(axis=1)) + 1, np.flatnonzero(w[:, 1:].any(axis=0)) + 1
        block = w[np.ix_(rows, cols)]
        return Parts(left @ w[:, 0], right[:, 1:] @ w[0, 1:], left[:, rows] @ block, right[:, cols])


@dataclass(frozen=True)
class Settings:
    """How the correction is fitted and when it is kept.

    Attributes:
        degree: of the Hermite features on both sides.
        shuffles: permutations that stand for the product law.
        strengths: the penalties tried, as shares of the smallest at which no weight enters.
        patience: how many penalties in a row may fail to gain.
        errors: standard errors by which the held-out gain must exceed 0.
    """

    degree: int = 2
    shuffles: int = 16
    strengths: tuple[float, ...] = tuple(0.75**k for k in range(14))
    patience: int = 4
    errors: float = 3.0  # not two: the best of many penalties is chosen before it is judged


@dataclass(frozen=True)
class Fold:
    """One fold's path, with what it is judged on.

    Attributes:
        path: the weights fitted on the other rows.
        base: the base critic on the held-out rows.
        held: the held-out rows, s (n, d_s) and x (n, d_x).
        reference: (n,) what the base gains alone.
    """

    path: Path
    base: Parts
    held: tuple[Floats, Floats]
    reference: Floats

    def gain(self, strength: float) -> Floats:
        """What each held-out row gains over the base at the penalty `strength`, (n,)."""
        problem = self.path.problem
        added = Pairwise(problem.phi, problem.psi, self.path.step(strength))
        return gains_of(self.base + added.parts(*self.held)) - self.reference


def _problem(base: Separable, s: Floats, x: Floats, settings: Settings, rng: np.random.Generator) -> Problem:
    phi, psi = Hermite.fit(s, settings.degree), Hermite.fit(x, settings.degree)
    return Problem.of(phi, psi, base, s, x, settings.shuffles, rng)


def _folds(
    base: Base, s: Floats, x: Floats, parts: list[Order], settings: Settings, rng: np.random.Generator
) -> list[Fold]:
    """A path for every part that is held out, each on top of a base that has not seen it either."""
    made = []
    for held in parts:
        rest = others(len(s), held)
        fitted = base(s[rest], x[rest])
        problem = _problem(fitted, s[rest], x[rest], settings, rng)
        pair = (s[held], x[held])
        known = fitted.parts(*pair)
        made.append(Fold(Path(problem), known, pair, gains_of(known)))
    return made


def correct(
    base: Base, s: Floats, x: Floats, parts: list[Order], settings: Settings, rng: np.random.Generator
) -> tuple[Pairwise | None, Gain]:
    """Find the sparse correction to `base` that gains most on held-out folds.

    Args:
        base: fits the critic to be corrected.
        s: (n, d_s) rows with standard normal columns.
        x: (n, d_x) rows with standard normal columns.
        parts: a partition of the rows; each part is held out once.
        settings: how to fit, and when to keep.
        rng: draws the permutations.

    Returns:
        The correction, refitted on all rows, and its held-out gain; None instead of it if that is not clear.
    """
    whole = _problem(base(s, x), s, x, settings, rng)
    top = whole.ceiling()
    candidates = _folds(base, s, x, parts, settings, rng)
    best, at = Gain(0.0, np.inf), -1
    for k, share in enumerate(settings.strengths):
        now = Gain.of(np.concatenate([fold.gain(share * top) for fold in candidates]))
        if now.mean > best.mean:
            best, at = now, k
        elif k - max(at, 0) >= settings.patience:
            break
    if at < 0 or not best.exceeds(settings.errors):
        return None, best
    path = Path(whole)
    weights = [path.step(share * top) for share in settings.strengths[: at + 1]][-1]
    return Pairwise(whole.phi, whole.psi, weights), best
