"""The report as one HTML file that needs nothing else, for a phone, a desk, a printer and any eyes.

A page shows what its sections hold, and reads no data itself. A section that must stay inside says
so, as do its figures in files.

What a report is made of: sections, who may read each of them, and the findings that they are built
from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from lowtide.auditing.report import AuditReport
from lowtide.checks import LowtideError, booleans
from lowtide.disclose.budget import Reading
from lowtide.disclose.card import ReleaseCard
from lowtide.files import PRIVATE, write_whole
from lowtide.formatting import interval, number, percent, percents, plain, shown
from lowtide.interface import Attack, Estimate
from lowtide.protocols import Nouns
from lowtide.types import Bools, Floats

# Samples that an average must rest on before it is published; statistical offices ask for 10 or
# so
FEWEST = 20
UNSAFE = "NOT SAFE TO PUBLISH"
Drawing = Callable[[str], bytes]
"""Makes the content of a figure's file from its title."""


class Scan(Protocol):
    """What a scan of any kind says, in nats."""

    @property
    def information(self) -> Estimate:
        """I(S; X) of a whole sample, held out."""
        ...

    @property
    def entropy(self) -> float:
        """H(S)."""
        ...

    @property
    def shares(self) -> Floats | None:
        """(m,) what each feature has of it order-free; `None` where that was not measured."""
        ...


class CurvePoint(Protocol):
    """One choice on a trade-off curve."""

    @property
    def hidden(self) -> Bools:
        """(m,) what it hides."""
        ...

    @property
    def kept(self) -> float:
        """The share that it keeps as it is."""
        ...

    @property
    def reading(self) -> Reading:
        """What is left for an attacker, on held-out samples."""
        ...


@dataclass(frozen=True, eq=False)
class Outline:
    """What a report shows of a plan.

    Attributes:
        features: the m names that the masks are about.
        curve: the trade-off that planning found.
        chosen: (m,) what the chosen plan hides; `None` where nothing was chosen for everybody.
        budget: what the release may tell, as it was given or as `str(Budget)` says it.
    """

    features: tuple[str, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    chosen: Bools | None = None
    budget: str = ""

    def __post_init__(self) -> None:
        for point in self.curve:
            booleans("hidden of a point of the curve", point.hidden, (len(self.features),))
        if self.chosen is not None:
            booleans("chosen", self.chosen, (len(self.features),))

    @property
    def hidden(self) -> list[str]:
        """The names of what the chosen plan hides."""
        mask = (
            np.zeros(len(self.features), dtype=bool)
            if self.chosen is None
            else np.asarray(self.chosen)
        )
        return [name for name, hidden in zip(self.features, mask, strict=True) if hidden]


@dataclass(frozen=True, eq=False)
class Findings:
    """What is known about data and a release; every part but the first two may be missing.

    Attributes:
        secret: what the secret is called: the name of its column, never one of its values.
        nouns: what the kind of data calls its things.
        scan: what the data tells before anything is hidden.
        plan: the outline of the plan.
        audit: what fresh attackers make of the release.
        card: the release card.
    """

    secret: str
    nouns: Nouns
    scan: Scan | None = None
    plan: Outline = field(default_factory=Outline)
    audit: AuditReport | None = None
    card: ReleaseCard | None = None

    @property
    def attacks(self) -> tuple[Attack, ...]:
        """Everything attackers achieved: in the audit, or else on the card."""
        if self.audit is None:
            return () if self.card is None else self.card.attacks
        found = self.audit.attacks
        return (*found.retrained, *found.fixed, *found.clean, found.guess)

    @property
    def guess(self) -> Estimate | None:
        """How often a blind guess is right."""
        return next(
            (attack.accuracy for attack in self.attacks if attack.trained_on == "nothing"), None
        )

    @property
    def strongest(self) -> Attack | None:
        """The strongest attacker that was trained on the release."""
        if self.audit is not None:
            return self.audit.attacks.headline
        return None if self.card is None else self.card.strongest

    @property
    def leakage(self) -> Estimate | None:
        """The estimated leakage of the release, or else of the plan, in nats.

        A card without an estimate has none: what planning read while it searched is not an estimate
        of the release.
        """
        if self.card is not None:
            return self.card.leakage
        if self.audit is not None and self.audit.estimate is not None:
            return self.audit.estimate
        if self.plan.chosen is None:
            return None
        chosen = (
            point
            for point in self.plan.curve
            if np.array_equal(point.hidden, np.asarray(self.plan.chosen))
        )
        return next((point.reading.leakage for point in chosen), None)


@dataclass(frozen=True)
class Mark:
    """Whether a section may be published, and why."""

    safe: bool
    why: str

    @classmethod
    def resting(cls, rows: int, why: str, nouns: Nouns) -> Mark:
        """The mark of averages over `rows` samples: below `FEWEST` they tell about single ones.
        `why` may name {n}.
        """
        if rows >= FEWEST:
            return cls(True, why.format(n=f"{rows:,}"))
        few = f"Rests on {rows} {nouns.rows}, fewer than {FEWEST}"
        return cls(False, f"{few}: averages over so few tell about single {nouns.rows}.")


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes:
        id: of the section on the page.
        title: its heading.
        body: what stands below the heading, as HTML.
        mark: whether it may be published.
        figures: the drawings that it also writes as files, by the name of the file.
        single: whether it shows single samples; these sections stand after all averages.
        link: its name in the list of sections; by default the title.
    """

    id: str
    title: str
    body: Markup
    mark: Mark
    figures: Mapping[str, Drawing] = field(default_factory=dict)
    single: bool = False
    link: str = ""


@dataclass(frozen=True)
class Report:
    """A page: the verdict first, then a section for everything there is data for.

    Attributes:
        title: of the page, such as "survey.csv: what it tells about vote".
        secret: what the secret is called.
        nouns: what the kind of data calls its things.
        sections: in the order of the page.
    """

    title: str
    secret: str
    nouns: Nouns
    sections: tuple[Section, ...]

    def __post_init__(self) -> None:
        for name, text in (("title", self.title), ("secret", self.secret)):
            if not isinstance(text, str) or not text.strip():
                raise LowtideError(f"{name} must be a text that is not empty")

    @property
    def marks(self) -> dict[str, Mark]:
        """The mark of every section, by its id."""
        return {section.id: section.mark for section in self.sections}


def write_report(report: Report, path: Path, *, figures: Path | None = None) -> list[Path]:
    """Write a report as one HTML file, and its figures as files where asked for.

    Args:
        report: what to tell.
        path: the HTML file; it appears whole or not at all. With a section that is unsafe to
            publish, only its owner may read it; likewise each figure.
        figures: a folder for the figures of all sections, charts as SVG and images as PNG; made
            when it does not exist.

    Returns:
        The files that were written, the page first.
    """
    page_is_safe = all(section.mark.safe for section in report.sections)
    written = [write_whole(Path(path), render(report), rights=None if page_is_safe else PRIVATE)]
    if figures is None:
        return written
    Path(figures).mkdir(parents=True, exist_ok=True)
    title = plain(report.title)
    for section in report.sections:
        heading = title if section.mark.safe else f"{UNSAFE}. {title}"
        rights = None if section.mark.safe else PRIVATE
        for name, draw in section.figures.items():
            written.append(write_whole(Path(figures) / name, draw(heading), rights=rights))
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
    module = _environment().get_template(template).module
    return Markup(getattr(module, macro)(**values))  # noqa: S704 - the template escapes


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
    """Set a sentence in type: a number stays with its percent sign, and γ and ε stand where they
    belong.
    """
    page = (
        str(escape(text))
        .replace(" %", "\u00a0%")
        .replace("E_γ", "E<sub>γ</sub>")
        .replace("e^ε", "e<sup>ε</sup>")
    )
    return Markup(page)  # noqa: S704 - escaped above
