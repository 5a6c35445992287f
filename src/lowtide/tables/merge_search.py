"""Which nodes of the columns' trees to show: grown from nothing, each step the most useful for what
it costs.

A step splits a node of one column's tree into its children. What that tells an attacker, and what
it is worth, follows in closed form from one regression of all columns' atoms at once: were the
classes' shares among the rows given the atoms linear, half the explained share of the variance
would be the information, in nats, up to terms of third order. Interactions are not in it; attackers
that see them judge the result. Where a bound against every attacker is asked for, a step costs what
it adds to that bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse
from scipy.special import entr, xlogy

from lowtide.tables.joining import PLAIN, entropy
from lowtide.tables.merge_trees import MergeTree, Nodes
from lowtide.types import Bools, Floats, Ints

RAW = -1  # in place of a node: the column as it is
_BANDED = 0.9  # what a column in its finest bands is worth of one that is as it is
_RIDGE = 1e-6  # of the rows
_REDUNDANT = (
    1e-4  # of the rows of a part: what is left of them beside the other columns tells nothing new
)


class TreeStep(NamedTuple):
    """A column, the node of its tree that is split, `RAW` for showing it as it is, and which way it
    is split.
    """

    column: int
    node: int
    way: int = 0


Choice = tuple[Nodes | None, ...]
"""For each column the nodes at which it is shown; the root alone is redaction, `None` the column as
it is.
"""


class Cost(Protocol):
    """What a step costs."""

    def costs(self, choice: Choice, steps: Sequence[TreeStep]) -> Floats:
        """(steps,) what each adds; infinite where it is out of the question."""
        ...


def start(trees: Sequence[MergeTree], keep: Bools) -> Choice:
    """Nothing but what must be kept."""
    return tuple(_all(tree) if keep[j] else frozenset([tree.root]) for j, tree in enumerate(trees))


def _all(tree: MergeTree) -> Nodes | None:
    """A column that the user keeps: as it is, or in the bands that they gave."""
    return frozenset(tree.ways[tree.root][0].parts) if tree.fixed else None


def parts_of(trees: Sequence[MergeTree], step: TreeStep) -> tuple[int, ...]:
    """The nodes that a step splits its node into."""
    return trees[step.column].ways[step.node][step.way].parts


def steps_of(trees: Sequence[MergeTree], choice: Choice) -> list[TreeStep]:
    """All steps that can be taken."""
    found = []
    for j, (tree, nodes) in enumerate(zip(trees, choice, strict=True)):
        if nodes is None:
            continue
        inner = sorted(node for node in nodes if node in tree.ways)
        found += [TreeStep(j, node, way) for node in inner for way in range(len(tree.ways[node]))]
        if not inner and not tree.fixed:
            found.append(TreeStep(j, RAW))
    return found


def take(trees: Sequence[MergeTree], choice: Choice, step: TreeStep) -> Choice:
    """The choice after a step; a column whose atoms all show one value each is then as it is."""
    tree = trees[step.column]
    nodes = choice[step.column]
    after: Nodes | None = None
    if step.node != RAW and nodes is not None:
        after = (nodes - {step.node}) | frozenset(parts_of(trees, step))
        if tree.exact and not any(node in tree.ways for node in after):
            after = None
    return (*choice[: step.column], after, *choice[step.column + 1 :])


def is_hidden(trees: Sequence[MergeTree], choice: Choice) -> Bools:
    """(columns,) which are redacted."""
    return np.array(
        [nodes == frozenset([tree.root]) for tree, nodes in zip(trees, choice, strict=True)],
        dtype=bool,
    )


def kept_of(trees: Sequence[MergeTree], choice: Choice) -> Floats:
    """(columns,) what is left of each column: 1 as it is, 0 redacted, in bands the share of its
    entropy.
    """
    found = np.zeros(len(trees))
    for j, (tree, nodes) in enumerate(zip(trees, choice, strict=True)):
        if nodes is None:
            found[j] = 1.0
        elif len(nodes) > 1:
            found[j] = (
                _BANDED * entropy(tree.places(nodes)[tree.atoms]) / max(entropy(tree.atoms), 1e-12)
            )
    return found


class AtomRegression:
    """One regression of classes on the atoms of all columns; asked what it gains when a node is
    split.

    Args:
        trees: of the rows for planning only.
        codes: (n,) the classes of what is told.
        without: (columns,) those that have no part in it: the utility does not tell itself.
    """

    def __init__(
        self, trees: Sequence[MergeTree], codes: Ints, without: Bools, moments: Floats | None = None
    ) -> None:
        self.trees = trees
        self.without = without
        self.n = len(codes)
        self.offsets = np.cumsum([0, *(tree.size for tree in trees)])
        design = _one_hot(trees, self.offsets)
        self.moments = np.asarray((design.T @ design).toarray()) if moments is None else moments
        shares = np.bincount(codes) / self.n
        shares = shares[shares > 0]
        self.classes = len(shares)
        target = np.eye(len(np.bincount(codes)))[codes][:, np.bincount(codes) > 0]
        self.products = np.asarray(design.T @ ((target - shares) / np.sqrt(shares)))

    @property
    def chance(self) -> float:
        """Nats that a part seems to tell when it tells nothing."""
        return (self.classes - 1) / (2 * self.n)

    def told(self, choice: Choice) -> float:
        """What a choice tells, in nats, by this regression."""
        design = self._design(choice)
        products = design.T @ self.products
        gram = design.T @ self.moments @ design
        gram[np.diag_indices_from(gram)] += _RIDGE * self.n
        found = float((products * np.linalg.solve(gram, products)).sum()) / (2 * self.n)
        return max(0.0, found - (design.shape[1] - 1) * self.chance)

    def gains(self, choice: Choice, steps: Sequence[TreeStep]) -> Floats:
        """(steps,) what each step adds, in nats, less what it seems to add by chance; 0 for
        `RAW`.
        """
        gains = np.zeros(len(steps))
        asked = [
            k for k, step in enumerate(steps) if step.node != RAW and not self.without[step.column]
        ]
        if not asked:
            return gains
        design = self._design(choice)
        gram = design.T @ self.moments @ design
        gram[np.diag_indices_from(gram)] += _RIDGE * self.n
        inverse = np.linalg.inv(gram)
        residual = self.products - self.moments @ (design @ (inverse @ (design.T @ self.products)))
        parts = [self._parts(steps[k].column, parts_of(self.trees, steps[k])[:-1]) for k in asked]
        contrasts = np.concatenate(parts, axis=1)
        moved = self.moments @ contrasts
        beside = design.T @ moved
        explained = inverse @ beside
        ends = np.cumsum([0, *(part.shape[1] for part in parts)])
        for place, k in enumerate(asked):
            here = slice(ends[place], ends[place + 1])
            whole = contrasts[:, here].T @ moved[:, here]
            left = whole - beside[:, here].T @ explained[:, here]
            told = contrasts[:, here].T @ residual
            gains[k] = _explained(left, whole, told) / (2 * self.n) - self.chance * told.shape[0]
        return np.maximum(gains, 0.0)

    def _design(self, choice: Choice) -> Floats:
        """(atoms, parts) the parts that a choice shows, beside a constant, without one part of each
        column.
        """
        constant = np.zeros((int(self.offsets[-1]), 1))
        constant[: self.offsets[1]] = 1.0
        found = [constant]
        for j, (tree, nodes) in enumerate(zip(self.trees, choice, strict=True)):
            if self.without[j]:
                continue
            listed = range(tree.size) if nodes is None else sorted(nodes)
            if len(listed) > 1:
                found.append(self._parts(j, tuple(listed)[:-1]))
        return np.concatenate(found, axis=1)

    def _parts(self, column: int, nodes: Sequence[int]) -> Floats:
        """(atoms, nodes) which atoms each node of a column covers; of single atoms the node is the
        atom.
        """
        found = np.zeros((int(self.offsets[-1]), len(nodes)))
        for place, node in enumerate(nodes):
            found[self.offsets[column] + self.trees[column].cover[node], place] = 1.0
        return found


def _explained(left: Floats, whole: Floats, told: Floats) -> float:
    """The sum of squares that some contrasts explain beside the others."""
    if left.shape == (1, 1):
        return float((told**2).sum() / left[0, 0]) if left[0, 0] > _REDUNDANT * whole[0, 0] else 0.0
    inverse = np.linalg.pinv(left, rcond=_REDUNDANT, hermitian=True)
    return float((told * (inverse @ told)).sum())


def _one_hot(trees: Sequence[MergeTree], offsets: Ints) -> sparse.csr_array:
    """(n, atoms of all columns)."""
    n = len(trees[0].atoms)
    places = np.stack(
        [tree.atoms + offset for tree, offset in zip(trees, offsets, strict=False)], axis=1
    )
    rows = np.repeat(np.arange(n), len(trees))
    return sparse.csr_array(
        (np.ones(places.size), (rows, places.ravel())), shape=(n, int(offsets[-1]))
    )


@dataclass(eq=False)
class LeakCost:
    """A step costs what it tells an attacker, by the regression.

    Attributes:
        regression: of the secret.
        least: what a step costs at least, in nats.
    """

    regression: AtomRegression
    least: float

    def costs(self, choice: Choice, steps: Sequence[TreeStep]) -> Floats:
        """What each step adds, in nats; a column as it is only where attackers decide."""
        found = self.regression.gains(choice, steps) + self.least
        return np.where([step.node == RAW for step in steps], np.inf, found)


@dataclass(eq=False)
class BoundCost:
    """A step costs what it adds to a bound against every attacker; what exceeds the budget is out
    of the question.

    Attributes:
        trees: of the rows for planning only.
        codes: (n,) the classes of the secret.
        bound: of counts (classes, cells), for as many rows as will judge.
        limit: of the budget.
        least: what a step costs at least.
    """

    trees: Sequence[MergeTree]
    codes: Ints
    bound: Callable[[Floats], float]
    limit: float
    least: float = 0.0
    _cells: tuple[Choice, Ints, float] | None = field(default=None, repr=False)

    def costs(self, choice: Choice, steps: Sequence[TreeStep]) -> Floats:
        """What each step adds to the bound."""
        cells, now = self._at(choice)
        found = np.empty(len(steps))
        for k, step in enumerate(steps):
            after = self.bound(self._counted(cells, self._parts(step)))
            found[k] = np.inf if after > self.limit else max(after - now, 0.0) + self.least
        return found

    def told(self, choice: Choice) -> float:
        """The bound of a choice."""
        return self._at(choice)[1]

    def counts(self, choice: Choice) -> Floats:
        """(classes, cells) how often each class is seen in each cell of a choice."""
        cells = self._at(choice)[0]
        return self._counted(cells, np.zeros_like(cells))

    def _at(self, choice: Choice) -> tuple[Ints, float]:
        """The cell (n,) of each row, and the bound."""
        if self._cells is None or self._cells[0] != choice:
            cells = cells_of(self.trees, choice)
            self._cells = choice, cells, self.bound(self._counted(cells, np.zeros_like(cells)))
        return self._cells[1], self._cells[2]

    def _parts(self, step: TreeStep) -> Ints:
        """(n,) the part of a split node that each row is in; 0 for the others."""
        tree = self.trees[step.column]
        if step.node == RAW:
            return tree.raw - min(0, int(tree.raw.min()))
        parts = np.zeros(tree.size, dtype=np.intp)
        for place, part in enumerate(parts_of(self.trees, step)):
            parts[tree.cover[part]] = place
        return parts[tree.atoms]

    def _counted(self, cells: Ints, parts: Ints) -> Floats:
        """(classes, cells) counts when cells are split into parts."""
        width = int(parts.max()) + 1
        classes = int(self.codes.max()) + 1
        finer = cells * width + parts
        if (int(cells.max()) + 1) * width > 8 * len(cells):
            finer = np.unique(finer, return_inverse=True)[1].ravel()
        table = np.bincount(
            finer * classes + self.codes, minlength=(int(finer.max()) + 1) * classes
        )
        table = table.reshape(-1, classes).T.astype(np.float64)
        return np.asarray(table[:, table.any(axis=0)])


def cells_of(trees: Sequence[MergeTree], choice: Choice) -> Ints:
    """(n,) equal numbers for rows that a release shows alike, from 0."""
    cells = np.zeros(len(trees[0].atoms), dtype=np.intp)
    for tree, nodes in zip(trees, choice, strict=True):
        own = (
            tree.raw - min(0, int(tree.raw.min()))
            if nodes is None
            else tree.places(nodes)[tree.atoms]
        )
        cells = np.unique(cells * (int(own.max()) + 1) + own, return_inverse=True)[1].ravel()
    return cells


@dataclass(frozen=True, eq=False)
class Worth:
    """What a step is worth.

    Attributes:
        trees: of the rows for planning only.
        plain: (columns,) shares of the table.
        utility: a regression of what the release should still tell; `None` when nothing is named.
        own: (columns,) the utility's own column, worth as much as the best other.
    """

    trees: Sequence[MergeTree]
    plain: Floats
    utility: AtomRegression | None
    own: Bools

    def of(self, choice: Choice, steps: Sequence[TreeStep]) -> Floats:
        """(steps,) what each adds, as a share of all there is."""
        finer = np.array([self._finer(choice, step) for step in steps])
        columns = np.array([step.column for step in steps], dtype=np.intp)
        if self.utility is None:
            return np.asarray(self.plain[columns] * finer)
        useful = self.utility.gains(choice, steps) / self._all
        useful = np.where(self.own[columns], self._best * finer, useful)
        return np.asarray(PLAIN * self.plain[columns] * finer + (1 - PLAIN) * useful)

    def _finer(self, choice: Choice, step: TreeStep) -> float:
        """The share of its column that a step gives back; see `kept_of`."""
        tree = self.trees[step.column]
        if step.node == RAW:
            return 1 - _BANDED
        rows = self._rows[step.column]
        n = len(tree.atoms)
        parts = np.array([rows[tree.cover[part]].sum() for part in parts_of(self.trees, step)])
        told = float((xlogy(parts.sum(), parts.sum()) - xlogy(parts, parts).sum()) / n)
        whole = float(entr(rows / n).sum())
        last = take(self.trees, choice, step)[step.column] is None
        return _BANDED * told / max(whole, 1e-12) + (1 - _BANDED) * last

    @cached_property
    def _rows(self) -> list[Ints]:
        """How many rows each atom of each column has."""
        return [np.bincount(tree.atoms, minlength=tree.size) for tree in self.trees]

    @cached_property
    def _all(self) -> float:
        if self.utility is None:
            return 1.0
        return max(self.utility.told((None,) * len(self.trees)), 1e-9)

    @cached_property
    def _best(self) -> float:
        """The most that one column tells of the utility by itself, as a share."""
        if self.utility is None:
            return 0.0
        nothing = tuple(frozenset([tree.root]) for tree in self.trees)
        alone = [
            self.utility.told((*nothing[:j], None, *nothing[j + 1 :]))
            for j in range(len(self.trees))
            if not self.utility.without[j]
        ]
        return max(alone, default=0.0) / self._all


def grow(
    trees: Sequence[MergeTree], choice: Choice, cost: Cost, worth: Worth, ceilings: Floats
) -> list[TreeStep]:
    """Steps from a choice on, each the one worth most for its cost, until none is left.

    Args:
        trees: of the rows for planning only.
        choice: where to begin.
        cost: what a step costs; one that costs too much never comes back.
        worth: what it is worth.
        ceilings: (columns,) what a step of each column may cost.
    """
    taken: list[TreeStep] = []
    closed: set[TreeStep] = set()
    while True:
        listed = [step for step in steps_of(trees, choice) if step not in closed]
        if not listed:
            return taken
        costs = cost.costs(choice, listed)
        costs[costs > ceilings[[step.column for step in listed]]] = np.inf
        closed |= {step for step, one in zip(listed, costs, strict=True) if np.isinf(one)}
        if np.isinf(costs).all():
            return taken
        favour = [
            1.0 if step.node == RAW else trees[step.column].ways[step.node][step.way].favour
            for step in listed
        ]
        best = listed[int(np.argmax(np.array(favour) * worth.of(choice, listed) / costs))]
        taken.append(best)
        choice = take(trees, choice, best)
