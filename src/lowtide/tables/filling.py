"""Hidden columns filled in: values drawn from their law given what a row shows, so that a release
has no holes.

A value that is filled in depends on what the row shows and on chance, never on what it hides or on
its secret: that is post-processing of a release with holes, and tells nothing more. The law is
learnt from reference rows; where the row itself may be among them, it is asked of those that show
something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from lowtide.disclose.noise import Ids, KeyedNoise
from lowtide.tables.cells import scatter
from lowtide.tables.codes import CodedColumn, points_of
from lowtide.tables.donors import Donors
from lowtide.tables.redrawing import drawing
from lowtide.tables.row_folds import folds_of
from lowtide.types import Floats, Ints

_FOLDS = 2
_PREFIX = "fill."


@dataclass(frozen=True, eq=False)
class FillStep:
    """One hidden feature.

    Attributes:
        columns: which columns it has; they are filled together.
        donors: (folds,) the law for rows of each fold, learnt from the others.
    """

    columns: tuple[int, ...]
    donors: tuple[Donors, ...]


@dataclass(frozen=True, eq=False)
class ColumnFill:
    """How hidden columns are filled in.

    Attributes:
        coded: how the columns are coded, in the order of the table.
        shown: those that are released.
        steps: the hidden features, in the order in which they are filled.
        seed: of the folds.
    """

    coded: tuple[CodedColumn, ...]
    shown: tuple[int, ...]
    steps: tuple[FillStep, ...]
    seed: int

    @classmethod
    def learn(
        cls,
        coded: tuple[CodedColumn, ...],
        codes: Floats,
        classes: Ints,
        *,
        shown: Floats,
        hidden: Sequence[tuple[int, ...]],
        seed: int,
    ) -> ColumnFill:
        """Learn from n reference rows.

        Args:
            coded: how the columns are coded.
            codes: (n, columns) as they are.
            classes: (n, columns) how often each number occurs, in classes.
            shown: (n, columns) as they are released; those that are hidden are not looked at.
            hidden: groups of columns that are hidden, and filled together.
            seed: of folds and trees.
        """
        gone = [j for columns in hidden for j in columns]
        past = [j for j in range(len(coded)) if j not in gone]
        fill = cls(coded, tuple(past), (), seed)
        fold = fill._folds(shown)
        steps = []
        known = shown.copy()
        for k, columns in enumerate(hidden):
            own = list(columns)
            points = points_of(tuple(coded[j] for j in own), codes[:, own], classes[:, own])
            laws = []
            for each in range(_FOLDS):
                rest = fold != each
                rest = rest if rest.mean() > 1 / (4 * _FOLDS) else np.ones(len(fold), dtype=bool)
                laws.append(Donors.learn(known[rest][:, past], points[rest], seed + k))
            steps.append(FillStep(columns, tuple(laws)))
            known[:, own] = codes[:, own]
            past += own
        return cls(coded, fill.shown, tuple(steps), seed)

    def fill(self, codes: Floats, ids: Ids, noise: KeyedNoise) -> Floats:
        """Rows (n, columns) with their hidden columns filled in, whatever these held."""
        found = codes.copy()
        past = list(self.shown)
        fold = self._folds(codes)
        for step in self.steps:
            own = list(step.columns)
            coded = tuple(self.coded[j] for j in own)
            name = " + ".join(one.name for one in coded)
            draw = drawing(noise.derive(b"fill"), name, ids, found[:, past])
            every = np.arange(len(codes))
            which = draw(every, 0)[:, None]
            within = draw(every, 1)[:, None]
            for each, donors in enumerate(step.donors):
                rows = np.flatnonzero(fold == each)
                if len(rows):
                    points = donors.propose(donors.leaves(found[rows][:, past]), which[rows])
                    found[rows[:, None], own] = donors.draw(coded, points, within[rows])[0][:, 0]
            past += own
        return found

    def _folds(self, codes: Floats) -> Ints:
        shown = codes[:, list(self.shown)]
        return folds_of(shown, np.zeros(len(shown), dtype=np.intp), _FOLDS, self.seed)

    def into(self, table: Any, ids: Ids, noise: KeyedNoise) -> Any:
        """A data frame whose hidden columns are filled in, from those that it shows."""
        held = nw.from_native(table, eager_only=True)
        own = {str(name): name for name in held.columns}
        codes = np.full((len(held), len(self.coded)), np.nan)
        for j in self.shown:
            codes[:, j] = self.coded[j].read(held.get_column(own[self.coded[j].name]))
        found = self.fill(codes, ids, noise)
        every = np.arange(len(held))
        filled = []
        for step in self.steps:
            for j in step.columns:
                column = held.get_column(own[self.coded[j].name])
                filled.append(scatter(column, every, self.coded[j].write(found[:, j], column)))
        return held.with_columns(*filled).to_native()

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain JSON, and the arrays of the laws."""
        tensors = {
            f"{_PREFIX}{k}.{each}.{name}": np.array(array, order="C")
            for k, step in enumerate(self.steps)
            for each, donors in enumerate(step.donors)
            for name, array in donors.arrays().items()
        }
        coded = [one.to_config() for one in self.coded]
        columns = [list(step.columns) for step in self.steps]
        return {
            "coded": coded,
            "shown": list(self.shown),
            "steps": columns,
            "seed": self.seed,
        }, tensors

    @classmethod
    def read(
        cls, config: Mapping[str, Any] | None, tensors: Mapping[str, NDArray[Any]]
    ) -> ColumnFill | None:
        """Rebuild what `parts` gave; `None` of `None`."""
        if config is None:
            return None
        steps = []
        for k, columns in enumerate(config["steps"]):
            laws = []
            for each in range(_FOLDS):
                start = f"{_PREFIX}{k}.{each}."
                own = {
                    name.removeprefix(start): one
                    for name, one in tensors.items()
                    if name.startswith(start)
                }
                laws.append(Donors.of_arrays(own))
            steps.append(FillStep(tuple(map(int, columns)), tuple(laws)))
        coded = tuple(CodedColumn.from_config(one) for one in config["coded"])
        return cls(coded, tuple(map(int, config["shown"])), tuple(steps), int(config["seed"]))
