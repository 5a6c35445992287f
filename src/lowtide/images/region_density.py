"""What a region tells about the secret beyond the rest of the image: `i(s; region | rest)`,
cross-fitted.

Two readers answer, one about whole images and one about images whose region is blank. Each mixes
logistic regression on edges and shades with a small network on a small version of the image; the
reader of whole images may also repeat what the other says, so that it does not find more in a
region than there is. Every fold has models of its own, which have not seen its images, and the
weights of the mixture are found on such answers: where nothing is read they are small.

Whoever recognises that a region is not an image's own reads the secret from that: a smile that was
lent belongs to somebody who did not smile. So a reader of released images is told which of them
were changed. It learns to recognise them, and how that turns what the image seems to say.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from lowtide.estimate.stack import is_clear, mixed, weigh
from lowtide.extras import need_torch
from lowtide.images.attackers import edges_and_shades
from lowtide.images.planning_attackers import averaged
from lowtide.training import (
    minimise,
    one_thread,
    seeded,
    shuffled_batches,
    to_device,
    without_gradients,
)
from lowtide.types import Bools, Floats, Floats32, Ints, Pixels

if TYPE_CHECKING:
    from torch import Tensor, nn


_SIDE = 32  # pixels of the longer side that networks see, about
_AT_ONCE = 128
_BATCHES = (8, 64)  # images in a batch, at least and at most
_PASSES = 10
_FEWEST_STEPS = 60
_MOST_STEPS = 4000
_RATE = 4e-3
_DECAY = 0.05
_RECOGNISED = 20  # changed images, below which nobody learns to recognise them
_PENALTY = 1.0  # of a squared weight of the regression, in images

Tick = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class FoldReader:
    """The models that have not seen the images of one fold.

    Attributes:
        weights: (|S|, numbers of `edges_and_shades`).
        offset: (|S|,).
        net: a small network, for images averaged down by `factor`.
        factor: pixels that become one, down and across.
        mirror: whether answers are the mean over an image and its mirror image.
        seeming: further rows of weights, the last of them of the offset, (1 + |S|, numbers + 1):
            whether an image was changed, and what clean images that look like it tell; without rows
            where nothing was changed.
    """

    weights: Floats32
    offset: Floats32
    net: nn.Module = field(repr=False)
    factor: int
    mirror: bool
    seeming: Floats32 = field(repr=False)

    @without_gradients
    def scores(self, pixels: Pixels) -> tuple[Floats, Floats]:
        """`log p(s | image)`, (2, n, |S|), by edges and by the network; and how images seem, (n, 1
        + |S|) or (n, 0).
        """
        import torch

        from lowtide.images import convnets

        weights = torch.from_numpy(np.concatenate([self.weights, self.seeming[:, :-1]]))
        offset = torch.from_numpy(np.concatenate([self.offset, self.seeming[:, -1]]))
        parts = []
        seems = []
        classes = len(self.offset)
        for start in range(0, len(pixels), _AT_ONCE):
            x = convnets.to_input(pixels[start : start + _AT_ONCE])
            sides = (x, x.flip(3)) if self.mirror else (x,)
            by_edges = torch.stack(
                [edges_and_shades(side) @ weights.T + offset for side in sides]
            ).mean(dim=0)
            by_net = torch.stack([self.net(averaged(side, self.factor)) for side in sides]).mean(
                dim=0
            )
            parts.append(torch.stack([by_edges[:, :classes], by_net]).double().log_softmax(dim=2))
            seems.append(by_edges[:, classes:].double())
        return torch.cat(parts, dim=1).numpy(), torch.cat(seems).numpy()


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads the secret from one view of images, cross-fitted.

    Attributes:
        folds: the models of each fold.
        log_prior: (|S|,) of the classes.
        weights: (members,) of the mixture: edges, network, where another reader is repeated that
            one, and where images were changed what they seem.
        seen_through: (|S|, 2 + 2|S|) of the last member: a regression on how images seem; without
            rows where there is none.
        gain: nats that held-out images gain over the prior.
    """

    folds: tuple[FoldReader, ...]
    log_prior: Floats
    weights: Floats
    seen_through: Floats
    gain: float = 0.0

    def about(self, pixels: Pixels, fold: Ints, before: Floats | None = None) -> Floats:
        """`log p(s | image)/p(s)`, (n, |S|), by models that have not seen the images.

        Args:
            pixels: (n, height, width, channels) bytes.
            fold: (n,) the fold of each.
            before: (n, |S|) what another reader said, if it is repeated.
        """
        members = self._members(pixels, fold, before)
        return mixed(members, self.weights, self.log_prior)

    def _members(self, pixels: Pixels, fold: Ints, before: Floats | None) -> Floats:
        return self.joined(*_answers(self.folds, pixels, fold, self.log_prior), before)

    def joined(self, found: Floats, seems: Floats, before: Floats | None) -> Floats:
        """All members, (members, n, |S|), from the answers of the models, how images seem, and
        another reader.
        """
        more = [] if before is None else [before]
        if len(self.seen_through):
            more.append(log_softmax(_crossed(seems) @ self.seen_through.T, axis=1) - self.log_prior)
        return np.concatenate([found, *(one[None] for one in more)])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All numbers, by name."""
        found: dict[str, NDArray[Any]] = {"weights": self.weights, "log_prior": self.log_prior}
        found["seen_through"] = self.seen_through
        for k, models in enumerate(self.folds):
            found |= {
                f"{k}.edges": models.weights,
                f"{k}.offset": models.offset,
                f"{k}.seeming": models.seeming,
            }
            found |= {
                f"{k}.net.{name}": value.numpy() for name, value in models.net.state_dict().items()
            }
        return found

    @classmethod
    def of_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], *, folds: int, channels: int, **how: Any
    ) -> Reader:
        """Rebuild what `arrays` gave; `how` has the factor and the mirror of its models."""
        need_torch("a plan that redraws a region of images")
        import torch

        from lowtide.images import convnets

        found = []
        for k in range(folds):
            net = convnets.small_cnn(channels, len(arrays["log_prior"]))
            own = f"{k}.net."
            net.load_state_dict(
                {
                    name.removeprefix(own): torch.tensor(a)
                    for name, a in arrays.items()
                    if name.startswith(own)
                }
            )
            edges, offset, seeming = (
                arrays[f"{k}.{name}"] for name in ("edges", "offset", "seeming")
            )
            found.append(FoldReader(edges, offset, net.eval(), seeming=seeming, **how))
        return cls(tuple(found), arrays["log_prior"], arrays["weights"], arrays["seen_through"])


def fit_reader(
    view: Callable[[Ints], Pixels],
    codes: Ints,
    fold: Ints,
    *,
    before: Floats | None = None,
    changed: Bools | None = None,
    clean: Reader | None = None,
    mirror: bool,
    steps: int | None,
    seed: int,
    tick: Tick = lambda _: None,
) -> tuple[Reader, Floats]:
    """Fit a reader to n images; and what it says of each, (n, |S|), without having seen it.

    Args:
        view: gives some of the images, as they are to be read.
        codes: (n,) their classes.
        fold: (n,) their folds.
        before: (n, |S|) what another reader says of them, to be repeated as far as that helps.
        changed: (n,) which of them show the region of another.
        clean: the reader of the images before that.
        mirror: whether a mirrored image is as likely as the image.
        steps: of the networks; by default enough for so many images.
        seed: of everything.
        tick: called with the share of the work that is done.
    """
    prior = np.bincount(codes) / len(codes)
    log_prior = np.log(prior)
    every = np.arange(len(codes))
    small, features, factor = _read_all(view, len(codes), mirror)
    models = []
    for k in range(int(fold.max()) + 1):
        learn = np.flatnonzero(fold != k)
        sides = [side[learn] for side in features]
        with one_thread():
            edges, offset = _fit_edges(sides, codes[learn], len(prior))
            seeming = _fit_seeming(sides, changed, learn, None if clean is None else clean.folds[k])
            net = _fit_network(
                small[learn], codes[learn], len(prior), mirror=mirror, steps=steps, seed=seed + k
            )
        models.append(FoldReader(edges, offset, net, factor, mirror, seeming))
        tick((k + 1) / (int(fold.max()) + 2))
    found = [_answers(models, view(part), fold[part], log_prior) for part in _parts(every)]
    answers = np.concatenate([one for one, _ in found], axis=1)
    seems = np.concatenate([one for _, one in found])
    seen_through = _fit_crossed(seems, codes, len(prior))
    plain = Reader(tuple(models), log_prior, np.zeros(0), seen_through)
    answers = plain.joined(answers, seems, before)
    weights = weigh(answers, codes, log_prior)
    told = mixed(answers, weights, log_prior)
    tick(1.0)
    return replace(plain, weights=weights, gain=float(told[every, codes].mean())), told


def _answers(
    models: Sequence[FoldReader], pixels: Pixels, fold: Ints, log_prior: Floats
) -> tuple[Floats, Floats]:
    """What models say of images that they have not seen, (2, n, |S|), and how these seem, (n,
    numbers).
    """
    found = np.zeros((2, len(pixels), len(log_prior)))
    seems = np.zeros((len(pixels), len(models[0].seeming)))
    with one_thread():
        for k, own_models in enumerate(models):
            own = np.flatnonzero(fold == k)
            if len(own):
                scores, seems[own] = own_models.scores(pixels[own])
                found[:, own] = scores - log_prior
    return found, seems


def _fit_seeming(
    sides: Sequence[Floats32], changed: Bools | None, rows: Ints, clean: FoldReader | None
) -> Floats32:
    """The rows of `FoldReader.seeming`: a regression that recognises changed images, and that of
    clean ones.
    """
    if (
        changed is None
        or clean is None
        or min(changed[rows].sum(), (~changed[rows]).sum()) < _RECOGNISED
    ):
        return np.zeros((0, sides[0].shape[1] + 1), dtype=np.float32)
    weights, offset = _fit_edges(sides, changed[rows].astype(np.intp), 2)
    known = np.concatenate([weights[1:], clean.weights]), np.concatenate([offset[1:], clean.offset])
    return np.column_stack(known).astype(np.float32)


def _crossed(seems: Floats) -> Floats:
    """(n, 2 + 2|S|) how images seem, by itself and turned round by whether they seem changed."""
    changed = np.tanh(seems[:, :1])
    told = seems[:, 1:] - seems[:, 1:].mean(axis=1, keepdims=True)
    return np.concatenate([np.ones_like(changed), changed, told, changed * told], axis=1)


def _fit_crossed(seems: Floats, codes: Ints, classes: int) -> Floats:
    """The regression (|S|, 2 + 2|S|) on what `_crossed` gives; without rows where nothing was
    recognised.
    """
    if not seems.shape[1]:
        return np.zeros((0, 0))
    model = LogisticRegression(fit_intercept=False, max_iter=200).fit(_crossed(seems), codes)
    return (
        np.concatenate([-model.coef_, model.coef_]) / 2 if classes == 2 else np.asarray(model.coef_)
    )


def is_read(told: Floats, before: Floats, codes: Ints) -> bool:
    """Whether whole images clearly tell more of the classes (n,) than the rest of them does."""
    every = np.arange(len(codes))
    return is_clear((told - before)[every, codes])


def _parts(rows: Ints) -> Iterator[Ints]:
    for start in range(0, len(rows), _AT_ONCE):
        yield rows[start : start + _AT_ONCE]


@without_gradients
def _read_all(
    view: Callable[[Ints], Pixels], n: int, mirror: bool
) -> tuple[Pixels, list[Floats32], int]:
    """Small versions of all images, their edges and shades, also mirrored; and how many pixels
    became one.
    """
    import torch

    from lowtide.images import convnets

    sides: list[list[Tensor]] = [[], []]
    small = []
    factor = 1
    with one_thread():
        for part in _parts(np.arange(n)):
            pixels = view(part)
            factor = max(1, round(max(pixels.shape[1:3]) / _SIDE))
            x = convnets.to_input(pixels)
            means = averaged(torch.from_numpy(pixels).permute(0, 3, 1, 2).float(), factor)
            small.append(means.round().byte().permute(0, 2, 3, 1).contiguous().numpy())
            for side, turned in zip(sides, (x, x.flip(3)) if mirror else (x,), strict=False):
                side.append(edges_and_shades(turned))
    return np.concatenate(small), [torch.cat(side).numpy() for side in sides if side], factor


def _fit_edges(sides: Sequence[Floats32], codes: Ints, classes: int) -> tuple[Floats32, Floats32]:
    """Weights (|S|, numbers) and offset (|S|,) of a regression on edges and shades."""
    scaler = StandardScaler().fit(sides[0])
    known = np.concatenate([scaler.transform(side) for side in sides])
    model = LogisticRegression(C=_PENALTY / len(known), max_iter=100, tol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # 100 steps are enough, as in `EdgeAttacker`
        model.fit(known, np.tile(codes, len(sides)))
    weights = model.coef_
    offset = model.intercept_
    if classes == 2:
        weights = np.concatenate([-weights, weights]) / 2
        offset = np.array([-offset[0], offset[0]]) / 2
    weights = weights / scaler.scale_
    return weights.astype(np.float32), (offset - weights @ scaler.mean_).astype(np.float32)


def _fit_network(
    small: Pixels, codes: Ints, classes: int, *, mirror: bool, steps: int | None, seed: int
) -> nn.Module:
    """A small network trained in one cycle on augmented images."""
    import torch
    from torch import nn

    from lowtide.images import convnets

    n = len(codes)
    size = int(np.clip(n // 16, *_BATCHES))
    steps = steps or int(np.clip(_PASSES * n // size, _FEWEST_STEPS, _MOST_STEPS))
    generator = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng(seed)
    with seeded(seed):
        net = to_device(convnets.small_cnn(small.shape[3], classes))
        optimiser = torch.optim.AdamW(net.parameters(), lr=_RATE, weight_decay=_DECAY)
        cycle = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, _RATE, total_steps=steps, pct_start=0.2
        )

        def losses() -> Iterator[Tensor]:
            for chosen in islice(shuffled_batches(n, size, rng), steps):
                x = convnets.erase(
                    convnets.augment(convnets.to_input(small[chosen]), generator, flip=mirror),
                    generator,
                )
                with convnets.fast():
                    scores = net(to_device(x))
                yield nn.functional.cross_entropy(
                    scores.float(), to_device(torch.from_numpy(codes[chosen]))
                )

        minimise(losses(), optimiser, schedule=cycle)
    return net.cpu().eval()
