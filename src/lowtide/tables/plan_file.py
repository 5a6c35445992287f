"""A plan for the tables of one file layout: made once, then used to release any number of files.

It is the hider, and what the hider does not know: the name of the secret's column, which never leaves the house, and
the columns that name rows, which cannot be judged and are hidden unless they must be kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from torch import Tensor

from lowtide.bundles import read_bundle, write_bundle
from lowtide.density.masking import Bools
from lowtide.disclose.noise import KeyedNoise
from lowtide.errors import LowtideError
from lowtide.files import write_whole
from lowtide.tables.hider import TableHider

FORMAT = "lowtide-plan"
VERSION = 1


@dataclass(frozen=True, eq=False)
class TablePlan:
    """What to do with a table.

    Attributes:
        hider: what to hide in the columns that were judged.
        secret: the name of the secret's column, dropped from every release.
        identifiers: names of columns that name rows: blank in every release.
        columns: the columns of the file it was made from, in order, with their types in words.
        kept: identifiers that are released all the same, on the user's word.
        utility: the column that the release should still tell, or `None`.
    """

    hider: TableHider
    secret: str
    identifiers: tuple[str, ...]
    columns: Mapping[str, str]
    kept: tuple[str, ...] = ()
    utility: str | None = None

    def __post_init__(self) -> None:
        """Refuse a plan that does not say of every column what becomes of it."""
        judged = self.hider.mechanism.encoder.names
        told = [*judged, *self.identifiers, *self.kept, self.secret]
        if len(set(told)) < len(told) or set(told) != set(self.columns):
            raise LowtideError("a plan must say of every column, once, whether it is judged, blank, kept or the secret")
        if self.utility is not None and self.utility not in judged:
            raise LowtideError("the utility of a plan must be one of the columns that were judged")

    def release(
        self, table: pa.Table, *, noise: KeyedNoise | None = None, ids: str | None = None
    ) -> tuple[pa.Table, Bools]:
        """Release a table of the same columns; with the secret's column or without it.

        Args:
            table: as read from a file.
            noise: where noise is drawn from, if any is.
            ids: the column that identifies rows, needed where noise is drawn.

        Returns:
            The released table, and what was hidden of each row, (n, m).
        """
        self.check_columns(table.column_names)
        judged = [name for name in table.column_names if name in self.hider.mechanism.encoder.names]
        rows = table.select(judged)
        given = None if ids is None else np.asarray(table[ids].to_pylist())
        hidden, flags = self.hider.release(rows, noise=noise, ids=given)
        for place, name in enumerate(table.column_names):
            if name in self.identifiers:
                blank = _blank(table[name])
                hidden = hidden.add_column(min(place, hidden.num_columns), table.schema.field(name), blank)
            elif name in self.kept:
                hidden = hidden.add_column(min(place, hidden.num_columns), table.schema.field(name), table[name])
        return hidden.select([name for name in table.column_names if name != self.secret]), flags

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse a table of other columns than the plan was made for; the secret may be there or not."""
        missing = [name for name in self.columns if name not in names and name != self.secret]
        extra = [name for name in names if name not in self.columns]
        if missing or extra:
            parts = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(extra)} more"] * bool(extra)
            raise LowtideError(
                f"the plan was made for other columns: this table {' and '.join(parts)}; make a plan from this table"
            )

    def parts(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The plan as plain JSON and tensors."""
        config, tensors = self.hider.parts()
        head = {
            "secret": self.secret,
            "identifiers": list(self.identifiers),
            "kept": list(self.kept),
            "columns": dict(self.columns),
            "utility": self.utility,
        }
        return {**head, **config}, tensors

    def save(self, path: str | Path) -> None:
        """Write the plan: a single `.json` file where it needs no weights, else a folder with the bundle."""
        target = Path(path)
        config, tensors = self.parts()
        if target.suffix != ".json":
            write_bundle(target, config, tensors, form=FORMAT, beside=self.hider.card.files())
        elif tensors:
            raise LowtideError(
                f"the policy {self.hider.policy.name!r} needs its network, which no JSON file holds; name a folder "
                f"instead, such as {target.with_suffix('.lowtide').name}"
            )
        else:
            head = {"format": FORMAT, "version": VERSION}
            write_whole(target, json.dumps({**head, **config}, indent=2, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> TablePlan:
        """Read a plan back, from a file or a folder."""
        source = Path(path)
        config, tensors = read_bundle(source, form=FORMAT) if source.is_dir() else (_read_json(source), {})
        hider = TableHider.from_parts(config, tensors, source)
        try:
            identifiers, kept = (tuple(_texts(config[key])) for key in ("identifiers", "kept"))
            columns = dict(zip(config["columns"], _texts(config["columns"].values()), strict=True))
            return cls(hider, config["secret"], identifiers, columns, kept, config["utility"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise LowtideError(
                f"{path} lacks or garbles a part of a plan; make it again with `lowtide plan`"
            ) from error


def _blank(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same column with nothing in it: the text `hidden`, or missing values."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.if_else(pa.scalar(True), pa.scalar("hidden", column.type), column)
    return pa.chunked_array([pa.nulls(len(column), column.type)])


def _texts(values: Iterable[Any]) -> list[str]:
    """A list of texts as it was written, and nothing that merely looks like one."""
    found = list(values)
    if isinstance(values, (str, Mapping)) or not all(isinstance(value, str) for value in found):
        raise TypeError("not a list of texts")
    return found


def _read_json(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LowtideError(f"cannot read the plan {path}: {error.strerror}; make one with `lowtide plan`") from error
    except (ValueError, RecursionError) as error:
        raise LowtideError(f"{path} is no JSON: truncated or altered; make it again with `lowtide plan`") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise LowtideError(f"{path} is no plan: its format is not {FORMAT!r}; make one with `lowtide plan`")
    if config.get("version") != VERSION:
        raise LowtideError(f"{path} has another version of the plan format than {VERSION}; make it again")
    return config
