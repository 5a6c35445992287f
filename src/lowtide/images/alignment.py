"""Masks that follow the face: boxes or landmarks say where the frame of a plan lies in every image.

A plan is made in one frame, in which faces lie alike: an image is moved and scaled, and with
landmarks turned, so that its box or its landmarks come to lie where they do in most images. What
the plan hides is put back the same way. Boxes and landmarks are columns beside the images, or what
a function of the user finds in them; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.errors import LowtideError
from lowtide.images.encoder import Images
from lowtide.images.folder import ImageFolder
from lowtide.images.native import Frame, shrunk
from lowtide.types import Floats, Ints, Pixels

Detector = Callable[[Pixels], Any]
"""From an image (height, width, channels) to its box (x, y, width, height) or its landmarks (k, 2),
in pixels.
"""

BOX = "box"
LANDMARKS = "landmarks"
DETECTOR = "detector"
_SIDES = ("x", "y", "w", "h")
_FEWEST = 2  # landmarks that say where a face is, how large, and how it is turned
_MOST_WARPED = 8.0  # times as large or as small as in most images: beyond, a box is a mistake
ALIGNED = (
    "What is hidden follows a box or landmarks of every image, and attackers looked at images that"
    " were moved alike. Where a mask lies can tell something by itself, and what lies beyond the"
    " frame nobody has judged: an audit looks at the images as they are released."
)


@dataclass(frozen=True, eq=False)
class Alignment:
    """Where the frame of a plan lies, by points that images have in common.

    Attributes:
        by: `box`, `landmarks` or `detector`.
        reference: (k, 2) x and y of the points in the frame, in pixels; of a box two corners.
        upright: whether images are moved and scaled only, each side by itself, as boxes are;
            otherwise turned as well.
    """

    by: str
    reference: Floats
    upright: bool

    @classmethod
    def of(cls, folder: ImageFolder, align: str | Detector) -> tuple[Alignment, list[Frame]]:
        """The alignment of most images of a folder, and the frame of each; the frame has the
        folder's size.
        """
        points, upright = find_points(folder, align)
        scale = np.array(folder.shape[1::-1]) / folder.sizes
        by = DETECTOR if callable(align) else align
        found = cls(by, np.median(points * scale[:, None], axis=0), upright)
        return found, found._frames(points, folder)

    def frames(self, folder: ImageFolder, align: str | Detector | None) -> list[Frame]:
        """The frame of every image of a folder; `align` is the detector, where the plan was made
        with one.
        """
        given = DETECTOR if callable(align) else align
        if given not in (None, self.by) or (self.by == DETECTOR and given is None):
            raise LowtideError(
                f"the plan was aligned by {self.by}, got {given or 'nothing'}; "
                + (
                    "give the same detector, align=function"
                    if self.by == DETECTOR
                    else "leave align out"
                )
            )
        points, upright = find_points(folder, align if callable(align) else self.by)
        if points.shape[1] != len(self.reference) or upright != self.upright:
            raise LowtideError(
                f"the plan was aligned by {len(self.reference)} points of an image, and here are"
                f" {points.shape[1]}; give the same ones"
            )
        return self._frames(points, folder)

    def _frames(self, points: Floats, folder: ImageFolder) -> list[Frame]:
        warp = _box_matrix if self.upright else _similarity
        matrices = np.stack([warp(own, self.reference) for own in points])
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.sqrt(np.abs(np.linalg.det(matrices[:, :, :2])))
            usual = scale / np.median(scale)
        refuse_rows(
            ~np.isfinite(scale) | (usual > _MOST_WARPED) | (usual < 1 / _MOST_WARPED),
            f"a {self.by} that is {_MOST_WARPED:g} times smaller or larger than usual",
        )
        shape = folder.shape[:2]
        return [
            Frame((w, h), shape, matrix)
            for (w, h), matrix in zip(folder.sizes.tolist(), matrices, strict=True)
        ]

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"by": self.by, "reference": self.reference.tolist(), "upright": self.upright}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Alignment:
        """Read back what `to_config` wrote."""
        reference = np.asarray(config["reference"], dtype=np.float64)
        by = config["by"]
        upright = config["upright"]
        known = by in (BOX, LANDMARKS, DETECTOR) and isinstance(upright, bool)
        if (
            not known
            or reference.ndim != 2
            or reference.shape[1] != 2
            or not np.isfinite(reference).all()
        ):
            raise LowtideError("the alignment of the plan is garbled; make the plan again")
        return cls(by, reference, upright)


@dataclass(frozen=True, eq=False)
class AlignedImages:
    """Images moved so that what they show lies alike; themselves `Images`.

    Attributes:
        folder: the images.
        frames: (n,) where the frame lies in each.
    """

    folder: ImageFolder
    frames: Sequence[Frame]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.folder.shape

    def __len__(self) -> int:
        return len(self.folder)

    def read(self, index: Ints) -> Pixels:
        """Some images, in the frame."""
        rows = np.arange(len(self))[np.asarray(index)]
        return shrunk(self.folder.native(rows), [self.frames[row] for row in rows])


def aligned(folder: ImageFolder, frames: Sequence[Frame] | None) -> Images:
    """Images in their frame; as they are where there is none."""
    return folder if frames is None else AlignedImages(folder, frames)


def find_points(folder: ImageFolder, align: str | Detector) -> tuple[Floats, bool]:
    """(n, k, 2) the points of every image in its own pixels, and whether they are corners of a
    box.
    """
    if callable(align):
        points, upright = _detected(folder, align)
    elif align == BOX:
        x, y, w, h = (_numbers(folder, name, BOX) for name in _SIDES)
        points = np.stack([np.stack([x, y], 1), np.stack([x + w, y + h], 1)], axis=1)
        upright = True
    elif align == LANDMARKS:
        stems = [
            name[:-2]
            for name in folder.columns
            if name.endswith("_x") and f"{name[:-2]}_y" in folder.columns
        ]
        if len(stems) < _FEWEST:
            raise LowtideError(
                f"align='landmarks' needs at least {_FEWEST} pairs of columns such as left_eye_x"
                f" and left_eye_y, and {folder.path} has {len(stems)}; add them to metadata.csv"
            )
        pairs = [[_numbers(folder, f"{stem}_{side}", LANDMARKS) for side in "xy"] for stem in stems]
        points = np.array(pairs).transpose(2, 0, 1)
        upright = False
    else:
        raise LowtideError(
            f"align must be 'box', 'landmarks' or a function, got {align!r}; or leave it out"
        )
    _check_points(points, folder.sizes, upright)
    return points, upright


def _detected(folder: ImageFolder, detect: Detector) -> tuple[Floats, bool]:
    """What a function of the user finds in every image."""
    found = []
    for row in range(len(folder)):
        answer = np.asarray(detect(folder.native(np.array([row]))[0]), dtype=np.float64)
        if answer.shape == (4,):
            answer = np.stack([answer[:2], answer[:2] + answer[2:]])
            upright = True
        elif answer.ndim == 2 and answer.shape[1] == 2 and len(answer) >= _FEWEST:
            upright = False
        else:
            raise LowtideError(
                "the detector must answer (x, y, width, height) or (k, 2) landmarks, got shape"
                f" {answer.shape}; correct it"
            )
        found.append((answer, upright))
    if len({(answer.shape, upright) for answer, upright in found}) > 1:
        raise LowtideError(
            "the detector must answer alike for every image: a box, or as many landmarks;"
            " correct it"
        )
    return np.stack([answer for answer, _ in found]), found[0][1]


def _numbers(folder: ImageFolder, name: str, what: str) -> Floats:
    """(n,) a column of numbers; NaN where one is missing."""
    if name not in folder.columns:
        raise LowtideError(
            f"align={what!r} needs the column {name!r}, and {folder.path} has"
            f" {', '.join(folder.columns) or 'none'}; add it to metadata.csv, in pixels of the"
            " upright image"
        )
    try:
        return np.array(
            [np.nan if value is None else float(value) for value in folder.column(name).tolist()]
        )
    except (TypeError, ValueError):
        raise LowtideError(
            f"the column {name!r} must hold numbers, to align by; correct it"
        ) from None


def _check_points(points: Floats, sizes: Ints, upright: bool) -> None:
    what = "box" if upright else "landmarks"
    refuse_rows(~np.isfinite(points).all(axis=(1, 2)), f"no {what}")
    if upright:
        refuse_rows((points[:, 1] <= points[:, 0]).any(axis=1), "a box without width or height")
    centre = points.mean(axis=1)
    refuse_rows(
        (centre < 0).any(axis=1) | (centre > sizes).any(axis=1), f"{what} outside of the image"
    )


def refuse_rows(wrong: Any, what: str) -> None:
    """Refuse images that have something; they are counted, not named, since names may tell the
    secret.
    """
    if wrong.any():
        raise LowtideError(
            f"{int(wrong.sum())} of {len(wrong)} images have {what}; correct their rows, or leave"
            " these images out"
        )


def _box_matrix(points: Floats, reference: Floats) -> Floats:
    """(2, 3) the map that moves and scales two corners to where they are to lie."""
    scale = (reference[1] - reference[0]) / (points[1] - points[0])
    move = reference[0] - scale * points[0]
    return np.array([[scale[0], 0.0, move[0]], [0.0, scale[1], move[1]]])


def _similarity(points: Floats, reference: Floats) -> Floats:
    """(2, 3) the map that moves, turns and scales points so that they lie nearest to where they are
    to lie.
    """
    z = points @ (1, 1j)
    target = reference @ (1, 1j)
    centred = z - z.mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = (centred.conj() @ (target - target.mean())) / (centred.conj() @ centred)
    move = target.mean() - turn * z.mean()
    return np.array([[turn.real, -turn.imag, move.real], [turn.imag, turn.real, move.imag]])
