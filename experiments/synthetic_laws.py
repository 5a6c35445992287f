"""Laws of pairs (S, X), the paper's and others, each with its exact density."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lowtide import worlds
from lowtide.types import Floats


class Draw(NamedTuple):
    """Pairs and the exact information density of each."""

    x: Floats
    s: Floats
    truth: Floats


Law = Callable[[int, int], Draw]
_WARPS = (
    np.exp,
    np.tanh,
    lambda z: z**3,
    lambda z: np.sign(z) * np.sqrt(np.abs(z)),
    lambda z: z + np.sin(z),
)


def gaussian(d: int, rho: float, *, rotate: bool = False, warp: bool = False) -> Law:
    """The paper's law; rotated, so that no coordinate of x belongs to one of s; or warped by
    monotone maps.
    """
    world = worlds.gaussian_pair(d, rho)

    def draw(n: int, seed: int) -> Draw:
        x, s = world.sample(n, seed)
        truth = world.density(x, s)
        if rotate:
            x = x @ np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]
        if warp:
            x = np.column_stack([_WARPS[j % len(_WARPS)](x[:, j]) for j in range(d)])
        return Draw(x, s, truth)

    return draw


def square(d: int, strength: float = 0.9) -> Law:
    """X₁ = a·(S₁² − 1)/√2 + noise: dependent but uncorrelated."""

    def draw(n: int, seed: int) -> Draw:
        rng = np.random.default_rng(seed)
        s, x = rng.standard_normal((2, n, d))
        width = np.sqrt(1 - strength**2)
        mean = strength * (s[:, 0] ** 2 - 1) / np.sqrt(2)
        x[:, 0] = mean + width * x[:, 0]
        grid = np.linspace(-8, 8, 4001)
        weight = _normal(grid, 0.0, 1.0) * (grid[1] - grid[0])
        centres = strength * (grid**2 - 1) / np.sqrt(2)
        marginal = np.array([(_normal(value, centres, width) * weight).sum() for value in x[:, 0]])
        return Draw(x, s, np.log(_normal(x[:, 0], mean, width) / marginal))

    return draw


def three_way(d: int) -> Law:
    """X₃ = S₁·X₁ + noise: no pair of columns says anything."""

    def draw(n: int, seed: int) -> Draw:
        rng = np.random.default_rng(seed)
        s, x = rng.standard_normal((2, n, max(d, 3)))
        mean = s[:, 0] * x[:, 0]
        x[:, 2] += mean
        marginal = _normal(x[:, 2], 0.0, np.sqrt(1 + x[:, 0] ** 2))
        return Draw(x, s[:, :d], np.log(_normal(x[:, 2], mean, 1.0) / marginal))

    return draw


def _normal(z: Floats | float, mean: Floats | float, width: Floats | float) -> Floats:
    return np.asarray(np.exp(-0.5 * ((z - mean) / width) ** 2) / (width * np.sqrt(2 * np.pi)))
