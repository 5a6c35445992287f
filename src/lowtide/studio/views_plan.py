"""A plan as the page shows it: the trade-off to drag along, in words at every point, and some
samples before and after.

Each point says what a plan there would be asked for (`ask`), so that the page need not know how
kinds of data differ.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lowtide.disclose.plan_file import Plan
from lowtide.formatting import listed, percent, percentages, plain
from lowtide.images.mechanism import FixedPatches
from lowtide.images.redrawing import RedrawRegion
from lowtide.interface import Estimate
from lowtide.protocols import Nouns
from lowtide.report.charts import Spot, Tradeoff, draw_tradeoff, read_budget
from lowtide.report.html import Findings, Outline
from lowtide.studio.views import Json, card_of, chart_of, head, names_of, table_of
from lowtide.studio.views_samples import sample_of
from lowtide.tables.hider import TableHider
from lowtide.tables.redraw_policy import RedrawPoint, RedrawPolicy
from lowtide.tables.redraw_view import RedrawView, draw_readings
from lowtide.texts.redraw_policy import RedrawWords

_POINTS = 40  # of a curve: a hand cannot aim at more
_NAMED = 8


def view_plan(made: Plan, request: Mapping[str, Any]) -> Json:
    """The three numbers of the rehearsal, the trade-off, what becomes of each feature, and a
    sample.
    """
    writer: Any = made.writer
    outline = made.modality.outline(made.hider)
    found = Findings(made.secret, made.modality.nouns, plan=outline, card=made.card)
    view = made.view
    card = made.card
    return {
        **head(found, writer.title),
        "policy": card.policy,
        "mechanism": card.mechanism,
        "budget": str(card.parameters.get("budget") or ""),
        "standing": None if card.standing is None else str(card.standing),
        "attack": _before_and_after(found, outline),
        "curve": curve_of(made, outline, found.nouns),
        "dial": dial_of(made, request),
        "features": _features(made),
        "private": view.private,
        "tables": [table_of(one) for one in view.tables],
        "lines": [plain(line, 2000) for line in view.lines],
        "card": card_of(found, made.modality),
        "sample": sample_of(made, writer.data),
        "takes_ids": isinstance(made.hider, TableHider) and made.hider.draws,
    }


def _before_and_after(found: Findings, outline: Outline) -> Json | None:
    """How often the strongest attacker is right on the rehearsed release, and blindly; and on the
    data as it is.

    The last is of the attackers that planned, where the curve reaches so far: a card has no attack
    on clean data.
    """
    card = found.card
    if card is None or card.strongest is None:
        return None
    raw = [point.reading.accuracy.value for point in outline.curve if not np.any(point.hidden)]
    before = max(raw) if raw else None
    blind = found.guess.value if found.guess else card.largest_class
    return {"after": card.strongest.accuracy.value, "before": before, "blind": blind}


def _features(made: Plan) -> list[Json]:
    """What becomes of each feature by name, where names say something and are few enough to be
    locked by hand.
    """
    card = made.card
    nouns = made.modality.nouns
    if not nouns.named:
        return []
    shown = {name: plain(labels, 200) for name, labels in card.merged.items()}
    return [
        {"name": one.name, "hidden": one.hidden, "merged": shown.get(one.name)}
        for one in sorted(card.features, key=lambda one: -one.hidden)
    ]


def curve_of(made: Plan, outline: Outline, nouns: Nouns) -> Json | None:
    """The trade-off as a chart whose points the page finds by the class `mark`, in the order of
    `points`.
    """
    policy = made.hider.policy
    if isinstance(policy, RedrawPolicy):
        return _redraw_curve(made, RedrawView.of(policy, made.card), nouns)
    points = thinned(list(outline.curve))
    if not points:
        return None
    chosen = _chosen(outline, points)
    budget = read_budget(outline.budget)
    limit = budget.limit if budget is not None and budget.unit == "accuracy" else None
    spots = tuple(Spot(point.kept, point.reading.accuracy) for point in points)
    chart = draw_tradeoff(Tradeoff(spots, "accuracy", limit, None))
    asked = _asked(made, points)
    blind = made.card.largest_class
    raw = points[-1].reading.accuracy
    return {
        "chart": chart_of(chart),
        "mark": "spot",
        "across": f"share of {nouns.worth} that is kept",
        "chosen": chosen,
        "points": [
            {
                "kept": point.kept,
                "right": point.reading.accuracy.value,
                "ask": ask,
                "words": [
                    _guesses(made.secret, point.reading.accuracy, raw, blind),
                    _hides(point, outline, nouns),
                ],
                "hidden": names_of(_hidden(point, outline)) if nouns.named else [],
                "masked": (
                    np.flatnonzero(point.hidden).tolist()
                    if isinstance(policy, FixedPatches)
                    else []
                ),
            }
            for point, ask in zip(points, asked, strict=True)
        ],
    }


def thinned(curve: Sequence[Any]) -> list[Any]:
    """Evenly many points of a long curve with both ends, from the least kept to the most; one for
    each share.
    """
    by_share = {
        round(point.kept, 6): point
        for point in sorted(curve, key=lambda one: -one.reading.accuracy.value)
    }
    points = [by_share[share] for share in sorted(by_share)]
    if len(points) <= _POINTS:
        return points
    return [points[round(k * (len(points) - 1) / (_POINTS - 1))] for k in range(_POINTS)]


def _chosen(outline: Outline, points: Sequence[Any]) -> int | None:
    """The point nearest to what the plan hides."""
    if outline.chosen is None:
        return None
    apart = [int(np.count_nonzero(np.asarray(point.hidden) != outline.chosen)) for point in points]
    return int(np.argmin(apart))


def _asked(made: Plan, points: Sequence[Any]) -> list[Json]:
    """What plans at these points are asked for: a share to keep, or what the release may tell where
    values are merged.

    Readings of a curve go up and down by chance. A budget is the largest reading up to its point,
    so that who keeps more is never asked to tell less.
    """
    if made.card.mechanism != "merge":
        return [
            {"kept": round(point.kept, 6)} if point.kept > 0 else {"budget": 0.0}
            for point in points
        ]
    told = np.maximum.accumulate([max(0.0, point.reading.leakage.value) for point in points])
    return [{"budget": round(float(nats), 6)} for nats in told]


def _hidden(point: Any, outline: Outline) -> list[str]:
    return [name for name, gone in zip(outline.features, point.hidden, strict=True) if gone]


def _guesses(secret: str, here: Estimate, raw: Estimate, blind: float) -> str:
    """The consequence in words."""
    now, before, without = percentages(here.value, raw.value, blind)
    name = plain(secret, 60)
    if here is raw or now == before:
        return (
            f"An attacker guesses {name} right {now} of the time, as from the data as it is;"
            f" blindly {without}."
        )
    return (
        f"An attacker guesses {name} right {now} of the time instead of {before}; blindly it is"
        f" {without}."
    )


def _hides(point: Any, outline: Outline, nouns: Nouns) -> str:
    count = int(np.count_nonzero(point.hidden))
    total = len(outline.features)
    if not count:
        return f"None of {total:,} {nouns.counted} is hidden."
    named = (
        f" ({listed([plain(name, 40) for name in _hidden(point, outline)], _NAMED)})"
        if nouns.named
        else ""
    )
    verb = "is" if count == 1 else "are"
    return (
        f"{count:,} of {total:,} {nouns.counted} {verb} hidden{named}, and {percent(point.kept)} of"
        f" {nouns.worth} kept."
    )


def _redraw_curve(made: Plan, view: RedrawView, nouns: Nouns) -> Json | None:
    """Budgets of redraw, from the smallest to the data as it is, read by fresh trees."""
    if not view.curve:
        return None
    return {
        "chart": chart_of(draw_readings(view)),
        "mark": "retrained",
        "across": "budget, nats that a row may tell",
        "chosen": next((k for k, point in enumerate(view.curve) if view.is_chosen(point)), None),
        "points": [
            {
                "kept": 1 - point.changed,
                "right": point.read.value,
                "ask": None if point.budget is None else {"budget": point.budget},
                "words": _redrawn_words(made.secret, point, view, nouns),
                "shares": [
                    [plain(name, 80), percent(share)]
                    for name, share in zip(view.names, point.columns, strict=True)
                ],
                "hidden": [],
                "masked": [],
            }
            for point in view.curve
        ],
    }


def _redrawn_words(secret: str, point: RedrawPoint, view: RedrawView, nouns: Nouns) -> list[str]:
    raw = view.curve[-1].read
    here, before = percentages(point.read.value, raw.value)
    instead = "" if point.read is raw else f" instead of {before}"
    said = (
        f"Of two {nouns.rows} that differ in {plain(secret, 60)}, boosted trees tell which is which"
        f" {here} of the time{instead}; blindly it is 50 %. Measured on {point.read.n:,} reference"
        f" {nouns.rows}."
    )
    if point.budget is None:
        return [said, "This is the data as it is: nothing is drawn anew."]
    rows = view.rows if view.is_chosen(point) else point.read.n
    changed = percent(point.changed)
    if view.rounded:
        how = "drawn anew or rounded" if view.is_chosen(point) else "drawn anew, beside rounding"
    else:
        how = "drawn anew"
    return [
        said,
        (
            f"{changed} of the values are {how}, on {rows:,} reference {nouns.rows}; the file does"
            " not mark which."
        ),
    ]


def dial_of(made: Plan, request: Mapping[str, Any]) -> Json | None:
    """What to turn where there is no curve: the option, its range, and where it stands."""
    policy = made.hider.policy
    options = dict(request.get("options") or {})
    if isinstance(policy, RedrawRegion):
        at = float(options.get("region", policy.region.share))
        label = "Size of the region that is drawn anew, as a share of the image"
        return {
            "option": "region",
            "low": 0.1,
            "high": 0.8,
            "step": 0.05,
            "at": at,
            "private": "high",
            "label": label,
        }
    if isinstance(policy, RedrawWords):
        at = float(request.get("kept") or round(1 - made.card.changed, 2))
        label = "Share of the words that stays as it is, at least"
        return {
            "option": "kept",
            "low": 0.4,
            "high": 0.98,
            "step": 0.02,
            "at": at,
            "private": "low",
            "label": label,
        }
    return None
