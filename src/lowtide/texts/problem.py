"""From reference texts to a policy: plan, check with fresh attackers, hide more until they agree."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lowtide.attack.panel import AttackReport, attack
from lowtide.disclose.budget import Budget
from lowtide.disclose.noise import KeyedNoise
from lowtide.disclose.rehearsal import Check, Tick, hide_until_agreed
from lowtide.errors import LowtideError
from lowtide.labels import Classes
from lowtide.splits import Split, set_aside, some_rows
from lowtide.streams import generator, stream
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.planning import TermPlanner
from lowtide.texts.policies import FixedTerms, TermPolicy
from lowtide.texts.rewriting import MARK, How, ReleasedTexts, Rewriter, text_ids
from lowtide.types import Bools, Floats, Labels

CHECKERS = ("words", "weighted words", "naive bayes")
_JUDGING, _READING = 0.25, 0.25  # share of the texts, and of those for planning
_ATTACKED, _PLANNED = 40_000, 60_000
_MORE = 0.03  # share of the words that is hidden in addition while attackers disagree


@dataclass(frozen=True, eq=False)
class TextProblem:
    """What is to be planned.

    Attributes:
        texts: the reference texts.
        codes: (n,) their classes.
        classes: the values of the secret and their prior.
        groups: (n,) texts that stay on one side of a split; `None` where each stands for itself.
        encoder: the vocabulary, and which terms are alike.
        how: what becomes of hidden words.
        keep: (m,) terms that must be shown.
        hide: (m,) terms that must be hidden.
        rehearsal: for trying releases out; never the key of the release itself.
        mark: what a mask is.
        attackers: names of those that check.
        seed: of everything.
        utility: (n,) classes of what the release should still tell; `None` when nothing is named.
    """

    texts: list[str] = field(repr=False)
    codes: Labels = field(repr=False)
    classes: Classes
    groups: Labels | None = field(repr=False)
    encoder: TextEncoder = field(repr=False)
    how: How
    keep: Bools = field(repr=False)
    hide: Bools = field(repr=False)
    rehearsal: KeyedNoise
    mark: str = MARK
    attackers: tuple[str, ...] = CHECKERS
    seed: int = 0
    utility: Labels | None = field(default=None, repr=False)

    @cached_property
    def judged(self) -> Bools:
        """(n,) texts that judge a release and have no part in planning it; the others are for planning."""
        split = self._split(np.arange(len(self.codes)), _JUDGING, "text judged rows")
        return np.isin(np.arange(len(self.codes)), split.aside)

    @cached_property
    def tokens(self) -> Floats:
        """(m,) how often each term occurs."""
        return np.asarray(self.encoder.vocabulary.counts(self.texts).sum(axis=0), dtype=np.float64).ravel()

    def plan(self, *, stop: Budget | None = None, tick: Tick = lambda _: None) -> FixedTerms:
        """The order in which terms are best hidden, and the curve; nothing is hidden yet but what must be."""
        rows = self._some(np.flatnonzero(~self.judged), _PLANNED)
        split = self._split(rows, _READING, "text planning rows")
        counts = self.encoder.vocabulary.counts([self.texts[row] for row in rows])
        codes = self.codes[rows]
        prior = np.bincount(codes, minlength=len(self.classes.labels)) / len(codes)
        groups = None if self.groups is None else self.groups[rows]
        utility = None if self.utility is None else self.utility[rows]
        planner = TermPlanner(counts, codes, prior, groups, split, self.keep, self.hide, stop, utility, tick)
        return planner.plan(self.encoder.vocabulary)

    def rewriter(self, policy: TermPolicy) -> Rewriter:
        """How the policy's hidden words are written."""
        hidden = policy.hidden if isinstance(policy, FixedTerms) else self.hide
        return Rewriter(self.encoder, self.how, hidden, self.tokens, self.mark)

    def release(self, policy: TermPolicy, rows: Labels | None = None) -> ReleasedTexts:
        """A rehearsal of the release, of all texts or some."""
        texts = self.texts if rows is None else [self.texts[row] for row in rows]
        return self.rewriter(policy).write(texts, policy, noise=self.rehearsal, ids=text_ids(texts))

    def check(self, policy: TermPolicy) -> Check:
        """Attack a rehearsal afresh, on the judged texts; and what should still be told likewise."""
        some = self._some(np.arange(len(self.codes)), _ATTACKED)
        released = list(self.release(policy, some))

        def learnt(codes: Labels) -> AttackReport:
            return attack(
                released,
                codes[some],
                groups=None if self.groups is None else self.groups[some],
                attackers=self.attackers,
                test=self.judged[some],
                seed=self.seed,
                progress=False,
            )

        return Check(None, learnt(self.codes), None if self.utility is None else learnt(self.utility))

    def _some(self, rows: Labels, most: int) -> Labels:
        if len(rows) <= most:
            return rows
        return some_rows(rows, most, generator(self.seed, "text sample"))

    def _split(self, rows: Labels, share: float, name: str) -> Split:
        numbers = None if self.groups is None else np.unique(self.groups[rows], return_inverse=True)[1]
        return set_aside(self.codes[rows], numbers, share, seed=stream(self.seed, name))


def make_plan(
    problem: TextProblem, *, budget: Budget | None, kept: float | None, tick: Tick
) -> tuple[FixedTerms, Check]:
    """Plan for the whole population.

    With a budget, more is hidden until fresh attackers agree that it is kept; with a share to keep they only tell what
    that share leaves them.
    """
    plan = problem.plan(stop=budget, tick=lambda done: tick(0.6 * done))
    if kept is not None or budget is None:
        chosen = plan.at(1.0 if kept is None else kept)
        return chosen, problem.check(chosen)
    chosen = plan.under(budget) or plan.everything()
    return hide_until_agreed(
        chosen,
        budget,
        check=problem.check,
        keep=problem.keep,
        step=_MORE,
        unreachable=lambda check: _unreachable(problem, budget, check),
        tick=tick,
    )


def _unreachable(problem: TextProblem, budget: Budget, check: Check) -> LowtideError:
    left = check.measured
    told = f"{left.value:.4f} nat [{left.low:.4f}, {left.high:.4f}]"
    kept = f"the {int(problem.keep.sum())} terms to keep, " if problem.keep.any() else ""
    return LowtideError(
        f"with every term hidden, {kept}words too rare to be terms, signs and the lengths of texts still tell {told}; "
        f"the budget is {budget}: raise it" + (", or keep fewer terms" if kept else "")
    )
