"""What a region tells about the secret beyond the rest of the image: `i(s; region | rest)`,
cross-fitted.

One reading is of images whose region is blank, one of whole images. Both are by regression on edges
and shades and a small network on a small version of the image; that of whole images may also repeat
what the other says, so that it does not find more in a region than there is.

Whoever recognises that a region is not an image's own reads the secret from that: a smile that was
lent belongs to somebody who did not smile. So released images are read by one who knows which of
them were changed. That is one more secret to read, and how it turns what the image seems to say is
one more regression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lowtide.estimate.learners.base import Held, Learner, Stage
from lowtide.estimate.reader import CrossFitted, Reading, read
from lowtide.extras import need_torch
from lowtide.images.album import Album
from lowtide.images.edges import LinearModel, Regression, Stages, both_sides
from lowtide.images.networks import Convolutional, Network, NetworkRecipe, small_network
from lowtide.training import one_thread
from lowtide.types import Bools, Floats, Floats32, Ints, Pixels

_NETWORK = NetworkRecipe(
    small_network,
    passes=10,
    rate=4e-3,
    decay=0.05,
    erase=True,
    side=32,
    batch=(8, 64),
    steps=(60, 4000),
)
_RECOGNISED = 20  # changed images, below which nobody learns to recognise them
_EDGES = "edges"
_SEEMING = "seeming"
_NETWORKS = "network"
_REST = "rest"

Tick = Callable[[float], None]
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Repeated:
    """A learner that repeats what another reading says of images, and has nothing to learn."""

    classes: int

    name: ClassVar[str] = _REST
    toll: ClassVar[float] = 0.0

    def fit(
        self, rows: Album, codes: Ints, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Stages:
        """Itself, at one stage."""
        return Stages([self])

    def scores(self, rows: Album) -> Floats:
        """(n, |S|) the first numbers of what is said of them."""
        if rows.told is None:
            raise ValueError("nothing was said of the images")
        return rows.told[:, : self.classes]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """None."""
        return {}


def seeming(rows: Album) -> tuple[Floats32]:
    """How images seem, (n, 1 + 2|S|): whether changed, what a clean one that looks so tells, and
    that turned round by whether it seems changed.
    """
    if rows.told is None:
        raise ValueError("nothing was said of the images")
    classes = (rows.told.shape[1] - 1) // 2
    changed = np.tanh(rows.told[:, classes : classes + 1])
    clean = rows.told[:, classes + 1 :]
    clean = clean - clean.mean(axis=1, keepdims=True)
    return (np.concatenate([changed, clean, changed * clean], axis=1).astype(np.float32),)


@dataclass(frozen=True, eq=False)
class RegionReader:
    """Reads the secret from one view of images, cross-fitted.

    Attributes:
        density: of the secret.
        changed: of whether an image shows the region of another; `None` where none did.
        clean: the reader of clean images that one who recognises changed ones knows, too.
    """

    density: CrossFitted
    changed: CrossFitted | None = None
    clean: RegionReader | None = None

    def about(self, pixels: Pixels, fold: Ints, before: Floats | None = None) -> Floats:
        """`log p(s | image)/p(s)`, (n, |S|), by models that have not seen the images.

        Args:
            pixels: (n, height, width, channels) bytes.
            fold: (n,) the fold of each.
            before: (n, |S|) what another reader said, if it is repeated.
        """
        with one_thread():
            return self._about(Album.of(pixels), fold, before)

    def _about(self, album: Album, fold: Ints, before: Floats | None) -> Floats:
        return self.density.about(self.asked(album, fold, before), fold)

    def asked(self, album: Album, fold: Ints, before: Floats | None) -> Album:
        """Images with all that is said of them: by another reader, and how they seem."""
        if before is None:
            return album
        said = [before]
        if self.changed is not None and self.clean is not None:
            changed = self.changed.about(album, fold)
            said += [changed[:, 1:] - changed[:, :1], self.clean._about(album, fold, before)]
        return replace(album, told=np.concatenate(said, axis=1))

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain JSON and all numbers, by name; without those of the reader of clean images."""
        config = {"density": _named(self.density)}
        arrays = _arrays("density", self.density)
        if self.changed is not None:
            config["changed"] = _named(self.changed)
            arrays |= _arrays("changed", self.changed)
        return config, arrays

    @classmethod
    def of_parts(
        cls,
        config: Mapping[str, Any],
        arrays: Arrays,
        clean: RegionReader | None = None,
        *,
        folds: int,
        channels: int,
        mirror: bool,
    ) -> RegionReader:
        """Rebuild what `parts` gave."""
        need_torch("a plan that redraws a region of images")
        how: dict[str, Any] = {"folds": folds, "channels": channels, "mirror": mirror}
        density = _rebuilt("density", config["density"], arrays, **how)
        if "changed" not in config:
            return cls(density)
        return cls(density, _rebuilt("changed", config["changed"], arrays, **how), clean)


def _named(density: CrossFitted) -> list[str]:
    """What each learner of a density is."""
    return [_kind(fitted[0]) for fitted in density.fitted]


def _kind(fitted: Any) -> str:
    if isinstance(fitted, LinearModel):
        return _SEEMING if fitted.numbers is seeming else _EDGES
    return _NETWORKS if isinstance(fitted, Network) else _REST


def _arrays(name: str, density: CrossFitted) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {
        f"{name}.weights": density.weights,
        f"{name}.log_prior": density.log_prior,
    }
    for number, folds in enumerate(density.fitted):
        for fold, fitted in enumerate(folds):
            own: dict[str, NDArray[Any]] = fitted.arrays()  # type: ignore[attr-defined]
            arrays |= {f"{name}.{number}.{fold}.{part}": value for part, value in own.items()}
    return arrays


def _rebuilt(
    name: str, kinds: Sequence[str], arrays: Arrays, *, folds: int, channels: int, mirror: bool
) -> CrossFitted:
    log_prior = arrays[f"{name}.log_prior"]

    def fitted(number: int, fold: int, kind: str) -> Any:
        start = f"{name}.{number}.{fold}."
        own = {part.removeprefix(start): a for part, a in arrays.items() if part.startswith(start)}
        if kind == _NETWORKS:
            import torch

            net = small_network((0, 0, channels), len(log_prior))
            net.load_state_dict({part: torch.tensor(value) for part, value in own.items()})
            return Network(net.eval(), mirror, log_prior, _NETWORK.side)
        if kind == _REST:
            return Repeated(len(log_prior))
        numbers = seeming if kind == _SEEMING else both_sides
        sides = mirror and kind == _EDGES
        return LinearModel(numbers, own["weights"], own["offset"], log_prior, sides)

    return CrossFitted(
        arrays[f"{name}.weights"],
        tuple(
            tuple(fitted(number, fold, kind) for fold in range(folds))
            for number, kind in enumerate(kinds)
        ),
        log_prior,
    )


def fit_reader(
    pixels: Pixels,
    codes: Ints,
    fold: Ints,
    *,
    before: Floats | None = None,
    changed: Bools | None = None,
    clean: RegionReader | None = None,
    mirror: bool,
    steps: int | None,
    seed: int,
    tick: Tick = lambda _: None,
) -> tuple[RegionReader, Reading]:
    """Fit a reader to n images; and what it says of each without having seen it.

    Args:
        pixels: (n, height, width, channels) the images as they are to be read.
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
    recipe = _NETWORK if steps is None else replace(_NETWORK, steps=(steps, steps))
    edges = Regression(seed, mirror=(mirror,))
    learners: list[Learner] = [edges, Convolutional(recipe, seed, mirror)]
    if before is not None:
        learners.insert(0, Repeated(before.shape[1]))
    album = Album.of(pixels)
    recognised = None
    with one_thread():
        if changed is not None and clean is not None:
            recognised = _recognise(album, changed, fold, edges)
        if recognised is not None:
            seen_through = Regression(seed, seeming, (False,), (1.0,), toll=0.0)
            learners.append(seen_through)
        reader = RegionReader(_nothing(), recognised, clean if recognised is not None else None)
        reading = read(
            reader.asked(album, fold, before),
            codes,
            learners,
            fold=fold,
            log_prior=_log_shares(codes),
            tick=tick,
        )
    # Not the null model where a gain is not evident: what is not read is not removed.
    return replace(reader, density=reading.cross_fitted(evident=False)), reading


def _recognise(album: Album, changed: Bools, fold: Ints, edges: Regression) -> CrossFitted | None:
    """Who tells changed images from others; `None` where too few of one sort are there to learn
    from.
    """
    codes = changed.astype(np.intp)
    if min(codes.sum(), len(codes) - codes.sum()) < _RECOGNISED:
        return None
    reading = read(album, codes, [edges], fold=fold, log_prior=_log_shares(codes))
    return reading.cross_fitted(evident=False)


def _log_shares(codes: Ints) -> Floats:
    """(|S|,) the logarithms of the shares of the classes."""
    return np.asarray(np.log(np.bincount(codes) / len(codes)))


def _nothing() -> CrossFitted:
    """A density that is yet to be fitted."""
    return CrossFitted(np.zeros(0), (), np.zeros(1))
