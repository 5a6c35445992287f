"""What a learner is, and what a critic is: a learner once fitted, a frozen function of partially
observed rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LowtideError
from lowtide.types import Bools, Floats, Floats32, Ints

Array = NDArray[Any]
"""Numbers in single or in double precision."""

Rows = Any
"""A float32 array (n, columns), a scipy CSR array, or what the encoder of another kind of data
reads.
"""

Held = tuple[Any, Ints] | None
"""Rows that a learner is judged by, and their classes."""

Stage = int | None
"""The last stage that is wanted of a path; `None` for all."""


class Fitted(Protocol):
    """What a learner has become: it scores each class, for rows that it has not seen."""

    def scores(self, rows: Any) -> Array:
        """`log p(s | row)` up to a constant for each row, (n, |S|)."""
        ...


class Path(Protocol):
    """What a learner has become at several stages, from cautious to bold.

    Stages are penalties of a regression, rounds of boosting or steps of training. Held-out rows
    say which stage is the best, so a learner does not choose by itself.
    """

    def scores(self, rows: Any) -> Array:
        """(stages, n, |S|) what each stage says of rows, as `Fitted.scores`."""
        ...

    def at(self, stage: int) -> Any:
        """The learner at one stage: a `Fitted`, and a `Critic` where subsets are asked about."""
        ...


class Learner(Protocol):
    """Learns the secret from rows; `lowtide.estimate.reader.read` says how far it is believed.

    Attributes:
        name: what it is called in reports.
        toll: nats, over all held-out rows, that it must gain beside the others to be given a
            weight. The freer a model is, the more of its held-out gain is luck.

    One that takes long may have two more attributes: `trial`, a cheap version that is asked first
    whether the other has a chance, and `tick`, a field of a dataclass, called with the share of a
    fit that is done.
    """

    @property
    def name(self) -> str:
        """What it is called in reports."""
        ...

    @property
    def toll(self) -> float:
        """Nats that it must gain to be given a weight."""
        ...

    def fit(
        self, rows: Any, codes: Ints, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Path | None:
        """Learn from n rows; `None` where there is nothing for it to learn from.

        Args:
            rows: n rows, picked by row numbers.
            codes: (n,) their classes.
            log_prior: (|S|,) of the classes.
            held: rows and classes that it is judged by; it may end early where they gain no more.
            until: the last stage that is wanted; all by default.
        """
        ...


@dataclass(frozen=True, eq=False)
class Shown:
    """Dense rows, of which some features are seen.

    Attributes:
        x: (n, columns) float32.
        seen: (n, m) which features of each row are seen; `None` for all.
        number: (n,) which rows they are; `None` where nobody asks.
    """

    x: Floats32
    seen: Bools | None = None
    number: Ints | None = None

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Any) -> Shown:
        return Shown(
            self.x[index],
            None if self.seen is None else self.seen[index],
            None if self.number is None else self.number[index],
        )


class Critic(Protocol):
    """Scores each class for rows of which only some features are seen.

    Scores are free up to a constant per row; `Density` normalises them. They are 0 for every class
    when nothing is seen. A critic answers for what it was trained on: any subset of the features.
    It inherits from this class, which holds what most critics have in common.

    Attributes:
        kind: the name it is saved under.
        normalised: whether `Density` normalises its scores.
    """

    kind: ClassVar[str]
    normalised: ClassVar[bool] = True

    def scores(self, x: Rows, seen: Bools | None = None) -> Array:
        """Scores (n, |S|); `seen` is (n, m) booleans, or `None` when everything is seen."""
        ...

    def prefix_scores(self, x: Rows, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|) of the first j features for j = 0 … m, along `order` (m,), in one
        pass.
        """
        ...

    def present_scores(self, x: Any) -> Array:
        """Scores (nnz, |S|) of each sparse row after each of its entries, in CSR order."""
        raise LowtideError(
            f"a density with the critic {self.kind!r} was fitted on dense rows; give X.toarray()"
        )

    def players(self, features: int) -> Ints:
        """(m,) the player of the order-free attribution that each of m features belongs to; each
        its own by default.
        """
        return np.arange(features)

    def player_scores(self, x: Rows, order: Ints) -> Array:
        """Scores (n, k + 1, |S|) while k players are shown one after the other, along `order`
        (k,).
        """
        return self.prefix_scores(x, order)

    def settings(self) -> dict[str, Any]:
        """What `from_saved` needs besides the tensors; plain JSON values."""
        return {}

    def tensors(self) -> dict[str, Array]:
        """The weights."""
        ...

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Critic:
        """Rebuild what `settings` and `tensors` describe."""
        ...


class Null(Critic):
    """g = 0: the features tell nothing. Always a candidate, so that independent data gives exactly
    0.
    """

    kind: ClassVar[str] = "null"
    normalised: ClassVar[bool] = False  # zeros are normalised already, and stay exact

    def __init__(self, classes: int, features: int) -> None:
        self.classes = classes
        self.features = features

    def scores(self, x: Rows, seen: Bools | None = None) -> Array:
        """Zeros, (n, |S|)."""
        return np.zeros((x.shape[0], self.classes), dtype=np.float32)

    def prefix_scores(self, x: Rows, order: Ints | None = None) -> Array:
        """Zeros, (n, m + 1, |S|)."""
        return np.zeros((x.shape[0], self.features + 1, self.classes), dtype=np.float32)

    def present_scores(self, x: Any) -> Array:
        """Zeros, (nnz, |S|)."""
        return np.zeros((x.nnz, self.classes), dtype=np.float32)

    def settings(self) -> dict[str, Any]:
        """The shape of the zeros."""
        return {"classes": self.classes, "features": self.features}

    def tensors(self) -> dict[str, Array]:
        """None."""
        return {}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Null:
        """Rebuild it."""
        return cls(int(settings["classes"]), int(settings["features"]))


class Mixture(Critic):
    """Critics whose scores are added up with weights.

    Attributes:
        parts: the critics; none of them shrinks subsets by itself.
        weights: (parts,).
        shrinkage: (1 + m,) how far subsets are believed; see `believed`.
    """

    kind: ClassVar[str] = "mixture"

    def __init__(self, parts: tuple[Critic, ...], weights: Floats, shrinkage: Array) -> None:
        self.parts = parts
        self.weights = weights
        self.shrinkage = shrinkage.astype(np.float64)

    def scores(self, x: Rows, seen: Bools | None = None) -> Array:
        """Scores (n, |S|)."""
        total = sum(
            weight * part.scores(x, seen).astype(np.float64) for weight, part in self._weighted()
        )
        if seen is None:
            return np.asarray(total)
        belief = believed(self.shrinkage, seen.astype(np.float64) @ self.shrinkage[1:])
        return np.asarray(total * belief[:, None])

    def prefix_scores(self, x: Rows, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|): every part in one pass."""
        total = sum(
            weight * part.prefix_scores(x, order).astype(np.float64)
            for weight, part in self._weighted()
        )
        slopes = self.shrinkage[1:] if order is None else self.shrinkage[1:][order]
        return np.asarray(total * believed(self.shrinkage, starting_at_zero(slopes))[:, None])

    def settings(self) -> dict[str, Any]:
        """Which parts there are."""
        return {"parts": [{"kind": part.kind, **part.settings()} for part in self.parts]}

    def tensors(self) -> dict[str, Array]:
        """The tensors of all parts, each behind its number, and what weighs them."""
        parts = {
            f"{k}.{name}": value
            for k, part in enumerate(self.parts)
            for name, value in part.tensors().items()
        }
        return {**parts, "weights": self.weights, "shrinkage": self.shrinkage}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Mixture:
        """Rebuild it."""
        from lowtide.estimate.learners import CRITICS, critic_class

        parts = []
        for k, saved in enumerate(settings["parts"]):
            rest = {name: value for name, value in saved.items() if name != "kind"}
            if saved["kind"] not in CRITICS:
                raise LowtideError(
                    f"a part of the saved mixture is {saved['kind']!r}, which this version does not"
                    " read; fit the density again"
                )
            part = critic_class(saved["kind"])
            parts.append(part.from_saved(rest, behind(f"{k}.", tensors)))
        return cls(tuple(parts), tensors["weights"], tensors["shrinkage"])

    def _weighted(self) -> Iterator[tuple[float, Critic]]:
        return zip(self.weights.tolist(), self.parts, strict=True)


def behind(prefix: str, tensors: dict[str, Array]) -> dict[str, Array]:
    """Those of the tensors whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def normalise(scores: Array, log_prior: Array) -> Array:
    """Shift scores (…, |S|) so that `Σ_s p(s) e^g = 1`: the exact constant that Donsker–Varadhan
    leaves free.
    """
    shifted = scores + log_prior
    top = shifted.max(axis=-1, keepdims=True)
    return np.asarray(scores - top - np.log(np.exp(shifted - top).sum(axis=-1, keepdims=True)))


def believed(shrinkage: Array, total: Array) -> Array:
    """How far subsets are believed, from the shrinkage (1 + m,) and sums Σ_{j∈A} a_j; see
    `lowtide.estimate.stack`.
    """
    from scipy import special

    return np.asarray(special.expit(shrinkage[0] + total) / special.expit(shrinkage.sum()))


def starting_at_zero(steps: Array) -> Array:
    """(m + 1,) the running sums of steps (m,), from 0 on."""
    return np.concatenate([np.zeros(1, dtype=steps.dtype), np.cumsum(steps, dtype=steps.dtype)])


def places(order: Ints | None, features: int) -> Ints:
    """(m,) after how many features along `order` (m,) each one is seen, from 1."""
    along = np.arange(features) if order is None else order
    place = np.empty(features, dtype=np.intp)
    place[along] = np.arange(1, features + 1)
    return place


def add_at(values: Floats, place: Ints, slopes: Floats, features: int) -> Floats:
    """Sums (n, m + 1, |S|) of `values · slopes`, (n, q) and (q, |S|), each where its place (q,)
    says.
    """
    added = np.zeros((len(values), features + 1, slopes.shape[1]))
    for j in np.unique(place):
        mine = place == j
        added[:, j] = values[:, mine] @ slopes[mine]
    return added


def shared_intercept(importance: Floats, whole: Floats) -> Floats:
    """(m, |S|) the intercept `whole` (|S|,) of whole rows, shared by the features as far as each
    matters.
    """
    total = importance.sum()
    shares = importance / total if total > 0 else np.full(len(importance), 1 / len(importance))
    return np.outer(shares, whole)
