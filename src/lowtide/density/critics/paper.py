"""The paper's networks and its recipe, kept to reproduce its tables.

The output is clipped inside the loss, one shuffle stands for the product law, the number of epochs is fixed, nothing
is held out, and the constant that the Donsker–Varadhan bound leaves free stays where it falls. Unseen columns are set
to 0; the paper does not say what stands in for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from lowtide.density.critics.bag import row_blocks, running_sums
from lowtide.density.critics.base import Critic
from lowtide.density.objectives import Objective, get_objective
from lowtide.errors import LowtideError
from lowtide.progress import progress_bar
from lowtide.training import minimise, shuffled_batches, to_device
from lowtide.types import Floats32, Ints

Sparse = Any  # scipy.sparse.csr_array, which carries no types

# Hidden layers and read-out of the synthetic experiment (three hidden layers, a read-out of 50 neurons).
SYNTHETIC = (100, 50, 50, 50)
# … and of the tweets.
TWEETS = (100, 100, 100, 32)
_TWEET_BATCH, _TWEET_EPOCHS = 128, 50
_RATE, _TINY = 0.005, 1e-10  # Adagrad's step, and what PyTorch adds to its denominator
_BLOCK = 1 << 20  # numbers of running sums to hold at once


def network(inputs: int, widths: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    """A ReLU network with one output; PyTorch's default initialisation, drawn from `generator`."""
    layers: list[nn.Module] = []
    for a, b in zip([inputs, *widths], [*widths, 1], strict=True):
        layer = nn.Linear(a, b)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.uniform_(-(a**-0.5), a**-0.5, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train(
    x: Tensor, s: Tensor, *, trim: float, objective: str, epochs: int, seed: int, show: bool | None
) -> nn.Sequential:
    """Full batches, Adagrad at 0.005, hard clip, one shuffle a step (paper, App. C)."""
    generator = torch.Generator().manual_seed(seed)
    net = to_device(network(x.shape[1] + s.shape[1], SYNTHETIC, generator))
    x, s = to_device(x), to_device(s)
    optimiser = torch.optim.Adagrad(net.parameters(), lr=_RATE)
    bound: Objective = get_objective(objective)

    def losses(tick: Callable[[int], None]) -> Iterator[Tensor]:
        for epoch in range(epochs):
            shuffled = s[torch.randperm(len(s), generator=generator)]
            joint = net(torch.cat([x, s], dim=1)).squeeze(1).clamp(-trim, trim)
            product = net(torch.cat([x, shuffled], dim=1)).squeeze(1).clamp(-trim, trim)
            yield -bound.on_pairs(joint, product)
            tick(epoch + 1)

    with progress_bar("the paper's recipe", epochs, show) as tick:
        minimise(losses(tick), optimiser)
    return net.cpu().eval()


def train_sparse(
    rows: Sparse,
    s: Ints,
    *,
    classes: int,
    trim: float,
    objective: str,
    steps: int | None,
    seed: int,
    show: bool | None,
) -> nn.Sequential:
    """The recipe for tweets (paper, App. B.3): batches of 128, Adagrad at 0.005, 50 epochs or `steps` batches.

    Rows (n, columns) stay sparse. Adagrad leaves a weight without gradient where it is, so that of the first layer only
    the terms of the batch are touched, and the steps are those of dense rows.
    """
    n, columns = rows.shape
    batch = min(_TWEET_BATCH, n)
    generator = torch.Generator().manual_seed(seed)
    net = to_device(network(columns + classes, TWEETS, generator), sparse=True)
    first, rest = _first(net), net[1:]
    table = first.weight.detach().T[:columns].contiguous()
    shifts = first.weight.detach().T[columns:].contiguous().requires_grad_()
    squares = torch.zeros_like(table)
    optimiser = torch.optim.Adagrad([shifts, first.bias, *rest.parameters()], lr=_RATE)
    bound: Objective = get_objective(objective)
    steps = _TWEET_EPOCHS * (n // batch) if steps is None else steps

    def losses(tick: Callable[[int], None]) -> Iterator[Tensor]:
        for step, index in enumerate(islice(shuffled_batches(n, batch, generator), steps)):
            secret = torch.from_numpy(s[index])
            shuffled = secret[torch.randperm(batch, generator=generator)]
            part = rows[index]
            used, part.indices = np.unique(part.indices, return_inverse=True)
            met, secret, shuffled = (
                one.to(table.device) for one in (torch.from_numpy(used.astype(np.int64)), secret, shuffled)
            )
            own = table[met].requires_grad_()
            sums = _first_sums(part, own) + first.bias
            joint, product = (rest(sums + shifts[one]).squeeze(1).clamp(-trim, trim) for one in (secret, shuffled))
            yield -bound.on_pairs(joint, product)
            if own.grad is not None:
                squares[met] += own.grad.square()
                table[met] -= _RATE * own.grad / (squares[met].sqrt() + _TINY)
            tick(step + 1)

    with progress_bar("the paper's recipe", steps, show) as tick:
        minimise(losses(tick), optimiser)
    with torch.no_grad():
        first.weight.copy_(torch.cat([table, shifts]).T)
    return net.cpu().eval()


def _first(net: nn.Sequential) -> nn.Linear:
    layer = net[0]
    if not isinstance(layer, nn.Linear):
        raise LowtideError("the paper's network starts with a linear layer; save the density again")
    return layer


def _first_sums(rows: Sparse, table: Tensor, weight: Floats32 | None = None) -> Tensor:
    """What sparse rows add up to in the first layer, (n, width), from its weights as a table (columns, width)."""
    terms, starts = (torch.from_numpy(part.astype(np.int64)) for part in (rows.indices, rows.indptr[:-1]))
    share = torch.from_numpy(rows.data.astype(np.float32) if weight is None else weight)
    terms, starts, share = (part.to(table.device) for part in (terms, starts, share))
    return functional.embedding_bag(terms, table, starts, mode="sum", per_sample_weights=share)


def network_tensors(net: nn.Sequential) -> dict[str, Tensor]:
    """The weights of a network, by layer."""
    return {name: value.detach() for name, value in net.state_dict().items()}


def network_from_tensors(tensors: dict[str, Tensor]) -> nn.Sequential:
    """The network that `network_tensors` took apart."""
    widths = [value.shape[0] for name, value in sorted(tensors.items(), key=_layer) if name.endswith("weight")]
    net = network(tensors["0.weight"].shape[1], widths[:-1], torch.Generator())
    net.load_state_dict(tensors)
    return net.eval()


def _layer(item: tuple[str, Tensor]) -> int:
    return int(item[0].split(".")[0])


class PaperCritic(Critic):
    """`g(s, x)` of the paper for a finite secret, s as a one-hot vector."""

    kind: ClassVar[str] = "paper"
    normalised: ClassVar[bool] = False

    def __init__(self, net: nn.Sequential, groups: Tensor, classes: int) -> None:
        self.net, self.groups, self.classes = net, groups, classes

    def scores(self, x: Tensor | Sparse, seen: Tensor | None = None) -> Tensor:
        """Scores (n, |S|) of dense or sparse rows: one evaluation for each class."""
        if sparse.issparse(x):
            return self._of_sums(self._sums(x, seen))
        x = x if seen is None else x * seen[:, self.groups]
        onehot = torch.eye(self.classes)
        values = [self.net(torch.cat([x, row.expand(len(x), -1)], dim=1)) for row in onehot]
        return torch.cat(values, dim=1)

    def prefix_scores(self, x: Tensor | Sparse, order: Tensor | None = None) -> Tensor:
        """Scores (n, m + 1, |S|): one evaluation for every prefix, as in the paper."""
        features = int(self.groups.max()) + 1
        order = torch.arange(features) if order is None else order
        seen = torch.zeros(features, dtype=torch.bool)
        steps = [self.scores(x, seen.expand(x.shape[0], -1))]
        for feature in order:
            seen = seen.clone()
            seen[feature] = True
            steps.append(self.scores(x, seen.expand(x.shape[0], -1)))
        return torch.stack(steps, dim=1)

    def present_scores(self, x: Sparse) -> Tensor:
        """Scores (nnz, |S|) of each sparse row after each of its entries, in CSR order, in bounded memory."""
        table, parts = self._table(), [torch.zeros(0, self.classes)]
        for start, end in row_blocks(x.indptr, _BLOCK // table.shape[1]):
            place = slice(int(x.indptr[start]), int(x.indptr[end]))
            lengths = np.diff(x.indptr[start : end + 1])
            before = torch.from_numpy(np.repeat(np.cumsum(lengths) - lengths, lengths).astype(np.int64))
            terms = torch.from_numpy(x.indices[place].astype(np.int64))
            steps = table[terms] * torch.from_numpy(x.data[place].astype(np.float32))[:, None]
            parts.append(self._of_sums(running_sums(steps, before)))
        return torch.cat(parts)

    def _table(self) -> Tensor:
        """The first layer's weights of the columns, (columns, width)."""
        return _first(self.net).weight.detach().T[: -self.classes].contiguous()

    def _sums(self, x: Sparse, seen: Tensor | None) -> Tensor:
        rows = x.tocsr()
        weight = rows.data.astype(np.float32)
        if seen is not None:
            owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
            weight = weight * seen.numpy()[owner, self.groups.numpy()[rows.indices]]
        return _first_sums(rows, self._table(), weight)

    def _of_sums(self, sums: Tensor) -> Tensor:
        """Scores (n, |S|) from what the columns add up to in the first layer, (n, width)."""
        first = _first(self.net)
        shifts = first.weight[:, -self.classes :].T + first.bias
        return torch.cat([self.net[1:](sums + shift) for shift in shifts], dim=1)

    def settings(self) -> dict[str, Any]:
        """The number of classes."""
        return {"classes": self.classes}

    def tensors(self) -> dict[str, Tensor]:
        """The weights and the groups."""
        return {**network_tensors(self.net), "groups": self.groups}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> PaperCritic:
        """Rebuild it."""
        weights = {name: value for name, value in tensors.items() if name != "groups"}
        return cls(network_from_tensors(weights), tensors["groups"], int(settings["classes"]))
