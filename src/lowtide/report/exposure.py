"""The sections about what a release adds, who is exposed, and the field's measures; row numbers
have their own.
"""

from functools import partial
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from lowtide.auditing.exposure import Exposure
from lowtide.auditing.measures import measures_table
from lowtide.formatting import percents, plain
from lowtide.report.html import Findings, Mark, Section, fill
from lowtide.report.svg import Across, Chart, Down, anchor, level_lines, stand_alone, symbol, tick

_TEMPLATE = "report/exposure.html.jinja"


def exposed(found: Findings) -> list[Section]:
    """What is added, who is exposed and the measures, in the order of the page; nothing without an
    audit.
    """
    audit = found.audit
    nouns = found.nouns
    secret = plain(found.secret)
    if audit is None:
        return []
    sections = []
    exposure = audit.exposure
    why = f"Averages over {{n}} test {nouns.rows}; no {nouns.row} is shown."
    mark = Mark.resting(exposure.n, why, nouns)
    if audit.added is not None:
        body = fill(
            _TEMPLATE, "added", sentence=audit.added.sentence(secret), table_=audit.added.table()
        )
        sections.append(Section("added", "What the release adds", body, mark))
    chart = draw_leakage(exposure)
    body = fill(
        _TEMPLATE,
        "exposed",
        found=exposure.table(secret, nouns.rows),
        chart=chart,
        nouns=nouns,
        secret=secret,
    )
    figures = {"exposed.svg": partial(stand_alone, [chart])}
    sections.append(Section("exposed", "Who is exposed", body, mark, figures))
    if audit.together is not None:
        body = fill(_TEMPLATE, "lines", found=audit.together.table(secret, nouns.rows))
        rests = min((one.persons for one in audit.together.told), default=exposure.n)
        over = Mark.resting(rests, f"Averages over {{n}} persons; no {nouns.row} is shown.", nouns)
        sections.append(Section("together", f"Several {nouns.rows} of one person", body, over))
    if audit.measures:
        body = fill(_TEMPLATE, "lines", found=measures_table(audit.measures, exposure.attacker))
        sections.append(Section("measures", "Measures of leakage", body, mark))
    return sections


def by_itself(found: Findings) -> list[Section]:
    """A section for each of several secrets; all other sections are about their product."""
    nouns = found.nouns
    sections = []
    audits = () if found.audit is None else found.audit.each
    scans: tuple[Any, ...] = getattr(found.scan, "each", ())
    for number, one in enumerate(audits):
        rows = one.attacks.headline.accuracy.n
        tables = [one.attack_table("Attacks"), *one.further_tables()]
        sections.append((f"by-itself-{number}", one.secret, str(one.verdict), tables, rows))
    for number, one in enumerate(scans):
        sections.append(
            (f"scan-by-itself-{number}", one.secret, "", one.tables(), one.information.n)
        )
    why = f"Averages over {{n}} {nouns.rows}; no {nouns.row} is shown."
    return [
        Section(
            id,
            f"By itself: {plain(secret)}",
            fill(_TEMPLATE, "by_itself", sentence=plain(sentence, 4000), tables=tables),
            Mark.resting(rows, why, nouns),
        )
        for id, secret, sentence, tables, rows in sections
    ]


def exposed_rows(found: Findings) -> list[Section]:
    """Which rows tell most, by their numbers: a private section."""
    if found.audit is None:
        return []
    body = fill(_TEMPLATE, "named", exposure=found.audit.exposure, nouns=found.nouns)
    mark = Mark(False, f"Numbers of single {found.nouns.rows}: do not publish them.")
    title = f"The {found.nouns.rows} that tell most"
    return [Section("exposed-rows", title, body, mark, single=True)]


def draw_leakage(exposure: Exposure) -> Chart:
    """The share of rows above ε against ε, with its interval."""
    places = list(exposure.curve.items())
    across = Across(0.0, max(exposure.curve), 3.0, 97.0)
    down = Down(0.0, 100 * max([one.high for one in exposure.curve.values()] + [0.01]), 26, 220)
    parts = level_lines(down, " %")
    parts += [
        Markup('<line class="curve" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
            across.pc(a), down.at(100 * one.value), across.pc(b), down.at(100 * later.value)
        )
        for (a, one), (b, later) in pairwise(places)
    ]
    for epsilon, one in places:
        x = across.pc(epsilon)
        parts.append(
            Markup('<line class="whisker" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                x, down.at(100 * one.low), down.at(100 * one.high)
            )
        )
        parts.append(
            symbol("circle", x, down.at(100 * one.value), kind="clean", title=percents(one))
        )
        parts.append(tick(x, down.bottom + 17, f"{epsilon:g}", anchor(across.at(epsilon))))
    parts.append(tick("50%", down.bottom + 34, "ε, nats", "middle"))
    described = ", ".join(f"{percents(one)} above {epsilon:g}" for epsilon, one in places)
    series = (("clean", "claimed by the strongest attacker"), ("whisker", "its interval"))
    title = "How many are exposed, and how far"
    drawn = Markup("\n").join(parts)
    return Chart("exposed", title, f"{described}.", down.bottom + 42, drawn, series, title)
