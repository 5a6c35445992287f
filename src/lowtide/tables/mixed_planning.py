"""`mixed`: what a plan had to redact comes back merged, or blurred, as far as the budget lasts.

The plan says what can be shown as it is. Of the other columns, coarser values are tried (`merge_planning`) and noise
(`noising`), both on the rows for planning; what is worth more goes first, and the other with what is left. Values that
are true are preferred: the gain of all that merging brings back is held against the best single column with noise. The
judged rows must agree to each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lowtide.disclose.budget import Point
from lowtide.disclose.rehearsal import Goal, Tick
from lowtide.tables.encoder import is_frame
from lowtide.tables.layout import constants
from lowtide.tables.mechanism import TableMechanism
from lowtide.tables.merge_planning import MOST_MERGED, MergedRelease, MergeSearch, try_merges
from lowtide.tables.merge_problem import MergeProblem
from lowtide.tables.merge_search import TreeStep
from lowtide.tables.merge_trees import Merges
from lowtide.tables.noising import NoiseSearch, noise_instead
from lowtide.tables.problem import TableProblem
from lowtide.tables.settings import TableSettings

_MOST_ANSWERED = 48  # categories of a column that may be answered at random; of more, few answers would be near


@dataclass(frozen=True, eq=False)
class Mixer:
    """Brings redacted columns back.

    Attributes:
        settings: what the user says of ranges, categories and blanks.
        said: what the user says of merging; `None` where nothing can be merged.
        goal: what the release may tell, and when it is kept.
        looks: counts the looks at the judged rows.
        lam: the only λ to try; by default the least that keeps the budget.
    """

    settings: TableSettings
    said: Merges | None
    goal: Goal
    looks: Iterator[int]
    lam: float | None = None

    def mix(self, plain: MergedRelease, tick: Tick) -> MergedRelease:
        """Merge and noise what a plan redacts, whichever is worth more first."""
        noise = self._noise(plain)
        merging = self._merges(plain)
        steps = [] if merging is None else merging.by_attackers(self.goal.aim.planned, lambda done: tick(0.3 * done))
        gain = 0.0 if merging is None else merging.gain(steps)
        best = max((worth for _, _, worth in noise.candidates), default=0.0)
        tick(0.5)
        if self.lam is not None or best > gain:
            noised = self.noised(plain, lambda done: tick(0.5 + 0.3 * done), noise)
            return self.merged(noised)
        merged = plain if merging is None else self.merged(plain, merging, steps)
        return self.noised(merged, lambda done: tick(0.8 + 0.2 * done))

    def noised(self, release: MergedRelease, tick: Tick, search: NoiseSearch | None = None) -> MergedRelease:
        """Noise redacted columns, where the budget takes it."""
        search = search or self._noise(release)
        mechanism, check, points = noise_instead(search, self.goal, self.looks, tick)
        if check is None:
            return release
        policy = replace(release.policy, curve=(*release.policy.curve, *points))
        return MergedRelease(policy, replace(release.problem, mechanism=mechanism), check)

    def merged(
        self, release: MergedRelease, search: MergeSearch | None = None, steps: Sequence[TreeStep] = ()
    ) -> MergedRelease:
        """Show redacted columns in coarser values, where the budget takes it."""
        if search is None:
            search = self._merges(release)
            steps = [] if search is None else search.by_attackers(self.goal.aim.planned, lambda _: None)
        if search is None or not (steps or search.merge.merging(search.begin).columns):
            return release
        tried = try_merges(search, list(steps), self.looks, least=bool(search.merge.merging(search.begin).columns))
        met = [(found, check) for found, check in tried if self.goal.is_met(check)]
        if not met and tried[-1][0][0]:
            return release
        (taken, problem), check = (met or tried)[-1]
        choice = search.at(taken)
        blurred = release.problem.mechanism.blurs
        point = Point(
            search.merge.hidden(choice),
            search.merge.kept(choice),
            search.read(choice),
            search.useful(choice),
            tuple(map(int, np.flatnonzero(blurred))),
            release.problem.mechanism.lam,
        )
        curve = (*release.policy.curve, point)
        policy = replace(release.policy, features=problem.features, hidden=point.hidden, curve=curve)
        return MergedRelease(policy, problem, check)

    def _noise(self, release: MergedRelease) -> NoiseSearch:
        noisy = noisy_mechanism(release.problem, self.settings)
        if self.said is not None and self.lam is None:  # how these are shown the user has said
            said = {*self.said.bands, *self.said.hierarchies}
            noisy = noisy.only([name not in said for name in release.problem.features.names])
        return NoiseSearch(release.problem, noisy, release.policy.hidden, self.goal.aim.planned, self.lam)

    def _merges(self, release: MergedRelease) -> MergeSearch | None:
        if self.said is None:
            return None
        merge = MergeProblem(release.problem, self.said, ~release.policy.hidden)
        return MergeSearch(merge, self.goal) if merge.trees else None


def can_be_merged(problem: TableProblem) -> bool:
    """Whether columns can hold labels, each by itself, and are few enough to be weighed at once."""
    names = problem.mechanism.encoder.names
    return is_frame(problem.table) and len(problem.features) == len(names) <= MOST_MERGED


def noisy_mechanism(problem: TableProblem, settings: TableSettings) -> TableMechanism:
    """Noise on every number that has a range, and responses in place of categories where the settings say so."""
    encoder, features, rows = problem.mechanism.encoder, problem.features, problem.data.rows
    bounds, merging = settings.ranges, problem.mechanism.merging
    if merging is not None and isinstance(bounds, Mapping):
        bounds = {name: pair for name, pair in bounds.items() if name not in merging.columns}
    flat = constants(encoder, features, rows, bounds)
    noisy = TableMechanism.build(
        encoder, features, rows, kind="gaussian", lam=1.0, bounds=bounds, fill=settings.blank, keep=flat
    )
    kinds = noisy.kinds
    if settings.categorical == "response":
        answered = [values is not None and 2 <= len(values) <= _MOST_ANSWERED for values in encoder.categories]
        kinds = tuple("response" if answers else kind for kind, answers in zip(kinds, answered, strict=True))
    return replace(noisy, kinds=kinds, merging=merging)
