"""The network of the attacker on embedded terms; needs PyTorch, so that it is imported when one is
trained.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from lowtide.estimate.training import Dropout
from lowtide.training import beside
from lowtide.types import Floats

_WIDTH = 32
_DROPOUT = 0.5


class EmbeddedTerms(nn.Module):
    """Sums of embedded terms, a hidden layer, and a linear part beside it; at its start it answers
    the prior.
    """

    def __init__(self, columns: int, prior: Floats) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(columns, _WIDTH, mode="sum")
        self.linear = nn.EmbeddingBag(columns, len(prior), mode="sum")
        last = nn.Linear(_WIDTH, len(prior))
        self.deep = nn.Sequential(
            Dropout(_DROPOUT), nn.Linear(_WIDTH, _WIDTH), nn.GELU(), Dropout(_DROPOUT), last
        )
        nn.init.normal_(self.embedding.weight, std=0.3)
        for weights in (self.linear.weight, last.weight):
            nn.init.zeros_(weights)
        with torch.no_grad():
            last.bias.copy_(torch.from_numpy(np.log(prior)))

    def forward(self, bag: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Scores (n, |S|) of rows given by columns, where each row starts, and weights."""
        columns, starts, weights = (beside(self, part) for part in bag)
        deep = self.deep(self.embedding(columns, starts, per_sample_weights=weights))
        return deep + self.linear(columns, starts, per_sample_weights=weights)
