"""What the page shows of a finished job, as plain JSON: the report's own charts and sentences.

A job's process calls `make_view` at its end, so that the server loads neither the data nor what
computes with it. Nothing is computed here that a verb has not found; single rows, images and texts
are for the owner of the data, who sees them on their own machine, and are in no file to publish.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lowtide.auditing.measures import measures_table
from lowtide.auditing.report import HEADER, AuditReport
from lowtide.disclose.plan_file import Plan, Release
from lowtide.formatting import plain
from lowtide.interface import TextTable
from lowtide.protocols import Nouns
from lowtide.report import words
from lowtide.report.charts import draw_attacks, duels
from lowtide.report.exposure import draw_leakage
from lowtide.report.html import Findings
from lowtide.report.learning import draw_learning
from lowtide.report.svg import Chart

Json = dict[str, Any]
_ROWS = 200  # of a table on the page; the files hold the rest


def view_of(
    verb: str,
    kind: str,
    result: Any,
    *,
    source: Path,
    request: Mapping[str, Any],
    folder: Path,
    notes: Sequence[str],
) -> Json:
    """What the page shows of a result.

    Args:
        verb: what the job did.
        kind: the kind of data.
        result: what the verb returned: a scan, a `Plan`, a `Release` or an `AuditReport`.
        source: the data that the job read, as it is before anything is hidden.
        request: what was asked for.
        folder: what the job has written, by the names that downloads have.
        notes: what a person should know beside the result.
    """
    from lowtide.studio.views_plan import view_plan  # they use the helpers below
    from lowtide.studio.views_samples import view_release
    from lowtide.studio.views_scan import view_scan

    if isinstance(result, Plan):
        view = view_plan(result, request)
    elif isinstance(result, Release):
        view = view_release(result, kind, source)
    elif isinstance(result, AuditReport):
        view = view_audit(result)
    else:
        view = view_scan(result)
    return {"verb": verb, "kind": kind, **view, "said": [plain(note, 1000) for note in notes]}


def view_audit(found: AuditReport) -> Json:
    """The verdict, attackers before and after, and who is exposed."""
    writer: Any = found.writer
    known = Findings(found.secret, writer.modality.nouns, audit=found, card=writer.card)
    nouns = known.nouns
    charts = [draw_attacks(met, known.guess)] if (met := duels(known.attacks)) else []
    charts += [draw_leakage(found.exposure)] if found.exposure.curve else []
    charts += (
        [draw_learning(found.attacks.curve, nouns.rows)] if found.attacks.curve is not None else []
    )
    tables = [TextTable("All attacks", HEADER, tuple(found.table()))]
    if found.measures:
        tables.append(measures_table(found.measures, found.exposure.attacker))
    return {
        **head(known, writer.title),
        "charts": [chart_of(one) for one in charts],
        "exposed": table_of(found.exposure.table(plain(found.secret), nouns.rows)),
        "exposed_rows": found.exposure.private["rows"],
        "change": words.change_in_words(found, nouns),
        "added": None if found.added is None else found.added.sentence(plain(found.secret)),
        "tables": [table_of(one) for one in tables],
        "gate": None if found.gate is None else found.gate.sentence,
        "passed": None if found.gate is None else found.gate.passed,
    }


def head(found: Findings, title: str) -> Json:
    """What every view begins with: the verdict, the three numbers, and what things are called."""
    headline = words.headline(found)
    return {
        "title": plain(title),
        "secret": plain(found.secret),
        "nouns": nouns_of(found.nouns),
        "headline": headline.sentence,
        "cautions": list(headline.cautions),
        "notes": list(headline.notes),
        "numbers": [asdict(figure) for figure in words.three_numbers(found)],
    }


def card_of(found: Findings, kind: Any) -> Json | None:
    """A release card as facts, and what holds and what does not."""
    if found.card is None:
        return None
    view = words.view_card(found.card, found.nouns, kind.count_hidden(found.card))
    return {
        "facts": [list(pair) for pair in view.facts],
        "holds": list(view.holds),
        "open": list(view.open),
        "footer": view.footer,
    }


def nouns_of(nouns: Nouns) -> Json:
    """What the kind of data calls its things."""
    return {
        "row": nouns.row,
        "rows": nouns.rows,
        "feature": nouns.feature,
        "features": nouns.features,
    }


def chart_of(chart: Chart) -> Json:
    """A chart as SVG, with its key and the same in words; the page draws it only after looking at
    every element.
    """
    return {
        "name": chart.name,
        "title": chart.title,
        "description": chart.description,
        "heading": chart.heading,
        "svg": str(chart),
        "key": str(chart.legend) if chart.key else "",
    }


def table_of(table: TextTable) -> Json:
    """A small table: title, names of its columns, rows as texts, and a note; a long one is cut."""
    rows = [[str(cell) for cell in row] for row in table.rows[:_ROWS]]
    more = max(0, len(table.rows) - _ROWS)
    return {
        "title": table.title,
        "header": list(table.header),
        "rows": rows,
        "note": table.note,
        "more": more,
    }


def names_of(entries: Iterable[str], most: int = _ROWS) -> list[str]:
    """Names of others on one line each, not endlessly many."""
    return [plain(name, 120) for name in list(entries)[:most]]


def cells_of(rows: Sequence[Sequence[Any]]) -> list[list[str | None]]:
    """Cells of a table as texts; `None` where there is no value."""
    return [[None if cell is None else plain(str(cell), 80) for cell in row] for row in rows]
