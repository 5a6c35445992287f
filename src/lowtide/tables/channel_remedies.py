"""What redraw does about a column that tells the secret beside its values: by its last digit, its
spelling, a count.

Densities see cells of values, and a range of numbers is one cell: what the digits within it tell,
no step takes back. So the released reference rows are read channel by channel. A number whose
digits tell is rounded, as little as silences them, before anything else is done to it; what cannot
be rounded is hidden from everybody, and filled in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from lowtide.attack.panel import attack
from lowtide.attack.surface import ChannelLeak, Surface, SurfacedRows, telling_channels
from lowtide.errors import LowtideError
from lowtide.formatting import visible
from lowtide.interface import Estimate
from lowtide.splits import generator, sample_with_classes
from lowtide.tables.codes import CodedColumn
from lowtide.tables.redraw_policy import write_codes
from lowtide.tables.redrawing import RedrawnRows
from lowtide.tables.surface import read_columns
from lowtide.types import Floats, Ints

_LEVEL = 0.99  # of all channels together: about one plan in a hundred rounds a number for nothing
_FEWEST_VALUES = 20  # that rounding may leave; a coarser column says little more than a hidden one
_FINEST = 6  # decimal places of its span that a number without a grid is first rounded to
_SPANS = {
    "time": (60.0, 3600.0, 86_400.0, 604_800.0),
    "day": (7.0,),
}  # of dates, in seconds and in days
_SPAN_WORDS = {
    "time": {
        60.0: "whole minutes",
        3600.0: "whole hours",
        86_400.0: "whole days",
        604_800.0: "whole weeks",
    },
    "day": {7.0: "whole weeks"},
}
_WORDS = {
    1e-2: "hundredths",
    1e-1: "tenths",
    1.0: "whole numbers",
    1e1: "tens",
    1e2: "hundreds",
    1e3: "thousands",
}
_AS_WRITTEN = (
    "sign of zero",
    "spelling of missing values",
)  # gone as soon as all values are written anew
_ROWS_OF_CATEGORY = 50  # on average, from which a density knows what every category tells
_ATTACKED_ROWS = 5000
_LEAST_PER_CLASS = 5


@dataclass(frozen=True)
class Remedy:
    """What is done about a column.

    Attributes:
        column: its name.
        channel: what told the secret, in words.
        grain: what its numbers are rounded to multiples of; 0 where the column is hidden and filled
            in.
        rounded: the same in words; empty where it is hidden.
    """

    column: str
    channel: str
    grain: float = 0.0
    rounded: str = ""

    def __str__(self) -> str:
        done = f"rounded to {self.rounded}" if self.grain else "hidden, and filled in"
        return f"{self.channel} told the secret: {self.column!r} is now {done}"


@dataclass(frozen=True, eq=False)
class ReleasedColumns:
    """Redrawn reference rows, as their surface is looked at.

    Attributes:
        frame: the released data frame.
        coded: how its columns are coded.
        codes: (n, columns) of the released values.
        secret: (n,) classes.
        kept: the names of columns that must be released as they are.
        limit: nats that a channel may tell.
        seed: of halves and attackers.
    """

    frame: Any
    coded: tuple[CodedColumn, ...]
    codes: Floats
    secret: Ints
    kept: Collection[str]
    limit: float
    seed: int

    def remedies(self, surface: Surface) -> list[Remedy]:
        """What to do about every column that has a channel which tells more than the limit beyond
        its values.
        """
        found: dict[str, Remedy] = {}
        whole: ChannelLeak | None = None
        for leak in self._telling(surface):
            column = _column_of(leak, surface)
            if column is None:
                whole = leak
            elif column not in found:
                found[column] = self._remedy(column, leak)
        if whole is not None and not found:
            raise LowtideError(
                f"{whole.name} tells the secret ({whole.told.low:.4f} nat at least), and no column"
                " does by itself; drop repeated rows, or use policy='fixed'"
            )
        return list(found.values())

    def joint_remedy(self, surface: Surface) -> Remedy:
        """What to do where no channel tells by itself, and all of them together do: hide the column
        they need most.

        The attacker of the surface is asked again without each column; the one is hidden without
        which it reads least.
        """
        rows = sample_with_classes(
            self.secret,
            _ATTACKED_ROWS,
            _LEAST_PER_CLASS,
            generator(self.seed, "table attacked rows"),
        )
        left: dict[str, Estimate] = {}
        for own in self.coded:
            if own.name not in self.kept:
                seen = SurfacedRows(self.codes[rows], partial(_without, surface, own.name), rows)
                report = attack(
                    seen, self.secret[rows], attackers="surface", seed=self.seed, progress=False
                )
                left[own.name] = report.headline.information
        name = min(left, key=lambda one: left[one].value)
        return Remedy(
            name,
            f"the surface of {name!r} (its digits, spelling and counts, with those of other"
            " columns)",
        )

    def _telling(self, surface: Surface) -> list[ChannelLeak]:
        leaks = telling_channels(surface, self.secret, seed=self.seed, level=_LEVEL)
        return [
            leak
            for leak in leaks
            if leak.told.low > self.limit and not self._follows_from_values(leak, surface)
        ]

    def _follows_from_values(self, leak: ChannelLeak, surface: Surface) -> bool:
        columns = _columns_of(leak, surface)
        return bool(columns) and self._known_by_value.issuperset(columns)

    @cached_property
    def _known_by_value(self) -> frozenset[str]:
        """Columns of few categories: how a value is written, and how often, follows from which it
        is, and densities have seen each of them often.
        """
        categories = (own for own in self.coded if own.is_category)
        most = len(self.codes) / _ROWS_OF_CATEGORY
        return frozenset(own.name for own in categories if own.cells <= most)

    def _remedy(self, column: str, leak: ChannelLeak) -> Remedy:
        if column in self.kept:
            raise LowtideError(
                f"{leak.name} tells the secret ({leak.told.low:.4f} nat at least), and the column"
                f" is to be kept as it is: leave {visible(column)} out of keep, or round it"
                " beforehand"
            )
        place = next(j for j, own in enumerate(self.coded) if own.name == column)
        own = self.coded[place]
        rewritten = any(word in leak.name for word in _AS_WRITTEN)
        for grain in grains(own, self.codes[:, place], rewritten=rewritten):
            coarse = replace(own, grain=grain)
            codes = coarse.coarsened(self.codes[:, [place]])
            if not rewritten and len(np.unique(codes[~np.isnan(codes)])) < _FEWEST_VALUES:
                break
            frame = nw.from_native(self.frame, eager_only=True).select(column).to_native()
            changed = np.ones(codes.shape, dtype=bool)
            rounded = write_codes(
                (coarse,), frame, RedrawnRows(codes, changed, np.zeros(len(codes)))
            )
            if not self._telling(read_columns(rounded)):
                return Remedy(column, leak.name, grain, in_words(grain, own))
        return Remedy(column, leak.name)


def grains(own: CodedColumn, codes: Floats, *, rewritten: bool = False) -> Iterator[float]:
    """What the numbers of a column may be rounded to, finer first; nothing for categories.

    Args:
        own: the column.
        codes: (n,) its values.
        rewritten: whether it may help to write values anew, on the grid that they have.
    """
    least = max(own.grain, own.step)
    if own.is_category:
        return
    if rewritten and own.step > 0:
        yield own.step
    if own.dates is not None:
        yield from (span for span in _SPANS[own.dates] if span > least)
        return
    span = float(np.nanmax(codes) - np.nanmin(codes)) if np.isfinite(codes).any() else 0.0
    if span <= 0:
        return
    first = np.log10(least) if least > 0 else np.log10(span) - _FINEST
    for power in range(int(np.floor(first + 1e-9)) + 1, int(np.floor(np.log10(span))) + 1):
        yield 10.0**power


def in_words(grain: float, own: CodedColumn) -> str:
    """What a column is rounded to."""
    words = _WORDS if own.dates is None else _SPAN_WORDS[own.dates]
    return words.get(grain, f"multiples of {grain:g}")


def _column_of(leak: ChannelLeak, surface: Surface) -> str | None:
    """The column that a channel is read from, of two the second; `None` of one that is read from
    whole rows.
    """
    columns = _columns_of(leak, surface)
    return columns[-1] if columns else None


def _columns_of(leak: ChannelLeak, surface: Surface) -> tuple[str, ...]:
    """The columns that a channel is read from; none of one that is read from whole rows."""
    if leak.name in surface.spelling:
        return (surface.spelled[leak.name],)
    return surface.columns[surface.names.index(leak.name)]


def _without(surface: Surface, name: str) -> Surface:
    """The surface without what is read from a column, alone or with another."""
    places = [k for k, columns in enumerate(surface.columns) if name not in columns]
    return replace(
        surface,
        names=tuple(surface.names[k] for k in places),
        channels=surface.channels[:, places],
        behind=tuple(surface.behind[k] for k in places),
        columns=tuple(surface.columns[k] for k in places),
        spelling={
            key: runs for key, runs in surface.spelling.items() if surface.spelled[key] != name
        },
    )


def refuse_unsilenced(remedies: Sequence[Remedy]) -> LowtideError:
    """The error where the surface still tells after all that could be done."""
    last = remedies[-1]
    return LowtideError(
        f"{last.channel} goes on telling the secret after {len(remedies)} remedies; hide the column"
        f" (--hide {visible(last.column)}), or round its values beforehand"
    )
