"""Drawn faces: images whose every patch has an exact information density.

A face is one of finitely many looks plus independent pixel noise. The density of any set of patches
is then a finite sum over looks. The smile sits in the mouth and, weakly, in the eyes and the hair.

Small colour cartoon faces, drawn from signed distances in [-1, 1]^2 (x right, y down).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from lowtide.checks import LowtideError, count, within
from lowtide.features import patches
from lowtide.interface import Sample
from lowtide.types import Bools, Floats, Ints, Labels
from lowtide.worlds.base import FiniteWorld, draw_secrets

Pair = tuple[float, float]  # horizontal, vertical
Stroke = tuple[float, float, float]  # half length, sag of the middle, half width

CHOICES = {"skin": 3, "hair": 2, "tint": 3, "glasses": 2, "pose": 3, "eyes": 2, "mouth": 4}
LONG_HAIR = 1
SQUINTING = 1
BROAD_SMILE = 3

SKINS = np.array([(0.99, 0.85, 0.73), (0.87, 0.66, 0.48), (0.64, 0.43, 0.31)])
TINTS = np.array([(0.14, 0.11, 0.13), (0.43, 0.23, 0.11), (0.92, 0.74, 0.32)])
# factors that darken a skin or a tint
SHADE = np.array((0.91, 0.82, 0.77))
DEEP_SHADE = 0.70
BACKGROUND = (0.80, 0.89, 0.95)
SHIRT = (0.27, 0.56, 0.56)
WHITE = (1.0, 1.0, 1.0)
IRIS = (0.22, 0.38, 0.54)
PUPIL = (0.05, 0.05, 0.08)
LASH = (0.16, 0.09, 0.09)
FRAME = (0.12, 0.12, 0.30)
BLUSH = (0.95, 0.36, 0.34)
LIP = (0.34, 0.03, 0.07)
TONGUE = (0.76, 0.22, 0.25)

HEAD_CENTRE = (0.0, 0.02)
HEAD_RADII = (0.56, 0.70)
EAR_OFFSET = 0.55
EAR_Y = 0.06
EAR_RADII = (0.10, 0.14)
NECK_CENTRE = (0.0, 0.72)
NECK_HALF = (0.19, 0.20)
NECK_ROUND = 0.12
SHOULDER_CENTRE = (0.0, 1.16)
SHOULDER_RADII = (0.86, 0.42)
HAIR_CENTRE = (0.0, -0.12)
HAIR_RADII = (0.66, 0.76)
SIDEBURN_Y = -0.04
FALL_CENTRE = (0.0, 0.30)
FALL_HALF = (0.68, 0.56)
FALL_ROUND = 0.26
FALL_INSET = 0.05
FRINGE_CENTRE = (0.04, 0.22)
FRINGE_RADII = (0.53, 0.73)
# A turned head shifts its facial parts by TURN, the nearer ones more, the farther ones less.
TURN = 0.09
NOSE_LEAD = 1.4
FRINGE_LAG = 0.5
EAR_LAG = 0.3

# Pairs of eye, lid and cheek values are for open and squinting eyes.
EYE_OFFSET = 0.23
EYE_Y = -0.07
EYE_RADII = ((0.115, 0.125), (0.125, 0.065))
EYE_DISCS = ((0.0, 0.085, IRIS), (0.0, 0.05, PUPIL), (0.035, 0.03, WHITE))  # offset, radius
LIDS = ((-0.165, (0.115, -0.06, 0.022)), (-0.10, (0.13, -0.085, 0.024)))  # y, stroke
CHEEK_OFFSET = 0.35
CHEEK_RADIUS = 0.13
CHEEK_YS = (0.09, 0.07)
CHEEK_OPACITIES = (0.5, 0.9)
CREASE_Y = 0.03
CREASE = (0.10, 0.035, 0.013)
BROW_Y = -0.31
BROW = (0.12, -0.045, 0.026)
NOSE_Y = 0.16
NOSE = (0.055, 0.04, 0.022)
LENS_RADIUS = 0.185
FRAME_WIDTH = 0.02
LENS_OPACITY = 0.12
ARM_Y = -0.10

MOUTH_Y = 0.46
MOUTH_HALF = 0.21
MOUTH_WIDTH = 0.034
MOUTH_SAGS = (-0.15, 0.0, 0.15)  # frown, flat, slight smile
GRIN_RISE = 0.085
GRIN_RADII = (0.27, 0.23)
GRIN_RIM = 0.024
TEETH_DEPTH = 0.11
# Reach of all mouths: upwards, downwards, and sideways in any pose.
ARC_REACH = max(MOUTH_SAGS) / 2 + MOUTH_WIDTH
MOUTH_TOP = MOUTH_Y - max(ARC_REACH, GRIN_RISE + GRIN_RIM)
MOUTH_BOTTOM = MOUTH_Y + max(ARC_REACH, GRIN_RADII[1] - GRIN_RISE + GRIN_RIM)
MOUTH_ASIDE = TURN + max(MOUTH_HALF + MOUTH_WIDTH, GRIN_RADII[0] + GRIN_RIM)


@dataclass(frozen=True)
class Look:
    """One choice per trait, counted from 0; `CHOICES` holds how many there are of each."""

    skin: int  # light, medium, dark
    hair: int  # short, long
    tint: int  # dark, brown, blond
    glasses: int  # without, with
    pose: int  # turned left, centre, right
    eyes: int  # open, squinting with raised cheeks
    mouth: int  # frown, flat, slight smile, broad smile with teeth


class Canvas:
    """A image being painted, with the coordinates of its pixel centres.

    Faces share most of their outlines: one canvas, cleared for each, computes every distance once.
    """

    def __init__(self, size: int) -> None:
        self.pixel = 2.0 / size
        centres = (np.arange(size) + 0.5) * self.pixel - 1.0
        self.x, self.y = np.meshgrid(centres, centres)
        self.image: Floats = np.empty((size, size, 3))
        self._distances: dict[tuple[object, ...], Floats] = {}
        self.clear()

    def clear(self) -> None:
        """Paint all of it in the colour of the background."""
        self.image = np.full_like(self.image, BACKGROUND)

    def paint(self, distance: Floats, colour: ArrayLike, opacity: float | Floats = 1.0) -> None:
        """Fill where `distance` is negative, with an edge exactly one pixel soft."""
        alpha = opacity * np.clip(0.5 - distance / self.pixel, 0.0, 1.0)
        self.image += alpha[..., None] * (np.asarray(colour) - self.image)

    def fade(self, width: float) -> float:
        """Return an opacity that keeps details finer than a pixel from taking all of it."""
        return float(min(1.0, np.sqrt(2.0 * width / self.pixel)))

    def _once(self, shape: tuple[object, ...], distance: Callable[[], Floats]) -> Floats:
        if shape not in self._distances:
            self._distances[shape] = distance()
        return self._distances[shape]

    def ellipse(self, centre: Pair, radii: Pair) -> Floats:
        """Return the distance to an ellipse, to first order near its edge."""
        return self._once(("ellipse", centre, radii), lambda: self._to_ellipse(centre, radii))

    def _to_ellipse(self, centre: Pair, radii: Pair) -> Floats:
        u = (self.x - centre[0]) / radii[0]
        v = (self.y - centre[1]) / radii[1]
        # Both floors are needed: at the very centre the ratio would be 0 / 0.
        reach: Floats = np.maximum(np.hypot(u, v), 1e-9)
        slope: Floats = np.maximum(np.hypot(u / radii[0], v / radii[1]), 1e-9)
        return (reach - 1.0) * reach / slope

    def box(self, centre: Pair, half: Pair, rounding: float) -> Floats:
        """Return the distance to a box with rounded corners."""
        across = np.abs(self.x - centre[0]) - half[0] + rounding
        along = np.abs(self.y - centre[1]) - half[1] + rounding
        outside = np.hypot(np.maximum(across, 0.0), np.maximum(along, 0.0))
        distance: Floats = outside + np.minimum(np.maximum(across, along), 0.0) - rounding
        return distance

    def arc(self, centre: Pair, stroke: Stroke) -> Floats:
        """Return the distance to a circular arc with round ends."""
        return self._once(("arc", centre, stroke), lambda: self._to_arc(centre, stroke))

    def _to_arc(self, centre: Pair, stroke: Stroke) -> Floats:
        half, sag, width = stroke
        depth = max(abs(sag), 1e-6)  # a straight stroke is an arc of a huge circle
        radius = (half**2 + depth**2) / (2.0 * depth)
        x = np.abs(self.x - centre[0])
        y = (self.y - centre[1]) * (-1.0 if sag < 0.0 else 1.0) + depth / 2.0
        hub = y - depth + radius  # height seen from the circle's centre
        to_rim: Floats = np.abs(np.hypot(x, hub) - radius)
        to_end: Floats = np.hypot(x - half, y)
        return np.where(x * (radius - depth) <= hub * half, to_rim, to_end) - width


def draw_head(canvas: Canvas, look: Look, shift: float) -> None:
    """Paint shoulders, the hair behind the head, ears, neck and head."""
    skin = SKINS[look.skin]
    canvas.paint(canvas.ellipse(SHOULDER_CENTRE, SHOULDER_RADII), SHIRT)
    if look.hair == LONG_HAIR:
        fall = canvas.box(FALL_CENTRE, FALL_HALF, FALL_ROUND)
        # Inset, so that no dark rim shows around the strands in front.
        canvas.paint(fall + FALL_INSET, DEEP_SHADE * TINTS[look.tint])
    for x in (-EAR_OFFSET, EAR_OFFSET):
        canvas.paint(canvas.ellipse((x - EAR_LAG * shift, EAR_Y), EAR_RADII), SHADE * skin)
    canvas.paint(canvas.box(NECK_CENTRE, NECK_HALF, NECK_ROUND), SHADE * skin)
    canvas.paint(canvas.ellipse(HEAD_CENTRE, HEAD_RADII), skin)


def draw_hair(canvas: Canvas, look: Look, shift: float) -> None:
    """Paint the hair in front: a short cap, or strands falling at both sides."""
    outline = canvas.ellipse(HAIR_CENTRE, HAIR_RADII)
    if look.hair == LONG_HAIR:
        outline = np.minimum(outline, canvas.box(FALL_CENTRE, FALL_HALF, FALL_ROUND))
    else:
        outline = np.maximum(outline, canvas.y - SIDEBURN_Y)
    opening = (FRINGE_CENTRE[0] + FRINGE_LAG * shift, FRINGE_CENTRE[1])
    canvas.paint(np.maximum(outline, -canvas.ellipse(opening, FRINGE_RADII)), TINTS[look.tint])


def draw_eye(canvas: Canvas, look: Look, x: float) -> None:
    """Paint one eye with its lid and brow, and the crease a raised cheek makes."""
    ball = canvas.ellipse((x, EYE_Y), EYE_RADII[look.eyes])
    canvas.paint(ball, WHITE)
    for offset, radius, colour in EYE_DISCS:
        disc = canvas.ellipse((x + offset, EYE_Y - offset), (radius, radius))
        canvas.paint(np.maximum(disc, ball), colour, canvas.fade(radius) ** 2)
    strokes = [(*LIDS[look.eyes], LASH), (BROW_Y, BROW, DEEP_SHADE * TINTS[look.tint])]
    if look.eyes == SQUINTING:
        strokes += [(CREASE_Y, CREASE, DEEP_SHADE * SKINS[look.skin])]
    for y, stroke, ink in strokes:
        canvas.paint(canvas.arc((x, y), stroke), ink, canvas.fade(stroke[-1]))


def draw_glasses(canvas: Canvas, x: float) -> None:
    """Paint two round lenses about `x`, their bridge, and arms reaching to the ears."""
    frame = canvas.arc((x, ARM_Y), (EYE_OFFSET - LENS_RADIUS, 0.0, FRAME_WIDTH))
    for side in (-1, 1):
        lens = canvas.ellipse((x + side * EYE_OFFSET, EYE_Y), (LENS_RADIUS, LENS_RADIUS))
        canvas.paint(lens, WHITE, LENS_OPACITY)
        hinge = x + side * (EYE_OFFSET + LENS_RADIUS)
        ear = side * EAR_OFFSET
        arm = canvas.arc(((hinge + ear) / 2, ARM_Y), (abs(ear - hinge) / 2, 0.0, FRAME_WIDTH))
        frame = np.minimum(frame, np.minimum(np.abs(lens) - FRAME_WIDTH, arm))
    canvas.paint(frame, FRAME, canvas.fade(FRAME_WIDTH))


def draw_mouth(canvas: Canvas, mouth: int, x: float) -> None:
    """Paint the mouth about `x`; nothing it paints leaves `mouth_box`."""
    if mouth != BROAD_SMILE:
        canvas.paint(canvas.arc((x, MOUTH_Y), (MOUTH_HALF, MOUTH_SAGS[mouth], MOUTH_WIDTH)), LIP)
        return
    top = MOUTH_Y - GRIN_RISE
    grin = np.maximum(top - canvas.y, canvas.ellipse((x, top), GRIN_RADII))
    canvas.paint(grin - GRIN_RIM, LIP)
    canvas.paint(grin, TONGUE)
    canvas.paint(np.maximum(canvas.y - top - TEETH_DEPTH, grin), WHITE)


def mouth_box(size: int) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right), ends exclusive, around every mouth in every pose."""
    # A one-pixel edge reaches exactly the pixels that the shape's extent meets.
    top, left = np.floor((np.array([MOUTH_TOP, -MOUTH_ASIDE]) + 1.0) * size / 2.0)
    bottom, right = np.ceil((np.array([MOUTH_BOTTOM, MOUTH_ASIDE]) + 1.0) * size / 2.0)
    return int(top), int(left), int(bottom), int(right)


def draw(look: Look, canvas: Canvas) -> Floats:
    """Return the face of `look` as a (size, size, 3) image in [0, 1], drawn on a canvas of that
    size.
    """
    canvas.clear()
    shift = (look.pose - 1) * TURN
    draw_head(canvas, look, shift)
    for side in (-1, 1):
        cheek = (shift + side * CHEEK_OFFSET, CHEEK_YS[look.eyes])
        blush = canvas.ellipse(cheek, (CHEEK_RADIUS, CHEEK_RADIUS))
        # It fades to nothing at its rim, so it ends clear of the mouth from 16 pixels up.
        strength = CHEEK_OPACITIES[look.eyes] * np.clip(-blush / CHEEK_RADIUS, 0.0, 1.0)
        canvas.paint(blush, BLUSH, strength)
        draw_eye(canvas, look, shift + side * EYE_OFFSET)
    nose = canvas.arc((NOSE_LEAD * shift, NOSE_Y), NOSE)
    canvas.paint(nose, DEEP_SHADE * SKINS[look.skin], canvas.fade(NOSE[-1]))
    draw_mouth(canvas, look.mouth, shift)
    if look.glasses:
        draw_glasses(canvas, shift)
    draw_hair(canvas, look, shift)  # last, so that it lies over the arms of the glasses
    return np.clip(canvas.image, 0.0, 1.0)


LOOKS = tuple(Look(*choice) for choice in product(*map(range, CHOICES.values())))


@lru_cache(maxsize=2)  # sizes; large faces take some hundred megabytes
def drawn_looks(size: int) -> Floats:
    """(looks, columns) all faces without noise, not to be written to."""
    canvas = Canvas(size)
    found = np.stack([draw(look, canvas).ravel() for look in LOOKS])
    found.flags.writeable = False
    return found


# P(mouth | s): frown, flat, slight smile, broad smile. No mouth is impossible for anybody.
_MOUTHS = {
    2: ((0.40, 0.45, 0.12, 0.03), (0.03, 0.12, 0.40, 0.45)),
    3: ((0.70, 0.20, 0.07, 0.03), (0.15, 0.60, 0.20, 0.05), (0.03, 0.07, 0.40, 0.50)),
}
_SQUINT = {2: (0.35, 0.65), 3: (0.30, 0.35, 0.65)}
_LONG_HAIR = {2: (0.46, 0.54), 3: (0.45, 0.50, 0.55)}
_CHUNK = 32


class DrawnFaces(FiniteWorld[Floats]):
    """Faces of size × size pixels in colour; a row of x holds the pixels row by row, channels side
    by side.

    Attributes:
        size: height and width in pixels.
        noise: standard deviation of the pixel noise.
        looks: the traits of every possible face.
        drawn: (looks, columns) the faces without noise.
    """

    def __init__(self, size: int, classes: int, patch: int, noise: float) -> None:
        super().__init__(patches(size, size, patch), np.full(classes, 1.0 / classes))
        self.size = size
        self.noise = noise
        self.looks = list(LOOKS)
        self.drawn = drawn_looks(size)
        self._given_s = np.stack([_law_of_looks(self.looks, s, classes) for s in range(classes)])
        self._check_separation()

    def sample(self, n: int, seed: int) -> Sample[Floats, Labels]:
        """Draw n noisy faces, (n, size·size·3), and whether they smile."""
        rng = np.random.default_rng(seed)
        s = draw_secrets(self.prior, n, rng)
        cumulative = np.cumsum(self._given_s, axis=1)
        look = np.array(
            [
                np.searchsorted(cumulative[k], u * cumulative[k, -1])
                for k, u in zip(s, rng.random(n), strict=True)
            ]
        )
        return Sample(
            self.drawn[look] + self.noise * rng.standard_normal((n, self.drawn.shape[1])), s
        )

    def images(self, x: Floats) -> Floats:
        """Rows as images in [0, 1], (n, size, size, 3)."""
        return np.clip(self._rows(x), 0.0, 1.0).reshape(-1, self.size, self.size, 3)

    def hair(self, x: Floats) -> Labels:
        """The utility attribute of each row: short (0) or long (1) hair, read off the most likely
        look.
        """
        likeliest = self._fit(self._rows(x), slice(None)).argmax(axis=1)
        return np.array([self.looks[k].hair for k in likeliest], dtype=np.intp)

    def leaking_patches(self) -> Bools:
        """Which patches touch a mouth: where nearly all of the secret sits, (m,)."""
        top, left, bottom, right = mouth_box(self.size)
        inside = np.zeros((self.size, self.size, 3), dtype=bool)
        inside[top:bottom, left:right] = True
        return np.isin(np.arange(len(self.features)), self.features.groups[inside.ravel()])

    def information(self) -> float:
        """`I(S; X)` in nats: that of the look, which the noise is too weak to blur."""
        joint = self.prior[:, None] * self._given_s
        independent = np.outer(self.prior, joint.sum(axis=0))
        return float((xlogy(joint, joint) - xlogy(joint, independent)).sum())

    def _rows(self, x: Floats) -> Floats:
        return self._dense_rows(x)

    def _fit(self, x: Floats, columns: Ints | slice) -> Floats:
        """`log N(x_A; look_A, σ²)` up to a term without the look, (n, looks)."""
        faces = self.drawn[:, columns]
        return (x[:, columns] @ faces.T - 0.5 * (faces**2).sum(axis=1)) / self.noise**2

    def _patch_fits(self, x: Floats) -> list[Floats]:
        order = np.argsort(self.features.groups, kind="stable")
        ends = np.cumsum(np.bincount(self.features.groups))[:-1]
        return [self._fit(x, columns) for columns in np.split(order, ends)]

    def _mix(self, fits: Floats) -> Floats:
        """From `log p(x_A | look)` to `log p(x_A | s)`, (n, |S|)."""
        top = fits.max(axis=1, keepdims=True)
        return np.log(np.exp(fits - top) @ self._given_s.T) + top

    def _log_likelihood(self, x: Floats, mask: Bools) -> Floats:
        if mask.ndim == 1:
            return self._mix(self._fit(x, np.flatnonzero(self.features.columns(mask))))
        blocks = []
        for start in range(0, len(x), _CHUNK):
            fits = zip(
                mask[start : start + _CHUNK].T,
                self._patch_fits(x[start : start + _CHUNK]),
                strict=True,
            )
            blocks.append(self._mix(np.sum([seen[:, None] * fit for seen, fit in fits], axis=0)))
        return np.concatenate(blocks)

    def _prefix_log_likelihood(self, x: Floats) -> Floats:
        blocks = []
        for start in range(0, len(x), _CHUNK):
            rows = x[start : start + _CHUNK]
            total = np.zeros((len(rows), len(self.looks)))
            steps = [self._mix(total)]
            for fit in self._patch_fits(rows):
                total = total + fit
                steps.append(self._mix(total))
            blocks.append(np.stack(steps, axis=1))
        return np.concatenate(blocks)

    def _check_separation(self) -> None:
        """Refuse noise that would blur looks into each other: `information` would no longer be
        exact.
        """
        squares = (self.drawn**2).sum(axis=1)
        gaps = squares[:, None] + squares[None, :] - 2 * self.drawn @ self.drawn.T
        np.fill_diagonal(gaps, np.inf)
        closest = float(np.sqrt(max(gaps.min(), 0.0)))
        # Two looks 12 σ apart are confused with probability 1e-9.
        if closest < 12 * self.noise:
            raise LowtideError(
                f"noise {self.noise:g} blurs faces of {self.size} pixels into each other; "
                f"use at most {closest / 12:.3g}"
            )


def drawn_faces(
    size: int = 32, classes: int = 2, *, patch: int = 4, noise: float | None = None
) -> DrawnFaces:
    """Faces that smile or not.

    Args:
        size: height and width in pixels, 16 to 128.
        classes: 2 (neutral, smiling) or 3 (sad, neutral, smiling).
        patch: a feature is a patch of patch × patch pixels.
        noise: standard deviation of the pixel noise; by default 0.03, or 0.015 below 32 pixels.
    """
    count("size", size, 16, 128)
    count("classes", classes, 2, max(_MOUTHS))
    default = 0.03 if size >= 32 else 0.015
    sigma = float(within("noise", default if noise is None else noise, 0.0, 1.0, low_open=True))
    return DrawnFaces(size, classes, patch, sigma)


def _law_of_looks(looks: list[Look], s: int, classes: int) -> Floats:
    """P(look | s): mouth, eyes and hair depend on s, the rest is uniform."""
    law = np.array(
        [
            _MOUTHS[classes][s][look.mouth]
            * (_SQUINT[classes][s] if look.eyes else 1 - _SQUINT[classes][s])
            * (_LONG_HAIR[classes][s] if look.hair else 1 - _LONG_HAIR[classes][s])
            for look in looks
        ]
    )
    return law / law.sum()
