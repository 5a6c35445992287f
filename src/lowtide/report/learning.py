"""The section about the learning curve: what an attacker reads against how many samples it learnt
from.
"""

import math
from functools import partial
from itertools import pairwise

from markupsafe import Markup

from lowtide.attack.learning_curve import LearningCurve
from lowtide.formatting import percent, plain
from lowtide.interface import Estimate
from lowtide.report.html import Findings, Mark, Section, fill
from lowtide.report.svg import Across, Chart, Down, anchor, stand_alone, symbol, ticks


def learning(found: Findings) -> list[Section]:
    """The section, where an audit has a learning curve."""
    curve = None if found.audit is None else found.audit.attacks.curve
    if curve is None:
        return []
    chart = draw_learning(curve, found.nouns.rows)
    nouns = found.nouns
    values = {"chart": chart, "curve": curve}
    body = fill(
        "report/sections.html.jinja",
        "learning",
        found=values,
        nouns=nouns,
        secret=plain(found.secret),
    )
    why = (
        f"Success rates over {{n}} test {nouns.rows}; which {nouns.row} an attacker got right is"
        " not in here."
    )
    mark = Mark.resting(curve.whole.attack.accuracy.n, why, nouns)
    figures = {"learning.svg": partial(stand_alone, [chart])}
    return [Section("learning", f"With more {nouns.rows}", body, mark, figures)]


def draw_learning(curve: LearningCurve, rows: str) -> Chart:
    """How often an attacker is right against how many samples it learnt from; extrapolated to ten
    times as many.

    Args:
        curve: what was measured.
        rows: what the samples are called.
    """
    measured = [(point.rows, point.attack.accuracy) for point in curve.points]
    places = [*measured, (curve.further, curve.accuracy)]
    # Even steps for doublings: the axis is logarithmic.
    across = Across(math.log(places[0][0]), math.log(places[-1][0]), 9.0, 93.0)
    down = Down(min(e.low for _, e in places), max(e.high for _, e in places), 26, 240)
    parts = [
        Markup(
            '<line class="grid" x1="0" x2="100%" y1="{0}" y2="{0}"/><text class="tick" x="0"'
            ' y="{1}">{2}</text>'
        ).format(down.at(level), down.at(level) - 4, f"{100 * level:.3g} %")
        for level in ticks(down.low, down.high)
    ]
    for kind, ends in (("curve", pairwise(measured)), ("budget", pairwise(places[-2:]))):
        parts += [
            Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
                kind,
                across.pc(math.log(a)),
                down.at(one.value),
                across.pc(math.log(b)),
                down.at(other.value),
            )
            for (a, one), (b, other) in ends
        ]
    parts += [
        _point(across.at(math.log(n)), down, n, e, last=n == curve.further) for n, e in places
    ]
    name = Markup('<text class="tick" x="50%" y="{}" text-anchor="middle">{} learnt from</text>')
    parts.append(name.format(down.bottom + 34, rows))
    said = ", ".join(f"{percent(e.value)} from {n:,}" for n, e in measured)
    beyond = f"{percent(curve.accuracy.value)} from {curve.further:,}"
    key = (
        ("curve", "measured"),
        ("whisker", "interval"),
        ("retrained", "extrapolated by a power law: not a bound"),
    )
    title = (
        f"How often {plain(curve.whole.attack.attacker)} is right, against how many {rows} it"
        " learnt from"
    )
    text = f"Measured: {said}. Extrapolated: {beyond}."
    return Chart("learning", title, text, down.bottom + 42, Markup("\n").join(parts), key)


def _point(place: float, down: Down, rows: int, right: Estimate, *, last: bool) -> Markup:
    x = f"{place:.2f}%"
    title = f"{percent(right.value)} from {rows:,}"
    drawn = Markup(
        '<line class="whisker" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>{3}'
        '<text class="tick" x="{0}" y="{4}" text-anchor="{5}">{6}</text>'
        '<text class="value" x="{7:.2f}%" y="{8}" text-anchor="{9}">{10}</text>'
    )
    mark = symbol(
        "diamond" if last else "circle",
        x,
        down.at(right.value),
        kind="retrained" if last else "clean",
        title=title,
    )
    return drawn.format(
        x,
        down.at(right.low),
        down.at(right.high),
        mark,
        down.bottom + 17,
        anchor(place),
        f"{rows:,}",
        place - 1.2 if last else place + 1.2,
        down.at(right.value) + (-8 if last else 16),  # below a line that rises, or above its end
        "end" if last else "start",
        percent(right.value),
    )
