"""Trainings of attackers, one by one: each is a function of tables and a split, and can be done by any process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from lowtide.attack.attackers import Attacker, Continued, Held, Maker
from lowtide.splits import Split
from lowtide.types import Floats, Labels

Source = Literal["release", "clean"]
Table = Literal["release", "clean", "turned"]
"""What attackers are asked about; `turned` is the release as who was trained on clean rows reads it."""

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


class Judged(NamedTuple):
    """What a trained attacker is joined with others by; see `Validated`."""

    validation: float
    held: Held


class Trained(NamedTuple):
    """An attacker once it is trained: what it says.

    Attributes:
        source: the table that it learnt from.
        name: of the attacker.
        answers: `q(s|y)` about the rows of its fold, (n, |S|), by table.
        judged: what it is joined by, where attackers are.
    """

    source: Source
    name: str
    answers: Mapping[Table, Floats]
    judged: Judged | None


@dataclass(frozen=True, eq=False)
class Lessons:
    """Trains attackers: a pure function of a lesson.

    Attributes:
        makers: of all attackers.
        tables: rows as attackers read them.
        codes: (n,) the class of each row.
        groups: (n,) rows of one group stay on one side of every split; `None` where each stands for itself.
        seed: one for all attackers: they set the same validation rows aside.
        joins: whether attackers are joined.
    """

    makers: Makers
    tables: Mapping[Table, Any]
    codes: Labels
    groups: Labels | None
    seed: int
    joins: bool

    def __call__(self, lesson: Lesson) -> list[Trained]:
        """Train an attacker, then those that go on from it, and ask each about the fold."""
        maker = self.makers[lesson.name]
        if isinstance(maker, Continued):
            raise TypeError(f"{lesson.name} goes on from {maker.starts_from}, and is not trained alone")
        first = self._fitted(maker(self.seed), lesson.source, lesson.split)
        found = [self._told(first, lesson.source, lesson.name, lesson.split)]
        for name in lesson.further:
            then = self.makers[name]
            if isinstance(then, Continued):
                attacker = self._fitted(then.make(first, self.seed), "release", lesson.split)
                found.append(self._told(attacker, "release", name, lesson.split))
        return found

    def _fitted(self, attacker: Attacker, source: Source, split: Split) -> Attacker:
        groups = None if self.groups is None else self.groups[split.kept]
        return attacker.fit(self.tables[source][split.kept], self.codes[split.kept], groups)

    def _told(self, attacker: Attacker, source: Source, name: str, split: Split) -> Trained:
        asked = [table for table in _ASKED[source] if table in self.tables]
        answers = {table: attacker.probabilities(self.tables[table][split.aside]) for table in asked}
        judged = Judged(attacker.validation, attacker.held) if self.joins else None
        return Trained(source, name, answers, judged)
