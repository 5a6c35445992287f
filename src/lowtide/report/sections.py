"""The sections that every kind of data has, and the report that joins them with those of one
kind.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from lowtide.auditing.report import AuditReport
from lowtide.auditing.verdict import training_in_words
from lowtide.disclose.budget import Reading
from lowtide.disclose.card import ReleaseCard
from lowtide.formatting import plain
from lowtide.interface import Attack
from lowtide.protocols import Modality, Nouns
from lowtide.report import charts, words
from lowtide.report.charts import Tradeoff, duels, read_budget, tradeoff
from lowtide.report.counting import counted
from lowtide.report.divergence import divergence
from lowtide.report.exposure import by_itself, exposed, exposed_rows
from lowtide.report.html import FEWEST, Findings, Mark, Outline, Report, Scan, Section, fill
from lowtide.report.learning import learning
from lowtide.report.review import review
from lowtide.report.svg import stand_alone
from lowtide.report.words import view_card

_TEMPLATE = "report/sections.html.jinja"
_ROWS = 60  # of a table; who wants more takes the JSON
_SOURCES = {"release": "the release", "clean": "clean data", "nothing": "nothing"}


def make_report(
    title: str,
    secret: str,
    kind: Modality,
    *,
    scan: Scan | None = None,
    plan: Outline | None = None,
    audit: AuditReport | None = None,
    card: ReleaseCard | None = None,
    view: Any = None,
) -> Report:
    """Build a report of what is known about data and a release.

    Args:
        title: of the page.
        secret: what the secret is called.
        kind: the kind of data.
        scan: what the data tells before anything is hidden.
        plan: the outline of the plan, from `kind.outline`.
        audit: what fresh attackers make of the release.
        card: the release card.
        view: what the sections of this kind show beyond these, from `kind.view`.
    """
    found = Findings(secret, kind.nouns, scan, plan or Outline(), audit, card)
    own: Sequence[Section] = kind.sections(found, view)
    sections = (
        _verdict(found),
        *review(found),
        *(section for section in own if not section.single),
        *_tradeoff(found),
        *_attacks(found),
        *learning(found),
        *divergence(found),
        *exposed(found),
        *by_itself(found),
        *counted(found),
        *_change(found),
        *(section for section in own if section.single),
        *exposed_rows(found),
        *_card(found, kind),
        _reading(kind),
    )
    return Report(title, secret, kind.nouns, sections)


def _verdict(found: Findings) -> Section:
    leakage = found.leakage or (None if found.scan is None else found.scan.information)
    rows = [] if leakage is None else [leakage.n]
    rows += [] if found.strongest is None else [found.strongest.accuracy.n]
    why = f"Figures for all {found.nouns.rows} together; nothing about a single one."
    body = fill(
        _TEMPLATE, "verdict", headline=words.headline(found), numbers=words.three_numbers(found)
    )
    return Section(
        "verdict", "Verdict", body, Mark.resting(min(rows, default=FEWEST), why, found.nouns)
    )


def _tradeoff(found: Findings) -> list[Section]:
    plan = found.plan
    nouns = found.nouns
    if not plan.curve:
        return []
    what = (
        "the names of the hidden features"
        if nouns.named
        else f"how many {nouns.features} are hidden"
    )
    why = f"Averages over {{n}} held-out {nouns.rows}, and {what}; no {nouns.row}, no {nouns.unit}."
    mark = Mark.resting(min(point.reading.leakage.n for point in plan.curve), why, nouns)
    curve = _curve(found)
    budget = read_budget(plan.budget)
    chart = charts.draw_tradeoff(curve)
    every = -(-len(plan.curve) // _ROWS)
    values = {
        "unit": curve.unit,
        "chosen": curve.chosen,
        "budget": str(budget) if budget else plain(plan.budget),
        "chart": chart,
        "key": chart.legend,
        "hidden": [plain(name) for name in plan.hidden[:_ROWS]] if nouns.named else [],
        "more": max(0, len(plan.hidden) - _ROWS),
        "features": len(plan.features),
        "count": len(plan.hidden),
        "is_chosen": plan.chosen is not None,
        "rows": sorted(plan.curve, key=lambda point: -point.kept)[::every],
        "points": len(plan.curve),
    }
    body = fill(_TEMPLATE, "tradeoff", tradeoff=values, nouns=nouns, secret=plain(found.secret))
    return [
        Section(
            "tradeoff", "The trade-off", body, mark, {"tradeoff.svg": partial(stand_alone, [chart])}
        )
    ]


def _curve(found: Findings) -> Tradeoff:
    strongest = found.strongest
    plan = found.plan
    check = None
    if strongest is not None:
        check = Reading(found.leakage or strongest.information, strongest.accuracy)
    return tradeoff(plan.curve, chosen=plan.chosen, budget=read_budget(plan.budget), check=check)


def _attacks(found: Findings) -> list[Section]:
    attacks = found.attacks
    nouns = found.nouns
    audit = found.audit
    if not attacks:
        return []
    why = (
        f"Success rates over {{n}} test {nouns.rows}; which {nouns.row} an attacker got right is"
        " not in here."
    )
    mark = Mark.resting(min(attack.accuracy.n for attack in attacks), why, nouns)
    met = duels(attacks)
    bound = None if audit is None else audit.divergence
    chart = charts.draw_attacks(met, found.guess) if met else None
    values = {
        "chart": chart,
        "key": None if chart is None else chart.legend,
        "divergence": None if bound is None else words.divergence_in_words(bound, nouns),
        "training": None if audit is None else training_in_words(audit.attacks, nouns.rows),
        "missing": None if audit is None else audit.attacks.fixed_missing,
        "rows": _ordered(attacks),
        "learnt": _SOURCES,
        "targets": _SOURCES,
    }
    body = fill(_TEMPLATE, "attacks", attacks=values, nouns=nouns, secret=plain(found.secret))
    figures = {} if chart is None else {"attacks.svg": partial(stand_alone, [chart])}
    return [Section("attacks", "Attacks", body, mark, figures)]


def _ordered(attacks: Sequence[Attack]) -> list[Attack]:
    roles = [("release", "release"), ("clean", "release"), ("clean", "clean")]
    place = {role: rank for rank, role in enumerate(roles)}
    return sorted(
        attacks,
        key=lambda a: (place.get((a.trained_on, a.target), len(roles)), -a.information.value),
    )


def _change(found: Findings) -> list[Section]:
    audit = found.audit
    nouns = found.nouns
    if audit is None or not (audit.change or audit.change_missing or audit.utility):
        return []
    mark = _mark_of_change(audit, nouns)
    change = audit.change
    utility = audit.utility
    touched = (
        []
        if change is None
        else sorted((c for c in change.columns if c.share > 0), key=lambda c: -c.share)
    )
    values = {
        "words": words.change_in_words(audit, nouns),
        "columns": touched[:_ROWS],
        "untouched": 0 if change is None else len(change.columns) - len(touched),
        "more": max(0, len(touched) - _ROWS),
        "predictions": [] if utility is None else [*utility.release, *utility.clean, utility.guess],
        "score": "AUC" if utility is None or utility.kind == "classes" else "R²",
        "dropped": [] if utility is None else [plain(name) for name in utility.dropped],
        "learnt": _SOURCES,
    }
    body = fill(_TEMPLATE, "change", change=values, nouns=nouns)
    title = "What changed, and what it is still good for"
    return [Section("change", title, body, mark, link="What changed")]


def _mark_of_change(audit: AuditReport, nouns: Nouns) -> Mark:
    """What the figures about change rest on, and those about the utility, each by itself."""
    parts = []
    rows = []
    if audit.change is not None:
        by_column = " by column" if nouns.named else ""
        parts.append(
            f"shares and averages{by_column} over {audit.change.rows:,} audited {nouns.rows}"
        )
        rows.append(audit.change.rows)
    if audit.utility is not None:
        tested = audit.utility.best.score.n
        parts.append(f"predictions of the utility over {tested:,} {nouns.rows} to test on")
        rows.append(tested)
    shown = "cell" if nouns.named else nouns.unit
    why = f"{'; '.join(parts) or 'why nothing was compared'}; no {shown} is shown."
    return Mark.resting(
        min(rows, default=audit.attacks.headline.accuracy.n), why[0].upper() + why[1:], nouns
    )


def _card(found: Findings, kind: Modality) -> list[Section]:
    card = found.card
    nouns = found.nouns
    if card is None:
        return []
    rests = [card.rows, *(attack.accuracy.n for attack in card.attacks)]
    rests += [] if card.leakage is None else [card.leakage.n]
    why = "Made to travel with the release: no value, no label, neither key nor seed."
    # The card counts what was hidden, the audit what came to differ: two shares side by side would
    # only confuse.
    measured = found.audit is not None and found.audit.change is not None
    view = view_card(card, nouns, kind.count_hidden(card), with_change=not measured)
    body = fill(_TEMPLATE, "card", card=view)
    return [Section("card", "Release card", body, Mark.resting(min(rests), why, nouns))]


def _reading(kind: Modality) -> Section:
    body = fill(_TEMPLATE, "reading", nouns=kind.nouns, safe=kind.publishable)
    return Section("reading", "How to read this", body, Mark(True, "Explanations only."))
