"""Sparse pairwise correction of a separable critic, kept only if held-out rows clearly gain by it.

It is a logistic regression of pairs against permutations on products of features, with weights
along falling L1 penalties. A permutation test on the same features says whether there is anything
to find.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from lowtide.splits import others
from lowtide.types import Floats, Ints
from vectors.columns import Gain, Hermite, Parts, Separable, gains_of, orders


def _statistics(left: Floats, right: Floats) -> tuple[float, float]:
    """The largest and the summed squared correlation, times n."""
    squares = (left.T @ right) ** 2 / len(left)
    return float(squares.max()), float(squares.sum())


def p_value(left: Floats, right: Floats, draws: int, rng: np.random.Generator) -> float:
    """The p-value of "no feature of s is correlated with one of x", valid at any n under
    independence.

    Bonferroni over the largest square (one strong pair) and the sum of squares (many weak ones).

    Args:
        left: (n, a) standardised features of s.
        right: (n, b) standardised features of x.
        draws: how many permutations; the smallest possible answer is 2 / (1 + draws).
        rng: draws them.
    """
    seen = _statistics(left, right)
    null = np.array([_statistics(left, right[order]) for order in orders(len(left), draws, rng)])
    ranks = (1 + np.sum(null >= np.array(seen), axis=0)) / (1 + draws)
    return float(min(1.0, 2 * ranks.min()))


_MAIN = 0.1  # relative penalty of main effects: light, since they only mend the margins
_STEPS = 60
_STILL = 1e-4  # largest change of a weight at which descent stops
_SAFETY = 1.1  # power iteration approaches the curvature from below


@dataclass(frozen=True)
class PairLogistic:
    """Logistic loss of `offset + φ(s)' W ψ(x)` on n joint pairs and p permutations of them.

    Attributes:
        phi: the features of s.
        psi: the features of x.
        left: (n, a) φ(s).
        right: (p + 1, n, b) ψ(x); slot 0 is the joint.
        offset: (p + 1, n) what the base critic says.
        penalty: (a, b) relative L1 weights.
    """

    phi: Hermite
    psi: Hermite
    left: Floats
    right: Floats
    offset: Floats
    penalty: Floats

    @classmethod
    def of(
        cls,
        phi: Hermite,
        psi: Hermite,
        base: Separable,
        s: Floats,
        x: Floats,
        count: int,
        rng: np.random.Generator,
    ) -> PairLogistic:
        """The problem on rows s (n, d_s) and x (n, d_x), on top of `base`, with `count`
        permutations.
        """
        order = np.vstack([np.arange(len(s))[None], orders(len(s), count, rng)])
        right = psi(x)[order]
        return cls(phi, psi, phi(s), right, base.parts(s, x).permuted(order), penalties(phi, psi))

    def gradient(self, w: Floats) -> Floats:
        """Gradient of the loss at the weights w (a, b), (a, b)."""
        logits = self.offset + np.einsum("ib,pib->pi", self.left @ w, self.right)
        slope = expit(logits)
        slope[0] -= 1
        slope[1:] /= len(slope) - 1
        return self.left.T @ np.einsum("pi,pib->ib", slope, self.right) / len(self.left)

    def ceiling(self) -> float:
        """Smallest penalty at which no weight enters."""
        slope = np.abs(self.gradient(np.zeros(self.penalty.shape)))
        return float(np.max(slope[self.penalty > 0] / self.penalty[self.penalty > 0]))


def penalties(phi: Hermite, psi: Hermite) -> Floats:
    """Relative L1 weights, (a, b): 0 for the constant, light for main effects, √(product of
    degrees) elsewhere.
    """
    rows = phi.degrees[:, None]
    cols = psi.degrees[None, :]
    weight = np.sqrt(np.maximum(rows, 1) * np.maximum(cols, 1)).astype(float)
    weight = np.where((rows == 0) | (cols == 0), _MAIN * weight, weight)
    weight[0, 0] = 0.0
    return weight


def curvature(problem: PairLogistic, rounds: int = 12) -> float:
    """Upper estimate of the largest eigenvalue of the loss's Hessian (power iteration, sigmoid' ≤
    1/4).
    """
    share = np.full((len(problem.right), 1), 1.0 / (len(problem.right) - 1))
    share[0] = 1.0
    w = np.ones(problem.penalty.shape)
    size = 1.0
    for _ in range(rounds):
        w /= np.linalg.norm(w)
        image = share * np.einsum("ib,pib->pi", problem.left @ w, problem.right)
        w = problem.left.T @ np.einsum("pi,pib->ib", image, problem.right) / len(problem.left)
        size = float(np.linalg.norm(w))
    return 0.25 * _SAFETY * size


def descend(
    problem: PairLogistic, w: Floats, threshold: Floats, bend: float, steps: int = _STEPS
) -> Floats:
    """Accelerated proximal gradient (Beck and Teboulle 2009) with restarts (O'Donoghue and Candès
    2015).

    Args:
        problem: the smooth part of the loss.
        w: (a, b) where to start.
        threshold: (a, b) L1 penalty of each weight; an infinite one freezes a weight at zero.
        bend: the curvature; the step is its inverse.
        steps: how many at most.

    Returns:
        (a, b) the weights after the last step.
    """
    ahead = w
    momentum = 1.0
    for _ in range(steps):
        moved = ahead - problem.gradient(ahead) / bend
        new = np.sign(moved) * np.maximum(np.abs(moved) - threshold / bend, 0.0)
        change = new - w
        if np.sum((ahead - new) * change) > 0:
            momentum = 1.0
        following = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        ahead = new + (momentum - 1) / following * change
        w = new
        momentum = following
        if np.abs(change).max() < _STILL:
            break
    return w


class PenaltyPath:
    """Weights along falling penalties: L1 finds the support, an unpenalised refit finds the
    weights.
    """

    def __init__(self, problem: PairLogistic) -> None:
        self.problem = problem
        self.bend = curvature(problem)
        self.sparse = np.zeros(problem.penalty.shape)
        self.refit = self.sparse

    def step(self, strength: float) -> Floats:
        """Go on to the penalty `strength`, starting from the weights of the one before; (a, b)
        refitted weights.
        """
        problem = self.problem
        self.sparse = descend(problem, self.sparse, strength * problem.penalty, self.bend)
        support = (self.sparse != 0) | (problem.penalty == 0)
        start = np.where(support, np.where(self.refit != 0, self.refit, self.sparse), 0.0)
        self.refit = descend(problem, start, np.where(support, 0.0, np.inf), self.bend)
        return self.refit


Base = Callable[[Floats, Floats], Separable]
"""Fits the critic to be corrected on rows s (n, d_s) and x (n, d_x)."""


@dataclass(frozen=True)
class Pairwise:
    """`g(s, x) = φ(s)' W ψ(x)`; both feature maps lead with a constant, so W holds main effects
    too.

    Attributes:
        phi: the a features of s.
        psi: the b features of x.
        weights: (a, b) W, mostly zeros.
    """

    phi: Hermite
    psi: Hermite
    weights: Floats

    def parts(self, s: Floats, x: Floats) -> Parts:
        """The pieces on rows s (n_s, d_s) and x (n_x, d_x); only features with a weight take
        part.
        """
        left = self.phi(s)
        right = self.psi(x)
        w = self.weights
        rows = np.flatnonzero(w[1:].any(axis=1)) + 1
        cols = np.flatnonzero(w[:, 1:].any(axis=0)) + 1
        block = w[np.ix_(rows, cols)]
        return Parts(left @ w[:, 0], right[:, 1:] @ w[0, 1:], left[:, rows] @ block, right[:, cols])


@dataclass(frozen=True)
class PairwiseSettings:
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
class HeldOutPath:
    """One fold's path, with what it is judged on.

    Attributes:
        path: the weights fitted on the other rows.
        base: the base critic on the held-out rows.
        held: the held-out rows, s (n, d_s) and x (n, d_x).
        reference: (n,) what the base gains alone.
    """

    path: PenaltyPath
    base: Parts
    held: tuple[Floats, Floats]
    reference: Floats

    def gain(self, strength: float) -> Floats:
        """What each held-out row gains over the base at the penalty `strength`, (n,)."""
        problem = self.path.problem
        added = Pairwise(problem.phi, problem.psi, self.path.step(strength))
        return gains_of(self.base + added.parts(*self.held)) - self.reference


def _problem(
    base: Separable, s: Floats, x: Floats, settings: PairwiseSettings, rng: np.random.Generator
) -> PairLogistic:
    phi = Hermite.fit(s, settings.degree)
    psi = Hermite.fit(x, settings.degree)
    return PairLogistic.of(phi, psi, base, s, x, settings.shuffles, rng)


def _folds(
    base: Base,
    s: Floats,
    x: Floats,
    parts: list[Ints],
    settings: PairwiseSettings,
    rng: np.random.Generator,
) -> list[HeldOutPath]:
    """A path for every part that is held out, each on top of a base that has not seen it either."""
    made = []
    for held in parts:
        rest = others(len(s), held)
        fitted = base(s[rest], x[rest])
        problem = _problem(fitted, s[rest], x[rest], settings, rng)
        pair = (s[held], x[held])
        known = fitted.parts(*pair)
        made.append(HeldOutPath(PenaltyPath(problem), known, pair, gains_of(known)))
    return made


def correct(
    base: Base,
    s: Floats,
    x: Floats,
    parts: list[Ints],
    settings: PairwiseSettings,
    rng: np.random.Generator,
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
        The correction, refitted on all rows, and its held-out gain; None instead of it if that is
        not clear.
    """
    whole = _problem(base(s, x), s, x, settings, rng)
    top = whole.ceiling()
    candidates = _folds(base, s, x, parts, settings, rng)
    best = Gain(0.0, np.inf)
    at = -1
    for k, share in enumerate(settings.strengths):
        now = Gain.of(np.concatenate([fold.gain(share * top) for fold in candidates]))
        if now.mean > best.mean:
            best = now
            at = k
        elif k - max(at, 0) >= settings.patience:
            break
    if at < 0 or not best.exceeds(settings.errors):
        return None, best
    path = PenaltyPath(whole)
    weights = [path.step(share * top) for share in settings.strengths[: at + 1]][-1]
    return Pairwise(whole.phi, whole.psi, weights), best
