"""Texts of files released in parts, by any number of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from lowtide.disclose import plan_file, repeated_ids, row_keys
from lowtide.disclose.noise import Ids, KeyedNoise
from lowtide.disclose.parted import write_arrays
from lowtide.errors import LowtideError
from lowtide.files import PRIVATE
from lowtide.places import Place
from lowtide.protocols import Changed
from lowtide.table_files import concatenation, parting
from lowtide.table_files.writing import Writer
from lowtide.texts import options, redraw_policy, releasing

# of a part, in its private folder
_CHANGES = "changes.arrow"
_ROWS = "rows"


class TextPartedJob:
    """Files of texts that are released in parts; where texts were changed goes into one file beside
    them.
    """

    def __init__(self, source: Place, plan: plan_file.Plan, options: options.TextOptions) -> None:
        if options.shuffle:
            raise LowtideError(
                "texts are shuffled by one process; leave out --shuffle, or workers and shards"
            )
        if source.is_dir():
            raise LowtideError(
                f"{source} is a folder, whose texts are released by one process; leave out workers,"
                " shards and engine, or put the texts into a table"
            )
        job = releasing.TextJob(source, plan, options, look=False)
        self.looks = job.looks
        self._text = job.text
        self._ids = job.ids
        self._files = parting.PartedFiles(source, job.schema, options.encoding)
        self._suffix = ""

    def recipe(self, out: Path, *, sharded: bool) -> dict[str, Any]:
        """The columns with their types, which of them holds texts and which ids, and the format
        that is written.
        """
        said = self._files.recipe(out, sharded=sharded, whole=self.looks)
        self._suffix = said["suffix"]
        return {**said, "text": self._text, "ids": self._ids}

    def parts(self, rows: int, work: Path, done: frozenset[int]) -> Iterator[dict[str, Any]]:
        """As tables are cut."""
        return self._files.parts(rows, work, done)

    def learn(self, looks: Iterable[Path], place: Path) -> None:
        """Find texts that occur in several parts."""
        paths = list(looks)
        arrays = row_keys.copies_of_parts(paths)
        write_arrays(place, arrays)
        for path in paths:
            path.unlink()

    def join(
        self,
        shards: Sequence[Path],
        private: Sequence[Path],
        out: Path,
        staged: Callable[..., Path],
        *,
        sharded: bool,
    ) -> Mapping[str, Path]:
        """One file of texts, where that is asked for, and the file of changes, counted from the
        first text of all.
        """
        if not sharded:
            concatenation.join_shards([parting.only_file(shard) for shard in shards], staged(out))
        beside = (
            out.with_name(f"{out.name}.changes{self._suffix}")
            if sharded
            else releasing.changes_beside(out)
        )
        before = 0
        writer = None
        try:
            for folder in private:
                with pa.OSFile(str(folder / _CHANGES)) as opened, pa.ipc.open_file(opened) as file:
                    writer = (
                        writer or Writer(staged(beside), file.schema, rights=PRIVATE).__enter__()
                    )
                    for number in range(file.num_record_batches):
                        writer.write(
                            releasing.moved(pa.Table.from_batches([file.get_batch(number)]), before)
                        )
                before += int((folder / _ROWS).read_text(encoding="ascii"))
        except BaseException as error:
            if writer is not None:
                writer.__exit__(type(error), error, error.__traceback__)
            raise
        if writer is not None:
            writer.__exit__(None, None, None)
        return {"changes": beside}


class TextPartWorker:
    """Changes parts of files of texts; see `PartWorker`."""

    def __init__(self, plan: plan_file.Plan, recipe: Mapping[str, Any]) -> None:
        self._plan = plan
        self._ids = recipe["ids"]
        self._text = recipe.get("text", plan.layout["text"])
        self._reader = parting.PartReader.of(recipe)
        self.looks = isinstance(plan.hider.policy, redraw_policy.RedrawWords) and self._ids is None
        self._learnt: Path | None = None
        self._copies: row_keys.CopyCounter | None = None
        self._seen = repeated_ids.SeenIds()

    def look(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """The digests of the texts of a part."""
        batches = self._reader.batches(part)
        return row_keys.look_at_part(
            part["number"], (releasing.text_digests(b, self._text) for b in batches)
        )

    def learnt(self, place: Path) -> None:
        """Which texts occur more than once, as `learn` wrote it."""
        self._learnt = place

    def batches(self, part: Mapping[str, Any]) -> Iterator[pa.Table]:
        """The tables of a part."""
        if self._learnt is not None:
            with np.load(self._learnt, allow_pickle=False) as found:
                self._copies = row_keys.counter_of_part(found, part["number"])
        return self._reader.batches(part)

    def change(self, batch: pa.Table, noise: KeyedNoise | None) -> Changed:
        """Hide in some texts what the plan says."""
        ids = None
        if self._ids is not None:
            ids = releasing.text_row_ids(batch, self._ids)
            self._seen.add(ids)
        elif self._copies is not None:
            ids = self._copies.keys(releasing.text_digests(batch, self._text))
        elif self.looks:
            raise row_keys.needs_ids("text")
        return releasing.change_texts(batch, self._plan, text=self._text, noise=noise, ids=ids)

    def sink(self, part: Mapping[str, Any], shard: Path, private: Path) -> TextPartSink:
        """A file of texts, and in private one of changes, counted from the first text of the
        part.
        """
        return TextPartSink(self._reader.file(part, shard), private)

    def seen(self) -> Ids | None:
        """The ids of the part."""
        return None if self._ids is None else self._seen.run()


class TextPartSink:
    """What is released of a part, and what stays inside: its changes, and how many texts it has."""

    def __init__(self, file: Path, private: Path) -> None:
        self._sink = releasing.TextSink(file, private / _CHANGES)
        self._private = private
        self._rows = 0

    def __enter__(self) -> TextPartSink:
        self._sink.__enter__()
        return self

    def write(self, changed: Changed) -> None:
        """Append a batch."""
        self._rows += changed.rows
        self._sink.write(changed)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sink.__exit__(kind, error, trace)
        (self._private / _ROWS).write_text(str(self._rows), encoding="ascii")
