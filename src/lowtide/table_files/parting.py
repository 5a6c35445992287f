"""Table files that are released in parts: what every worker must know of them, and how they are
cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lowtide.places import Place
from lowtide.table_files import concatenation, formats, reading, several


@dataclass(frozen=True)
class PartedFiles:
    """A file, several files or a pattern, to be read in parts.

    Attributes:
        source: where they are.
        schema: the columns and types wanted.
        encoding: of separated text.
    """

    source: Place
    schema: pa.Schema
    encoding: str

    def recipe(self, out: Path, *, sharded: bool, whole: bool = False) -> dict[str, Any]:
        """Schema, encoding, suffix of what is written, and which files these are, as plain values.

        Args:
            out: what is written.
            sharded: whether parts stay files of their own.
            whole: whether a part depends on all files.
        """
        files = several.files_of(self.source)
        known_by_parts = not whole and not several.is_laid_out(files)
        return {
            "schema": several.schema_text(self.schema),
            "encoding": self.encoding,
            "suffix": _suffix_of(files[0]) if sharded else concatenation.shard_suffix(out),
            "files": [] if known_by_parts else several.identity(files),
        }

    def parts(self, rows: int, work: Path, done: frozenset[int]) -> Iterator[dict[str, Any]]:
        """Rows of Parquet files, other files one by one, and batches of a single other file; see
        `PartedJob.parts`.
        """
        return reading.parts_of(
            self.source, like=self.schema, rows=rows, work=work, done=done, encoding=self.encoding
        )


@dataclass(frozen=True)
class PartReader:
    """Reads parts by the recipe of `PartedFiles`.

    Attributes:
        suffix: of what is written.
    """

    schema: pa.Schema | None
    encoding: str
    suffix: str

    @classmethod
    def of(cls, recipe: Mapping[str, Any]) -> PartReader:
        """By a recipe; one that names no schema reads nothing."""
        text = recipe.get("schema")
        schema = None if text is None else several.schema_from_text(text)
        return cls(schema, recipe.get("encoding", "utf-8"), recipe.get("suffix", ".parquet"))

    def batches(self, part: Mapping[str, Any]) -> Iterator[pa.Table]:
        """The tables of a part."""
        return reading.part_batches(part, like=self.schema, encoding=self.encoding)

    def file(self, part: Mapping[str, Any], folder: Path) -> Path:
        """What a part is written to."""
        return folder / f"part-{part['number']:05d}{self.suffix}"


def only_file(folder: Path) -> Path:
    """The file of a shard."""
    return next(iter(folder.iterdir()))


def _suffix_of(path: Place) -> str:
    name = path.name.lower()
    return next(
        suffix for suffix in sorted(formats.FORMATS, key=len, reverse=True) if name.endswith(suffix)
    )
