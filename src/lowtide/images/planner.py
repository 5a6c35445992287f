"""Images for the Obfuscator: reference images laid out, a policy for them, and what may be promised
of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from lowtide.checks import LowtideError, count, one_of
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import (
    Certificate,
    certify_fixed,
    certify_paper,
    certify_sequential,
)
from lowtide.disclose.check import Check
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise
from lowtide.disclose.raw_past import RawPast
from lowtide.disclose.rehearsal import (
    Goal,
    Rehearsal,
    Task,
    Tick,
    read_secret,
    read_utility,
    refuse_few,
)
from lowtide.extras import need_torch
from lowtide.images.alignment import ALIGNED
from lowtide.images.encoder import Grid, as_images
from lowtide.images.filling import FILLED_IN, LENT
from lowtide.images.hider import ImageHider
from lowtide.images.inpainting import FILLS
from lowtide.images.mechanism import (
    GREY,
    REDRAW,
    FixedPatches,
    ImageMechanism,
    PatchPolicy,
    all_flags,
)
from lowtide.images.options import ImageOptions
from lowtide.images.problem import ImageProblem, make_plan, make_sequential
from lowtide.images.redraw_planning import certify_region, rehearse_region
from lowtide.labels import Classes
from lowtide.splits import stream
from lowtide.types import Bools, Labels

if TYPE_CHECKING:
    pass

_PATCH = 8  # side in pixels
_NOISE = 1.0  # λ in units of the pixel range
_GREY = "grey"
_PAINTED: dict[str | None, int] = {None: GREY, _GREY: GREY}  # the fills that are a byte


@dataclass(frozen=True)
class ImageSettings:
    """What only the Obfuscator of images takes.

    Attributes:
        mirror: whether a mirrored image is as likely as the image, which gives planning twice the
            images and treats both sides alike; not where left and right mean something.
        attackers: names of the attackers that check the release; by default logistic regression on
            edges and a small network steer the search, and all that an audit runs but the paper's
            network check its end.
        region: the share of the pixels that `redraw` keeps or replaces as one region.
        fill: what `fixed` hides is painted `grey`, as by default; or in the `mean` colour of what
            the image shows, with a `blur` of what lies around, or smoothly from its border
            (`inpaint`), all of which depend on nothing but what is shown; or `redraw` fills it in
            by the details of images with a like visible part.
        resize: the size in which images are looked at, where they are released at their own: the
            card says so.
        align: what masks follow, where they follow the face: the card says so.
    """

    mirror: bool = True
    attackers: Sequence[str] | None = None
    region: float = ImageOptions.region
    fill: str | None = None
    resize: str | None = None
    align: Any = None


@dataclass(frozen=True, eq=False)
class ImagePlanner:
    """Reference images laid out for a task; see `disclose.rehearsal.Planner`.

    Attributes:
        task: what was asked for.
        problem: the images, patches and mechanism.
    """

    task: Task
    problem: ImageProblem

    @classmethod
    def read(
        cls,
        x: Any,
        s: ArrayLike,
        task: Task,
        *,
        groups: ArrayLike | None = None,
        utility: ArrayLike | str | None = None,
    ) -> ImagePlanner:
        """Check what was given and lay it out.

        Args:
            x: `Images`, or bytes (n, height, width) or (n, height, width, channels).
            s: (n,) the secret of every image.
            task: what was asked for.
            groups: must be `None`.
            utility: (n,) what the release should still tell.
        """
        _check_task(task)
        need_torch("a plan of images")
        if groups is not None:
            raise LowtideError(
                "groups are not kept apart when images are planned; leave groups out"
            )
        images = as_images(x)
        classes, codes = read_secret(s, len(images), "images")
        refuse_few(codes, classes, "images")
        useful = _useful(utility, len(images))
        grid = Grid(*images.shape, _side(task.tide.features))
        keep = read_patches("keep", task.keep, grid)
        hide = read_patches("hide", task.hide, grid)
        if (keep & hide).any():
            raise LowtideError(
                f"{int((keep & hide).sum())} patch(es) cannot be both kept and hidden; choose"
            )
        lam = _NOISE if task.mechanism == "gaussian" and task.lam is None else task.lam
        seed = count("random_state", task.seed, 0)
        key = stream(seed, "image rehearsal").generate_state(KEY_BYTES // 4).tobytes()
        fill = _PAINTED.get(task.settings.fill, task.settings.fill)
        mechanism = ImageMechanism(grid, task.mechanism, lam, fill)  # type: ignore[arg-type]
        problem = ImageProblem(
            images,
            codes,
            classes,
            mechanism,
            keep,
            hide,
            KeyedNoise(key),
            mirror=task.settings.mirror,
            attackers=None if task.settings.attackers is None else tuple(task.settings.attackers),
            seed=seed,
            utility=useful,
        )
        return cls(task, problem)

    @property
    def classes(self) -> Classes:
        """The values of the secret and their prior."""
        return self.problem.classes

    @property
    def width(self) -> int:
        """How many numbers an image holds."""
        return len(self.problem.mechanism.grid.features.groups)

    @property
    def names(self) -> tuple[str, ...]:
        """Pixels have no names."""
        return ()

    @property
    def judging(self) -> Bools:
        """(n,) the images that judge the release."""
        return self.problem.judged

    @property
    def judges(self) -> int:
        """How many they are."""
        return int(self.judging.sum())

    def rehearse(self, goal: Goal | None, tick: Tick) -> Rehearsal:
        """Plan, and attack a rehearsal of the release."""
        ways = {"fixed": self._fixed, "redraw": self._redraw, "sequential": self._sequential}
        return ways[self.task.policy](goal, tick)

    def hider(self, rehearsal: Rehearsal, card: ReleaseCard) -> ImageHider:
        """The frozen result."""
        return ImageHider(rehearsal.policy, rehearsal.mechanism, card)

    def _fixed(self, goal: Goal | None, tick: Tick) -> Rehearsal:
        policy, check = make_plan(self.problem, goal=goal, kept=self.task.kept, tick=tick)
        ratios = self.problem.mechanism.ratios()
        n = len(self.problem.codes)
        certificate = certify_fixed(
            self.task.stated_at, self.classes.prior, ratios=ratios, hidden=policy.hidden, rows=n
        )
        if self.task.settings.fill in FILLS:
            certificate = replace(certificate, statements=(*certificate.statements, FILLED_IN))
        if self.task.settings.fill == REDRAW:
            certificate = replace(certificate, statements=(*certificate.statements, LENT))
        return self._rehearsal(policy, check, certificate)

    def _judged_small(self, certificate: Certificate) -> Certificate:
        """The same, with a word on images that are released larger than they were looked at."""
        grid = self.problem.mechanism.grid
        settings = self.task.settings
        said = [] if settings.resize is None else [judged_small(grid.width, grid.height)]
        said += [] if settings.align is None else [ALIGNED]
        return (
            replace(certificate, statements=(*certificate.statements, *said))
            if said
            else certificate
        )

    def _redraw(self, goal: Goal | None, tick: Tick) -> Rehearsal:
        problem = self.problem
        grid = self.problem.mechanism.grid
        found = rehearse_region(problem, self.task, tick)
        shares = found.changed * found.policy.region.patches(grid)
        return Rehearsal(
            found.policy,
            problem.mechanism,
            found.check,
            self._judged_small(certify_region(found, problem, self.task)),
            features=tuple(
                Feature(*pair) for pair in zip(grid.features.names, shares.tolist(), strict=True)
            ),
            rows=found.rows,
            changed=found.pixels,
            described="redraw",
            parameters={
                "row budget, nats": self.task.row_budget,
                "region, share of the pixels": round(found.policy.region.share, 4),
                "images as they were": round(1 - found.changed, 4),
                "passes": len(found.policy.passes),
                **self._asked(),
            },
        )

    def _sequential(self, goal: Goal | None, tick: Tick) -> Rehearsal:
        if self.task.past == "raw":
            return self._raw_past()
        policy, check = make_sequential(
            self.problem,
            self._options(),
            epsilon=self.task.threshold,
            goal=goal,
            tick=tick,
        )
        certificate = certify_sequential(
            policy.epsilon,
            self.classes.prior,
            features=len(self.problem.mechanism.grid),
            kept=bool(self.problem.keep.any()),
            rows=len(self.problem.codes),
        )
        return self._rehearsal(policy, check, certificate)

    def _raw_past(self) -> Rehearsal:
        from lowtide.images.fitting import fit_images

        problem = self.problem
        mechanism = self.problem.mechanism
        # As the paper does, all images are used; the rule promises nothing anyway.
        density = fit_images(problem.images, problem.codes, self._options())
        policy = RawPast(density, self.task.threshold, problem.keep, problem.hide)
        # Pixels lie in [0, 1], where radius and diameter are both √(pixels · channels).
        radii = np.sqrt(mechanism.grid.sizes * mechanism.grid.channels)
        n = len(problem.codes)
        scale = mechanism.lam or np.inf
        certificate = certify_paper(
            policy.epsilon, self.classes.prior, radii=radii, scale=scale, rows=n
        )
        return self._rehearsal(policy, problem.check(policy), certificate)

    def _options(self) -> Any:
        """How networks are fitted, with the side of the patches."""
        return self.task.tide.set_params(features=self.problem.mechanism.grid.patch)._options()

    def _rehearsal(self, policy: PatchPolicy, check: Check, certificate: Certificate) -> Rehearsal:
        """What the card says of the rehearsed release of the reference images."""
        problem = self.problem
        grid = self.problem.mechanism.grid
        flags = all_flags(problem.images, policy)
        hidden = flags.mean(axis=0)
        filled = {} if self.task.settings.fill is None else {"fill": self.task.settings.fill}
        if isinstance(policy, FixedPatches):
            filled["shape"] = policy.shape
        return Rehearsal(
            policy,
            problem.mechanism,
            check,
            self._judged_small(certificate),
            features=tuple(
                Feature(*pair) for pair in zip(grid.features.names, hidden.tolist(), strict=True)
            ),
            rows=len(flags),
            changed=float(hidden @ grid.sizes / grid.sizes.sum()),
            described=self.task.mechanism,
            parameters={"lam": problem.mechanism.lam, **self._asked(), **filled},
        )

    def _asked(self) -> dict[str, Any]:
        """What the card says of the options of every policy."""
        problem = self.problem
        grid = self.problem.mechanism.grid
        return {
            "patch": grid.patch,
            "size": (grid.width, grid.height),
            "keep": np.flatnonzero(problem.keep).tolist(),
            "hide": np.flatnonzero(problem.hide).tolist(),
        }


def judged_small(width: int, height: int) -> str:
    """What a person must know who releases images that were looked at in another size."""
    return (
        f"Attackers looked at {width}x{height} pixels, and images are released at their own sizes:"
        " what is hidden is hidden there, too, but what finer detail of the shown part tells,"
        " nobody has judged. An audit with a larger --resize looks closer."
    )


def _useful(utility: ArrayLike | None, n: int) -> Labels | None:
    """The classes (n,) of what the release should still tell; `None` when nothing is named."""
    if utility is None:
        return None
    classes, codes = read_utility(utility, n, "images")
    refuse_few(codes, classes, "images", "utility")
    return codes


def _check_task(task: Task) -> None:
    if task.delta is not None:
        raise LowtideError("noise on pixels is set by lam, not by a promise; leave delta out")
    if task.policy == "sequential" and task.past == "disclosed" and task.mechanism != "redact":
        raise LowtideError(
            "policy='sequential' redacts patches of images; use mechanism='redact', or 'fixed'"
        )
    if task.policy == "redraw" and task.mechanism != "redact":
        raise LowtideError(
            "policy='redraw' adds no noise to pixels; leave mechanism out, or use policy='fixed'"
        )
    if task.settings.align is not None and task.policy == "redraw":
        raise LowtideError(
            "policy='redraw' lends regions between images as they lie; leave align out, or use"
            " 'fixed'"
        )
    fill = task.settings.fill
    if fill is None:
        return
    one_of("fill", fill, (_GREY, *FILLS, REDRAW))
    if task.policy != "fixed" or task.mechanism != "redact":
        raise LowtideError(
            f"fill={fill!r} is for policy='fixed' with mechanism='redact'; leave fill out"
        )


def _side(features: Any) -> int:
    """The side of a patch, from the features of an estimator."""
    if features is None:
        return _PATCH
    if not isinstance(features, (int, np.integer)) or isinstance(features, bool):
        raise LowtideError(
            "the features of images are the side of their patches in pixels, such as 8; got"
            f" {type(features).__name__}"
        )
    return count("the side of a patch", int(features), 1)


def read_patches(name: str, patches: Any, grid: Grid) -> Bools:
    """The mask (m,) of patches given by their numbers, as a mask, or as boxes `"x,y,w,h"` in
    pixels.

    Args:
        name: what the caller calls them, such as "keep".
        patches: numbers, row by row from the upper left; booleans (m,); texts, each a number or a
            box; or one text.
        grid: the patches there are.
    """
    m = len(grid)
    given = [patches] if isinstance(patches, str) else patches
    if any(isinstance(one, str) for one in given):
        masks = [
            _box(name, one, grid) if isinstance(one, str) else read_patches(name, [one], grid)
            for one in given
        ]
        return np.any(masks, axis=0)
    array = np.asarray(given)
    if array.dtype == np.bool_:
        if array.shape != (m,):
            raise LowtideError(
                f"{name} is a mask of shape {array.shape}; there are {m} patches, give ({m},)"
            )
        return np.array(array)
    mask = np.zeros(m, dtype=bool)
    if array.size == 0:
        return mask
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise LowtideError(
            f"{name} must hold numbers of patches or be a mask, got {array.dtype} {array.shape}"
        )
    if array.min() < 0 or array.max() >= m:
        raise LowtideError(
            f"{name} must hold numbers of patches from 0 to {m - 1}, row by row from the upper left"
        )
    mask[array] = True
    return mask


def _box(name: str, text: str, grid: Grid) -> Bools:
    """The patches (m,) that a box `x,y,w,h` touches, or the one that a number names."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) == 1:
        return read_patches(name, numbers, grid)
    if len(numbers) != 4 or min(numbers[:2]) < 0 or min(numbers[2:]) < 1:
        raise LowtideError(
            f'{name} must hold numbers of patches or boxes "x,y,w,h" in pixels, got {text!r}'
        )
    x, y, width, height = numbers
    if x + width > grid.width or y + height > grid.height:
        raise LowtideError(
            f"the box {text!r} of {name} reaches beyond the images of {grid.width}×{grid.height}"
            " pixels"
        )
    touched = np.zeros((grid.down, grid.across), dtype=bool)
    side = grid.patch
    touched[y // side : (y + height - 1) // side + 1, x // side : (x + width - 1) // side + 1] = (
        True
    )
    return touched.ravel()
