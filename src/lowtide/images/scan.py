"""A first look at images: how much they tell about the secret, and which patches tell it.

What a whole image tells is read by several at once, each of which misses something: a density of
patches, and the attackers of an audit that are quickly trained. All learn from the same seven
tenths of the images, and the one reader weighs them on the others. Nothing that they do not see is
in that number: it is a lower bound, up to chance. Which patches tell it is asked of the density of
patches alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from lowtide.auditing.surface import SurfaceFindings
from lowtide.checks import LowtideError, check_rows
from lowtide.estimate.density import Density
from lowtide.estimate.learners.base import Held, Learner, Path, Stage
from lowtide.estimate.objectives import information_of
from lowtide.estimate.reader import NEVER, Reading, read
from lowtide.estimate.stack import cross_weighed
from lowtide.estimate.tide import TIDE
from lowtide.extras import need_torch
from lowtide.formatting import html_of, text_of
from lowtide.images.album import Album
from lowtide.images.attackers import IMAGE_ATTACKERS
from lowtide.images.encoder import Chosen, Grid, as_images, is_side, mean_image
from lowtide.interface import NATS_PER_BIT, Estimate, Reported, TextTable
from lowtide.labels import read_classes
from lowtide.splits import STREAMS, generator_for, three_tenths
from lowtide.training import computing_on, one_thread
from lowtide.types import Floats, Ints, Labels, Pixels

_HELD_OUT = 2000  # images that are asked about
_ORDER_FREE = 100  # of them: random orders cost one evaluation per block of patches
_ORDERS = 2
_EVALUATIONS = 20_000  # of networks, about, for what patches add in order
_FEWEST = 20  # images that are asked for it, however many patches they have
_SHOWN = 10  # patches of a printed table
_ATTACKERS = (
    "edges",
    "oriented gradients",
    "local patterns",
)  # networks would take longer than all the rest
_LEAST_PER_CLASS = 5  # images that attackers learn from
_PATCHES = "the density of patches"


@dataclass(frozen=True, eq=False)
class ImageScan(Reported):
    """What images tell about a secret, in nats.

    Attributes:
        information: of whole images, read by the density and by attackers together on images that
            none of them was fitted on: a lower bound, up to chance.
        grid: the patches.
        in_order: (m,) what each patch adds to those before it, averaged over held-out images.
        in_order_error: (m,) its standard error.
        order_free: (m,) what each adds when patches are disclosed in random order, averaged over
            fewer images.
        order_free_error: (m,) its standard error, over images and orders.
        asked: how many held-out images `in_order` and `order_free` are averages of.
        mean: (height, width, channels) the average of all images.
        rows: how many images there were.
        classes: how many values the secret has.
        largest_class: share of the most frequent one.
        entropy: of the secret: what there is to tell.
        density: the fitted density; it holds the labels of the secret.
        secret: what the secret is called.
        surface: the order of the images; `None` where nobody looked.
        readers: what each of those who read whole images reads by itself, the density of patches
            first, by name.
    """

    holds: ClassVar[str] = "labels of the secret"  # what the saved density has of the data
    private: ClassVar[str] = ""  # why the tables stay inside, if they do
    information: Estimate
    grid: Grid
    in_order: Floats
    in_order_error: Floats
    order_free: Floats
    order_free_error: Floats
    asked: tuple[int, int]
    mean: Pixels
    rows: int
    classes: int
    largest_class: float
    entropy: float
    density: Density = field(repr=False)
    secret: str = "the secret"
    surface: SurfaceFindings | None = field(default=None, repr=False)
    readers: Mapping[str, Estimate] = field(default_factory=dict)

    @property
    def shares(self) -> Floats:
        """(m,) what each patch has of the information order-free, in nats."""
        return self.order_free

    def tables(self) -> list[TextTable]:
        """The patches that tell most, as a table to print."""
        grid = self.grid
        bits = 1.0 / NATS_PER_BIT
        rows = tuple(
            (
                grid.features.names[j],
                f"{grid.patch * (j // grid.across)} px",
                f"{grid.patch * (j % grid.across)} px",
                f"{self.order_free[j] * bits:.4f} ± {1.96 * self.order_free_error[j] * bits:.4f}",
                f"{self.in_order[j] * bits:.4f} ± {1.96 * self.in_order_error[j] * bits:.4f}",
            )
            for j in map(int, np.argsort(-self.order_free, kind="stable")[:_SHOWN])
        )
        title = (
            f"Which of {len(grid)} patches of {grid.patch}×{grid.patch} pixels tell about"
            f" {self.secret}, in bits"
        )
        header = ("patch", "from the top", "from the left", "order-free share", "added in order")
        note = (
            f"A whole image tells at least {self.information.bits} of the {self.entropy * bits:.3f}"
            " bits there are"
        )
        by = f"; read by {', '.join(self.readers)} together" if self.readers else ""
        alone = self.readers.get(_PATCHES)
        split = (
            ""
            if alone is None
            else f" Patches share what the density of patches reads alone, {alone.bits}."
        )
        first = TextTable(
            title, header, rows, f"{note} ({self.rows:,} images; held out, 95 %{by}).{split}"
        )
        return [first, *([] if self.surface is None else self.surface.tables())]

    def to_json(self) -> dict[str, Any]:
        """The scan as plain values; no pixel of an image, no label."""
        return {
            "secret": self.secret,
            "images": self.rows,
            "classes": self.classes,
            "largest_class": self.largest_class,
            "entropy_nats": self.entropy,
            "information_nats": asdict(self.information),
            "readers_nats": {name: asdict(one) for name, one in self.readers.items()},
            "surface": self.surface and self.surface.to_json(),
            "grid": asdict(self.grid),
            "in_order_nats": self.in_order.tolist(),
            "in_order_error_nats": self.in_order_error.tolist(),
            "order_free_nats": self.order_free.tolist(),
            "order_free_error_nats": self.order_free_error.tolist(),
            "held_out_images": {"in_order": self.asked[0], "order_free": self.asked[1]},
        }

    def __str__(self) -> str:
        return text_of(self.tables())

    def _repr_html_(self) -> str:
        """What `str` says, for a notebook."""
        return html_of(self.tables())


def scan_images(
    images: Any, s: ArrayLike, *, estimator: TIDE, level: float = 0.95, secret: str = "the secret"
) -> ImageScan:
    """Fit a density and attackers on seven tenths of the images and ask them about the others.

    Args:
        images: `Images`, or bytes (n, height, width, channels).
        s: the secret of every image, finitely many values.
        estimator: the `TIDE` to fit; its `features` is the side of a patch.
        level: of the confidence interval.
        secret: what to call the secret.
    """
    opened = as_images(images)
    classes, codes = read_classes(s)
    check_rows("s", codes.shape, len(opened), "images")
    need_torch("a scan of images")
    from lowtide.images.fitting import fit_patches

    options = estimator._options()
    rng = generator_for("image scan", len(codes))
    rest, held = three_tenths(codes, rng)
    held = rng.permutation(held)[:_HELD_OUT]
    rows = np.concatenate([rest, held])
    fold = np.repeat((NEVER, 0), (len(rest), len(held)))
    album = Album.of(opened)[rows]
    grid = Grid(*opened.shape, patch=_side(options.features))
    with computing_on(estimator.device):
        density, patches = fit_patches(album, codes[rows], classes, grid, fold, options)
    information, readers = _together(patches, album, codes[rows], fold, options.seed, level)
    few = held[: min(len(held), max(_FEWEST, _EVALUATIONS // len(grid)))]
    steps = np.asarray(density.conditionals(Chosen(opened, few)))
    steps = steps[np.arange(len(few)), :, codes[few]]
    fewer = held[:_ORDER_FREE]
    shares = density.shapley(
        Chosen(opened, fewer), orders=_ORDERS, seed=STREAMS["image scan"]
    ).values
    shares = shares[np.arange(len(fewer)), :, codes[fewer]]
    return ImageScan(
        information=information,
        grid=grid,
        in_order=steps.mean(axis=0),
        in_order_error=steps.std(axis=0) / np.sqrt(max(1, len(few) - 1)),
        order_free=shares.mean(axis=0),
        order_free_error=shares.std(axis=0) / np.sqrt(max(1, len(fewer) - 1)),
        asked=(len(few), len(fewer)),
        mean=np.rint(mean_image(opened)).astype(np.uint8),
        rows=len(codes),
        classes=len(classes.labels),
        largest_class=float(classes.prior.max()),
        entropy=float(-(classes.prior * np.log(classes.prior)).sum()),
        density=density,
        secret=secret,
        readers=readers,
    )


@dataclass(frozen=True, eq=False)
class _Trained:
    """A learner that has learnt from the images already."""

    path: Path

    name: ClassVar[str] = _PATCHES
    toll: ClassVar[float] = 0.0

    def fit(
        self, rows: Album, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Path:
        """What it has become."""
        return self.path


def _together(
    patches: Reading, album: Album, codes: Labels, fold: Ints, seed: int, level: float
) -> tuple[Estimate, dict[str, Estimate]]:
    """What the density of patches and attackers read together, and each by itself.

    Args:
        patches: how the density of patches was read.
        album: n images.
        codes: (n,) their classes.
        fold: (n,) as in `read`.
        seed: of the attackers.
        level: of the intervals.
    """
    (member,) = patches.tried
    learners: dict[str, Learner] = {_PATCHES: _Trained(member.paths[0])}
    # Of fewer images attackers learn nothing, some of which are held out.
    if np.bincount(codes[fold == NEVER], minlength=int(codes.max()) + 1).min() >= _LEAST_PER_CLASS:
        learners |= {name: IMAGE_ATTACKERS[name](seed) for name in _ATTACKERS}
    log_prior = np.log(np.bincount(codes) / len(codes))
    with one_thread(len(codes)):
        reading = read(
            album, codes, list(learners.values()), fold=fold, log_prior=log_prior, drop=False
        )
    every = np.arange(len(reading.codes)), reading.codes
    alone = {}
    for name, tried in zip(learners, reading.tried, strict=True):
        answers = tried.held_out[None]
        believed = cross_weighed(answers, reading.codes, log_prior, reading.part)
        alone[name] = information_of(believed[every], level)
    return reading.information(level), alone


def _side(features: Any) -> int:
    if not is_side(features):
        raise LowtideError(
            "X holds images: say what a patch is by its side in pixels, features=8 for example"
        )
    return int(features)
