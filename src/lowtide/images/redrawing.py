"""The policy `redraw` for images: a region is kept as often as its density allows, and otherwise
another one shown.

The region is one feature, and the rest of the image is released as it is. An image of class s keeps
its region with probability `min(1, e^{−i})`, where `i = i(s; region | rest)`. Those that do not
keep it change places: each gets the region of another with a like visible part, drawn by the
weights `(1 − e^i)_+` of the composites. So it is composites that are judged, with the traces of
their making. What the classes give up is what they lack, since `Σ_s p(s)(P_s − Q)_+ = Σ_s p(s)(Q −
P_s)_+`: nothing needs to be shown twice, which would tell that one is false.

A further pass does the same to what the pass before has released, by readers that have learnt from
that: they see what the densities of the pass before have missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lowtide.disclose.noise import Ids, KeyedNoise
from lowtide.disclose.saved import Parts, Tensors
from lowtide.disclose.secret_codes import SecretCodes
from lowtide.errors import LowtideError
from lowtide.estimate.stack import is_clear
from lowtide.images.encoder import Grid, Images
from lowtide.images.region_density import RegionReader, fit_reader
from lowtide.images.region_donors import Looks, change_places
from lowtide.images.regions import Region
from lowtide.theory import redraw as theory
from lowtide.types import Bools, Floats, Ints, Pixels

FOLDS = 3
_PROPOSALS = 16
_LIKE = 40  # images alike enough to stand for the law of a region given the rest
_AT_ONCE = 256
_FOLD_SEED = 0x9E3779B97F4A7C15

Tick = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class RedrawnImages:
    """The release of n images; itself `Images`, never in memory as a whole.

    Attributes:
        clean: the images.
        region: what is kept or replaced.
        holder: (n,) whose region each image shows.
    """

    clean: Images
    region: Region
    holder: Ints = field(repr=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.clean.shape

    @property
    def changed(self) -> Bools:
        """(n,) whether each shows the region of another."""
        return self.holder != np.arange(len(self.holder))

    def __len__(self) -> int:
        return len(self.clean)

    def read(self, index: Ints) -> Pixels:
        """Some released images."""
        index = np.asarray(index)
        return self.composed(self.clean.read(index), self.holder[index], index)

    def composed(self, pixels: Pixels, holder: Ints, index: Ints) -> Pixels:
        """The images `index` (k,), whose pixels are given, with the regions of `holder` (k,)."""
        shown = np.array(pixels)
        out = np.flatnonzero(holder != index)
        if len(out):
            shown[out] = self.region.fill(
                pixels[out], self.region.detail(self.clean.read(holder[out]))
            )
        return shown


@dataclass(frozen=True, eq=False)
class RedrawRegion:
    """A fitted policy.

    Attributes:
        grid: the size of the images, and the patches that cards and maps count.
        region: what is kept or replaced.
        rest: reads images whose region is blank.
        passes: readers of whole images, one for each pass.
        mirror: whether readers take an image and its mirror image for the same.
        width: how far `log P'_s/R` of an image may be from 0.
        secret: the values of the secret, which say the class of an image that is released.
        seed: of the folds.
    """

    name: ClassVar[str] = "redraw"
    grid: Grid
    region: Region
    rest: RegionReader = field(repr=False)
    passes: tuple[RegionReader, ...] = field(repr=False)
    mirror: bool
    width: float
    secret: SecretCodes = field(repr=False)
    seed: int = 0

    def release(
        self, images: Images, codes: Ints, *, noise: KeyedNoise, ids: Ids | None = None
    ) -> RedrawnImages:
        """Release a file of n images: regions change places among these.

        Args:
            images: all images of the file.
            codes: (n,) their classes.
            noise: where draws come from.
            ids: (n,) numbers that draws are keyed by besides what an image shows.
        """
        file = _File(images, codes, self.region, noise, ids=ids, width=self.width, seed=self.seed)
        before = [
            self.rest.about(self.region.blank(images.read(part)), file.fold[part])
            for part in file.parts()
        ]
        file.before = np.concatenate(before)
        for number, reader in enumerate(self.passes):
            file.follow(reader, number)
        return file.release

    def flags(self, pixels: Pixels) -> Bools:
        """No rule decides beforehand which images are changed."""
        raise LowtideError(
            "redraw changes images by chance and by the secret of each; ask release()"
        )

    def parts(self) -> Parts:
        """Plain JSON, and the region and the readers as tensors."""
        arrays: dict[str, NDArray[Any]] = {"region": self.region.mask}
        readers = []
        for number, reader in enumerate((self.rest, *self.passes)):
            described, own = reader.parts()
            readers.append(described)
            arrays |= {f"{number}.{name}": array for name, array in own.items()}
        config = {
            "name": self.name,
            "readers": readers,
            "mirror": self.mirror,
            "width": None if np.isinf(self.width) else self.width,
            "seed": self.seed,
            "secret": self.secret.to_config(),
        }
        return config, {name: np.array(array, order="C") for name, array in arrays.items()}

    @classmethod
    def read(cls, config: Mapping[str, Any], tensors: Tensors, grid: Grid) -> RedrawRegion:
        """Rebuild what `parts` gave."""
        mask = tensors["region"]
        if mask.shape != (grid.height, grid.width):
            raise LowtideError(
                "the region of the plan is of another size than its images; make it again"
            )

        readers: list[RegionReader] = []
        for number, described in enumerate(config["readers"]):
            start = f"{number}."
            own = {k.removeprefix(start): t for k, t in tensors.items() if k.startswith(start)}
            clean = readers[1] if len(readers) > 1 else None
            readers.append(
                RegionReader.of_parts(
                    described,
                    own,
                    clean,
                    folds=FOLDS,
                    channels=grid.channels,
                    mirror=bool(config["mirror"]),
                )
            )
        return cls(
            grid,
            Region(mask),
            readers[0],
            tuple(readers[1:]),
            bool(config["mirror"]),
            np.inf if config["width"] is None else float(config["width"]),
            SecretCodes.from_config(config["secret"]),
            int(config["seed"]),
        )


class _File:
    """The images of a file on their way through the passes.

    Attributes:
        before: (n, |S|) what the rest of each image tells.
        fold: (n,) the fold of each image.
        release: what is shown of them so far.
    """

    before: Floats

    def __init__(
        self,
        images: Images,
        codes: Ints,
        region: Region,
        noise: KeyedNoise,
        *,
        ids: Ids | None = None,
        width: float,
        seed: int,
    ) -> None:
        self.images = images
        self.codes = codes
        self.noise = noise
        self.width = width
        self.looks = Looks.of(images, region)
        self.fold = folds_of(self.looks.contents, seed)
        names = self.looks.contents if ids is None else self.looks.contents ^ ids
        self.numbers = noise.content_ids(
            (name.tobytes() for name in names.astype("<u8")), len(names)
        )
        self.release = RedrawnImages(images, region, np.arange(len(images)))

    def parts(self) -> Iterator[Ints]:
        """All images, a few at a time."""
        for start in range(0, len(self.images), _AT_ONCE):
            yield np.arange(start, min(start + _AT_ONCE, len(self.images)))

    def follow(self, reader: RegionReader, number: int) -> None:
        """Keep or replace the region of every image, by the density of one pass."""
        drawn = self.noise.derive(b"regions, pass %d" % number).uniform(
            self.numbers, 0, 1 + 2 * _PROPOSALS
        )
        told = np.concatenate(
            [self._told(reader, part, self.release.holder[part]) for part in self.parts()]
        )
        floor, cap, shift = self._levels(reader, drawn[:, 1 + _PROPOSALS :])
        out = np.flatnonzero(drawn[:, 0] >= theory.keep_probability(told - shift, cap))
        out = out[np.argsort(self.numbers[out], kind="stable")]
        holder = self.release.holder.copy()

        def weigh(places: Ints, regions: Ints) -> Floats:
            rows = out[places]
            i = np.stack([self._told(reader, rows, holder[out[one]]) for one in regions.T], axis=1)
            return theory.redraw_weights(i - shift[rows, None], floor[rows, None])

        given = change_places(self.looks, out, weigh, drawn[out, 1 : 1 + _PROPOSALS], _PROPOSALS)
        self.release.holder[out] = holder[out[given]]

    def _levels(self, reader: RegionReader, drawn: Floats) -> tuple[Floats, Floats, Floats]:
        """Floor, cap and `log Σ Q e^i` (n,) of the density of every image; without a budget all are
        0.
        """
        n = len(self.codes)
        width = self.width
        floor = np.zeros(n)
        cap = np.zeros(n)
        shift = np.zeros(n)
        if width == 0:
            return floor, cap, shift
        every = np.arange(n)
        for part in self.parts():
            near = self.looks.nearest(part, every, max(1, min(_LIKE, n - 1)))
            place = np.minimum((drawn[part] * near.shape[1]).astype(np.intp), near.shape[1] - 1)
            donors = self.release.holder[near[np.arange(len(part))[:, None], place]]
            i = np.stack([self._told(reader, part, one) for one in donors.T], axis=1)
            shift[part] = np.log(np.exp(i).mean(axis=1))  # Σ Q e^i = 1
            limits = np.full(len(part), -width), np.full(len(part), width)
            floor[part], cap[part] = theory.levels(i - shift[part, None], 1 / i.shape[1], *limits)
        return floor, cap, shift

    def _told(self, reader: RegionReader, rows: Ints, holder: Ints) -> Floats:
        """`i(s; region | rest)`, (k,), of some rows at their classes, with the regions of `holder`
        (k,).
        """
        found = []
        for start in range(0, len(rows), _AT_ONCE):
            own = rows[start : start + _AT_ONCE]
            lent = holder[start : start + _AT_ONCE]
            pixels = self.release.composed(self.images.read(own), lent, own)
            before = self.before[own]
            i = reader.about(pixels, self.fold[own], before) - before
            found.append(i[np.arange(len(own)), self.codes[own]])
        return np.concatenate(found)


def folds_of(contents: Ids, seed: int) -> Ints:
    """The fold (n,) of each image, by what it shows: copies are in one fold, whichever file they
    are in.
    """
    mixed = (contents ^ np.uint64(seed)) * np.uint64(_FOLD_SEED)
    return ((mixed >> np.uint64(32)) % np.uint64(FOLDS)).astype(np.intp)


def fit_region(
    images: Images,
    codes: Ints,
    region: Region,
    grid: Grid,
    secret: SecretCodes,
    *,
    width: float = 0.0,
    passes: int = 2,
    noise: KeyedNoise,
    mirror: bool = True,
    steps: int | None = None,
    seed: int = 0,
    tick: Tick = lambda _: None,
) -> tuple[RedrawRegion, RedrawnImages]:
    """Fit the policy on reference images, releasing them on the way.

    Args:
        images: n of them; they are in memory while this runs.
        codes: (n,) their classes, coded 0 … |S|−1.
        region: what is kept or replaced.
        grid: the size of the images.
        secret: the values of the secret.
        width: how far `log P'_s/R` of an image may be from 0; only with 0 there is more than one
            pass.
        passes: how many there are at most; a pass that reads nothing is the last.
        noise: of the rehearsal.
        mirror: whether a mirrored image is as likely as the image.
        steps: of the networks; by default enough for so many images.
        seed: of folds and networks.
        tick: called with the share of the work that is done.

    Returns:
        The policy, and what it releases of these images under the noise of the rehearsal.
    """
    turns = passes if width == 0 else 1
    file = _File(images, codes, region, noise, width=width, seed=seed)
    how: dict[str, Any] = {"mirror": mirror, "steps": steps}
    blank = np.concatenate([region.blank(images.read(part)) for part in file.parts()])
    rest, _ = fit_reader(
        blank,
        codes,
        file.fold,
        seed=seed,
        tick=lambda done: tick(done / (turns + 1)),
        **how,
    )
    file.before = rest.about(blank, file.fold)
    readers = _fit_passes(file, turns, seed, tick, how)
    return RedrawRegion(grid, region, rest, readers, mirror, width, secret, seed), file.release


def _fit_passes(
    file: _File, turns: int, seed: int, tick: Tick, how: Mapping[str, Any]
) -> tuple[RegionReader, ...]:
    """The readers of the passes, each fitted to what the one before has released; a pass that reads
    nothing is last.
    """
    readers: list[RegionReader] = []
    for turn in range(turns):
        # In memory: every network reads all of it.
        shown = np.concatenate([file.release.read(part) for part in file.parts()])
        reader, _ = fit_reader(
            shown,
            file.codes,
            file.fold,
            before=file.before,
            changed=file.release.changed,
            clean=readers[0] if readers else None,
            seed=seed + 100 * (turn + 1),
            tick=partial(_in_turn, tick, turn + 1, turns + 1),
            **how,
        )
        told = reader.about(shown, file.fold, file.before)
        own = np.arange(len(file.codes)), file.codes
        if not is_clear((told - file.before)[own]):  # whole images tell no more than their rest
            break
        file.follow(reader, turn)
        readers.append(reader)
    return tuple(readers)


def _in_turn(tick: Tick, turn: int, turns: int, done: float) -> None:
    tick((turn + done) / turns)
