"""What the values of one column can be joined into: any neighbouring bands; categories in a fixed
order.

Categories can be joined in more ways than can be tried. So they are joined two at a time, first
those that are worth least apart for what they tell about the secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import entr, xlogy

from lowtide.types import Floats, Ints

PLAIN = 0.1  # weight of the plain worth beside a utility, as where columns are hidden


class Way(NamedTuple):
    """One way to split a node: its parts, and how much it is favoured over others."""

    parts: tuple[int, ...]
    favour: float = 1.0


@dataclass(frozen=True)
class Joined:
    """Atoms joined to nodes.

    Attributes:
        ways: of every node that is not an atom the ways to split it into other nodes, with how much
            each is favoured.
        cover: the atoms of every node; atoms come first, and a node above all others last.
        top: the nodes that nothing joins.
    """

    ways: Mapping[int, tuple[Way, ...]]
    cover: Sequence[tuple[int, ...]]
    top: tuple[int, ...]


def join_neighbours(weights: Floats) -> Joined:
    """All bands that neighbouring atoms can form; each may be split at any cut.

    Args:
        weights: (atoms − 1,) how much the cut before each atom but the first is favoured.
    """
    size = len(weights) + 1
    spans = [
        (first, first + wide) for wide in range(1, size + 1) for first in range(size - wide + 1)
    ]
    place = {span: node for node, span in enumerate(spans)}
    ways = {
        node: tuple(
            Way((place[first, cut], place[cut, end]), float(weights[cut - 1]))
            for cut in range(first + 1, end)
        )
        for node, (first, end) in enumerate(spans)
        if end - first > 1
    }
    return Joined(ways, [tuple(range(*span)) for span in spans], (len(spans) - 1,))


def count_classes(atoms: Ints, codes: Ints, size: int) -> Floats:
    """(classes, size) how often each class occurs with each atom."""
    table = np.zeros((int(codes.max(initial=0)) + 1, size))
    np.add.at(table, (codes, atoms), 1.0)
    return table


def join_categories(secret: Floats, useful: Floats, n: int) -> Joined:
    """Join two at a time those that are worth least apart for what they tell about the secret.

    Args:
        secret: (classes, atoms) counts.
        useful: (classes, atoms) counts of the utility; one row of zeros without one.
        n: rows for planning.
    """
    size = secret.shape[1]
    nodes = list(range(size))
    cover: list[tuple[int, ...]] = [(k,) for k in range(size)]
    ways: dict[int, tuple[Way, ...]] = {}
    whole = np.log(size) * n if size > 1 else 1.0
    all_useful = max(_told(useful), 1e-9)
    chance = (len(secret) - 1) / 2  # nats by which two parts seem to differ (Miller, 1955), times n
    while len(nodes) > 1:
        left, right = np.triu_indices(len(nodes), 1)
        apart = _lost(secret, left, right)
        worth = _lost(useful, left, right)
        plain = _grown(secret.sum(axis=0), left, right)
        value = PLAIN * plain / whole + (1 - PLAIN) * worth / all_useful
        best = int(np.argmin(value / (apart + chance)))
        first = int(left[best])
        second = int(right[best])
        ways[len(cover)] = (Way((nodes[first], nodes[second])),)
        cover.append(cover[nodes[first]] + cover[nodes[second]])
        nodes[first] = len(cover) - 1
        del nodes[second]
        secret, useful = (_summed(table, first, second) for table in (secret, useful))
    return Joined(ways, cover, (nodes[0],))


def _summed(table: Floats, first: int, second: int) -> Floats:
    table = table.copy()
    table[:, first] += table[:, second]
    return np.delete(table, second, axis=1)


def _grown(rows: Floats, left: Ints, right: Ints) -> Floats:
    """Rows times the nats by which the entropy of the parts falls when two are joined, (pairs,)."""
    both = rows[left] + rows[right]
    return np.asarray(xlogy(both, both) - xlogy(rows, rows)[left] - xlogy(rows, rows)[right])


def _lost(table: Floats, left: Ints, right: Ints) -> Floats:
    """Rows times the nats about the class that joining two parts loses, (pairs,)."""
    told = xlogy(table, table).sum(axis=0) - xlogy(table.sum(axis=0), table.sum(axis=0))
    both = table[:, left] + table[:, right]
    joined = xlogy(both, both).sum(axis=0) - xlogy(both.sum(axis=0), both.sum(axis=0))
    return np.maximum(told[left] + told[right] - joined, 0.0)


def _told(table: Floats) -> float:
    """Rows times the nats about the class that parts tell."""
    whole = table.sum(axis=1)
    apart = xlogy(table, table).sum() - xlogy(table.sum(axis=0), table.sum(axis=0)).sum()
    return max(0.0, float(apart - xlogy(whole, whole).sum() + xlogy(whole.sum(), whole.sum())))


def entropy(codes: Ints) -> float:
    """The entropy of codes (n,), in nats."""
    counts = np.bincount(codes)
    return float(entr(counts / counts.sum()).sum())
