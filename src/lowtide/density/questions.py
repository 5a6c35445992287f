"""Rows under masks: the partial observations on which a critic is judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Bools = NDArray[np.bool_]
Ints = NDArray[np.intp]
Floats32 = NDArray[np.float32]

# How much each kind of question counts. Whole rows are asked about most; of subsets there are two draws.
_KINDS = (("whole", 0.6), ("prefix", 0.2), ("subset", 0.1), ("subset", 0.1))


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

    def whole(self) -> Bools:
        """Which questions are about whole rows."""
        return np.asarray(self.seen.all(axis=1))


def ask(z: Floats32, s: Ints, groups: Ints, log_prior: Floats32, rng: np.random.Generator) -> Questions:
    """Ask about each row whole, as a prefix, and as random subsets of it."""
    n, m = len(z), int(groups.max()) + 1
    kinds = _KINDS if m > 1 else (("whole", 1.0),)
    seen = np.concatenate([_masks(n, m, kind, rng) for kind, _ in kinds])
    weight = np.repeat([weight for _, weight in kinds], n).astype(np.float32)
    copies = len(kinds)
    return Questions(
        np.tile(z, (copies, 1)) * seen[:, groups],
        seen,
        np.tile(s, copies),
        weight,
        np.tile(np.arange(n), copies),
        log_prior,
    )


def _masks(n: int, m: int, kind: str, rng: np.random.Generator) -> Bools:
    if kind == "whole":
        return np.ones((n, m), dtype=bool)
    if kind == "prefix":
        return np.arange(m) < rng.integers(1, m + 1, n)[:, None]
    return rng.random((n, m)) < rng.random((n, 1))


def losses(scores: Floats32, questions: Questions) -> Floats32:
    """`−g(s; x)` of each question, from scores (…, q, |S|): the cross-entropy minus that of the prior."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    total = np.log(np.exp(shifted + questions.log_prior).sum(axis=-1))
    return np.asarray(total - shifted[..., np.arange(len(questions.s)), questions.s])
