"""One call that audits a release: attackers, the divergence they prove, what changed, what it is
good for, in words.
"""

from __future__ import annotations

import html
import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Unpack

from numpy.typing import ArrayLike

from lowtide import modalities
from lowtide.attack.learning_curve import LearningCurve
from lowtide.attack.lower_bound import LowerBound, audit_divergence, divergence_curve
from lowtide.attack.panel import AttackReport, attack
from lowtide.attack.together import PersonHistories
from lowtide.auditing.added import AddedInformation
from lowtide.auditing.counting import CountedRelease, WholeRelease, count_release
from lowtide.auditing.exposure import Exposure
from lowtide.auditing.gate import GateOutcome
from lowtide.auditing.measures import Measure, measure, measures_json, measures_table
from lowtide.auditing.surface import SurfaceFindings, examine
from lowtide.auditing.utility import AttackOptions, Change, UtilityReport
from lowtide.auditing.verdict import Gate, Unseen, Verdict, give_verdict
from lowtide.checks import LowtideError, within
from lowtide.formatting import html_of, in_ascii, interval, percentages, plain, text_of
from lowtide.interface import Attack, AuditContext, DivergenceCurve, Estimate, Reported, TextTable
from lowtide.protocols import Modality

Row = tuple[str, str, str, str, str, str]
HEADER: Row = ("attacker", "trained on", "target", "accuracy", "AUC", "bits")


@dataclass(frozen=True, eq=False)
class AuditReport(Reported):
    """What an audit found. It holds figures and names of columns, never a value of the data or of
    the secret.

    Attributes:
        attacks: what attackers learn.
        divergence: the divergence they prove; `None` when no ε was asked about.
        change: what the release changed; `None` without clean data, or where `change_missing` says
            why.
        change_missing: why the change could not be measured although clean data was given; `None`
            otherwise.
        utility: what the release still predicts; `None` when nothing was asked for.
        estimate: the estimated leakage the attack was held against, in nats; `None` without one.
        verdict: all of it in words.
        surface: what stands beside the values, and the order of the samples; `None` where nobody
            looked.
        counted: what holds against every attacker, by counts; `None` where samples are not counted.
        secret: what the secret is called.
        gate: what became of every limit; `None` where none was given.
        added: what the release adds to what is known anyway; `None` where nothing is.
        told: what the audit was told besides.
        together: what several samples of one person tell; `None` where nobody asked.
        each: where the secret is the product of several, the audit of each by itself; the limits of
            all are in `gate`.
    """

    attacks: AttackReport
    divergence: LowerBound | None
    change: Change | None
    change_missing: str | None
    utility: UtilityReport | None
    estimate: Estimate | None
    verdict: Verdict
    surface: SurfaceFindings | None = None
    counted: CountedRelease | None = None
    secret: str = "secret"
    gate: GateOutcome | None = None
    added: AddedInformation | None = None
    told: AuditContext | None = None
    together: PersonHistories | None = None
    each: tuple[AuditReport, ...] = ()

    @cached_property
    def exposure(self) -> Exposure:
        """Who is exposed, by the strongest attacker's answers."""
        return Exposure.of(self.attacks, self.told)

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The field's measures, by the strongest attacker's answers; none where it has learnt
        nothing.
        """
        told = self.told or AuditContext()
        return measure(self.attacks, told.groups, costs=told.costs)

    @cached_property
    def profile(self) -> DivergenceCurve:
        """The divergence in both directions for several ε: by the strongest attacker's answers, and
        proven.
        """
        return divergence_curve(self.attacks)

    def table(self) -> list[Row]:
        """One row per attack, as in `HEADER`: retrained attackers first, by what they learn."""
        return [
            (
                one.attacker,
                one.trained_on,
                one.target,
                _interval(one.accuracy),
                _interval(one.auc),
                _bits(one),
            )
            for one in self._ordered()
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain numbers, strings and lists, for `json.dumps`; an infinite PSNR
        becomes null.
        """
        bound = self.divergence
        change = self.change
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
            "headline": asdict(self.attacks.headline),
            "attacks": [asdict(one) for one in self._ordered()],
            "fixed_missing": self.attacks.fixed_missing,
            "learning_curve": self.attacks.curve and asdict(self.attacks.curve),
            "estimate": self.estimate and asdict(self.estimate),
            "divergence": divergence,
            # JSON has no infinity, which the PSNR is when nothing changed.
            "change": (
                change
                and {**asdict(change), "psnr": None if change.psnr == math.inf else change.psnr}
            ),
            "change_missing": self.change_missing,
            "utility": self.utility and asdict(self.utility),
            "surface": self.surface and self.surface.to_json(),
            "counted": self.counted and self.counted.to_json(),
            "gate": self.gate and self.gate.to_json(),
            "added": self.added and self.added.to_json(),
            "together": self.together and self.together.to_json(),
            "profile": asdict(self.profile),
            "measures": measures_json(self.measures),
            "exposure": self.exposure.to_json(),
            **({"each": {one.secret: one.to_json() for one in self.each}} if self.each else {}),
        }
        plain: dict[str, Any] = json.loads(json.dumps(result, allow_nan=False))
        return plain

    def text(self) -> str:
        """A summary to read: the verdict, the attacks, what was counted, divergence, change and
        utility.
        """
        tables = text_of([self.attack_table(), *self.further_tables()])
        said = "\n".join([str(self.verdict), "", tables, "", *self.lines()]).rstrip() + "\n"
        return "\n".join([said, *(f"{heading(one)}\n\n{one.text()}" for one in self.each)])

    def attack_table(self, title: str = "") -> TextTable:
        """The attacks, as `table` lists them."""
        return TextTable(title, HEADER, tuple(self.table()))

    def lines(self) -> list[str]:
        """Who learnt from how many, the learning curve, counts, divergence, change, utility and
        limits, a line each.
        """
        curve = self.attacks.curve
        learning = [self.verdict.training, None if curve is None else learning_in_words(curve)]
        counted: list[str] = []
        if self.counted is not None:
            counted = [
                self.counted.cells_in_words(),
                self.counted.curve_in_words(plain(self.secret)),
            ]
        tails = "" if self.counted is None else self.counted.tails_in_words(plain(self.secret))
        asked = (
            [] if self.gate is None else self.gate.lines()
        )  # of each secret, where there are several
        said = (
            *learning,
            *counted,
            self._divergence(),
            tails,
            self._change(),
            self._utility(),
            *asked,
        )
        return [line for line in said if line]

    def further_tables(self) -> list[TextTable]:
        """What the release adds, who is exposed, and measures of leakage and of disclosure
        control.
        """
        secret = plain(self.secret)
        tables = [] if self.added is None else [self.added.table()]
        rows = "samples" if self.counted is None else self.counted.nouns.rows
        tables.append(self.exposure.table(secret, rows))
        tables += [] if self.together is None else [self.together.table(secret, rows)]
        if self.measures:
            tables += [
                measures_table(self.measures, self.attacks.strongest),
                profile_table(self.profile),
            ]
        return [*tables, *([] if self.counted is None else [self.counted.table(secret)])]

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """What `text` says, for a notebook."""
        said = "".join(f"<p>{html.escape(line)}</p>" for line in self.lines())
        tables = html_of([self.attack_table(), *self.further_tables()])
        each = "".join(
            f"<p><strong>{html.escape(heading(one))}</strong></p>{one._repr_html_()}"
            for one in self.each
        )
        return f"<p>{html.escape(str(self.verdict))}</p>{tables}{said}{each}"

    def _ordered(self) -> list[Attack]:
        retrained = sorted(self.attacks.retrained, key=lambda one: -one.information.value)
        places = (
            [] if self.surface is None or self.surface.attack is None else [self.surface.attack]
        )
        return [*retrained, *places, *self.attacks.fixed, *self.attacks.clean, self.attacks.guess]

    def _divergence(self) -> str:
        bound = self.divergence
        if bound is None:
            return ""
        return (
            f"At ε = {bound.epsilon:g} the divergence is at least {bound.forward_max:.4f} forward"
            f" and {bound.reverse_max:.4f} in reverse, except with probability {bound.failure:g}."
        )

    def _change(self) -> str:
        change = self.change
        if change is None:
            return (
                ""
                if self.change_missing is None
                else f"The change was not measured: {plain(self.change_missing)}."
            )
        aside = "" if self.utility is None else ", the utility aside"
        parts = [
            f"Of what was audited{aside}, {100 * change.share:.1f} % of the {change.what} changed"
        ]
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
        clean = (
            ""
            if report.best_clean is None
            else f", the clean data to {_interval(report.best_clean.score)}"
        )
        blind = _interval(report.guess.score) if report.kind == "classes" else "0"
        return (
            f"The utility column: models trained on the release predict it to an {name} of "
            f"{_interval(report.best.score)}{clean}; guessing gives {blind}."
        )


def profile_table(curve: DivergenceCurve) -> TextTable:
    """ε and the δ of both directions, a line each."""
    rows = tuple(
        (
            f"{epsilon:g}",
            in_ascii(interval(curve.forward[k])),
            f"{curve.forward_proven[k]:.4f}",
            in_ascii(interval(curve.reverse[k])),
            f"{curve.reverse_proven[k]:.4f}",
        )
        for k, epsilon in enumerate(curve.epsilons)
    )
    header = ("epsilon", "delta forward", "at least", "delta reverse", "at least")
    note = f"What is proven (at least) fails with probability {curve.failure:g} in all."
    return TextTable("The profile of the divergence", header, rows, note)


def heading(one: AuditReport) -> str:
    """The heading of one of several secrets."""
    return f"By itself: {plain(one.secret)}"


def learning_in_words(curve: LearningCurve) -> str:
    """How often an attacker is right by the samples it learnt from, and what ten times as many
    might make of it.
    """
    shares = [*(point.attack.accuracy.value for point in curve.points), curve.accuracy.value]
    *said, beyond, low, high = percentages(*shares, curve.accuracy.low, curve.accuracy.high)
    points = ", ".join(
        f"{share} from {point.rows:,}" for share, point in zip(said, curve.points, strict=True)
    )
    return (
        f"Learning curve of {curve.whole.attack.attacker}: right {points}; extrapolated to"
        f" {curve.further:,} by a power law, which is not a bound: {beyond} [{low}, {high}]."
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
    unseen: Unseen | None = None,
    whole: WholeRelease | None = None,
    **options: Unpack[AttackOptions],
) -> AuditReport:
    """Audit released samples of any kind.

    Args:
        release: n released samples: a table of any library, images, or texts.
        labels: (n,) the secret of every sample, finitely many values.
        clean: the samples before, in the same order: a control for the attackers, and what changes
            are measured from.
        estimate: the estimated leakage of the release, in nats, to hold against the attack.
        utility: (n,) what the release should still predict; of a table also the name of a column.
        fail_above: the limit to keep, see `Gate`; a number is in nats.
        epsilon: ε of the divergence to bound from below; `None` for none.
        secret: what to call the secret.
        peak: largest value of a pixel, for the PSNR where a table holds pixels.
        position: (n,) where each sample stands in the release; by default they stand as they are
            given.
        unseen: columns that are released beside the samples, which no attacker looks at.
        whole: all that is released, and its card, for the bound from counts; by default `release`,
            without a card.
        **options: see `AttackOptions`; the divergence fails with probability 1 − level.
    """
    limit = (
        fail_above if fail_above is None or isinstance(fail_above, Gate) else Gate.nats(fail_above)
    )
    level = float(
        within("level", options.get("level", 0.95), 0.0, 1.0, low_open=True, high_open=True)
    )
    within("epsilon", 0.0 if epsilon is None else epsilon, 0.0, math.inf, high_open=True)
    kind = _kind_of(release, clean)
    failure = round(1 - level, 12)
    attacks = attack(release, labels, clean=clean, curve=True, **options)
    seed = options.get("seed", 0)
    groups = options.get("groups")
    surface = examine(
        kind, release, labels, position=position, groups=groups, seed=seed, level=level
    )
    counted = _counted(
        kind,
        surface,
        labels,
        whole,
        limit,
        unseen,
        epsilon=epsilon,
        failure=failure,
        options=options,
    )
    rows = kind.nouns.rows
    verdict = give_verdict(
        attacks,
        estimate,
        fail_above=limit,
        secret=secret,
        rows=rows,
        surface=surface,
        unseen=unseen,
        counted=counted,
    )
    change = None
    missing = None
    if clean is not None:
        change, missing = _measured(kind, clean, release, peak)
    return AuditReport(
        attacks=attacks,
        divergence=(
            None
            if epsilon is None
            else audit_divergence(attacks, epsilon, failure=failure, seed=seed)
        ),
        change=change,
        change_missing=missing,
        utility=(
            None if utility is None else kind.predicts(release, utility, clean=clean, **options)
        ),
        estimate=estimate,
        verdict=verdict,
        surface=surface,
        counted=counted,
        secret=secret,
    )


def _counted(
    kind: Modality,
    surface: SurfaceFindings,
    labels: ArrayLike,
    whole: WholeRelease | None,
    gate: Gate | None,
    unseen: Unseen | None,
    *,
    epsilon: float | None,
    failure: float,
    options: AttackOptions,
) -> CountedRelease | None:
    """The bound from counts, of all columns that are released.

    Samples of one group are not independent, and columns that nobody can read cannot be counted:
    there is none then.
    """
    if options.get("groups") is not None or (unseen is not None and unseen.columns):
        return None
    shown = WholeRelease(None) if whole is None else whole
    alike = surface.alike if shown.samples is None else kind.surface(shown.samples).alike
    limit = gate.limit if gate is not None and gate.quantity == "accuracy" else None
    seed = options.get("seed", 0)
    of = shown.secret
    return count_release(
        kind,
        alike,
        labels,
        failure=failure,
        card=shown.card,
        secret=of,
        limit=limit,
        epsilon=epsilon,
        seed=seed,
    )


def _kind_of(release: Any, clean: Any) -> Modality:
    """The kind of the samples; refuses clean samples that are not as many."""
    kind = modalities.of(release)
    if clean is not None and kind.count(clean) != kind.count(release):
        raise LowtideError(
            f"clean has {kind.count(clean)} rows and the release {kind.count(release)}; "
            "they must be the same rows, in the same order"
        )
    return kind


def _measured(
    kind: Modality, clean: Any, release: Any, peak: float | None
) -> tuple[Change | None, str | None]:
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
