"""The audit of a release as a kind of data matched it with its reference, and with what the
attacker has besides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lowtide.attack.lower_bound import audit_divergence
from lowtide.attack.panel import AttackReport, attack
from lowtide.attack.together import told_together
from lowtide.auditing.added import AddedInformation
from lowtide.auditing.counting import WholeRelease
from lowtide.auditing.report import AuditReport, audit_samples
from lowtide.auditing.utility import AttackOptions
from lowtide.auditing.verdict import Gate, Unseen, Verdict, give_verdict
from lowtide.checks import within
from lowtide.disclose.card import ReleaseCard
from lowtide.protocols import Matched, Modality
from lowtide.splits import stratified, stream

_TEST = 0.2


@dataclass(frozen=True, eq=False)
class AuditTask:
    """What an audit is asked, whichever secret it is about.

    Attributes:
        kind: of the data.
        card: of the release.
        epsilon: ε of the divergence to bound from below; `None` for none.
        unseen: columns that are released and that no attacker looks at.
        options: how to attack.
    """

    kind: Modality
    card: ReleaseCard | None
    epsilon: float | None
    unseen: Unseen
    options: AttackOptions

    @property
    def seed(self) -> int:
        """Of every random draw."""
        return self.options.get("seed", 0)


def audit_matched(matched: Matched, task: AuditTask, gate: Gate | None) -> AuditReport:
    """Audit a release beside its reference, under the circumstances that were told; `gate` is the
    limit to keep.
    """
    told = matched.told
    data = matched.data
    options: AttackOptions = {**task.options, "groups": data.groups}
    if told.elsewhere is not None:
        return _audit_elsewhere(matched, task, gate, options)
    found = audit_samples(
        matched.release,
        data.labels,
        clean=matched.clean,
        estimate=None if task.card is None else task.card.leakage,
        utility=matched.utility,
        fail_above=gate,
        epsilon=task.epsilon,
        secret=data.secret,
        position=matched.position,
        unseen=task.unseen,
        whole=WholeRelease(matched.whole, task.card, data.secret),
        **options,
    )
    found = replace(found, told=replace(told, groups=data.groups))
    if told.learnt is not None:
        attacks = _with_more(found.attacks, matched, task, options)
        divergence = found.divergence
        if divergence is not None:
            divergence = audit_divergence(
                attacks, divergence.epsilon, failure=divergence.failure, seed=task.seed
            )
        found = replace(found, attacks=attacks, divergence=divergence)
    if told.known is not None:
        known, both = (attack(one, data.labels, **options) for one in (told.known, told.with_known))
        found = replace(found, added=AddedInformation.of(told.known_names, known, both))
    if told.posts and told.persons is not None:
        together = told_together(found.attacks, told.persons, told.posts, seed=task.seed)
        found = replace(found, together=together)
    if told.learnt is None and told.known is None:
        return found
    return replace(found, verdict=_verdict(found, task, gate))


def _verdict(found: AuditReport, task: AuditTask, gate: Gate | None) -> Verdict:
    return give_verdict(
        found.attacks,
        found.estimate,
        fail_above=gate,
        secret=found.secret,
        rows=task.kind.nouns.rows,
        surface=found.surface,
        unseen=task.unseen,
        counted=found.counted,
        added=found.added,
        elsewhere=None if found.told is None else found.told.elsewhere,
    )


def _with_more(
    attacks: AttackReport, matched: Matched, task: AuditTask, options: AttackOptions
) -> AttackReport:
    """The attacks again, by attackers that have learnt from further rows besides."""
    told = matched.told
    tested = np.asarray(told.tested)
    codes = np.asarray(told.learnt_labels)
    if (
        len(codes) > task.kind.cross_fitted_rows
    ):  # tested once, so that the other released rows are learnt from as well
        some = stratified(
            codes[tested], _TEST, seed=stream(task.seed, "attack panel").spawn(2)[0]
        ).aside
        chosen = np.flatnonzero(tested)[some]
        tested = np.zeros(len(codes), dtype=bool)
        tested[chosen] = True
    ungrouped: AttackOptions = {**options, "groups": None}
    again = attack(told.learnt, codes, test=tested, **ungrouped)
    return replace(
        again, clean=attacks.clean, fixed=attacks.fixed, fixed_missing=attacks.fixed_missing
    )


def _audit_elsewhere(
    matched: Matched, task: AuditTask, gate: Gate | None, options: AttackOptions
) -> AuditReport:
    """Attackers learn from the release and are tested on the reference; the control learns from the
    reference, too.
    """
    told = matched.told
    data = matched.data
    epsilon = task.epsilon
    within("epsilon", 0.0 if epsilon is None else epsilon, 0.0, np.inf, high_open=True)
    ungrouped: AttackOptions = {**options, "groups": None}
    moved = attack(told.learnt, told.learnt_labels, test=told.tested, elsewhere=True, **ungrouped)
    control = attack(matched.clean, data.labels, **options)
    attacks = replace(
        moved,
        guess=replace(moved.guess, target="clean"),
        retrained=tuple(replace(one, target="clean") for one in moved.retrained),
        clean=tuple(replace(one, trained_on="clean", target="clean") for one in control.retrained),
        rows=moved.rows - int(np.count_nonzero(~np.asarray(told.tested))),
    )
    failure = round(1 - options.get("level", 0.95), 12)
    divergence = None
    if epsilon is not None:
        divergence = audit_divergence(attacks, epsilon, failure=failure, seed=task.seed)
    return AuditReport(
        attacks=attacks,
        divergence=divergence,
        change=None,
        change_missing=None,
        utility=None,
        estimate=None,
        verdict=give_verdict(
            attacks,
            fail_above=gate,
            secret=data.secret,
            rows=task.kind.nouns.rows,
            unseen=task.unseen,
            elsewhere=told.elsewhere,
        ),
        secret=data.secret,
        told=told,
    )
