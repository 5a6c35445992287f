"""From reference images to the policy `redraw`: choose a region, fit its densities, and attack what
they release.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lowtide.disclose.certificate import Certificate, certify_redraw, safe_prior
from lowtide.disclose.check import Check
from lowtide.disclose.rehearsal import Task, Tick
from lowtide.disclose.secret_codes import SecretCodes
from lowtide.errors import LowtideError
from lowtide.formatting import in_ascii, percent
from lowtide.images.encoder import Chosen
from lowtide.images.problem import ATTACKED, ImageProblem, plan_curve
from lowtide.images.redrawing import RedrawRegion, fit_region
from lowtide.images.regions import Region
from lowtide.splits import generator, some_rows
from lowtide.theory import redraw as theory

_LEAST_IMAGES = 10  # of a class: with fewer, nobody learns how its regions differ from others
_OUTSIDE = (
    "What lies outside the region is released as it is: all this is about what the region adds"
    " to it."
)
_EACH_ONCE = (
    "Regions change places, and each is shown once, on an image like the one it belongs to. Whoever"
    " finds out which image a region belongs to sees that image as it was: an attacker who could is"
    " not among those that attacked."
)


class RegionRehearsal(NamedTuple):
    """A redrawn release of the reference images.

    Attributes:
        policy: what was fitted.
        check: what fresh attackers made of it.
        changed: the share of the images that show another's region.
        pixels: the share of the pixels inside these regions.
        rows: how many images were released.
    """

    policy: RedrawRegion
    check: Check
    changed: float
    pixels: float
    rows: int


def rehearse_region(problem: ImageProblem, task: Task, tick: Tick) -> RegionRehearsal:
    """Choose the region, fit the policy, releasing the reference images on the way, and attack
    them.

    Args:
        problem: the reference images; patches to keep are outside the region, those to hide inside.
        task: what was asked for.
        tick: called with the share of the work that is done.
    """
    few = int((np.bincount(problem.codes) < _LEAST_IMAGES).sum())
    if few:
        raise LowtideError(
            f"{few} of the {len(problem.classes.labels)} classes of the secret have fewer than"
            f" {_LEAST_IMAGES} images, too few to learn how their images differ; merge them with"
            " others, or drop them"
        )
    region = choose_region(problem, task.settings.region, lambda done: tick(0.2 * done))
    rows = np.arange(len(problem.codes))
    if len(rows) > ATTACKED:
        rows = some_rows(len(rows), ATTACKED, generator(problem.seed, "image attacked rows"))
    rarest = float(safe_prior(problem.classes.prior, len(problem.codes))[0])
    policy, release = fit_region(
        Chosen(problem.images, rows),
        problem.codes[rows],
        region,
        problem.mechanism.grid,
        SecretCodes.of(problem.classes.labels),
        width=theory.half_width(task.row_budget, rarest),
        noise=problem.rehearsal,
        mirror=problem.mirror,
        steps=task.tide.max_steps,
        seed=problem.seed,
        tick=lambda done: tick(0.2 + 0.6 * done),
    )
    check = problem.attacked(release, rows)
    changed = float(release.changed.mean())
    return RegionRehearsal(policy, check, changed, changed * region.share, len(rows))


def choose_region(problem: ImageProblem, share: float, tick: Tick = lambda _: None) -> Region:
    """The patches that a plan would hide to keep all but a share of the pixels, as a few smooth
    pieces.
    """
    if not 0 < share < 1:
        raise LowtideError(
            f"the region must be a share of the pixels between 0 and 1, such as 0.36; got {share:g}"
        )
    grid = problem.mechanism.grid
    hidden = plan_curve(problem, tick).at(1 - share).hidden
    if not hidden.any():
        raise LowtideError(
            f"a region of {share:.1%} of the pixels is smaller than a patch; give a larger region,"
            " or smaller patches"
        )
    inside = Region.around(hidden, grid).mask | grid.spread(problem.hide)
    return Region(inside & ~grid.spread(problem.keep))


def certify_region(found: RegionRehearsal, problem: ImageProblem, task: Task) -> Certificate:
    """What the policy rests on, in the words of images."""
    made = certify_redraw(
        task.stated_at, problem.classes.prior, budget=task.row_budget, rows=len(problem.codes)
    )
    said = (untouched_in_words(1 - found.changed, "reference images"), _OUTSIDE, _EACH_ONCE)
    return Certificate(
        made.policy,
        made.epsilon,
        made.whole,
        (*said, *made.statements),
        rarest_share=made.rarest_share,
    )


def untouched_in_words(share: float, images: str = "images") -> str:
    """What a person must know who looks at a redrawn image."""
    return (
        f"{in_ascii(percent(share))} of the {images} are as they were; the others show the region"
        " of another image. No file marks which, but an attacker can often guess: do not use a"
        " single image as a fact about a person."
    )
