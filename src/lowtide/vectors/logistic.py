"""Logistic regression of pairs against permutations on products of features: weights along falling L1 penalties."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from lowtide.errors import Floats
from lowtide.vectors.hermite import Hermite
from lowtide.vectors.separable import Separable, orders

_MAIN = 0.1  # relative penalty of main effects: light, since they only mend the margins
_STEPS = 60
_STILL = 1e-4  # largest change of a weight at which descent stops
_SAFETY = 1.1  # power iteration approaches the curvature from below


@dataclass(frozen=True)
class Problem:
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
        cls, phi: Hermite, psi: Hermite, base: Separable, s: Floats, x: Floats, count: int, rng: np.random.Generator
    ) -> Problem:
        """The problem on rows s (n, d_s) and x (n, d_x), on top of `base`, with `count` permutations."""
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
    """Relative L1 weights, (a, b): 0 for the constant, light for main effects, √(product of degrees) elsewhere."""
    rows, cols = phi.degrees[:, None], psi.degrees[None, :]
    weight = np.sqrt(np.maximum(rows, 1) * np.maximum(cols, 1)).astype(float)
    weight = np.where((rows == 0) | (cols == 0), _MAIN * weight, weight)
    weight[0, 0] = 0.0
    return weight


def curvature(problem: Problem, rounds: int = 12) -> float:
    """Upper estimate of the largest eigenvalue of the loss's Hessian (power iteration, sigmoid' ≤ 1/4)."""
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


def descend(problem: Problem, w: Floats, threshold: Floats, bend: float, steps: int = _STEPS) -> Floats:
    """Accelerated proximal gradient (Beck and Teboulle 2009) with restarts (O'Donoghue and Candès 2015).

    Args:
        problem: the smooth part of the loss.
        w: (a, b) where to start.
        threshold: (a, b) L1 penalty of each weight; an infinite one freezes a weight at zero.
        bend: the curvature; the step is its inverse.
        steps: how many at most.

    Returns:
        (a, b) the weights after the last step.
    """
    ahead, momentum = w, 1.0
    for _ in range(steps):
        moved = ahead - problem.gradient(ahead) / bend
        new = np.sign(moved) * np.maximum(np.abs(moved) - threshold / bend, 0.0)
        change = new - w
        if np.sum((ahead - new) * change) > 0:
            momentum = 1.0
        following = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        ahead = new + (momentum - 1) / following * change
        w, momentum = new, following
        if np.abs(change).max() < _STILL:
            break
    return w


class Path:
    """Weights along falling penalties: L1 finds the support, an unpenalised refit finds the weights."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.bend = problem, curvature(problem)
        self.sparse = np.zeros(problem.penalty.shape)
        self.refit = self.sparse

    def step(self, strength: float) -> Floats:
        """Go on to the penalty `strength`, starting from the weights of the one before; (a, b) refitted weights."""
        problem = self.problem
        self.sparse = descend(problem, self.sparse, strength * problem.penalty, self.bend)
        support = (self.sparse != 0) | (problem.penalty == 0)
        start = np.where(support, np.where(self.refit != 0, self.refit, self.sparse), 0.0)
        self.refit = descend(problem, start, np.where(support, 0.0, np.inf), self.bend)
        return self.refit
