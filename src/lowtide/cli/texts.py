"""Texts on the command line: the options they add to the verbs, reading them, and `lowtide scan` of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow.compute as pc
import typer
from numpy.typing import NDArray
from rich.markup import escape

from lowtide.cli.common import note, out, show_progress
from lowtide.density.tide import TIDE
from lowtide.errors import LowtideError, one_of
from lowtide.interface import NATS_PER_BIT, Estimate
from lowtide.report.console import print_table, write_json
from lowtide.report.contents import Report
from lowtide.report.html import write_report
from lowtide.table_files.schema import is_moment
from lowtide.texts.copies import Codes, duplicates
from lowtide.texts.lists import MarkedText, TermLists, ToldTerm
from lowtide.texts.reading import TextSet, read_texts
from lowtide.texts.scan import TermTable, TextScan, scan_texts, top_terms
from lowtide.texts.terms import TermOptions

Text = Annotated[
    str | None, typer.Option("--text", help="texts: the column that holds them", metavar="COLUMN", show_default=False)
]
Group = Annotated[
    str | None,
    typer.Option("--group", help="texts: the column of authors, who are never split", metavar="COLUMN"),
]
Ngrams = Annotated[int, typer.Option("--ngrams", help="texts: terms of up to so many words", min=1, max=5)]
MinCount = Annotated[int, typer.Option("--min-count", help="texts: leave out rarer terms", min=1)]
MostTerms = Annotated[int | None, typer.Option("--terms", help="texts: the most frequent so many terms", min=1)]
Stop = Annotated[
    str | None, typer.Option("--stop", help="texts: `english`, or a file of words to leave out", metavar="LIST")
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", help="texts: leave out hashtags, handles, urls, emoji or numbers (repeat)"),
]
_Column = Literal["conditional", "alone", "pmi"]
_KINDS = ("hashtags", "handles", "urls", "emoji", "numbers", "accents")
_COLUMNS: tuple[_Column, ...] = ("conditional", "alone", "pmi")
_SHOWN = 15  # terms of each class that are printed
_LISTED = 200  # terms of each class in JSON and reports
_HARMLESS = "\n\t\u200c\u200d"  # not printable to Python; the last two join letters, and signs to one emoji
_LOOKED_AT = 200  # entries of a folder, to tell texts from images


@dataclass(frozen=True)
class Terms:
    """What counts as a term, as the command line says it."""

    ngrams: int = 1
    min_count: int = 2
    most: int | None = None
    stop: str | None = None
    without: tuple[str, ...] = ()

    @property
    def options(self) -> TermOptions:
        """The same for the library."""
        for kind in self.without:
            one_of("--without", kind, _KINDS)
        return TermOptions(
            ngrams=self.ngrams,
            min_count=self.min_count,
            most=self.most,
            stop=self._stop(),
            **dict.fromkeys(self.without, False),  # type: ignore[arg-type]
        )

    def _stop(self) -> Any:
        if self.stop in (None, "english"):
            return self.stop
        try:
            return tuple(Path(str(self.stop)).read_text(encoding="utf-8").split())
        except (OSError, UnicodeError):
            raise LowtideError(
                f"--stop must be `english` or a file of words in UTF-8, got {self.stop!r}; check the path"
            ) from None


@dataclass(frozen=True, eq=False)
class GivenTexts:
    """Texts as read, and their secret.

    Attributes:
        found: the texts whose secret is known.
        secret: name of the secret.
        s: (n,) its values.
        groups: (n,) what must stay on one side of a split: an author, and copies of a text.
        known: (all,) which texts of the file have a secret.
    """

    found: TextSet
    secret: str
    s: NDArray[Any]
    groups: Codes
    known: NDArray[np.bool_]


def printable(text: str) -> str:
    """The text without signs that would steer a terminal."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in _HARMLESS else "\ufffd" for sign in text)


def are_texts(path: Path, column: str | None, group: str | None = None) -> bool:
    """Whether to read texts: a column of them was named, or the folder holds `.txt` files."""
    if column is not None:
        return True
    if path.is_dir() and any(entry.suffix.lower() == ".txt" for entry in islice(path.rglob("*"), _LOOKED_AT)):
        return True
    if group is not None:
        raise LowtideError("--group is about the authors of texts; name the column of texts, too, with --text COLUMN")
    return False


def read_given_texts(
    path: Path, secret: str | None, *, text: str | None, group: str | None, encoding: str
) -> GivenTexts:
    """Read texts, find the secret, and say what a person should know before they believe the rest."""
    found = read_texts(path, text=text, secret=secret, group=group, encoding=encoding)
    name = found.names[1]
    if found.secret is None or name is None:
        raise LowtideError(f"{path} says of no text what its secret is; name its column with --secret")
    known = np.asarray(pc.invert(pc.is_null(found.secret, nan_is_null=True)).to_numpy(zero_copy_only=False), bool)
    if not known.all():
        note(f"{int((~known).sum())} texts without a value of the secret are left out")
    found = found.take(known)
    values = secret_values(found)
    different = len(np.unique(values.astype(str)))
    if different == 1:
        raise LowtideError(f"the secret {name!r} is the same for every text: nothing to give away; name another")
    if different > max(50, len(values) // 20):
        raise LowtideError(
            f"the secret {name!r} has {different} different values in {len(values)} texts; a secret needs a few: merge "
            "rare values"
        )
    _note_texts(found)
    return GivenTexts(found, name, values, found.split_groups(), known)


def secret_values(found: TextSet) -> NDArray[Any]:
    """The secret of every text, (n,); dates as texts, since labels are kept as JSON."""
    if found.secret is None:
        return np.zeros(0)
    values = found.secret.to_pylist()
    return np.array(list(map(str, values)) if is_moment(found.secret.type) else values)


def _note_texts(found: TextSet) -> None:
    counts = found.counts
    if counts.empty:
        note(f"{counts.empty:,} texts have no word in them")
    if counts.one_word:
        note(f"{counts.one_word:,} texts have one word only")
    copies = duplicates(found.texts, found.groups)
    if copies.exact or copies.near:
        across = f", and {copies.across:,} texts have a copy by another author" if copies.across else ""
        note(
            f"{copies.exact + copies.near:,} texts are copies of earlier ones{across}; copies stay together whenever "
            "texts are held out"
        )
    if found.groups is None:
        note("no --group: who writes several texts may be recognised by their style, which counts as telling here")


def scan_corpus(
    path: Path,
    secret: str,
    *,
    text: str | None,
    group: str | None,
    terms: Terms,
    encoding: str,
    samples: int,
    json: Path | None,
    report: Path | None,
    figures: Path | None,
    save: Path | None,
    seed: int,
    steps: int | None,
    quiet: bool,
) -> None:
    """`lowtide scan` of texts."""
    given = read_given_texts(path, secret, text=text, group=group, encoding=encoding)
    tide = TIDE(features=terms.options, max_steps=steps, random_state=seed, progress=show_progress(quiet))
    found = scan_texts(given.found.texts, given.s, groups=given.groups, estimator=tide)
    print_scan(found, given)
    if save is not None:
        found.density.save(save)
        out.print(f"density: {save}", soft_wrap=True)
        note(f"keep {save} inside: it holds labels of the secret, and words of your texts")
    if json is not None:
        write_json(json, scan_json(found, given))
    if report is not None:
        lists = term_lists(found, sample_texts(found, given, samples, seed))
        title = f"{path.name}: what it tells about {given.secret}"
        page = Report(title=title, secret=given.secret, scan=found, terms=lists)
        for written in write_report(page, report, figures=figures):
            out.print(f"written: {written}", soft_wrap=True)


def print_scan(found: TextScan, given: GivenTexts) -> None:
    """The most telling terms of each class, as tables."""
    table = found.table
    for place, label in enumerate(table.labels):
        print_table(
            escape(f"Words that point to {printable(given.secret)} = {printable(str(label))}, in bits"),
            ["word", "texts", "after the words before it", "alone", "by counting"],
            [
                (
                    printable(table.terms[j]),
                    int(table.texts[j]),
                    *(str(_term(table, j, place, what).bits) for what in _COLUMNS),
                )
                for j in top_terms(table, place, _SHOWN, least_count=2)
            ],
        )
    out.print(
        f"A whole text tells {found.information.bits} of the {found.entropy / NATS_PER_BIT:.3f} bits there are "
        f"({found.texts:,} texts, {len(table):,} terms; held out, 95 %).",
        soft_wrap=True,
    )
    note("these tables hold words of your texts and labels of the secret: keep them inside")


def _term(table: TermTable, term: int, place: int, what: _Column) -> Estimate:
    value, low, high = (float(getattr(table, f"{what}{end}")[term, place]) for end in ("", "_low", "_high"))
    return Estimate(value, low, high, int(table.texts[term]))


def scan_json(found: TextScan, given: GivenTexts) -> dict[str, object]:
    """The scan as plain values. It holds words and labels, which stay inside."""
    return {
        "secret": given.secret,
        "texts": found.texts,
        "vocabulary": len(found.table),
        "classes": len(found.table.labels),
        "entropy_nats": found.entropy,
        "information_nats": asdict(found.information),
        "terms": {
            str(label): [
                {
                    "term": found.table.terms[j],
                    "texts": int(found.table.texts[j]),
                    **{f"{what}_nats": asdict(_term(found.table, j, place, what)) for what in _COLUMNS},
                }
                for j in top_terms(found.table, place, _LISTED)
            ]
            for place, label in enumerate(found.table.labels)
        },
    }


def term_lists(found: TextScan, samples: tuple[MarkedText, ...] = ()) -> TermLists:
    """The most telling terms as a report shows them."""
    table = found.table
    lists = tuple(
        tuple(
            ToldTerm(
                table.terms[j],
                int(table.texts[j]),
                told=_term(table, j, place, "conditional"),
                alone=_term(table, j, place, "alone"),
                pmi=_term(table, j, place, "pmi"),
            )
            for j in top_terms(table, place, _LISTED, least_count=2)
        )
        for place in range(len(table.labels))
    )
    return TermLists(tuple(map(str, table.labels)), lists, found.texts, len(table), samples)


def sample_texts(found: TextScan, given: GivenTexts, samples: int, seed: int) -> tuple[MarkedText, ...]:
    """Single texts with their telling words marked, for a report that stays inside."""
    rng = np.random.default_rng([seed, 0x7E7])
    some = np.sort(rng.permutation(len(given.s))[: max(0, samples)])
    result = []
    for row in some.tolist():
        told = found.density.explain(given.found.texts[row])
        evidence = float(np.abs([word.shapley[told.about] for word in told.words]).sum()) if told.words else 0.0
        spans = tuple((span.text, evidence * (span.share or 0.0)) for span in told.spans())
        belief = f"{told.labels[told.about]} {told.prior[told.about]:.0%} → {told.posterior[told.about]:.0%}"
        if spans:
            result.append(MarkedText(spans, f"what a reader believes: {belief}"))
    return tuple(result)
