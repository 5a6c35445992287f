"""What the policy `redraw` needs beside its steps: the secret of each row, how often values occur, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import narwhals.stable.v2 as nw
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lowtide.checks import LowtideError
from lowtide.disclose.budget import Parts
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.disclose.secret_codes import SecretCodes
from lowtide.features import Features
from lowtide.tables.cells import scatter
from lowtide.tables.codes import CodedColumn, count_classes
from lowtide.tables.redrawing import RedrawColumns, RedrawnRows, bits_of
from lowtide.types import Bools, Floats, Ints

_SLOTS = 1 << 20  # of a sketch that counts values; those that share one are counted together


class Frequencies:
    """How often values occur in a whole file, counted batch by batch in memory that does not grow.

    Args:
        columns: numbers of the columns to count.
    """

    def __init__(self, columns: Iterable[int]) -> None:
        self._counts = {j: np.zeros(_SLOTS, dtype=np.uint32) for j in columns}

    def add(self, codes: Floats) -> None:
        """Count rows of codes (n, columns)."""
        for j, counts in self._counts.items():
            np.add.at(counts, _slots(codes[:, j]), 1)

    def classes(self, codes: Floats) -> Ints:
        """(n, columns) how often each value occurs, in classes; 0 for columns that are not counted."""
        found = np.zeros(codes.shape, dtype=np.intp)
        for j, counts in self._counts.items():
            found[:, j] = np.where(np.isnan(codes[:, j]), 0, count_classes(counts[_slots(codes[:, j])].astype(np.intp)))
        return found


@dataclass(frozen=True, eq=False)
class RedrawPolicy:
    """A fitted policy: every value is kept as often as its density allows, and otherwise drawn anew.

    Attributes:
        features: what the m features are.
        groups: (columns,) the feature of each column.
        columns: the steps.
        secret: the values of the secret.
    """

    name: ClassVar[str] = "redraw"
    features: Features
    groups: Ints
    columns: RedrawColumns
    secret: SecretCodes

    def counted(self) -> Frequencies:
        """An empty count of the values of which it matters how often they occur."""
        return Frequencies(j for j, own in enumerate(self.columns.coded) if own.has_ranges)

    def codes(self, frame: Any) -> Floats:
        """(n, columns) the codes of a data frame of any library."""
        return codes_of(self.columns.coded, frame)

    def release(
        self, x: Any, secret: Iterable[Any], *, noise: KeyedNoise, ids: Any, counts: Frequencies | None = None
    ) -> tuple[Any, Bools]:
        """Release a data frame; the released one, and which features of each row are changed, (n, m).

        Args:
            x: n rows with the columns of the reference data.
            secret: their secret.
            noise: where draws come from.
            ids: one value per row that stays with the row.
            counts: of the whole file that the rows are part of; by default the rows are all there is.
        """
        codes = self.codes(x)
        if counts is None:
            counts = self.counted()
            counts.add(codes)
        own, rows = self.secret.read(secret), row_ids(ids, len(codes))
        found = self.columns.release(codes, counts.classes(codes), own, rows, noise)
        changed = changed_features(found.changed, self.groups, len(self.features))
        return write_codes(self.columns.coded, x, found), changed

    def flags(self, rows: Any, standins: Any) -> Bools:
        """No rule decides beforehand which values are changed."""
        raise LowtideError("redraw changes values by chance and by the secret of each row; ask release()")

    def parts(self) -> Parts:
        """Plain JSON, and the arrays of the steps as tensors."""
        tensors = {name: torch.from_numpy(np.array(a, order="C")) for name, a in self.columns.arrays().items()}
        secret = self.secret.to_config()
        return {**self.columns.to_config(), "groups": self.groups.tolist(), "secret": secret}, tensors

    @classmethod
    def read(
        cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor], features: Features, where: Any
    ) -> RedrawPolicy:
        """Rebuild what `parts` gave."""
        arrays: dict[str, NDArray[Any]] = {name: tensor.numpy() for name, tensor in tensors.items()}
        secret = SecretCodes.from_config(config["secret"])
        return cls(features, np.array(config["groups"], dtype=np.intp), RedrawColumns.read(config, arrays), secret)


def codes_of(coded: tuple[CodedColumn, ...], frame: Any) -> Floats:
    """(n, columns) the codes of a data frame of any library."""
    held = nw.from_native(frame, eager_only=True)
    own = {str(name): name for name in held.columns}
    return np.column_stack([one.read(held.get_column(own[one.name])) for one in coded])


def write_codes(coded: tuple[CodedColumn, ...], frame: Any, found: RedrawnRows) -> Any:
    """A data frame with the cells that were changed; all others keep the very values they had."""
    held = nw.from_native(frame, eager_only=True)
    own = {str(name): name for name in held.columns}
    changed = []
    for j, one in enumerate(coded):
        places = np.flatnonzero(found.changed[:, j])
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


def _slots(codes: Floats) -> Ints:
    mixed = bits_of(codes) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(44)).astype(np.intp)
