"""Rivals that erase linearly: fairlearn's `CorrelationRemover` and LEACE of `concept-erasure`.

Both take away what a linear model could use, and nothing else: the secret may still be there for a
better one. Their packages come with `pip install lowtide[rivals]`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import ClassVar

import numpy as np
import torch

from lowtide.checks import LowtideError, within
from lowtide.types import Floats, Labels
from peers.hiders import Rival, Transform


@dataclass(frozen=True)
class CorrelationRemover(Rival):
    """Fairlearn's linear residuals: `strength` (its alpha, 0 … 1) of each column's regression on
    the secret is removed.

    The secret enters as one-hot sensitive columns, which fairlearn drops again. What it subtracts
    from a row depends on that row's secret, so `apply` needs it: a row whose secret is unknown
    cannot be released this way.
    """

    name: ClassVar[str] = "correlation remover"
    needs_secret: ClassVar[bool] = True

    def _fit(self, rows: Floats, codes: Labels, strength: float) -> Transform:
        alpha = float(within("strength", strength, 0.0, 1.0))
        module = _needed("fairlearn.preprocessing", "fairlearn")
        classes = int(codes.max()) + 1
        columns = rows.shape[1]
        sensitive = list(range(columns, columns + classes))
        remover = module.CorrelationRemover(sensitive_feature_ids=sensitive, alpha=alpha)
        remover.fit(np.hstack([rows, _one_hot(codes, classes)]))

        def remove(x: Floats, s: Labels | None) -> Floats:
            if s is None or s.max() >= classes:
                raise LowtideError(
                    f"s must hold the {classes} classes the correlation remover was fitted on, no"
                    " other"
                )
            return np.asarray(remover.transform(np.hstack([x, _one_hot(s, classes)])))

        return remove


@dataclass(frozen=True)
class Leace(Rival):
    """Least-squares concept erasure: the smallest affine change after which no linear model can
    tell the secret.

    `strength` from 0 to 1 goes from the clean rows to the erased ones; only at 1 is the linear
    information gone. The promise is exact on the training rows, and as good as their covariances
    are estimated on others.
    """

    name: ClassVar[str] = "LEACE"

    def _fit(self, rows: Floats, codes: Labels, strength: float) -> Transform:
        share = float(within("strength", strength, 0.0, 1.0))
        if len(rows) < 2:
            raise LowtideError(
                f"LEACE estimates covariances and needs at least 2 rows, got {len(rows)}"
            )
        module = _needed("concept_erasure", "concept-erasure")
        z = torch.from_numpy(_one_hot(codes, int(codes.max()) + 1))
        # In double precision, that of the rows: in single precision rounding would leave traces of
        # the secret.
        eraser = module.LeaceEraser.fit(torch.from_numpy(rows), z)

        def erase(x: Floats, _: Labels | None) -> Floats:
            return np.asarray(x + share * (eraser(torch.from_numpy(x)).numpy() - x))

        return erase


def _needed(module: str, package: str) -> ModuleType:
    try:
        with warnings.catch_warnings():
            # concept-erasure compiles a helper on import, in a way that newer versions of PyTorch
            # warn about.
            warnings.filterwarnings(
                "ignore", message=".*torch.jit.script.*", category=DeprecationWarning
            )
            return import_module(module)
    except ImportError as error:
        raise LowtideError(
            f"this rival needs {package}, which is not there: pip install lowtide[rivals]"
        ) from error


def _one_hot(codes: Labels, classes: int) -> Floats:
    return np.eye(classes)[codes]
