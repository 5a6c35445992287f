"""An audit in words: how often attackers are right, what to beware of, and whether a limit is
kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lowtide.attack.learning_curve import LearningCurve
from lowtide.attack.panel import AttackReport
from lowtide.auditing.added import AddedInformation
from lowtide.auditing.counting import CountedRelease
from lowtide.auditing.surface import SurfaceFindings
from lowtide.checks import LowtideError, one_of, within
from lowtide.disclose.standing import STATES, Standing, judged_by_nobody, rests_on_few, stand
from lowtide.estimate.objectives import with_overlooked
from lowtide.formatting import in_ascii, interval, percent, percentages, plain
from lowtide.interface import Attack, Estimate
from lowtide.types import Floats

# An attacker that falls back on the prior gains log(p/p), which is 0 up to rounding, with an
# interval as narrow.
_ROUNDING = 1e-9
# Right guesses that may lie above what was found; about 380 rows to test on bring it below that
_OPEN = 0.05
LOWER_BOUND_NOTE = "An attack is a lower bound: a better attacker may learn more."
_NOTHING_SHOWN = (
    "These attackers cannot read the clean data either, so this audit says nothing about the"
    " release. Give more rows or other attackers, or accept that the data may not tell the {secret}"
    " at all."
)
_TOO_WEAK = "The estimator is too weak for this release"
_NO_ORDER = "The estimate knows values and not their order"
_NO_CONTROL = (
    "No clean data was given, so it is not known whether these attackers could have read it."
)


@dataclass(frozen=True)
class Gate:
    """A limit that a release must keep; made by `Gate.nats` or `Gate.accuracy`.

    It compares the highest upper end of the attackers' intervals, and no less than what so many
    rows could have shown: a release does not pass for having been tested on few rows only.

    Attributes:
        quantity: what is limited, `nats` of information or `accuracy`.
        limit: the largest value that passes.
    """

    quantity: Literal["nats", "accuracy"]
    limit: float

    def __post_init__(self) -> None:
        one_of("quantity", self.quantity, ("nats", "accuracy"))
        if self.quantity == "accuracy":
            within("limit", self.limit, 0.0, 1.0, hint="an accuracy is a share: 0.54, not 54")
        else:
            within("limit", self.limit, 0.0, np.inf, high_open=True)

    @classmethod
    def nats(cls, limit: float) -> Gate:
        """At most so much information, in nats (1 bit is 0.693)."""
        return cls("nats", limit)

    @classmethod
    def accuracy(cls, limit: float) -> Gate:
        """At most this share of right guesses."""
        return cls("accuracy", limit)

    def standing(self, attack: Attack) -> Standing:
        """Where a release stands whose retrained attackers achieved this, see
        `AttackReport.headline`.
        """
        found = (
            attack.accuracy if self.quantity == "accuracy" else with_overlooked(attack.information)
        )
        lower = found.low - _ROUNDING
        return stand(
            self.limit, self.quantity, replace(found, low=lower), lower=lower, reference=found.n
        )


@dataclass(frozen=True)
class Unseen:
    """Columns that are released and that no attacker looked at.

    Attributes:
        columns: their names.
        accepted: those of them that are excluded from the gate, on the user's word.
    """

    columns: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{judged_by_nobody(self.columns).capitalize()}." if self.columns else ""


@dataclass(frozen=True)
class Verdict:
    """An audit in words; it never quotes a value of the data or of the secret.

    Attributes:
        sentence: how often an attacker is right: on the release, on the clean data, and guessing.
        lower_bound_note: what an attack can never show.
        trusted: false when the attack contradicts the estimated leakage, or the estimate rests on
            too few rows; true without an estimate, too.
        distrust: what to say then; `None` otherwise.
        weak: why the audit is weak: too few rows to test on, or attackers that would learn more
            from more of them; `None` where it is not.
        conclusive: whether the attackers can read the clean data, so that failing on the release
            means something; `None` without clean data.
        control: what to say when they cannot, or when it is not known; `None` when they can.
        passed: whether the gate was kept; `None` without a gate, and when the limit is kept by
            attackers who cannot read the clean data, as they would keep any, or who did not look at
            all that is released.
        gate: the outcome in words; `None` without a gate.
        surface: that the order of the samples, or what stands beside their values, tells; `None`
            where nothing does.
        unjudged: which columns are released that no attacker looked at, in words; `None` where
            there are none.
        training: how many samples attackers learnt from and were tested on; `None` where it is not
            known.
        counted: what holds against every attacker, by counts, and under which condition; `None`
            where nothing was counted.
        added: what the release adds to what is known anyway; `None` where nothing is.
    """

    sentence: str
    lower_bound_note: str
    trusted: bool
    distrust: str | None
    weak: str | None
    conclusive: bool | None
    control: str | None
    passed: bool | None
    gate: str | None
    surface: str | None = None
    unjudged: str | None = None
    training: str | None = None
    counted: str | None = None
    added: str | None = None

    def __str__(self) -> str:
        warned = (self.distrust, self.control, self.weak, self.sentence, self.added, self.surface)
        said = (*warned, self.lower_bound_note, self.counted, self.unjudged, self.gate)
        return " ".join(part for part in said if part)


def give_verdict(
    report: AttackReport,
    estimate: Estimate | None = None,
    *,
    fail_above: float | Gate | None = None,
    secret: str = "secret",
    rows: str = "rows",
    surface: SurfaceFindings | None = None,
    unseen: Unseen | None = None,
    counted: CountedRelease | None = None,
    added: AddedInformation | None = None,
    elsewhere: Literal["other", "synthetic"] | None = None,
) -> Verdict:
    """Put an attack into words.

    Args:
        report: of the attackers on the release.
        estimate: the estimated leakage of the release with its interval, in nats.
        fail_above: the limit to keep; a number is in nats.
        secret: what to call the secret: "vote", "diagnosis".
        rows: what to call the samples: "texts".
        surface: of the release; the attacker of places counts for the estimate and the limit like
            the strongest one.
        unseen: columns that are released and that no attacker looked at.
        counted: the bound against every attacker.
        added: what the release adds to what is known; a limit is then held against that.
        elsewhere: whose samples attackers learnt from, where they were tested on others.
    """
    secret = plain(secret)
    unseen = unseen or Unseen()
    order = None if surface is None else surface.attack
    attacks = [report.headline] if order is None else [report.headline, order]
    most = max(attacks, key=lambda one: one.information.low)
    why = _NO_ORDER if most is order else _TOO_WEAK
    distrust = (
        None if estimate is None else _distrust(most.information, estimate, report.prior, rows, why)
    )
    conclusive = (
        _reads(report.headline_clean, report.guess) if report.headline_clean is not None else None
    )
    control = {True: None, False: _NOTHING_SHOWN.format(secret=secret), None: _NO_CONTROL}[
        conclusive
    ]
    gate = (
        fail_above if fail_above is None or isinstance(fail_above, Gate) else Gate.nats(fail_above)
    )
    judged = None if gate is None else judge(gate, report, surface, conclusive, unseen, added)
    return Verdict(
        sentence=(
            _sentence(report, secret)
            if elsewhere is None
            else _sentence_elsewhere(report, secret, elsewhere)
        ),
        lower_bound_note=LOWER_BOUND_NOTE,
        trusted=distrust is None,
        distrust=distrust,
        weak=_weak(report, rows),
        conclusive=conclusive,
        control=control,
        passed=None if judged is None else judged[1],
        gate=None if judged is None else _outcome(*judged),
        surface=None if surface is None else surface.sentence(secret),
        unjudged=str(unseen) or None,
        training=training_in_words(report, rows),
        counted=None if counted is None else counted.sentence(secret),
        added=None if added is None else added.sentence(secret),
    )


def judge(
    gate: Gate,
    report: AttackReport,
    surface: SurfaceFindings | None,
    conclusive: bool | None,
    unseen: Unseen,
    added: AddedInformation | None = None,
) -> tuple[Standing, bool | None, str | None]:
    """Hold a limit against attacks: where the release stands, whether it passes, and why that is
    undecided if it is.

    Args:
        gate: the limit.
        report: of the attackers on the release.
        surface: of the release; the attacker of places counts like the strongest one.
        conclusive: whether the attackers can read the clean data; `None` where that is not known.
        unseen: columns that are released and that no attacker looked at.
        added: what the release adds to what is known; the limit is then held against that.
    """
    order = None if surface is None else surface.attack
    charged = report.headline if added is None else added.charged
    attacks = [charged] if order is None else [charged, order]
    standing = max(map(gate.standing, attacks), key=_badness)
    if standing.state != "kept":
        return standing, False, None
    if conclusive is False:
        return standing, None, "attackers who read nothing keep every limit"
    if set(unseen.columns) - set(unseen.accepted):
        return (
            standing,
            None,
            "some columns were judged by nobody (leave them out, or accept them by name)",
        )
    return standing, True, None


def _badness(standing: Standing) -> tuple[int, float]:
    return STATES.index(standing.state), standing.upper


def _sentence(report: AttackReport, secret: str) -> str:
    clean = report.headline_clean
    shares = [report.headline.accuracy.value, report.guess.accuracy.value]
    if clean is None:
        here, blind = percentages(*shares)
        return (
            f"An attacker guesses the {secret} right {here} of the time; guessing blindly gives"
            f" {blind}."
        )
    here, blind, before = percentages(*shares, clean.accuracy.value)
    compared = f"{here} of the time instead of {before}"
    return f"An attacker guesses the {secret} right {compared}; guessing blindly gives {blind}."


def _sentence_elsewhere(report: AttackReport, secret: str, whose: str) -> str:
    """What an attacker learns from other samples about those of the reference, and whether that is
    anything at all.
    """
    rows = "synthetic rows" if whose == "synthetic" else "rows of other people"
    clean = report.headline_clean
    here = report.headline
    if clean is None:
        raise LowtideError(
            "an attack on other samples needs its control, attackers that learn from the reference"
        )
    shares = (here.accuracy.value, clean.accuracy.value, report.guess.accuracy.value)
    learnt, control, blind = percentages(*shares)
    said = (
        f"An attacker who learns from the {rows} guesses the {secret} of real people right {learnt}"
        f" of the time, one who learns from real rows {control}; guessing blindly gives {blind}."
    )
    taught = here.information.value
    real = clean.information.value
    if _reads(clean, report.guess) and not _reads(here, report.guess):
        said += (
            f" From the {rows} these attackers learnt nothing about the {secret} that holds for"
            " real people."
        )
    elif _reads(clean, report.guess) and 0 < taught < real:
        said += (
            f" In nats the {rows} teach {in_ascii(percent(taught / real))} of what real rows do."
        )
    if here.accuracy.low > clean.accuracy.high:
        said += (
            " That is more than rows of others teach: the release may hold copies of these very"
            " people."
        )
    return said


def _weak(report: AttackReport, rows: str) -> str | None:
    """What to say when attackers on more samples would find more, or when there were too few to
    tell.
    """
    headline = report.headline
    curve = report.curve
    reasons = []
    right = headline.accuracy
    if right.high - right.value > _OPEN or rests_on_few(
        with_overlooked(headline.information), report.prior
    ):
        found, possible = percentages(right.value, right.high)
        reasons.append(
            f"with {right.n:,} {rows} to test on, {found} right guesses cannot be told from"
            f" {possible}"
        )
    if curve is not None and curve.rising:
        reasons.append(_rise(curve, rows))
    return f"This audit is weak: {'; '.join(reasons)}." if reasons else None


def _rise(curve: LearningCurve, rows: str) -> str:
    """That more samples would tell more, and how much ten times as many might."""
    whole = curve.whole
    half = curve.half
    beyond = curve.accuracy
    if curve.right_more:
        right = (
            whole.attack.accuracy.value,
            half.attack.accuracy.value,
            beyond.value,
            beyond.low,
            beyond.high,
        )
        more, less, middle, low, high = percentages(*right)
        unit = "right"
    else:
        more, less = (f"{one.attack.information.bits.value:.4f}" for one in (whole, half))
        told = curve.information.bits
        middle, low, high = (f"{end:.4f}" for end in (told.value, told.low, told.high))
        unit = "bits"
    return (
        f"an attacker with more {rows} would read more ({more} {unit} having learnt from"
        f" {whole.rows:,}, {less} from {half.rows:,}; extrapolated to {curve.further:,}: {middle}"
        f" [{low}, {high}])"
    )


def training_in_words(report: AttackReport, rows: str) -> str | None:
    """Who learnt from how many samples, and on how many they were tested; `None` where it is not
    known.
    """
    if report.learnt is None:
        return None
    folds = "cross-fitted" if len(report.codes) > report.learnt else "set aside"
    said = (
        f"Each attacker learnt from {report.learnt:,} {rows} and was tested on"
        f" {len(report.codes):,}, {folds}"
    )
    if not report.places:
        return f"{said}."
    names = ", ".join(report.places)
    few = len(next(iter(report.places.values())))
    return f"{said}; those trained once ({names}) on {few:,} of these."


def _distrust(
    attack: Estimate, estimate: Estimate, prior: Floats, rows: str, why: str
) -> str | None:
    """What to say when an attack shows more than was estimated to be there, or the estimate leaves
    too much open.
    """
    if not isinstance(estimate, Estimate):
        raise LowtideError(
            "estimate must be an Estimate with its interval, in nats, got"
            f" {type(estimate).__name__}"
        )
    # An attacker's information is at most what the release holds, so its true mean can never lie
    # above a right estimate. The sampled mean can, by chance. Its lower end is what the test rows
    # show beyond chance, and the upper end of the estimate is the most it ever claimed: only when
    # these two are out of order is there a contradiction.
    if attack.low <= estimate.high + _ROUNDING:
        if not rests_on_few(estimate, prior):
            return None
        return (
            f"Do not trust the estimate: it rests on {estimate.n:,} {rows}, in which as much as"
            f" {estimate.high:.4f} nats could have gone unseen."
        )
    return (
        f"Do not trust the estimate: it puts the leakage at {interval(estimate)} nats, but an"
        f" attacker already gets {attack.value:.4f} (at least {attack.low:.4f}). {why}; rely on the"
        " attack."
    )


def _reads(attack: Attack, guess: Attack) -> bool:
    """Whether an attacker demonstrably learns anything: right more often than guessing, or of
    positive information.
    """
    return attack.accuracy.low > guess.accuracy.value or attack.information.low > _ROUNDING


def _outcome(standing: Standing, passed: bool | None, reason: str | None) -> str:
    outcome = {True: "passed", False: "failed", None: f"undecided, since {reason}"}[passed]
    return f"Gate {outcome}. The limit is {standing}."
