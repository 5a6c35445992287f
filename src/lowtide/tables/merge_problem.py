"""A table that is to be merged: the trees of its columns, and what a choice of their nodes
releases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from lowtide.tables.encoder import read_table
from lowtide.tables.layout import column_starts
from lowtide.tables.mechanism import TableMechanism
from lowtide.tables.merge_search import Choice, is_hidden, kept_of
from lowtide.tables.merge_trees import Merges, MergeTree, TreeMaker, narrowed
from lowtide.tables.merging import Merging
from lowtide.tables.problem import TableProblem
from lowtide.types import Bools, Floats32

_NOISE = ("kinds", "low", "high", "keeps", "lam")  # of a mechanism


@dataclass(frozen=True, eq=False)
class MergeProblem:
    """A table to be merged.

    Attributes:
        problem: the table as it is; what its mechanism noises is shown so, whatever is merged.
        said: what the user says of merging.
    """

    problem: TableProblem
    said: Merges

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The columns that have a tree: those that are not hidden anyway, and do not show the same
        in all rows.
        """
        return tuple(place for place, tree in enumerate(self._all_trees) if tree is not None)

    @cached_property
    def trees(self) -> tuple[MergeTree, ...]:
        """What these columns may be merged into."""
        return tuple(tree for tree in self._all_trees if tree is not None)

    @cached_property
    def _all_trees(self) -> list[MergeTree | None]:
        problem = self.problem
        encoder = self.problem.mechanism.encoder
        frame = nw.from_native(problem.table, eager_only=True)
        own = {str(name): name for name in frame.columns}
        useful = None if problem.utility is None else problem.utility.codes
        maker = TreeMaker(
            ~problem.judged, problem.data.codes, useful, len(encoder.names), self.said
        )
        return [
            None
            if self.problem.hide[j]
            else maker.make(
                name,
                frame.get_column(own[name]),
                encoder.learnt(j),
                own=bool(self.utility_column[j]),
            )
            for j, name in enumerate(encoder.names)
        ]

    @property
    def utility_column(self) -> Bools:
        """(columns,) the utility's own, if it is released."""
        found = self.problem.utility_feature
        return np.zeros(len(self.problem.features), dtype=bool) if found is None else found

    @cached_property
    def planned(self) -> tuple[MergeTree, ...]:
        """The trees of the rows for planning only."""
        return tuple(narrowed(tree, ~self.problem.judged) for tree in self.trees)

    def of_columns(self, mask: Bools) -> Bools:
        """A mask (m,) of all columns for those that have a tree."""
        return np.asarray(mask[list(self.places)])

    def hidden(self, choice: Choice) -> Bools:
        """(m,) which columns are redacted; those that show the same in all rows are not."""
        found = self.problem.hide.copy()
        found[list(self.places)] = is_hidden(self.trees, choice)
        return found

    def kept(self, choice: Choice) -> float:
        """The share of the table that is left."""
        found = np.where(self.problem.hide, 0.0, 1.0)
        found[list(self.places)] = kept_of(self.planned, choice)
        return float(self.problem.worth @ found)

    def merging(self, choice: Choice) -> Merging:
        """How the merged columns are labelled."""
        hidden = is_hidden(self.trees, choice)
        listed = zip(self.trees, choice, hidden, strict=True)
        return Merging(
            {
                tree.name: tree.merge(nodes)
                for tree, nodes, gone in listed
                if nodes is not None and not gone
            }
        )

    def released(self, choice: Choice) -> TableProblem:
        """The merged table as a problem of its own, of which nothing but redaction and the same
        noise is left to do.
        """
        problem = self.problem
        merging = self.merging(choice)
        merged = merging.apply(problem.table).table
        rows, encoder = read_table(merged)
        features = encoder.features()
        mechanism = TableMechanism.build(
            encoder, features, rows, kind="redact", fill=problem.mechanism.fill
        )
        # Columns stay in their places, and none that is noised is merged.
        mechanism = replace(
            mechanism, **{name: getattr(problem.mechanism, name) for name in _NOISE}
        )
        useful = problem.utility
        if useful is not None:
            useful = replace(
                useful, rows=np.where(self.utility_column[features.groups], np.float32(0), rows)
            )
        return replace(
            problem,
            data=replace(problem.data, rows=rows),
            features=features,
            mechanism=replace(mechanism, merging=merging),
            utility=useful,
            table=merged,
        )

    def rows(self, choice: Choice, *, without: Bools) -> Floats32:
        """The rows for planning as attackers see them, without some columns (m,)."""
        problem = self.problem
        planning = ~self.problem.judged
        starts = column_starts(problem.mechanism.encoder)
        channels, groups = problem.telling
        blocks: list[Any] = [np.zeros((int(planning.sum()), 1), dtype=np.float32)]
        for j, tree, nodes in zip(self.places, self.planned, choice, strict=True):
            if without[j] or nodes == frozenset([tree.root]):
                continue
            if nodes is None:
                blocks += [
                    problem.data.rows[planning, starts[j] : starts[j + 1]],
                    channels[planning][:, groups == j],
                ]
                continue
            codes = tree.places(nodes)[tree.atoms]
            blocks.append(codes[:, None] if tree.ordered else np.eye(len(nodes))[codes])
        return np.concatenate(blocks, axis=1).astype(np.float32)
