"""What a critic is trained to maximise: lower bounds on a divergence between joint and product law.

Every objective is `E_joint[T(g)] − E_product[f*(T(g))]` with T = f'(e^g), so that its maximiser is
g = i (Donsker–Varadhan takes the logarithm of the product expectation instead). Each is a pair of
functions of g.

For a finite secret the product expectation over s is an exact sum under the prior, and g is
normalised for every x so that `Σ_s p(s) e^{g(s,x)} = 1`. Then `log E_product[e^g]` is exactly 0 in
every batch, of any size: the bias of a log-mean-exp over a small batch never arises, and
Donsker–Varadhan, NWJ and cross-entropy are one objective.

From per-row values to an estimate with its interval.

How a fit is run: its options, and the state of a trainer that Ctrl-C does not lose.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open

from lowtide.checks import LowtideError, one_of, within
from lowtide.files import PRIVATE_FOLDER, whole_path
from lowtide.interface import Estimate
from lowtide.types import Floats, Ints

if TYPE_CHECKING:
    from torch import Tensor

Term = Callable[["Tensor"], "Tensor"]


@dataclass(frozen=True)
class Objective:
    """A variational lower bound: Donsker–Varadhan (paper, Eq. 19) or of another f-divergence
    (paper, Eq. 24).

    Attributes:
        name: what users call it.
        joint: T(g), averaged over the joint law.
        product: f*(T(g)), averaged over the product law.
        logarithm: whether the product average enters through its logarithm.
    """

    name: str
    joint: Term
    product: Term
    logarithm: bool = False

    def on_pairs(self, joint: Tensor, product: Tensor) -> Tensor:
        """The bound from critic values on joint pairs (…, n) and on product pairs (…, k) (paper,
        Eq. 25).
        """
        import torch

        if self.logarithm:
            spread = torch.logsumexp(product, dim=-1) - log(product.shape[-1])
            return self.joint(joint).mean(-1) - spread
        return self.joint(joint).mean(-1) - self.product(product).mean(-1)

    def on_classes(self, g: Tensor, s: Tensor, prior: Tensor) -> Tensor:
        """The bound per row from normalised densities g (…, n, |S|), exact over s; shape (…, n)."""
        joint = self.joint(g.gather(-1, s[..., None]).squeeze(-1))
        if self.logarithm:
            return joint  # log Σ_s p(s) e^g = 0 by normalisation
        return joint - (prior * self.product(g)).sum(-1)


# Exponentials are cut where a float32 would overflow; no trimmed density comes near.
_LARGEST = 40.0


def _exp(g: Tensor) -> Tensor:
    import torch

    return torch.exp(g.clamp(max=_LARGEST))


def _softplus(g: Tensor) -> Tensor:
    from torch.nn.functional import softplus

    return softplus(g)


OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (
        # KL: f = u log u
        Objective("dv", lambda g: g, _exp, logarithm=True),
        Objective("nwj", lambda g: g + 1.0, _exp),
        Objective("cross-entropy", lambda g: g, lambda g: 0.0 * g, logarithm=True),
        # χ²: f = (u − 1)², T = 2(u − 1), f*(T) = T + T²/4 = u² − 1
        Objective("chi2", lambda g: 2.0 * (_exp(g) - 1.0), lambda g: _exp(2.0 * g) - 1.0),
        # Jensen–Shannon: T = log 2u/(1 + u), f*(T) = −log(2 − e^T)
        Objective(
            "js",
            lambda g: log(2.0) - _softplus(-g),
            lambda g: _softplus(g) - log(2.0),
        ),
        # squared Hellinger: f = (√u − 1)², T = 1 − u^{−1/2}, f*(T) = T/(1 − T) = √u − 1
        Objective(
            "hellinger",
            lambda g: 1.0 - _exp(-0.5 * g.clamp(min=-_LARGEST)),
            lambda g: _exp(0.5 * g) - 1.0,
        ),
    )
}


def get_objective(name: str) -> Objective:
    """Look an objective up by name."""
    return OBJECTIVES[one_of("objective", name, tuple(OBJECTIVES))]


_DETECTABLE = (
    8.0  # 2·2²: two standard errors, squared, of a density whose variance is twice its mean
)


def standard_error(values: Floats, groups: Ints | None = None) -> float:
    """The standard error of the mean of values (n,); values of one group (n,) count as one
    observation.
    """
    if groups is None:
        return float(values.std() / np.sqrt(len(values)))
    _, codes = np.unique(groups, return_inverse=True)
    sums = np.bincount(codes, values - values.mean())
    spread = np.square(sums).sum() * len(sums) / max(1, len(sums) - 1)
    return float(np.sqrt(spread) / len(values))


def mean_with_interval(values: Floats, level: float = 0.95, groups: Ints | None = None) -> Estimate:
    """The mean of held-out values with a Student interval.

    Args:
        values: (n,) one value per held-out row, in nats.
        level: how often the interval should hold the mean.
        groups: (n,) a group counts as one observation; by default every row does.
    """
    level = float(within("level", level, 0.0, 1.0, low_open=True, high_open=True))
    if len(values) < 2:
        raise LowtideError(f"an interval needs at least 2 held-out rows, got {len(values)}")
    mean = float(np.mean(values))
    number = len(values) if groups is None else len(np.unique(groups))
    error = standard_error(values, groups)
    if groups is None:
        error *= np.sqrt(number / (number - 1))
    half = float(_student(0.5 + level / 2, max(1, number - 1)) * error)
    return Estimate(mean, mean - half, mean + half, len(values))


@cache
def _student(share: float, freedom: int) -> float:
    """The quantile of Student's law; planning asks for the same one thousands of times."""
    from scipy import stats

    return float(stats.t.ppf(share, freedom))


def nothing_found(gains: Floats, level: float = 0.95, groups: Ints | None = None) -> Estimate:
    """What can be said when a critic's held-out gains (n,) are not clearly above 0: none found, and
    how much may be.

    The value is 0. The upper end is that of the gains themselves, and no less than what the rule
    could have seen: a density of variance 2I carries I nats (if small), so its mean exceeds two
    standard errors only from I = 8/n on.
    """
    high = mean_with_interval(gains, level, groups).high
    return with_overlooked(Estimate(0.0, 0.0, high, len(gains), found=False))


def information_of(gains: Floats, level: float = 0.95, groups: Ints | None = None) -> Estimate:
    """The information that held-out gains (n,) of a critic show; a critic that says nothing has
    found nothing.
    """
    return (
        with_overlooked(mean_with_interval(gains, level, groups))
        if np.any(gains)
        else nothing_found(gains, level, groups)
    )


def with_overlooked(found: Estimate) -> Estimate:
    """An estimate of information, in nats, whose upper end is no less than what so many rows could
    have shown.
    """
    return replace(found, high=max(found.high, least_shown(found.n)))


def least_shown(rows: int) -> float:
    """The least information, in nats, that so many held-out rows can show to be absent."""
    return _DETECTABLE / rows


@dataclass(frozen=True)
class Options:
    """The options of `TIDE`; see there what each means.

    `nets` networks of each kept kind are fitted and averaged. Training ends after `patience` looks
    at the held-out rows that found none of the candidates better, or when its steps are done.
    """

    features: Any = None
    trim: float = 3.0
    objective: str = "dv"
    critic: str = "auto"
    folds: int = 5
    steps: int | None = None
    nets: int = 5
    checkpoint: str | None = None
    progress: bool | None = None
    seed: int = 0
    patience: int | None = None


def fingerprint(*parts: Any) -> str:
    """A digest of data and settings: a checkpoint is resumed only by the very same fit."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(str((part.shape, part.dtype)).encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()


class Checkpoints:
    """A folder that holds the latest state of each stage of one fit."""

    def __init__(self, folder: str | Path | None, mark: str = "") -> None:
        self.folder = None if folder is None else Path(folder)
        self.mark = mark
        if self.folder is not None:
            try:
                self.folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            except OSError as error:
                raise LowtideError(
                    f"cannot keep checkpoints in {folder}: {error.strerror}; choose another"
                ) from error

    def save(self, stage: str, tensors: dict[str, Tensor]) -> None:
        """Write the state of a stage."""
        if self.folder is None or not tensors:
            return

        from safetensors.torch import save_file

        with whole_path(self.folder / f"{stage}.safetensors", replace=True) as partial:
            save_file(
                {name: v.detach().contiguous() for name, v in tensors.items()},
                partial,
                {"mark": self.mark},
            )

    def load(self, stage: str) -> dict[str, Tensor] | None:
        """Return the state of a stage, or `None` when there is none of this very fit."""
        path = None if self.folder is None else self.folder / f"{stage}.safetensors"
        if path is None or not path.exists():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                if (file.metadata() or {}).get("mark") != self.mark:
                    return None
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        except SafetensorError as error:
            raise LowtideError(
                f"{path} is damaged; delete it to start that stage afresh"
            ) from error

    def clear(self) -> None:
        """Remove the states of a fit that has ended."""
        if self.folder is not None:
            for path in self.folder.glob("*.safetensors"):
                path.unlink()
