"""Planning for texts: hide the terms that tell most for a word lost, and read what is left with a
fresh attacker.

One occurrence of a term tells `Σ_s p(s|term) log p(s|term) / p(s)`, estimated by empirical Bayes
from how many writers bear a term out, not from how often it was written: what one writer always
says is of no use against others. Hiding a term does not change what another tells by itself, so the
order is found once. Orders that follow the weights of an attacker, retrained again and again, hide
worse: a weight is small where other words say the same, and these say it still when the word is
gone.

What is left is read on texts that had no part in the order: terms that happen to tell in some texts
are hidden first, and these texts then tell less than any others. Half of the planning texts give an
order and the other half, by other writers, reads what it leaves; then the halves change places. The
order of the plan is that of all planning texts.

From reference texts to a policy: plan, check with fresh attackers, hide more until they agree.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import log_softmax

from lowtide.attack.panel import AttackReport, attack
from lowtide.attack.together import FEWEST_PERSONS, ToldTogether, told_together
from lowtide.disclose.budget import Budget, Point, Reading, blended_worth
from lowtide.disclose.check import Check
from lowtide.disclose.history import budget_of_one
from lowtide.disclose.noise import KeyedNoise
from lowtide.disclose.rehearsal import Goal, Tick, hide_until_kept
from lowtide.disclose.standing import level_of
from lowtide.errors import LowtideError
from lowtide.estimate import stack
from lowtide.estimate.learners.bag import log_odds
from lowtide.estimate.objectives import with_overlooked
from lowtide.estimate.reader import NEVER, read
from lowtide.labels import Classes
from lowtide.splits import Split, generator, set_aside, some_rows, stream
from lowtide.texts.attackers import Pieces, Words
from lowtide.texts.contexts import ContextLaw, PlacedWords, WordKinds
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.policies import FixedTerms, TermPolicy
from lowtide.texts.rewriting import MARK, How, ReleasedTexts, Rewriter, text_ids
from lowtide.texts.terms import Vocabulary
from lowtide.types import Bools, Floats, Labels

Sparse: TypeAlias = Any  # scipy.sparse.csr_array, which carries no types
# shares of the words hidden between two readings, small at first
_STEP = 0.01
_LATER_STEP = 0.025
_LATER = 0.1
_FAINT = 1e-12  # worth of a term that does not occur
_MOST = 0.6  # share of the words up to which the curve is read
_READING = 0.25  # share of the texts that read a release, by which attackers are judged
_ENOUGH = 0.5  # share of a budget at which the order is known far enough


class Turn(NamedTuple):
    """Row numbers of planning texts: those that order the terms, and others to fit and to judge an
    attacker.
    """

    ordering: Labels
    fit: Labels
    judge: Labels


def take_turns(
    codes: Labels, groups: Labels | None, seed: np.random.SeedSequence
) -> tuple[Turn, ...]:
    """Deal texts to two turns, in which the halves change places; groups stay together.

    Where a class has too few groups for four parts, there is one turn, whose terms are ordered by
    the texts that attackers are fitted to.

    Args:
        codes: (n,) classes.
        groups: (n,) texts of one group have one number; `None` where each stands for itself.
        seed: of the deal.
    """
    first, *inner, alone = seed.spawn(4)
    try:
        halves = _parts(np.arange(len(codes)), codes, groups, 0.5, first)
        parts = [
            _parts(half, codes, groups, _READING, own)
            for half, own in zip(halves, inner, strict=True)
        ]
    except LowtideError:
        fit, judge = _parts(np.arange(len(codes)), codes, groups, _READING, alone)
        return (Turn(fit, fit, judge),)
    return tuple(Turn(half, *part) for half, part in zip(halves, reversed(parts), strict=True))


def _parts(
    rows: Labels, codes: Labels, groups: Labels | None, share: float, seed: np.random.SeedSequence
) -> Split:
    """Row numbers of all texts, those of `rows` that are kept and those set aside."""
    numbers = None if groups is None else np.unique(groups[rows], return_inverse=True)[1]
    split = set_aside(codes[rows], numbers, share, seed=seed)
    return Split(rows[split.kept], rows[split.aside])


@dataclass(frozen=True, eq=False)
class TermPlanner:
    """Finds the order of hiding, reading every release on the way with attackers that are fitted
    afresh.

    Attributes:
        counts: (n, m) sparse counts of the terms of planning texts.
        codes: (n,) their classes.
        prior: (|S|,) shares of the classes.
        groups: (n,) the texts of a group count as one observation; `None` where each does.
        turns: which texts order terms, and which texts of other groups read what is left; see
            `take_turns`.
        keep: (m,) terms that must be shown.
        hide: (m,) terms that must be hidden.
        stop: a budget; hiding ends well below it.
        utility: (n,) classes of what the release should still tell; terms that carry it are hidden
            later.
        tick: called with the share of the work that is done.
    """

    counts: Sparse = field(repr=False)
    codes: Labels = field(repr=False)
    prior: Floats
    groups: Labels | None = field(repr=False)
    turns: tuple[Turn, ...] = field(repr=False)
    keep: Bools = field(repr=False)
    hide: Bools = field(repr=False)
    stop: Budget | None = None
    utility: Labels | None = field(default=None, repr=False)
    tick: Callable[[float], None] = field(default=lambda _: None, repr=False)

    def plan(self, vocabulary: Vocabulary) -> FixedTerms:
        """The policy that hides nothing but what must be, with the order and the curve of all
        others.
        """
        tokens = np.asarray(self.counts.sum(axis=0), dtype=np.float64).ravel()
        order, gone = self._order(np.arange(len(self.codes)), tokens)
        others = [self._order(turn.ordering, tokens) for turn in self.turns]
        depth = int(self.hide.sum())
        free = len(tokens) - int((self.keep & ~self.hide).sum())
        policy = FixedTerms(vocabulary, self.hide & ~self.keep, order, tokens, self.keep, self.hide)
        curve: list[Point] = []
        while True:
            # As many words of each order as of the plan's.
            depths = [
                depth if depth >= free else int((share <= gone[depth] + 1e-9).sum()) - 1
                for _, share in others
            ]
            shown = [np.sort(terms[k:]) for k, (terms, _) in zip(depths, others, strict=True)]
            reading = self._attack(shown, self.codes, self.prior)
            useful = (
                None
                if self.utility is None
                else self._attack(shown, self.utility, _shares(self.utility))
            )
            curve.append(Point(policy.first(depth).hidden, 1 - float(gone[depth]), reading, useful))
            self.tick(min(1.0, float(gone[depth]) / _MOST))
            if depth >= free or gone[depth] >= _MOST or self._enough(reading):
                break
            step = _STEP if gone[depth] < _LATER else _LATER_STEP
            depth = min(free, max(depth + 1, int((gone <= gone[depth] + step).sum()) - 1))
        return replace(policy, curve=tuple(curve))

    def _order(self, rows: Labels, tokens: Floats) -> tuple[Labels, Floats]:
        """The terms in the order of hiding that some texts give, (m,), and the share of words gone,
        (m + 1,).
        """
        order = np.lexsort((-self._gain(rows, tokens), self.keep, ~self.hide))
        return order, np.concatenate([[0.0], np.cumsum(tokens[order])]) / tokens.sum()

    def _gain(self, rows: Labels, tokens: Floats) -> Floats:
        """(m,) what hiding each term gains for what it costs: a word, or its share of what should
        still be told.
        """
        secret = self._information(rows, self.codes, len(self.prior))
        if self.utility is None:
            return secret
        plain = tokens / tokens.sum()
        useful = tokens * np.maximum(
            self._information(rows, self.utility, int(self.utility.max()) + 1), 0.0
        )
        return secret * plain / np.maximum(blended_worth(plain, useful), _FAINT)

    def _information(self, rows: Labels, codes: Labels, classes: int) -> Floats:
        """(m,) what one occurrence of each term tells of classes (n,), in nats, from some of the
        texts.
        """
        counts = self.counts[rows]
        codes = codes[rows]
        groups = (
            None if self.groups is None else np.unique(self.groups[rows], return_inverse=True)[1]
        )
        share = np.bincount(codes, np.asarray(counts.sum(axis=1)).ravel(), minlength=classes)
        share = np.maximum(share / max(share.sum(), 1.0), 1e-6)
        odds = np.log(share) + log_odds(counts, codes, len(share), "counts", groups=groups)
        believed = log_softmax(odds, axis=1)
        return np.asarray((np.exp(believed) * (believed - np.log(share))).sum(axis=1))

    def _enough(self, reading: Reading) -> bool:
        limit = self.stop
        if limit is None:
            return False
        return Budget(limit.limit * (1 if limit.unit == "accuracy" else _ENOUGH), limit.unit).meets(
            reading
        )

    def _attack(self, shown: Sequence[Labels], codes: Labels, prior: Floats) -> Reading:
        """What fresh regressions on the terms `shown` of each turn read of the classes (n,) of
        texts they never saw.
        """
        found = [
            self._density(turn, terms, codes, prior)
            for turn, terms in zip(self.turns, shown, strict=True)
        ]
        judged = np.concatenate([turn.judge for turn in self.turns])
        reading = Reading.of(np.concatenate(found), codes[judged], prior)
        return replace(reading, leakage=with_overlooked(reading.leakage))

    def _density(self, turn: Turn, shown: Labels, codes: Labels, prior: Floats) -> Floats:
        """The density (judged texts, classes) by a regression on the terms `shown`; 0 where none
        can be fitted.
        """
        rows = np.concatenate([turn.fit, turn.judge])
        judged = np.arange(len(rows)) >= len(turn.fit)
        if not len(shown) or len(np.unique(codes[turn.fit])) < len(prior):
            return np.zeros((len(turn.judge), len(prior)))
        log_prior = np.log(prior)
        reading = read(
            Pieces(self.counts[rows][:, shown]),
            codes[rows],
            [Words(0)],
            fold=np.where(judged, 0, NEVER),
            log_prior=log_prior,
            groups=None if self.groups is None else self.groups[rows],
        )
        # Weighed by all that judge, since a curve may rather say too much: few writers judge, and
        # weights of some of them would often be wrong for the others.
        answers = np.stack([member.held_out for member in reading.tried])
        weights = np.array([member.weight for member in reading.tried])
        density = stack.mixed(answers, weights, log_prior)
        return np.log(stack.never_certain(density, log_prior, len(density))) - log_prior


def _shares(codes: Labels) -> Floats:
    """The share of each class of codes (n,)."""
    return np.bincount(codes) / len(codes)


QUICK = ("words", "weighted words", "naive bayes")  # steer the search
_JUDGING = 0.25  # share of the texts
_ATTACKED = 40_000
_PLANNED = 60_000
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
        attackers: names of those that check; by default quick ones steer the search, and all of an
            audit check its end.
        seed: of everything.
        utility: (n,) classes of what the release should still tell; `None` when nothing is named.
        fill: whether hidden places are filled in.
        history: how many texts of one writer the budget is about.
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
    attackers: tuple[str, ...] | None = None
    seed: int = 0
    utility: Labels | None = field(default=None, repr=False)
    fill: bool = False
    history: int = 1

    @cached_property
    def judged(self) -> Bools:
        """(n,) texts that judge a release and have no part in planning it; the others are for
        planning.
        """
        rows = np.arange(len(self.codes))
        return np.isin(
            rows,
            _parts(
                rows, self.codes, self.groups, _JUDGING, stream(self.seed, "text judged rows")
            ).aside,
        )

    @property
    def judges(self) -> int:
        """How many texts judge a release; of histories, how many writers have that many of them."""
        if self.history == 1:
            return int(self.judged.sum())
        if self.groups is None:
            raise LowtideError(
                "a budget over several texts of a writer needs to know who wrote them; name the"
                " group"
            )
        found = int((np.bincount(self.groups[self.judged]) >= self.history).sum())
        if found < FEWEST_PERSONS:
            raise _too_long(self.history)
        return found

    @cached_property
    def tokens(self) -> Floats:
        """(m,) how often each term occurs."""
        return np.asarray(
            self.encoder.vocabulary.counts(self.texts).sum(axis=0), dtype=np.float64
        ).ravel()

    def plan(self, *, stop: Budget | None = None, tick: Tick = lambda _: None) -> FixedTerms:
        """The order in which terms are best hidden, and the curve; nothing is hidden yet but what
        must be.
        """
        rows = self._some(np.flatnonzero(~self.judged), _PLANNED)
        counts = self.encoder.vocabulary.counts([self.texts[row] for row in rows])
        codes = self.codes[rows]
        prior = np.bincount(codes, minlength=len(self.classes.labels)) / len(codes)
        groups = None if self.groups is None else self.groups[rows]
        utility = None if self.utility is None else self.utility[rows]
        turns = take_turns(codes, groups, stream(self.seed, "text planning rows"))
        planner = TermPlanner(
            counts, codes, prior, groups, turns, self.keep, self.hide, stop, utility, tick
        )
        return planner.plan(self.encoder.vocabulary)

    def rewriter(self, policy: TermPolicy) -> Rewriter:
        """How the policy's hidden words are written."""
        hidden = policy.hidden if isinstance(policy, FixedTerms) else self.hide
        if not self.fill:
            return Rewriter(self.encoder, self.how, hidden, self.tokens, self.mark)
        placed, kinds = self._placed
        law = ContextLaw.learn(placed, kinds.drawn & ~kinds.hashtags & ~hidden)
        return Rewriter(self.encoder, "mask", hidden, self.tokens, self.mark, law)

    @cached_property
    def writers(self) -> Labels:
        """(n,) whose text each is; without groups, equal texts are of one writer."""
        if self.groups is not None:
            return self.groups
        return np.unique(np.array(self.texts, dtype=str), return_inverse=True)[1].ravel()

    @cached_property
    def _placed(self) -> tuple[PlacedWords, WordKinds]:
        placed = PlacedWords.read(self.texts, self.encoder.vocabulary)
        return placed, WordKinds.of(placed, self.encoder.vocabulary, self.writers)

    def release(self, policy: TermPolicy, rows: Labels | None = None) -> ReleasedTexts:
        """A rehearsal of the release, of all texts or some."""
        texts = self.texts if rows is None else [self.texts[row] for row in rows]
        return self.rewriter(policy).write(texts, policy, noise=self.rehearsal, ids=text_ids(texts))

    def check(self, policy: TermPolicy, look: int = 1) -> Check:
        """Attack a rehearsal afresh, on the judged texts; and what should still be told likewise.

        Args:
            policy: what it hides.
            look: how often the judged texts have been looked at, this time included.
        """
        some = self._some(np.arange(len(self.codes)), _ATTACKED)
        return self._attacked(list(self.release(policy, some)), some, look)

    def attacked(self, released: list[str]) -> Check:
        """What fresh attackers make of a release of all texts, on the judged ones."""
        some = self._some(np.arange(len(self.codes)), _ATTACKED)
        return self._attacked([released[row] for row in some], some, 1)

    def _attacked(self, released: list[str], some: Labels, look: int) -> Check:
        """What fresh attackers make of released texts, whose numbers are `some`."""

        def attacked(attackers: tuple[str, ...] | None) -> Check:
            def learnt(codes: Labels) -> AttackReport:
                return attack(
                    released,
                    codes[some],
                    groups=None if self.groups is None else self.groups[some],
                    attackers=attackers,
                    test=self.judged[some],
                    seed=self.seed,
                    level=level_of(look),
                    progress=False,
                )

            useful = None if self.utility is None else learnt(self.utility)
            found = learnt(self.codes)
            return Check(
                None, found, useful, together=self._together(found, some, look), ask=learnt
            )

        if self.attackers is not None:
            return attacked(self.attackers)
        return replace(attacked(QUICK), complete=lambda: attacked(None))

    def _together(self, found: AttackReport, some: Labels, look: int) -> ToldTogether | None:
        """What as many texts of one writer tell as the budget is about; `None` where it is about
        one.
        """
        if self.history == 1 or self.groups is None:
            return None
        told = told_together(
            found, self.groups[some], (self.history,), seed=self.seed, level=level_of(look)
        ).told
        if not told:
            raise _too_long(self.history)
        return told[0]

    def _some(self, rows: Labels, most: int) -> Labels:
        if len(rows) <= most:
            return rows
        return some_rows(rows, most, generator(self.seed, "text sample"))


def make_plan(
    problem: TextProblem, *, goal: Goal | None, kept: float | None, tick: Tick
) -> tuple[FixedTerms, Check]:
    """Plan for the whole population.

    With a budget, more is hidden until it is kept; with a share to keep, fresh attackers only tell
    what that share leaves them.
    """
    planned = (
        None
        if goal is None
        else budget_of_one(goal.aim.planned, problem.history, problem.classes.prior)
    )
    plan = problem.plan(stop=planned, tick=lambda done: tick(0.6 * done))
    if kept is not None or goal is None or planned is None:
        chosen = plan.at(1.0 if kept is None else kept)
        return chosen, problem.check(chosen)
    chosen = plan.under(planned) or plan.everything()
    return hide_until_kept(
        chosen,
        goal,
        check=problem.check,
        keep=problem.keep,
        step=_MORE,
        unreachable=lambda check: _unreachable(problem, goal.budget, check),
        tick=tick,
    )


def _too_long(history: int) -> LowtideError:
    return LowtideError(
        f"fewer than {FEWEST_PERSONS} writers have {history} texts among those that judge; ask for"
        " fewer (history), or give more texts"
    )


def _unreachable(problem: TextProblem, budget: Budget, check: Check) -> LowtideError:
    left = check.measured
    leakage = f"{left.value:.4f} nat [{left.low:.4f}, {left.high:.4f}]"
    kept = f"the {int(problem.keep.sum())} terms to keep, " if problem.keep.any() else ""
    return LowtideError(
        f"with every term hidden, {kept}words too rare to be terms, signs and the lengths of texts"
        f" still tell {leakage}; the budget is {budget}: raise it"
        + (", or keep fewer terms" if kept else "")
    )
