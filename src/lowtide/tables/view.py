"""What a report shows of tables only: which columns give the secret away."""

from collections.abc import Sequence
from functools import partial

from markupsafe import Markup

from lowtide.disclose.card import ReleaseCard
from lowtide.formatting import interval, number, plain
from lowtide.interface import Estimate
from lowtide.report.html import FEWEST, Findings, Mark, Outline, Section, fill
from lowtide.report.svg import Across, Chart, fitted, grid, stand_alone, whisker
from lowtide.report.words import leaks_in_words
from lowtide.tables.hider import TableHider
from lowtide.tables.policies import FixedColumns
from lowtide.tables.scan import FeatureLeak, TableScan

PUBLISHABLE = (
    f"Averages over at least {FEWEST} rows and names of columns, no value and no label. Where a"
    " name is itself content (a word out of somebody's text), look at it before you publish it."
)
_BARS = 30  # features that are drawn
_ROWS = 60  # of a table; who wants more takes the JSON
_ROW = 48  # pixels of a feature in a chart
_HATCH = Markup(
    '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><rect class="hatch-back" width="5" height="5"/><line'
    ' class="hatch-line" x1="1" y1="0" x2="1" y2="5"/></pattern></defs>'
)


def draw_leaks(leaks: Sequence[FeatureLeak]) -> Chart:
    """Bars of what each feature tells, in bits with intervals: its order-free share; below it, what
    it adds in order.

    Args:
        leaks: the features, from top to bottom; at least one.
    """
    leakage = [estimate.bits for leak in leaks for estimate in (leak.order_free, leak.in_order)]
    axis = Across(min(0.0, *(e.low for e in leakage)), max(1e-3, *(e.high for e in leakage)))
    height = _ROW * len(leaks)
    zero = axis.pc(0.0)
    parts = [
        _HATCH,
        grid(axis, height, label=lambda tick: f"{tick:g}", unit="bits"),
        Markup('<line class="axis" x1="{0}" x2="{0}" y1="0" y2="{1}"/>').format(zero, height + 2),
    ]
    parts += [_leak(axis, leak, _ROW * place) for place, leak in enumerate(leaks)]
    best = f"{plain(leaks[0].name)}, has {interval(leaks[0].order_free.bits, 3)} bits"
    title = "What each feature tells about the secret, in bits"
    said = f"{len(leaks)} features, ranked. The first, {best}."
    series = (
        ("free", "order-free share"),
        ("order", "added to the columns before it"),
        ("whisker", "its interval"),
    )
    return Chart("leaks", title, said, height + 40, Markup("\n").join(parts), series)


def sections(found: Findings) -> list[Section]:
    """The leaking columns, where there is a scan; what became of columns that were merged."""
    scan = found.scan
    nouns = found.nouns
    if not isinstance(scan, TableScan):
        return _merged(found)
    why = (
        f"Names which {nouns.columns} go with the secret, as averages over {{n}} held-out"
        f" {nouns.rows}"
    )
    mark = Mark.resting(
        scan.information.n, f"{why}; no {nouns.row}, no {nouns.unit}, no label.", nouns
    )
    ranked = scan.ranked()
    chart = draw_leaks(ranked[:_BARS]) if ranked else None
    rest = ranked[_BARS:]
    values = {
        "words": leaks_in_words(found, [leak.name for leak in scan.features]),
        "chart": chart,
        "key": None if chart is None else chart.legend,
        "rest": _rest_in_words(rest) if rest else "",
        "rows": ranked[:_ROWS],
    }
    body = fill("tables/sections.html.jinja", "leaks", leaks=values, secret=plain(found.secret))
    figures = {} if chart is None else {"leaks.svg": partial(stand_alone, [chart])}
    return [Section("leaks", "What leaks", body, mark, figures), *_merged(found)]


def released_as(card: ReleaseCard) -> dict[str, str]:
    """What becomes of each column that was judged, in words, where it is the same for everybody."""
    words = {feature.name: "redacted" for feature in card.features if feature.hidden == 1}
    return {
        one.name: words.get(one.name, card.merged.get(one.name, "as it is"))
        for one in card.features
    }


def _merged(found: Findings) -> list[Section]:
    """What became of each column, where some were made coarser."""
    card = found.card
    nouns = found.nouns
    if card is None or not card.merged:
        return []
    rows = [(plain(name, 80), plain(shown, 400)) for name, shown in released_as(card).items()]
    body = fill("tables/sections.html.jinja", "merged", rows=rows)
    why = "Labels that the release itself shows; none names a value that few rows have."
    return [
        Section("merged", "What became of each column", body, Mark.resting(card.rows, why, nouns))
    ]


def outline(hider: TableHider) -> Outline:
    """What a report shows of a plan for a table."""
    policy = hider.policy
    budget = str(hider.card.parameters.get("budget") or "")
    if not isinstance(policy, FixedColumns):
        return Outline(budget=budget)
    return Outline(hider.mechanism.features.names, policy.curve, policy.hidden, budget)


def _rest_in_words(rest: Sequence[FeatureLeak]) -> str:
    """What the features below the chart add up to."""
    free = sum(leak.order_free.bits.value for leak in rest)
    order = sum(leak.in_order.bits.value for leak in rest)
    most = max(leak.order_free.bits.high for leak in rest)
    return (
        f"The other {len(rest)} features add up to about {number(free, 3)} bits order-free and"
        f" {number(order, 3)} in order; none of them has more than {number(most, 3)}."
    )


def _leak(axis: Across, leak: FeatureLeak, top: float) -> Markup:
    free = leak.order_free.bits
    order = leak.in_order.bits
    words = (
        f"{plain(leak.name)}: order-free {interval(free, 3)} bits, in order {interval(order, 3)}"
        " bits"
    )
    return Markup(
        '<g><title>{0}</title><text class="name" x="0" y="{1}">{2}</text>'
        '<text class="value" x="100%" y="{1}" text-anchor="end">{3}</text>{4}{5}</g>'
    ).format(
        words,
        top + 14,
        fitted(leak.name),
        number(free.value, 3),
        _bar(axis, free, top + 20, "free"),
        _bar(axis, order, top + 32, "order"),
    )


def _bar(axis: Across, leakage: Estimate, top: float, kind: str) -> Markup:
    start, end = sorted((axis.at(0.0), axis.at(leakage.value)))
    bar = Markup('<rect class="bar {}" x="{:.2f}%" y="{}" width="{:.2f}%" height="9"/>')
    return bar.format(kind, start, top, end - start) + whisker(axis, leakage, top + 4.5)
