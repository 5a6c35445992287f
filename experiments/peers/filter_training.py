"""Training a filter of images against an adversary, in warm-started stages; see
`peers.adversarial`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from lowtide.images.convnets import augment, fast, small_cnn, to_input
from lowtide.images.encoder import Images
from lowtide.labels import read_classes
from lowtide.progress import progress_bar
from lowtide.training import descend, minimise, shuffled_batches, to_device
from lowtide.types import Floats, Ints
from peers.unet import UNet

if TYPE_CHECKING:
    from peers.adversarial import AdversarialFilter

# of the classifiers
_RATE = 2e-3
_DECAY = 0.05
_BLACK, _WHITE = to_input(np.array([0, 255], np.uint8).reshape(2, 1, 1, 1)).flatten().tolist()


class Stage(NamedTuple):
    """What was learnt for one limit.

    Attributes:
        limit: k, in nats.
        leakage: `KL(p(s|y) ‖ P_S)` in the last pass.
        lost: `KL(p(u|x) ‖ p(u|y))` in the last pass.
        nets: copies of the filter and of the adversary.
    """

    limit: float
    leakage: float
    lost: float
    nets: tuple[UNet, nn.Module]


class Training:
    """Networks and data of one fit.

    Args:
        options: of the filter.
        images: n images.
        s: (n,) the secret.
        u: (n,) the utility.
        root: of the order of images, the noise and the augmentation; networks begin from PyTorch's
            own generator.
    """

    def __init__(
        self,
        options: AdversarialFilter,
        images: Images,
        s: ArrayLike,
        u: ArrayLike,
        root: np.random.SeedSequence,
    ) -> None:
        self.options = options
        self.images = images
        (secret, self.s), (useful, self.u) = read_classes(s), read_classes(u)
        self.log_prior = to_device(torch.from_numpy(np.log(secret.prior)).float())
        channels = images.shape[2]
        self.filter = to_device(UNet(channels, options.widths))
        # Without dropout, which would only make the adversary look less certain than it is.
        self.adversary = to_device(small_cnn(channels, len(secret.labels), dropout=0.0))
        self.utility = to_device(small_cnn(channels, len(useful.labels)))
        self.rng = np.random.default_rng(root)
        self.generator = torch.Generator().manual_seed(int(root.generate_state(2)[1]))
        self.order = map(np.sort, shuffled_batches(len(images), options.batch, self.rng))

    @property
    def steps(self) -> int:
        """Of one pass."""
        return max(1, len(self.images) // self.options.batch)

    def run(self) -> list[Stage]:
        """Learn for one limit after the other."""
        options = self.options
        # The bar counts steps, those with the filter three times, as they take that long.
        early = (options.pretraining + 3 * options.drawing) * self.steps
        total = early + 3 * options.epochs * self.steps * len(options.limits)
        with progress_bar("learning filters", total, options.progress) as tick:
            self._learn_raw(tick)
            self._learn_drawing(lambda done: tick(options.pretraining * self.steps + 3 * done))
            painter = torch.optim.Adam(self.filter.parameters(), lr=options.rate)
            reader = torch.optim.AdamW(
                self.adversary.parameters(), lr=_RATE / 4, weight_decay=_DECAY
            )
            done = 0
            fitted = []
            for limit in options.limits:
                seen = []
                for _ in range(options.epochs * self.steps):
                    seen.append(self._filter_step(painter, limit))
                    for _ in range(options.adversary_steps):
                        self._adversary_step(reader)
                    done += 1
                    tick(early + 3 * done)
                fitted.append(self._frozen(limit, np.mean(seen[-self.steps :], axis=0)))
        return fitted

    def _learn_raw(self, tick: Callable[[int], None]) -> None:
        """Train the classifier and the adversary on raw images, then freeze the classifier."""
        nets = (self.utility, self.adversary)
        total = self.options.pretraining * self.steps
        optimiser = torch.optim.AdamW(
            [p for net in nets for p in net.parameters()], lr=_RATE, weight_decay=_DECAY
        )
        cycle = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, _RATE, total_steps=total, pct_start=0.2
        )

        def losses() -> Iterator[Tensor]:
            for step in range(total):
                x, index = self._images()
                with fast():
                    scores = [net(x) for net in nets]
                targets = (to_device(torch.from_numpy(codes[index])) for codes in (self.u, self.s))
                both = [cross_entropy(a.float(), b) for a, b in zip(scores, targets, strict=True)]
                yield both[0] + both[1]
                tick(step + 1)

        minimise(losses(), optimiser, schedule=cycle)
        self.utility.eval().requires_grad_(False)

    def _learn_drawing(self, tick: Callable[[int], None]) -> None:
        """Train the filter as an auto-encoder."""
        optimiser = torch.optim.Adam(self.filter.parameters(), lr=4 * self.options.rate)

        def losses() -> Iterator[Tensor]:
            for step in range(self.options.drawing * self.steps):
                x, _ = self._images()
                yield mse_loss(self._released(x), x.clamp(_BLACK, _WHITE))
                tick(step + 1)

        minimise(losses(), optimiser)

    def _filter_step(self, optimiser: torch.optim.Optimizer, limit: float) -> tuple[float, float]:
        """One step of the filter; what the adversary saw and what the classifier lost, in nats."""
        x, _ = self._images()
        self.adversary.requires_grad_(False)
        with fast():
            with torch.no_grad():
                raw = self.utility(x).float().log_softmax(dim=1)
            y = self._released(x)
            useful, secret = (
                net(y).float().log_softmax(dim=1) for net in (self.utility, self.adversary)
            )
        lost = _kl(raw, useful)
        leakage = _kl(secret, self.log_prior)
        descend(lost + self.options.weight * (leakage - limit).clamp(min=0).square(), optimiser)
        self.adversary.requires_grad_(True)
        return leakage.item(), lost.item()

    def _adversary_step(self, optimiser: torch.optim.Optimizer) -> None:
        x, index = self._images()
        with torch.no_grad():
            y = self._released(x)
        with fast():
            leakage = self.adversary(y)
        descend(
            cross_entropy(leakage.float(), to_device(torch.from_numpy(self.s[index]))), optimiser
        )

    def _released(self, x: Tensor) -> Tensor:
        """What the filter makes of inputs, as inputs, with fresh noise."""
        z = torch.randn(len(x), *self.filter.noise_shape(*x.shape[2:]), generator=self.generator)
        with fast():
            y: Tensor = self.filter(x, to_device(z))
        return y.float() * (_WHITE - _BLACK) + _BLACK

    def _images(self) -> tuple[Tensor, Ints]:
        """Augmented images of the next batch, and which they are."""
        index = next(self.order)
        drawn = augment(to_input(self.images.read(index)), self.generator, flip=self.options.flip)
        return to_device(drawn), index

    def _frozen(self, limit: float, seen: Floats) -> Stage:
        net = copy.deepcopy(self.filter).cpu()
        adversary = copy.deepcopy(self.adversary).cpu()
        net.eval().requires_grad_(False)
        adversary.eval().requires_grad_(False)
        leakage, lost = map(float, seen)
        return Stage(limit, leakage, lost, (net, adversary))


def _kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Mean over the images of `KL(p ‖ q)`."""
    return (log_p.exp() * (log_p - log_q)).sum(dim=1).mean()
