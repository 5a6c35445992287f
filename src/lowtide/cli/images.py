"""Images on the command line: the options they add to the verbs, opening them, and `lowtide scan` of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from lowtide.cli.common import note, out, show_progress
from lowtide.density.tide import TIDE
from lowtide.errors import Floats, LowtideError
from lowtide.images.arrays import cached
from lowtide.images.encoder import Chosen, Images
from lowtide.images.folder import ImageFolder
from lowtide.images.heatmaps import heat
from lowtide.images.maps import ImageMaps
from lowtide.images.names import names_tell
from lowtide.images.opening import open_images
from lowtide.images.scan import ImageScan, scan_images
from lowtide.interface import NATS_PER_BIT
from lowtide.labels import read_classes
from lowtide.report.console import print_table, write_json
from lowtide.report.html import Report, write_report
from lowtide.table_files.formats import FORMATS, find_column
from lowtide.types import Pixels

Patch = Annotated[int, typer.Option("--patch", help="images: side of a patch in pixels", min=1)]
Resize = Annotated[str | None, typer.Option("--resize", help="images: bring all to WIDTHxHEIGHT", metavar="WxH")]
Grey = Annotated[bool, typer.Option("--grey", help="images: make grey of colours")]
Strict = Annotated[bool, typer.Option("--strict", help="images: refuse what would be skipped")]
Samples = Annotated[
    int,
    typer.Option("--samples", help="images, texts: show so many of them in the report, which then stays inside"),
]
_SHOWN = 10  # rows of a printed table
_ROOM = 0x5A3


@dataclass(frozen=True)
class Opening:
    """How images are to be opened.

    Attributes:
        resize: `WIDTHxHEIGHT`, or `None`.
        grey: whether to make grey of colours.
        strict: whether to refuse what would be skipped.
    """

    resize: str | None = None
    grey: bool = False
    strict: bool = False

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height to bring images to."""
        if self.resize is None:
            return None
        sides = self.resize.lower().replace("×", "x").split("x")
        if len(sides) != 2 or not all(side.strip().isdecimal() for side in sides):
            raise LowtideError("--resize must read WIDTHxHEIGHT in pixels, such as --resize 64x80")
        return int(sides[0]), int(sides[1])


@dataclass(frozen=True, eq=False)
class GivenImages:
    """Images as opened, and their secret.

    Attributes:
        folder: the images whose secret is known.
        pixels: the same, decoded once where there is room.
        secret: name of the secret.
        s: (n,) its values.
    """

    folder: ImageFolder
    pixels: Images
    secret: str
    s: NDArray[Any]


def are_images(path: Path) -> bool:
    """Whether a path is for images: a folder or an `.npz` file, which no table is."""
    return path.suffix.lower() == ".npz" or (path.is_dir() and path.suffix.lower() not in FORMATS)


def open_given(path: Path, secret: str, opening: Opening, *, progress: bool | None) -> GivenImages:
    """Open images, find the secret, and say what a person should know before they believe the rest."""
    folder = open_images(
        path, resize=opening.size, grey=opening.grey, strict=opening.strict, thorough=True, progress=progress
    )
    for said in folder.describe():
        note(said)
    secret = find_column(secret, folder.columns) if folder.columns else secret
    known = folder.known(secret)
    if not known.any():
        raise LowtideError(f"the secret {secret!r} is missing for every image; name another column")
    if not known.all():
        note(f"{int((~known).sum())} images without a value of the secret are left out")
    folder = folder.take(known)
    values = folder.column(secret)
    classes, codes = read_classes(values)
    if len(classes.labels) > max(50, len(values) // 20):
        raise LowtideError(
            f"the secret {secret!r} has {len(classes.labels)} different values in {len(values)} images; a secret needs "
            "a few: put numbers into bins, or merge rare values"
        )
    check = names_tell(folder.names, codes)
    if check.tells:
        note(str(check))
    return GivenImages(folder, cached(folder, progress=progress), secret, values)


def scan_folder(
    path: Path,
    secret: str,
    *,
    patch: int,
    opening: Opening,
    samples: int,
    json: Path | None,
    report: Path | None,
    figures: Path | None,
    save: Path | None,
    seed: int,
    steps: int | None,
    quiet: bool,
) -> None:
    """`lowtide scan` of images."""
    progress = show_progress(quiet)
    given = open_given(path, secret, opening, progress=progress)
    tide = TIDE(features=patch, max_steps=steps, random_state=seed, progress=progress)
    found = scan_images(given.pixels, given.s, estimator=tide)
    print_scan(found, given)
    if save is not None:
        found.density.save(save)
        out.print(f"density: {save}", soft_wrap=True)
        note(f"keep {save} inside: it holds labels of the secret")
    if json is not None:
        write_json(json, scan_json(found, given))
    if report is not None:
        title = f"{path.name}: what it tells about {secret}"
        maps = ImageMaps(
            grid=found.grid,
            mean=found.mean,
            told=found.order_free,
            asked=found.asked[1],
            meaning="its order-free share",
            images=found.images,
            samples=sample_rows(found, given, samples, seed),
        )
        page = Report(title=title, secret=given.secret, scan=found, images=maps)
        for written in write_report(page, report, figures=figures):
            out.print(f"written: {written}", soft_wrap=True)


def print_scan(found: ImageScan, given: GivenImages) -> None:
    """The patches that tell most, as a table."""
    grid = found.grid
    order = np.argsort(-found.order_free, kind="stable")[:_SHOWN]
    bits = 1.0 / NATS_PER_BIT
    print_table(
        f"Which of {len(grid)} patches of {grid.patch}×{grid.patch} pixels tell about {given.secret}, in bits",
        ["patch", "from the top", "from the left", "order-free share", "added in order"],
        [
            (
                grid.features.names[j],
                f"{grid.patch * (j // grid.across)} px",
                f"{grid.patch * (j % grid.across)} px",
                f"{found.order_free[j] * bits:.4f} ± {1.96 * found.order_free_error[j] * bits:.4f}",
                f"{found.in_order[j] * bits:.4f} ± {1.96 * found.in_order_error[j] * bits:.4f}",
            )
            for j in map(int, order)
        ],
        note=f"A whole image tells {found.information.bits} of the {found.entropy * bits:.3f} bits there are "
        f"({found.images:,} images; held out, 95 %).",
    )


def scan_json(found: ImageScan, given: GivenImages) -> dict[str, object]:
    """The scan as plain values; no pixel of an image, no label."""
    return {
        "secret": given.secret,
        "images": found.images,
        "classes": found.classes,
        "largest_class": found.largest_class,
        "entropy_nats": found.entropy,
        "information_nats": asdict(found.information),
        "grid": asdict(found.grid),
        "in_order_nats": found.in_order.tolist(),
        "in_order_error_nats": found.in_order_error.tolist(),
        "order_free_nats": found.order_free.tolist(),
        "order_free_error_nats": found.order_free_error.tolist(),
        "held_out_images": {"in_order": found.asked[0], "order_free": found.asked[1]},
    }


def sample_rows(
    found: ImageScan, given: GivenImages, samples: int, seed: int
) -> tuple[tuple[str, tuple[Pixels, ...]], ...]:
    """Rows of single images and of what their patches tell, for a report that stays inside."""
    if samples <= 0:
        return ()
    rng = np.random.default_rng([seed, _ROOM])
    some = np.sort(rng.permutation(len(given.s))[:samples])
    pixels = given.pixels.read(some)
    told = leaks_of(found, Chosen(given.pixels, some))
    top = max(float(np.quantile(told, 0.995)), 1e-3)
    maps = tuple(heat(image, values, found.grid, most=top) for image, values in zip(pixels, told, strict=True))
    return ("original", tuple(pixels)), (f"what {found.grid.patch} px patches tell", maps)


def leaks_of(found: ImageScan, images: Images) -> Floats:
    """`max_s |i(s; x_j | x^{j−1})|` of every patch of some images, (n, m): what the paper colours."""
    steps = np.asarray(found.density.conditionals(images))
    return np.asarray(np.abs(steps).max(axis=-1))
