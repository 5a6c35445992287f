"""What a file holds, for a person to choose from: `python -m lowtide.studio.describing FILE KIND
OUT`.

A process of its own, with bounded memory: a hostile file costs nobody else anything.
"""

import json
import math
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image

from lowtide.errors import LowtideError
from lowtide.files import write_whole
from lowtide.images.files import is_image, quiet
from lowtide.images.layouts import list_folder
from lowtide.studio.limits import Limits, check_pixels, suffix_of
from lowtide.studio.problems import problem_of
from lowtide.table_files.formats import is_text, type_word
from lowtide.table_files.reading import batches

THUMBNAILS = 24
_SIDE = 128  # pixels of a thumbnail
_ROWS = 10  # of the preview
_MEMORY = 4 << 30
_CLASSES = 100  # a secret has at most so many values
_WORDY = 3.0  # words that a cell of a column of texts has on average, at least
_CELL = 200  # characters of a cell that the preview shows
_READ = 65_536  # rows that are looked at


def describe(path: Path, kind: str, out: Path) -> dict[str, Any]:
    """Rows, columns and a preview of a file or folder; thumbnails of images go to the folder
    `out`.
    """
    if kind == "images":
        return (
            _describe_images(path, out)
            if path.is_dir()
            else _empty(["arrays of images have no preview"])
        )
    if path.is_dir():
        return _describe_text_folder(path)
    return describe_table(path, kind)


def _empty(notes: list[str]) -> dict[str, Any]:
    return {
        "rows": 0,
        "columns": [],
        "preview": [],
        "suggested": {},
        "thumbnails": 0,
        "notes": notes,
    }


def describe_table(path: Path, kind: str) -> dict[str, Any]:
    """Columns with their types, distinct and missing values; the first rows; which column is
    probably what.
    """
    limits = Limits()
    if suffix_of(path.name) in (".parquet", ".pq"):
        _check_parquet(path, limits)
    tables = batches(path, rows=_READ)
    first = next(tables)
    if first.num_columns > limits.columns:
        raise LowtideError(
            f"a table of {first.num_columns:,} columns is too wide; at most {limits.columns:,} are"
            " taken"
        )
    rows = len(first)
    for more in tables:
        rows += len(more)
        if rows * first.num_columns > limits.cells:
            raise LowtideError(
                f"the table has more than {limits.cells:,} cells; give fewer rows or columns"
            )
    columns = [_column(name, first[name]) for name in first.column_names]
    notes = (
        []
        if rows == len(first)
        else [f"distinct and missing values are counted in the first {len(first):,} rows"]
    )
    preview = [
        [_cell(value) for value in row.values()] for row in first.slice(0, _ROWS).to_pylist()
    ]
    described = {
        "rows": rows,
        "columns": columns,
        "preview": preview,
        "thumbnails": 0,
        "notes": notes,
    }
    return {**described, "suggested": _suggested(first, columns)}


def _check_parquet(path: Path, limits: Limits) -> None:
    """By its footer: a few bytes can stand for a billion rows."""
    try:
        about = pq.ParquetFile(path).metadata
    except (pa.ArrowException, OSError) as error:
        raise LowtideError(
            "this is not a Parquet file, or a damaged one; write it again"
        ) from error
    if (
        about.num_columns > limits.columns
        or about.num_rows * max(about.num_columns, 1) > limits.cells
    ):
        raise LowtideError(
            f"a table of {about.num_rows:,} rows and {about.num_columns:,} columns is too large; at"
            f" most {limits.columns:,} columns and {limits.cells:,} cells are taken in"
        )


def _column(name: str, values: pa.ChunkedArray) -> dict[str, Any]:
    try:
        distinct = pc.count_distinct(values.combine_chunks(), mode="only_valid").as_py()
    except pa.ArrowException:  # a type that Arrow does not compare
        distinct = 0
    missing = values.null_count
    about = {"name": name, "type": type_word(values.type), "distinct": distinct}
    return {**about, "missing": missing, "example_count": len(values) - missing}


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    text = str(value)
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _suggested(table: pa.Table, columns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The column that is probably the secret, ids, utility, texts or authors; a person decides."""
    rows = len(table)
    classes = [
        one["name"] for one in columns if 2 <= one["distinct"] <= min(_CLASSES, max(2, rows // 10))
    ]
    ids = [
        one["name"]
        for one in columns
        if one["distinct"] == rows and one["type"] in ("integer", "text")
    ]
    wordy = [name for name in table.column_names if _words(table[name]) >= _WORDY]
    ids = [name for name in ids if name not in wordy]
    few = sorted(
        classes, key=lambda name: next(one["distinct"] for one in columns if one["name"] == name)
    )
    named = sorted(
        (name for name in classes if name.casefold() in _LIKELY),
        key=lambda n: _LIKELY.index(n.casefold()),
    )
    secret = (named or few or [None])[0]
    utility = next(
        (name for name in classes if name != secret and name.casefold() in _USEFUL), None
    )
    found: dict[str, Any] = {
        "kind": "tables",
        "secret": secret,
        "ids": ids[0] if ids else None,
        "utility": utility,
    }
    if wordy:
        about = {one["name"]: one["distinct"] for one in columns}
        authors = [
            name
            for name in table.column_names
            if name.casefold() in _AUTHORS and 2 < about[name] < rows
        ]
        found |= {
            "kind": "texts",
            "text": wordy[0],
            "group": authors[0] if authors else None,
            "utility": None,
        }
    return found


_LIKELY = (
    "secret",
    "vote",
    "diagnosis",
    "disease",
    "religion",
    "party",
    "smile",
    "gender",
    "sex",
    "race",
    "home",
)
_USEFUL = {"income", "salary", "score", "outcome", "target", "label"}
_AUTHORS = {"author", "user", "writer", "account", "handle", "user_id", "author_id", "screen_name"}


def _words(values: pa.ChunkedArray) -> float:
    if not is_text(values.type):
        return 0.0
    some = values.slice(0, 500).cast(pa.string()).drop_null()
    if not len(some):
        return 0.0
    return float(pc.mean(pc.add(pc.count_substring(some, " "), 1)).as_py())


def _describe_images(folder: Path, out: Path) -> dict[str, Any]:
    """Images and their labels, with thumbnails of some."""
    listing = list_folder(folder)
    labels = listing.labels
    names = [name for name in listing.names if is_image(name)]
    shown = 0
    with quiet():
        for name in names[:THUMBNAILS]:
            check_pixels(folder / name, Limits())
            try:
                with Image.open(folder / name) as image:
                    image.thumbnail((_SIDE, _SIDE))
                    image.convert("RGB").save(out / f"{shown}.png")
            except (OSError, ValueError, SyntaxError):
                continue
            shown += 1
    columns = [_column(name, labels[name]) for name in labels.column_names]
    preview = [
        [_cell(value) for value in row.values()] for row in labels.slice(0, _ROWS).to_pylist()
    ]
    suggested = _suggested(labels, columns) if len(labels) else {}
    suggested |= {"kind": "images", "ids": None}
    described = {"rows": len(names), "columns": columns, "preview": preview, "suggested": suggested}
    return {**described, "thumbnails": shown, "notes": []}


def _describe_text_folder(folder: Path) -> dict[str, Any]:
    """Texts in one folder for each class, as they are read by the kind."""
    found = sorted(path for path in folder.rglob("*.txt") if path.is_file())
    classes = sorted({path.parent.name for path in found})
    column = {
        "name": "label",
        "type": "text",
        "distinct": len(classes),
        "missing": 0,
        "example_count": len(found),
    }
    preview = [
        [path.parent.name, _cell(path.read_text("utf-8", "replace")[:1000])]
        for path in found[:_ROWS]
    ]
    described = {
        "rows": len(found),
        "columns": [column],
        "preview": preview,
        "thumbnails": 0,
        "notes": [],
    }
    return {
        **described,
        "suggested": {"kind": "texts", "secret": "label", "ids": None, "utility": None},
    }


def main(path: Path, kind: str, out: Path) -> int:
    """Write `look.json`, or `error.json`."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    try:
        write_whole(out / "look.json", json.dumps(describe(path, kind, out), allow_nan=False))
    except Exception as error:
        write_whole(out / "error.json", json.dumps(problem_of(error, {str(path.parent) + "/": ""})))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
