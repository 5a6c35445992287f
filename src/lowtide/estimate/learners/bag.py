"""The bag-of-terms critic for sparse rows: every present term adds its own evidence, and nothing is
ever made dense.

`score = Σ_j w(x_j) u_j + trunk(h / 3√(1 + q)) − trunk(0)` with `h = Σ_j w(x_j) c_j E_j` and `q =
Σ_j (w(x_j) c_j)²` over the present terms j: what each term tells alone, plus small networks for
what terms tell together. All three sums run over the entries of a row, so that the score after each
present term is one running sum. Dividing by √q keeps long texts in the range of the networks.

A term that does not occur adds nothing: the critic is asked about the terms that are *there* (a
text with some words hidden), not about the knowledge that a word is absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LowtideError, one_of
from lowtide.estimate.learners.base import Array, Critic
from lowtide.estimate.learners.network import trunk
from lowtide.types import Bools, Floats, Floats32, Ints

Weighting = Literal["counts", "log", "binary"]
WEIGHTINGS: tuple[Weighting, ...] = ("counts", "log", "binary")
"""How often a term occurs (tf) becomes its weight: tf, log₂(1 + tf), or 1."""

Weights = dict[str, Array]
"""`u` (columns, |S|); with networks also `c` (columns,), `E` (known columns, k·width), `b` (k, 1,
width), `V` (k, width, hidden), `a` (k, 1, hidden), `U` (k, hidden, |S|), and `e` (columns,) the row
of `E` of each column. Where `e` is left out, networks know all columns. Those they do not know have
`c` = 0.
"""

Sparse = Any  # scipy.sparse.csr_array, which carries no types
_NETWORK = ("c", "E", "b", "V", "a", "U")
_GRID = np.linspace(-6.0, 6.0, 121)  # log-odds a term may have
_ROUNDS = 200  # of expectation maximisation; the posterior means have settled well before
_BLOCK = 1 << 20  # numbers of running sums to hold at once
SPREAD = (
    3.0  # brings h / √(1 + q) near variance 1 for embeddings of the size they reach in training
)


def term_weights(values: NDArray[np.floating], weighting: Weighting) -> Floats32:
    """The weight of each entry, (nnz,); an odd function, so that signed entries are allowed."""
    if weighting == "counts":
        return np.asarray(values, dtype=np.float32)
    if weighting == "log":
        return np.asarray(np.sign(values) * np.log2(1.0 + np.abs(values)), dtype=np.float32)
    return np.sign(values).astype(np.float32)


def witnesses(rows: Sparse, groups: Ints) -> Floats:
    """(columns,) how many independent rows each column is seen in, by Kish's rule, when rows of one
    group agree.

    n rows, m_a of them of group a, are worth `(Σ m_a)² / Σ m_a²`.
    """
    cells = occurrences(rows, groups)
    total = np.bincount(cells.indices, cells.data, rows.shape[1])
    squares = np.bincount(cells.indices, np.square(cells.data, dtype=np.float64), rows.shape[1])
    return np.asarray(total**2 / np.maximum(squares, 1), dtype=np.float64)


def occurrences(rows: Sparse, codes: Ints) -> Sparse:
    """In how many rows of each code (n,) from 0 each column is seen, (codes, columns) sparse."""
    from scipy import sparse

    present = sparse.csr_array(
        ((rows.data != 0).astype(np.float32), rows.indices, rows.indptr), shape=rows.shape
    )
    shape = (int(codes.max(initial=0)) + 1, len(codes))
    members = sparse.csr_array(
        (np.ones(len(codes), np.float32), (codes, np.arange(len(codes)))), shape=shape
    )
    return sparse.csr_array(members @ present)


def log_odds(
    rows: Sparse, s: Ints, classes: int, weighting: Weighting, *, groups: Ints | None = None
) -> Floats:
    """Shrunken `log p(s | term) / p(s)`, (columns, |S|), by empirical Bayes.

    Rows of one group, such as the texts of one writer, are not independent: a term counts as many
    occurrences as it has witnesses. For each class the occurrences of a term in it are binomial,
    with log-odds against the class's share of all occurrences that are drawn from an unknown law on
    a grid. Expectation maximisation finds the law; the answer is the posterior mean.
    """
    values = np.abs(rows.data) if weighting == "counts" else (rows.data != 0).astype(np.float64)
    cells = rows.indices.astype(np.int64) * classes + np.repeat(s, np.diff(rows.indptr))
    inside = np.asarray(
        np.bincount(cells, values, rows.shape[1] * classes), dtype=np.float64
    ).reshape(-1, classes)
    if groups is not None:
        seen = np.bincount(rows.indices[rows.data != 0], minlength=rows.shape[1])
        inside *= (witnesses(rows, groups) / np.maximum(seen, 1))[:, None]
    return shrunken_odds(inside)


def shrunken_odds(inside: Floats) -> Floats:
    """As `log_odds`, from how often each term occurs in each class, (columns, |S|), in independent
    occurrences.
    """
    if not inside.any():
        return np.zeros_like(inside)
    share = np.clip(inside.sum(axis=0) / inside.sum(), 1e-6, 1 - 1e-6)
    return np.stack(
        [_posterior_mean(inside[:, k], inside.sum(axis=1), share[k]) for k in range(len(share))],
        axis=1,
    )


def log_odds_quantiles(
    inside: Floats, total: Floats, share: float, levels: Floats
) -> tuple[Floats, Floats]:
    """What is known of the log-odds of each term against `share`, by the same empirical Bayes.

    Args:
        inside: (columns,) occurrences in the class.
        total: (columns,) all occurrences.
        share: of the class.
        levels: (q,) of the quantiles.

    Returns:
        (columns,) posterior means, and (columns, q) quantiles. Where there is plenty of data they
        are those of the normal approximation, which the grid is too coarse for.
    """
    from scipy import special

    posterior, back = _posterior(inside, total, share)
    steps = np.diff(_GRID, append=2 * _GRID[-1] - _GRID[-2])
    # The law of a grid point is spread over its cell, so that quantiles do not jump.
    reached = np.cumsum(posterior, axis=1) - 0.5 * posterior
    ends = np.stack([np.interp(levels, row, _GRID) for row in reached])
    mean = posterior @ _GRID
    p = (inside + 0.5) / (total + 1.0)
    error = 1.0 / np.sqrt((total + 1.0) * p * (1.0 - p))
    plenty = error < 2.0 * steps[0]
    centre = np.where(plenty, np.log(p / (1 - p)) - np.log(share / (1 - share)), mean[back])
    normal = centre[:, None] + error[:, None] * special.ndtri(levels)
    return centre, np.where(plenty[:, None], normal, ends[back])


def _posterior_mean(inside: Floats, total: Floats, share: float) -> Floats:
    """Posterior mean (columns,) of `log p/share` from `inside` successes of `total` trials each."""
    from scipy import special

    posterior, back = _posterior(inside, total, share)
    answer = posterior @ (special.log_expit(np.log(share / (1 - share)) + _GRID) - np.log(share))
    return np.where(total > 0, answer[back], 0.0)


def _posterior(inside: Floats, total: Floats, share: float) -> tuple[Floats, Ints]:
    """Posteriors on the grid, (different counts, grid), and which of them is that of each
    column.
    """
    from scipy import special

    # Many terms have the same small counts: answer each pair of counts once.
    pairs, back, times = np.unique(
        np.stack([inside, total], 1).round(2), axis=0, return_inverse=True, return_counts=True
    )
    base = np.log(share / (1 - share))
    inside = special.log_expit(base + _GRID)
    outside = special.log_expit(-base - _GRID)
    likelihood = pairs[:, :1] * inside + (pairs[:, 1:] - pairs[:, :1]) * outside
    likelihood = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    times = times * (pairs[:, 1] > 0)
    law = np.full(len(_GRID), 1 / len(_GRID))
    for _ in range(_ROUNDS):
        evidence = likelihood @ law
        law *= (times / evidence) @ likelihood / times.sum()
    return likelihood * law / (likelihood @ law)[:, None], back.reshape(-1)


def average(members: list[Weights]) -> Weights:
    """The weights of a critic whose scores are the mean of those of the members, which share `c`
    and `e`.
    """
    side_by_side = {
        name: np.concatenate([one[name] for one in members]) for name in ("b", "V", "a", "U")
    }
    terms = np.mean([one["u"] for one in members], axis=0)
    embeddings = np.concatenate([one["E"] for one in members], axis=1)
    shared: Weights = {name: members[0][name] for name in ("c", "e") if name in members[0]}
    return {"u": terms, **shared, "E": embeddings, **side_by_side}


def embedding_rows(terms: Ints, weights: Weights) -> Ints:
    """The rows of `E` of columns `terms`; of a column that networks do not know it is any row, as
    its `c` is 0.
    """
    return weights["e"][terms] if "e" in weights else terms


def combine(alone: Array, h: Array, q: Array, weights: Weights) -> Array:
    """Scores (rows, |S|), the mean of k networks, from the sums: alone (rows, |S|), h (rows,
    k·width), q (rows, 1).
    """
    nets, _, width = weights["b"].shape
    scaled = (h / (SPREAD * np.sqrt(1.0 + q))).reshape(-1, nets, width).swapaxes(0, 1)
    together = trunk(scaled + weights["b"], weights) - trunk(weights["b"], weights)
    return np.asarray(alone + together.mean(axis=0) * (q > 0))


class Bag(Critic):
    """A fitted bag-of-terms critic: terms alone, and optionally the mean of a few networks on
    top.

    Attributes:
        groups: (columns,) the feature of each column.
        weighting: how counts of terms become weights.
        weights: of the columns.
        terms: how many columns hold counts of terms. Behind them are runs of characters of words
            that are no terms, whose values count as they are.
    """

    kind: ClassVar[str] = "bag"

    def __init__(
        self, groups: Ints, weighting: Weighting, weights: Weights, terms: int | None = None
    ) -> None:
        self.groups = groups
        self.weighting = weighting
        self.weights = weights
        self.terms = len(groups) if terms is None else terms

    @property
    def features(self) -> int:
        """M, the number of features."""
        return int(self.groups.max()) + 1

    def scores(self, x: Sparse, seen: Bools | None = None) -> Array:
        """Scores (n, |S|) of sparse rows (n, columns); `seen` is (n, m)."""
        rows = self._rows(x)
        weight = self._weights_of(rows)
        if seen is not None:
            owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
            weight *= seen[owner, self.groups[rows.indices]]
        alone = weighted_sums(rows.indices, rows.indptr, weight, self.weights["u"])
        if "E" not in self.weights:
            return alone
        scaled = weight * self.weights["c"][rows.indices]
        known = embedding_rows(rows.indices, self.weights)
        h = weighted_sums(known, rows.indptr, scaled, self.weights["E"])
        q = weighted_sums(
            np.zeros_like(known), rows.indptr, scaled * scaled, np.ones((1, 1), dtype=np.float32)
        )
        return combine(alone, h, q, self.weights)

    def present_scores(self, x: Sparse) -> Array:
        """Scores (nnz, |S|) of each row after each of its entries, in CSR order: one pass, in
        bounded memory.
        """
        rows = self._rows(x)
        if not rows.has_sorted_indices:
            raise LowtideError(
                "the terms of each row must be in order; call x.sort_indices() first"
            )
        return self._running(rows.indices, rows.indptr, self._weights_of(rows))

    def prefix_scores(self, x: Sparse, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|) along `order` (m,): dense, so for small vocabularies; one pass
        over the entries.
        """
        rows = self._rows(x)
        n = rows.shape[0]
        m = self.features
        place = np.arange(m)
        if order is not None:
            place[order] = np.arange(m)
        owner = np.repeat(np.arange(n), np.diff(rows.indptr))
        rank = place[self.groups[rows.indices]]
        sort = np.lexsort((rank, owner))
        weight = self._weights_of(rows)[sort]
        running = np.pad(self._running(rows.indices[sort], rows.indptr, weight), ((1, 0), (0, 0)))
        # Scores change only where a term is present: count the entries of each row up to each
        # place.
        entries = np.zeros((n, m + 1), dtype=np.int64)
        np.add.at(entries, (owner, rank + 1), 1)
        entries = entries.cumsum(axis=1)
        return np.asarray(running[np.where(entries > 0, rows.indptr[:-1, None] + entries, 0)])

    def _running(self, terms: NDArray[Any], indptr: NDArray[Any], weight: Floats32) -> Array:
        """Scores (nnz, |S|) after each entry, row by row."""
        width = self.weights["u"].shape[1] + (
            self.weights["E"].shape[1] + 1 if "E" in self.weights else 0
        )
        parts = [np.zeros((0, self.weights["u"].shape[1]), dtype=np.float32)]
        for start, end in row_blocks(indptr, _BLOCK // width):
            place = slice(int(indptr[start]), int(indptr[end]))
            lengths = np.diff(indptr[start : end + 1])
            parts.append(self._running_block(terms[place], weight[place], lengths))
        return np.concatenate(parts)

    def _running_block(self, terms: Ints, weight: Floats32, lengths: Ints) -> Array:
        before = np.repeat(np.cumsum(lengths) - lengths, lengths)
        alone = running_sums(self.weights["u"][terms] * weight[:, None], before)
        if "E" not in self.weights:
            return alone
        scaled = (weight * self.weights["c"][terms])[:, None]
        h = running_sums(self.weights["E"][embedding_rows(terms, self.weights)] * scaled, before)
        q = running_sums(scaled * scaled, before).clip(min=0.0)
        return combine(alone, h, q, self.weights)

    def _weights_of(self, rows: Sparse) -> Floats32:
        """The weight of each entry, (nnz,)."""
        weight = term_weights(rows.data, self.weighting)
        return np.where(rows.indices < self.terms, weight, rows.data).astype(np.float32)

    def _rows(self, x: Sparse) -> Sparse:
        from scipy import sparse

        if not sparse.issparse(x):
            raise LowtideError("the bag critic reads sparse rows; give a scipy CSR array")
        if x.shape[1] != len(self.groups):
            raise LowtideError(
                f"x must have {len(self.groups)} columns, one per term, got {x.shape[1]}"
            )
        return x.tocsr()

    def settings(self) -> dict[str, Any]:
        """How counts become weights, and of which columns."""
        return {"weighting": self.weighting, "terms": self.terms}

    def tensors(self) -> dict[str, Array]:
        """The weights and the groups."""
        return {"groups": self.groups, **self.weights}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Bag:
        """Rebuild it."""
        one_of("weighting", settings["weighting"], tuple(WEIGHTINGS))
        known = ("u", *_NETWORK, "e") if "E" in tensors else ("u",)
        weights = {name: tensors[name] for name in known if name in tensors}
        return cls(tensors["groups"], settings["weighting"], weights, int(settings["terms"]))


def row_blocks(indptr: NDArray[Any], entries: int) -> Iterator[tuple[int, int]]:
    """Blocks of whole rows, as (first, beyond the last): as many as hold `entries`, and at least
    one.
    """
    start = 0
    limit = max(1, entries)
    while start < len(indptr) - 1:
        end = max(start + 1, int(np.searchsorted(indptr, indptr[start] + limit, side="right")) - 1)
        yield start, end
        start = end


def running_sums(steps: Floats32, before: Ints) -> Floats32:
    """Running sums (nnz, d) within rows; `before` (nnz,) is the first entry of the row each entry
    belongs to.
    """
    # In float64: a sum over many rows is taken off again, and float32 would keep its rounding.
    sums = np.pad(steps.cumsum(axis=0, dtype=np.float64), ((1, 0), (0, 0)))
    return np.asarray(sums[1:] - sums[before], dtype=np.float32)


def weighted_sums(
    terms: NDArray[Any], indptr: NDArray[Any], weight: Floats32, table: Array
) -> Array:
    """(n, d) the rows of a table (columns, d) that the entries of each row name, times their
    weights, added up.
    """
    from scipy import sparse

    return np.asarray(
        sparse.csr_array((weight, terms, indptr), shape=(len(indptr) - 1, len(table))) @ table
    )
