"""Texts on the command line: the options they add to the verbs, reading them, and `lowtide scan` of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow.compute as pc
import typer
from numpy.typing import NDArray

from lowtide import modalities
from lowtide.cli.common import note, out, show_progress
from lowtide.density.tide import TIDE
from lowtide.errors import LowtideError, one_of
from lowtide.report.console import print_tables, write_json
from lowtide.report.html import write_report
from lowtide.report.sections import make_report
from lowtide.table_files.schema import is_moment
from lowtide.texts.copies import Codes, duplicates
from lowtide.texts.reading import TextSet, read_texts
from lowtide.texts.scan import scan_texts
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
_KINDS = ("hashtags", "handles", "urls", "emoji", "numbers", "accents")
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
    found = scan_texts(given.found.texts, given.s, groups=given.groups, estimator=tide, secret=given.secret)
    print_tables(found.tables())
    note("these tables hold words of your texts and labels of the secret: keep them inside")
    if save is not None:
        found.density.save(save)
        out.print(f"density: {save}", soft_wrap=True)
        note(f"keep {save} inside: it holds labels of the secret, and words of your texts")
    if json is not None:
        write_json(json, found.to_json())
    if report is not None:
        kind = modalities.get("texts")
        title = f"{path.name}: what it tells about {given.secret}"
        view = kind.view(given.found.texts, scan=found, single=samples, seed=seed)
        page = make_report(title, given.secret, kind, scan=found, view=view)
        for written in write_report(page, report, figures=figures):
            out.print(f"written: {written}", soft_wrap=True)
