"""A first look at images: how much they tell about the secret, and which patches tell it.

What a whole image tells is read by several at once, each of which misses something: a density of
patches, and the attackers of an audit that are quickly trained. All learn from the same seven
tenths of the images. Their densities are added, with weights for each fifth of the other images
from the other four. Nothing that they do not see is in that number: it is a lower bound, up to
chance. Which patches tell it is asked of the density of patches alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from lowtide.attack.attackers import Attacker, taught
from lowtide.auditing.surface import SurfaceFindings
from lowtide.checks import LowtideError, check_rows
from lowtide.estimate.density import Density
from lowtide.estimate.objectives import information_of
from lowtide.estimate.stack import cross_weighed
from lowtide.estimate.tide import TIDE
from lowtide.extras import need_torch
from lowtide.formatting import html_of, text_of
from lowtide.images.album import Album
from lowtide.images.attackers import IMAGE_ATTACKERS
from lowtide.images.edges import symmetric
from lowtide.images.encoder import Chosen, Grid, ImageEncoder, as_images, mean_image
from lowtide.interface import NATS_PER_BIT, Estimate, Reported, TextTable
from lowtide.labels import read_classes
from lowtide.splits import STREAMS, generator_for, stratified_folds, three_tenths
from lowtide.training import computing_on
from lowtide.types import Floats, Labels, Pixels

if TYPE_CHECKING:
    pass

_HELD_OUT = 2000  # images that are asked about
_ORDER_FREE = 100  # of them: random orders cost one evaluation per block of patches
_ORDERS = 2
_MANY = 200  # images to fit to: enough to set some aside and still learn from most
_BATCH = 64
_SHOWN = 10  # patches of a printed table
_ATTACKERS = (
    "edges",
    "oriented gradients",
    "local patterns",
)  # networks would take longer than all the rest
_MIXED = 5  # folds of the held-out images: the readers are weighted by all others
_LEAST_PER_CLASS = 5  # images that attackers learn from, some of which validate
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
    rng = generator_for("image scan", len(codes))
    rest, held = three_tenths(codes, rng)
    labels = np.array(classes.labels, dtype=object)[codes]
    album = Album.of(opened)
    seed = estimator.random_state
    attackers = _trained(album[rest], codes[rest], seed)
    log_prior = np.log(np.bincount(codes[rest]) / len(rest))
    varied = bool(attackers) and symmetric(album[rest], codes[rest], log_prior, seed)
    density = _fitted(Chosen(opened, rest), labels[rest], estimator, varied=varied)
    held = rng.permutation(held)[:_HELD_OUT]
    asked = density.classes.encode(labels[held])
    total = np.zeros(len(density.features))
    squares = np.zeros(len(density.features))
    for start in range(0, len(held), _BATCH):
        part = np.arange(start, min(start + _BATCH, len(held)))
        steps = np.asarray(density.conditionals(opened.read(held[part])))[
            np.arange(len(part)), :, asked[part]
        ]
        total = total + steps.sum(axis=0)
        squares = squares + np.square(steps).sum(axis=0)
    n = len(held)
    few = np.arange(min(_ORDER_FREE, len(held)))
    shares = density.shapley(
        Chosen(opened, held[few]), orders=_ORDERS, seed=STREAMS["image scan"]
    ).values
    shares = shares[few, :, asked[few]]
    spread = np.maximum(squares / n - np.square(total / n), 0.0)
    told = {_PATCHES: np.asarray(density.density(Chosen(opened, held)))}
    log_prior = np.log(np.bincount(codes[rest]) / len(rest))
    told |= {
        name: np.log(one.probabilities(album[held])) - log_prior for name, one in attackers.items()
    }
    return ImageScan(
        information=_together(told, codes[held], log_prior, level),
        grid=Grid(*opened.shape, patch=_side(density)),
        in_order=total / n,
        in_order_error=np.sqrt(spread / max(1, n - 1)),
        order_free=shares.mean(axis=0),
        order_free_error=shares.std(axis=0) / np.sqrt(max(1, len(few) - 1)),
        asked=(n, len(few)),
        mean=np.rint(mean_image(opened)).astype(np.uint8),
        rows=len(codes),
        classes=len(classes.labels),
        largest_class=float(classes.prior.max()),
        entropy=float(-(classes.prior * np.log(classes.prior)).sum()),
        density=density,
        secret=secret,
        readers={
            name: information_of(one[np.arange(n), codes[held]], level)
            for name, one in told.items()
        },
    )


def _fitted(images: Chosen, labels: Any, estimator: TIDE, *, varied: bool) -> Density:
    """The density of patches: cross-fitted where images are few, and one network of each kind where
    they are many.
    """
    from lowtide.images.fitting import fit_once

    if len(images) < _MANY:
        return estimator.fit(images, labels).artefact
    with computing_on(estimator.device):
        return fit_once(images, labels, estimator._options(), varied=varied)


def _trained(album: Album, codes: Labels, seed: int) -> dict[str, Attacker]:
    """Attackers that have learnt from images of classes (n,); none where a class has too few images
    for that.
    """
    enough = np.bincount(codes).min() >= _LEAST_PER_CLASS
    return {
        name: taught(IMAGE_ATTACKERS[name](seed), album, codes)
        for name in (_ATTACKERS if enough else ())
    }


def _together(
    told: Mapping[str, Floats], codes: Labels, log_prior: Floats, level: float
) -> Estimate:
    """What several read together, in nats: their densities (n, |S|), added with weights from the
    other folds.

    Args:
        told: by name.
        codes: (n,) the true classes.
        log_prior: (|S|,) of the shares of the classes among the images they learnt from.
        level: of the interval.
    """
    n = len(codes)
    fold = stratified_folds(codes, _MIXED, generator_for("image scan", n))
    mixed = cross_weighed(np.stack(list(told.values())), codes, log_prior, fold)
    return information_of(mixed[np.arange(n), codes], level)


def _side(density: Density) -> int:
    if not isinstance(density.encoder, ImageEncoder):
        raise LowtideError("the density is not one of images; fit TIDE(features=side) to images")
    return density.encoder.grid.patch
