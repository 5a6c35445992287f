"""The measures of leakage that this field uses, from the held-out answers of the strongest
attacker.

Nearly all are convex functions of the posterior, so that held-out truth bounds them from below,
whether the attacker's probabilities are right or not (`theory.tangents`). How often single samples
tell much is not one of these: it is taken from the attacker's own probabilities. Two things keep an
attacker from the truth. It is tested on few samples, which every interval has. And it has learnt
from few: what the second half of them taught it says how much more there may be, and the upper ends
have that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.special import log_softmax
from scipy.stats import chi2
from scipy.stats import t as student

from lowtide.attack.panel import AttackReport
from lowtide.auditing.held_answers import HeldAnswers, HeldFigure, block_sums, jackknifed
from lowtide.formatting import in_ascii, interval
from lowtide.interface import Estimate, TextTable
from lowtide.theory.measures import Lifts
from lowtide.theory.shares import lower_limit, upper_limit
from lowtide.theory.tangents import Tangents, inertias
from lowtide.types import Floats, Ints

_ROUNDING = 1e-9
# β from 0 to 3 by 0.025: calibrated attackers are near 1
_MOST_SCALE = 3.0
_SCALES = 121
_TINY = 1e-300  # so that the logarithm of no right guesses exists
_INERTIAS = 5  # the largest ones that are listed
_INERTIA = (
    "squared correlation of a pair of functions of sample and secret, uncorrelated with those"
    " before"
)
SAVED = "cost_saved"
G_LEAKAGE = "g_leakage"
ALPHAS = (1.5, 2.0, 5.0, 10.0)  # orders between information and maximal, or Bayes, leakage
Rests = Literal["held out", "its claims"]


@dataclass(frozen=True)
class Measure:
    """One measure of leakage.

    Attributes:
        key: its name in JSON.
        name: what it is called.
        estimate: its value with an interval.
        rests: on the truth of held-out rows, a lower bound; or on what the attacker claims of them.
        meaning: in a line.
    """

    key: str
    name: str
    estimate: Estimate
    rests: Rests
    meaning: str


def measure(
    report: AttackReport,
    groups: Ints | None = None,
    level: float = 0.95,
    costs: Floats | None = None,
) -> tuple[Measure, ...]:
    """All measures of the strongest attacker; none where it has learnt nothing at all.

    Args:
        report: of the attackers.
        groups: (n,) a group counts as one observation.
        level: of the intervals.
        costs: (guesses, |S|) what a guess costs the attacker where the class is s; `None` where
            nobody says.
    """
    q = report.probabilities
    prior = report.prior
    if np.abs(q / prior - 1).max() < _ROUNDING:
        return ()
    answers = HeldAnswers.of(report, groups, level)
    figures = [*_figures(prior), *([] if costs is None else _charged(prior, costs))]
    found = [
        Measure(one.key, one.name, answers.estimate(one), "held out", one.meaning)
        for one in figures
    ]
    place = report.tested(report.strongest)
    scaled = ScaledBeliefs.of_answers(
        q, prior, report.codes[place], level, witnesses=answers.witnesses
    )
    return (*found, *_claimed(scaled, answers))


@dataclass(frozen=True, eq=False)
class ScaledBeliefs:
    """An attacker's beliefs, and as weak and as strong as the held-out rows allow.

    Attributes:
        own: as they are.
        weakest: with all densities times the least β.
        strongest: with all densities times the largest β.
    """

    own: Lifts
    weakest: Lifts
    strongest: Lifts

    @classmethod
    def of_answers(
        cls, q: Floats, prior: Floats, codes: Ints, level: float, *, witnesses: int
    ) -> ScaledBeliefs:
        """Find the β whose likelihood on the held-out rows is within Wilks' limit of the best.

        Args:
            q: (n, |S|) the attacker's answers.
            prior: (|S|,).
            codes: (n,) the true class of every row.
            level: of the interval of β.
            witnesses: how many of the rows are independent.
        """
        density = np.log(np.maximum(q, _TINY) / prior)
        truth = np.arange(len(q))
        betas = np.linspace(0.0, _MOST_SCALE, _SCALES)
        fit = np.array(
            [
                log_softmax(np.log(prior) + beta * density, axis=1)[truth, codes].sum()
                for beta in betas
            ]
        )
        allowed = betas[fit >= fit.max() - chi2.ppf(level, 1) / 2 * len(q) / witnesses]
        ends = (
            log_softmax(np.log(prior) + beta * density, axis=1) - np.log(prior)
            for beta in allowed[[0, -1]]
        )
        weakest, strongest = (Lifts.of_densities(end, prior) for end in ends)
        return cls(Lifts.of_densities(np.log(q / prior), prior), weakest, strongest)


def measures_table(found: Sequence[Measure], attacker: str) -> TextTable:
    """The measures, a line each."""
    rows = tuple(
        (one.name, in_ascii(interval(one.estimate)), one.rests, one.meaning) for one in found
    )
    note = (
        "Held out: scored against the truth, a lower bound up to its interval, whose upper end"
        " allows for what more samples may teach. Its claims: from its own probabilities, right as"
        " far as these are (compare the two lines of information)."
    )
    title = f"Measures of leakage, by {attacker} (nats, but for shares)"
    return TextTable(title, ("measure", "value", "rests on", "meaning"), rows, note)


def measures_json(found: Sequence[Measure]) -> dict[str, Any]:
    """The measures by key."""
    return {
        one.key: {**asdict(one.estimate), "rests": one.rests, "meaning": one.meaning}
        for one in found
    }


def _figures(prior: Floats) -> list[HeldFigure]:
    """The measures that held-out truth bounds from below."""
    blind = float(prior.max())
    found = [
        HeldFigure(
            "information",
            "information I(S; Y)",
            _summed(Tangents.information),
            float,
            "how many nats one sample tells on average",
        ),
        HeldFigure(
            "bayes_vulnerability",
            "Bayes vulnerability",
            _summed(Tangents.vulnerability),
            float,
            f"share of right guesses; blind {blind:.3f}",
        ),
        HeldFigure(
            "bayes_leakage",
            "Bayes leakage",
            partial(_beside_blind, np.eye(len(prior))),
            _log_ratio,
            "log of right guesses over blind ones (min-entropy leakage, Arimoto's at α = ∞)",
        ),
        HeldFigure(
            "maximal_leakage",
            "maximal leakage",
            _summed(Tangents.maximal),
            _log,
            "log factor by which guesses of any function of the secret improve, whatever the prior",
        ),
    ]
    for kind in ("sibson", "arimoto"):
        found += [_renyi(kind, alpha, prior) for alpha in ALPHAS]
    found += [
        HeldFigure(
            "total_variation",
            "total variation",
            _summed(Tangents.total_variation),
            float,
            "how far sample and secret are from independent, 0 to 1",
        ),
        HeldFigure(
            "chi_squared",
            "χ²-information",
            _summed(Tangents.chi_squared),
            float,
            "mean squared relative change of the belief",
        ),
    ]
    for place in range(min(len(prior) - 1, _INERTIAS)):
        key = "principal_inertia" if place == 0 else f"principal_inertia_{place + 1}"
        name = "largest principal inertia" if place == 0 else f"principal inertia {place + 1}"
        found.append(
            HeldFigure(
                key, name, Tangents.second_moments, partial(_inertia, place, prior), _INERTIA
            )
        )
    return found


def _summed(tangent: Callable[[Tangents], Floats]) -> Callable[[Tangents, Ints, int], Floats]:
    return lambda answers, blocks, count: block_sums(tangent(answers), blocks, count)


def _log(mean: Floats) -> float:
    return float(np.log(max(float(mean), _TINY)))


def _log_ratio(means: Floats) -> float:
    return _log(means[0]) - _log(means[1])


def _beside_blind(gains: Floats, answers: Tangents, blocks: Ints, count: int) -> Floats:
    """(count, 2) what guesses gain, and what the best blind one gains: a mean over the same
    samples, off like any.
    """
    blind = gains[int((gains @ answers.prior).argmax()), answers.codes]
    return np.column_stack([block_sums(one, blocks, count) for one in (answers.gain(gains), blind)])


def _inertia(place: int, prior: Floats, second: Floats) -> float:
    return float(inertias(second, prior)[place])


def _renyi(kind: str, alpha: float, prior: Floats) -> HeldFigure:
    """Sibson's information of order α; or Arimoto's, which is Sibson's under the prior tilted to
    the power α.
    """
    name = f"Sibson's information, α = {alpha:g}"
    weights = prior
    meaning = "information at α = 1, maximal leakage at α = ∞"
    if kind == "arimoto":
        name = f"α-leakage, α = {alpha:g}"
        weights = prior**alpha / (prior**alpha).sum()
        meaning = "what a guesser gains with α-loss: log-loss at 1, right or wrong at ∞"
    sums = _summed(lambda answers: answers.renyi(alpha, weights))
    return HeldFigure(
        f"{kind}_{alpha:g}", name, sums, lambda mean: alpha / (alpha - 1) * _log(mean), meaning
    )


def _charged(prior: Floats, costs: Floats) -> list[HeldFigure]:
    """What the attacker saves who pays for wrong guesses, and g-leakage."""
    gains = costs.max() - costs
    sums = partial(_beside_blind, gains)
    meaning = "what the release saves an attacker, at your costs"
    found = [
        HeldFigure(SAVED, "cost saved", sums, lambda means: float(means[0] - means[1]), meaning)
    ]
    if float((gains @ prior).max()) > 0:  # else every guess costs the same
        meaning = (
            "log of what an attacker gains, with the largest cost as 0, over what they gain blindly"
        )
        found.append(HeldFigure(G_LEAKAGE, "g-leakage", sums, _log_ratio, meaning))
    return found


def _most(lift: Floats) -> Floats:
    return np.log(lift.max(axis=1))


def _least(lift: Floats) -> Floats:
    return np.asarray(-np.log(np.maximum(lift, _TINY).min(axis=1)))


_TAILS: tuple[tuple[str, str, Callable[[Floats], Floats], float, str], ...] = tuple(
    (
        f"{key}_{epsilon:g}",
        f"{name} > {epsilon:g}",
        extreme,
        epsilon,
        meaning.format(np.exp(epsilon)),
    )
    for epsilon in (0.5, 1.0)
    for key, name, extreme, meaning in (
        (
            "pointwise_leakage",
            "pointwise maximal leakage",
            _most,
            "share of samples that make some class {:.2g} times as likely",
        ),
        (
            "pointwise_cost",
            "pointwise cost",
            _least,
            "share of samples that make some class {:.2g} times less likely",
        ),
    )
)


KEYS = (
    *("information", "bayes_vulnerability", "bayes_leakage", "maximal_leakage"),
    *(f"{kind}_{alpha:g}" for kind in ("sibson", "arimoto") for alpha in ALPHAS),
    *("total_variation", "chi_squared", "principal_inertia", "claimed_information"),
    *(key for key, *_ in _TAILS),
    *(SAVED, G_LEAKAGE),
)
"""Keys of measures that a policy file may limit."""


def _claimed(scaled: ScaledBeliefs, answers: HeldAnswers) -> list[Measure]:
    """Information once more, and how often single samples tell much, by the attacker's own
    probabilities.
    """
    found = [
        Measure(
            "claimed_information",
            "information I(S; Y)",
            _spanned(scaled, answers),
            "its claims",
            "the same by its own probabilities",
        )
    ]
    n = len(answers.blocks)
    failure = (1 - answers.level) / 2
    for key, name, extreme, epsilon, meaning in _TAILS:
        doubt = answers.doubt(extreme)
        asked = [
            (scaled.own, epsilon),
            (scaled.own, epsilon - doubt),
            (scaled.own, epsilon + doubt),
        ]
        asked += [(one, epsilon) for one in (scaled.weakest, scaled.strongest)]
        hits = [int(np.count_nonzero(extreme(one.lift) > at)) for one, at in asked]
        ends = float(lower_limit(min(hits), n, failure)), float(upper_limit(max(hits), n, failure))
        found.append(Measure(key, name, Estimate(hits[0] / n, *ends, n), "its claims", meaning))
    return found


def _spanned(scaled: ScaledBeliefs, answers: HeldAnswers) -> Estimate:
    """Claimed information, with both errors: of the rows it is taken from, and of how strong
    beliefs should be.
    """

    def claims(one: Lifts) -> Floats:
        return np.asarray((one.prior * one.lift * np.log(np.maximum(one.lift, _TINY))).sum(axis=1))

    count = int(answers.blocks.max()) + 1
    sums = block_sums(claims(scaled.own), answers.blocks, count)
    value, error, _ = jackknifed(sums, np.bincount(answers.blocks, minlength=count), float)
    half = float(student.ppf(0.5 + answers.level / 2, count - 1)) * error
    ends = [float(claims(one).mean()) for one in (scaled.weakest, scaled.strongest)]
    below = max(0.0, value - min(ends))
    above = max(0.0, max(ends) - value)
    low = value - float(np.hypot(half, below))
    high = value + float(np.hypot(half, above)) + answers.untaught()
    return Estimate(value, max(0.0, low), high, len(answers.blocks))
