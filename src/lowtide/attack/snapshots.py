"""Networks of attackers, at every look that was taken at them while they learnt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lowtide.estimate.learners.base import Array
from lowtide.estimate.learners.classifier import Staged
from lowtide.types import Floats, Labels

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Snapshots(Staged):
    """A network after each look; see `Path`.

    Attributes:
        net: the network.
        states: its weights, one for each stage.
        inputs: from rows to what `answer` reads.
        answer: logits (n, |S|) of a network.
        log_prior: (|S|,) of the classes.
    """

    net: nn.Module
    states: Sequence[dict[str, Tensor]]
    inputs: Callable[[Any], Any]
    answer: Callable[[nn.Module, Any], Tensor]
    log_prior: Floats

    def scores(self, rows: Any) -> Array:
        """(stages, n, |S|)."""
        inputs = self.inputs(rows)
        found = []
        for state in self.states:
            self.net.load_state_dict(state)
            self.net.eval()
            logits = self.answer(self.net, inputs)
            found.append(logits.log_softmax(dim=1).double().numpy() - self.log_prior)
        return np.stack(found)


def mean_loss(logits: Tensor, codes: Labels) -> float:
    """The cross-entropy of logits (n, |S|) and classes (n,)."""
    import torch
    from torch import nn

    return float(nn.functional.cross_entropy(logits, torch.from_numpy(codes)))
