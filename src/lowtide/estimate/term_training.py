"""Training the bag-of-terms critic: terms and a network together, able to stop anywhere and go on
later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from lowtide.estimate.learners.bag import SPREAD, Bag, Weighting, term_weights
from lowtide.estimate.learners.terms import BATCH
from lowtide.estimate.objectives import Checkpoints, get_objective
from lowtide.estimate.training import normalised, saved_state
from lowtide.splits import grouped_folds
from lowtide.training import descend, to_device
from lowtide.types import Floats, Floats32, Ints

Sparse = Any  # scipy.sparse.csr_array, which carries no types

# Adam's first step size, for the networks and for the terms
_RATE = 1e-2
_TERM_RATE = 4e-3
# of a network; of more than a few, half of it: their mean varies less
_WIDTH = 32
_FEW = 4
_SAFE = 16  # steps between two states set aside for a checkpoint
_PARTIAL = 0.5  # share of the training rows seen in part: half of them prefixes, half subsets
_SEVERAL = 16  # groups from which on each network is trained on half of them
_ORDER, _MASKS, _WEIGHTS, _HALVES = range(4)  # what random numbers of a member are for
# Networks know the most frequent columns: pairs of words are many, and tell by themselves.
_KNOWN = 1 << 15
# Training starts below the scale of the terms alone, since the networks will share their evidence.
_HEADROOM = 0.3


Networks = dict[str, Tensor]
"""The `Weights` of `lowtide.estimate.learners.bag` while they are trained."""


def initial_networks(
    counts: Floats,
    rows: int,
    classes: int,
    generator: torch.Generator,
    *,
    width: int = 32,
    known: int = _KNOWN,
) -> Networks:
    """One small random network; the scale `c` of a term falls with its document frequency `counts`
    (columns,).

    It knows the `known` most frequent terms.
    """
    hidden = 16
    often = np.sort(np.argsort(-counts, kind="stable")[:known])
    # log(rows / df), 1 for a term in one of a hundred rows; frequent terms may still matter
    # together with others, and a term never seen keeps out of the networks.
    idf = np.maximum(np.log((rows + 1.0) / (counts + 1.0)) / np.log(100.0), 0.5)

    def normal(scale: float, *size: int) -> Tensor:
        return torch.randn(*size, generator=generator) * scale

    place = np.zeros(len(counts), dtype=np.int64)
    scale = np.zeros(len(counts), dtype=np.float32)
    place[often] = np.arange(len(often))
    scale[often] = np.where(counts > 0, idf, 0.0)[often]
    return {
        **({"e": torch.from_numpy(place)} if len(often) < len(counts) else {}),
        "c": torch.from_numpy(scale),
        "E": normal(0.05, len(often), width),
        "b": normal(0.1, 1, 1, width),
        "V": normal((2 / width) ** 0.5, 1, width, hidden),
        "a": torch.zeros(1, 1, hidden),
        "U": normal(0.3 * (2 / hidden) ** 0.5, 1, hidden, classes),
    }


def trunk(h: Tensor, weights: Networks, kept: Tensor | None = None) -> Tensor:
    """Scores (k, rows, |S|) of the networks from h (rows, k·width); `kept` multiplies the first
    layer (dropout).
    """
    nets, _, width = weights["b"].shape
    first = functional.relu(h.view(-1, nets, width).transpose(0, 1) + weights["b"])
    first = first if kept is None else first * kept
    return torch.bmm(
        functional.relu(torch.baddbmm(weights["a"], first, weights["V"])), weights["U"]
    )


def combine(
    alone: Tensor, h: Tensor, q: Tensor, weights: Networks, kept: Tensor | None = None
) -> Tensor:
    """Scores (k, rows, |S|) from the three sums: alone (rows, |S|), h (rows, k·width), q (rows,
    1).
    """
    scaled = h / (SPREAD * torch.sqrt(1.0 + q))
    together = trunk(scaled, weights, kept) - trunk(torch.zeros_like(h[:1]), weights)
    return alone + together * (q > 0)


def bag_sums(
    terms: Tensor, starts: Tensor, weight: Tensor, weights: Networks
) -> tuple[Tensor, Tensor, Tensor]:
    """The three sums of every row, from entries in CSR layout: terms and weight (nnz,), starts
    (rows,).
    """

    def total(entries: Tensor, table: Tensor, share: Tensor) -> Tensor:
        return functional.embedding_bag(
            entries, table, starts, mode="sum", per_sample_weights=share
        )

    scaled = weight * weights["c"][terms]
    ones = scaled.new_ones(1, 1)
    q = functional.embedding_bag(
        torch.zeros_like(terms), ones, starts, mode="sum", per_sample_weights=scaled * scaled
    )
    known = weights["e"][terms] if "e" in weights else terms
    return total(terms, weights["u"], weight), total(known, weights["E"], scaled), q


Kept = dict[str, Tensor]
Look = Callable[["TermTrainer", Kept], None]
"""Hears of every step; what it keeps is saved and restored with the trainer."""


@dataclass(frozen=True)
class TermData:
    """What networks are trained on, and how.

    Attributes:
        rows: (n, columns) sparse.
        s: (n,) classes.
        groups: (n,) rows of one group are learnt from by the same networks.
        log_prior: (|S|,).
        weighting: how counts become weights.
        steps: of training.
        objective: the bound that is maximised.
        seed: of every draw.
        members: how many networks there are.
    """

    rows: Sparse
    s: Ints
    groups: Ints
    log_prior: Floats
    weighting: Weighting
    steps: int
    objective: str
    seed: int
    members: int

    @property
    def columns(self) -> Ints:
        """(columns,) a feature for every column."""
        return np.arange(self.rows.shape[1])

    def present(self) -> Floats:
        """How many of the rows have each term, (columns,)."""
        return np.bincount(self.rows.indices, minlength=self.rows.shape[1]).astype(np.float64)


def watch(asked: Sparse | None, every: int, tick: Callable[[int], None]) -> Look:
    """Keeps the scores of the rows `asked` after every so many steps."""

    def look(trainer: TermTrainer, kept: Kept) -> None:
        if asked is not None and trainer.done % every == 0:
            scores = trainer.critic().scores(asked)
            kept[f"{trainer.done:08d}"] = torch.from_numpy(scores)
        tick(trainer.done)

    return look


class TermTrainer:
    """Terms and a network, trained together by Adam with a step size that falls to 0.

    Of many groups each member is trained on one half, the next member on the other: what one half
    of the writers have in common by chance the others do not confirm, so the mean of the members
    knows less of it by heart.

    Every random draw depends on the seed and the number of the step alone, so that a run resumes
    from its weights.
    """

    def __init__(self, data: TermData, odds: Floats, member: int) -> None:
        self.data = data
        self.member = member
        self.done = 0
        generator = torch.Generator().manual_seed(int(self._rng(_WEIGHTS, 0).integers(2**62)))
        width = _WIDTH if data.members <= _FEW else _WIDTH // 2
        networks = initial_networks(
            data.present(), len(data.s), len(data.log_prior), generator, width=width
        )
        alone = torch.from_numpy(odds * _HEADROOM).float()
        self.weights = {name: _moved(value) for name, value in {"u": alone, **networks}.items()}
        self.learned = [name for name in self.weights if name not in ("c", "e")]
        for name in self.learned:
            self.weights[name].requires_grad_()
        self.rates = [_TERM_RATE if name == "u" else _RATE for name in self.learned]
        groups = [
            {"params": [self.weights[name]], "lr": rate}
            for name, rate in zip(self.learned, self.rates, strict=True)
        ]
        self.optimiser = torch.optim.AdamW(
            groups, betas=(0.9, 0.99), weight_decay=0.0, foreach=True
        )
        self.objective = get_objective(data.objective)
        self.log_prior = _moved(torch.from_numpy(data.log_prior).float())

    def step(self) -> None:
        """One step on the next batch of rows in memory."""
        index = self._batch()
        self.learn(self.data.rows[index], self.data.s[index])

    def learn(self, rows: Sparse, classes: Ints) -> None:
        """One step on rows (batch, columns) of these classes (batch,), some of them seen in
        part.
        """
        rng = self._rng(_MASKS, self.done)
        weight = term_weights(rows.data, self.data.weighting) * partial(rows.indptr, rng)
        nets, _, width = self.weights["b"].shape
        kept = torch.from_numpy(
            2.0 * (rng.random((nets, len(classes), width), dtype=np.float32) < 0.5)
        ).float()
        terms = _moved(torch.from_numpy(rows.indices.astype(np.int64)))
        starts = _moved(torch.from_numpy(rows.indptr[:-1].astype(np.int64)))
        sums = bag_sums(terms, starts, _moved(torch.from_numpy(weight)), self.weights)
        g = normalised(combine(*sums, self.weights, _moved(kept)), self.log_prior)
        s = _moved(torch.from_numpy(classes)).expand(nets, -1)
        loss = -self.objective.on_classes(g, s, self.log_prior.exp()).mean()
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * (1 - self.done / self.data.steps)
        descend(loss, self.optimiser)
        self.done += 1

    @cached_property
    def mine(self) -> Ints:
        """The rows of this member."""
        data = self.data
        (pair, side) = divmod(self.member, 2)
        if len(np.unique(data.groups)) < _SEVERAL:
            return np.arange(len(data.s))
        rng = np.random.default_rng([data.seed, pair, _HALVES])
        return np.flatnonzero(grouped_folds(data.s, data.groups, 2, rng) == side)

    def _batch(self) -> Ints:
        n = len(self.mine)
        size = int(np.clip(n // 64, min(n, 32), BATCH))
        epoch, place = divmod(self.done, n // size)
        order = self._rng(_ORDER, epoch).permutation(n)
        return self.mine[order[place * size : (place + 1) * size]]

    def _rng(self, use: int, number: int) -> np.random.Generator:
        return np.random.default_rng([self.data.seed, self.member, use, number])

    def critic(self) -> Bag:
        """The critic as it is now."""
        weights = {
            name: value.detach().cpu().numpy().copy() for name, value in self.weights.items()
        }
        return Bag(self.data.columns, self.data.weighting, weights)

    def run(self, until: int, stage: str, checkpoints: Checkpoints, look: Look) -> Kept:
        """Train until a step and return what `look` has kept; goes on from a checkpoint, and leaves
        one at the end.
        """
        saved = checkpoints.load(f"{stage}-{self.member}")
        kept = {} if saved is None else self.restore(saved)
        # What is saved is the state after a whole step: Ctrl-C may come in the middle of one.
        safe: dict[str, Tensor] = {}
        try:
            while self.done < until:
                if self.done % _SAFE == 0 and checkpoints.folder is not None:
                    safe = self.state(kept)
                self.step()
                look(self, kept)
            safe = self.state(kept) if checkpoints.folder is not None else {}
        finally:
            checkpoints.save(f"{stage}-{self.member}", safe)
        return kept

    def state(self, kept: Kept) -> dict[str, Tensor]:
        """A copy of everything a later run goes on from."""
        tensors = {f"weights.{name}": value for name, value in self.weights.items()}
        for name in self.learned:
            state = self.optimiser.state[self.weights[name]]
            tensors |= {
                f"adam.{name}.{key}": torch.as_tensor(value) for key, value in state.items()
            }
        tensors |= {
            "done": torch.tensor(self.done),
            **{f"kept.{name}": value for name, value in kept.items()},
        }
        return {name: value.detach().clone() for name, value in tensors.items()}

    def restore(self, saved: dict[str, Tensor]) -> Kept:
        """Go on from a state, and return what was kept there."""
        with torch.no_grad():
            for name, value in self.weights.items():
                value.copy_(saved[f"weights.{name}"])
        for name in self.learned:
            weights = self.weights[name]
            self.optimiser.state[weights] = saved_state(saved, f"adam.{name}.", weights.device)
        self.done = int(saved["done"])
        return {
            name.removeprefix("kept."): value
            for name, value in saved.items()
            if name.startswith("kept.")
        }


def _moved(tensor: Tensor) -> Tensor:
    return to_device(tensor, sparse=True)


def partial(indptr: NDArray[Any], rng: np.random.Generator) -> Floats32:
    """Which entries are seen, (nnz,): most rows whole, of the others a prefix or a random subset of
    any size.
    """
    lengths = np.diff(indptr)
    u = rng.random((3, len(lengths)))
    share = np.repeat(u[0], lengths)
    prefix = np.repeat(u[1] < 0.5, lengths)
    whole = np.repeat(u[2] >= _PARTIAL, lengths)
    place = (np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths) + 0.5) / np.repeat(
        np.maximum(lengths, 1), lengths
    )
    return (whole | (np.where(prefix, place, rng.random(int(indptr[-1]))) < share)).astype(
        np.float32
    )
