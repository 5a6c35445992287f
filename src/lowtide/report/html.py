"""The report as one HTML file that needs nothing else, for a phone, a desk, a printer and any eyes.

A page shows what its sections hold, and reads no data itself. A section that must stay inside says so, as do its
figures in files.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from lowtide.files import write_whole
from lowtide.formatting import interval, number, percent, percents, plain, shown
from lowtide.report.contents import UNSAFE, Report


def write_report(report: Report, path: Path, *, figures: Path | None = None) -> list[Path]:
    """Write a report as one HTML file, and its figures as files where asked for.

    Args:
        report: what to tell.
        path: the HTML file; it appears whole or not at all.
        figures: a folder for the figures of all sections, charts as SVG and images as PNG; made when it does not
            exist.

    Returns:
        The files that were written, the page first.
    """
    written = [write_whole(Path(path), render(report))]
    if figures is None:
        return written
    Path(figures).mkdir(parents=True, exist_ok=True)
    title = plain(report.title)
    for section in report.sections:
        heading = title if section.mark.safe else f"{UNSAFE}. {title}"
        written += [write_whole(Path(figures) / name, draw(heading)) for name, draw in section.figures.items()]
    return written


def render(report: Report) -> str:
    """The page as text."""
    folder = resources.files("lowtide.report")
    style = "".join(folder.joinpath(name).read_text("utf-8") for name in ("style.css", "chart.css"))
    page = _environment().get_template("report/page.html.jinja")
    return page.render(
        style=Markup(style),  # noqa: S704 - our own files
        title=plain(report.title),
        sections=report.sections,
        inside=any(not section.mark.safe for section in report.sections[1:]),
    )


def fill(template: str, macro: str, **values: Any) -> Markup:
    """A piece of a page.

    Args:
        template: a file of the package, such as `images/sections.html.jinja`.
        macro: one of its macros.
        **values: what the macro takes.
    """
    return Markup(getattr(_environment().get_template(template).module, macro)(**values))  # noqa: S704 - escaped there


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("lowtide", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": plain, "number": number, "interval": interval, "set": _set}
    environment.filters |= {"percent": percent, "percents": percents, "shown": shown}
    environment.globals["unsafe"] = UNSAFE
    return environment


def _set(text: str) -> Markup:
    """Set a sentence in type: a number stays with its percent sign, and γ and ε stand where they belong."""
    page = str(escape(text)).replace(" %", "\u00a0%").replace("E_γ", "E<sub>γ</sub>").replace("e^ε", "e<sup>ε</sup>")
    return Markup(page)  # noqa: S704 - escaped above
