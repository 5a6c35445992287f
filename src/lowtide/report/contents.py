"""What a report is made of, and who may read each part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LowtideError
from lowtide.images.maps import FEWEST_IMAGES, ImageMaps
from lowtide.interface import Attack, Estimate
from lowtide.report.views import IMAGES, TABLE, TEXTS, Nouns
from lowtide.texts.lists import TermLists

if TYPE_CHECKING:  # a report reads their attributes; it makes none of them
    from lowtide.auditing.judging import AuditReport
    from lowtide.disclose.budget import Point
    from lowtide.disclose.card import ReleaseCard

__all__ = ["FEWEST", "ImageMaps", "Mark", "Report", "Scanned", "TermLists", "marks"]
FEWEST = 20  # rows that an average must rest on before it leaves the house; statistical offices ask for 10 or so


class Scanned(Protocol):
    """A first look at data, such as `Scan` or `ImageScan`: what a whole row tells, in nats."""

    @property
    def information(self) -> Estimate:
        """I(S; X), held out."""
        ...

    @property
    def entropy(self) -> float:
        """H(S)."""
        ...


@dataclass(frozen=True, eq=False)
class Report:
    """What is known about a table, images or texts, and a release; every part but the first two may be missing.

    Attributes:
        title: of the page, such as "survey.csv: what it tells about vote".
        secret: what the secret is called: the name of its column, never one of its values.
        scan: what the data tells before anything is hidden; of images only with `images`, which has the patches, and
            of texts with `terms`, so that its features are not listed.
        curve: the trade-off that planning found.
        features: the m names that the masks are about.
        chosen: (m,) what the chosen plan hides.
        budget: what the release may tell, as it was given or as `str(Budget)` says it.
        audit: what fresh attackers make of the release.
        card: the release card.
        images: maps of images, in place of bars and names of patches.
        terms: the words of texts that tell most; with it no other section has a word or a label.
    """

    title: str
    secret: str
    scan: Scanned | None = None
    curve: tuple[Point, ...] = ()
    features: tuple[str, ...] = ()
    chosen: NDArray[np.bool_] | None = None
    budget: str = ""
    audit: AuditReport | None = None
    card: ReleaseCard | None = None
    images: ImageMaps | None = None
    terms: TermLists | None = None

    def __post_init__(self) -> None:
        for name, text in (("title", self.title), ("secret", self.secret)):
            if not isinstance(text, str) or not text.strip():
                raise LowtideError(f"{name} must be a text that is not empty")
        masks = [point.hidden for point in self.curve] + ([] if self.chosen is None else [np.asarray(self.chosen)])
        if any(mask.dtype != np.bool_ or mask.shape != (len(self.features),) for mask in masks):
            raise LowtideError(
                f"features names {len(self.features)} features; curve and chosen must be booleans, one per name"
            )
        if self.images is None and hasattr(self.scan, "grid"):
            raise LowtideError("a scan of images has no table of features; give images, the maps of its patches, too")
        if self.images is not None:
            self._check_images(self.images, bool(masks))
        if self.terms is not None:
            self._check_terms(self.terms)

    def _check_images(self, maps: ImageMaps, has_masks: bool) -> None:
        if has_masks and len(self.features) != len(maps.grid):
            raise LowtideError(
                f"features names {len(self.features)} features; the images have {len(maps.grid)} patches"
            )
        if self.chosen is not None and maps.hidden is not None and not np.array_equal(self.chosen, maps.hidden):
            raise LowtideError("chosen and images.hidden name different patches; leave one of them out")

    def _check_terms(self, lists: TermLists) -> None:
        if self.images is not None:
            raise LowtideError("a report is about images or about texts; leave out images or terms")
        if self.chosen is not None and lists.hidden and set(lists.hidden) != set(self.hidden):
            raise LowtideError("chosen and terms.hidden name different words; leave one of them out")

    @property
    def nouns(self) -> Nouns:
        """What it calls its things: audits of images and texts compare no columns, and only images have a PSNR."""
        if self.terms is not None:
            return TEXTS
        change = None if self.audit is None else self.audit.change
        if self.images is None and (change is None or change.columns):
            return TABLE
        return IMAGES if self.images is not None or (change is not None and change.psnr is not None) else TEXTS

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """(m,) the patches that a plan hides."""
        hidden = self.chosen if self.images is None or self.images.hidden is None else self.images.hidden
        return None if hidden is None else np.asarray(hidden)

    @property
    def hidden_terms(self) -> tuple[str, ...]:
        """The words that a plan hides, where it is about texts."""
        return () if self.terms is None else self.terms.hidden or tuple(self.hidden)

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
        return next((attack.accuracy for attack in self.attacks if attack.trained_on == "nothing"), None)

    @property
    def strongest(self) -> Attack | None:
        """The strongest attacker that was trained on the release."""
        if self.audit is not None:
            return self.audit.attacks.headline
        return None if self.card is None else self.card.strongest

    @property
    def leakage(self) -> Estimate | None:
        """The estimated leakage of the release, or else of the plan, in nats."""
        if self.card is not None and self.card.leakage is not None:
            return self.card.leakage
        if self.audit is not None and self.audit.estimate is not None:
            return self.audit.estimate
        if self.chosen is None:
            return None
        chosen = (point for point in self.curve if np.array_equal(point.hidden, np.asarray(self.chosen)))
        return next((point.reading.leakage for point in chosen), None)

    @property
    def hidden(self) -> list[str]:
        """The names of what the chosen plan hides."""
        mask = np.zeros(len(self.features), dtype=bool) if self.chosen is None else np.asarray(self.chosen)
        return [name for name, hidden in zip(self.features, mask, strict=True) if hidden]


@dataclass(frozen=True)
class Mark:
    """Whether a section may be published, and why."""

    safe: bool
    why: str


def marks(report: Report) -> dict[str, Mark]:
    """A mark for every section that has data.

    Everything in a report of a table is an average or a name of a column. An average over few rows tells about those
    rows, so below `FEWEST` rows a section stays inside. An average image needs `FEWEST_IMAGES`, and single images
    always stay inside, as do texts and the words out of them.
    """
    found: dict[str, Mark] = {}
    nouns = report.nouns
    if report.images is not None:
        found |= _image_marks(report, report.images)
    elif report.scan is not None:
        why = f"Names which {nouns.columns} go with the secret, as averages" if nouns.named else "Averages"
        why += f" over {{n}} held-out {nouns.rows}; no {nouns.row}, no {nouns.unit}, no label."
        found["leaks"] = _resting(report.scan.information.n, why, nouns)
    if report.terms is not None:
        found |= _term_marks(report, report.terms)
    if report.curve:
        what = "the names of the hidden features" if nouns.named else f"how many {nouns.features} are hidden"
        why = f"Averages over {{n}} held-out {nouns.rows}, and {what}; no {nouns.row}, no {nouns.unit}."
        found["tradeoff"] = _resting(min(point.reading.leakage.n for point in report.curve), why, nouns)
    if report.attacks:
        why = f"Success rates over {{n}} test {nouns.rows}; which {nouns.row} an attacker got right is not in here."
        found["attacks"] = _resting(min(attack.accuracy.n for attack in report.attacks), why, nouns)
    if report.audit is not None and (report.audit.change or report.audit.change_missing or report.audit.utility):
        why = "by column over {n} rows; no cell is shown."
        why = why if nouns.named else f"over {{n}} {nouns.rows}; no {nouns.unit} is shown."
        found["change"] = _resting(_judged(report.audit), f"Shares and averages {why}", nouns)
    if report.card is not None:
        rests = [report.card.rows, *(attack.accuracy.n for attack in report.card.attacks)]
        rests += [] if report.card.leakage is None else [report.card.leakage.n]
        why = "Made to travel with the release: no value, no label, neither key nor seed."
        found["card"] = _resting(min(rests), why, nouns)
    found["headline"] = _headline(report)
    found["reading"] = Mark(True, "Explanations only.")
    return found


def _image_marks(report: Report, maps: ImageMaps) -> dict[str, Mark]:
    found = {}
    if maps.told is not None or report.mask is not None:
        found["maps"] = Mark(
            True,
            f"An average of {maps.images:,} images, and of what patches tell: it shows nobody. Who has somebody's "
            "image may still guess better than blindly whether it is among them.",
        )
    if "maps" in found and maps.images < FEWEST_IMAGES:
        found["maps"] = Mark(
            False,
            f"Rests on {maps.images} images, fewer than {FEWEST_IMAGES:,}: who has somebody's image could tell whether "
            "it is in an average of so few.",
        )
    if report.scan is not None and found.get("maps", Mark(True, "")).safe:
        resting = _resting(report.scan.information.n, "Averages over {n} held-out images.", report.nouns)
        found["maps"] = found.get("maps", resting) if resting.safe else resting
    if maps.samples:
        found["samples"] = Mark(False, "Single images, recognisable whatever was done to them.")
    return found


def _term_marks(report: Report, lists: TermLists) -> dict[str, Mark]:
    found = {}
    if not lists.empty or report.hidden_terms:
        found["words"] = Mark(
            False,
            "Words taken from people's texts, and the values of the secret they point to: no average of many.",
        )
    if lists.samples:
        found["marked"] = Mark(
            False, "Single texts: who wrote one can be found by it, and its secret may stand above it."
        )
    return found


def _headline(report: Report) -> Mark:
    told = report.leakage or (None if report.scan is None else report.scan.information)
    rows = [] if told is None else [told.n]
    rows += [] if report.strongest is None else [report.strongest.accuracy.n]
    why = f"Figures for all {report.nouns.rows} together; nothing about a single one."
    return _resting(min(rows, default=FEWEST), why, report.nouns)


def _resting(rows: int, why: str, nouns: Nouns) -> Mark:
    if rows >= FEWEST:
        return Mark(True, why.format(n=f"{rows:,}"))
    few = f"Rests on {rows} {nouns.rows}, fewer than {FEWEST}"
    return Mark(False, f"{few}: averages over so few tell about single {nouns.rows}.")


def _judged(audit: AuditReport) -> int:
    rows = [] if audit.change is None else [audit.change.rows]
    rows += [] if audit.utility is None else [audit.utility.best.score.n]
    return min(rows, default=audit.attacks.headline.accuracy.n)
