"""The section about the divergence: what is estimated for several ε, what attacks prove, and what
is promised.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from markupsafe import Markup

from lowtide.attack.lower_bound import divergence_curve
from lowtide.disclose.card_page import beside_prior, upper_bound
from lowtide.disclose.certificate import rounded_up
from lowtide.formatting import number, plain
from lowtide.interface import DivergenceCurve, Estimate
from lowtide.report.html import Findings, Mark, Section, fill
from lowtide.report.svg import Across, Chart, Down, anchor, level_lines, stand_alone, symbol, tick

_SIDES = {
    "forward": "Forward: how far a class stands out from all samples",
    "reverse": "Reverse: how far all samples stand out from a class",
}


def divergence(found: Findings) -> list[Section]:
    """The section, from the audit or else from the card; nothing where neither was attacked."""
    curve = None if found.card is None else found.card.divergence
    if found.audit is not None:
        curve = divergence_curve(found.audit.attacks)
    if curve is None:
        return []
    bounds = {side: _bounds(found, side, curve) for side in _SIDES}
    drawn = [draw_divergence(curve, side, bounds[side]) for side in _SIDES]
    rows = [
        {
            "epsilon": f"{epsilon:g}",
            "sides": [
                (
                    getattr(curve, side)[k],
                    number(getattr(curve, f"{side}_proven")[k]),
                    _promised(bounds[side][k]),
                )
                for side in _SIDES
            ],
            "tail": curve.tail[k],
        }
        for k, epsilon in enumerate(curve.epsilons)
    ]
    values = {"charts": drawn, "rows": rows, "curve": curve, "beside_prior": _beside_prior(found)}
    body = fill(
        "report/sections.html.jinja",
        "divergence",
        found=values,
        nouns=found.nouns,
        secret=plain(found.secret),
    )
    why = f"Averages over {{n}} test {found.nouns.rows}; no {found.nouns.row} is shown."
    mark = Mark.resting(curve.certain.n, why, found.nouns)
    figures = {"divergence.svg": partial(stand_alone, drawn)}
    return [Section("divergence", "The divergence", body, mark, figures)]


def _beside_prior(found: Findings) -> str:
    """What the prior alone gives, where it is known."""
    if found.guess is not None:
        return beside_prior(found.guess.value)
    return "" if found.card is None else beside_prior(found.card.largest_class)


def draw_divergence(curve: DivergenceCurve, side: str, bounds: Sequence[float | None]) -> Chart:
    """One direction against ε: the estimate with its interval, what is proven from below, what is
    promised from above.

    Args:
        curve: what was measured.
        side: `forward` or `reverse`.
        bounds: what is promised at each ε; `None` where nothing is.
    """
    estimates: tuple[Estimate, ...] = getattr(curve, side)
    proven: tuple[float, ...] = getattr(curve, f"{side}_proven")
    across = Across(0.0, max(*curve.epsilons, 1e-9), 3.0, 97.0)
    down = Down(
        0.0,
        max([e.high for e in estimates] + [b for b in bounds if b is not None] + [1e-3]),
        26,
        220,
    )
    places = list(zip(curve.epsilons, estimates, proven, bounds, strict=True))
    parts = level_lines(down)
    for epsilon, estimate, least, most in places:
        x = across.pc(epsilon)
        parts.append(
            Markup('<line class="whisker" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                x, down.at(estimate.low), down.at(estimate.high)
            )
        )
        parts.append(
            symbol("circle", x, down.at(estimate.value), kind="clean", title=number(estimate.value))
        )
        parts.append(
            symbol("triangle", x, down.at(least), kind="fixed", title=f"at least {number(least)}")
        )
        if most is not None:
            parts.append(
                symbol(
                    "diamond", x, down.at(most), kind="chosen", title=f"at most {rounded_up(most)}"
                )
            )
        parts.append(tick(x, down.bottom + 17, f"{epsilon:g}", anchor(across.at(epsilon))))
    parts += [
        Markup('<line class="curve" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
            across.pc(a[0]), down.at(a[1].value), across.pc(b[0]), down.at(b[1].value)
        )
        for a, b in pairwise(places)
    ]
    parts.append(tick("50%", down.bottom + 34, "ε", "middle"))
    series = [("clean", "estimate"), ("whisker", "its interval"), ("fixed", "proven: at least")]
    series += (
        [("chosen", "promised: at most")] if any(bound is not None for bound in bounds) else []
    )
    described = ", ".join(f"{number(e.value)} at ε = {epsilon:g}" for epsilon, e, _, _ in places)
    name = f"divergence-{side}"
    title = _SIDES[side]
    drawn = Markup("\n").join(parts)
    return Chart(
        name, title, f"Estimated: {described}.", down.bottom + 42, drawn, tuple(series), title
    )


def _bounds(found: Findings, side: str, curve: DivergenceCurve) -> list[float | None]:
    if found.card is None:
        return [None] * len(curve.epsilons)
    return [upper_bound(found.card.certificate.whole, side, epsilon) for epsilon in curve.epsilons]


def _promised(bound: float | None) -> str:
    return "–" if bound is None else rounded_up(bound)
