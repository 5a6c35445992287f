"""From reference images to a policy: plan, check with fresh attackers, hide more until they agree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lowtide.attack.panel import AttackReport, attack
from lowtide.disclose.budget import Budget
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.disclose.rehearsal import Check, Tick, hide_until_agreed
from lowtide.errors import LowtideError
from lowtide.images.encoder import Chosen, Images
from lowtide.images.mechanism import ImageMechanism
from lowtide.images.planning import PatchPlanner
from lowtide.images.policies import FixedPatches, PatchPolicy
from lowtide.images.released import Released
from lowtide.images.thumbnails import Thumbnails
from lowtide.labels import Classes
from lowtide.splits import some_rows, stratified
from lowtide.streams import generator, stream
from lowtide.types import Bools, Labels, Pixels

CHECKERS = ("edges", "small network")
_JUDGING = 0.25  # share of the images
_ATTACKED = 20_000
_MORE = 0.05  # share of the pixels that is hidden in addition while attackers disagree


@dataclass(frozen=True, eq=False)
class ImageProblem:
    """What is to be planned.

    Attributes:
        images: the reference images.
        codes: (n,) their classes.
        classes: the values of the secret and their prior.
        mechanism: how hidden patches are disclosed.
        keep: (m,) patches that must be shown.
        hide: (m,) patches that must be hidden.
        rehearsal: noise for trying releases out; never that of the release itself.
        mirror: whether a mirrored image is as likely as the image.
        attackers: names of those that check.
        seed: of everything.
        utility: (n,) classes of what the release should still tell; `None` when nothing is named.
    """

    images: Images
    codes: Labels
    classes: Classes
    mechanism: ImageMechanism
    keep: Bools
    hide: Bools
    rehearsal: KeyedNoise
    mirror: bool = True
    attackers: tuple[str, ...] = CHECKERS
    seed: int = 0
    utility: Labels | None = None

    @cached_property
    def judged(self) -> Bools:
        """(n,) images that judge a release and have no part in planning it; the others are for planning."""
        split = stratified(self.codes, _JUDGING, seed=stream(self.seed, "image judged rows"))
        return np.isin(np.arange(len(self.codes)), split.aside)

    def thumbnails(self) -> Thumbnails:
        """Small versions of the images for planning, and of the same with everything hidden."""
        everything = np.ones(len(self.mechanism.grid), dtype=bool)

        def hide(pixels: Pixels, rows: Labels) -> Pixels:
            return self.mechanism.hide(pixels, everything, noise=self.rehearsal, ids=row_ids(rows, len(rows)))

        return Thumbnails.make(self.images, np.flatnonzero(~self.judged), self.codes, self.classes.prior, hide)

    def release(self, policy: PatchPolicy) -> Released:
        """A rehearsal of the release."""
        ids = row_ids(np.arange(len(self.codes)), len(self.codes)) if self.mechanism.draws else None
        return Released(self.images, policy, self.mechanism, self.rehearsal if self.mechanism.draws else None, ids)

    def check(self, policy: PatchPolicy) -> Check:
        """Attack a rehearsal afresh, on the judged images; and what should still be told likewise."""
        some = np.arange(len(self.codes))
        if len(some) > _ATTACKED:
            some = some_rows(len(some), _ATTACKED, generator(self.seed, "image attacked rows"))

        def learnt(codes: Labels) -> AttackReport:
            return attack(
                Chosen(self.release(policy), some),
                codes[some],
                attackers=self.attackers,
                test=self.judged[some],
                seed=self.seed,
                progress=False,
            )

        return Check(None, learnt(self.codes), None if self.utility is None else learnt(self.utility))


def plan_curve(problem: ImageProblem, tick: Tick = lambda _: None) -> FixedPatches:
    """The order in which patches are best hidden, and the curve; nothing is hidden yet but what must be."""
    small = problem.thumbnails()
    return PatchPlanner(
        small,
        problem.mechanism.grid,
        problem.keep,
        problem.hide,
        mirror=problem.mirror,
        seed=problem.seed,
        utility=None if problem.utility is None else small.about(problem.utility),
        tick=tick,
    ).plan()


def make_plan(
    problem: ImageProblem, *, budget: Budget | None, kept: float | None, tick: Tick
) -> tuple[FixedPatches, Check]:
    """Plan for the whole population.

    With a budget, more is hidden until fresh attackers agree that it is kept; with a share to keep they only tell what
    that share leaves them.
    """
    plan = plan_curve(problem, lambda done: tick(0.7 * done))
    if kept is not None or budget is None:
        chosen = plan.at(1.0 if kept is None else kept)
        return chosen, problem.check(chosen)
    met = next((point for point in plan.curve if budget.meets(point.reading)), None)
    chosen = plan.everything() if met is None else plan.at(met.kept)
    return hide_until_agreed(
        chosen,
        budget,
        check=problem.check,
        keep=problem.keep,
        step=_MORE,
        unreachable=lambda check: _unreachable(problem, budget, check),
        tick=tick,
    )


def _unreachable(problem: ImageProblem, budget: Budget, check: Check) -> LowtideError:
    left = check.measured
    told = f"{left.value:.4f} nat [{left.low:.4f}, {left.high:.4f}]"
    if problem.keep.any():
        return LowtideError(
            f"the {int(problem.keep.sum())} patches to keep tell {told} with everything else hidden; the budget is "
            f"{budget}: keep fewer of them, or raise the budget"
        )
    return LowtideError(
        f"with every patch hidden the noise still leaves {told}; the budget is {budget}: add more noise (lam), use "
        "mechanism='redact', or raise the budget"
    )
