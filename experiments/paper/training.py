"""The paper's recipe: how its networks for rows and texts are trained.

The output is clipped inside the loss, one shuffle stands for the product law, the number of epochs
is fixed, nothing is held out, and the constant that the Donsker–Varadhan bound leaves free stays
where it falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from lowtide.errors import LowtideError
from lowtide.estimate.objectives import Objective, get_objective
from lowtide.progress import progress_bar
from lowtide.training import minimise, shuffled_batches, to_device
from lowtide.types import Ints

Sparse = Any  # scipy.sparse.csr_array, which carries no types

# Hidden layers and read-out of the synthetic experiment (three hidden layers, a read-out of 50
# neurons).
SYNTHETIC = (100, 50, 50, 50)
# … and of the tweets.
TWEETS = (100, 100, 100, 32)
_TWEET_BATCH = 128
_TWEET_EPOCHS = 50
# Adagrad's step, and what PyTorch adds to its denominator
_RATE = 0.005
_TINY = 1e-10


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
    x = to_device(x)
    s = to_device(s)
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
    """The recipe for tweets (paper, App. B.3): batches of 128, Adagrad at 0.005, 50 epochs or
    `steps` batches.

    Rows (n, columns) stay sparse. Adagrad leaves a weight without gradient where it is, so that of
    the first layer only the terms of the batch are touched, and the steps are those of dense rows.
    """
    n, columns = rows.shape
    batch = min(_TWEET_BATCH, n)
    generator = torch.Generator().manual_seed(seed)
    net = to_device(network(columns + classes, TWEETS, generator), sparse=True)
    first = _first(net)
    rest = net[1:]
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
                one.to(table.device)
                for one in (torch.from_numpy(used.astype(np.int64)), secret, shuffled)
            )
            own = table[met].requires_grad_()
            sums = _first_sums(part, own) + first.bias
            joint, product = (
                rest(sums + shifts[one]).squeeze(1).clamp(-trim, trim) for one in (secret, shuffled)
            )
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
        raise LowtideError("the paper's network must start with a linear layer")
    return layer


def _first_sums(rows: Sparse, table: Tensor) -> Tensor:
    """What sparse rows add up to in the first layer, (n, width), from its weights as a table
    (columns, width).
    """
    terms, starts = (
        torch.from_numpy(part.astype(np.int64)) for part in (rows.indices, rows.indptr[:-1])
    )
    share = torch.from_numpy(rows.data.astype(np.float32))
    terms, starts, share = (part.to(table.device) for part in (terms, starts, share))
    return functional.embedding_bag(terms, table, starts, mode="sum", per_sample_weights=share)


def network_tensors(net: nn.Sequential) -> dict[str, Any]:
    """The weights of a network, by layer, as arrays."""
    return {name: value.detach().cpu().numpy() for name, value in net.state_dict().items()}
