"""Tables released in parts, by any number of processes: what is known of the whole, and what is
done to a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowtide.disclose import plan_file, repeated_ids, row_keys, secret_codes
from lowtide.disclose.noise import Ids, KeyedNoise
from lowtide.disclose.parted import write_arrays
from lowtide.errors import LowtideError
from lowtide.places import Place
from lowtide.protocols import Changed
from lowtide.table_files import concatenation, parting
from lowtide.tables import frequencies, options, redraw_policy, releasing, row_digests, value_counts

_UNKNOWN = "unknown"  # rows whose secret the plan does not know


def _needs(plan: plan_file.Plan, ids: str | None) -> tuple[bool, bool]:
    """Whether values are drawn anew, and whether draws are keyed by the content of rows."""
    return isinstance(
        plan.hider.policy, redraw_policy.RedrawPolicy
    ), plan.hider.draws and ids is None


class TablePartedJob:
    """Table files that are released in parts."""

    def __init__(self, source: Place, plan: plan_file.Plan, options: options.TableOptions) -> None:
        if options.shuffle:
            raise LowtideError(
                "rows are shuffled by one process; leave out --shuffle, or workers and shards"
            )
        job = releasing.TableJob(source, plan, options, look=False)
        self._plan = plan
        self._ids = job.ids
        self._files = parting.PartedFiles(source, job.schema, options.encoding)
        self.looks = job.looks
        self._redraws, self._by_content = _needs(plan, job.ids)

    def recipe(self, out: Path, *, sharded: bool) -> dict[str, Any]:
        """The columns with their types, the column of ids, and the format of what is written."""
        return {**self._files.recipe(out, sharded=sharded, whole=self.looks), "ids": self._ids}

    def parts(self, rows: int, work: Path, done: frozenset[int]) -> Iterator[dict[str, Any]]:
        """Rows of Parquet files, other files one by one, and batches of a single other file."""
        return self._files.parts(rows, work, done)

    def learn(self, looks: Iterable[Path], place: Path) -> None:
        """Add up how often values occur, and find rows that occur in several parts.

        Rows whose secret the plan does not know are refused.
        """
        paths = list(looks)
        arrays: dict[str, NDArray[Any]] = {}
        if self._redraws:
            counts = self._plan.hider.policy.counted()
            unknown = 0
            for path in paths:
                with np.load(path, allow_pickle=False) as found:
                    counts.merge(found)
                    unknown += int(found[_UNKNOWN])
            secret_codes.refuse_unknown(unknown)
            arrays |= counts.arrays()
        if self._by_content:
            arrays |= row_keys.copies_of_parts(paths)
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
        """One file, where that is asked for; nothing stands beside it."""
        if not sharded:
            concatenation.join_shards([parting.only_file(shard) for shard in shards], staged(out))
        return {}


class TablePartWorker:
    """Changes parts of tables; see `PartWorker`."""

    def __init__(self, plan: plan_file.Plan, recipe: Mapping[str, Any]) -> None:
        self._plan = plan
        self._ids = recipe["ids"]
        self._reader = parting.PartReader.of(recipe)
        self._redraws, self._by_content = _needs(plan, self._ids)
        self.looks = self._redraws or self._by_content
        self._learnt: Path | None = None
        self._counts: frequencies.Frequencies | None = None
        self._copies: row_keys.CopyCounter | None = None
        self._seen = repeated_ids.SeenIds()

    def look(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """How often values occur in a part, and the digests of its rows."""
        digests: list[Ids] = []
        see = digests.append if self._by_content else None
        counts, unknown = releasing.look_through(self._reader.batches(part), self._plan, see)
        arrays: dict[str, NDArray[Any]] = {_UNKNOWN: np.array(unknown)}
        if counts is not None:
            arrays |= counts.arrays()
        if self._by_content:
            arrays |= row_keys.look_at_part(part["number"], digests)
        return arrays

    def learnt(self, place: Path) -> None:
        """What is known of the whole: as `learn` wrote it, or as `ValueCounts` froze it."""
        if place.is_dir():
            self._counts = value_counts.read_counts(place, self._plan)
            return
        self._learnt = place
        if self._redraws:
            self._counts = self._plan.hider.policy.counted()
            with np.load(place, allow_pickle=False) as found:
                self._counts.merge(found)

    def batches(self, part: Mapping[str, Any]) -> Iterator[pa.Table]:
        """The tables of a part."""
        if self._by_content and self._learnt is not None:
            with np.load(self._learnt, allow_pickle=False) as found:
                self._copies = row_keys.counter_of_part(found, part["number"])
        return self._reader.batches(part)

    def change(self, batch: pa.Table, noise: KeyedNoise | None) -> Changed:
        """Hide in one table what the plan says."""
        if self._redraws and self._counts is None:
            raise LowtideError(
                "a plan that draws values anew needs counts of the whole data; count them first"
            )
        if self._ids is not None:
            ids = releasing.ids_of(batch, self._ids)
            self._seen.add(ids)
        elif self._copies is not None:
            ids = self._copies.keys(row_digests.digests_of(batch))
        elif self._by_content:
            raise row_keys.needs_ids("row")
        else:
            ids = None
        return releasing.change_table(batch, self._plan, noise=noise, ids=ids, counts=self._counts)

    def sink(self, part: Mapping[str, Any], shard: Path, private: Path) -> releasing.TableSink:
        """One file."""
        return releasing.TableSink(self._reader.file(part, shard))

    def seen(self) -> Ids | None:
        """The ids of the part."""
        return None if self._ids is None else self._seen.run()
