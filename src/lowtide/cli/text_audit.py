"""`lowtide audit` of texts."""

from __future__ import annotations

from pathlib import Path

from lowtide.auditing.judging import AuditReport, audit
from lowtide.auditing.verdict import Gate
from lowtide.cli.texts import GivenTexts, read_given_texts
from lowtide.disclose.card import ReleaseCard
from lowtide.errors import LowtideError
from lowtide.report.contents import Report
from lowtide.table_files.formats import find_column
from lowtide.texts.lists import TermLists
from lowtide.texts.plan_file import TextPlan
from lowtide.texts.policies import FixedTerms
from lowtide.texts.reading import read_texts


def audit_corpus(
    path: Path,
    reference: Path,
    secret: str,
    *,
    text: str | None,
    group: str | None,
    encoding: str,
    card: ReleaseCard | None,
    utility: str | None,
    gate: Gate | None,
    epsilon: float,
    seed: int,
    progress: bool | None,
    attackers: tuple[str, ...] | None = None,
) -> tuple[GivenTexts, AuditReport]:
    """Attack released texts; also what they were made from."""
    given = read_given_texts(
        reference, secret, text=None if reference.is_dir() else text, group=group, encoding=encoding
    )
    release = read_texts(path, text=text or given.found.names[0], encoding=encoding)
    if given.secret in (release.names[0], *release.others.column_names):
        raise LowtideError(
            f"the release still holds the secret {given.secret!r}: nothing is hidden; release it with `lowtide release`"
        )
    if len(release) != len(given.known):
        raise LowtideError(
            f"the release has {len(release)} texts and the reference {len(given.known)}; they must be the same texts "
            "in the same order"
        )
    useful = None
    if utility is not None:
        column = given.found.others[find_column(utility, given.found.others.column_names)]
        if column.null_count:
            raise LowtideError(
                f"the utility {utility!r} is missing for {column.null_count} texts; fill it in, or name another column"
            )
        useful = column.to_pylist()
    found = audit(
        release.take(given.known).texts,
        given.s,
        clean=given.found.texts,
        estimate=None if card is None else card.leakage,
        utility=useful,
        fail_above=gate,
        epsilon=epsilon,
        secret=given.secret,
        groups=given.groups,
        attackers=attackers,
        seed=seed,
        progress=progress,
    )
    return given, found


def audit_report(
    name: str, given: GivenTexts, found: AuditReport, card: ReleaseCard | None, made: TextPlan | None
) -> Report:
    """The report of a release."""
    policy = None if made is None else made.hider.policy
    plan = policy if isinstance(policy, FixedTerms) else None
    return Report(
        title=f"{name}: what it still tells about {given.secret}",
        secret=given.secret,
        curve=() if plan is None else plan.curve,
        features=() if plan is None else plan.vocabulary.terms,
        chosen=None if plan is None else plan.hidden,
        budget=str((card.parameters if card else {}).get("budget") or ""),
        audit=found,
        card=card,
        terms=TermLists((), (), len(given.s), 1 if plan is None else len(plan.vocabulary)),
    )
