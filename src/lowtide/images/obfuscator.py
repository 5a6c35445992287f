"""The obfuscator of images: learn from reference images which patches to hide, then hide them in any others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lowtide.density.tide import TIDE
from lowtide.disclose.agreeing import refuse_few
from lowtide.disclose.budget import Budget
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import Certificate, certify_disclosed, certify_paper, certify_plan
from lowtide.disclose.keys import open_noise
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise
from lowtide.errors import LowtideError, count, one_of, within
from lowtide.images.encoder import Grid, as_images
from lowtide.images.hider import ImageHider
from lowtide.images.mechanism import ImageMechanism
from lowtide.images.policies import FixedPatches, PaperPatches, PatchPolicy
from lowtide.images.problem import CHECKERS, ImageProblem, Tick, make_plan
from lowtide.images.released import all_flags
from lowtide.images.sequential import SequentialPatches, fit_density, make_sequential
from lowtide.labels import is_vector, read_classes
from lowtide.progress import progress_bar
from lowtide.tables.problem import Check
from lowtide.types import Bools

_BUDGET = 0.05  # nats
_PAPER_EPSILON = 0.5
_NOISE = 1.0
_STATED_AT = 0.1  # the ε of bounds, when none is given
_ROOM = 0x1D15C  # rehearsals share no random numbers with data drawn with the same seed
Patches = Sequence[int] | ArrayLike


class ImageObfuscator(BaseEstimator):  # type: ignore[misc]
    """Hide the patches of images that tell a secret, and only those.

    `fit(images, s)` learns from reference images which patches to hide, attacks a rehearsal of the release afresh, and
    writes the release card. `transform(images)` hides them; all other pixels stay as they are.

    Args:
        policy: `plan` hides the same patches in every image; `disclosed` goes through the patches of each image and
            redacts what tells too much given what the image has already disclosed; `paper` looks at the raw image, and
            is here to reproduce the paper.
        mechanism: what hiding does: `redact` paints a patch over, `gaussian` adds noise to its pixels. Noise on pixels
            is averaged away by whoever looks at many of them: redaction hides more.
        patch: the side of a patch in pixels.
        budget: how much the release may tell: nats, `Budget.bits(…)`, `Budget.accuracy(…)`, or a text such as `"65%"`.
            By default 0.05 nat, where a guess between two equally frequent classes is right about two times in three:
            secrets of faces are all over the face, and a much smaller budget hides nearly all of it.
        kept: the share of pixels to keep, instead of a budget.
        epsilon: for `paper` and `disclosed`, the largest density of a patch that is shown, 0.5 by default; also the ε
            at which bounds are stated.
        lam: the scale of the noise in units of the pixel range, 1 by default.
        keep: patches that must be shown: their numbers, row by row from the upper left, or a mask (m,).
        hide: patches that must be hidden, likewise.
        mirror: whether a mirrored image is as likely as the image, which gives planning twice the images and treats
            both sides alike; not where left and right mean something.
        steps: training steps of TIDE's networks, for `paper` and `disclosed`; by default enough for a few thousand
            images.
        attackers: names of the attackers that check the release; by default logistic regression on edges and a small
            network.
        key_file: where the key of the noise is kept, made when it does not exist; by default nowhere.
        progress: whether to draw progress bars; by default only on a terminal.
        random_state: the seed of everything but the noise of the release.

    Attributes:
        policy_: the fitted policy, a `FixedPatches`, a `SequentialPatches` or a `PaperPatches`.
        mechanism_: how hidden patches are disclosed.
        check_: what fresh attackers made of the rehearsal.
        leakage_: what the strongest of them learnt, with its interval.
        card_: the release card.
        hider_: all that `transform` needs but the key, frozen; `hider_.save(path)` keeps it.
    """

    def __init__(
        self,
        policy: Literal["plan", "disclosed", "paper"] = "plan",
        mechanism: Literal["redact", "gaussian"] = "redact",
        *,
        patch: int = 8,
        budget: Budget | float | str | None = None,
        kept: float | None = None,
        epsilon: float | None = None,
        lam: float | None = None,
        keep: Patches = (),
        hide: Patches = (),
        mirror: bool = True,
        steps: int | None = None,
        attackers: Sequence[str] | None = None,
        key_file: str | None = None,
        progress: bool | None = None,
        random_state: int = 0,
    ) -> None:
        self.policy = policy
        self.mechanism = mechanism
        self.patch = patch
        self.budget = budget
        self.kept = kept
        self.epsilon = epsilon
        self.lam = lam
        self.keep = keep
        self.hide = hide
        self.mirror = mirror
        self.steps = steps
        self.attackers = attackers
        self.key_file = key_file
        self.progress = progress
        self.random_state = random_state

    def fit(self, images: Any, s: ArrayLike | None = None) -> ImageObfuscator:
        """Learn which patches to hide.

        Args:
            images: `Images`, or bytes (n, height, width) or (n, height, width, channels).
            s: the secret of every image, finitely many values.
        """
        problem = self._read(images, s)
        with progress_bar("deciding what to hide", 100, self.progress) as tick:
            self.policy_, self.check_ = self._decide(problem, lambda done: tick(int(100 * done)))
        self.mechanism_, self.leakage_ = problem.mechanism, self.check_.leakage
        self._noise = open_noise(self.key_file) if problem.mechanism.draws else None
        self.card_ = self._card(problem, all_flags(problem.images, self.policy_))
        self.hider_ = ImageHider(self.policy_, self.mechanism_, self.card_)
        return self

    def transform(self, images: Any, *, ids: Any = None) -> Any:
        """Hide in images what the policy says: an array gives an array, `Images` give `Images`.

        Args:
            images: of the size of the reference images.
            ids: one value per image that stays with it; needed where noise is drawn, which is keyed by it.
        """
        check_is_fitted(self, "hider_")
        return self.hider_.transform(images, noise=self._noise, ids=ids)

    def flags(self, images: Any) -> Bools:
        """What is hidden of each image, (n, m)."""
        check_is_fitted(self, "hider_")
        return self.hider_.flags(images)

    def _read(self, images: Any, s: ArrayLike | None) -> ImageProblem:
        """Check what was given and lay it out."""
        one_of("policy", self.policy, ("plan", "disclosed", "paper"))
        one_of("mechanism", self.mechanism, ("redact", "gaussian"))
        self._check_limits()
        if s is None:
            raise LowtideError("ImageObfuscator needs the secret of every image: give s")
        opened = as_images(images)
        shape = np.asarray(s).shape
        if shape[:1] != (len(opened),):
            raise LowtideError(f"there are {len(images)} images and s has shape {shape}; they must match")
        if is_vector(s):
            raise LowtideError("the secret is a vector of numbers; hiding needs finitely many values: put it into bins")
        classes, codes = read_classes(s)
        refuse_few(codes, classes, "images")
        grid = Grid(*opened.shape, count("patch", self.patch, 1))
        keep, hide = numbered("keep", self.keep, len(grid)), numbered("hide", self.hide, len(grid))
        if (keep & hide).any():
            raise LowtideError(f"{int((keep & hide).sum())} patch(es) cannot be both kept and hidden; choose")
        lam = (_NOISE if self.lam is None else self.lam) if self.mechanism == "gaussian" else self.lam
        seed = count("random_state", self.random_state, 0)
        key = np.random.SeedSequence([seed, _ROOM]).generate_state(KEY_BYTES // 4).tobytes()
        return ImageProblem(
            opened,
            codes,
            classes,
            ImageMechanism(grid, self.mechanism, lam),
            keep,
            hide,
            KeyedNoise(key),
            mirror=self.mirror,
            attackers=CHECKERS if self.attackers is None else tuple(self.attackers),
            seed=seed,
        )

    def _check_limits(self) -> None:
        if self.epsilon is not None:
            within("epsilon", self.epsilon, 0.0, np.inf, high_open=True)
        if self.kept is not None:
            within("kept", self.kept, 0.0, 1.0)
        if self.policy == "paper" and (self.budget is not None or self.kept is not None):
            raise LowtideError("policy='paper' keeps neither a budget nor a share; leave them out, or use 'plan'")
        if self.policy == "disclosed" and (self.kept is not None or self.mechanism != "redact"):
            raise LowtideError("policy='disclosed' redacts, for a budget or an epsilon; leave kept out, or use 'plan'")
        if self.budget is not None and self.kept is not None:
            raise LowtideError("give a budget or the share of pixels to keep, not both: one follows from the other")

    def _decide(self, problem: ImageProblem, tick: Tick) -> tuple[PatchPolicy, Check]:
        grid = problem.mechanism.grid
        tide = TIDE(features=grid.patch, max_steps=self.steps, progress=self.progress, random_state=self.random_state)
        if self.policy == "paper":
            # As the paper does, all images are used; the rule promises nothing anyway.
            density = fit_density(tide, problem.images, problem.codes)
            policy = PaperPatches(density, self._threshold, problem.keep, problem.hide)
            return policy, problem.check(policy)
        budget = None if self.budget is None else Budget.read(self.budget)
        if budget is None and self.kept is None and (self.policy == "plan" or self.epsilon is None):
            budget = Budget(_BUDGET)
        if budget is not None:
            budget.check(problem.classes.prior)
        if self.policy == "disclosed":
            return make_sequential(problem, tide, epsilon=self._threshold, budget=budget, tick=tick)
        return make_plan(problem, budget=budget, kept=self.kept, tick=tick)

    @property
    def _threshold(self) -> float:
        return _PAPER_EPSILON if self.epsilon is None else float(self.epsilon)

    def _card(self, problem: ImageProblem, flags: Bools) -> ReleaseCard:
        """The card of the rehearsed release of the reference images."""
        grid, attacks, hidden = problem.mechanism.grid, self.check_.attacks, flags.mean(axis=0)
        asked = self.policy == "plan" or self.epsilon is None
        budget = (
            None if self.kept is not None or self.policy == "paper" else self.budget or (_BUDGET if asked else None)
        )
        return ReleaseCard(
            mechanism=self.mechanism,
            certificate=self._certificate(problem),
            features=tuple(Feature(*pair) for pair in zip(grid.features.names, hidden.tolist(), strict=True)),
            rows=len(flags),
            classes=len(problem.classes.labels),
            largest_class=float(problem.classes.prior.max()),
            changed=float(hidden @ grid.sizes / grid.sizes.sum()),
            leakage=self.leakage_,
            attacks=(attacks.guess, *attacks.retrained),
            parameters={
                "patch": grid.patch,
                "size": (grid.width, grid.height),
                "budget": None if budget is None else str(Budget.read(budget)),
                "kept": self.kept,
                "epsilon": self.epsilon,
                "lam": problem.mechanism.lam,
                "keep": np.flatnonzero(problem.keep).tolist(),
                "hide": np.flatnonzero(problem.hide).tolist(),
            },
        )

    def _certificate(self, problem: ImageProblem) -> Certificate:
        mechanism, prior = problem.mechanism, problem.classes.prior
        if isinstance(self.policy_, FixedPatches):
            epsilon = _STATED_AT if self.epsilon is None else float(self.epsilon)
            return certify_plan(epsilon, prior, ratios=mechanism.ratios(), hidden=self.policy_.hidden)
        if isinstance(self.policy_, SequentialPatches):
            return certify_disclosed(self.policy_.epsilon, prior, features=len(mechanism.grid))
        # Pixels lie in [0, 1], where radius and diameter are both √(pixels · channels).
        radii = np.sqrt(mechanism.grid.sizes * mechanism.grid.channels)
        return certify_paper(self._threshold, prior, radii=radii, scale=mechanism.lam or np.inf)


def numbered(name: str, patches: Patches, m: int) -> Bools:
    """The mask (m,) of patches given by their numbers or as a mask."""
    array = np.asarray(patches)
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
