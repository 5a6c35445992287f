"""One call that audits a release: attackers, the divergence they prove, what changed, what it is good for, in words."""

from __future__ import annotations

import html
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from lowtide import modalities
from lowtide.attack.lower_bound import LowerBound, audit_divergence
from lowtide.attack.panel import AttackReport, attack
from lowtide.auditing.surface import SurfaceFindings, examine
from lowtide.auditing.utility import AttackOptions, Change, UtilityReport
from lowtide.checks import LowtideError, one_of, within
from lowtide.density.objectives import with_overlooked
from lowtide.disclose.standing import STATES, Standing, judged_by_nobody, stand
from lowtide.formatting import html_of, in_ascii, interval, percentages, plain, text_of
from lowtide.interface import Attack, Estimate, Reported, TextTable
from lowtide.protocols import Modality

# An attacker that falls back on the prior gains log(p/p), which is 0 up to rounding, with an interval as narrow.
_ROUNDING = 1e-9
LOWER_BOUND_NOTE = "An attack is a lower bound: a better attacker may learn more."
_NOTHING_SHOWN = (
    "These attackers cannot read the clean data either, so this audit says nothing about the release. Give more rows "
    "or other attackers, or accept that the data may not tell the {secret} at all."
)
_TOO_WEAK = "The estimator is too weak for this release"
_NO_ORDER = "The estimate knows values and not their order"
_NO_CONTROL = "No clean data was given, so it is not known whether these attackers could have read it."


@dataclass(frozen=True)
class Gate:
    """A limit that a release must keep; made by `Gate.nats` or `Gate.accuracy`.

    It compares the upper end of the attackers' intervals, and no less than what so many rows could have shown: a
    release does not pass for having been tested on few rows only.

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
        """Where a release stands whose strongest retrained attacker achieved this."""
        found = attack.accuracy if self.quantity == "accuracy" else with_overlooked(attack.information)
        lower = found.low - _ROUNDING
        return stand(self.limit, self.quantity, replace(found, low=lower), lower=lower, reference=found.n)


@dataclass(frozen=True)
class Verdict:
    """An audit in words; it never quotes a value of the data or of the secret.

    Attributes:
        sentence: how often an attacker is right: on the release, on the clean data, and guessing.
        lower_bound_note: what an attack can never show.
        trusted: false when the attack contradicts the estimated leakage; true without an estimate, too.
        distrust: what to say then; `None` otherwise.
        conclusive: whether the attackers can read the clean data, so that failing on the release means something;
            `None` without clean data.
        control: what to say when they cannot, or when it is not known; `None` when they can.
        passed: whether the gate was kept; `None` without a gate, and when the limit is kept by attackers who cannot
            read the clean data, as they would keep any, or who did not look at all that is released.
        gate: the outcome in words; `None` without a gate.
        surface: that the order of the samples, or what stands beside their values, tells; `None` where nothing does.
        unjudged: which columns are released that no attacker looked at, in words; `None` where there are none.
    """

    sentence: str
    lower_bound_note: str
    trusted: bool
    distrust: str | None
    conclusive: bool | None
    control: str | None
    passed: bool | None
    gate: str | None
    surface: str | None = None
    unjudged: str | None = None

    def __str__(self) -> str:
        first = (self.distrust, self.control, self.sentence, self.surface, self.lower_bound_note)
        said = (*first, self.unjudged, self.gate)
        return " ".join(part for part in said if part)


def give_verdict(
    report: AttackReport,
    estimate: Estimate | None = None,
    *,
    fail_above: float | Gate | None = None,
    secret: str = "secret",
    surface: SurfaceFindings | None = None,
    unjudged: tuple[str, ...] = (),
    accepted: tuple[str, ...] = (),
) -> Verdict:
    """Put an attack into words.

    Args:
        report: of the attackers on the release.
        estimate: the estimated leakage of the release with its interval, in nats.
        fail_above: the limit to keep; a number is in nats.
        secret: what to call the secret: "vote", "diagnosis".
        surface: of the release; the attacker of places counts for the estimate and the limit like the strongest one.
        unjudged: columns that are released and that no attacker looked at.
        accepted: those of them that the gate passes over, on the user's word.
    """
    secret = plain(secret)
    attacks = [report.headline, *([] if surface is None or surface.attack is None else [surface.attack])]
    most = max(attacks, key=lambda one: one.information.low)
    why = _TOO_WEAK if most is report.headline else _NO_ORDER
    distrust = None if estimate is None else _distrust(most.information, estimate, why)
    conclusive = _reads(report.headline_clean, report.guess) if report.headline_clean is not None else None
    control = {True: None, False: _NOTHING_SHOWN.format(secret=secret), None: _NO_CONTROL}[conclusive]
    gate = fail_above if fail_above is None or isinstance(fail_above, Gate) else Gate.nats(fail_above)
    standing = None if gate is None else max(map(gate.standing, attacks), key=_badness)
    passed = None if standing is None else standing.state == "kept"
    reason = None
    if passed and conclusive is False:
        passed, reason = None, "attackers who read nothing keep every limit"
    elif passed and set(unjudged) - set(accepted):
        passed, reason = None, "some columns were judged by nobody (leave them out, or accept them by name)"
    return Verdict(
        sentence=_sentence(report, secret),
        lower_bound_note=LOWER_BOUND_NOTE,
        trusted=distrust is None,
        distrust=distrust,
        conclusive=conclusive,
        control=control,
        passed=passed,
        gate=None if standing is None else _outcome(standing, passed, reason),
        surface=None if surface is None else surface.sentence(secret),
        unjudged=f"{judged_by_nobody(unjudged).capitalize()}." if unjudged else None,
    )


def _badness(standing: Standing) -> tuple[int, float]:
    return STATES.index(standing.state), standing.upper


def _sentence(report: AttackReport, secret: str) -> str:
    clean = report.headline_clean
    shares = [report.headline.accuracy.value, report.guess.accuracy.value]
    if clean is None:
        here, blind = percentages(*shares)
        return f"An attacker guesses the {secret} right {here} of the time; guessing blindly gives {blind}."
    here, blind, before = percentages(*shares, clean.accuracy.value)
    compared = f"{here} of the time instead of {before}"
    return f"An attacker guesses the {secret} right {compared}; guessing blindly gives {blind}."


def _distrust(attack: Estimate, estimate: Estimate, why: str) -> str | None:
    """What to say when an attack shows more than was estimated to be there."""
    if not isinstance(estimate, Estimate):
        raise LowtideError(f"estimate must be an Estimate with its interval, in nats, got {type(estimate).__name__}")
    # An attacker's information is at most what the release holds, so its true mean can never lie above a right
    # estimate. The sampled mean can, by chance. Its lower end is what the test rows show beyond chance, and the upper
    # end of the estimate is the most it ever claimed: only when these two are out of order is there a contradiction.
    if attack.low <= estimate.high + _ROUNDING:
        return None
    return (
        f"Do not trust the estimate: it puts the leakage at {interval(estimate)} nats, "
        f"but an attacker already gets {attack.value:.4f} (at least {attack.low:.4f}). {why}; rely on the attack."
    )


def _reads(attack: Attack, guess: Attack) -> bool:
    """Whether an attacker demonstrably learns anything: right more often than guessing, or of positive information."""
    return attack.accuracy.low > guess.accuracy.value or attack.information.low > _ROUNDING


def _outcome(standing: Standing, passed: bool | None, reason: str | None) -> str:
    outcome = {True: "passed", False: "failed", None: f"undecided, since {reason}"}[passed]
    return f"Gate {outcome}. The limit is {standing}."


Row = tuple[str, str, str, str, str, str]
HEADER: Row = ("attacker", "trained on", "target", "accuracy", "AUC", "bits")


@dataclass(frozen=True, eq=False)
class AuditReport(Reported):
    """What an audit found. It holds figures and names of columns, never a value of the data or of the secret.

    Attributes:
        attacks: what attackers learn.
        divergence: the divergence they prove; `None` when no ε was asked about.
        change: what the release changed; `None` without clean data, or where `change_missing` says why.
        change_missing: why the change could not be measured although clean data was given; `None` otherwise.
        utility: what the release still predicts; `None` when nothing was asked for.
        estimate: the estimated leakage the attack was held against, in nats; `None` without one.
        verdict: all of it in words.
        surface: what stands beside the values, and the order of the samples; `None` where nobody looked.
    """

    attacks: AttackReport
    divergence: LowerBound | None
    change: Change | None
    change_missing: str | None
    utility: UtilityReport | None
    estimate: Estimate | None
    verdict: Verdict
    surface: SurfaceFindings | None = None

    def table(self) -> list[Row]:
        """One row per attack, as in `HEADER`: the headline first, other retrained attackers by what they learn."""
        return [
            (one.attacker, one.trained_on, one.target, _interval(one.accuracy), _interval(one.auc), _bits(one))
            for one in self._ordered()
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain numbers, strings and lists, for `json.dumps`; an infinite PSNR becomes null."""
        bound, change = self.divergence, self.change
        divergence = bound and {
            "epsilon": bound.epsilon,
            "forward": bound.forward_max,
            "reverse": bound.reverse_max,
            "failure": bound.failure,
            "n": bound.n,
        }
        result = {
            "verdict": asdict(self.verdict),
            "strongest": self.attacks.strongest,
            "attacks": [asdict(one) for one in self._ordered()],
            "fixed_missing": self.attacks.fixed_missing,
            "estimate": self.estimate and asdict(self.estimate),
            "divergence": divergence,
            # JSON has no infinity, which the PSNR is when nothing changed.
            "change": change and {**asdict(change), "psnr": None if change.psnr == math.inf else change.psnr},
            "change_missing": self.change_missing,
            "utility": self.utility and asdict(self.utility),
            "surface": self.surface and self.surface.to_json(),
        }
        plain: dict[str, Any] = json.loads(json.dumps(result, allow_nan=False))
        return plain

    def text(self) -> str:
        """A summary to read: the verdict, the attacks, the divergence, the change and the utility."""
        lines = [line for line in (self._divergence(), self._change(), self._utility()) if line]
        table = text_of([TextTable("", HEADER, tuple(self.table()))])
        return "\n".join([str(self.verdict), "", table, "", *lines]).rstrip() + "\n"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """What `text` says, for a notebook."""
        lines = [line for line in (self._divergence(), self._change(), self._utility()) if line]
        said = "".join(f"<p>{html.escape(line)}</p>" for line in lines)
        return f"<p>{html.escape(str(self.verdict))}</p>{html_of([TextTable('', HEADER, tuple(self.table()))])}{said}"

    def _ordered(self) -> list[Attack]:
        headline = self.attacks.headline
        others = [one for one in self.attacks.retrained if one is not headline]
        others.sort(key=lambda one: -one.information.value)
        places = [] if self.surface is None or self.surface.attack is None else [self.surface.attack]
        return [headline, *others, *places, *self.attacks.fixed, *self.attacks.clean, self.attacks.guess]

    def _divergence(self) -> str:
        bound = self.divergence
        if bound is None:
            return ""
        return (
            f"At ε = {bound.epsilon:g} the divergence is at least {bound.forward_max:.4f} forward and "
            f"{bound.reverse_max:.4f} in reverse, except with probability {bound.failure:g}."
        )

    def _change(self) -> str:
        change = self.change
        if change is None:
            return "" if self.change_missing is None else f"The change was not measured: {plain(self.change_missing)}."
        parts = [f"{100 * change.share:.1f} % of the {change.what} changed"]
        if change.rms is not None:
            parts.append(f"the root mean square is {change.rms:.3f} standard deviations")
        if change.psnr is not None:
            parts.append(f"PSNR {change.psnr:.1f} dB")
        return ", ".join(parts) + "."

    def _utility(self) -> str:
        report = self.utility
        if report is None:
            return ""
        name = "AUC" if report.kind == "classes" else "R²"
        clean = "" if report.best_clean is None else f", the clean data to {_interval(report.best_clean.score)}"
        blind = _interval(report.guess.score) if report.kind == "classes" else "0"
        return (
            f"The utility column: models trained on the release predict it to an {name} of "
            f"{_interval(report.best.score)}{clean}; guessing gives {blind}."
        )


def audit_samples(
    release: Any,
    labels: ArrayLike,
    *,
    clean: Any = None,
    estimate: Estimate | None = None,
    utility: ArrayLike | str | None = None,
    fail_above: float | Gate | None = None,
    epsilon: float | None = 0.1,
    secret: str = "secret",
    peak: float | None = None,
    position: ArrayLike | None = None,
    unjudged: tuple[str, ...] = (),
    accepted: tuple[str, ...] = (),
    **options: Unpack[AttackOptions],
) -> AuditReport:
    """Audit released samples of any kind.

    Args:
        release: n released samples: a table of any library, images, or texts.
        labels: (n,) the secret of every sample, finitely many values.
        clean: the samples before, in the same order: a control for the attackers, and what the change is measured
            against.
        estimate: the estimated leakage of the release, in nats, to hold against the attack.
        utility: (n,) what the release should still predict; of a table also the name of a column.
        fail_above: the limit to keep, see `Gate`; a number is in nats.
        epsilon: ε of the divergence to bound from below; `None` for none.
        secret: what to call the secret.
        peak: largest value of a pixel, for the PSNR where a table holds pixels.
        position: (n,) where each sample stands in the release; by default they stand as they are given.
        unjudged: columns that are released beside the samples, which no attacker looks at.
        accepted: those of them that the gate passes over, on the user's word.
        **options: see `AttackOptions`; the divergence fails with probability 1 − level.
    """
    limit = fail_above if fail_above is None or isinstance(fail_above, Gate) else Gate.nats(fail_above)
    level = float(within("level", options.get("level", 0.95), 0.0, 1.0, low_open=True, high_open=True))
    if epsilon is not None:
        within("epsilon", epsilon, 0.0, math.inf, high_open=True)
    kind = modalities.of(release)
    if clean is not None and kind.count(clean) != kind.count(release):
        raise LowtideError(
            f"clean has {kind.count(clean)} rows and the release {kind.count(release)}; "
            "they must be the same rows, in the same order"
        )
    attacks = attack(release, labels, clean=clean, **options)
    seed, groups = options.get("seed", 0), options.get("groups")
    surface = examine(kind, release, labels, position=position, groups=groups, seed=seed, level=level)
    verdict = give_verdict(
        attacks,
        estimate,
        fail_above=limit,
        secret=secret,
        surface=surface,
        unjudged=unjudged,
        accepted=accepted,
    )
    change, missing = (None, None) if clean is None else _measured(kind, clean, release, peak)
    divergence = None
    if epsilon is not None:
        divergence = audit_divergence(attacks, epsilon, failure=round(1 - level, 12), seed=seed)
    return AuditReport(
        attacks=attacks,
        divergence=divergence,
        change=change,
        change_missing=missing,
        utility=None if utility is None else kind.predicts(release, utility, clean=clean, **options),
        estimate=estimate,
        verdict=verdict,
        surface=surface,
    )


def _measured(kind: Modality, clean: Any, release: Any, peak: float | None) -> tuple[Change | None, str | None]:
    """The change, or why there is none: a release may have other columns than the clean data."""
    if peak is not None:
        return kind.change(clean, release, peak=peak), None
    try:
        return kind.change(clean, release), None
    except LowtideError as error:
        return None, str(error)


def _interval(estimate: Estimate) -> str:
    return in_ascii(interval(estimate, 3))


def _bits(one: Attack) -> str:
    return "0, by definition" if one.trained_on == "nothing" else _interval(one.information.bits)
