"""The exact law of a redrawn release, by enumeration: with exact densities, or with those of an
estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lowtide.theory import redraw as theory
from lowtide.types import Floats, Ints
from lowtide.worlds.base import EnumerableWorld
from lowtide.worlds.release import ExactRelease

_TINY = 1e-300  # what a probability of 0 is divided by


class RedrawStep(NamedTuple):
    """What a density is asked when one feature is redrawn.

    Attributes:
        feature: j, the index of the feature.
        past: (paths, released) what has been released of the features before it, in the order of
            release.
        values: (k,) the values that the feature can have.
    """

    feature: int
    past: Floats
    values: Floats


StepDensity = Callable[[RedrawStep], Floats]
"""`i(s; x_j | y^{j−1})` as somebody estimates it, (paths, |S|, k)."""


@dataclass(frozen=True)
class Redrawn:
    """A redrawn release.

    Attributes:
        law: `P(y | s)`.
        changed: (m,) the share of the rows in which each feature is changed, in the order of the
            features.
        expected: (m,) `Σ_s p(s)·∫(P_s − T_s)_+`, the mass that each step must move.
        width: the largest `|log P'_s(y)/R(y)|` that was reached.
    """

    law: ExactRelease
    changed: Floats
    expected: Floats
    width: float

    def densities(self) -> Floats:
        """`i(s; y)` of every outcome, (|S|, outcomes); −∞ where a class never shows it."""
        marginal = self.law.prior @ self.law.outcomes
        with np.errstate(divide="ignore"):
            return np.log(self.law.outcomes[:, marginal > 0]) - np.log(marginal[marginal > 0])


def redraw(
    world: EnumerableWorld,
    density: StepDensity | None = None,
    *,
    width: float = 0.0,
    order: Sequence[int] | None = None,
    keep: Sequence[int] = (),
) -> Redrawn:
    """The exact law of a redrawn release of a world.

    Args:
        world: the law of the data.
        density: the densities that decide; the exact ones by default. Proposals always come from
            the exact `Q`.
        width: w, how far `log P'_s/R` may be from 0 if the densities are exact.
        order: of the features; by default as they stand.
        keep: features that are released as they are, before all others; they do not count towards
            the width.
    """
    m = world.atoms.shape[1]
    rest = [j for j in (range(m) if order is None else order) if j not in keep]
    changed = np.zeros(m)
    expected = np.zeros(m)
    widest = 0.0
    paths = _Paths.start(world)
    for j in [*keep, *rest]:
        values, place = np.unique(world.atoms[:, j], return_inverse=True)
        mine = paths.masses(place, len(values))
        own = mine / np.maximum(mine.sum(axis=-1, keepdims=True), _TINY)
        law = np.einsum("s,psk->pk", world.prior, mine)
        law = law / law.sum(axis=-1, keepdims=True)
        if j in keep:
            paths = paths.follow(
                values, place, np.ones_like(own), np.zeros_like(own), np.zeros_like(own)
            )
            continue
        told = _ratios(own, law) if density is None else density(RedrawStep(j, paths.past, values))
        kept, drawn = _step(told, law, paths.spent, width)
        target = own * kept + (own * (1 - kept)).sum(axis=-1, keepdims=True) * drawn
        moved = mine * (1 - kept)
        again = (moved * drawn).sum(
            axis=-1
        )  # of what is drawn anew, what happens to be the same value
        changed[j] = float((world.prior * (moved.sum(axis=-1) - again)).sum())
        expected[j] = float(
            (world.prior * np.maximum(mine - mine.sum(-1, keepdims=True) * target, 0).sum(-1)).sum()
        )
        paths = paths.follow(values, place, kept, drawn, _ratios(target, law))
        widest = max(widest, float(np.abs(paths.spent[np.isfinite(paths.spent)]).max(initial=0.0)))
    return Redrawn(ExactRelease(world.prior, paths.outcomes()), changed, expected, widest)


@dataclass(frozen=True, eq=False)
class _Paths:
    """All that can have been released so far.

    Attributes:
        given: (|S|, atoms) P(atom | s).
        chance: (paths, |S|, atoms) P(path | s, atom).
        past: (paths, released) what was released.
        spent: (paths, |S|) `log P'_s/R` of it.
    """

    given: Floats
    chance: Floats
    past: Floats
    spent: Floats

    @classmethod
    def start(cls, world: EnumerableWorld) -> _Paths:
        given = world.joint / world.prior[:, None]
        return cls(given, np.ones((1, *given.shape)), np.zeros((1, 0)), np.zeros((1, len(given))))

    def masses(self, place: Ints, k: int) -> Floats:
        """P(path, value | s), (paths, |S|, k), of a feature whose value in each atom is at `place`
        (atoms,).
        """
        return np.einsum("psa,sa,ak->psk", self.chance, self.given, np.eye(k)[place])

    def follow(
        self, values: Floats, place: Ints, kept: Floats, drawn: Floats, told: Floats
    ) -> _Paths:
        """Release the next feature, value by value; all of `kept`, `drawn` and `told` are (paths,
        |S|, k).
        """
        step = self.chance * np.take(kept, place, axis=-1)
        lost = self.chance - step
        every = range(len(values))
        chance = np.concatenate([step * (place == v) + lost * drawn[:, :, [v]] for v in every])
        past = np.concatenate(
            [np.column_stack([self.past, np.full(len(self.past), value)]) for value in values]
        )
        spent = np.concatenate([self.spent + told[:, :, v] for v in every])
        alive = np.einsum("psa,sa->p", chance, self.given) > 0
        return _Paths(self.given, chance[alive], past[alive], spent[alive])

    def outcomes(self) -> Floats:
        """P(path | s), (|S|, paths)."""
        return np.einsum("psa,sa->sp", self.chance, self.given)


def _step(told: Floats, law: Floats, spent: Floats, width: float) -> tuple[Floats, Floats]:
    """How often each value is kept, and the law of what is drawn instead, (paths, |S|, k) each."""
    weights = np.broadcast_to(law[:, None, :], told.shape)
    spent = np.where(
        np.isfinite(spent), spent, 0.0
    )  # a class that never comes this way has nothing to spend
    levels = theory.levels(
        told, weights, np.minimum(-width - spent, 0.0), np.maximum(width - spent, 0.0)
    )
    drawn = weights * theory.redraw_weights(told, levels.floor[..., None])
    return theory.keep_probability(told, levels.cap[..., None]), drawn / np.maximum(
        drawn.sum(-1, keepdims=True), _TINY
    )


def _ratios(own: Floats, law: Floats) -> Floats:
    """`log P_s/Q`, (paths, |S|, k); 0 where Q never shows a value."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(own) - np.log(law)[:, None, :]
    return np.where(np.broadcast_to(law[:, None, :] > 0, own.shape), found, 0.0)
