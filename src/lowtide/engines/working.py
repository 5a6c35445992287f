"""What one process does to the parts that it is given, in whatever engine it runs.

`python -m lowtide.engines.working FOLDER` is a worker that reads tasks as lines of JSON from its
standard input, and answers on its standard output; `lowtide.engines.local` starts it. No object is
pickled.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from lowtide.disclose import noise as noises
from lowtide.disclose import parted, plan_file, releasing
from lowtide.errors import LowtideError, LowtideNote
from lowtide.hashes import sha256_of
from lowtide.places import private_copies
from lowtide.protocols import Modality
from lowtide.table_files.canonical import canonical_table
from lowtide.training import one_thread

Task = Literal["look", "change"]
PLAN = "plan"
RECIPE = "recipe.json"
LEARNT = "learnt.npz"
IDS = "ids.npy"


def parted_kind(kind: Modality) -> parted.PartedKind:
    """The kind, where its data can be released in parts."""
    if not isinstance(kind, parted.PartedKind):
        raise LowtideError(
            f"{kind.name} cannot be released in parts; leave out workers, shards and engine"
        )
    return kind


def write_task(work: Path, plan: plan_file.Plan, recipe: parted.Plain) -> None:
    """Write what every worker reads once: the frozen plan, and the recipe."""
    if not (work / PLAN).exists():
        plan.save(work / PLAN)
    (work / RECIPE).write_text(json.dumps(recipe), encoding="utf-8")


class Worker:
    """Loads the plan once, and then changes any number of parts.

    Args:
        work: the folder of the job, with what `write_task` wrote.
    """

    def __init__(self, work: Path) -> None:
        self._work = work
        self._plan = plan_file.Plan.load(work / PLAN)
        recipe = json.loads((work / RECIPE).read_text(encoding="utf-8"))
        self._worker: parted.PartWorker = parted_kind(self._plan.modality).part_worker(
            self._plan, recipe
        )
        self._knows = False

    @property
    def looks(self) -> bool:
        """Whether something must be known of the whole first."""
        return self._worker.looks

    def do(
        self, task: Task, part: parted.Plain, noise: noises.KeyedNoise | None = None
    ) -> dict[str, Any]:
        """Look through a part, or change it; what is to be known of it, as plain values."""
        with one_thread(), warnings.catch_warnings(), private_copies():
            warnings.simplefilter("ignore", LowtideNote)
            try:
                return self._look(part) if task == "look" else self._change(part, noise)
            except LowtideError as error:
                raise LowtideError(f"{part['name']}: {error}") from None

    def _look(self, part: parted.Plain) -> dict[str, Any]:
        place = self._work / "private" / f"look-{part['number']:05d}.npz"
        parted.write_arrays(place, self._worker.look(part))
        return {"number": part["number"], "look": str(place)}

    def _change(self, part: parted.Plain, noise: noises.KeyedNoise | None) -> dict[str, Any]:
        if self.looks and not self._knows:
            self._worker.learnt(self._work / LEARNT)
            self._knows = True
        name = f"{part['number']:05d}"
        shard, private = (
            _fresh(self._work / kind / f".{name}.part") for kind in ("shards", "private")
        )
        tally = releasing.Tally(self._plan.card, "")
        self._worker.seen()  # of a part that failed
        with self._worker.sink(part, shard, private) as sink:
            for batch in self._worker.batches(part):
                changed = self._worker.change(batch, noise)
                sink.write(changed)
                tally.add(changed)
                del (
                    batch,
                    changed,
                )  # so that one batch is in memory, and not two, while the next is read
        ids = self._worker.seen()
        if ids is not None:
            np.save(private / IDS, ids)
        digest = sha256_of(shard)
        for made in (private, shard):  # the shard last: where it stands, all of the part does
            place = made.with_name(name)
            shutil.rmtree(place, ignore_errors=True)
            made.rename(place)
        return {"number": part["number"], "sha256": digest, "tally": tally.counts()}


class BatchRelease:
    """Arrow batches in, released batches out: what any engine that maps Arrow batches can call.

    It is pickled by its paths; whoever gets it loads the plan at the first batch. A batch must have
    the columns of the plan, and the secret is left out. A plan that draws needs ids: without them
    rows are recognised by their content, and their copies are counted over the whole. Ids are
    compared within a batch only: that they differ everywhere is for the caller to know. A plan that
    draws values anew needs counts of the whole data, see `lowtide.tables.value_counts`.

    Args:
        plan: where the plan was saved.
        key_file: where the key of the noise is kept, for a plan that draws any; it must be there.
        ids: the column that draws are keyed by, for such a plan.
        counts: where the counts of the whole data were saved, for a plan that draws values anew.
    """

    def __init__(
        self,
        plan: str | Path,
        key_file: str | Path | None = None,
        ids: str | None = None,
        counts: str | Path | None = None,
    ) -> None:
        self._said = (str(plan), _text(key_file), ids, _text(counts))
        self._loaded: tuple[parted.PartWorker, noises.KeyedNoise | None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._said

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The released rows of a batch, in its order."""
        if self._loaded is None:
            plan, key_file, ids, counts = self._said
            made = plan_file.Plan.load(plan)
            noise = None
            if key_file is not None:
                noise = noises.KeyedNoise(noises.open_key(key_file, make=False))
            elif made.hider.draws:
                raise LowtideError(
                    "this plan draws at random: name the file of the key, and the column of ids"
                )
            worker = parted_kind(made.modality).part_worker(made, {"ids": ids})
            if counts is not None and worker.looks:
                worker.learnt(Path(counts))
            self._loaded = worker, noise
        worker, noise = self._loaded
        changed = worker.change(pa.Table.from_batches([batch]), noise)
        worker.seen()
        if not isinstance(changed.samples, pa.Table):
            raise LowtideError(
                "only tables are released batch by batch; release others with `lowtide release`"
            )
        released: pa.RecordBatch = canonical_table(changed.samples).combine_chunks().to_batches()[0]
        return released


def _text(path: str | Path | None) -> str | None:
    return None if path is None else str(path)


def _fresh(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def fault(error: BaseException) -> dict[str, str]:
    """An exception as plain values; of a fault of ours only the type, since its text may quote
    data.
    """
    if isinstance(error, MemoryError):
        return {"error": "there is not enough memory for it; use fewer workers, or smaller shards"}
    if isinstance(error, LowtideError):
        return {"error": str(error)}
    return {
        "error": (
            f"{type(error).__name__} in a worker; release with one worker and --debug to see where"
        )
    }


def main() -> None:
    """Work until the standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever is printed must not stand among the answers
    worker = None
    noise = None
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            worker = worker or Worker(Path(sys.argv[1]))
            if "key" in asked:
                noise = (
                    None if asked["key"] is None else noises.KeyedNoise(bytes.fromhex(asked["key"]))
                )
                answer: dict[str, Any] = {}
            else:
                answer = worker.do(asked["task"], asked["part"], noise)
        except Exception as error:
            answer = fault(error)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
