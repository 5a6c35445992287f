"""What several samples of one person tell together: the answers to single samples, added up.

Given the secret, samples of a person are taken as independent: the belief after m of them is
`p(s)·exp(β Σ_k i(s; y_k))` with the attacker's held-out `i = log q/p`. Samples of one person have
more in common than the secret, so the sum claims too much; β, learnt from other persons, corrects
that. Right guesses and information are scored against the truth, so both are lower bounds up to
their intervals, which are over persons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from lowtide.attack.panel import AttackReport
from lowtide.errors import LowtideError
from lowtide.estimate.objectives import mean_with_interval
from lowtide.formatting import in_ascii, interval, percent, percents
from lowtide.interface import Estimate, TextTable
from lowtide.types import Floats, Labels

# Of m samples of every person: what is left of the randomness of the choice is small beside the
# interval
_DRAWS = 20
FEWEST_PERSONS = 20  # persons: an interval over fewer says nothing
_MOST_SCALE = 2.0  # of β; 1 is independence given the secret


@dataclass(frozen=True)
class ToldTogether:
    """What m samples of one person tell together.

    Attributes:
        samples: m.
        persons: how many have that many test samples.
        accuracy: how often the attacker is right about a person.
        information: what it learns of a person's secret, in nats.
        blind: how often a guess of the commonest class is right among these persons.
        scale: β, the mean over the halves of the persons.
    """

    samples: int
    persons: int
    accuracy: Estimate
    information: Estimate
    blind: float
    scale: float


@dataclass(frozen=True)
class PersonHistories:
    """What is told by one sample of a person, by some, by many.

    Attributes:
        attacker: whose answers were added up.
        told: one entry for each number of samples.
        too_long: numbers of samples that fewer than 20 persons have.
        mixed: persons who were left out because their samples differ in the secret.
    """

    attacker: str
    told: tuple[ToldTogether, ...]
    too_long: tuple[int, ...] = ()
    mixed: int = 0

    def table(self, secret: str, rows: str) -> TextTable:
        """A line for each number of samples."""
        lines = tuple(
            (
                f"{one.samples:,}",
                f"{one.persons:,}",
                percents(one.accuracy),
                percent(one.blind),
                in_ascii(interval(one.information)),
            )
            for one in self.told
        )
        header = (rows, "persons", f"right about the {secret}", "blind", "nats")
        title = f"What several {rows} of one person tell together, by {self.attacker}"
        return TextTable(title, header, lines, self.note(rows))

    def note(self, rows: str) -> str:
        """How the figures are to be read."""
        said = (
            f"Answers to single held-out {rows} added up; intervals are over persons. A lower"
            " bound."
        )
        if self.too_long:
            said += (
                f" Fewer than {FEWEST_PERSONS} persons have {', '.join(map(str, self.too_long))}"
                f" {rows}."
            )
        if self.mixed:
            said += (
                f" {self.mixed:,} persons were left out, since their {rows} differ in the secret."
            )
        return said

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def read_posts(given: Any) -> tuple[int, ...]:
    """Numbers of samples from what a user writes: `"1,5,10"`, a number, or several."""
    parts: Iterable[Any] = (given,)
    if isinstance(given, str):
        parts = given.split(",")
    elif _is_several(given):
        parts = given
    try:
        found = sorted({int(str(part).strip()) for part in parts})
    except ValueError:
        found = []
    if not found or found[0] < 1:
        raise LowtideError(
            f"posts must be whole numbers from 1 on, such as 1,5,10,20, got {given!r}"
        )
    return tuple(found)


def _is_several(given: Any) -> bool:
    return isinstance(given, Iterable)


def told_together(
    report: AttackReport,
    persons: Labels,
    samples: Sequence[int],
    *,
    seed: int = 0,
    level: float = 0.95,
) -> PersonHistories:
    """What m samples of one person tell, for several m, to the strongest attacker.

    Args:
        report: of the attackers, whose answers are held out.
        persons: (n,) whose each attacked sample is.
        samples: the m.
        seed: of the choice of samples.
        level: of the intervals.
    """
    place = report.tested(report.strongest)
    codes = report.codes[place]
    _, who = np.unique(np.asarray(persons)[report.rows[place]], return_inverse=True)
    densities = np.log(report.probabilities / report.prior)
    first = np.zeros(int(who.max()) + 1, dtype=np.intp)
    first[who] = codes
    mixed = np.unique(who[first[who] != codes])
    kept = ~np.isin(who, mixed)
    who = who[kept]
    codes = codes[kept]
    densities = densities[kept]
    counts = np.bincount(who, minlength=len(first))
    told = []
    too_long = []
    for m in samples:
        able = np.flatnonzero(counts >= m)
        if len(able) < FEWEST_PERSONS or len(np.unique(first[able])) < 2:
            too_long.append(m)
            continue
        sums = _sums(densities, who, able, m, np.random.default_rng([seed, m]))
        told.append(_scored(sums, first[able], m, level))
    return PersonHistories(report.strongest, tuple(told), tuple(too_long), len(mixed))


def _sums(densities: Floats, who: Labels, able: Labels, m: int, rng: np.random.Generator) -> Floats:
    """(draws, persons, |S|) sums of densities over m random samples of each person who has them."""
    found = np.empty((_DRAWS, len(able), densities.shape[1]))
    for draw in range(_DRAWS):
        order = np.lexsort((rng.random(len(who)), who))
        sorted_who = who[order]
        starts = np.searchsorted(sorted_who, able)
        taken = order[starts[:, None] + np.arange(m)]
        found[draw] = densities[taken].sum(axis=1)
    return found


def _scored(sums: Floats, codes: Labels, m: int, level: float) -> ToldTogether:
    """Score beliefs about persons; β of each half of them is learnt from the other."""
    shares = np.bincount(codes, minlength=sums.shape[2]) / len(codes)
    with np.errstate(divide="ignore"):
        prior = np.log(shares)  # -inf where a class has no such person: it is never believed
    halves = _halves(codes)
    beliefs = np.empty_like(sums)
    scales = []
    for half in (False, True):
        scale = _fit_scale(sums[:, halves != half], codes[halves != half], prior)
        mine = halves == half
        beliefs[:, mine] = log_softmax(prior + scale * sums[:, mine], axis=2)
        scales.append(scale)
    own = beliefs[:, np.arange(len(codes)), codes] - prior[codes]
    right = (beliefs.argmax(axis=2) == codes).mean(axis=0)
    accuracy = mean_with_interval(right, level)
    accuracy = Estimate(accuracy.value, max(0.0, accuracy.low), min(1.0, accuracy.high), accuracy.n)
    information = mean_with_interval(own.mean(axis=0), level)
    return ToldTogether(
        m, len(codes), accuracy, information, float(shares.max()), float(np.mean(scales))
    )


def _halves(codes: Labels) -> Labels:
    """(persons,) two halves with the same shares of the classes, as far as that goes."""
    place = np.empty(len(codes), dtype=np.intp)
    place[np.argsort(codes, kind="stable")] = np.arange(len(codes))
    return place % 2


def _fit_scale(sums: Floats, codes: Labels, prior: Floats) -> float:
    """The β with the best log-likelihood of the true classes."""
    places = np.arange(len(codes))

    def loss(scale: float) -> float:
        return -float(log_softmax(prior + scale * sums, axis=2)[:, places, codes].mean())

    return float(minimize_scalar(loss, bounds=(0.0, _MOST_SCALE), method="bounded").x)
