"""The policy `sequential` for images: patch by patch, given what the image has already disclosed.

A causal critic answers for all prefixes of an image at once, each patch as it stands. As long as nothing is hidden,
these are densities given the disclosed past; from the first patch that tells too much, which is painted over, the image
is asked about again. So an image with k hidden patches takes k + 1 passes, and the decisions are those of going through
the patches one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lowtide.density.options import Options
from lowtide.disclose.budget import Budget, Parts
from lowtide.disclose.rehearsal import Check, Tick
from lowtide.errors import LowtideError
from lowtide.images.encoder import Chosen, Images
from lowtide.images.fitting import fit_images
from lowtide.images.mechanism import ImageMechanism
from lowtide.images.policies import PatchConditionals, threshold_parts
from lowtide.images.problem import ImageProblem
from lowtide.streams import generator
from lowtide.types import Bools, Ints, Pixels

_TIGHTENINGS = 5


@dataclass(frozen=True, eq=False)
class SequentialPatches:
    """Hides a patch where its density given the *disclosed* past exceeds ε.

    Attributes:
        density: of patches, row by row, learnt from raw and from disclosed images.
        mechanism: how hidden patches are disclosed: redacted.
        epsilon: ε.
        keep: (m,) patches that are never hidden.
        hide: (m,) patches that always are.
    """

    name: ClassVar[str] = "sequential"
    density: PatchConditionals
    mechanism: ImageMechanism
    epsilon: float
    keep: Bools
    hide: Bools

    def __post_init__(self) -> None:
        if self.mechanism.draws:
            raise LowtideError("policy='sequential' redacts patches of images; use mechanism='redact'")

    def flags(self, pixels: Pixels) -> Bools:
        """What to hide of images (n, height, width, channels), (n, m)."""
        m = len(self.keep)
        hidden = np.tile(self.hide, (len(pixels), 1))
        shown = self.mechanism.hide(pixels, hidden)
        start, active = np.zeros(len(pixels), dtype=np.intp), np.arange(len(pixels))
        free = ~self.keep & ~self.hide
        while len(active):
            steps = np.abs(np.asarray(self.density.conditionals(shown[active]))).max(axis=-1)
            telling = (steps > self.epsilon) & free & (np.arange(m) >= start[active, None])
            found = telling.any(axis=1)
            first = telling.argmax(axis=1)[found]
            active = active[found]
            hidden[active, first] = True
            start[active] = first + 1
            if len(active):
                shown[active] = self.mechanism.hide(pixels[active], hidden[active])
            active = active[first + 1 < m]
        return hidden

    def parts(self) -> Parts:
        """Plain JSON, and the weights of the density."""
        return threshold_parts(self.name, self.density, self.epsilon, self.keep, self.hide)


@dataclass(frozen=True, eq=False)
class HalfDisclosed:
    """Images of which some are shown as they are disclosed, and the others raw; see `Images`.

    Attributes:
        raw: the images.
        policy: what is hidden of those that are disclosed.
        disclosed: (n,) which of them are.
    """

    raw: Images
    policy: SequentialPatches
    disclosed: Bools

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.raw.shape

    def __len__(self) -> int:
        return len(self.raw)

    def read(self, index: Ints) -> Pixels:
        """Some of them."""
        pixels, chosen = self.raw.read(index), self.disclosed[index]
        if chosen.any():
            some = pixels[chosen]
            pixels[chosen] = self.policy.mechanism.hide(some, self.policy.flags(some))
        return pixels


def make_sequential(
    problem: ImageProblem, options: Options, *, epsilon: float, budget: Budget | None, tick: Tick
) -> tuple[SequentialPatches, Check]:
    """Fit a critic to raw images, then to a mixture of raw and disclosed ones; tighten ε until the budget is kept.

    Args:
        problem: what is to be planned.
        options: how to fit.
        epsilon: the largest density of a patch that is shown, to begin with.
        budget: what the release may tell; without one ε is taken as it is.
        tick: called with the share of the work that is done.
    """
    rows = np.flatnonzero(~problem.judged)
    raw, codes = Chosen(problem.images, rows), problem.codes[rows]
    policy = SequentialPatches(fit_images(raw, codes, options), problem.mechanism, epsilon, problem.keep, problem.hide)
    tick(0.4)
    rng = generator(problem.seed, "image sequential")
    mixture = HalfDisclosed(raw, policy, rng.random(len(rows)) < 0.5)
    every = np.concatenate([mixture.read(part) for part in np.array_split(np.arange(len(rows)), 1 + len(rows) // 256)])
    policy = replace(policy, density=fit_images(every, codes, options))
    tick(0.8)
    check = problem.check(policy)
    if budget is None:
        return policy, check
    for _ in range(_TIGHTENINGS):
        if check.agrees(budget):
            break
        policy = replace(policy, epsilon=policy.epsilon / 2)
        check = problem.check(policy)
    if not check.agrees(budget):
        raise LowtideError(
            f"what is disclosed tells {check.measured.value:.4f} nat with patches hidden down to a density of "
            f"{policy.epsilon:.3g}; the budget is {budget}: raise it, or use policy='fixed'"
        )
    return policy, check
