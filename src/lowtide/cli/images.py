"""Images on the command line: the options they add to the verbs, opening them, and `lowtide scan` of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from lowtide import modalities
from lowtide.cli.common import note, out, show_progress
from lowtide.density.tide import TIDE
from lowtide.errors import LowtideError
from lowtide.images.arrays import cached
from lowtide.images.encoder import Images
from lowtide.images.folder import ImageFolder
from lowtide.images.names import names_tell
from lowtide.images.opening import open_images
from lowtide.images.scan import scan_images
from lowtide.labels import read_classes
from lowtide.report.console import print_tables, write_json
from lowtide.report.html import write_report
from lowtide.report.sections import make_report
from lowtide.table_files.formats import FORMATS, find_column

Patch = Annotated[int, typer.Option("--patch", help="images: side of a patch in pixels", min=1)]
Resize = Annotated[str | None, typer.Option("--resize", help="images: bring all to WIDTHxHEIGHT", metavar="WxH")]
Grey = Annotated[bool, typer.Option("--grey", help="images: make grey of colours")]
Strict = Annotated[bool, typer.Option("--strict", help="images: refuse what would be skipped")]
Samples = Annotated[
    int,
    typer.Option("--samples", help="images, texts: show so many of them in the report, which then stays inside"),
]


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
    found = scan_images(given.pixels, given.s, estimator=tide, secret=given.secret)
    print_tables(found.tables())
    if save is not None:
        found.density.save(save)
        out.print(f"density: {save}", soft_wrap=True)
        note(f"keep {save} inside: it holds labels of the secret")
    if json is not None:
        write_json(json, found.to_json())
    if report is not None:
        title = f"{path.name}: what it tells about {secret}"
        kind = modalities.get("images")
        view = kind.view(given.pixels, scan=found, single=samples, seed=seed)
        page = make_report(title, given.secret, kind, scan=found, view=view)
        for written in write_report(page, report, figures=figures):
            out.print(f"written: {written}", soft_wrap=True)
