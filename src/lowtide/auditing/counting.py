"""What holds against every attacker: a bound from the counts of a release with few different rows.

It needs no attacker and no model. It rests on the rows being independent draws that had no part in
choosing what is released, and says so.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from lowtide.disclose.budget import Unit
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.standing import Bound
from lowtide.formatting import nats_up, percent_up
from lowtide.interface import TextTable
from lowtide.labels import read_classes
from lowtide.protocols import Modality, Nouns
from lowtide.splits import generator
from lowtide.theory import counts as theory
from lowtide.theory.anonymity import Anonymity, anonymity
from lowtide.theory.count_curve import CountPoint, learning_curve, rows_needed
from lowtide.types import Floats, Ints

# Right guesses above what the rows settle at: near enough to be worth asking for more rows
_NEAR = 0.03
_FULL = 0.9995  # is printed as 100.0 %
_MEANINGS = (
    (
        "k-anonymity",
        "k",
        "every {row} is shown like at least k − 1 others; says nothing of their {secret}",
    ),
    ("unique", "unique", "share of the {rows} that are shown like no other"),
    (
        "distinct l-diversity",
        "distinct",
        "values of the {secret} that occur among {rows} shown alike, at least",
    ),
    ("entropy l-diversity", "entropy", "the same, a rare value counting for less"),
    (
        "t-closeness",
        "closeness",
        "how far the shares of the {secret} among {rows} shown alike are from those of all",
    ),
    ("δ-disclosure", "disclosure", "largest |log| of such a share over the share among all {rows}"),
)


@dataclass(frozen=True, eq=False)
class WholeRelease:
    """All that a release shows, to be counted.

    Attributes:
        samples: n released samples with all their columns; `None` where the attackers are given
            them all.
        card: the card of the release; `None` without one.
        secret: what the secret is called, which the card must be about.
    """

    samples: Any = field(repr=False)
    card: ReleaseCard | None = None
    secret: str = ""


@dataclass(frozen=True)
class ChosenHere:
    """The bounds if the audited rows themselves chose which columns are hidden: they hold for every
    choice at once.

    Attributes:
        columns: how many columns there were to choose from.
        accuracy: how often any rule is right at most.
        information: the most that one row tells, in nats.
    """

    columns: int
    accuracy: float
    information: float


@dataclass(frozen=True)
class CountedTails:
    """Bounds at one ε, in both directions.

    Attributes:
        epsilon: ε.
        forward: bounds `E_γ(P_{Y|s} ‖ P_Y)` at γ = e^ε, the largest over the classes.
        reverse: bounds `E_γ(P_Y ‖ P_{Y|s})`.
        raised: the share of samples that make some class more than e^ε times as likely, at most.
        lowered: the share of samples that make some class more than e^ε times less likely, at most.
    """

    epsilon: float
    forward: float
    reverse: float
    raised: float
    lowered: float

    @classmethod
    def of_counts(cls, counts: Floats, epsilon: float, failure: float) -> CountedTails:
        """Divergence and pointwise leakage from counts; each pair fails with this probability."""
        pairs = (
            theory.divergence(counts, epsilon, failure),
            theory.pointwise(counts, epsilon, failure),
        )
        return cls(epsilon, *pairs[0], *pairs[1])


@dataclass(frozen=True)
class CountedRelease:
    """Bounds against every attacker, and the cells that they are counted from.

    Attributes:
        rows: how many samples were counted.
        cells: how many different ones there are.
        failure: the probability with which each bound may fail.
        blind: how often the commonest class occurs.
        accuracy: how often any rule is right at most.
        information: the most that one sample tells, in nats; infinite where nothing can be said.
        entropy: all there is to know about the secret, in nats, by the shares of the rows.
        curve: the bounds for fewer rows.
        enough: the accuracy that `needed` is about.
        needed: about how many rows would show `enough`; `None` where that cannot be said, or where
            these do.
        anonymity: measures of disclosure control of the same counts.
        tails: bounds on the divergence and on pointwise leakage at one ε; `None` where no ε was
            asked about.
        chosen: the bounds if these rows chose the columns; `None` where something else was chosen,
            too.
        planned: whether the release has a card, so that a plan was made from reference rows: maybe
            from these.
        stated: the bound of the card about this secret, which is from rows that had no part in the
            plan; `None` where the card has none, or one that holds less surely.
        nouns: what the kind of data calls its things.
    """

    rows: int
    cells: int
    failure: float
    blind: float
    accuracy: float
    information: float
    entropy: float
    curve: tuple[CountPoint, ...]
    enough: float
    needed: int | None
    anonymity: Anonymity
    tails: CountedTails | None
    chosen: ChosenHere | None
    planned: bool
    stated: Bound | None
    nouns: Nouns = field(repr=False)

    @classmethod
    def of_counts(
        cls,
        counts: Floats,
        failure: float,
        *,
        nouns: Nouns,
        card: ReleaseCard | None = None,
        secret: str = "",
        limit: float | None = None,
        epsilon: float | None = None,
        seed: int = 0,
    ) -> CountedRelease:
        """Bound what counts (|S|, cells) allow.

        Args:
            counts: how often each class of the secret was seen in each cell.
            failure: the probability with which each bound may fail.
            nouns: what the kind of data calls its things.
            card: of the release.
            secret: what the secret is called; the bound of a card about another one says nothing
                here.
            limit: the accuracy that the bound should show; by default one near what the counts
                settle at.
            epsilon: ε of the divergence and of pointwise leakage; `None` for neither.
            seed: of the draws of fewer rows.
        """
        rng = generator(seed, "counted rows")
        curve = learning_curve(counts, failure, rng)
        n = int(counts.sum())
        shares = counts.sum(axis=1) / counts.sum()
        # What the rule that fits best would get on many rows: it falls like 1/√n where classes are
        # level in a cell.
        fall = (curve[-2].found - curve[-1].found) / (math.sqrt(2) - 1) if len(curve) > 1 else 0.0
        settled = max(float(shares.max()), curve[-1].found - max(fall, 0.0))
        enough = min(settled + _NEAR, 1.0) if limit is None else limit
        needed = None
        if curve[-1].accuracy > enough + (_NEAR / 2 if limit is None else 0.0) and n >= 4:
            needed = rows_needed(counts, enough, "accuracy", failure, rng)
        return cls(
            rows=n,
            cells=counts.shape[1],
            failure=failure,
            blind=float(shares.max()),
            accuracy=curve[-1].accuracy,
            information=curve[-1].information,
            entropy=float(entr(shares).sum()),
            curve=curve,
            enough=enough,
            needed=needed,
            anonymity=anonymity(counts),
            tails=None if epsilon is None else CountedTails.of_counts(counts, epsilon, failure),
            chosen=_chosen_here(counts, failure, card),
            planned=card is not None,
            stated=_stated(card, secret, failure),
            nouns=nouns,
        )

    @property
    def cannot_tell(self) -> bool:
        """Whether the bound on right guesses is as good as none."""
        return self.accuracy >= _FULL

    def sentence(self, secret: str) -> str:
        """What holds, with what confidence, and under which condition; or that these rows bound no
        attacker.
        """
        row = self.nouns.row
        rows = self.nouns.rows
        if self.cannot_tell:
            return (
                f"These {rows} are too few, or too different, to bound every attacker: "
                f"{self.cells:,} of {self.rows:,} are "
                f"different. {self._more()}"
            )
        held, nats = self._headline or (self.accuracy, self.information)
        learns = f", nor learns more than {nats_up(nats)} nat" if nats < self.entropy else ""
        sure = f"{'each ' if learns else ''}with {100 * (1 - self.failure):g} % confidence"
        return (
            "No attacker who has nothing but the release, however clever, guesses the"
            f" {secret} right more than {percent_up(held)} of the time from one {row} (blind"
            f" {100 * self.blind:.1f} %){learns}, {sure}, if"
            f" people are drawn like the reference {rows}{self._condition()}."
        )

    def holds(self, quantity: Unit) -> float | None:
        """The bound that is stated without a condition on the plan; `None` where these rows may
        have made it.
        """
        figures = self._headline
        if figures is None:
            if self.planned:
                return None
            figures = self.accuracy, self.information
        return figures[0] if quantity == "accuracy" else figures[1]

    @property
    def _headline(self) -> tuple[float, float] | None:
        """The figures that hold although these rows may have made the plan: those of the card, else
        for all choices.
        """
        if not self.planned:
            return None
        if self.stated is not None:
            return self.stated.accuracy, self.stated.information
        if self.chosen is None or self.chosen.accuracy >= _FULL:
            return None
        return self.chosen.accuracy, self.chosen.information

    def _condition(self) -> str:
        rows = self.nouns.rows
        if not self.planned:
            return f" and none of these {rows} had a part in choosing what is released"
        if self.stated is not None:
            return (
                f"; so the card says, from {self.stated.rows:,} {rows} that had no part in the plan"
                f" (all {self.rows:,} {rows}, which may have had one, give"
                f" {percent_up(self.accuracy)})"
            )
        if self._headline is None:
            return (
                f" and the plan was made from other {rows}; if it was made from these, the figure"
                " does not hold, and what the card states does"
            )
        return (
            f"; that is so even if these {rows} chose which {self.nouns.columns} to hide, and "
            f"{percent_up(self.accuracy)} if they had no part in it"
        )

    def _more(self) -> str:
        """What would help."""
        if self.needed is None:
            return (
                f"Merge values or hide {self.nouns.columns}, so that {self.nouns.rows} are shown"
                " alike."
            )
        return f"About {self.needed:,} {self.nouns.rows} would show {percent_up(self.enough)}."

    def cells_in_words(self) -> str:
        """How many different samples there are, and how often the rarest occurs."""
        row = self.nouns.row
        rows = self.nouns.rows
        rarest = _times(self.anonymity.k)
        return (
            f"Counted: {self.cells:,} different {rows} among {self.rows:,}; the rarest {row} occurs"
            f" {rarest}."
        )

    def curve_in_words(self, secret: str) -> str:
        """How the bound falls with the number of samples."""
        points = ", ".join(f"{percent_up(one.accuracy)} from {one.rows:,}" for one in self.curve)
        more = "" if self.needed is None else f" {self._more()}"
        return (
            f"The bound on how often any attacker guesses the {secret} right, by how many"
            f" {self.nouns.rows} are counted: {points}.{more}"
        )

    def tails_in_words(self, secret: str) -> str:
        """The bounds at one ε; nothing where none was asked about, or all of them are as good as
        none.
        """
        held = self.tails
        if held is None or min(held.forward, held.reverse) >= 1:
            return ""
        times = f"{math.exp(held.epsilon):.3g}"
        said = (
            f"By counts, at ε = {held.epsilon:g} the divergence is at most {nats_up(held.forward)}"
            f" forward and {nats_up(held.reverse)} in reverse"
        )
        for share, how in ((held.raised, "as likely"), (held.lowered, "less likely")):
            if share < _FULL:
                rows = f"at most {percent_up(share)} of the {self.nouns.rows}"
                said += f"; {rows} make some value of the {secret} more than {times} times {how}"
        return f"{said}."

    def table(self, secret: str) -> TextTable:
        """The measures of disclosure control, each with its meaning."""
        rows = tuple(
            (name, _number(getattr(self.anonymity, field_)), self._meaning(said, secret))
            for name, field_, said in _MEANINGS
        )
        note = f"They describe these {self.nouns.rows}, and bound nothing."
        return TextTable(
            "The same counts, as disclosure control measures them",
            ("measure", "value", "meaning"),
            rows,
            note,
        )

    def _meaning(self, said: str, secret: str) -> str:
        return said.format(row=self.nouns.row, rows=self.nouns.rows, secret=secret)

    def to_json(self) -> dict[str, Any]:
        """As plain values; what is infinite is null."""
        plain = {name: value for name, value in asdict(self).items() if name != "nouns"}
        return {**_finite(plain), "cannot_tell": self.cannot_tell}


def count_release(
    kind: Modality,
    alike: Ints | None,
    labels: ArrayLike,
    *,
    failure: float,
    card: ReleaseCard | None = None,
    secret: str = "",
    limit: float | None = None,
    epsilon: float | None = None,
    seed: int = 0,
) -> CountedRelease | None:
    """Count a release; `None` for kinds whose samples are not counted.

    Args:
        kind: of the data.
        alike: (n,) samples that show the same have one number, from 0.
        labels: (n,) the secret of every sample.
        failure: the probability with which each bound may fail.
        card: of the release.
        secret: what the secret is called.
        limit: the accuracy that the bound should show.
        epsilon: ε of the divergence and of pointwise leakage.
        seed: of the draws of fewer rows.
    """
    if alike is None:
        return None
    _, codes = read_classes(labels)
    counts = theory.count_cells(np.asarray(alike)[:, None], codes, int(codes.max()) + 1)
    return CountedRelease.of_counts(
        counts,
        failure,
        nouns=kind.nouns,
        card=card,
        secret=secret,
        limit=limit,
        epsilon=epsilon,
        seed=seed,
    )


def _chosen_here(counts: Floats, failure: float, card: ReleaseCard | None) -> ChosenHere | None:
    """The bounds that hold for all choices of columns at once: 2^m plans share the failure
    probability.
    """
    if (
        card is None
        or card.policy != "fixed"
        or card.mechanism != "redact"
        or card.parameters.get("fill") is not None
    ):
        return None
    columns = len(card.features) + len(card.unjudged.released) + len(card.unjudged.withheld)
    share = failure / 2.0**columns
    if share == 0.0:
        return None
    return ChosenHere(columns, theory.accuracy(counts, share), theory.information(counts, share))


def _stated(card: ReleaseCard | None, secret: str, failure: float) -> Bound | None:
    """The bound of a card about this secret; columns that nobody judged were not counted for it."""
    if card is None or card.bound is None or card.secret != secret or card.unjudged.released:
        return None
    return card.bound if card.bound.failure <= failure else None


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _number(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return "infinite" if math.isinf(value) else f"{value:.3g}"


def _finite(value: Any) -> Any:
    """Values for JSON, which has no infinity."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
