"""Folders of images released in parts, by any number of processes.

A worker writes images under the number they have; the process that started it gives them their
names, so that new names are drawn once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from lowtide.disclose import plan_file
from lowtide.disclose.noise import Ids, KeyedNoise
from lowtide.errors import LowtideError
from lowtide.images import folder, options, releasing, writing
from lowtide.images.files import Coding, Header, spread
from lowtide.images.mechanism import BATCH
from lowtide.places import Place, from_plain, identity, to_plain
from lowtide.protocols import Changed

_MOST = 32 * BATCH  # images of a part, at most: a part that is lost is soon done again


class ImagePartedJob:
    """A folder of images that is released in parts."""

    looks = False

    def __init__(
        self, source: Place, plan: plan_file.Plan, options: options.ImageOptions, *, ids: Any
    ) -> None:
        if not source.is_dir():
            raise LowtideError(
                f"{source} is one file, which one process releases; leave out workers and engine"
            )
        self._job = releasing.ImageJob(
            source, plan, options, ids=ids, progress=False, thorough=False
        )
        self._job.refuse_parts()
        self._source = source
        self._options = options
        self._origin = to_plain(source.absolute() if isinstance(source, Path) else source)

    def recipe(self, out: Path, *, sharded: bool) -> dict[str, Any]:
        """What all images have in common; refuses shards, since a folder of images is one."""
        if sharded:
            raise LowtideError(
                "images are released into one folder, as they lie in one; leave out shards"
            )
        self._job.check_output(out)
        found = self._job.folder
        return {
            "layout": found.layout,
            "shape": found.shape,
            "quality": self._options.quality,
            "png": self._options.png,
        }

    def parts(self, rows: int, work: Path, done: frozenset[int]) -> Iterator[dict[str, Any]]:
        """Some images each, by name, with what their headers say."""
        found = self._job.folder
        ids = self._job.ids
        step = min(rows, _MOST)
        for number, start in enumerate(range(0, len(found), step)):
            index = np.arange(start, min(start + step, len(found)))
            headers = [found.header(row) for row in index.tolist()]
            codings = list(dict.fromkeys(header.coding for header in headers))
            part: dict[str, Any] = {
                "number": number,
                "name": f"images {start:,} to {index[-1] + 1:,}",
                "start": start,
                "files": [found.names[row] for row in index.tolist()],
                "source": self._origin,
                "identity": [identity(self._source / found.names[row]) for row in index.tolist()],
                "sizes": [header.size for header in headers],
                "coding": [codings.index(header.coding) for header in headers],
                "codings": [None if coding is None else asdict(coding) for coding in codings],
            }
            yield part if ids is None else {**part, "ids": ids[index].tolist()}

    def learn(self, looks: Iterable[Path], place: Path) -> None:
        """Nothing has to be known of the whole."""

    def join(
        self,
        shards: Sequence[Path],
        private: Sequence[Path],
        out: Path,
        staged: Callable[..., Path],
        *,
        sharded: bool,
    ) -> Mapping[str, Path]:
        """A folder like the source, with labels; the list of new names beside it, where there are
        any.
        """
        with self._job.sink(out, staged) as sink:
            for shard in shards:
                files = sorted(shard.iterdir())
                sink.move([int(path.stem) for path in files], files)
        mapping = self._options.mapping
        return {} if mapping is None else {"mapping": Path(mapping)}


class ImagePartWorker:
    """Changes parts of a folder of images; see `PartWorker`."""

    looks = False

    def __init__(self, plan: plan_file.Plan, recipe: Mapping[str, Any]) -> None:
        self._plan = plan
        self._recipe = recipe
        self._part: releasing.ImageBatches | None = None

    def look(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """Nothing has to be known of the whole."""
        return {}

    def learnt(self, place: Path) -> None:
        """Nothing was."""

    def batches(self, part: Mapping[str, Any]) -> Iterator[Any]:
        """The images of a part, batch by batch."""
        ids = None if "ids" not in part else np.array(part["ids"], np.uint64)
        self._part = releasing.ImageBatches(self._opened(part), self._plan, ids=ids)
        return self._part.batches()

    def change(self, batch: Any, noise: KeyedNoise | None) -> Changed:
        """Hide in some images what the plan says."""
        if self._part is None:
            raise LowtideError("images are released from folders; use `lowtide release`")
        return self._part.change(batch, noise)

    def sink(self, part: Mapping[str, Any], shard: Path, private: Path) -> ImagePartSink:
        """Files of images, by number."""
        return ImagePartSink(self._opened(part), part["start"], shard, self._recipe)

    def seen(self) -> Ids | None:
        """Noise of images is keyed by all that they show, so that ids need not differ."""
        return None

    def _opened(self, part: Mapping[str, Any]) -> folder.ImageFolder:
        """The images of a part, without labels."""
        codings = [_coding(one) for one in part["codings"]]
        headers = tuple(
            Header((size[0], size[1]), False, codings[which])
            for size, which in zip(part["sizes"], part["coding"], strict=True)
        )
        recipe = self._recipe
        names = tuple(part["files"])
        height, width, channels = recipe["shape"]
        resized = self._plan.layout["resize"] is not None
        source = folder.FileImages(
            from_plain(part["source"]), names, (height, width, channels), resized, headers
        )
        rows = np.arange(len(names))
        nothing = folder.Skipped({})
        return folder.ImageFolder(
            source.root, recipe["layout"], names, pa.table({}), nothing, source, rows
        )


def _coding(said: Mapping[str, Any] | None) -> Coding | None:
    return None if said is None else Coding(tuple(map(tuple, said["tables"])), said["subsampling"])


class ImagePartSink:
    """Images of a part, each in a file that is named by the number it has among all."""

    def __init__(
        self, images: folder.ImageFolder, start: int, shard: Path, recipe: Mapping[str, Any]
    ) -> None:
        suffixes = [
            ".png" if recipe["png"] else PurePosixPath(name).suffix for name in images.names
        ]
        names = [f"{start + row:09d}{suffix}" for row, suffix in enumerate(suffixes)]
        self._sink = writing.FolderSink(
            shard, images, names=names, quality=recipe["quality"], renamed=False
        )

    def __enter__(self) -> ImagePartSink:
        return self

    def write(self, changed: Changed) -> None:
        """Write a batch."""
        rows, pixels = changed.samples
        spread(lambda place: self._sink.put(int(rows[place]), pixels[place]), range(len(rows)))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sink.close()
