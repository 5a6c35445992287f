"""What a user may tell about images."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from lowtide.errors import LowtideError
from lowtide.options import option

MOST_PIXELS = (
    1 << 20
)  # of an image: networks hold 64 floats of each while they read it, 270 MB in all
MOST_IN_ALL = 1 << 34  # of all images: CelebA has half as many


def check_pixels(width: int, height: int, images: int = 1) -> None:
    """Refuse images that are too large, or too many for their size, before any of them is
    decoded.
    """
    if width * height > MOST_PIXELS:
        raise LowtideError(
            f"an image of {width:,}×{height:,} pixels is too large; at most {MOST_PIXELS:,}"
            " (1024×1024) can be judged: bring all to a smaller size, such as --resize 256x256"
        )
    if width * height * images > MOST_IN_ALL:
        raise LowtideError(
            f"{images:,} images of {width:,}×{height:,} pixels are too many; at most"
            f" {MOST_IN_ALL:,} pixels in all can be judged: bring them to a smaller size with"
            " --resize, or give fewer"
        )


@dataclass(frozen=True)
class ImageOptions:
    """How images are opened, cut into patches, written and matched."""

    default_budget: ClassVar[float] = (
        0.05  # secrets of faces are all over the face: a much smaller budget hides nearly all of it
    )
    patch: int = option(8, "side of a patch in pixels", verbs=("scan", "plan"), least=1)
    resize: str | None = option(
        None,
        "look at all of them in WIDTHxHEIGHT, at most 1024x1024 pixels; a release keeps their"
        " sizes",
        verbs=("scan", "plan", "audit"),
        metavar="WxH",
    )
    grey: bool = option(False, "make grey of colours", verbs=("scan", "plan", "audit"))
    complete: bool = option(False, "refuse a folder of which files or labels would be skipped")
    samples: int = option(
        0, "show so many of them in the report, which then stays inside", verbs=("scan",), least=0
    )
    region: float = option(
        0.36, "share of the pixels that redraw keeps or replaces as one region", verbs=("plan",)
    )
    fill: str | None = option(
        None,
        "what hidden patches show: grey, the mean colour of what is shown, a blur of what lies"
        " around, inpaint for a smooth one, or redraw for that of like images",
        verbs=("plan",),
        metavar="grey|mean|blur|inpaint|redraw",
    )
    align: str | None = option(
        None,
        "let what is hidden follow the face: box (columns x, y, w, h) or landmarks (columns NAME_x,"
        " NAME_y)",
        verbs=("plan", "release"),
        metavar="box|landmarks",
    )
    png: bool = option(False, "write PNG, so that no shown pixel changes", verbs=("release",))
    quality: int | None = option(
        None,
        "of JPEG files; by default each is encoded as its source was",
        verbs=("release",),
        least=1,
        most=100,
    )
    rename: bool = option(False, "number them anew, in random order", verbs=("release",))
    mapping: Path | None = option(
        None, "the private list of old and new names", verbs=("release", "audit"), metavar="FILE"
    )

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height to bring images to."""
        if self.resize is None:
            return None
        sides = self.resize.lower().replace("×", "x").split("x")
        if len(sides) != 2 or not all(side.strip().isdecimal() for side in sides):
            raise LowtideError("resize must read WIDTHxHEIGHT in pixels, such as 64x80")
        width, height = (int(side) for side in sides)
        check_pixels(width, height)
        return width, height
