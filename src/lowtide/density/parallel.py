"""Gradient steps that several processes take together: each works on its part of every batch.

The processes are those of `torch.distributed`, which whoever starts them has initialised (docs/scale.md). They read the
same data and draw the same batches and masks, by the seed. Their gradients are added up before every step, so that all
have the same weights, those of one process up to rounding. Without such processes nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, distributed


def processes() -> int:
    """How many take part."""
    together = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if together else 1


def own_share(rows: int) -> tuple[slice, float]:
    """The rows of a batch that this process works on, and their share of it.

    Args:
        rows: of the batch. Where there are fewer than processes, each works on all of them.
    """
    many = processes()
    if many == 1 or rows < many:
        return slice(None), 1 / many
    rank = distributed.get_rank()
    first, last = rows * rank // many, rows * (rank + 1) // many
    return slice(first, last), (last - first) / rows


def add_up_gradients(weights: Collection[Tensor]) -> None:
    """Replace the gradients of weights by their sums over all processes."""
    if processes() == 1:
        return
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    joined = torch.cat([gradient.reshape(-1) for gradient in gradients])
    distributed.all_reduce(joined)
    for gradient, total in zip(gradients, joined.split([one.numel() for one in gradients]), strict=True):
        gradient.copy_(total.view_as(gradient))
