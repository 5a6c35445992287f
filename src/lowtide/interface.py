"""The shapes that travel between rooms: protocols and frozen results, some of which write their own
report.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from lowtide.errors import LowtideError

if TYPE_CHECKING:  # the command line formats numbers before NumPy is needed
    from lowtide.types import Bools, Floats, Labels

NATS_PER_BIT = math.log(2.0)
CERTAIN = 0.9  # beyond this probability an attacker counts as certain of a class


@dataclass(frozen=True)
class Estimate:
    """An estimated number with its confidence interval; there are no bare floats.

    Attributes:
        value: the point estimate: information in nats, accuracies and shares as they are.
        low: lower end of the interval.
        high: upper end of the interval.
        n: how many samples it rests on.
        found: false when nothing clear was found; then `value` and `low` are 0, and `high` is the
            most that could have gone unseen. It is 0 only where nothing that could tell is
            released.
    """

    value: float
    low: float
    high: float
    n: int
    found: bool = True

    @property
    def bits(self) -> Estimate:
        """The same number of nats counted in bits."""
        value, low, high = (end / NATS_PER_BIT for end in (self.value, self.low, self.high))
        return Estimate(value, low, high, self.n, self.found)

    def __str__(self) -> str:
        if self.found:
            return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"
        return (
            f"none found; at most {self.high:.4f}"
            if self.high > 0
            else "none: nothing that could tell is shown"
        )

    def _repr_html_(self) -> str:
        """What `str` says and how many samples it rests on, for a notebook."""
        return f"<span>{self} (n = {self.n:,})</span>"


@dataclass(frozen=True)
class Guarantee:
    """A worst-case bound: the divergence at γ = e^epsilon is at most delta."""

    epsilon: float
    delta: float

    def is_vacuous(self, prior: float = 0.0) -> bool:
        """Whether every release satisfies it, full disclosure included.

        No release whatever exceeds `(1 − e^ε π)_+` forward, for a secret value of prior π; with the
        default of 0 the answer holds for every prior and for the reverse direction too.
        """
        return self.delta >= max(0.0, 1.0 - math.exp(min(self.epsilon, 700.0)) * prior)

    def __str__(self) -> str:
        return f"the divergence at ε = {self.epsilon:g} is at most {self.delta:.4g}"

    def _repr_html_(self) -> str:
        return f"<span>{self}</span>"


_METRICS = {"accuracy": "accuracy", "auc": "AUC", "information": "information"}


@dataclass(frozen=True)
class Attack:
    """What one attacker achieves on rows it was not trained on: a lower bound on what can be
    learnt.

    Attributes:
        attacker: its name.
        trained_on: what it learnt from: the `release`, the `clean` data, or `nothing` (it guesses
            the prior).
        target: what it attacks, the `release` or the `clean` data.
        accuracy: how often its best guess is right.
        auc: area under the ROC curve; the mean over classes, one against the rest, when there are
            more than two.
        information: entropy of the secret minus the attacker's cross-entropy, in nats; below 0 when
            it misleads.
    """

    attacker: str
    trained_on: Literal["release", "clean", "nothing"]
    target: Literal["release", "clean"]
    accuracy: Estimate
    auc: Estimate
    information: Estimate

    def __str__(self) -> str:
        learnt = (
            "that learnt from nothing"
            if self.trained_on == "nothing"
            else f"trained on the {self.trained_on}"
        )
        return (
            f"{self.attacker}, {learnt}, on the {self.target}: accuracy {self.accuracy}, AUC"
            f" {self.auc}, {self.information} nats"
        )

    def _repr_html_(self) -> str:
        return f"<span>{html.escape(str(self))}</span>"


def strongest(attacks: Sequence[Attack]) -> Attack:
    """The strongest of several attackers in each figure: right most often, with the largest AUC,
    the most information.

    The interval of a figure reaches from the highest lower end of all attackers to the highest
    upper end. It holds the figure of the attacker that is truly strongest: its own upper end is
    above it, whoever that is, and the lower ends are below theirs where they hold together (see
    `attack`).

    Args:
        attacks: one or more on the same rows. The result is named after the leader, or the leader
            in each figure.
    """
    leaders: dict[str, list[str]] = {}
    figures = {}
    for metric, word in _METRICS.items():
        best = max(attacks, key=lambda one: (getattr(one, metric).value, one.information.value))
        low, high = (
            max(getattr(getattr(one, metric), end) for one in attacks) for end in ("low", "high")
        )
        figures[metric] = replace(getattr(best, metric), low=low, high=high)
        leaders.setdefault(best.attacker, []).append(word)
    each = (f"{name} ({' and '.join(words)})" for name, words in leaders.items())
    name = next(iter(leaders)) if len(leaders) == 1 else ", ".join(each)
    return Attack(name, attacks[0].trained_on, attacks[0].target, **figures)


@dataclass(frozen=True, eq=False)
class AuditContext:
    """What an audit was told beside a release and its reference, laid out for the attackers of a
    kind of data.

    Attributes:
        numbers: (n,) which row of the reference each audited sample is, from 0; `None` where they
            are all, in order.
        known: what the attacker has of everybody without the release, n samples; `None` where
            nothing is known.
        with_known: the released samples together with that.
        known_names: what it is called.
        learnt: samples to learn from and to test; `None` where attackers learn from the release as
            it is.
        learnt_labels: (m,) their secrets.
        tested: (m,) true for those to test.
        elsewhere: whose samples attackers learn from, where these are not the ones they are tested
            on.
        groups: (n,) a group counts as one observation; `None` where each sample does.
        subgroups: (n,) samples of one subgroup have one number, from 0; `None` where nobody asked.
        subgroups_of: what divides them.
        persons: (n,) whose each sample is, a number from 0; `None` where nobody said.
        posts: how many samples of one person are to be looked at together; none where nobody asked.
        costs: (guesses, |S|) what a guess costs the attacker where the class is s; `None` where
            nobody says.
    """

    numbers: Labels | None = field(default=None, repr=False)
    known: Any = field(default=None, repr=False)
    with_known: Any = field(default=None, repr=False)
    known_names: tuple[str, ...] = ()
    learnt: Any = field(default=None, repr=False)
    learnt_labels: Any = field(default=None, repr=False)
    tested: Bools | None = field(default=None, repr=False)
    elsewhere: Literal["other", "synthetic"] | None = None
    groups: Labels | None = field(default=None, repr=False)
    subgroups: Labels | None = field(default=None, repr=False)
    subgroups_of: str = ""
    persons: Labels | None = field(default=None, repr=False)
    posts: tuple[int, ...] = ()
    costs: Floats | None = field(default=None, repr=False)


@dataclass(frozen=True)
class RowOrder:
    """The order of samples: a property of a file, which no value shows.

    Attributes:
        told: what the place of a reference sample tells about its secret, in nats; `None` where
            they are too few.
        tells: whether that is clear.
        shuffled: whether the release is in random order; `None` for a plan, and where the kind of
            data does not say.
    """

    told: Estimate | None
    tells: bool
    shuffled: bool | None = None


@dataclass(frozen=True)
class DivergenceCurve:
    """The paper's own measure of one release, for several ε: counted where an attacker's densities
    say, and proven.

    Attributes:
        epsilons: the ε.
        forward: `E_{e^ε}(P_{Y|s} ‖ P_Y)` at each, of the class where it is largest.
        reverse: `E_{e^ε}(P_Y ‖ P_{Y|s})`, likewise.
        tail: the share of samples with `|i(s; y)| > ε` for some class s, at each ε.
        forward_proven: what an event on held-out samples proves that the first is at least.
        reverse_proven: the same for the second.
        failure: how often at most any of the proven numbers may be too large.
        certain: the share of samples whose secret the attacker names with more than `CERTAIN`.
    """

    epsilons: tuple[float, ...]
    forward: tuple[Estimate, ...]
    reverse: tuple[Estimate, ...]
    tail: tuple[Estimate, ...]
    forward_proven: tuple[float, ...]
    reverse_proven: tuple[float, ...]
    failure: float
    certain: Estimate


X = TypeVar("X")
S = TypeVar("S")


class Sample(NamedTuple, Generic[X, S]):
    """Rows drawn from a world: the data, and the secret of each row."""

    x: X
    s: S


class World(Protocol[X]):
    """A law of (X, S) with finite S whose information density is known exactly, in nats."""

    @property
    def prior(self) -> Floats:
        """P(S), of shape (|S|,)."""
        ...

    def sample(self, n: int, seed: int) -> Sample[X, Labels]:
        """Draw n rows; the same seed gives the same rows."""
        ...

    def density(self, x: X) -> Floats:
        """`i(s; x)`, of shape (n, |S|)."""
        ...

    def prefixes(self, x: X) -> Floats:
        """`i(s; x^j)` for j = 0 … m, of shape (n, m + 1, |S|)."""
        ...

    def observed(self, x: X, mask: Bools) -> Floats:
        """`i(s; x_A)` for the features A where `mask` is true, of shape (n, |S|)."""
        ...

    def information(self) -> float:
        """`I(S; X)`."""
        ...


class TextTable(NamedTuple):
    """A small table to print: its title, the names of its columns, its rows, and a note below
    it.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    note: str = ""


class ReportWriter(Protocol):
    """Writes the report of one result."""

    def __call__(self, path: Path, *, figures: Path | None = None, scan: Any = None) -> list[Path]:
        """Write the page and, where asked for, its figures as files; returns what was written, the
        page first.
        """
        ...


@dataclass(frozen=True, eq=False)
class Reported:
    """A result of a verb, which knows how to write its report.

    Attributes:
        writer: writes it; the verbs set it, since they hold the data that a report shows averages
            of.
    """

    writer: ReportWriter | None = field(default=None, repr=False, kw_only=True)

    def write_report(
        self, path: str | Path, *, figures: str | Path | None = None, scan: Any = None
    ) -> list[Path]:
        """Write the report as one HTML file.

        Args:
            path: the file; it appears whole or not at all.
            figures: a folder for the figures of the report, made when it does not exist.
            scan: a scan of the same data, to be shown before the rest.
        """
        if self.writer is None:
            raise LowtideError(
                "this result holds no data to report about; make it with lowtide.scan, plan or"
                " audit"
            )
        return self.writer(
            Path(path), figures=None if figures is None else Path(figures), scan=scan
        )
