"""The report: one HTML file that needs nothing else, for a phone, a desk, a printer and any eyes.

Of a table it holds averages and names of columns: no value of the data and no label of the secret reaches the page,
since nothing here reads one. Of images it holds averages over them, one of which is an image; and single images only
where `ImageMaps.samples` has some, in a section and a file of their own that are marked not safe to publish. Of texts
it counts words; words, labels and single texts stand in two sections and a figure of their own, marked the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from lowtide.disclose.budget import Reading
from lowtide.files import write_whole
from lowtide.images.maps import FEWEST_IMAGES, ImageMaps
from lowtide.images.view import UNSAFE, draw_images, view_maps, view_samples
from lowtide.interface import Attack
from lowtide.report import charts, words
from lowtide.report.card_view import view_card
from lowtide.report.contents import FEWEST, Report, marks
from lowtide.report.figures import plot_attacks, plot_leaks, plot_tradeoff
from lowtide.report.views import (
    TEXTS,
    Tradeoff,
    duels,
    interval,
    number,
    percent,
    percents,
    plain,
    read_budget,
    shown,
    tradeoff,
)
from lowtide.tables.scan import TableScan
from lowtide.texts.lists import MarkedText, TermLists, ToldTerm
from lowtide.texts.view import draw_term_files, view_marked, view_words

__all__ = ["ImageMaps", "MarkedText", "Report", "TermLists", "ToldTerm", "render", "write_report"]
_BARS = 30  # features that are drawn
_ROWS = 60  # of a table; who wants more takes the JSON
_LEARNT = {"release": "the release", "clean": "clean data", "nothing": "nothing"}
_TARGETS = {"release": "the release", "clean": "clean data"}


def write_report(report: Report, path: Path, *, figures: Path | None = None) -> list[Path]:
    """Write a report as one HTML file, and its charts as files where asked for.

    Args:
        report: what to tell.
        path: the HTML file; it appears whole or not at all.
        figures: a folder for `leaks`, `tradeoff` and `attacks`, each as PNG and SVG where there is data, and of images
            for `map.png` in place of `leaks`, `hidden.png` and `samples.png`, of texts for `terms`; made when it does
            not exist.

    Returns:
        The files that were written, the page first.
    """
    written = [write_whole(Path(path), render(report))]
    return written if figures is None else written + _draw_files(report, Path(figures))


def render(report: Report) -> str:
    """The page as text."""
    environment = Environment(
        loader=PackageLoader("lowtide", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": plain, "number": number, "interval": interval, "set": _set}
    environment.filters |= {"percent": percent, "percents": percents, "shown": shown}
    style = resources.files("lowtide.report").joinpath("style.css").read_text("utf-8")
    page = environment.get_template("page.html.jinja")
    return page.render(style=Markup(style), **_contents(report))  # noqa: S704 - our own file


def _set(text: str) -> Markup:
    """Set a sentence in type: a number stays with its percent sign, and γ and ε stand where they belong."""
    page = str(escape(text)).replace(" %", "\u00a0%").replace("E_γ", "E<sub>γ</sub>").replace("e^ε", "e<sup>ε</sup>")
    return Markup(page)  # noqa: S704 - escaped above


def _contents(report: Report) -> dict[str, Any]:
    found = marks(report)
    sections = {
        "leaks": _leaks,
        "maps": _maps,
        "words": view_words,
        "tradeoff": _tradeoff,
        "attacks": _attacks,
        "change": _change,
        "samples": _samples,
        "marked": view_marked,
        "card": lambda _: {"view": None if report.card is None else view_card(report.card, report.nouns)},
    }
    return {
        "title": plain(report.title),
        "secret": plain(report.secret),
        "headline": words.headline(report),
        "numbers": words.three_numbers(report),
        "marks": found,
        "inside": [name for name, mark in found.items() if not mark.safe and name != "headline"],
        "fewest": FEWEST,
        "fewest_images": f"{FEWEST_IMAGES:,}",
        "unsafe": UNSAFE,
        "of_texts": report.nouns is TEXTS,
        "nouns": report.nouns,
        **{name: make(report) if name in found else None for name, make in sections.items()},
    }


def _leaks(report: Report) -> dict[str, Any]:
    if not isinstance(report.scan, TableScan) or not report.nouns.named:
        return {"words": words.leaks_in_words(report), "chart": "", "rest": "", "rows": []}
    ranked = report.scan.ranked()
    rest = ranked[_BARS:]
    return {
        "words": words.leaks_in_words(report),
        "chart": charts.draw_leaks(ranked[:_BARS]) if ranked else Markup(""),
        "key": charts.key(
            [("free", "order-free share"), ("order", "added to the columns before it"), ("whisker", "its interval")]
        ),
        "rest": words.rest_in_words(rest) if rest else "",
        "rows": ranked[:_ROWS],
    }


def _maps(report: Report) -> dict[str, Any]:
    told = report.scan is not None or (report.images is not None and report.images.told is not None)
    title = "What leaks" if report.mask is None else "What leaks, and what is hidden" if told else "What is hidden"
    return {"title": title, "words": words.leaks_in_words(report), "shown": view_maps(report)}


def _samples(report: Report) -> dict[str, Any] | None:
    if report.images is None:
        return None
    rows = view_samples(report.images)
    return {"rows": rows, "columns": max(len(images) for _, images in rows)}


def _tradeoff(report: Report) -> dict[str, Any]:
    budget, curve = read_budget(report.budget), _curve(report)
    series = [("curve", "estimate"), ("band", "its interval")]
    series += [("budget", "budget")] if curve.limit is not None else []
    series += [("chosen", "chosen, as checked afresh")] if curve.chosen is not None else []
    every = max(1, -(-len(report.curve) // _ROWS))
    return {
        "chart": charts.draw_tradeoff(curve),
        "key": charts.key(series),
        "unit": curve.unit,
        "budget": str(budget) if budget else plain(report.budget),
        "chosen": curve.chosen,
        "hidden": [plain(name) for name in report.hidden[:_ROWS]] if report.nouns.named else [],
        "more": max(0, len(report.hidden) - _ROWS),
        "features": len(report.features),
        "count": len(report.hidden),
        "is_chosen": report.chosen is not None,
        "rows": sorted(report.curve, key=lambda point: -point.kept)[::every],
        "points": len(report.curve),
    }


def _curve(report: Report) -> Tradeoff:
    strongest, told = report.strongest, report.leakage
    check = Reading(told, strongest.accuracy) if told is not None and strongest is not None else None
    return tradeoff(report.curve, chosen=report.chosen, budget=read_budget(report.budget), check=check)


def _attacks(report: Report) -> dict[str, Any]:
    found, bound = duels(report.attacks), None if report.audit is None else report.audit.divergence
    return {
        "chart": charts.draw_attacks(found, report.guess) if found else Markup(""),
        "key": charts.attack_key(found),
        "divergence": None if bound is None else words.divergence_in_words(bound, report.nouns),
        "missing": None if report.audit is None else report.audit.attacks.fixed_missing,
        "rows": _ordered(report.attacks),
        "learnt": _LEARNT,
        "targets": _TARGETS,
    }


def _ordered(attacks: Sequence[Attack]) -> list[Attack]:
    roles = [("release", "release"), ("clean", "release"), ("clean", "clean")]
    place = {role: rank for rank, role in enumerate(roles)}
    return sorted(attacks, key=lambda a: (place.get((a.trained_on, a.target), len(roles)), -a.information.value))


def _change(report: Report) -> dict[str, Any] | None:
    if report.audit is None:
        return None
    change, utility = report.audit.change, report.audit.utility
    touched = [] if change is None else sorted((c for c in change.columns if c.share > 0), key=lambda c: -c.share)
    return {
        "words": words.change_in_words(report.audit, report.nouns),
        "columns": touched[:_ROWS],
        "apart": _counted_apart(report),
        "untouched": 0 if change is None else len(change.columns) - len(touched),
        "more": max(0, len(touched) - _ROWS),
        "predictions": [] if utility is None else [*utility.release, *utility.clean, utility.guess],
        "score": "AUC" if utility is None or utility.kind == "classes" else "R²",
        "dropped": [] if utility is None else [plain(name) for name in utility.dropped],
        "learnt": _LEARNT,
    }


def _counted_apart(report: Report) -> bool:
    """Whether the card counts changes otherwise than the audit does, so that a reader would wonder."""
    if report.card is None or report.audit is None or report.audit.change is None:
        return False
    return abs(report.card.changed - report.audit.change.share) > 0.005


def _draw_files(report: Report, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written = draw_images(report, folder) + draw_term_files(report, folder)
    for kind in ("png", "svg"):
        if isinstance(report.scan, TableScan) and report.scan.features and report.nouns.named:
            path = folder / f"leaks.{kind}"
            plot_leaks(report.scan.ranked()[:_BARS], path, title=plain(report.title))
            written.append(path)
        if report.curve:
            path = folder / f"tradeoff.{kind}"
            plot_tradeoff(_curve(report), path, title=plain(report.title))
            written.append(path)
        found = duels(report.attacks)
        if found:
            path = folder / f"attacks.{kind}"
            plot_attacks(found, report.guess, path, title=plain(report.title))
            written.append(path)
    return written
