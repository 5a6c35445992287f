"""The frozen result for tables: what to hide and how.

From hidden rows back to a table of the kind that came in: same library, columns, order, index and
types.

Only hidden cells are written. All others keep the very values they had, which encoded rows, in
single precision and one-hot, no longer hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowtide.checks import LowtideError, check_shape
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.disclose.raw_past import RawPast, is_raw_past
from lowtide.disclose.row_keys import keys_of
from lowtide.disclose.saved import Hider, Tensors, reading
from lowtide.features import Features
from lowtide.table_files.canonical import canonical
from lowtide.tables import columns
from lowtide.tables.cells import repeat_arrow, scatter, withhold_new
from lowtide.tables.encoder import TableEncoder
from lowtide.tables.filling import ColumnFill
from lowtide.tables.frequencies import Frequencies
from lowtide.tables.layout import column_names, column_starts, owners
from lowtide.tables.mechanism import TableMechanism
from lowtide.tables.merging import Merged, is_data_frame, labelled
from lowtide.tables.policies import ColumnPolicy, FixedColumns, SequentialColumns
from lowtide.tables.redraw_policy import RedrawPolicy
from lowtide.tables.row_digests import digests_of
from lowtide.types import Bools, Floats32


def write(table: Any, rows: Floats32, hidden: ArrayLike, mechanism: TableMechanism) -> Any:
    """Put the hidden cells of encoded rows back into the table they were read from.

    Hidden numbers are rounded where the column holds whole numbers or booleans, hidden dates to the
    day or to what the type can tell. A redacted text shows `hidden`; so does a number that a plan
    with merged columns redacts. A redacted date, or a category of a type that lists its own, is
    missing. A response shows the category drawn. A hidden number is never missing; a number that is
    not hidden stays missing if it was.

    Args:
        table: the table as it was before, n rows: an array, a tensor, a list of rows, or a data
            frame of any library. Columns that the mechanism does not know are left as they are.
        rows: (n, encoded columns) as `TableMechanism.hide` returned them.
        hidden: (m,) or (n, m), the same as was given to `hide`.
        mechanism: the same mechanism.

    Returns:
        A new table; the one given is left as it was.
    """
    starts = column_starts(mechanism.encoder)
    check_shape("rows", rows.shape, ("n", int(starts[-1])))
    mask = mechanism.features.mask(hidden)
    if mask.ndim == 2 and len(mask) != len(rows):
        raise LowtideError(
            f"hidden has {len(mask)} rows and the table {len(rows)}; give one choice, or one"
            " per row"
        )
    owner = owners(mechanism.encoder, mechanism.features)
    cells = np.broadcast_to(mask, (len(rows), mask.shape[-1]))[:, owner]
    if hasattr(table, "detach"):
        return _tensor(table, rows, cells)
    if nw.dependencies.is_into_dataframe(table):
        everybody = mask if mask.ndim == 1 else np.zeros(mask.shape[1], dtype=bool)
        return _frame(table, rows, cells, everybody[owner], mechanism)
    if isinstance(table, (list, tuple)):
        return _array(np.asarray(table), rows, cells).tolist()
    if isinstance(table, np.ndarray):
        return _array(table, rows, cells)
    raise LowtideError(
        f"cannot write into a {type(table).__name__}; give an array, a tensor or a data frame"
    )


def _array(table: NDArray[Any], rows: Floats32, cells: Bools) -> NDArray[Any]:
    """Numbers only: encoded columns are the columns."""
    _same_shape(table.shape, rows)
    result = np.array(table)
    result[cells] = columns.to_dtype(rows[cells], result.dtype)
    return result


def _tensor(table: Any, rows: Floats32, cells: Bools) -> Any:
    _same_shape(tuple(table.shape), rows)
    result = table.detach().clone()
    held = result.cpu().numpy()
    # On the CPU `held` is a view of the clone; elsewhere the written copy is carried back.
    held[cells] = columns.to_dtype(rows[cells], held.dtype)
    return result.copy_(result.new_tensor(held))


def _same_shape(shape: tuple[int, ...], rows: Floats32) -> None:
    if shape != rows.shape:
        raise LowtideError(
            f"the table has shape {shape} and the rows {rows.shape}; write into the table they came"
            " from"
        )


def _frame(
    table: Any, rows: Floats32, cells: Bools, everybody: Bools, mechanism: TableMechanism
) -> Any:
    """The same for a data frame; `everybody` (columns,) marks what is hidden in every row, if there
    are any or not.
    """
    frame = nw.from_native(table, eager_only=True)
    if len(frame) != len(rows):
        raise LowtideError(
            f"the table has {len(frame)} rows, and {len(rows)} are to be written into it"
        )
    starts = column_starts(mechanism.encoder)
    own = {str(name): name for name in frame.columns}
    names = mechanism.encoder.names or tuple(own)
    lacking = [name for name in names if name not in own]
    if lacking or len(names) != cells.shape[1]:
        raise LowtideError(
            f"the table lacks the column(s) {', '.join(lacking)} that the rows were read from"
        )
    changed = []
    for j, name in enumerate(names):
        places = np.flatnonzero(cells[:, j])
        if everybody[j] and _is_marked(mechanism, j):
            gone = np.zeros(len(rows), dtype=np.intp)
            changed.append(labelled(frame.get_column(own[name]), gone, (columns.HIDDEN,)))
        elif len(places):
            column = _typed(frame.get_column(own[name]), mechanism, j)
            alike = mechanism.kinds[j] == "redact" and len(places) == len(rows)
            if (
                alike
                and column.implementation.is_pyarrow()
                and (rows[:, starts[j]] == rows[0, starts[j]]).all()
            ):
                changed.append(
                    repeat_arrow(
                        column, _shown(rows[:1, starts[j] : starts[j + 1]], column, mechanism, j)
                    )
                )
                continue
            shown = _shown(rows[places, starts[j] : starts[j + 1]], column, mechanism, j)
            changed.append(scatter(column, places, shown))
    return frame.with_columns(*changed).to_native() if changed else frame.clone().to_native()


def _is_marked(mechanism: TableMechanism, j: int) -> bool:
    """Whether input column j, redacted, says so in words: a 0 beside bands of text would be taken
    for a value.
    """
    number = mechanism.encoder.categories[j] is None and mechanism.encoder.dates[j] is None
    return (
        mechanism.merging is not None
        and number
        and mechanism.kinds[j] == "redact"
        and mechanism.fill == 0
    )


def _shown(rows: Floats32, column: Any, mechanism: TableMechanism, j: int) -> Any:
    """The values of input column j, given its encoded columns (n, width)."""
    encoder = mechanism.encoder
    kind = mechanism.kinds[j]
    categories = encoder.categories[j]
    dates = encoder.dates[j]
    if categories is None and dates is None:
        return columns.to_numbers(rows[:, 0], column)
    if kind == "gaussian" and dates is not None:
        return columns.to_dates(rows[:, 0], column, dates)
    if kind == "response" and categories is not None:
        other = categories[-1] if encoder.others[j] else None
        return columns.from_text([categories[k] for k in rows.argmax(axis=1)], column, other=other)
    return [
        columns.missing(column) if categories is None else columns.hidden_text(categories, column)
    ] * len(rows)


def _typed(column: Any, mechanism: TableMechanism, j: int) -> Any:
    """A column without a single value has any type; it gets one that can hold what is written into
    it.

    Otherwise what a batch shows would tell that all its values were missing.
    """
    text = mechanism.encoder.categories[j] is not None
    dates = mechanism.encoder.dates[j]
    fits = column.dtype != nw.Unknown
    if not text:
        fits = columns.holds_numbers(column) if dates is None else columns.holds_dates(column)
    if fits or not column.is_null().all():
        return column
    wanted: Any = nw.String if text else nw.Float64
    if dates is not None:
        wanted = (
            nw.Date
            if dates == "day" and not column.implementation.is_pandas_like()
            else nw.Datetime("us")
        )
    blank = nw.new_series(column.name, [None] * len(column), wanted, backend=column.implementation)
    index = nw.maybe_get_index(column)
    return blank if index is None else nw.maybe_set_index(blank, index=index)


class Disclosed(NamedTuple):
    """A released table.

    Attributes:
        table: of the library that the given one had.
        flags: (n, m) which features of each row are hidden.
        blank: how many cells are blank because the reference data did not have their value.
        beyond: how many numbers and dates are shown outside the range of the reference data.
    """

    table: Any
    flags: Bools
    blank: int
    beyond: int


_POLICIES: dict[str, Callable[..., ColumnPolicy]] = {
    policy.name: policy.read for policy in (FixedColumns, RedrawPolicy, SequentialColumns)
}


@dataclass(frozen=True, eq=False)
class TableHider(Hider):
    """Hides in tables what a policy says, by a mechanism.

    Attributes:
        policy: what to hide.
        mechanism: how it is disclosed.
        card: what is known of the release it was rehearsed with.
    """

    kind: ClassVar[str] = "tables"
    policy: ColumnPolicy
    mechanism: TableMechanism
    card: ReleaseCard

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return column_names(self.mechanism.encoder)

    @property
    def draws(self) -> bool:
        """Whether a release draws random numbers."""
        return (
            self.mechanism.draws or isinstance(self.policy, RedrawPolicy) or self.fill is not None
        )

    @property
    def fill(self) -> ColumnFill | None:
        """What hidden columns are filled in with, if anything."""
        return self.policy.fill if isinstance(self.policy, FixedColumns | RedrawPolicy) else None

    def transform(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> Any:
        """Hide in a table; arguments as in `release`."""
        return canonical(self.release(x, noise=noise, ids=ids)[0])

    def release(
        self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None
    ) -> tuple[Any, Bools]:
        """Hide in a table; the released table, and what was hidden of each row, (n, m); arguments
        as in `disclose`.
        """
        return self.disclose(x, noise=noise, ids=ids)[:2]

    def disclose(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> Disclosed:
        """Hide in a table what the policy says, and blank what the reference data did not have.

        Args:
            x: rows with the columns of the reference data.
            noise: where noise is drawn from, if the mechanism draws any.
            ids: one value per row that stays with the row, which noise is keyed by; by default the
                content of the row.
        """
        if isinstance(self.policy, RedrawPolicy):
            raise LowtideError(
                "redraw needs the secret of every row: release a table that has it, with release()"
            )
        ids = self.keyed_by(x, ids)
        x, unjudged = self._merged(x)
        if (
            isinstance(self.policy, FixedColumns)
            and self.mechanism.encoder.names
            and is_data_frame(x)
        ):
            table, flags = self._fixed(x, self.policy.hidden, noise, ids)
        else:
            rows, flags, drawn = self._flags(x, noise, ids)
            # As everywhere in scikit-learn, a list of rows comes back as an array.
            table = (
                x if nw.dependencies.is_into_dataframe(x) or hasattr(x, "detach") else np.asarray(x)
            )
            hidden = self.policy.hidden if isinstance(self.policy, FixedColumns) else flags
            table = write(table, self.mechanism.hide(rows, hidden, **drawn), hidden, self.mechanism)
        shown = ~flags[:, owners(self.mechanism.encoder, self.mechanism.features)]
        shown[:, self._labelled] = False  # nothing in them can be new
        table, blank, beyond = withhold_new(
            table, self.mechanism.encoder, shown, self.mechanism.fill
        )
        if self.fill is not None:
            if noise is None:
                raise LowtideError(
                    "what fills hidden columns is drawn at random; give a key, with release()"
                )
            table = self.fill.into(table, row_ids(ids, len(flags)), noise)
        return Disclosed(table, flags, blank + unjudged, beyond)

    def keyed_by(self, x: Any, ids: Any) -> Any:
        """What draws of n rows are keyed by: `ids` (n,) where these are given, else the content of
        x.
        """
        if ids is not None or not self.draws:
            return ids
        if not is_data_frame(x):
            self.mechanism.encoder.encode(x)  # refuses what is not rows of numbers
        return keys_of(digests_of(x))

    @property
    def merged(self) -> Bools:
        """(columns,) which are released coarser than they are."""
        merging = self.mechanism.merging
        return np.array(
            [merging is not None and name in merging.columns for name in self.names], dtype=bool
        )

    @property
    def _labelled(self) -> Bools:
        """(columns,) which are merged, and have no label that was not judged."""
        merging = self.mechanism.merging
        encoder = self.mechanism.encoder
        known = {} if merging is None else merging.columns
        judged = (set(values or ()) for values in encoder.categories)
        pairs = zip(self.names, judged, strict=True)
        return np.array(
            [name in known and set(known[name].labels) <= own for name, own in pairs], dtype=bool
        )

    def _merged(self, x: Any) -> Merged:
        """The table with its merged columns, where there are any."""
        if self.mechanism.merging is None:
            return Merged(x, 0)
        if not is_data_frame(x):
            raise LowtideError(
                "a merged column holds text, so merging needs a data frame; give one with named"
                " columns"
            )
        refuse_new_columns(x, self.mechanism.encoder)
        return self.mechanism.merging.apply(x)

    def redraw(
        self, x: Any, secret: Any, *, noise: KeyedNoise, ids: Any, counts: Frequencies | None = None
    ) -> Disclosed:
        """Redraw in a data frame; arguments as in `RedrawPolicy.release`."""
        if not isinstance(self.policy, RedrawPolicy):
            raise LowtideError(
                f"the policy {self.policy.name!r} draws nothing anew; call disclose()"
            )
        refuse_new_columns(x, self.mechanism.encoder)
        ids = self.keyed_by(x, ids)
        table, changed = self.policy.release(x, secret, noise=noise, ids=ids, counts=counts)
        return Disclosed(table, changed, 0, 0)

    def flags(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> Bools:
        """What is hidden of each row, (n, m); arguments as in `release`."""
        return self._flags(self._merged(x).table, noise, self.keyed_by(x, ids))[1]

    def _fixed(
        self, x: Any, hidden: Bools, noise: KeyedNoise | None, ids: Any
    ) -> tuple[Any, Bools]:
        """What `disclose` does to a data frame where the same is hidden in every row: only that is
        encoded.
        """
        refuse_new_columns(x, self.mechanism.encoder)
        n = self.mechanism.encoder.check(x)
        flags = np.tile(hidden, (n, 1))
        if not hidden.any():
            return nw.from_native(x, eager_only=True).clone().to_native(), flags
        own = self.mechanism.of(hidden)
        all_of_it = np.ones(len(own.features), dtype=bool)
        if own.draws:
            rows = own.hide(own.encoder.encode(x), all_of_it, noise=noise, ids=ids)
        else:  # no row matters
            row = own.hide(np.zeros((1, sum(own.encoder.widths))), all_of_it)
            rows = np.broadcast_to(row, (n, row.shape[1]))
        return write(x, rows, all_of_it, own), flags

    def _flags(
        self, x: Any, noise: KeyedNoise | None, ids: Any
    ) -> tuple[Floats32, Bools, dict[str, Any]]:
        refuse_new_columns(x, self.mechanism.encoder)
        rows = self.mechanism.encoder.encode(x)
        drawn: dict[str, Any] = {}
        if self.mechanism.draws:
            drawn = {"noise": noise, "ids": row_ids(ids, len(rows))}
        standins = rows
        if not isinstance(self.policy, FixedColumns):
            everything = np.ones(len(self.mechanism.features), dtype=bool)
            standins = self.mechanism.hide(rows, everything, **drawn)
        return rows, self.policy.flags(rows, standins), drawn

    @classmethod
    def from_parts(
        cls, config: Mapping[str, Any], tensors: Tensors, where: str | Path
    ) -> TableHider:
        """Rebuild what `parts` took apart; `where` it came from is for the error message."""
        with reading(where):
            mechanism = TableMechanism.from_config(config["mechanism"])
            policy = _read_policy(config["policy"], tensors, mechanism.features, where)
            card = ReleaseCard.from_json(config["card"])
            if tuple(feature.name for feature in card.features) != mechanism.features.names:
                raise LowtideError(
                    "the card is about other features than the mechanism; make it again"
                )
            _refuse_blurred_merging(mechanism, card)
            return cls(policy, mechanism, card)


def _read_policy(
    config: Mapping[str, Any], tensors: Tensors, features: Features, where: Any
) -> ColumnPolicy:
    if is_raw_past(config):
        return RawPast.read(config, tensors, len(features), where)
    return _POLICIES[config["name"]](config, tensors, features, where)


def _refuse_blurred_merging(mechanism: TableMechanism, card: ReleaseCard) -> None:
    """Refuse a plan of an older version that noises some columns beside others that are merged or
    redacted.
    """
    if card.mechanism == "mixed" or (mechanism.merging is not None and mechanism.draws):
        raise LowtideError(
            f"this plan has mechanism={card.mechanism!r} with noise on some columns, which Lowtide"
            " no longer has; plan again with mechanism 'redact', 'gaussian' or 'merge', or with"
            " policy 'redraw'"
        )


def names_of(x: Any) -> list[str]:
    """The names of the columns of a data frame of any library; none for an array."""
    if not nw.dependencies.is_into_dataframe(x):
        return []
    return list(map(str, nw.from_native(x, eager_only=True).columns))


def refuse_new_columns(x: Any, encoder: TableEncoder) -> None:
    """Refuse columns that were not there in training: nothing is known about them, and one may be
    the secret.
    """
    extra = [name for name in names_of(x) if name not in encoder.names] if encoder.names else []
    if extra:
        raise LowtideError(
            f"X has the column(s) {', '.join(extra)} that were not there in training, so nobody"
            " knows what they tell; drop them, or fit with them"
        )
