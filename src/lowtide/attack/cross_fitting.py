"""Attackers cross-fitted on one table: trained once per fold on all other rows, their answers pooled and scored.

Every fold is at most a fifth of the rows, so attackers learn from four fifths or more. Given what its attackers learnt
from, the answers about one fold are independent from row to row, so the intervals of scores hold for it. Pooled over
folds that is slightly approximate, since the attackers of one fold have learnt from the rows of the others. For
learners that one row more or less hardly changes the error vanishes as rows grow, and the plain standard error of all
pooled rows is the right one (Bayle, Bayle, Janson and Mackey 2020); tests on worlds with exact truth check it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from lowtide.attack import scores
from lowtide.attack.attackers import Attacker, Continued, Maker, Together
from lowtide.interface import Attack, Estimate
from lowtide.splits import Split, each_set_aside
from lowtide.types import Floats, Labels

Source = Literal["release", "clean"]
Makers = Mapping[str, Maker | Continued]
"""Makers of attackers by name."""
_TOGETHER = "together"
_LEAST_PER_CLASS = 4  # rows to learn from and to validate on
_CLEAR = 2.0  # standard errors
_RISE_RIGHT, _RISE_TOLD = 0.01, 0.1  # a point of right guesses; a tenth of the information


@dataclass(frozen=True)
class LearningCurve:
    """What an attacker reads having learnt from all the rows it may learn from, and from half of them.

    What errs by about 1/n still has as much to gain from more rows as it gained from the second half.

    Attributes:
        rows: how many rows it learnt from.
        half_rows: how many are half of them.
        whole: what it achieved having learnt from all of them.
        half: the same on the same test rows, having learnt from half.
        reads_more: whether it gains clearly more information from all rows, by a tenth of it or more.
        right_more: whether it is right clearly more often, by a point or more.
    """

    rows: int
    half_rows: int
    whole: Attack
    half: Attack
    reads_more: bool
    right_more: bool

    @property
    def rising(self) -> bool:
        """Whether an attacker with more rows would read more.

        One that reads nothing from all rows, and misleads itself with half of them, has not shown that.
        """
        return self.right_more or (self.reads_more and self.whole.information.low > 0)


class FoldAnswers(NamedTuple):
    """Attackers that were trained beside one fold, and what they say about its rows, `q(s|y)` (n, |S|), by name."""

    attackers: dict[str, Attacker]
    together: Together | None
    tested: dict[str, Floats]


Answers = tuple[FoldAnswers, ...]
"""One entry per fold."""


@dataclass(frozen=True)
class FoldedPanel:
    """Attackers on folds of the rows.

    Attributes:
        names: of the attackers that are trained on the release.
        makers: of these, and of those they start from.
        joins: whether they are also joined into one.
        codes: (n,) the class of each row.
        groups: (n,) rows of one group stay on one side of every split; `None` where each stands for itself.
        splits: of each fold: the rows to learn from, and those to test.
        seed: of all attackers.
        level: of the intervals.
    """

    names: tuple[str, ...]
    makers: Makers
    joins: bool
    codes: Labels
    groups: Labels | None
    splits: Sequence[Split]
    seed: int
    level: float

    @property
    def known(self) -> tuple[str, ...]:
        """Those to train on clean rows: one that goes on from another needs the one that it starts from."""
        makers = ((name, self.makers[name]) for name in self.names)
        return tuple(dict.fromkeys(one.starts_from if isinstance(one, Continued) else name for name, one in makers))

    @property
    def rows(self) -> Labels:
        """The rows that are tested, sorted."""
        return np.sort(np.concatenate([split.aside for split in self.splits]))

    @property
    def prior(self) -> Floats:
        """Shares of the classes among the rows to learn from, the mean over the folds, (|S|,)."""
        return np.mean([self._prior(split) for split in self.splits], axis=0)

    def train(
        self, rows: Any, names: Sequence[str], tick: Callable[[], None] = lambda: None, *, clean: Answers | None = None
    ) -> Answers:
        """Train attackers beside every fold, from `clean` ones where they need it, and ask about the fold."""
        found = []
        for fold, split in enumerate(self.splits):
            groups = None if self.groups is None else self.groups[split.kept]
            fitted: dict[str, Attacker] = {}
            for name in names:
                # One seed for all: they set the same validation rows aside.
                attacker = _made(self.makers[name], self.seed, {} if clean is None else clean[fold].attackers)
                fitted[name] = attacker.fit(rows[split.kept], self.codes[split.kept], groups)
                tick()
            joined = Together.of(fitted, self._prior(split)) if self.joins and len(fitted) > 1 else None
            found.append(self._asked(FoldAnswers(fitted, joined, {}), rows, split))
        return tuple(found)

    def test(self, answers: Answers, rows: Any) -> Answers:
        """Ask trained attackers about the test rows of another table."""
        return tuple(self._asked(one, rows, split) for one, split in zip(answers, self.splits, strict=True))

    def pooled(self, answers: Answers) -> dict[str, Floats]:
        """`q(s|y)` of all tested rows in the order of `rows`, (n, |S|), by name.

        A fold's attackers start from the shares of the classes they learnt from. Bayes' rule turns these into the
        shares that all folds have in common, so that nothing learnt is no information in every fold.
        """
        order = np.argsort(np.concatenate([split.aside for split in self.splits]), kind="stable")
        found = {}
        for name in answers[0].tested:
            parts = [
                _turned(one.tested[name], self.prior / self._prior(split))
                for one, split in zip(answers, self.splits, strict=True)
            ]
            found[name] = np.concatenate(parts)[order]
        return found

    def scored(self, pooled: Mapping[str, Floats], trained_on: Source, target: Source) -> tuple[Attack, ...]:
        """Score pooled answers; the lower ends of each figure hold for all attackers together."""
        return tuple(self._score(name, trained_on, target, q, len(pooled)) for name, q in pooled.items())

    def guess(self) -> Attack:
        """The control that knows the prior only."""
        return self._score("guess", "nothing", "release", np.tile(self.prior, (len(self.rows), 1)), 1)

    def curve(self, rows: Any, retrained: Sequence[Attack], pooled: Mapping[str, Floats]) -> LearningCurve | None:
        """What the strongest attacker reads having learnt from half the rows; `None` where they cannot be halved.

        Args:
            rows: that were attacked.
            retrained: what attackers achieved on them.
            pooled: their answers.
        """
        halves = [half for split in self.splits if (half := self._halved(split)) is not None]
        # Neither one that is made of others nor one that goes on from another can be trained alone.
        alone = [one for one in retrained if one.attacker in self.known]
        if not alone or len(halves) < len(self.splits):
            return None
        whole = max(alone, key=lambda one: one.information.value)
        less = replace(self, splits=halves)
        told = less.pooled(less.train(rows, (whole.attacker,)))
        codes, (short,) = self.codes[self.rows], less.scored(told, "release", "release")
        before, after = told[whole.attacker], pooled[whole.attacker]
        gained = scores.gains(after, codes, self.prior) - scores.gains(before, codes, less.prior)
        righter = (after.argmax(axis=1) == codes).astype(float) - (before.argmax(axis=1) == codes)
        return LearningCurve(
            round(np.mean([len(split.kept) for split in self.splits])),
            round(np.mean([len(split.kept) for split in halves])),
            whole,
            short,
            _clearly(gained) and gained.mean() >= _RISE_TOLD * whole.information.value,
            _clearly(righter) and righter.mean() >= _RISE_RIGHT,
        )

    def _halved(self, split: Split) -> Split | None:
        """Half of the rows to learn from; `None` where that leaves too few of a class."""
        codes, groups = self.codes[split.kept], None if self.groups is None else self.groups[split.kept]
        every = np.ones(len(codes), dtype=bool)
        halves = each_set_aside(codes, groups, every, 2, seed=np.random.SeedSequence(self.seed))
        kept = split.kept[halves[0].kept]
        enough = np.bincount(self.codes[kept], minlength=int(codes.max()) + 1).min() >= _LEAST_PER_CLASS
        return Split(kept, split.aside) if len(halves) == 2 and enough else None

    def _asked(self, answers: FoldAnswers, rows: Any, split: Split) -> FoldAnswers:
        target = rows[split.aside]
        tested = {name: attacker.probabilities(target) for name, attacker in answers.attackers.items()}
        if answers.together is not None:
            tested[_TOGETHER] = answers.together(tested)
        return answers._replace(tested=tested)

    def _prior(self, split: Split) -> Floats:
        return np.bincount(self.codes[split.kept]) / len(split.kept)

    def _score(
        self, name: str, trained_on: Literal["release", "clean", "nothing"], target: Source, q: Floats, compared: int
    ) -> Attack:
        codes, prior = self.codes[self.rows], self.prior
        # Whoever picks the best of k attackers picks its luck as well: each lower end takes 1/k of the failure, so that
        # all hold together. An upper end needs no such price: that of the truly strongest holds, whoever it is.
        paid = 1 - (1 - self.level) / compared

        def both(score: Callable[[float], Estimate]) -> Estimate:
            plain = score(self.level)
            return replace(plain, low=score(paid).low)

        return Attack(
            name,
            trained_on,
            target,
            accuracy=both(lambda level: scores.accuracy(q, codes, level=level)),
            auc=both(lambda level: scores.auc(q, codes, level=level)),
            information=both(lambda level: scores.information(q, codes, prior=prior, level=level)),
        )


def _made(maker: Maker | Continued, seed: int, clean: Mapping[str, Attacker]) -> Attacker:
    return maker.make(clean[maker.starts_from], seed) if isinstance(maker, Continued) else maker(seed)


def _turned(q: Floats, ratio: Floats) -> Floats:
    """Probabilities (n, |S|) under other shares of the classes, `ratio` (|S|,) times those they were made for."""
    weighted = q * ratio
    return np.asarray(weighted / weighted.sum(axis=1, keepdims=True))


def _clearly(values: Floats) -> bool:
    """Whether the mean of values (n,) lies above 0 by two standard errors."""
    return bool(values.mean() > _CLEAR * values.std() / len(values) ** 0.5)
