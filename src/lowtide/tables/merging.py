"""Columns made coarser, the same for everybody: numbers and dates in bands, categories joined.

What comes out is true, only less exact: a band holds the value it stands for, a joined category
names it. A merged column holds text. A category that was not judged, or a value outside a range
that the user gave, is blank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa

from lowtide.errors import LowtideError
from lowtide.tables.bands import MISSING, UNJUDGED, Bands
from lowtide.tables.columns import texts_of
from lowtide.types import Ints

_NAMED = 3  # values of a joined category that its label names
_SHOWN = 12  # labels that a plan lists of one column


@dataclass(frozen=True)
class Groups:
    """How a column of categories becomes fewer.

    Attributes:
        values: the categories that were judged, as texts.
        group: the group of each.
        labels: of the groups.
    """

    values: tuple[str, ...]
    group: tuple[int, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.group) or len(set(self.values)) < len(self.values):
            raise LowtideError("every category must be in one group; make the plan again")
        if set(self.group) != set(range(len(self.labels))) or len(set(self.labels)) < len(
            self.labels
        ):
            raise LowtideError(
                "groups of categories need one label each, all different; make the plan again"
            )

    def codes(self, column: Any) -> Ints:
        """The group of each cell of a narwhals column, (n,); `UNJUDGED` for a category that was
        not.
        """
        known = dict(zip(self.values, self.group, strict=True))
        texts, cells = texts_of(column)
        codes = np.array([known.get(text, UNJUDGED) for text in texts], dtype=np.intp)[cells]
        if column.null_count() == 0:
            return codes
        return np.where(column.is_null().to_numpy().astype(bool), MISSING, codes)

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"values": list(self.values), "group": list(self.group), "labels": list(self.labels)}


def group_labels(groups: Sequence[Sequence[str]], nameable: Mapping[str, int]) -> tuple[str, ...]:
    """What joined categories are called: by their most frequent values; rare ones are never named.

    Args:
        groups: the categories of each group.
        nameable: how often each category that may be named occurs.
    """
    labels: list[str] = []
    for group in groups:
        known = sorted(
            (value for value in group if value in nameable),
            key=lambda value: (-nameable[value], value),
        )
        names = known[:_NAMED]
        rest = len(group) - len(known[:_NAMED])
        label = " or ".join(names)
        if rest:
            label = f"{', '.join(names)} or others" if names else "other"
        plain = label
        number = 1
        while label in labels:
            number += 1
            label = f"{plain} ({number})"
        labels.append(label)
    return tuple(labels)


class Merged(NamedTuple):
    """A table with merged columns.

    Attributes:
        table: of the library that the given one had.
        blank: how many cells are blank because nobody judged their value.
    """

    table: Any
    blank: int


@dataclass(frozen=True, eq=False)
class Merging:
    """What becomes of the columns that are merged; all others stay as they are.

    Attributes:
        columns: by name.
    """

    columns: Mapping[str, Bands | Groups]

    def apply(self, table: Any) -> Merged:
        """Merge in a data frame of any library; a merged column holds text, and is missing where it
        was.
        """
        frame = nw.from_native(table, eager_only=True)
        own = {str(name): name for name in frame.columns}
        lacking = [name for name in self.columns if name not in own]
        if lacking:
            raise LowtideError(
                f"X lacks the column(s) {', '.join(lacking)} that were there in training"
            )
        changed = []
        blank = 0
        for name, merge in self.columns.items():
            column = frame.get_column(own[name])
            codes = merge.codes(column)
            blank += int(np.count_nonzero(codes == UNJUDGED))
            changed.append(labelled(column, codes, merge.labels))
        return Merged(frame.with_columns(*changed).to_native() if changed else table, blank)

    def on_card(self) -> dict[str, tuple[str, ...]]:
        """The merged columns and what each shows, as a card lists them."""
        labels = tuple(shown_labels(merge) for merge in self.columns.values())
        return {"merged": tuple(self.columns), "merged_labels": labels}

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        return {name: merge.to_config() for name, merge in self.columns.items()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Merging:
        """Read back what `to_config` wrote."""
        return cls({name: _read(entry) for name, entry in config.items()})


def shown_labels(merge: Bands | Groups) -> str:
    """The labels of a column, separated so that they can be told apart; of very many the first."""
    rest = len(merge.labels) - _SHOWN
    between = ", " if isinstance(merge, Bands) else "; "
    return between.join(merge.labels[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def is_data_frame(x: Any) -> bool:
    """Whether columns of `x` can hold labels."""
    return bool(nw.dependencies.is_into_dataframe(x))


def labelled(column: Any, codes: Ints, labels: Sequence[str]) -> Any:
    """The labels (n,) of codes in a column of the same library, missing where a code is
    negative.
    """
    places = codes.astype(np.int32)
    gone = places < 0
    found = pa.array(labels, pa.string()).take(pa.array(places, mask=gone if gone.any() else None))
    if column.implementation.is_pyarrow():
        return nw.from_native(pa.chunked_array([found]), series_only=True).alias(column.name)
    series = nw.new_series(column.name, found.to_pylist(), nw.String, backend=column.implementation)
    index = nw.maybe_get_index(column)
    return series if index is None else nw.maybe_set_index(series, index=index)


def _read(entry: Mapping[str, Any]) -> Bands | Groups:
    if "cuts" not in entry:
        return Groups(
            tuple(entry["values"]), tuple(map(int, entry["group"])), tuple(entry["labels"])
        )
    ends = {name: None if entry[name] is None else float(entry[name]) for name in ("low", "high")}
    cuts = tuple(map(float, entry["cuts"]))
    return Bands(cuts, tuple(entry["labels"]), entry["dates"], bool(entry["whole"]), **ends)
