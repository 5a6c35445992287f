"""What a column may be merged into: a tree from its finest bands or categories to nothing at all.

The leaves of a tree, its atoms, are narrow bands of a number, or categories, each of them shown by
enough rows. They are joined (`joining`) until the column is one value, which is as good as
redacted. A release shows a column at some nodes that together cover it. Bands can be joined in many
ways, so the tree of a number has a node for each possible band, and several ways to split it. A
hierarchy that the user gives is a tree already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from lowtide.errors import LowtideError
from lowtide.tables.bands import Bands, digits_of, round_cuts
from lowtide.tables.columns import Learnt, texts_of, values_of
from lowtide.tables.hierarchy import Hierarchy
from lowtide.tables.joining import Joined, Way, count_classes, join_categories, join_neighbours
from lowtide.tables.merging import Groups, group_labels
from lowtide.types import Bools, Ints

Nodes = frozenset[int]
_MOST_ATOMS = 24  # of a number; more cannot be told apart by the eye, and cost time
_MOST_CATEGORIES = 48
_ALL_ATOMS = 600  # of a table, beyond which columns have fewer: one regression holds them all
_LEAST_SHARE = 1 / 500  # of the rows for planning: what an atom has at least
_LEAST_ROWS = 10  # the same, of few rows: nobody's own value becomes a label
_BAND_ROWS = 30  # the same of a band, where there are enough
_ROUND = (
    2.0  # digits; a cut that takes one to say is favoured so many times over one that takes two
)


class Describes(Protocol):
    """Says what a merged column shows."""

    def describe(self, parts: Sequence[Ints]) -> Bands | Groups:
        """How cells are labelled where the atoms of each part are joined."""
        ...


@dataclass(frozen=True, eq=False)
class MergeTree:
    """What one column may be merged into.

    Attributes:
        name: of the column.
        atoms: (n,) the leaf of every row.
        raw: (n,) which of its different values each row has.
        ways: of every node that is not a leaf the ways to split it.
        cover: the atoms of each node; the nodes that are leaves come first.
        ordered: whether joined atoms are neighbours.
        exact: whether all atoms together show the column as it is.
        fixed: whether the user has said how the column is shown, so that it is never shown as it
            is.
        gaps: the atom of what is missing, which has no label; `None` where nothing is.
        describes: how parts of the column are labelled.
    """

    name: str
    atoms: Ints
    raw: Ints
    ways: Mapping[int, tuple[Way, ...]]
    cover: tuple[Ints, ...]
    ordered: bool
    exact: bool
    fixed: bool
    gaps: int | None
    describes: Describes = field(repr=False)

    @property
    def root(self) -> int:
        """The node that covers everything: the column redacted."""
        return len(self.cover) - 1

    @property
    def size(self) -> int:
        """How many atoms there are."""
        return len(self.cover[self.root])

    def places(self, nodes: Collection[int]) -> Ints:
        """(atoms,) which of some nodes, in increasing order of their first atom, each atom belongs
        to.
        """
        found = np.zeros(self.size, dtype=np.intp)
        for place, node in enumerate(self.listed(nodes)):
            found[self.cover[node]] = place
        return found

    def listed(self, nodes: Collection[int]) -> list[int]:
        """Nodes in the order of their first atoms."""
        return sorted(nodes, key=lambda node: int(self.cover[node].min()))

    def merge(self, nodes: Collection[int]) -> Bands | Groups:
        """How the column is labelled where it is shown at some nodes."""
        return self.describes.describe(
            [self.cover[n] for n in self.listed(nodes) if not self._is_gap(n)]
        )

    def _is_gap(self, node: int) -> bool:
        return self.gaps is not None and self.cover[node].tolist() == [self.gaps]


@dataclass(frozen=True)
class _NumberParts:
    """Labels of neighbouring bands."""

    bands: Bands

    def describe(self, parts: Sequence[Ints]) -> Bands:
        own = self.bands
        cuts = [own.cuts[int(part.min()) - 1] for part in parts[1:]]
        return Bands.of(cuts, dates=own.dates, whole=own.whole, low=own.low, high=own.high)


@dataclass(frozen=True)
class _GivenParts:
    """The bands that the user gave, all of them."""

    bands: Bands

    def describe(self, parts: Sequence[Ints]) -> Bands:
        return self.bands


@dataclass(frozen=True)
class _CategoryParts:
    """Labels of joined categories: the values of each atom, and how often each that may be named
    occurs.
    """

    values: tuple[tuple[str, ...], ...]
    counts: Mapping[str, int]

    def describe(self, parts: Sequence[Ints]) -> Groups:
        groups = [[value for atom in part for value in self.values[atom]] for part in parts]
        listed = [(value, place) for place, group in enumerate(groups) for value in group]
        values, places = zip(*listed, strict=True)
        return Groups(values, places, group_labels(groups, self.counts))


@dataclass(frozen=True)
class _HierarchyParts:
    """The names of a hierarchy: of each atom its value, and by the atoms that a node covers its
    name.
    """

    values: tuple[str, ...]
    names: Mapping[tuple[int, ...], str]

    def describe(self, parts: Sequence[Ints]) -> Groups:
        listed = [(self.values[atom], place) for place, part in enumerate(parts) for atom in part]
        values, places = zip(*listed, strict=True)
        return Groups(
            values, places, tuple(self.names[tuple(sorted(part.tolist()))] for part in parts)
        )


@dataclass(frozen=True)
class Merges:
    """What the user says of merging; by column.

    Attributes:
        bands: where bands begin.
        hierarchies: of categories.
        ranges: the valid range of numbers, whose ends then show.
    """

    bands: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TreeMaker:
    """Makes the trees of a table's columns.

    Attributes:
        planning: (n,) the rows that trees are made from.
        secret: (n,) classes.
        utility: (n,) classes of what the release should still tell; `None` when nothing is named.
        columns: how many columns the table has.
        said: what the user says.
    """

    planning: Bools
    secret: Ints
    utility: Ints | None
    columns: int
    said: Merges

    def make(self, name: str, column: Any, learnt: Learnt, *, own: bool) -> MergeTree | None:
        """The tree of a narwhals column; `None` where all rows show the same.

        Args:
            name: of the column.
            column: n cells.
            learnt: how it is read.
            own: whether it is the utility itself, which does not tell itself.
        """
        if name in self.said.hierarchies:
            return self._hierarchy(name, column, self.said.hierarchies[name])
        if learnt.categories is not None:
            if name in self.said.bands:
                raise LowtideError(
                    f"bands names {name!r}, which holds text; bands are for numbers and dates"
                )
            return self._categories(name, column, learnt, own)
        return self._numbers(name, column, learnt, own)

    def _numbers(self, name: str, column: Any, learnt: Learnt, own: bool) -> MergeTree | None:
        values = values_of(column, learnt.dates, lenient=False)
        gone = np.isnan(values)
        known = values[~gone]
        if not len(known):
            return None
        dates = learnt.dates
        low, high = self.said.ranges.get(name, (None, None))
        whole = dates is None and bool((known % 1 == 0).all())
        given = self.said.bands.get(name)
        cuts = given or round_cuts(
            values[self.planning & ~gone],
            most=self._most,
            least=self._wide,
            dates=dates is not None,
            whole=whole,
        )
        bands = Bands.of(cuts, dates=dates, whole=whole, low=low, high=high)
        codes = bands.place(values)
        raw = np.unique(values, return_inverse=True)[1].ravel()
        if given is not None:
            occupied, dense = np.unique(np.maximum(codes, -1), return_inverse=True)
            dense = dense.ravel() - (1 if occupied[0] < 0 else 0)
            count = int(dense.max()) + 1
            flat = Joined({}, [(k,) for k in range(count)], tuple(range(count)))
            return _finish(name, flat, dense, raw, _GivenParts(bands), ordered=True, fixed=True)
        weights = np.array([_ROUND / digits_of(cut, dates=dates is not None) for cut in bands.cuts])
        return _finish(
            name, join_neighbours(weights), codes, raw, _NumberParts(bands), ordered=True
        )

    def _categories(self, name: str, column: Any, learnt: Learnt, own: bool) -> MergeTree | None:
        texts, cells = texts_of(column)
        listed = set((learnt.categories or ())[:-1] if learnt.other else learnt.categories or ())
        gone = column.is_null().to_numpy().astype(bool)
        known = np.array([text in listed for text in texts])[cells] & ~gone
        used, place = np.unique(
            np.array(texts, dtype=object)[cells][known].astype(str), return_inverse=True
        )
        if not len(used):
            return None
        rows = np.bincount(place[self.planning[known]], minlength=len(used))
        order = np.argsort(-rows, kind="stable")[: min(_MOST_CATEGORIES, 2 * self._most)]
        frequent = [int(k) for k in order if rows[k] >= self.least]
        rare = sorted(set(range(len(used))) - set(frequent))
        values = [(str(used[k]),) for k in sorted(frequent)] + (
            [tuple(str(used[k]) for k in rare)] if rare else []
        )
        atom = np.full(len(used), len(frequent))
        atom[sorted(frequent)] = np.arange(len(frequent))
        codes = np.full(len(column), -1)
        codes[known] = atom[place]
        raw = np.full(len(column), -1)
        raw[known] = place
        counts = {str(used[k]): int(rows[k]) for k in frequent}
        atoms = np.where(codes < 0, len(values), codes)
        joined = self._join(atoms, len(values), own)
        parts = _CategoryParts(tuple(values), counts)
        return _finish(name, joined, codes, raw, parts)

    def _hierarchy(self, name: str, column: Any, given: Hierarchy) -> MergeTree | None:
        texts, cells = texts_of(column)
        gone = column.is_null().to_numpy().astype(bool)
        used, codes = np.unique(
            np.array(texts, dtype=object)[cells].astype(str), return_inverse=True
        )
        present = np.unique(codes[~gone])
        lacking = sum(str(used[k]) not in given.levels for k in present)
        if lacking:
            raise LowtideError(
                f"the hierarchy of column {name!r} lacks {lacking} of its {len(present)} values;"
                " give each a row"
            )
        values = tuple(str(used[k]) for k in present)
        codes = np.where(gone, -1, np.searchsorted(present, codes))
        levels = [given.levels[value] for value in values]
        ways: dict[int, tuple[Way, ...]] = {}
        cover: list[tuple[int, ...]] = [(k,) for k in range(len(values))]
        names: dict[tuple[int, ...], str] = {(k,): value for k, value in enumerate(values)}
        top = list(range(len(values)))
        for level in range(len(levels[0])):
            parents: dict[str, list[int]] = {}
            for node in top:
                parents.setdefault(levels[cover[node][0]][level], []).append(node)
            if len(parents) == 1:
                break
            top = []
            for label, members in parents.items():
                if len(members) == 1:  # nothing is joined: the finer name is as true
                    top += members
                    continue
                ways[len(cover)] = (Way(tuple(members)),)
                cover.append(tuple(sorted(atom for member in members for atom in cover[member])))
                names[cover[-1]] = label
                top.append(len(cover) - 1)
        _unique_names(names, name)
        joined = Joined(ways, cover, tuple(top))
        return _finish(name, joined, codes, codes.copy(), _HierarchyParts(values, names))

    @property
    def least(self) -> int:
        """Rows for planning that an atom has at least."""
        return max(_LEAST_ROWS, int(_LEAST_SHARE * self.planning.sum()))

    @property
    def _wide(self) -> int:
        """The same of a band, whose share of each class must be known roughly."""
        return max(self.least, min(_BAND_ROWS, int(self.planning.sum()) // 8))

    @property
    def _most(self) -> int:
        """About how many atoms a number may have."""
        return int(np.clip(_ALL_ATOMS // self.columns, 2, _MOST_ATOMS))

    def _join(self, atoms: Ints, size: int, own: bool) -> Joined:
        """Join categories, atoms (n,) from 0 to `size`; others are missing. The utility's `own` is
        told by none.
        """
        rows = self.planning & (atoms < size)
        secret = count_classes(atoms[rows], self.secret[rows], size)
        useful = np.zeros((1, size))
        if self.utility is not None and not own:
            useful = count_classes(atoms[rows], self.utility[rows], size)
        return join_categories(secret, useful, int(self.planning.sum()))


def _finish(
    name: str,
    joined: Joined,
    codes: Ints,
    raw: Ints,
    describes: Describes,
    *,
    ordered: bool = False,
    fixed: bool = False,
) -> MergeTree | None:
    """A tree with a leaf for what is missing, and a root above everything; `None` where all rows
    are alike.

    Args:
        name: of the column.
        joined: atoms joined; leaves come first among its nodes, and a node above all others last.
        codes: (n,) atoms, negative where a value is missing or was not judged.
        raw: (n,) different values.
        describes: how parts are labelled.
        ordered: whether neighbours are joined.
        fixed: whether it is shown at its atoms or not at all.
    """
    cover = list(joined.cover)
    ways = dict(joined.ways)
    top: tuple[Way, ...] = (Way(joined.top),)
    if (
        len(joined.top) == 1 and joined.top[0] in ways
    ):  # the root is made anew, above what is missing, too
        top = ways.pop(joined.top[0])
        cover.pop()
    atoms = codes
    gaps = None
    if (codes < 0).any():
        gaps = sum(node not in ways for node in range(len(cover)))
        atoms = np.where(codes < 0, gaps, codes)
        cover.insert(gaps, (gaps,))
        ways = {node + 1: tuple(_beyond(way, gaps) for way in own) for node, own in ways.items()}
        top = tuple(Way((*_beyond(way, gaps).parts, gaps), way.favour) for way in top)
    if len(top[0].parts) < 2:
        return None
    ways[len(cover)] = top
    cover.append(tuple(sorted(atom for node in top[0].parts for atom in cover[node])))
    exact = np.unique(np.stack([atoms, raw]), axis=1).shape[1] == len(np.unique(atoms))
    arrays = tuple(np.array(one, dtype=np.intp) for one in cover)
    return MergeTree(
        name, atoms, raw, ways, arrays, ordered, exact and not fixed, fixed, gaps, describes
    )


def _beyond(way: Way, gaps: int) -> Way:
    """The same way where a leaf was put in at `gaps`."""
    return Way(tuple(node + (node >= gaps) for node in way.parts), way.favour)


def _unique_names(names: Mapping[tuple[int, ...], str], column: str) -> None:
    """Refuse a hierarchy in which two different sets of values have one name."""
    if len(set(names.values())) < len(names):
        raise LowtideError(
            f"the hierarchy of column {column!r} gives one name to different levels; give every"
            " level names of its own"
        )


def narrowed(tree: MergeTree, rows: Bools) -> MergeTree:
    """The same tree of some rows only."""
    return replace(tree, atoms=tree.atoms[rows], raw=tree.raw[rows])
