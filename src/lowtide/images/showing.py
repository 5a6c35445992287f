"""In which order to show what tells least: attack, hide and retrain in closed form.

Against a linear attacker who knows the law of the features, a set A of them tells `d² = tr(Mᵀ Σ⁻¹
M)`, where Σ is the covariance within classes and M holds the class means, centred and weighted by
`√p(s)`: half of it is the information in nats when that is small. What one more unit adds is its
part that the shown ones do not predict (a Schur complement), so that the attacker is retrained,
exactly, for every unit that is tried.

Everything starts hidden. The unit that adds least for its area is shown, again and again; read
backwards this is the order of hiding. That decides by what the *shown* part tells together. Hiding
what is worth most while all the rest is shown does not: copies of the secret excuse each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from lowtide.disclose.budget import blended_worth
from lowtide.images.planning_attackers import Thumbnails
from lowtide.images.shapes import numbers_at_places, places_of_numbers
from lowtide.training import one_thread
from lowtide.types import Bools, Floats, Floats32, Ints

# Added to the variance of every feature, which is 1; with fewer images than features something must
# be
_RIDGE = 1.0
_BATCH = 256
_FAINT = 1e-6  # variance of a feature that does not vary but for rounding


@dataclass(frozen=True, eq=False)
class Spread:
    """First and second moments of features, within classes and between them.

    Attributes:
        within: (D, D) covariance within classes, of features scaled to variance 1, with a ridge.
        between: (D, |S|) class means minus the mean, times `√p(s)`, equally scaled.
        place: (D,) the place each feature belongs to.
        chance: what a feature that tells nothing adds to d² of so few images, for each share of its
            variance that others do not predict; `(|S| − 1)/n`.
    """

    within: Floats
    between: Floats
    place: Ints
    chance: float = 0.0

    def given(self, known: Bools) -> Spread:
        """What is left of the other features once those where `known` (D,) is true are."""
        factor = cho_factor(self.within[np.ix_(known, known)])
        predicted = cho_solve(factor, self.within[np.ix_(known, ~known)])
        within = (
            self.within[np.ix_(~known, ~known)] - self.within[np.ix_(~known, known)] @ predicted
        )
        between = self.between[~known] - predicted.T @ self.between[known]
        return Spread(within, between, self.place[~known], self.chance)


@dataclass(frozen=True, eq=False)
class PlaceNumbers:
    """Shades and edges of the images for planning, place by place.

    Where both sides of an image are treated alike, the mean of an image and its mirror image says
    all that a linear attacker can use: what differs between the sides has the same mean in every
    class.

    Attributes:
        values: (n, D) those of raw images; where images are noised, those of their stand-ins come
            first.
        place: (D,) the place each belongs to.
        noised: whether stand-ins are among them.
    """

    values: Floats32 = field(repr=False)
    place: Ints
    noised: bool

    @classmethod
    def of(cls, data: Thumbnails, *, mirror: bool) -> PlaceNumbers:
        """The numbers of all images.

        Args:
            data: the images for planning.
            mirror: whether both sides of an image are treated alike.
        """
        noised = bool((data.standins != data.standins[:1]).any())
        versions = (data.standins, data.raw) if noised else (data.raw,)
        values = np.concatenate(
            [numbers_at_places(version, mirror) for version in versions], axis=1
        )
        return cls(values, np.tile(places_of_numbers(data.channels, mirror), len(versions)), noised)

    def spread(self, rows: Ints, codes: Ints) -> Spread:
        """The moments of the images `rows`, of classes `codes` (n,); of noised ones, given all
        stand-ins.

        Numbers are counted from those of the first image: moments around the mean do not depend on
        that, and where nearly all images are the same, such as in a plain background, squares of
        single precision would drown what varies.
        """
        classes = int(codes.max()) + 1
        total = np.zeros((len(self.place),) * 2)
        sums = np.zeros((classes, len(self.place)))
        with one_thread():
            for start in range(0, len(rows), _BATCH):
                part = rows[start : start + _BATCH]
                x = self.values[part] - self.values[rows[0]]
                total += x.T @ x  # single precision within a batch, double across
                for k in range(classes):
                    sums[k] += x[codes[part] == k].sum(axis=0)
        counts = np.bincount(codes[rows], minlength=classes)
        means = sums / counts[:, None]
        share = counts / len(rows)
        within = total / len(rows) - (share[:, None] * means).T @ means
        scale = np.sqrt(np.maximum(np.diag(within), _FAINT))
        within /= scale[:, None]
        within /= scale
        within[np.diag_indices_from(within)] += _RIDGE
        between = ((means - share @ means) * np.sqrt(share)[:, None]).T / scale[:, None]
        spread = Spread(within, between, self.place, (classes - 1) / len(rows))
        return (
            spread.given(np.arange(len(self.place)) < len(self.place) // 2)
            if self.noised
            else spread
        )


def showing_order(
    spread: Spread,
    unit: Ints,
    area: Floats,
    *,
    first: Ints,
    last: Ints,
    utility: Spread | None = None,
) -> list[int]:
    """The units in the order in which they are best shown.

    Args:
        spread: the moments of the features.
        unit: (places,) the unit of each place.
        area: (units,) how many pixels each owns.
        first: units that must be shown.
        last: units that must stay hidden.
        utility: the moments of the same features about what should still be told; units that add to
            it come first.
    """
    secret = _Shown(spread, unit)
    useful = None if utility is None else _Shown(utility, unit)
    order: list[int] = []
    size = np.maximum(area, 1.0)  # a place between patches owns no pixel
    barred = set(last.tolist())
    left = [j for j in range(len(area)) if j not in barred]
    must = [j for j in left if j in set(first.tolist())]
    with one_thread():
        while left:
            candidates = [j for j in must if j in left] or left
            worth = size[candidates]
            if useful is not None:
                told = np.array([max(0.0, useful.adds(j)) for j in candidates])
                worth = blended_worth(worth / worth.sum(), told)
            added = np.array([secret.adds(j) for j in candidates])
            chosen = candidates[int(np.argmin(added / worth))]
            order.append(chosen)
            left.remove(chosen)
            for shown in (secret,) if useful is None else (secret, useful):
                shown.show(chosen)
    return order + sorted(barred)


class _Shown:
    """What units add to the d² of those that are shown.

    Args:
        spread: the moments of the features.
        unit: (places,) the unit of each place.
    """

    def __init__(self, spread: Spread, unit: Ints) -> None:
        owner = unit[spread.place]
        self._own = {int(j): np.flatnonzero(owner == j) for j in np.unique(owner)}
        self._within = spread.within.copy()
        self._between = spread.between.copy()
        self._chance = spread.chance

    def adds(self, j: int) -> float:
        """What unit j adds beyond chance; nothing where it owns no feature."""
        return _adds(self._within, self._between, self._own.get(j), self._chance)

    def show(self, j: int) -> None:
        """Show unit j."""
        if j in self._own:
            _condition(self._within, self._between, self._own[j])


def _adds(within: Floats, between: Floats, block: Ints | None, chance: float) -> float:
    """What the features `block` add to d²; nothing where a unit owns no feature.

    Class means of n images are off by chance, by `within/n` without its ridge. What that adds is
    taken off: otherwise noise that nothing predicts, such as that of a plain background, would seem
    to tell more than the rest.
    """
    if block is None:
        return 0.0
    mine = between[block]
    factor = cho_factor(within[np.ix_(block, block)])
    by_chance = len(block) - _RIDGE * np.trace(cho_solve(factor, np.eye(len(block))))
    return float((mine * cho_solve(factor, mine)).sum() - chance * by_chance)


def _condition(within: Floats, between: Floats, block: Ints) -> None:
    """Take out of all features, in place, what `block` predicts of them."""
    predicted = cho_solve(cho_factor(within[np.ix_(block, block)]), within[block])
    between -= predicted.T @ between[block]
    within -= within[:, block] @ predicted
