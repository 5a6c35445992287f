"""A plan to redraw as a person reads it: which columns are drawn anew, and what other budgets would
cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.card_page import redraw_order, redrawn_in_words, surface_remedies
from lowtide.formatting import number, percent, plain
from lowtide.interface import Estimate, TextTable
from lowtide.report.html import Findings, Mark, Section, fill
from lowtide.report.svg import Across, Chart, Down, anchor, fitted, grid, stand_alone, symbol, ticks
from lowtide.tables.redraw_policy import RedrawPoint, RedrawPolicy

_BARS = 40  # columns that are drawn
_ROW = 34  # pixels of a column in a chart
_TEMPLATE = "tables/sections.html.jinja"
_NOTE = (
    "Budgets are nats that a row may tell for a class; --budget picks one. Divergence: what follows"
    " with exact densities, at epsilon 0, in both directions."
)


class RedrawView(NamedTuple):
    """What a report shows of a plan to redraw.

    Attributes:
        names: of the columns.
        curve: what other budgets would cost. What the chosen one changes is that of the rehearsal.
        budget: the chosen one, in nats.
        rows: of the rehearsal.
        rounded: whether columns are rounded, at every budget.
    """

    names: tuple[str, ...]
    curve: tuple[RedrawPoint, ...]
    budget: float
    rows: int
    rounded: bool

    @classmethod
    def of(cls, policy: RedrawPolicy, card: ReleaseCard) -> RedrawView:
        """That of a policy and its card."""
        names = tuple(one.name for one in policy.columns.coded)
        budget = float(card.parameters.get("row budget, nats") or 0.0)
        rounded = any(one.grain > 0 for one in policy.columns.coded)
        return cls(names, policy.curve, budget, card.rows, rounded)

    def is_chosen(self, point: RedrawPoint) -> bool:
        """Whether a point has the chosen budget."""
        return point.budget == self.budget

    def measured_on(self, rows: str) -> str:
        """Which rows the figures of the trade-off are measured on; `rows` is what they are
        called.
        """
        some = self.curve[0].read.n
        rounding = " Shares at other budgets do not count what is rounded." if self.rounded else ""
        return (
            f"Values changed at the chosen budget (*): the rehearsal on {self.rows:,} reference"
            f" {rows}. At other budgets, and AUC: {some:,} of these, drawn once more by the"
            " densities of the chosen budget and read by fresh trees, so values changed there are"
            f" approximate.{rounding}"
        )


def plan_tables(policy: RedrawPolicy, card: ReleaseCard) -> tuple[TextTable, ...]:
    """The share of rows in which each column is drawn anew, and the trade-off."""
    view = RedrawView.of(policy, card)
    ranked = sorted(zip(card.features, policy.told, strict=True), key=lambda pair: -pair[0].hidden)
    rows = tuple(
        (one.name, f"{one.hidden:.0%}", f"{told.mean:.3f} / {told.most:.2f}")
        for one, told in ranked
    )
    drawn = TextTable(
        "What is drawn anew",
        ("column", "rows changed", "known value, nats"),
        rows,
        "Known value: bounds on what somebody learns who knows this one true value of a row and"
        " sees what is released in its place, beyond what the value tells; on average / of any row"
        " looked at.",
    )
    return drawn, *_curve_tables(view)


def _curve_tables(view: RedrawView) -> tuple[TextTable, ...]:
    if not view.curve:
        return ()
    with_use = any(point.useful is not None for point in view.curve)
    head = (
        "budget",
        "values changed",
        "divergence at most",
        "attacker's AUC",
        *(["utility's AUC"] if with_use else []),
    )
    rows = []
    for point in view.curve:
        told = f"{point.read.value:.2f} [{point.read.low:.2f}, {point.read.high:.2f}]"
        row = [_budget(view, point), f"{point.changed:.1%}", divergence_in_words(point), told]
        if with_use:
            row.append("" if point.useful is None else number(point.useful.value, 2))
        rows.append(tuple(row))
    note = f"{_NOTE} {view.measured_on('rows')}"
    shares = TextTable(
        "Rows changed at each budget",
        ("column", *(_budget(view, point) for point in view.curve)),
        tuple(
            (name, *(f"{point.columns[j]:.0%}" for point in view.curve))
            for j, name in enumerate(view.names)
        ),
    )
    return TextTable("The trade-off", tuple(head), tuple(rows), note), shares


def divergence_in_words(point: RedrawPoint) -> str:
    """What follows from a budget; nothing where it limits nothing."""
    return "-" if point.divergence is None else f"{point.divergence:.3g}"


def _budget(view: RedrawView, point: RedrawPoint) -> str:
    name = "as it is" if point.budget is None else f"{point.budget:g}"
    return f"{name} *" if view.is_chosen(point) else name


def sections(found: Findings, view: RedrawView | None) -> list[Section]:
    """What was drawn anew, and what other budgets would cost, where a release was redrawn."""
    card = found.card
    nouns = found.nouns
    if card is None or card.policy != "redraw":
        return []
    why = f"Shares by column over {{n}} {nouns.rows}; no {nouns.row}, no {nouns.unit}."
    ranked = sorted(card.features, key=lambda one: -one.hidden)
    chart = draw_shares(ranked[:_BARS])
    values = {
        "words": (redrawn_in_words(card), *surface_remedies(card), redraw_order(card)),
        "chart": chart,
        "key": chart.legend,
        "rows": ranked,
        "more": max(0, len(ranked) - _BARS),
    }
    body = fill(_TEMPLATE, "redrawn", redrawn=values)
    mark = Mark.resting(card.rows, why, nouns)
    drawn = Section(
        "redrawn", "What was drawn anew", body, mark, {"redrawn.svg": partial(stand_alone, [chart])}
    )
    return [drawn] if view is None or not view.curve else [drawn, _trade_off(found, view)]


def _trade_off(found: Findings, view: RedrawView) -> Section:
    nouns = found.nouns
    curve = view.curve
    charts = (draw_changes(view), draw_readings(view))
    why = f"Averages over {{n}} reference {nouns.rows}; no {nouns.row}, no {nouns.unit}."
    values = {
        "budget": f"{view.budget:g}",
        "charts": charts,
        "points": [(_budget(view, point), point, divergence_in_words(point)) for point in curve],
        "columns": [
            (plain(name, 80), [percent(point.columns[j]) for point in curve])
            for j, name in enumerate(view.names)
        ],
        "useful": any(point.useful is not None for point in curve),
        "measured": view.measured_on(nouns.rows),
    }
    body = fill(_TEMPLATE, "budgets", budgets=values, nouns=nouns, secret=plain(found.secret))
    mark = Mark.resting(curve[0].read.n, why, nouns)
    names = ("tradeoff.svg", "readings.svg")
    figures = {
        name: partial(stand_alone, [chart]) for name, chart in zip(names, charts, strict=True)
    }
    return Section("tradeoff", "The trade-off", body, mark, figures)


def draw_shares(features: Sequence[Feature]) -> Chart:
    """Bars of the share of rows in which each column was drawn anew.

    Args:
        features: from top to bottom; at least one.
    """
    axis = Across(0.0, max(0.05, *(one.hidden for one in features)))
    height = _ROW * len(features)
    parts = [grid(axis, height, label=lambda tick: f"{100 * tick:.3g} %", unit="of the rows")]
    for place, one in enumerate(features):
        top = _ROW * place
        parts.append(
            Markup(
                '<g><text class="name" x="0" y="{0}">{1}</text>'
                '<text class="value" x="100%" y="{0}" text-anchor="end">{2}</text>'
                '<rect class="bar free" x="{3:.2f}%" y="{4}" width="{5:.2f}%" height="9"/></g>'
            ).format(
                top + 14,
                fitted(one.name),
                percent(one.hidden),
                axis.at(0.0),
                top + 19,
                axis.at(one.hidden) - axis.left,
            )
        )
    most = f"{plain(features[0].name)}: {percent(features[0].hidden)}"
    title = "Share of rows in which each column was drawn anew"
    said = f"{len(features)} columns, the most changed first, {most}."
    return Chart(
        "redrawn", title, said, height + 40, Markup("\n").join(parts), (("free", "drawn anew"),)
    )


def draw_changes(view: RedrawView) -> Chart:
    """The share of values changed against the budget, with the choice."""
    across = _places(view)
    most = max(point.changed for point in view.curve)
    down = Down(0.0, max(most, 0.01), 34, 200)
    parts = [*_frame(across, down, view, lambda level: f"{100 * level:.3g} %")]
    spots = [(across.pc(k), down.at(point.changed)) for k, point in enumerate(view.curve)]
    parts += _line(spots, "curve")
    for k, (point, (x, y)) in enumerate(zip(view.curve, spots, strict=True)):
        title = f"budget {_budget(view, point)}: {percent(point.changed)} changed"
        shape = "diamond" if view.is_chosen(point) else "circle"
        kind = "chosen" if view.is_chosen(point) else "spot"
        parts.append(symbol(shape, x, y, kind=kind, title=title))
        parts.append(
            Markup('<text class="value" x="{}" y="{}" text-anchor="{}">{}</text>').format(
                x, y - 12, anchor(across.at(k)), percent(point.changed)
            )
        )
    said = "; ".join(
        f"budget {_budget(view, point)}: {percent(point.changed)}" for point in view.curve
    )
    series = (("curve", "values changed"), ("chosen", "chosen"))
    return Chart(
        "changes",
        "Share of values changed, by budget",
        said,
        down.bottom + 44,
        _joined(parts),
        series,
    )


def draw_readings(view: RedrawView) -> Chart:
    """What fresh trees still read at each budget: the secret, and the utility where one is
    named.
    """
    series = [("retrained", "the secret, by fresh trees", [point.read for point in view.curve])]
    if all(point.useful is not None for point in view.curve):
        series.append(
            (
                "fixed",
                "the utility",
                [point.useful for point in view.curve if point.useful is not None],
            )
        )
    across = _places(view)
    down = _auc_axis([one for _, _, readings in series for one in readings])
    parts = [*_frame(across, down, view, lambda level: f"{level:.3g}")]
    for kind, label, readings in series:
        for k, reading in enumerate(readings):
            x = across.pc(k)
            low = down.at(reading.low)
            high = down.at(reading.high)
            parts.append(
                Markup(
                    '<line class="whisker {3}-line" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>'
                ).format(x, low, high, kind)
            )
            shape = "diamond" if kind == "retrained" else "triangle"
            title = f"{label}, budget {_budget(view, view.curve[k])}: {number(reading.value, 2)}"
            parts.append(symbol(shape, x, down.at(reading.value), kind=kind, title=title))
    said = "; ".join(
        f"{label}: {', '.join(number(reading.value, 2) for reading in readings)}"
        for _, label, readings in series
    )
    keys = tuple((kind, label) for kind, label, _ in series)
    title = "How well the release is read (AUC; 0.5 is guessing), by budget"
    return Chart("readings", title, said, down.bottom + 44, _joined(parts), keys)


def _auc_axis(readings: Sequence[Estimate]) -> Down:
    return Down(min(0.45, *(one.low for one in readings)), 1.0, 20, 200)


def _places(view: RedrawView) -> Across:
    """Budgets stand side by side, whatever lies between them."""
    return Across(0.0, max(1.0, len(view.curve) - 1.0), 12.0, 92.0)


def _frame(
    across: Across, down: Down, view: RedrawView, label: Callable[[float], str]
) -> list[Markup]:
    """Lines at round levels, and the budgets below."""
    parts = []
    for level in ticks(down.low, down.high, 4):
        y = down.at(level)
        parts.append(Markup('<line class="grid" x1="0" x2="100%" y1="{0}" y2="{0}"/>').format(y))
        parts.append(
            Markup('<text class="tick" x="0" y="{}">{}</text>').format(y - 4, label(level))
        )
    parts += [
        Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            across.pc(k),
            down.bottom + 18,
            "as it is" if point.budget is None else f"{point.budget:g}",
        )
        for k, point in enumerate(view.curve)
    ]
    name = Markup('<text class="tick" x="50%" y="{}" text-anchor="middle">{}</text>')
    return [*parts, name.format(down.bottom + 36, "budget, nats that a row may tell")]


def _line(spots: Sequence[tuple[str, float]], kind: str) -> list[Markup]:
    line = Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>')
    return [line.format(kind, *a, *b) for a, b in pairwise(spots)]


def _joined(parts: Sequence[Markup]) -> Markup:
    return Markup("\n").join(parts)
