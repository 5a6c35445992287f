"""Texts as they are released: lists and frames in memory, files batch by batch, and how many of
their words changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowtide.auditing.utility import Change
from lowtide.disclose.noise import Ids, KeyedNoise, row_ids
from lowtide.disclose.plan_file import Plan
from lowtide.disclose.repeated_ids import SeenIds, repeated
from lowtide.disclose.row_keys import CopyCounter, RepeatedDigests, note_by_content
from lowtide.errors import LowtideError, note
from lowtide.files import PRIVATE
from lowtide.places import Place
from lowtide.protocols import Changed
from lowtide.table_files.formats import as_arrow, find_column, is_frame
from lowtide.table_files.reading import batches, schema_of
from lowtide.table_files.shuffling import Shuffling, order_beside
from lowtide.table_files.writing import Writer
from lowtide.texts.cleaning import cleaner
from lowtide.texts.options import TextOptions
from lowtide.texts.reading import read_texts
from lowtide.texts.redraw_policy import RedrawWords
from lowtide.texts.rewriting import ReleasedTexts, text_ids
from lowtide.texts.terms import TermOptions


def release_texts(
    x: Any, plan: Plan, *, noise: KeyedNoise | None, ids: Any, secret: Any = None
) -> ReleasedTexts:
    """Release texts in memory.

    Args:
        x: n texts; where words are drawn anew, a data frame with the texts and the secret of each.
        plan: what becomes of them.
        noise: where draws come from, if there are any.
        ids: (n,) one value per text that stays with it; by default what it says.
        secret: (n,) the secret of each, where the data does not hold it.
    """
    if not isinstance(plan.hider.policy, RedrawWords):
        if secret is not None:
            raise LowtideError(
                "only redraw looks at the secret of what is released; leave secret out"
            )
        released: ReleasedTexts = plan.hider.transform(x, noise=noise, ids=ids)
        return released
    table = as_arrow(x) if is_frame(x) else None
    if secret is not None:
        labels = list(map(str, secret))
    elif table is not None and plan.secret in table.column_names:
        labels = secret_values(table[plan.secret])
    else:
        raise _no_secret(plan, "what was given")
    given = list(x) if table is None else table[plan.layout["text"]].to_pylist()
    if len(labels) != len(given):
        raise LowtideError(
            f"secret must have one value for each of the {len(given)} texts, got {len(labels)}"
        )
    texts = ["" if text is None else str(text) for text in given]
    if ids is None:
        note_by_content(plan.modality.nouns.row)
    drawn: ReleasedTexts = plan.hider.redraw(texts, labels, noise=noise, ids=ids)
    return drawn


def secret_values(column: Any) -> list[str]:
    """The secret of each text as the labels of a plan print; a missing one as a word that no label
    is.
    """
    return [str(value) for value in column.to_pylist()]


def _no_secret(plan: Plan, source: str) -> LowtideError:
    return LowtideError(
        f"redraw needs the secret of every text, and {source} has no column {plan.secret!r}; give a"
        " file or a data frame that has it (it is never released), name the secret in Python, or"
        " make a plan with policy 'fixed'"
    )


class TextJob:
    """Texts of a file or a folder, released batch by batch; where they were changed goes into a
    file beside them.

    Args:
        source: the file or folder.
        plan: what becomes of the texts.
        options: of the release.
        look: whether to look through the texts for what must be known of the whole.

    Attributes:
        text: the column of texts.
        ids: the column that draws are keyed by; `None` where there are none, or texts are
            recognised by what they say.
        looks: whether something must be known of the whole before any text is changed.
    """

    total: int | None = None

    def __init__(
        self, source: Place, plan: Plan, options: TextOptions, *, look: bool = True
    ) -> None:
        self._source = source
        self._plan = plan
        self._encoding = options.encoding
        self._shuffling = Shuffling()
        self._redraws = isinstance(plan.hider.policy, RedrawWords)
        self._folder = read_texts(source, encoding=options.encoding) if source.is_dir() else None
        if self._folder is None:
            schema = schema_of(source, encoding=options.encoding)
            names = schema.names
            self.text = find_column(plan.layout["text"], names)
            # Texts that look like numbers are texts all the same.
            self.schema = schema_of(source, types={self.text: "text"}, encoding=options.encoding)
        else:
            names = [self._folder.names[0], *self._folder.others.column_names]
            self.text = self._folder.names[0]
        kept = plan.layout["kept"]
        missing = [name for name in kept if name not in names]
        if missing:
            raise LowtideError(
                f"{source} lacks {', '.join(map(repr, missing))}, which the plan keeps; make"
                " another plan"
            )
        ids = None if options.ids is None else find_column(options.ids, names)
        self.ids = ids if plan.hider.draws else None
        labelled = self._folder is not None and self._folder.names[1] == plan.secret
        if self._redraws and plan.secret not in names and not labelled:
            raise _no_secret(plan, str(source))
        self._seen = SeenIds()
        self._copies: CopyCounter | None = None
        dropped = [name for name in names if name not in (self.text, *kept, plan.secret)]
        if dropped:
            note(
                f"left out: {', '.join(dropped)}; a plan made with --keep COLUMN releases a column"
                " as it is"
            )
        self._rows = 0
        self.looks = self._redraws and self.ids is None
        if self.looks:
            note_by_content(plan.modality.nouns.row)
        if look and self.looks:
            copied = RepeatedDigests()
            for batch in self._tables():
                copied.add(text_digests(batch, self.text))
            self._copies = CopyCounter(copied.sorted())

    @property
    def columns(self) -> list[str]:
        """The columns that are read: texts, what is kept, and ids."""
        inside = [self.ids] if self.ids is not None else []
        return list(dict.fromkeys([self.text, *self._plan.layout["kept"], *inside]))

    def sink(self, out: Path, staged: Callable[..., Path]) -> TextSink:
        """A file of texts, and one of changes beside it."""
        self._shuffling.place = staged(order_beside(out))
        return TextSink(staged(out), staged(changes_beside(out)))

    def shuffle(self, noise: KeyedNoise | None) -> None:
        """Read all texts and write them in a random order."""
        self._shuffling.start(noise)

    def batches(self) -> Iterator[pa.Table]:
        """Tables with the column of texts, those that are kept, and the id and secret where words
        are drawn.
        """
        return self._shuffling.batches(self._tables())

    def _tables(self) -> Iterator[pa.Table]:
        names = self.columns
        secret = [self._plan.secret] if self._redraws else []
        if self._folder is not None:
            texts = pa.table({self.text: pa.array(self._folder.texts, pa.string())})
            for name in names[1:]:
                texts = texts.append_column(name, self._folder.others[name])
            if self._redraws:
                own = (
                    self._folder.secret
                    if self._folder.names[1] == secret[0]
                    else self._folder.others[secret[0]]
                )
                texts = texts.append_column(secret[0], own)
            yield texts
            return
        for table in batches(self._source, like=self.schema, encoding=self._encoding):
            yield table.select([*names, *secret])

    def change(self, batch: pa.Table, noise: KeyedNoise | None) -> Changed:
        """Hide in some texts what the plan says; a missing text is an empty one."""
        ids = None
        if self.ids is not None:
            ids = text_row_ids(batch, self.ids)
            self._seen.add(ids)
        elif self._copies is not None:
            ids = self._copies.keys(text_digests(batch, self.text))
        changed = change_texts(batch, self._plan, text=self.text, noise=noise, ids=ids)
        texts, places = changed.samples
        self._rows += changed.rows
        return changed._replace(samples=(texts, moved(places, self._rows - changed.rows)))

    def finish(self) -> None:
        """Refuse ids that come again in another batch; write the order, where there is a new
        one.
        """
        if self._seen.repeat():
            raise repeated("text")
        self._shuffling.finish()


def text_row_ids(batch: pa.Table, column: str) -> Ids:
    """The ids (n,) of a batch, from the column that holds them."""
    return row_ids(batch[column].to_pylist(), len(batch))


def text_digests(batch: pa.Table, text: str) -> Ids:
    """Digests (n,) of what the texts of a batch say, from the column that holds them."""
    return text_ids(_texts_of(batch, text))


def _texts_of(batch: pa.Table, text: str) -> list[str]:
    """The texts (n,) of a batch; a missing one is an empty one."""
    return ["" if value is None else value for value in batch[text].to_pylist()]


def change_texts(
    batch: pa.Table, plan: Plan, *, text: str, noise: KeyedNoise | None, ids: Ids | None
) -> Changed:
    """Hide in some texts what a plan says: a table of texts with what is kept, and one of the
    places of changes.

    Args:
        batch: n texts, what is kept beside them, and their secret where words are drawn anew.
        plan: what to hide.
        text: the column of texts; a missing text is an empty one.
        noise: where draws come from, if there are any.
        ids: (n,) what draws are keyed by; by default what the texts say, which are then all there
            are.
    """
    texts = _texts_of(batch, text)
    if isinstance(plan.hider.policy, RedrawWords):
        released = plan.hider.redraw(texts, secret_values(batch[plan.secret]), noise=noise, ids=ids)
    else:
        released = plan.hider.transform(texts, noise=noise, ids=ids)
    columns = {plan.layout["text"]: pa.array(released.texts, pa.string())}
    columns |= {name: batch[name] for name in plan.layout["kept"] if name != plan.secret}
    samples = (pa.table(columns), pa.table(released.changes.columns()))
    return Changed(samples, len(released), None, float(released.words), float(released.hidden))


def moved(places: pa.Table, by: int) -> pa.Table:
    """Places of changes in texts that stand so many texts further on."""
    at = places.schema.get_field_index("text")
    return places.set_column(at, places.schema.field(at), pc.add(places["text"], by))


class TextSink:
    """A file of texts, and a file of changes that only its owner may read; each appears whole or
    not at all.
    """

    def __init__(self, out: Path, changes: Path) -> None:
        self._paths = (out, changes)
        self._writers: list[Writer] = []

    def __enter__(self) -> TextSink:
        return self

    def write(self, changed: Changed) -> None:
        """Append a batch."""
        if not self._writers:
            for path, table, rights in zip(
                self._paths, changed.samples, (None, PRIVATE), strict=True
            ):
                self._writers.append(Writer(path, table.schema, rights=rights).__enter__())
        for writer, table in zip(self._writers, changed.samples, strict=True):
            writer.write(table)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for writer in reversed(self._writers):
            writer.__exit__(kind, error, trace)


def changes_beside(out: Path) -> Path:
    """Where the list of changes goes: beside the release, in its format."""
    ends = "".join(out.suffixes[-2:]) if out.suffix == ".gz" else out.suffix
    return out.with_name(f"{out.name}.changes{ends}")


def changed_texts(clean: Sequence[str], release: Sequence[str]) -> Change:
    """Count the words of the clean texts that the release no longer has.

    Words are compared as terms are written, so a change of case or of spaces is none.

    Args:
        clean: n texts.
        release: the same texts after the release, in the same order.

    Returns:
        The share of the words that are gone, by whatever they were replaced.
    """
    if len(clean) != len(release):
        raise LowtideError(
            f"the release has {len(release)} texts and the reference {len(clean)}; they must be the"
            " same texts, in the same order"
        )
    words = cleaner(TermOptions()).words
    gone = total = 0
    for before, after in zip(clean, release, strict=True):
        said = Counter(words(before))
        total += said.total()
        if before != after:
            gone += (said - Counter(words(after))).total()
    return Change(gone / total if total else 0.0, None, None, (), len(clean), "words")
