"""Planning for texts: hide the terms that tell most for a word lost, and read what is left with a fresh attacker.

One occurrence of a term tells `Σ_s p(s|term) log p(s|term) / p(s)`, estimated by empirical Bayes from how many
writers bear a term out, not from how often it was written: what one writer always says is of no use against others.
Hiding a term does not change what another tells by itself, so the order is found once. Orders that follow the weights
of an attacker, retrained again and again, hide worse: a weight is small where other words say the same, and these say
it still when the word is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.special import log_softmax

from lowtide.attack.scores import calibrate
from lowtide.density.critics.bag import log_odds
from lowtide.density.objectives import with_overlooked
from lowtide.disclose.budget import Budget, Point, Reading, blended_worth
from lowtide.splits import Split
from lowtide.texts.learners import TermWeights, fit_logistic
from lowtide.texts.policies import FixedTerms
from lowtide.texts.terms import Vocabulary
from lowtide.types import Bools, Floats, Labels

Sparse: TypeAlias = Any  # scipy.sparse.csr_array, which carries no types
_PENALTY = 1.0
_STEP, _LATER_STEP, _LATER = 0.01, 0.025, 0.1  # shares of the words hidden between two readings, small at first
_FAINT = 1e-12  # worth of a term that does not occur
_MOST = 0.6  # share of the words up to which the curve is read
_ENOUGH = 0.5  # share of a budget at which the order is known far enough


@dataclass(frozen=True, eq=False)
class TermPlanner:
    """Finds the order of hiding, reading every release on the way with an attacker that is fitted afresh.

    Attributes:
        counts: (n, m) sparse counts of the terms of planning texts.
        codes: (n,) their classes.
        prior: (|S|,) shares of the classes.
        groups: (n,) texts of one group are one witness; `None` where each stands for itself.
        split: texts to fit attackers to, and texts of other groups to judge them by.
        keep: (m,) terms that must be shown.
        hide: (m,) terms that must be hidden.
        stop: a budget; hiding ends well below it.
        utility: (n,) classes of what the release should still tell; terms that carry it are hidden later.
        tick: called with the share of the work that is done.
    """

    counts: Sparse = field(repr=False)
    codes: Labels = field(repr=False)
    prior: Floats
    groups: Labels | None = field(repr=False)
    split: Split = field(repr=False)
    keep: Bools = field(repr=False)
    hide: Bools = field(repr=False)
    stop: Budget | None = None
    utility: Labels | None = field(default=None, repr=False)
    tick: Callable[[float], None] = field(default=lambda _: None, repr=False)

    def plan(self, vocabulary: Vocabulary) -> FixedTerms:
        """The policy that hides nothing but what must be, with the order and the curve of all others."""
        tokens = np.asarray(self.counts.sum(axis=0), dtype=np.float64).ravel()
        order = np.lexsort((-self._gain(tokens), self.keep, ~self.hide))
        gone = np.concatenate([[0.0], np.cumsum(tokens[order])]) / tokens.sum()
        depth, free = int(self.hide.sum()), len(tokens) - int((self.keep & ~self.hide).sum())
        policy = FixedTerms(vocabulary, self.hide & ~self.keep, order, tokens, self.keep, self.hide)
        curve: list[Point] = []
        while True:
            shown = np.sort(order[depth:])
            reading = self._attack(shown, self.codes, self.prior)
            useful = None if self.utility is None else self._attack(shown, self.utility, _shares(self.utility))
            curve.append(Point(policy.first(depth).hidden, 1 - float(gone[depth]), reading, useful))
            self.tick(min(1.0, float(gone[depth]) / _MOST))
            if depth >= free or gone[depth] >= _MOST or self._enough(reading):
                break
            step = _STEP if gone[depth] < _LATER else _LATER_STEP
            depth = min(free, max(depth + 1, int((gone <= gone[depth] + step).sum()) - 1))
        return replace(policy, curve=tuple(curve))

    def _gain(self, tokens: Floats) -> Floats:
        """(m,) what hiding each term gains for what it costs: a word, or its share of what should still be told."""
        secret = self._information(self.codes, len(self.prior))
        if self.utility is None:
            return secret
        plain = tokens / tokens.sum()
        useful = tokens * np.maximum(self._information(self.utility, int(self.utility.max()) + 1), 0.0)
        return secret * plain / np.maximum(blended_worth(plain, useful), _FAINT)

    def _information(self, codes: Labels, classes: int) -> Floats:
        """(m,) what one occurrence of each term tells of classes (n,), in nats.

        From all planning texts, those that read the curve too: whether the budget is kept, others will say.
        """
        share = np.bincount(codes, np.asarray(self.counts.sum(axis=1)).ravel(), minlength=classes)
        share = np.maximum(share / max(share.sum(), 1.0), 1e-6)
        odds = np.log(share) + log_odds(self.counts, codes, len(share), "counts", groups=self.groups)
        believed = log_softmax(odds, axis=1)
        return np.asarray((np.exp(believed) * (believed - np.log(share))).sum(axis=1))

    def _enough(self, reading: Reading) -> bool:
        limit = self.stop
        if limit is None:
            return False
        return Budget(limit.limit * (1 if limit.unit == "accuracy" else _ENOUGH), limit.unit).meets(reading)

    def _attack(self, shown: Labels, codes: Labels, prior: Floats) -> Reading:
        """What a fresh regression on the terms `shown` reads of the classes (n,) of texts of other groups."""
        fit, judge = self.split
        if not len(shown) or len(np.unique(codes[fit])) < len(prior):
            return _read(np.tile(np.log(prior), (len(judge), 1)), codes[judge], prior)
        train = self.counts[fit][:, shown]
        weights = TermWeights(train)
        model = fit_logistic(weights(train), codes[fit], _PENALTY)
        scores = np.asarray(model.predict_log_proba(weights(self.counts[judge][:, shown])))
        return _read(scores, codes[judge], prior)


def _shares(codes: Labels) -> Floats:
    """The share of each class of codes (n,)."""
    return np.bincount(codes) / len(codes)


def _read(scores: Floats, codes: Labels, prior: Floats) -> Reading:
    """What log probabilities (n, classes) say about texts of classes (n,)."""
    believed = calibrate(log_softmax(np.maximum(scores, -30.0), axis=1), codes, prior=prior)
    reading = Reading.of(np.log(believed(scores)) - np.log(prior), codes, prior)
    return replace(reading, leakage=with_overlooked(reading.leakage))
