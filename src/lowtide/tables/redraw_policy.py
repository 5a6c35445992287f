"""What the policy `redraw` needs beside its steps: secrets, how often values occur, tables, and
what it found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from lowtide.checks import LowtideError
from lowtide.disclose.noise import Ids, KeyedNoise, row_ids
from lowtide.disclose.saved import Config, Parts, Tensors
from lowtide.disclose.secret_codes import SecretCodes
from lowtide.features import Features
from lowtide.interface import Estimate
from lowtide.tables.cells import scatter
from lowtide.tables.codes import CodedColumn
from lowtide.tables.filling import ColumnFill
from lowtide.tables.frequencies import Frequencies
from lowtide.tables.redrawing import ROWS_AT_ONCE, RedrawColumns, RedrawnRows
from lowtide.types import Bools, Floats, Ints


@dataclass(frozen=True)
class RedrawPoint:
    """One choice on the trade-off curve of redraw.

    Attributes:
        budget: the most that a row may tell for a class, in nats; `None` where the data stays as it
            is.
        changed: the share of all values that are changed.
        columns: (columns,) the share of each column.
        divergence: what it is at most at ε = 0, in either direction, with exact densities; `None`
            without a limit.
        read: AUC of freshly trained trees that guess the secret, cross-fitted.
        useful: the same for the utility, from the other columns; `None` when nothing is named.
    """

    budget: float | None
    changed: float
    columns: tuple[float, ...]
    divergence: float | None
    read: Estimate
    useful: Estimate | None = None

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        return {**asdict(self), "columns": list(self.columns)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> RedrawPoint:
        """Rebuild what `to_config` gave."""
        useful = config["useful"]
        shown = {
            "columns": tuple(map(float, config["columns"])),
            "read": Estimate(**config["read"]),
            "useful": None if useful is None else Estimate(**useful),
        }
        return cls(**{**config, **shown})


class Told(NamedTuple):
    """What somebody learns, in nats, who knows a row's true value of a feature and sees whether it
    was changed.

    That is beyond what the value tells by itself.

    Attributes:
        most: for the value and the outcome that tell most.
        mean: on average over rows.
    """

    most: float
    mean: float


@dataclass(frozen=True, eq=False)
class RedrawPolicy:
    """A fitted policy: every value is kept as often as its density allows, and otherwise drawn
    anew.

    Attributes:
        features: what the m features are.
        groups: (columns,) the feature of each column.
        columns: the steps.
        secret: the values of the secret.
        curve: what other budgets would cost.
        told: (m,) what somebody learns who knows the true value of a feature and sees whether it
            was changed; 0 of those that are kept.
        fill: what columns that must be hidden are filled in with; `None` where there are none.
    """

    name: ClassVar[str] = "redraw"
    features: Features
    groups: Ints
    columns: RedrawColumns
    secret: SecretCodes
    curve: tuple[RedrawPoint, ...] = field(default=(), repr=False)
    told: tuple[Told, ...] = ()
    fill: ColumnFill | None = None

    def counted(self) -> Frequencies:
        """An empty count of the values of which it matters how often they occur."""
        return Frequencies(self.columns.coded)

    def codes(self, frame: Any) -> Floats:
        """(n, columns) the codes of a data frame of any library."""
        return codes_of(self.columns.coded, frame)

    def release(
        self,
        x: Any,
        secret: Iterable[Any],
        *,
        noise: KeyedNoise,
        ids: Any,
        counts: Frequencies | None = None,
    ) -> tuple[Any, Bools]:
        """Release a data frame; the released one, and which features of each row are changed, (n,
        m).

        Args:
            x: n rows with the columns of the reference data.
            secret: their secret.
            noise: where draws come from.
            ids: (n,) what draws are keyed by: one value per row that stays with the row.
            counts: of the whole file that the rows are part of; by default the rows are all there
                is.
        """
        frame = nw.from_native(x, eager_only=True)
        if counts is None:
            counts = self.counted()
            counts.add(self.codes(frame))
        own = self.secret.read(secret)
        rows = row_ids(ids, len(frame))
        pieces = []
        for start in range(0, max(1, len(frame)), ROWS_AT_ONCE):
            piece = slice(start, start + ROWS_AT_ONCE)
            codes = self.codes(frame[piece])
            found = self.columns.release(codes, counts, own[piece], rows[piece], noise)
            found = filled(found, codes, self.fill, rows[piece], noise)
            pieces.append(with_rounded(self.columns.coded, frame[piece], found))
        found = RedrawnRows(*map(np.concatenate, zip(*pieces, strict=True)))
        changed = changed_features(found.changed, self.groups, len(self.features))
        return write_codes(self.columns.coded, x, found), changed

    def flags(self, rows: Any, standins: Any) -> Bools:
        """No rule decides beforehand which values are changed."""
        raise LowtideError(
            "redraw changes values by chance and by the secret of each row; ask release()"
        )

    def parts(self) -> Parts:
        """Plain JSON, and the arrays of the steps as tensors."""
        tensors = {name: np.array(a, order="C") for name, a in self.columns.arrays().items()}
        secret = self.secret.to_config()
        beside: Config = {
            "curve": [point.to_config() for point in self.curve],
            "told": [one._asdict() for one in self.told],
        }
        if self.fill is not None:
            beside["fill"], more = self.fill.parts()
            tensors |= more
        return {
            **self.columns.to_config(),
            "groups": self.groups.tolist(),
            "secret": secret,
            **beside,
        }, tensors

    @classmethod
    def read(
        cls, config: Mapping[str, Any], tensors: Tensors, features: Features, where: Any
    ) -> RedrawPolicy:
        """Rebuild what `parts` gave."""
        secret = SecretCodes.from_config(config["secret"])
        return cls(
            features,
            np.array(config["groups"], dtype=np.intp),
            RedrawColumns.read(config, tensors),
            secret,
            tuple(map(RedrawPoint.from_config, config["curve"])),
            tuple(Told(**one) for one in config["told"]),
            ColumnFill.read(config.get("fill"), tensors),
        )


def filled(
    found: RedrawnRows, codes: Floats, fill: ColumnFill | None, ids: Ids, noise: KeyedNoise
) -> RedrawnRows:
    """Released rows whose hidden columns are filled in; `codes` (n, columns) are those of the rows
    as they were.
    """
    if fill is None:
        return found
    released = fill.fill(found.codes, ids, noise)
    same = (released == codes) | (np.isnan(released) & np.isnan(codes))
    return found._replace(codes=released, changed=~same)


def with_rounded(coded: tuple[CodedColumn, ...], frame: Any, found: RedrawnRows) -> RedrawnRows:
    """Released rows of a frame, where a value that was only rounded counts as changed, too."""
    changed = found.changed.copy()
    held = nw.from_native(frame, eager_only=True)
    own = {str(name): name for name in held.columns}
    for j, one in enumerate(coded):
        if one.grain > 0:
            before = one.read(held.get_column(own[one.name]))
            after = found.codes[:, j]
            changed[:, j] |= (before != after) & ~(np.isnan(before) & np.isnan(after))
    return found._replace(changed=changed)


def codes_of(coded: tuple[CodedColumn, ...], frame: Any) -> Floats:
    """(n, columns) the codes of a data frame of any library, coarsened."""
    held = nw.from_native(frame, eager_only=True)
    own = {str(name): name for name in held.columns}
    codes = np.empty((len(held), len(coded)))
    for j, one in enumerate(coded):
        codes[:, j] = one.coarsened(one.read(held.get_column(own[one.name])))
    return codes


def write_codes(coded: tuple[CodedColumn, ...], frame: Any, found: RedrawnRows) -> Any:
    """A data frame with the cells that were changed; all others keep the very values they had.

    A column that is rounded is written anew as a whole: how a value was written may tell something,
    too.
    """
    held = nw.from_native(frame, eager_only=True)
    own = {str(name): name for name in held.columns}
    changed = []
    for j, one in enumerate(coded):
        places = (
            np.arange(len(found.codes)) if one.grain > 0 else np.flatnonzero(found.changed[:, j])
        )
        if len(places):
            column = held.get_column(own[one.name])
            changed.append(scatter(column, places, one.write(found.codes[places, j], column)))
    return held.with_columns(*changed).to_native() if changed else held.clone().to_native()


def changed_features(changed: Bools, groups: Ints, m: int) -> Bools:
    """(n, m) whether any column of each feature is changed, from columns (n, columns)."""
    result = np.zeros((len(changed), m), dtype=bool)
    for j, feature in enumerate(groups):
        result[:, feature] |= changed[:, j]
    return result
