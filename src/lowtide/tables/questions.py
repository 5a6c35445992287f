"""What a step of redraw is asked: what rows have released, and a candidate for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from lowtide.tables.codes import CodedColumn
from lowtide.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Question:
    """What a density is asked about n rows, which may be picked by their numbers.

    Attributes:
        past: (n, released) codes of what they have released.
        before: (n, …) how often the numbers among these occur, in classes; of columns with ranges.
        codes: (n, columns) codes of the candidate.
        classes: (n, columns) how often its numbers occur, in classes.
        fold: (n,) the fold of each row: models that were fitted without it answer.
    """

    past: Floats
    before: Ints
    codes: Floats
    classes: Ints
    fold: Ints

    @classmethod
    def of(
        cls,
        coded: Sequence[CodedColumn],
        codes: Floats,
        classes: Ints,
        fold: Ints,
        past: Sequence[int],
        own: Sequence[int],
    ) -> Self:
        """What is asked about `own` columns of rows (n, all columns) that have released `past`
        ones.
        """
        ranged = [j for j in past if coded[j].has_ranges]
        mine = list(own)
        return cls(codes[:, list(past)], classes[:, ranged], codes[:, mine], classes[:, mine], fold)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Question:
        """Some of the rows."""
        return Question(
            self.past[rows],
            self.before[rows],
            self.codes[rows],
            self.classes[rows],
            self.fold[rows],
        )

    def instead(self, codes: Floats, classes: Ints) -> Question:
        """The same pasts with other candidates: codes and classes (n, candidates, columns), row by
        row.
        """
        k, columns = codes.shape[1:]
        return Question(
            np.repeat(self.past, k, axis=0),
            np.repeat(self.before, k, axis=0),
            codes.reshape(-1, columns),
            classes.reshape(-1, columns),
            np.repeat(self.fold, k),
        )
