"""Attackers cross-fitted on one table: trained once per fold on all other rows, their answers pooled and scored.

Every fold is at most a fifth of the rows, so attackers learn from four fifths or more. Given what its attackers learnt
from, the answers about one fold are independent from row to row, so the intervals of scores hold for it. Pooled over
folds that is slightly approximate, since the attackers of one fold have learnt from the rows of the others. For
learners that one row more or less hardly changes the error vanishes as rows grow, and the plain standard error of all
pooled rows is the right one (Bayle, Bayle, Janson and Mackey 2020); tests on worlds with exact truth check it.

Attackers that take too long to be trained for every fold are trained once, beside the first, and tested on it alone.
They too learn from four fifths of the rows; their intervals are wider, as fewer rows test them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from lowtide.attack import scores
from lowtide.attack.attackers import Continued, Together, Validated
from lowtide.attack.learning_curve import PARTS, LearningCurve, LearningPoint, learning_curve
from lowtide.attack.lessons import Lesson, Lessons, Makers, Source, Table, Trained
from lowtide.interface import Attack, Estimate
from lowtide.splits import Split, each_set_aside
from lowtide.spread import mapped
from lowtide.types import Floats, Labels

_TOGETHER, _FOLDED = "together", "together, cross-fitted"
_LEAST_PER_CLASS = 4  # rows to learn from and to validate on
_LEAST_GROUPS = 3  # of each class, so that some can be set aside to validate, whatever others they are with

Answers = tuple[Mapping[str, Floats], ...]
"""What attackers say about the rows of each fold, `q(s|y)` (n, |S|), by name."""


class Learning(NamedTuple):
    """What an attacker makes of part of the rows, and its `q(s|y)` (n, |S|) having learnt from half of them."""

    curve: LearningCurve
    halved: Floats


@dataclass(frozen=True)
class FoldedPanel:
    """Attackers on folds of the rows.

    Attributes:
        names: of the attackers that are trained on the release.
        makers: of these, and of those they start from.
        joins: whether they are also joined into one.
        once: names of those that are trained beside the first fold only.
        codes: (n,) the class of each row.
        groups: (n,) rows of one group stay on one side of every split; `None` where each stands for itself.
        splits: of each fold: the rows to learn from, and those to test.
        seed: of all attackers.
        level: of the intervals.
    """

    names: tuple[str, ...]
    makers: Makers
    joins: bool
    once: frozenset[str]
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
        self, tables: Mapping[Table, Any], names: Sequence[str], tick: Callable[[], None] = lambda: None
    ) -> dict[Table, Answers]:
        """Train attackers beside every fold, on the release and on clean rows where there are any, and ask them.

        Args:
            tables: rows as attackers read them; `turned` are those of the release, read as the clean ones are.
            names: of the attackers on the release.
            tick: called after each training.

        Returns:
            What those trained on the release say about it, and, as far as there are tables for it, what those trained
            on clean rows say about these and about the release.
        """
        return train_all([self], tables, names, tick)[0]

    def lessons(self, names: Sequence[str], *, clean: bool) -> list[list[Lesson]]:
        """All trainings of `train`, of each fold."""
        found = []
        for fold, split in enumerate(self.splits):
            own = self._beside(fold, names)
            further = {name: maker.starts_from for name in own if isinstance(maker := self.makers[name], Continued)}
            lessons = [Lesson("release", name, split) for name in own if name not in further]
            for name in self._beside(fold, self.known) if clean else ():
                then = tuple(one for one, start in further.items() if start == name)
                lessons.append(Lesson("clean", name, split, then))
            found.append(lessons)
        return found

    def answers(self, told: Sequence[Trained], split: Split) -> dict[Table, dict[str, Floats]]:
        """What attackers that were trained beside a fold say about its rows, each and together, by table."""
        found: dict[Table, dict[str, Floats]] = {}
        for source, names in (("release", self.names), ("clean", self.known)):
            own = {one.name: one for one in told if one.source == source}
            own = {name: own[name] for name in names if name in own}
            joined = self._joined({name: one.judged for name, one in own.items() if one.judged is not None}, split)
            for table in next(iter(own.values())).answers if own else ():
                said = {name: one.answers[table] for name, one in own.items()}
                said |= {name: one({member: said[member] for member in one.weights}) for name, one in joined.items()}
                found[table] = said
        return found

    def pooled(self, answers: Answers) -> dict[str, Floats]:
        """`q(s|y)` of all rows that an attacker was tested on, in the order of `rows`, (n, |S|), by name.

        A fold's attackers start from the shares of the classes they learnt from. Bayes' rule turns these into the
        shares that all folds have in common, so that nothing learnt is no information in every fold.
        """
        found = {}
        for name in answers[0]:
            folds = [(one, split) for one, split in zip(answers, self.splits, strict=True) if name in one]
            order = np.argsort(np.concatenate([split.aside for _, split in folds]), kind="stable")
            parts = [_turned(one[name], self.prior / self._prior(split)) for one, split in folds]
            found[name] = np.concatenate(parts)[order]
        return found

    def places(self, pooled: Mapping[str, Floats]) -> dict[str, Labels]:
        """Where in `rows` the pooled answers of each attacker belong, (n,), by name."""
        rows = self.rows
        first = np.searchsorted(rows, np.sort(self.splits[0].aside))
        return {name: np.arange(len(rows)) if len(q) == len(rows) else first for name, q in pooled.items()}

    def scored(self, pooled: Mapping[str, Floats], trained_on: Source, target: Source) -> tuple[Attack, ...]:
        """Score pooled answers; the lower ends of each figure hold for all attackers together."""
        places, codes = self.places(pooled), self.codes[self.rows]
        return tuple(
            self._score(name, trained_on, target, q, codes[places[name]], len(pooled)) for name, q in pooled.items()
        )

    def guess(self) -> Attack:
        """The control that knows the prior only."""
        q = np.tile(self.prior, (len(self.rows), 1))
        return self._score("guess", "nothing", "release", q, self.codes[self.rows], 1)

    def learning(self, rows: Any, retrained: Sequence[Attack], pooled: Mapping[str, Floats]) -> Learning | None:
        """What the strongest cross-fitted attacker reads having learnt from parts of the rows.

        Args:
            rows: that were attacked.
            retrained: what attackers achieved on them.
            pooled: their answers.

        Returns:
            The curve, and its answers by half the rows; `None` where the rows cannot be halved.
        """
        # Neither one that is made of others nor one that goes on from another can be trained alone.
        alone = [one for one in retrained if one.attacker in self.known]
        cheap = [one for one in alone if one.attacker not in self.once] or alone
        parts = [panel for part in PARTS if (panel := self._smaller(part)) is not None]
        if not cheap or not parts or self._smaller(2) is None:
            return None
        name = max(cheap, key=lambda one: one.information.value).attacker
        answers = train_all(parts, {"release": rows}, (name,))
        asked = [(panel, panel.pooled(one["release"])[name]) for panel, one in zip(parts, answers, strict=True)]
        asked.append((self, pooled[name]))
        place = self.places(pooled)[name]
        codes = self.codes[self.rows][place]
        points = [LearningPoint(panel.learnt, *panel.scored({name: q}, "release", "release")) for panel, q in asked]
        curve = learning_curve(
            points,
            np.column_stack([scores.gains(q, codes, panel.prior) for panel, q in asked]),
            np.column_stack([(q.argmax(axis=1) == codes).astype(float) for _, q in asked]),
            self._fold_of_row()[place],
            entropy=float(-(self.prior * np.log(self.prior)).sum()),
            level=self.level,
        )
        return Learning(curve, asked[-2][1])

    @property
    def learnt(self) -> int:
        """How many rows an attacker learns from, the mean over the folds."""
        return round(np.mean([len(split.kept) for split in self.splits]))

    def _smaller(self, parts: int) -> "FoldedPanel | None":
        """The same folds with one of so many parts of the rows to learn from; `None` where a class has too few."""
        splits, seeds = [], np.random.SeedSequence(self.seed).spawn(len(self.splits))
        for split, seed in zip(self.splits, seeds, strict=True):
            codes, groups = self.codes[split.kept], None if self.groups is None else self.groups[split.kept]
            dealt = each_set_aside(codes, groups, np.ones(len(codes), dtype=bool), parts, seed=seed)
            part = dealt[0].aside
            if len(dealt) < parts or not _can_learn(
                codes[part], None if groups is None else groups[part], len(self.prior)
            ):
                return None
            splits.append(Split(split.kept[part], split.aside))
        return replace(self, splits=splits)

    def _fold_of_row(self) -> Labels:
        """The fold that tests each of `rows`, (n,)."""
        fold = np.concatenate([np.full(len(split.aside), k) for k, split in enumerate(self.splits)])
        return fold[np.argsort(np.concatenate([split.aside for split in self.splits]), kind="stable")]

    def trainings(self, *, clean: bool) -> int:
        """How many attackers `train` trains, for a progress bar."""
        return sum(1 + len(one.further) for lessons in self.lessons(self.names, clean=clean) for one in lessons)

    def _beside(self, fold: int, names: Sequence[str]) -> list[str]:
        """The attackers that are trained beside a fold."""
        return [name for name in names if fold == 0 or name not in self.once]

    def _joined(self, fitted: Mapping[str, Validated], split: Split) -> dict[str, Together]:
        """All attackers as one; and those that every fold has, where some are trained once."""
        if not self.joins:
            return {}
        folded = {name: attacker for name, attacker in fitted.items() if name not in self.once}
        some_once = len(self.splits) > 1 and any(name in self.once for name in self.names)
        sides = {_FOLDED: folded, _TOGETHER: fitted} if some_once else {_TOGETHER: fitted}
        if some_once and len(folded) == len(fitted):
            sides.pop(_TOGETHER)
        return {name: Together.of(side, self._prior(split)) for name, side in sides.items() if len(side) > 1}

    def _prior(self, split: Split) -> Floats:
        return np.bincount(self.codes[split.kept]) / len(split.kept)

    def _score(
        self,
        name: str,
        trained_on: Literal["release", "clean", "nothing"],
        target: Source,
        q: Floats,
        codes: Labels,
        compared: int,
    ) -> Attack:
        prior = self.prior
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


def train_all(
    panels: Sequence[FoldedPanel],
    tables: Mapping[Table, Any],
    names: Sequence[str],
    tick: Callable[[], None] = lambda: None,
) -> list[dict[Table, Answers]]:
    """Train the attackers of several panels on the same tables, as `FoldedPanel.train` does for each, all at once.

    Args:
        panels: of the same rows, makers and seed; their folds differ.
        tables: as for `FoldedPanel.train`.
        names: likewise.
        tick: likewise.
    """
    first = panels[0]
    teach = Lessons(first.makers, tables, first.codes, first.groups, first.seed, first.joins and len(names) > 1)
    planned = [panel.lessons(names, clean="clean" in tables) for panel in panels]
    done = mapped(teach, [lesson for folds in planned for lessons in folds for lesson in lessons])
    found: list[dict[Table, Answers]] = []
    for panel, folds in zip(panels, planned, strict=True):
        said = []
        for lessons, split in zip(folds, panel.splits, strict=True):
            told = []
            for one in islice(done, len(lessons)):
                told += one
                for _ in one:
                    tick()
            said.append(panel.answers(told, split))
        found.append({table: tuple(one[table] for one in said) for table in said[0]})
    return found


def _can_learn(codes: Labels, groups: Labels | None, classes: int) -> bool:
    """Whether rows (n,) have enough of each of so many classes, and enough groups of it, to learn and to validate."""
    if np.bincount(codes, minlength=classes).min() < _LEAST_PER_CLASS:
        return False
    if groups is None:
        return True
    pairs = np.unique(np.column_stack([codes, groups]), axis=0)
    return bool(np.bincount(pairs[:, 0], minlength=classes).min() >= _LEAST_GROUPS)


def _turned(q: Floats, ratio: Floats) -> Floats:
    """Probabilities (n, |S|) under other shares of the classes, `ratio` (|S|,) times those they were made for."""
    weighted = q * ratio
    return np.asarray(weighted / weighted.sum(axis=1, keepdims=True))
