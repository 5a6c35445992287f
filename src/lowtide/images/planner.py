"""Images for the Obfuscator: reference images laid out, a policy for them, and what may be promised of it.

The frozen result for images: what to hide and how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from lowtide.checks import LowtideError, count
from lowtide.disclose.budget import Hider, reading
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import Certificate, certify_fixed, certify_paper, certify_sequential
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise, row_ids
from lowtide.disclose.rehearsal import Check, Goal, Rehearsal, Task, Tick, read_secret, read_utility, refuse_few
from lowtide.images.encoder import Grid, Images, as_images
from lowtide.images.fitting import fit_images
from lowtide.images.mechanism import (
    FixedPatches,
    ImageMechanism,
    PaperPatches,
    PatchPolicy,
    Released,
    all_flags,
    read_threshold,
)
from lowtide.images.problem import CHECKERS, ImageProblem, SequentialPatches, make_plan, make_sequential
from lowtide.labels import Classes
from lowtide.splits import stream
from lowtide.types import Bools, Labels

Config = Mapping[str, Any]
Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class ImageHider(Hider):
    """Hides in images what a policy says, by a mechanism.

    Attributes:
        policy: what to hide.
        mechanism: how it is disclosed.
        card: what is known of the release it was rehearsed with.
    """

    kind: ClassVar[str] = "images"
    policy: PatchPolicy
    mechanism: ImageMechanism
    card: ReleaseCard

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the patches."""
        return self.mechanism.grid.features.names

    def transform(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> Any:
        """Hide in images: an array gives an array of the same shape, `Images` give `Images` that hide when read.

        Args:
            x: bytes (n, height, width) or (n, height, width, channels), or `Images`.
            noise: where noise is drawn from, if the mechanism draws any.
            ids: one value per image that stays with it, which noise is keyed by besides what the image shows.
        """
        opened = self.read(x)
        numbers = None if ids is None else row_ids(ids, len(opened))
        if self.mechanism.draws and noise is None:
            raise LowtideError("hidden patches need noise; give noise=KeyedNoise(key), with a key from new_key()")
        release = Released(opened, self.policy, self.mechanism, noise, numbers)
        if isinstance(x, np.ndarray):
            return release.read(np.arange(len(opened))).reshape(x.shape)
        return release

    def flags(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> Bools:
        """What is hidden of each image, (n, m); noise does not matter."""
        return all_flags(self.read(x), self.policy)

    def read(self, images: Any) -> Images:
        """Images of the size that was fitted, or an error."""
        opened, grid = as_images(images), self.mechanism.grid
        if tuple(opened.shape) != (grid.height, grid.width, grid.channels):
            height, width, channels = opened.shape
            raise LowtideError(
                f"the plan is for images of {grid.width}×{grid.height} pixels and {grid.channels} channel(s), "
                f"got {width}×{height} and {channels}; resize them, or plan for that size"
            )
        return opened

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str | Path) -> ImageHider:
        """Rebuild what `parts` took apart; `where` it came from is for the error message."""
        with reading(where):
            mechanism = ImageMechanism.from_config(config["mechanism"])
            policy = _POLICIES[config["policy"]["name"]](config["policy"], tensors, mechanism, where)
            card = ReleaseCard.from_json(config["card"])
            if len(card.features) != len(mechanism.grid):
                raise LowtideError("the card is about other patches than the mechanism; make it again")
            return cls(policy, mechanism, card)


def _read_fixed(config: Config, tensors: Tensors, mechanism: ImageMechanism, where: Any) -> PatchPolicy:
    return FixedPatches.read(config, tensors, mechanism.grid)


def _read_sequential(config: Config, tensors: Tensors, mechanism: ImageMechanism, where: Any) -> PatchPolicy:
    return SequentialPatches(mechanism=mechanism, **read_threshold(config, tensors, mechanism.grid, where))


def _read_paper(config: Config, tensors: Tensors, mechanism: ImageMechanism, where: Any) -> PatchPolicy:
    return PaperPatches(**read_threshold(config, tensors, mechanism.grid, where))


_POLICIES = {"fixed": _read_fixed, "sequential": _read_sequential, "paper": _read_paper}


_PATCH = 8  # side in pixels
_NOISE = 1.0  # λ in units of the pixel range


@dataclass(frozen=True)
class ImageSettings:
    """What only the Obfuscator of images takes.

    Attributes:
        mirror: whether a mirrored image is as likely as the image, which gives planning twice the images and treats
            both sides alike; not where left and right mean something.
        attackers: names of the attackers that check the release; by default logistic regression on edges and a small
            network.
    """

    mirror: bool = True
    attackers: Sequence[str] = CHECKERS


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
        if groups is not None:
            raise LowtideError("groups are not kept apart when images are planned; leave groups out")
        images = as_images(x)
        classes, codes = read_secret(s, len(images), "images")
        refuse_few(codes, classes, "images")
        useful = _useful(utility, len(images))
        grid = Grid(*images.shape, _side(task.tide.features))
        keep, hide = read_patches("keep", task.keep, grid), read_patches("hide", task.hide, grid)
        if (keep & hide).any():
            raise LowtideError(f"{int((keep & hide).sum())} patch(es) cannot be both kept and hidden; choose")
        lam = _NOISE if task.mechanism == "gaussian" and task.lam is None else task.lam
        seed = count("random_state", task.seed, 0)
        key = stream(seed, "image rehearsal").generate_state(KEY_BYTES // 4).tobytes()
        problem = ImageProblem(
            images,
            codes,
            classes,
            ImageMechanism(grid, task.mechanism, lam),  # type: ignore[arg-type]
            keep,
            hide,
            KeyedNoise(key),
            mirror=task.settings.mirror,
            attackers=tuple(task.settings.attackers),
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

    def rehearse(self, goal: Goal | None, tick: Tick) -> Rehearsal:
        """Plan, and attack a rehearsal of the release."""
        plan = {"fixed": self._fixed, "sequential": self._sequential, "paper": self._paper}[self.task.policy]
        return plan(goal, tick)

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
        return self._rehearsal(policy, check, certificate)

    def _sequential(self, goal: Goal | None, tick: Tick) -> Rehearsal:
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

    def _paper(self, goal: Goal | None, tick: Tick) -> Rehearsal:
        problem, mechanism = self.problem, self.problem.mechanism
        # As the paper does, all images are used; the rule promises nothing anyway.
        density = fit_images(problem.images, problem.codes, self._options())
        policy = PaperPatches(density, self.task.threshold, problem.keep, problem.hide)
        # Pixels lie in [0, 1], where radius and diameter are both √(pixels · channels).
        radii = np.sqrt(mechanism.grid.sizes * mechanism.grid.channels)
        n, scale = len(problem.codes), mechanism.lam or np.inf
        certificate = certify_paper(policy.epsilon, self.classes.prior, radii=radii, scale=scale, rows=n)
        return self._rehearsal(policy, problem.check(policy), certificate)

    def _options(self) -> Any:
        """How networks are fitted, with the side of the patches."""
        return self.task.tide.set_params(features=self.problem.mechanism.grid.patch)._options()

    def _rehearsal(self, policy: PatchPolicy, check: Check, certificate: Certificate) -> Rehearsal:
        """What the card says of the rehearsed release of the reference images."""
        problem, grid = self.problem, self.problem.mechanism.grid
        flags = all_flags(problem.images, policy)
        hidden = flags.mean(axis=0)
        return Rehearsal(
            policy,
            problem.mechanism,
            check,
            certificate,
            features=tuple(Feature(*pair) for pair in zip(grid.features.names, hidden.tolist(), strict=True)),
            rows=len(flags),
            changed=float(hidden @ grid.sizes / grid.sizes.sum()),
            described=self.task.mechanism,
            parameters={
                "patch": grid.patch,
                "size": (grid.width, grid.height),
                "lam": problem.mechanism.lam,
                "keep": np.flatnonzero(problem.keep).tolist(),
                "hide": np.flatnonzero(problem.hide).tolist(),
            },
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
    if task.policy == "sequential" and task.mechanism != "redact":
        raise LowtideError("policy='sequential' redacts patches of images; use mechanism='redact', or 'fixed'")


def _side(features: Any) -> int:
    """The side of a patch, from the features of an estimator."""
    if features is None:
        return _PATCH
    if not isinstance(features, (int, np.integer)) or isinstance(features, bool):
        raise LowtideError(
            f"the features of images are the side of their patches in pixels, such as 8; got {type(features).__name__}"
        )
    return count("the side of a patch", int(features), 1)


def read_patches(name: str, patches: Any, grid: Grid) -> Bools:
    """The mask (m,) of patches given by their numbers, as a mask, or as boxes `"x,y,w,h"` in pixels.

    Args:
        name: what the caller calls them, such as "keep".
        patches: numbers, row by row from the upper left; booleans (m,); texts, each a number or a box; or one text.
        grid: the patches there are.
    """
    m = len(grid)
    given = [patches] if isinstance(patches, str) else patches
    if any(isinstance(one, str) for one in given):
        masks = [_box(name, one, grid) if isinstance(one, str) else read_patches(name, [one], grid) for one in given]
        return np.any(masks, axis=0)
    array = np.asarray(given)
    if array.dtype == np.bool_:
        if array.shape != (m,):
            raise LowtideError(f"{name} is a mask of shape {array.shape}; there are {m} patches, give ({m},)")
        return np.array(array)
    mask = np.zeros(m, dtype=bool)
    if array.size == 0:
        return mask
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise LowtideError(f"{name} must hold numbers of patches or be a mask, got {array.dtype} {array.shape}")
    if array.min() < 0 or array.max() >= m:
        raise LowtideError(f"{name} must hold numbers of patches from 0 to {m - 1}, row by row from the upper left")
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
        raise LowtideError(f'{name} must hold numbers of patches or boxes "x,y,w,h" in pixels, got {text!r}')
    x, y, width, height = numbers
    if x + width > grid.width or y + height > grid.height:
        raise LowtideError(f"the box {text!r} of {name} reaches beyond the images of {grid.width}×{grid.height} pixels")
    touched = np.zeros((grid.down, grid.across), dtype=bool)
    side = grid.patch
    touched[y // side : (y + height - 1) // side + 1, x // side : (x + width - 1) // side + 1] = True
    return touched.ravel()
