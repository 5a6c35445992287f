"""Attackers cross-fitted on one table: trained once per fold on all other rows, their answers
pooled and scored.

Every fold is at most a fifth of the rows, so attackers learn from four fifths or more. Given what
its attackers learnt from, the answers about one fold are independent from row to row, so the
intervals of scores hold for it. Pooled over folds that is slightly approximate, since the attackers
of one fold have learnt from the rows of the others. For learners that one row more or less hardly
changes the error vanishes as rows grow, and the plain standard error of all pooled rows is the
right one (Bayle, Bayle, Janson and Mackey 2020); tests on worlds with exact truth check it.

Which stage of an attacker answers about a fold, and how far it is believed, is decided by its
answers about the other folds, as `lowtide.estimate.reader` does; with one fold, by those about the
other parts of it.

Attackers that take too long to be trained for every fold are trained once, beside the first, and
tested on it alone. They too learn from four fifths of the rows; their intervals are wider, as fewer
rows test them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from lowtide.attack import scores
from lowtide.attack.attackers import TOLL, Continued
from lowtide.attack.learning_curve import PARTS, LearningCurve, LearningPoint, learning_curve
from lowtide.attack.lessons import Lesson, Lessons, Makers, Source, Table, Trained
from lowtide.estimate import stack
from lowtide.estimate.learners.base import Array, normalise
from lowtide.interface import Attack, Estimate
from lowtide.splits import Split, each_set_aside, grouped_folds, stratified_folds
from lowtide.spread import mapped
from lowtide.types import Floats, Labels

_TOGETHER = "together"
_FOLDED = "together, cross-fitted"
_LEAST_PER_CLASS = 4  # rows to learn from
_LEAST_GROUPS = 3  # of each class to learn from
_PARTS = 5  # of the test rows, where they are all in one fold

Answers = Mapping[str, Floats]
"""What attackers say of the rows they were tested on, `q(s|y)` (n, |S|), by name."""


class Read(NamedTuple):
    """What one attacker says of the rows it was tested on, at the stage that the other parts of
    them would stop at.

    Attributes:
        once: whether these are the rows of the first fold alone.
        densities: `log q(s|y)/p(s)` (n, |S|), not yet weighed, by table.
    """

    once: bool
    densities: Mapping[Table, Floats]


class Learning(NamedTuple):
    """What an attacker makes of part of the rows, and its `q(s|y)` (n, |S|) having learnt from half
    of them.
    """

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
        groups: (n,) rows of one group stay on one side of every split; `None` where each stands for
            itself.
        splits: of each fold: the rows to learn from, and those to test.
        seed: of all attackers.
        level: of the intervals.
        elsewhere: whether the rows to test come from elsewhere than those to learn from. These are
            in the first split; the second one is of rows to learn from, and only says how far
            attackers are believed.
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
    elsewhere: bool = False

    @property
    def known(self) -> tuple[str, ...]:
        """Those to train on clean rows: one that goes on from another needs the one that it starts
        from.
        """
        makers = ((name, self.makers[name]) for name in self.names)
        return tuple(
            dict.fromkeys(
                one.starts_from if isinstance(one, Continued) else name for name, one in makers
            )
        )

    @property
    def rows(self) -> Labels:
        """The rows that are tested, sorted."""
        return np.sort(np.concatenate([split.aside for split in self._tested]))

    @property
    def prior(self) -> Floats:
        """Shares of the classes among the rows to learn from, the mean over the folds, (|S|,)."""
        return np.mean([self._prior(split) for split in self._tested], axis=0)

    def train(
        self,
        tables: Mapping[Table, Any],
        names: Sequence[str],
        tick: Callable[[], None] = lambda: None,
    ) -> dict[Table, Answers]:
        """Train attackers beside every fold, on the release and on clean rows where there are any,
        and ask them.

        Args:
            tables: rows as attackers read them; `turned` are those of the release, read as the
                clean ones are.
            names: of the attackers on the release.
            tick: called after each training.

        Returns:
            What those trained on the release say about it, and, as far as there are tables for it,
            what those trained on clean rows say about these and about the release, each and
            together.
        """
        return train_all([self], tables, names, tick)[0]

    def lessons(self, names: Sequence[str], *, clean: bool) -> list[list[Lesson]]:
        """All trainings of `train`, of each fold."""
        found = []
        for fold, split in enumerate(self.splits):
            own = self._beside(fold, names)
            further = {
                name: maker.starts_from
                for name in own
                if isinstance(maker := self.makers[name], Continued)
            }
            lessons = [Lesson("release", name, split) for name in own if name not in further]
            for name in self._beside(fold, self.known) if clean else ():
                then = tuple(one for one, start in further.items() if start == name)
                lessons.append(Lesson("clean", name, split, then))
            found.append(lessons)
        return found

    def answers(self, trained: Sequence[Sequence[Trained]]) -> dict[Table, Answers]:
        """What attackers that were trained beside every fold say, each and together, by table.

        Those trained on clean rows are believed as far as their answers about clean rows say, when
        they answer about the release as well.
        """
        answers: dict[Table, dict[str, Floats]] = {}
        sources: dict[Source, tuple[str, ...]] = {"release": self.names, "clean": self.known}
        for source, names in sources.items():
            own = [[one for one in fold if one.source == source] for fold in trained]
            read = {name: self._read(own, source, name) for name in names if self._has(own, name)}
            sides = {name: (name,) for name in read} | self._joined(read)
            for side, members in sides.items():
                for table, q in self._weighed([read[name] for name in members], source).items():
                    answers.setdefault(table, {})[side] = q
        return dict(answers)

    @staticmethod
    def _has(trained: Sequence[Sequence[Trained]], name: str) -> bool:
        return any(one.name == name for one in trained[0])

    def _read(self, trained: Sequence[Sequence[Trained]], source: Table, name: str) -> Read:
        """Stop an attacker where the other parts of the rows say."""
        folds = [one.scores for fold in trained for one in fold if one.name == name]
        once = len(folds) < len(self.splits)
        order = np.argsort(
            np.concatenate([split.aside for split in self.splits[: len(folds)]]), kind="stable"
        )
        scores = {
            table: _joined_rows([fold[table] for fold in folds])[:, order] for table in folds[0]
        }
        every = np.arange(len(order))
        codes = self._codes(once)
        losses = np.stack(
            [
                -normalise(stage.astype(np.float64), self._log_prior)[every, codes]
                for stage in scores[source]
            ]
        )
        at, _ = stack.stop_without_looking(losses, self._part(once))
        return Read(
            once,
            {
                table: normalise(answers[at, every].astype(np.float64), self._log_prior)
                for table, answers in scores.items()
            },
        )

    def _weighed(self, read: Sequence[Read], source: Table) -> dict[Table, Floats]:
        """`q(s|y)` (n, |S|) of one attacker, or of several together, by table.

        Together they speak of the rows that all of them were tested on.
        """
        once = any(one.once for one in read)
        codes = self._codes(once)
        part = self._part(once)
        first = self._first()
        # Where one was trained once, the others are asked about the first fold only.
        densities = {
            table: np.stack(
                [
                    one.densities[table][first] if once and not one.once else one.densities[table]
                    for one in read
                ]
            )
            for table in read[0].densities
        }
        weights = stack.weights_by_part(densities[source], codes, self._log_prior, part, tolls=TOLL)
        judged = len(part) - np.bincount(part)[part]
        tested = np.isin(self._held_out, self.rows) if self.elsewhere else slice(None)
        return {
            table: stack.never_certain(
                stack.mixed_by_part(answers, weights, self._log_prior, part),
                self._log_prior,
                judged,
            )[tested]
            for table, answers in densities.items()
        }

    @property
    def _log_prior(self) -> Floats:
        return np.log(self.prior)

    @property
    def _tested(self) -> Sequence[Split]:
        return self.splits[:1] if self.elsewhere else self.splits

    @property
    def _held_out(self) -> Labels:
        """The rows of all splits, sorted."""
        return np.sort(np.concatenate([split.aside for split in self.splits]))

    def _codes(self, once: bool) -> Labels:
        """The classes of all held-out rows, or those of the first fold, (n,)."""
        codes = self.codes[self._held_out]
        return codes[self._first()] if once else codes

    def _first(self) -> Labels:
        """The places of the first fold among all held-out rows."""
        return np.searchsorted(self._held_out, np.sort(self.splits[0].aside))

    def _part(self, once: bool) -> Labels:
        """The part (n,) of each row: its fold; where there is one fold, a fifth of it."""
        if len(self.splits) > 1 and not once:
            return self._fold_of_row()
        rows = np.sort(self.splits[0].aside)
        rng = np.random.default_rng(self.seed)
        if self.groups is not None:
            part = grouped_folds(self.codes[rows], self.groups[rows], _PARTS, rng)
            if len(np.unique(part)) > 1:
                return part
        return stratified_folds(self.codes[rows], _PARTS, rng)

    def places(self, pooled: Mapping[str, Floats]) -> dict[str, Labels]:
        """Where in `rows` the pooled answers of each attacker belong, (n,), by name."""
        rows = self.rows
        first = np.searchsorted(rows, np.sort(self.splits[0].aside))
        return {
            name: np.arange(len(rows)) if len(q) == len(rows) else first
            for name, q in pooled.items()
        }

    def scored(
        self, pooled: Mapping[str, Floats], trained_on: Source, target: Source
    ) -> tuple[Attack, ...]:
        """Score pooled answers; the lower ends of each figure hold for all attackers together."""
        places = self.places(pooled)
        codes = self.codes[self.rows]
        return tuple(
            self._score(name, trained_on, target, q, codes[places[name]], len(pooled))
            for name, q in pooled.items()
        )

    def guess(self) -> Attack:
        """The control that knows the prior only."""
        q = np.tile(self.prior, (len(self.rows), 1))
        return self._score("guess", "nothing", "release", q, self.codes[self.rows], 1)

    def learning(
        self, rows: Any, retrained: Sequence[Attack], pooled: Mapping[str, Floats]
    ) -> Learning | None:
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
        asked = [(panel, one["release"][name]) for panel, one in zip(parts, answers, strict=True)]
        asked.append((self, pooled[name]))
        place = self.places(pooled)[name]
        codes = self.codes[self.rows][place]
        points = [
            LearningPoint(panel.learnt, *panel.scored({name: q}, "release", "release"))
            for panel, q in asked
        ]
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
        return round(np.mean([len(split.kept) for split in self._tested]))

    def _smaller(self, parts: int) -> "FoldedPanel | None":
        """The same folds with one of so many parts of the rows to learn from; `None` where a class
        has too few.
        """
        splits = []
        seeds = np.random.SeedSequence(self.seed).spawn(len(self.splits))
        for split, seed in zip(self.splits, seeds, strict=True):
            codes = self.codes[split.kept]
            groups = None if self.groups is None else self.groups[split.kept]
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
        return fold[
            np.argsort(np.concatenate([split.aside for split in self.splits]), kind="stable")
        ]

    def trainings(self, *, clean: bool) -> int:
        """How many attackers `train` trains, for a progress bar."""
        return sum(
            1 + len(one.further)
            for lessons in self.lessons(self.names, clean=clean)
            for one in lessons
        )

    def _beside(self, fold: int, names: Sequence[str]) -> list[str]:
        """The attackers that are trained beside a fold."""
        return [name for name in names if fold == 0 or self.elsewhere or name not in self.once]

    def _joined(self, read: Mapping[str, Read]) -> dict[str, tuple[str, ...]]:
        """Who speaks together: all attackers; and those that every fold has, where some are trained
        once.
        """
        if not self.joins:
            return {}
        folded = tuple(name for name, one in read.items() if not one.once)
        some_once = len(folded) < len(read)
        sides = {_FOLDED: folded} if some_once else {}
        sides[_TOGETHER] = tuple(read)
        return {name: side for name, side in sides.items() if len(side) > 1}

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
        # Whoever picks the best of k attackers picks its luck as well: each lower end takes 1/k of
        # the failure, so that all hold together. An upper end needs no such price: that of the
        # truly strongest holds, whoever it is.
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
    """Train the attackers of several panels on the same tables, as `FoldedPanel.train` does for
    each, all at once.

    Args:
        panels: of the same rows, makers and seed; their folds differ.
        tables: as for `FoldedPanel.train`.
        names: likewise.
        tick: likewise.
    """
    first = panels[0]
    teach = Lessons(first.makers, tables, first.codes, first.seed)
    planned = [panel.lessons(names, clean="clean" in tables) for panel in panels]
    done = mapped(teach, [lesson for folds in planned for lessons in folds for lesson in lessons])
    answers = []
    for panel, folds in zip(panels, planned, strict=True):
        trained: list[list[Trained]] = []
        for lessons in folds:
            beside = [one for several in islice(done, len(lessons)) for one in several]
            trained.append(beside)
            for _ in beside:
                tick()
        answers.append(panel.answers(trained))
    return answers


def _can_learn(codes: Labels, groups: Labels | None, classes: int) -> bool:
    """Whether rows (n,) have enough of each of so many classes, and enough groups of it, to
    learn.
    """
    if np.bincount(codes, minlength=classes).min() < _LEAST_PER_CLASS:
        return False
    if groups is None:
        return True
    pairs = np.unique(np.column_stack([codes, groups]), axis=0)
    return bool(np.bincount(pairs[:, 0], minlength=classes).min() >= _LEAST_GROUPS)


def _joined_rows(folds: Sequence[Array]) -> Array:
    """Scores (stages, n, |S|) of the rows of all folds, one after the other; a path that ended
    early stays as it was.
    """
    stages = max(map(len, folds))
    return np.concatenate(
        [scores[np.minimum(np.arange(stages), len(scores) - 1)] for scores in folds], axis=1
    )
