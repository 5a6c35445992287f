"""Rows under masks: the partial observations on which a critic is judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lowtide.density.masking import Exposure
from lowtide.types import Bools, Floats32, Ints


@dataclass(frozen=True)
class Questions:
    """Rows repeated under several masks.

    Attributes:
        z: (q, columns) standardised rows with unseen columns at 0.
        seen: (q, m) which features are seen.
        s: (q,) the class of each.
        weight: (q,) how much each counts; the weights of one row sum to 1.
        row: (q,) which row it is a copy of.
        log_prior: (|S|,).
    """

    z: Floats32
    seen: Bools
    s: Ints
    weight: Floats32
    row: Ints
    log_prior: Floats32

    def where(self, keep: Bools) -> Questions:
        """These questions only."""
        return Questions(self.z[keep], self.seen[keep], self.s[keep], self.weight[keep], self.row[keep], self.log_prior)

    def tensors(self) -> tuple[Tensor, Tensor]:
        """`z` and `seen` as a network reads them."""
        return torch.from_numpy(self.z), torch.from_numpy(self.seen).float()


def ask(
    z: Floats32, s: Ints, groups: Ints, log_prior: Floats32, *, exposure: Exposure, rng: np.random.Generator
) -> Questions:
    """Ask about each row (n, columns) under the masks by which `exposure` judges; the main question comes first."""
    kinds = exposure.judge(len(z), rng)
    seen = np.concatenate([masks for masks, _ in kinds])
    weight = np.repeat([weight for _, weight in kinds], len(z)).astype(np.float32)
    copies = len(kinds)
    return Questions(
        np.tile(z, (copies, 1)) * seen[:, groups],
        seen,
        np.tile(s, copies),
        weight,
        np.tile(np.arange(len(z)), copies),
        log_prior,
    )


def losses(scores: Floats32, questions: Questions) -> Floats32:
    """`−g(s; x)` of each question, from scores (…, q, |S|): the cross-entropy minus that of the prior."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    total = np.log(np.exp(shifted + questions.log_prior).sum(axis=-1))
    return np.asarray(total - shifted[..., np.arange(len(questions.s)), questions.s])
