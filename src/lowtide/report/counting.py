"""The sections about what holds against every attacker: the bound from counts, and the cells it is
counted from.
"""

from dataclasses import replace
from functools import partial
from itertools import pairwise

from markupsafe import Markup

from lowtide.auditing.counting import CountedRelease
from lowtide.formatting import nats_up, percent_up, plain
from lowtide.report.html import Findings, Mark, Section, fill
from lowtide.report.svg import Across, Chart, Down, anchor, level_lines, stand_alone, symbol, tick

_FEWEST_ALIKE = (
    10  # rows of the rarest cell before its measures leave the house, as statistical offices ask
)


def counted(found: Findings) -> list[Section]:
    """The bound with its learning curve, and the measures of disclosure control; nothing where
    nothing was counted.
    """
    held = None if found.audit is None else found.audit.counted
    if held is None:
        return []
    secret = plain(found.secret)
    nouns = found.nouns
    held = replace(held, nouns=nouns)
    chart = draw_curve(held)
    values = {
        "chart": chart,
        "lines": [line for line in _said(held, secret) if line],
        "cells": held.cells_in_words(),
        "rows": [
            (
                f"{one.rows:,}",
                f"{one.cells:,.0f}",
                percent_up(one.found),
                percent_up(one.accuracy),
                nats_up(one.information),
            )
            for one in held.curve
        ],
        "measures": held.table(secret),
    }
    template = "report/counting.html.jinja"
    why = f"Counts over {{n}} {nouns.rows}; no {nouns.row} and no value is shown."
    bound = Section(
        "every-attacker",
        "Against every attacker",
        fill(template, "bound", counted=values, nouns=nouns, secret=secret),
        Mark.resting(held.rows, why, nouns),
        {"every-attacker.svg": partial(stand_alone, [chart])},
    )
    fewest = held.anonymity.k
    mark = Mark(
        fewest >= _FEWEST_ALIKE,
        f"The extremes of {held.cells:,} cells; the rarest holds {fewest:,} {nouns.rows}"
        + (
            "."
            if fewest >= _FEWEST_ALIKE
            else f", fewer than {_FEWEST_ALIKE}: these figures are about single people."
        ),
    )
    cells = Section(
        "cells",
        f"{nouns.rows.capitalize()} shown alike",
        fill(template, "cells", counted=values, nouns=nouns),
        mark,
    )
    return [bound, cells]


def _said(held: CountedRelease, secret: str) -> tuple[str, ...]:
    return held.sentence(secret), held.curve_in_words(secret), held.tails_in_words(secret)


def draw_curve(held: CountedRelease) -> Chart:
    """The bound on right guesses against the number of rows, doubling from left to right, above the
    blind guess.
    """
    steps = len(held.curve)
    across = Across(0.0, max(steps - 1, 1), 6.0, 94.0)
    low = min(held.blind, *(one.found for one in held.curve))
    down = Down(100 * low, 100 * max(one.accuracy for one in held.curve) + 0.1, 26, 220)
    parts = level_lines(down, " %")
    places = [(across.pc(place), one) for place, one in enumerate(held.curve)]
    parts += [
        Markup('<line class="curve" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
            x, down.at(100 * one.accuracy), following, down.at(100 * later.accuracy)
        )
        for (x, one), (following, later) in pairwise(places)
    ]
    for place, (x, one) in enumerate(places):
        parts.append(
            symbol(
                "diamond",
                x,
                down.at(100 * one.accuracy),
                kind="chosen",
                title=percent_up(one.accuracy),
            )
        )
        parts.append(
            symbol("circle", x, down.at(100 * one.found), kind="clean", title=percent_up(one.found))
        )
        parts.append(tick(x, down.bottom + 17, f"{one.rows:,}", anchor(across.at(place))))
    parts.append(tick("50%", down.bottom + 34, held.nouns.rows, "middle"))
    described = ", ".join(f"{percent_up(one.accuracy)} from {one.rows:,}" for one in held.curve)
    series = (
        ("chosen", "any attacker: at most"),
        ("clean", f"the rule that fits these {held.nouns.rows} best, on these {held.nouns.rows}"),
    )
    title = f"How the bound falls with the {held.nouns.rows}"
    drawn = Markup("\n").join(parts)
    return Chart(
        "every-attacker", title, f"At most {described}.", down.bottom + 42, drawn, series, title
    )
