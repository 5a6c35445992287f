"""What a user may tell about images."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from lowtide.errors import LowtideError
from lowtide.options import option


@dataclass(frozen=True)
class ImageOptions:
    """How images are opened, cut into patches, written and matched."""

    default_budget: ClassVar[float] = (
        0.05  # secrets of faces are all over the face: a much smaller budget hides nearly all of it
    )
    patch: int = option(8, "side of a patch in pixels", verbs=("scan", "plan"), least=1)
    resize: str | None = option(None, "bring all to WIDTHxHEIGHT", verbs=("scan", "plan", "audit"), metavar="WxH")
    grey: bool = option(False, "make grey of colours", verbs=("scan", "plan", "audit"))
    complete: bool = option(False, "refuse a folder of which files or labels would be skipped")
    samples: int = option(0, "show so many of them in the report, which then stays inside", verbs=("scan",), least=0)
    png: bool = option(False, "write PNG, so that no shown pixel changes", verbs=("release",))
    quality: int = option(95, "of JPEG files", verbs=("release",), least=1, most=100)
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
        return int(sides[0]), int(sides[1])
