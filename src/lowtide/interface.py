"""The shapes that travel between rooms: protocols and frozen results. Imports array types only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowtide.types import Bools, Labels

NATS_PER_BIT = math.log(2.0)


@dataclass(frozen=True)
class Estimate:
    """An estimated number with its confidence interval; there are no bare floats.

    Attributes:
        value: the point estimate: information in nats, accuracies and shares as they are.
        low: lower end of the interval.
        high: upper end of the interval.
        n: how many samples it rests on.
    """

    value: float
    low: float
    high: float
    n: int

    @property
    def bits(self) -> Estimate:
        """The same number of nats counted in bits."""
        return Estimate(self.value / NATS_PER_BIT, self.low / NATS_PER_BIT, self.high / NATS_PER_BIT, self.n)

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True)
class Guarantee:
    """A worst-case bound: the divergence at γ = e^epsilon is at most delta."""

    epsilon: float
    delta: float

    def is_vacuous(self, prior: float = 0.0) -> bool:
        """Whether every release satisfies it, full disclosure included.

        No release whatever exceeds `(1 − e^ε π)_+` forward, for a secret value of prior π; with the default
        of 0 the answer holds for every prior and for the reverse direction too.
        """
        return self.delta >= max(0.0, 1.0 - math.exp(min(self.epsilon, 700.0)) * prior)


@dataclass(frozen=True)
class Attack:
    """What one attacker achieves on rows it was not trained on: a lower bound on what can be learnt.

    Attributes:
        attacker: its name.
        trained_on: what it learnt from: the `release`, the `clean` data, or `nothing` (it guesses the prior).
        target: what it attacks, the `release` or the `clean` data.
        accuracy: how often its best guess is right.
        auc: area under the ROC curve; the mean over classes, one against the rest, when there are more than two.
        information: entropy of the secret minus the attacker's cross-entropy, in nats; below 0 when it misleads.
    """

    attacker: str
    trained_on: Literal["release", "clean", "nothing"]
    target: Literal["release", "clean"]
    accuracy: Estimate
    auc: Estimate
    information: Estimate


X = TypeVar("X")
S = TypeVar("S")


class Sample(NamedTuple, Generic[X, S]):
    """Rows drawn from a world: the data, and the secret of each row."""

    x: X
    s: S


class World(Protocol[X]):
    """A law of (X, S) with finite S whose information density is known exactly, in nats."""

    @property
    def prior(self) -> NDArray[np.float64]:
        """P(S), of shape (|S|,)."""
        ...

    def sample(self, n: int, seed: int) -> Sample[X, NDArray[np.intp]]:
        """Draw n rows; the same seed gives the same rows."""
        ...

    def density(self, x: X) -> NDArray[np.float64]:
        """`i(s; x)`, of shape (n, |S|)."""
        ...

    def prefixes(self, x: X) -> NDArray[np.float64]:
        """`i(s; x^j)` for j = 0 … m, of shape (n, m + 1, |S|)."""
        ...

    def observed(self, x: X, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
        """`i(s; x_A)` for the features A where `mask` is true, of shape (n, |S|)."""
        ...

    def information(self) -> float:
        """`I(S; X)`."""
        ...


@dataclass(frozen=True)
class Nouns:
    """What one kind of data calls its things, in messages and reports.

    Attributes:
        row: what one sample is; `rows` of many, `a_row` at the start of a sentence.
        feature: what may be hidden; `features` of many, `columns` where a table has columns.
        named: whether features have names that say something and may be published.
        worth: what a share that is kept is a share of.
        unit: what an audit compares one by one.
        counted: what features are called where they are counted beside what is kept.
    """

    row: str
    rows: str
    a_row: str
    feature: str
    features: str
    columns: str
    named: bool
    worth: str
    unit: str
    counted: str


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples with their secret, as a modality opened them.

    Attributes:
        kind: the name of the modality.
        name: what to call it in titles: the name of the file, or of the kind.
        samples: n samples in the kind's own form: a pyarrow table of the judged columns, `Images`, a list of texts.
        secret: what the secret is called.
        labels: (n,) its values.
        known: (all,) which samples of the source have a secret; the others were left out.
        groups: (n,) samples that stay on one side of every split have one number; `None` where each stands for itself.
        notes: what a person should know before they believe the rest.
        source: what only the kind's own modules read: a description of the columns, an image folder, a set of texts.
    """

    kind: str
    name: str
    samples: Any = field(repr=False)
    secret: str
    labels: NDArray[Any] = field(repr=False)
    known: Bools = field(repr=False)
    groups: Labels | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    source: Any = field(default=None, repr=False)


class Modality(Protocol):
    """One kind of data. Every layer asks a modality what differs between kinds, and nobody asks which kind it is.

    Attributes:
        name: such as `tables`; also what the plan file and a saved density say.
        nouns: what it calls its things.
        options: a frozen dataclass of what a user may tell about this kind; the command line makes flags from it.
        policies: names of the policies it has; the first is the default.
        mechanisms: names of the mechanisms it has; the first is the default.
        default_budget: what a release may tell when nothing is said, in nats.
        settings: a frozen dataclass of what only the Obfuscator of this kind takes.
        critics: classes of critics it adds to those of `lowtide.density.critics`, by the name they are saved under.
        attackers: makers of attackers, from a seed, by name.
        joins_attackers: whether several attackers are also joined into one, "together".
    """

    name: str
    nouns: Nouns
    options: type[Any]
    policies: tuple[str, ...]
    mechanisms: tuple[str, ...]
    default_budget: float
    settings: type[Any]

    @property
    def critics(self) -> Mapping[str, Any]: ...

    @property
    def attackers(self) -> Mapping[str, Any]: ...

    @property
    def joins_attackers(self) -> bool: ...

    def claims(self, x: Any) -> bool:
        """Whether an object in memory is of this kind."""
        ...

    # Density

    def fit_density(self, x: Any, s: ArrayLike, options: Any, groups: ArrayLike | None) -> Any:
        """Fit a `Density`; see `TIDE.fit`."""
        ...

    def read_encoder(self, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> Any:
        """Rebuild the encoder of a saved density."""
        ...

    # Attack
    # Disclose

    def planner(self, x: Any, s: ArrayLike, task: Any, *, groups: ArrayLike | None, utility: Any) -> Any:
        """Reference data laid out to be rehearsed, a `disclose.rehearsal.Planner`.

        Args:
            x: n samples.
            s: (n,) their secret.
            task: what an Obfuscator was asked for, a `disclose.rehearsal.Task`.
            groups: (n,) samples that stay on one side of every split; `None` where each stands for itself.
            utility: (n,) what the release should still tell, or the name of a column; `None` when nothing is named.
        """
        ...

    def read_hider(self, config: Mapping[str, Any], tensors: Mapping[str, Any], where: Any) -> Any:
        """Rebuild a `disclose.saved.Hider` from what its `parts` gave; `where` it came from is for error messages."""
        ...

    # Auditing
    # Report
    # Verbs
