"""A plan for images of one size: made once, then used to release any number of folders.

It is the hider, and what the hider does not know: the name of the secret, which never leaves the house, and how images
were brought to their size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lowtide.bundles import read_bundle, write_bundle
from lowtide.errors import LowtideError
from lowtide.images.folder import ImageFolder
from lowtide.images.hider import ImageHider
from lowtide.images.opening import open_images

FORMAT = "lowtide-image-plan"


@dataclass(frozen=True, eq=False)
class FolderPlan:
    """What to do with a folder of images.

    Attributes:
        hider: what to hide.
        secret: the name of the secret's column, dropped from every release.
        resize: width and height that images are brought to, or `None`.
        grey: whether colours are made grey.
    """

    hider: ImageHider
    secret: str
    resize: tuple[int, int] | None = None
    grey: bool = False

    def open(self, path: Path, *, strict: bool = False, progress: bool | None = None) -> ImageFolder:
        """Open images the way the plan was made for, every file decoded once: a damaged one is found before writing."""
        return open_images(path, resize=self.resize, grey=self.grey, strict=strict, thorough=True, progress=progress)

    def save(self, path: str | Path) -> None:
        """Write `config.json`, `model.safetensors`, `card.json`, `card.md` into the folder `path`; keep it inside."""
        config, tensors = self.hider.parts()
        head = {"secret": self.secret, "resize": self.resize and list(self.resize), "grey": self.grey}
        write_bundle(Path(path), {**head, **config}, tensors, form=FORMAT, beside=self.hider.card.files())

    @classmethod
    def load(cls, path: str | Path) -> FolderPlan:
        """Read a plan back from the folder `path`."""
        config, tensors = read_bundle(Path(path), form=FORMAT)
        hider = ImageHider.from_parts(config, tensors, path)
        try:
            resize = config["resize"] and (int(config["resize"][0]), int(config["resize"][1]))
            if not isinstance(config["secret"], str) or not isinstance(config["grey"], bool):
                raise TypeError("secret, grey")
            return cls(hider, config["secret"], resize, config["grey"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise LowtideError(
                f"{path} lacks or garbles a part of a plan; make it again with `lowtide plan`"
            ) from error


def is_image_plan(path: Path) -> bool:
    """Whether the folder `path` holds a plan for images."""
    config = path / "config.json"
    return config.is_file() and f'"{FORMAT}"' in config.read_text(encoding="utf-8", errors="replace")[:200]
