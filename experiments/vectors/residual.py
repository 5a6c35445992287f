"""Neural residual: small networks trained on top of a frozen separable critic, kept only if
held-out rows gain.

Several networks stand side by side, as batched matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from lowtide.estimate.objectives import Objective, get_objective
from lowtide.splits import others, random_folds
from lowtide.training import BestWeights, minimise, to_device, without_gradients
from lowtide.types import Floats, Ints
from vectors.columns import Gain, Separable, gains, orders

_NETWORK_REACH = (
    4.0  # inputs beyond it are held there: what networks say about a tail they never saw is noise
)


class Nets:
    """m two-layer networks; the output layers start at zero, so that g starts at the base.

    Attributes:
        values: the weights and offsets of the three layers, w₁ (m, d, width), b₁ (m, 1, width), w₂,
            b₂, w₃, b₃.
        alive: (m, d, 1) the inputs that pruning has left.

    Args:
        members: how many networks, m.
        inputs: how many inputs, d.
        width: of both hidden layers.
        start: scale of the first layer at the start.
        generator: draws the weights.
    """

    def __init__(
        self, members: int, inputs: int, width: int, start: float, generator: torch.Generator
    ) -> None:
        sizes = [(inputs, width), (width, width)]
        self.values: list[Tensor] = []
        for a, b in sizes:
            self.values.append(torch.randn(members, a, b, generator=generator) * (2 / a) ** 0.5)
            self.values.append(torch.randn(members, 1, b, generator=generator) * 0.5)
        self.values += [torch.zeros(members, width, 1), torch.zeros(members, 1, 1)]
        self.values[0] *= start
        self.values = [to_device(value) for value in self.values]
        self.alive = to_device(torch.ones(members, inputs, 1, dtype=torch.bool))
        for value in self.values:
            value.requires_grad_(True)

    @classmethod
    def of(cls, values: list[Tensor]) -> Nets:
        """Networks with given weights."""
        nets = cls.__new__(cls)
        nets.values = values
        nets.alive = values[0].norm(dim=2, keepdim=True) > 0
        return nets

    def __call__(self, inputs: Tensor) -> Tensor:
        """The output of every network, (m, n), on its own inputs (m, n, d) or on shared ones (n,
        d).
        """
        w1, b1, w2, b2, w3, b3 = self.values
        hidden = functional.silu(torch.baddbmm(b1, inputs.expand(len(w1), *inputs.shape[-2:]), w1))
        hidden = functional.silu(torch.baddbmm(b2, hidden, w2))
        return torch.baddbmm(b3, hidden, w3).squeeze(-1)

    def prune(self, amount: float) -> None:
        """Shrink the weights that leave each input by `amount` in norm (group lasso); what is at
        zero stays there.
        """
        with torch.no_grad():
            norm = self.values[0].norm(dim=2, keepdim=True)
            self.values[0].mul_((1 - amount / norm.clamp_min(1e-12)).clamp_min(0.0) * self.alive)
            self.alive = self.values[0].norm(dim=2, keepdim=True) > 0

    def named(self) -> dict[str, Tensor]:
        """The weights, by names in their order."""
        return dict(zip(("w1", "b1", "w2", "b2", "w3", "b3"), self.values, strict=True))

    def on_rows(self, s: Floats, x: Floats) -> Tensor:
        """The output of every network on the pairs of rows s (n, d_s) and x (n, d_x), (m, n)."""
        with torch.no_grad():
            return self(torch.cat([as_inputs(s), as_inputs(x)], dim=1))


def as_inputs(rows: Floats) -> Tensor:
    """Rows (n, d) as networks read them."""
    return torch.from_numpy(np.clip(rows, -_NETWORK_REACH, _NETWORK_REACH).astype(np.float32))


@dataclass(frozen=True)
class Residual:
    """The average of the networks.

    Attributes:
        nets: the networks.
        converged: whether training stopped by itself, before its last epoch.
    """

    nets: Nets
    converged: bool = True

    def __call__(self, s: Floats, x: Floats) -> Floats:
        """`residual(s_i, x_i)`, (n,), of rows s (n, d_s) and x (n, d_x) with standard normal
        columns.
        """
        return self.nets.on_rows(s, x).mean(0).double().numpy()


_PROGRESS = 1e-4  # gain of the watched objective that counts as one


@dataclass(frozen=True)
class ResidualSettings:
    """How the networks are trained and when they are kept.

    Attributes:
        members: networks, and folds.
        width: of their hidden layers.
        batch: joint pairs in a batch.
        shuffles: product pairs per joint pair, in each batch.
        rate: step size of AdamW.
        decay: its weight decay.
        epochs: at most; half of them when the gain is measured.
        patience: epochs without progress of any member before training stops.
        watched: permutations of the rows early stopping watches.
        validated: permutations of the rows that the gain is measured on.
        errors: standard errors by which the held-out gain must exceed 0.
        objective: the variational bound that is maximised.
        prune: group decay of each input's outgoing weights.
        pruned: epochs with group decay; the inputs that survive then train freely.
        start: scale of the first layer at the start.
    """

    members: int = 5
    width: int = 64
    batch: int = 256
    shuffles: int = 2
    rate: float = 6e-3
    decay: float = 0.1
    epochs: int = 120
    patience: int = 10
    watched: int = 6
    validated: int = 16
    errors: float = 2.0
    objective: str = "js"
    prune: float = 2.0
    pruned: int = 25
    start: float = 0.5


class Pairs:
    """Rows of (s, x) with the frozen critic's pieces: gathers inputs and offsets for any
    pairing.
    """

    def __init__(self, base: Separable, s: Floats, x: Floats) -> None:
        parts = base.parts(s, x)
        self.s = as_inputs(s)
        self.x = as_inputs(x)
        self.row, self.col, self.left, self.right = (
            torch.from_numpy(np.ascontiguousarray(z, dtype=np.float32))
            for z in (parts.row, parts.col, parts.left, parts.right)
        )

    def __call__(self, i: Tensor, j: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs (…, d_s + d_x) and the base critic (…) of the pairs (s_i, x_j), for indices i and
        j (…).
        """
        inputs = torch.cat([self.s[i], self.x[j]], dim=-1)
        known = self.row[i] + self.col[j] + (self.left[i] * self.right[j]).sum(-1)
        return to_device(inputs), to_device(known)


def _bound(
    nets: Nets, objective: Objective, joint: tuple[Tensor, Tensor], product: tuple[Tensor, Tensor]
) -> Tensor:
    """The objective of each member, (m,)."""
    return objective.on_pairs(joint[1] + nets(joint[0]), product[1] + nets(product[0]))


def _shuffled(rows: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """`count` random pairings of each member's rows (m, n), (m, count · n) twice."""
    order = torch.rand(len(rows), count, rows.shape[1], generator=generator).argsort(dim=2)
    right = rows[:, None].expand_as(order).gather(2, order).flatten(1)
    return rows.repeat(1, count), right


class ResidualTrainer:
    """Trains all members at once; each stops early on rows that it does not train on.

    Args:
        pairs: the data.
        train: the rows each member trains on.
        stop: the rows each member is stopped by.
        setup: how to train.
        seed: of weights, batches and shuffles.
    """

    def __init__(
        self, pairs: Pairs, train: list[Ints], stop: list[Ints], setup: ResidualSettings, seed: int
    ) -> None:
        self.pairs = pairs
        self.setup = setup
        self.objective = get_objective(setup.objective)
        self.generator = torch.Generator().manual_seed(seed)
        # Folds may differ by a row; batched products want them equal.
        least = min(map(len, train)), min(map(len, stop))
        self.train = torch.from_numpy(np.stack([rows[: least[0]] for rows in train]))
        self.stop = torch.from_numpy(np.stack([rows[: least[1]] for rows in stop]))
        width = pairs.s.shape[1] + pairs.x.shape[1]
        self.nets = Nets(len(train), width, setup.width, setup.start, self.generator)
        self.watch = (
            pairs(self.stop, self.stop),
            pairs(*_shuffled(self.stop, setup.watched, self.generator)),
        )

    def run(self, epochs: int) -> Residual:
        """Train for at most `epochs`; every member keeps the weights of its best epoch."""
        setup = self.setup
        nets = self.nets
        optimiser = torch.optim.AdamW(nets.values, lr=setup.rate, weight_decay=setup.decay)
        best = BestWeights(nets.named(), self._watched())
        for epoch in range(epochs):
            minimise(self._losses(setup.prune if epoch < setup.pruned else 0.0), optimiser)
            best.look(nets.named(), self._watched(), margin=_PROGRESS)
            if best.stale >= setup.patience:
                break
        nets.values = list(best.kept.values())
        self._settle()
        nets.values = [value.cpu() for value in nets.values]
        nets.alive = nets.alive.cpu()
        return Residual(nets, converged=best.stale >= setup.patience)

    @without_gradients
    def _settle(self) -> None:
        """Fix the constant that Donsker–Varadhan leaves free, so that members can be averaged and
        compared.
        """
        if self.objective.logarithm:
            inputs, known = self.watch[1]
            excess = torch.logsumexp(known + self.nets(inputs), dim=1) - np.log(known.shape[-1])
            self.nets.values[-1] = self.nets.values[-1] - excess[:, None, None]

    def _watched(self) -> Tensor:
        """The loss of each member on its stopping rows, (m,)."""
        with torch.no_grad():
            return -_bound(self.nets, self.objective, *self.watch)

    def _losses(self, prune: float) -> Iterator[Tensor]:
        """Walk through the training rows once."""
        rows = _shuffled(self.train, 1, self.generator)[1]
        for start in range(0, rows.shape[1], self.setup.batch):
            batch = rows[:, start : start + self.setup.batch]
            product = self.pairs(*_shuffled(batch, self.setup.shuffles, self.generator))
            yield (-_bound(self.nets, self.objective, self.pairs(batch, batch), product)).sum()
            self.nets.prune(self.setup.rate * prune)


def _held_out(
    nets: Nets,
    base: Separable,
    s: Floats,
    x: Floats,
    validation: list[Ints],
    count: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Gains over g = 0, row by row, of the base and of base plus networks, each member on its
    untouched fold.
    """
    alone = []
    total = []
    for k, held in enumerate(validation):
        a = s[held]
        b = x[held]
        order = np.vstack([np.arange(len(held))[None], orders(len(held), count, rng)])
        known = base.parts(a, b).permuted(order)
        both = known + np.stack([nets.on_rows(a, b[o])[k].double().numpy() for o in order])
        alone.append(gains(known[0], known[1:].T))
        total.append(gains(both[0], both[1:].T))
    return np.concatenate(alone), np.concatenate(total)


def fit_residual(
    bases: list[Separable], s: Floats, x: Floats, setup: ResidualSettings, seed: int
) -> tuple[Separable, Residual | None, Gain]:
    """Networks on the base that leaves them most to gain in all, if they gain clearly; else the
    last base alone.

    The gain is measured on folds that neither training nor early stopping has seen; kept networks
    are refitted with the validation folds in training.

    Args:
        bases: frozen critics, from the poorest to the richest.
        s: (n, d_s) rows with standard normal columns, at least two for each member.
        x: (n, d_x) rows with standard normal columns.
        setup: how to train, and when to keep.
        seed: of folds, weights and batches.

    Returns:
        The base, the networks on it or None, and their held-out gain over the last base.
    """
    n = len(s)
    count = setup.members
    parts = random_folds(n, count, np.random.default_rng(seed))
    stop = [parts[(k + 1) % count] for k in range(count)]
    train = [others(n, parts[k], stop[k]) for k in range(count)]
    totals = []
    for base in bases:
        found = ResidualTrainer(Pairs(base, s, x), train, stop, setup, seed).run(setup.epochs // 2)
        totals.append(
            _held_out(found.nets, base, s, x, parts, setup.validated, np.random.default_rng(seed))
        )
    alone = totals[-1][0]
    best = int(np.argmax([total.mean() for _, total in totals]))
    gain = Gain.of(totals[best][1] - alone)
    if not gain.exceeds(setup.errors):
        return bases[-1], None, gain
    train = [others(n, rows) for rows in stop]
    return (
        bases[best],
        ResidualTrainer(Pairs(bases[best], s, x), train, stop, setup, seed + 1).run(setup.epochs),
        gain,
    )
