"""Which format a file has, by its suffix, and whether it can be opened at all."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lowtide.errors import LowtideError

AnyPath = str | os.PathLike[str]
Name = Literal["csv", "parquet", "arrow", "jsonl"]


@dataclass(frozen=True)
class Format:
    """A file format: its name and, for separated text, what separates cells and whether it is compressed."""

    name: Name
    delimiter: str = ","
    gzip: bool = False


FORMATS = {
    ".csv": Format("csv"),
    ".csv.gz": Format("csv", gzip=True),
    ".tsv": Format("csv", delimiter="\t"),
    ".parquet": Format("parquet"),
    ".pq": Format("parquet"),
    ".arrow": Format("arrow"),
    ".feather": Format("arrow"),
    ".ipc": Format("arrow"),
    ".jsonl": Format("jsonl"),
    ".ndjson": Format("jsonl"),
}


def format_of(path: AnyPath) -> Format:
    """The format that the suffix of `path` stands for; upper case is the same."""
    name = Path(path).name.lower()
    for suffix, form in FORMATS.items():
        if name.endswith(suffix):
            return form
    raise LowtideError(f"cannot tell the format of {path}; its name must end in one of {', '.join(FORMATS)}")


def existing(path: AnyPath) -> Path:
    """Return `path` when it is a file that can be opened and is not empty."""
    place = Path(path)
    if place.is_dir():
        raise LowtideError(f"{place} is a folder; give a file of it")
    try:
        with place.open("rb") as file:
            first = file.read(1)
    except FileNotFoundError:
        raise LowtideError(f"there is no file {place}{_nearby(place)}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise LowtideError(f"cannot read {place}: {reason}; check the path and who may read the file") from error
    if not first:
        raise LowtideError(f"{place} is an empty file; give one with a header and rows")
    return place


def find_column(name: str, columns: Iterable[str]) -> str:
    """Return `name` when it is one of `columns`, or say which one was probably meant."""
    known = list(columns)
    if name in known:
        return name
    folded = {column.casefold().strip(): column for column in known}
    close = difflib.get_close_matches(name.casefold().strip(), folded, n=1, cutoff=0.5)
    hint = f"did you mean {folded[close[0]]!r}?" if close else f"the columns are {_listing(known)}"
    raise LowtideError(f"no column {name!r}; {hint}")


def _nearby(place: Path) -> str:
    """A file of the same folder with nearly this name."""
    try:
        names = [entry.name for entry in place.parent.iterdir() if entry.is_file()]
    except OSError:
        return "; check the path"
    close = difflib.get_close_matches(place.name, names, n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else "; check the path"


def _listing(names: list[str], most: int = 12) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "none"
