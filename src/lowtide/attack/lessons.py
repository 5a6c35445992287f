"""Trainings of attackers, one by one: each is a function of tables and a split, and can be done by
any process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from lowtide.attack.attackers import Continued, Maker, shown_to
from lowtide.estimate.learners.base import Array, Learner, Path
from lowtide.splits import Split
from lowtide.training import one_thread
from lowtide.types import Labels

Source = Literal["release", "clean"]
Table = Literal["release", "clean", "turned"]
"""What attackers are asked about; `turned` is the release as who was trained on clean rows reads
it.
"""

Makers = Mapping[str, Maker | Continued]
"""Makers of attackers by name."""
_ASKED: Mapping[Source, tuple[Table, ...]] = {"release": ("release",), "clean": ("clean", "turned")}


class Lesson(NamedTuple):
    """An attacker to train.

    Attributes:
        source: the table that it learns from.
        name: of the attacker.
        split: the rows to learn from, and those it is asked about.
        further: attackers that go on from it on the release.
    """

    source: Source
    name: str
    split: Split
    further: tuple[str, ...] = ()


class Trained(NamedTuple):
    """An attacker once it is trained: what it says.

    Attributes:
        source: the table that it learnt from.
        name: of the attacker.
        scores: (stages, n, |S|) of the rows of its fold, by table; see `Path.scores`.
    """

    source: Source
    name: str
    scores: Mapping[Table, Array]


@dataclass(frozen=True, eq=False)
class Lessons:
    """Trains attackers: a pure function of a lesson.

    Attributes:
        makers: of all attackers.
        tables: rows as attackers read them.
        codes: (n,) the class of each row.
        seed: of all attackers.
    """

    makers: Makers
    tables: Mapping[Table, Any]
    codes: Labels
    seed: int

    def __call__(self, lesson: Lesson) -> list[Trained]:
        """Train an attacker, then those that go on from it, and ask each about the fold."""
        maker = self.makers[lesson.name]
        if isinstance(maker, Continued):
            raise TypeError(
                f"{lesson.name} goes on from {maker.starts_from}, and is not trained alone"
            )
        learner = maker(self.seed)
        first = self._fitted(learner, lesson.source, lesson.split)
        trained = [self._asked(learner, first, lesson.source, lesson.name, lesson.split)]
        for name in lesson.further:
            then = self.makers[name]
            if isinstance(then, Continued):
                path = None
                if first is not None:
                    learner = then.make(first, self.seed)
                    path = self._fitted(learner, "release", lesson.split)
                trained.append(self._asked(learner, path, "release", name, lesson.split))
        return trained

    def _fitted(self, learner: Learner, source: Source, split: Split) -> Path | None:
        rows = shown_to(learner, self.tables[source])
        codes = self.codes[split.kept]
        held = rows[split.aside], self.codes[split.aside]
        log_prior = np.log(np.bincount(codes) / len(codes))
        with one_thread(len(codes)):
            return learner.fit(rows[split.kept], codes, log_prior, held=held)

    def _asked(
        self, learner: Learner, path: Path | None, source: Source, name: str, split: Split
    ) -> Trained:
        scores: dict[Table, Array] = {}
        for table in _ASKED[source]:
            if table not in self.tables:
                continue
            rows = shown_to(learner, self.tables[table])[split.aside]
            if path is None:  # there was nothing for it to learn from
                scores[table] = np.zeros((1, len(split.aside), int(self.codes.max()) + 1))
                continue
            with one_thread(len(split.aside)):
                scores[table] = np.asarray(path.scores(rows), dtype=np.float32)
        return Trained(source, name, scores)
