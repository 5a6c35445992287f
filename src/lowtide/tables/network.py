"""A small network as an attacker, stopped on the validation rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from lowtide.errors import Floats
from lowtide.tables.encoder import Rows
from lowtide.tables.learners import Part, Scaled

_WIDTH = 64
_BATCH = 128
_RATE = 5e-3
_DECAY = 0.1
_START = 0.1  # small first weights: columns that tell something soon outgrow those that do not
_LOOKS = 60  # at most, each at the validation rows after a pass (or a part of one)
_PATIENCE = 8
_LOOK_STEPS = 60  # at most, between two looks
_CHUNK = 4096
_FARTHEST = 4.0  # standard deviations; what lies beyond would only shake the gradients


class Network:
    """Two hidden layers on standardised columns; the weights that did best on the validation rows are kept."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Train by AdamW on the cross-entropy until the validation rows gain nothing more."""
        self._scaled = Scaled(train.rows)
        rng = np.random.default_rng(self._seed)
        rows, codes = self._scaled(train.rows), torch.from_numpy(train.codes)
        held, truth = self._scaled(validation.rows), torch.from_numpy(validation.codes)
        self._net = _network(train.rows.shape[1], prior, self._seed)
        optimiser = torch.optim.AdamW(self._net.parameters(), lr=_RATE, weight_decay=_DECAY)
        best, stale, kept = np.inf, 0, _copy(self._net)
        steps = int(np.clip(len(codes) // _BATCH, 10, _LOOK_STEPS))
        size = min(_BATCH, len(codes))
        order = _endless(len(codes), size, rng)
        for _ in range(_LOOKS):
            for _ in range(steps):
                chosen = next(order)
                loss = nn.functional.cross_entropy(self._net(_tensor(rows[chosen])), codes[chosen])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            now = float(nn.functional.cross_entropy(self._answer(held), truth))
            if now < best - 1e-4:
                best, stale, kept = now, 0, _copy(self._net)
            else:
                stale += 1
            if stale >= _PATIENCE:
                break
        self._net.load_state_dict(kept)

    def log_scores(self, rows: Rows) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        return np.asarray(self._answer(self._scaled(rows)).log_softmax(dim=1).double().numpy())

    @torch.no_grad()
    def _answer(self, scaled: Rows) -> Tensor:
        return torch.cat([self._net(_tensor(scaled[at : at + _CHUNK])) for at in range(0, scaled.shape[0], _CHUNK)])


def _network(columns: int, prior: Floats, seed: int) -> nn.Sequential:
    """The network at its start, where it answers the prior."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first, last = nn.Linear(columns, _WIDTH), nn.Linear(_WIDTH, len(prior))
        net = nn.Sequential(first, nn.GELU(), nn.Linear(_WIDTH, _WIDTH), nn.GELU(), last)
    with torch.no_grad():
        first.weight.mul_(_START)
        last.weight.zero_()
        last.bias.copy_(torch.from_numpy(np.log(prior)))
    return net


def _tensor(scaled: Rows) -> Tensor:
    dense = scaled.toarray() if sparse.issparse(scaled) else scaled
    return torch.from_numpy(np.clip(dense, -_FARTHEST, _FARTHEST).astype(np.float32))


def _copy(net: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in net.state_dict().items()}


def _endless(n: int, size: int, rng: np.random.Generator) -> Iterator[NDArray[np.intp]]:
    """Endless batches of row numbers, in a new order each pass."""
    while True:
        order = rng.permutation(n)
        for start in range(0, n - size + 1, size):
            yield order[start : start + size]
