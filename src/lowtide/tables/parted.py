"""Tables released in parts, by any number of processes: what is known of the whole, and what is done to a part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lowtide.disclose import plan_file, repeated_ids, secret_codes
from lowtide.disclose.noise import Ids, KeyedNoise
from lowtide.errors import LowtideError
from lowtide.places import Place
from lowtide.protocols import Changed
from lowtide.table_files import concatenation, parting
from lowtide.tables import frequencies, options, redraw_policy, releasing, value_counts

_UNKNOWN = "unknown"  # rows whose secret the plan does not know


class TablePartedJob:
    """Table files that are released in parts."""

    def __init__(self, source: Place, plan: plan_file.Plan, options: options.TableOptions) -> None:
        if options.shuffle:
            raise LowtideError("rows are shuffled by one process; leave out --shuffle, or workers and shards")
        job = releasing.TableJob(source, plan, options, look=False)
        self._plan, self._ids = plan, job.ids
        self._files = parting.PartedFiles(source, job.schema, options.encoding)
        self.looks = isinstance(plan.hider.policy, redraw_policy.RedrawPolicy)

    def recipe(self, out: Path, *, sharded: bool) -> dict[str, Any]:
        """The columns with their types, the column of ids, and the format of what is written."""
        return {**self._files.recipe(out, sharded=sharded, whole=self.looks), "ids": self._ids}

    def parts(self, rows: int, work: Path, done: frozenset[int]) -> Iterator[dict[str, Any]]:
        """Rows of Parquet files, other files one by one, and batches of a single other file."""
        return self._files.parts(rows, work, done)

    def learn(self, looks: Iterable[Path], place: Path) -> None:
        """Add up how often values occur; refuses rows whose secret the plan does not know."""
        counts, unknown = self._plan.hider.policy.counted(), 0
        for path in looks:
            with np.load(path, allow_pickle=False) as found:
                counts.merge(found)
                unknown += int(found[_UNKNOWN])
            path.unlink()
        secret_codes.refuse_unknown(unknown)
        with place.open("wb") as file:
            np.savez(file, **counts.arrays())

    def join(
        self, shards: Sequence[Path], private: Sequence[Path], out: Path, staged: Callable[..., Path], *, sharded: bool
    ) -> Mapping[str, Path]:
        """One file, where that is asked for; nothing stands beside it."""
        if not sharded:
            concatenation.join_shards([parting.only_file(shard) for shard in shards], staged(out))
        return {}


class TablePartWorker:
    """Changes parts of tables; see `PartWorker`."""

    def __init__(self, plan: plan_file.Plan, recipe: Mapping[str, Any]) -> None:
        self._plan, self._ids, self._reader = plan, recipe["ids"], parting.PartReader.of(recipe)
        self.looks = isinstance(plan.hider.policy, redraw_policy.RedrawPolicy)
        self._counts: frequencies.Frequencies | None = None
        self._seen = repeated_ids.SeenIds()

    def look(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """How often values occur in a part."""
        counts, unknown = releasing.count_values(self.batches(part), self._plan)
        return {**counts.arrays(), _UNKNOWN: np.array(unknown)}

    def learnt(self, place: Path) -> None:
        """How often values occur in the whole: as `learn` wrote it, or as `ValueCounts` froze it."""
        if place.is_dir():
            self._counts = value_counts.read_counts(place, self._plan)
            return
        self._counts = self._plan.hider.policy.counted()
        with np.load(place, allow_pickle=False) as found:
            self._counts.merge(found)

    def batches(self, part: Mapping[str, Any]) -> Iterator[pa.Table]:
        """The tables of a part."""
        return self._reader.batches(part)

    def change(self, batch: pa.Table, noise: KeyedNoise | None) -> Changed:
        """Hide in one table what the plan says."""
        if self.looks and self._counts is None:
            raise LowtideError("a plan that draws values anew needs counts of the whole data; count them first")
        ids = None if self._ids is None else releasing.ids_of(batch, self._ids)
        if ids is not None:
            self._seen.add(ids)
        return releasing.change_table(batch, self._plan, noise=noise, ids=ids, counts=self._counts)

    def sink(self, part: Mapping[str, Any], shard: Path, private: Path) -> releasing.TableSink:
        """One file."""
        return releasing.TableSink(self._reader.file(part, shard))

    def seen(self) -> Ids | None:
        """The ids of the part."""
        return None if self._ids is None else self._seen.run()
