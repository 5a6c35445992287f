"""The frozen result for tables: what to hide and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import narwhals.stable.v2 as nw
import numpy as np
from torch import Tensor

from lowtide.disclose.budget import Hider, reading
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.errors import LowtideError
from lowtide.tables.cells import write
from lowtide.tables.encoder import TableEncoder
from lowtide.tables.layout import column_names
from lowtide.tables.mechanism import TableMechanism
from lowtide.tables.policies import ColumnPolicy, FixedColumns, PaperColumns
from lowtide.tables.sequential import SequentialColumns
from lowtide.types import Bools, Floats32

_POLICIES: dict[str, Callable[..., ColumnPolicy]] = {
    policy.name: policy.read for policy in (FixedColumns, SequentialColumns, PaperColumns)
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

    def transform(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> Any:
        """Hide in a table; arguments as in `release`."""
        return self.release(x, noise=noise, ids=ids)[0]

    def release(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> tuple[Any, Bools]:
        """Hide in a table; the released table, and what was hidden of each row, (n, m).

        Args:
            x: rows with the columns of the reference data.
            noise: where noise is drawn from, if the mechanism draws any.
            ids: one value per row that stays with the row; needed where noise is drawn.
        """
        if isinstance(self.policy, FixedColumns) and not self.mechanism.draws and nw.dependencies.is_into_dataframe(x):
            return self._redact(x, self.policy.hidden)
        rows, flags, drawn = self._flags(x, noise, ids)
        # As everywhere in scikit-learn, a list of rows comes back as an array.
        table = x if nw.dependencies.is_into_dataframe(x) or hasattr(x, "detach") else np.asarray(x)
        return write(table, self.mechanism.hide(rows, flags, **drawn), flags, self.mechanism), flags

    def flags(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> Bools:
        """What is hidden of each row, (n, m); arguments as in `release`."""
        return self._flags(x, noise, ids)[1]

    def _redact(self, x: Any, hidden: Bools) -> tuple[Any, Bools]:
        """What `release` does to a data frame where no row matters: refuse the same tables, but encode no text."""
        refuse_new_columns(x, self.mechanism.encoder)
        n = self.mechanism.encoder.check(x)
        row = self.mechanism.hide(np.zeros((1, sum(self.mechanism.encoder.widths))), hidden)
        rows = np.broadcast_to(row, (n, row.shape[1]))
        return write(x, rows, hidden, self.mechanism), np.tile(hidden, (n, 1))

    def _flags(self, x: Any, noise: KeyedNoise | None, ids: Any) -> tuple[Floats32, Bools, dict[str, Any]]:
        refuse_new_columns(x, self.mechanism.encoder)
        rows = self.mechanism.encoder.encode(x)
        drawn = {"noise": noise, "ids": row_ids(ids, len(rows))} if self.mechanism.draws else {}
        everything = np.ones(len(self.mechanism.features), dtype=bool)
        standins = rows if isinstance(self.policy, FixedColumns) else self.mechanism.hide(rows, everything, **drawn)  # type: ignore[arg-type]
        return rows, self.policy.flags(rows, standins), drawn

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str | Path) -> TableHider:
        """Rebuild what `parts` took apart; `where` it came from is for the error message."""
        with reading(where):
            mechanism = TableMechanism.from_config(config["mechanism"])
            policy = _POLICIES[config["policy"]["name"]](config["policy"], tensors, mechanism.features, where)
            card = ReleaseCard.from_json(config["card"])
            if tuple(feature.name for feature in card.features) != mechanism.features.names:
                raise LowtideError("the card is about other features than the mechanism; make it again")
            return cls(policy, mechanism, card)


def names_of(x: Any) -> list[str]:
    """The names of the columns of a data frame of any library; none for an array."""
    if not nw.dependencies.is_into_dataframe(x):
        return []
    return list(map(str, nw.from_native(x, eager_only=True).columns))


def refuse_new_columns(x: Any, encoder: TableEncoder) -> None:
    """Refuse columns that were not there in training: nothing is known about them, and one may be the secret."""
    extra = [name for name in names_of(x) if name not in encoder.names] if encoder.names else []
    if extra:
        raise LowtideError(
            f"X has the column(s) {', '.join(extra)} that were not there in training, so nobody knows what they tell; "
            "drop them, or fit with them"
        )
