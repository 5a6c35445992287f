"""Rows set aside, folds and samples: by class, by group where rows belong together, or at random.

Everything here draws from the generator or seed that it is given, so that the rows of a documented
result stay.

Random streams by name: what draws for one purpose shares no random numbers with what draws for
another.

A user who draws data with `default_rng(0)` and fits with `random_state=0` would otherwise have the
very numbers that drew the classes decide which rows are held out. Each number stays as it is for
good: results depend on it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lowtide.checks import LowtideError, check_rows, count
from lowtide.types import Bools, Floats, Labels

MOST_ROWS = 200_000  # that anything is fitted to: so many fit into a laptop's memory many times


class Split(NamedTuple):
    """Row numbers, each sorted: those kept and those set aside."""

    kept: Labels
    aside: Labels


def stratified(codes: Labels, share: float, *, seed: np.random.SeedSequence) -> Split:
    """Set a share of the rows of every class aside, at least one and never all (of two or more).

    Args:
        codes: (n,) the class of each row.
        share: between 0 and 1.
        seed: of the choice.
    """
    rng = np.random.default_rng(seed)
    aside = np.zeros(len(codes), dtype=bool)
    for code in np.unique(codes):
        members = rng.permutation(np.flatnonzero(codes == code))
        aside[members[: int(np.clip(round(share * len(members)), 1, len(members) - 1))]] = True
    return Split(np.flatnonzero(~aside), np.flatnonzero(aside))


def grouped(codes: Labels, groups: Labels, share: float, *, seed: np.random.SeedSequence) -> Split:
    """Set whole groups aside, about a share of the rows of every class; every class stays on both
    sides.

    Args:
        codes: (n,) the class of each row.
        groups: (n,) rows of one group have one number, from 0.
        share: between 0 and 1.
        seed: of the choice.
    """
    rng = np.random.default_rng(seed)
    members = np.zeros((int(groups.max()) + 1, int(codes.max()) + 1))
    np.add.at(members, (groups, codes), 1)
    total = members.sum(axis=0)
    target = share * total
    taken = np.zeros_like(total)
    aside = np.zeros(len(members), dtype=bool)
    for group in rng.permutation(len(members)):
        more = taken + members[group]
        # Nearer to the target of all classes, in shares of each class, and some of every class
        # left.
        missing, now = ((target - rows) / np.maximum(total, 1) for rows in (taken, more))
        if (now**2).sum() < (missing**2).sum() and (more < np.maximum(total, 1)).all():
            aside[group] = True
            taken = more
    _give_every_class(aside, members, rng)
    return Split(np.flatnonzero(~aside[groups]), np.flatnonzero(aside[groups]))


def _give_every_class(aside: Bools, members: Floats, rng: np.random.Generator) -> None:
    """Set a further group aside for each class that has none, without taking all of any class."""
    total = members.sum(axis=0)
    for code in np.flatnonzero(total > 0):
        if members[aside, code].sum() > 0:
            continue
        for group in rng.permutation(np.flatnonzero((members[:, code] > 0) & ~aside)):
            if (members[aside].sum(axis=0) + members[group] < np.maximum(total, 1)).all():
                aside[group] = True
                break
        else:
            raise LowtideError(
                "these groups cannot be split with every class on both sides: each class needs rows"
                " in two groups or more that are not all of another class; use smaller groups"
            )


def set_aside(
    codes: Labels, groups: Labels | None, share: float, *, seed: np.random.SeedSequence
) -> Split:
    """Set whole groups aside where there are groups, and rows of every class otherwise; see
    `grouped`, `stratified`.
    """
    return (
        stratified(codes, share, seed=seed)
        if groups is None
        else grouped(codes, groups, share, seed=seed)
    )


def each_set_aside(
    codes: Labels, groups: Labels | None, tested: Bools, folds: int, *, seed: np.random.SeedSequence
) -> list[Split]:
    """Deal the rows that are to be tested to folds; each fold is set aside once, and all other rows
    are kept.

    Where groups are too few for that, there are fewer folds: every class must be kept in two groups
    or more.

    Args:
        codes: (n,) the class of each row.
        groups: (n,) rows of one group, numbered from 0, stay together; `None` where each row stands
            for itself.
        tested: (n,) the rows to test.
        folds: how many folds at most.
        seed: of the deal.
    """
    rows = np.flatnonzero(tested)
    for count_ in range(folds, 0, -1):
        rng = np.random.default_rng(seed)
        if groups is None:
            fold = stratified_folds(codes[rows], count_, rng)
        else:
            fold = grouped_folds(codes[rows], groups[rows], count_, rng)
        # Groups may be fewer than folds.
        parts = [
            Split(others(len(codes), rows[fold == k]), rows[fold == k]) for k in np.unique(fold)
        ]
        if groups is None or all(_has_every_class(codes, groups, part.kept) for part in parts):
            break
    return parts


def _has_every_class(codes: Labels, groups: Labels, kept: Labels) -> bool:
    """Whether rows of every class are kept, from two groups or more."""
    pairs = np.unique(np.column_stack([codes[kept], groups[kept]]), axis=0)
    return bool((np.bincount(pairs[:, 0], minlength=int(codes.max()) + 1) >= 2).all())


def three_tenths(codes: Labels, rng: np.random.Generator) -> Split:
    """Set three tenths of the rows aside, with the classes (n,) spread evenly."""
    held = stratified_folds(codes, 10, rng) < 3
    return Split(np.flatnonzero(~held), np.flatnonzero(held))


def at_random(n: int, aside: int, rng: np.random.Generator) -> Split:
    """Set `aside` of n rows aside, whatever they are."""
    order = rng.permutation(n)
    return Split(np.sort(order[aside:]), np.sort(order[:aside]))


def stratified_folds(codes: Labels, folds: int, rng: np.random.Generator) -> Labels:
    """Give every row a fold, (n,), with the classes (n,) spread evenly."""
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    return _dealt(order, folds)


def grouped_folds(codes: Labels, groups: Labels, folds: int, rng: np.random.Generator) -> Labels:
    """Give every row the fold of its group, (n,), with sizes, and the classes that most rows of a
    group have, spread.

    Args:
        codes: (n,) the class of each row.
        groups: (n,) rows of one group have one number.
        folds: how many.
        rng: draws the order of the groups.
    """
    _, members, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    classes = int(codes.max()) + 1
    most = (
        np.bincount(members * classes + codes, minlength=len(sizes) * classes)
        .reshape(-1, classes)
        .argmax(axis=1)
    )
    order = rng.permutation(len(sizes))
    order = order[np.lexsort((-sizes[order], most[order]))]
    return _dealt(order, folds)[members]


def _dealt(order: Labels, folds: int) -> Labels:
    """The fold of each entry when entries are dealt to the folds in turn, in this order."""
    fold = np.empty(len(order), dtype=np.intp)
    fold[order] = np.arange(len(order)) % folds
    return fold


def random_folds(n: int, folds: int, rng: np.random.Generator) -> list[Labels]:
    """A random partition of range(n) into sorted parts whose sizes differ by at most 1."""
    return [np.sort(part) for part in np.array_split(rng.permutation(n), folds)]


def fold_numbers(n: int, folds: int, rng: np.random.Generator) -> Labels:
    """Give every one of n rows a fold at random, (n,); sizes differ by at most 1."""
    return rng.permutation(n) % folds


def others(n: int, *out: Labels) -> Labels:
    """The rows of range(n) that are in none of the parts `out`, sorted."""
    return np.setdiff1d(np.arange(n), np.concatenate(out))


def some_rows(rows: int | Labels, most: int, rng: np.random.Generator) -> Labels:
    """A random choice of at most `most` row numbers, sorted; of range(rows) where `rows` is a
    number.
    """
    return np.sort(rng.permutation(rows)[:most])


def stratified_sample(codes: Labels, most: int, rng: np.random.Generator) -> Labels:
    """About `most` row numbers, sorted, every class in its share; all of them where there are no
    more.
    """
    if len(codes) <= most:
        return np.arange(len(codes))
    return np.flatnonzero(stratified_folds(codes, -(-len(codes) // most), rng) == 0)


def sample_with_classes(codes: Labels, most: int, least: int, rng: np.random.Generator) -> Labels:
    """A random choice of at most `most` row numbers that begins with `least` rows of every class
    (n,).
    """
    order = rng.permutation(len(codes))
    counts = np.bincount(codes)
    turn = np.argsort(codes[order], kind="stable")
    place = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = turn[place < least]
    return np.concatenate([order[first], np.delete(order, first)])[:most]


def sample_groups(groups: Labels, most: int, rng: np.random.Generator) -> Labels:
    """The row numbers, sorted, of whole groups chosen at random; at most `most` rows.

    Args:
        groups: (n,) rows of one group have one number.
        most: rows.
        rng: draws the order of the groups.
    """
    _, members, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    kept = order[np.cumsum(sizes[order]) <= most]
    if not len(kept):
        raise LowtideError(
            f"a group has more than the {most:,} rows that are used at most; give finer groups"
        )
    return np.flatnonzero(np.isin(members, kept))


def read_groups(groups: ArrayLike | None, rows: int) -> Labels | None:
    """Groups as codes (n,), in the order of first appearance; a row whose group is missing is a
    group of its own.

    Args:
        groups: n values of any kind that can be compared, or a column of a table; `None` stays
            `None`.
        rows: n.
    """
    if groups is None:
        return None
    listed: Any = groups.to_pylist() if hasattr(groups, "to_pylist") else groups
    if isinstance(listed, (str, bytes)) or not hasattr(listed, "__len__"):
        raise LowtideError(f"groups must hold one value per row, got {type(groups).__name__}")
    check_rows("groups", (len(listed),), rows)
    numbers: dict[object, int] = {}
    try:
        return np.array(
            [
                numbers.setdefault(group_key(one, row), len(numbers))
                for row, one in enumerate(listed)
            ],
            np.intp,
        )
    except TypeError:
        raise LowtideError("groups must hold one plain value per row: a name or a number") from None


def group_key(value: Any, row: int) -> tuple[bool, object]:
    """Whether a row is without a group, and what names its group: the value, or its own number."""
    missing = value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))
    return (True, row) if missing else (False, value)


STREAMS = MappingProxyType(
    {
        # density
        "density": 0x71DE,
        "rows of regressions": 0x71DF,
        "image networks": 0x1A6E,
        "image folds": 0xF01D,
        # attack
        "attacker": 0xA77C,
        "attack panel": 0x9A7E1,
        "divergence bound": 0x10B0,
        "surface channels": 0x50FACE,
        "row order": 0x0DE2,
        "counted rows": 0xC0C7,
        "utility": 0x5554494C,
        "sampled rows": 0x5A3B1E,
        # tables
        "table planning rows": 1,
        "table planning sample": 2,
        "table planning orders": 3,
        "table histories": 4,
        "table attacked rows": 5,
        "table estimate": 6,
        "table judged rows": 8,
        "table counted rows": 9,
        "table redraw curve": 10,
        "table rehearsal": 0xD15C,
        "table scan": 0x5CA4,
        # images
        "image judged rows": 0x1D6,
        "image attacked rows": 0x1D7,
        "image sequential": 0x5E9,
        "image shapes": 0x5A4E,
        "image halves": 0x4A1F,
        "image rehearsal": 0x1D15C,
        "image scan": 0x1A5CA,
        "image report": 0x5A3,
        "image names": 0x6E616D65,
        "edge folds": 0xED6E,
        "edge orders": 0xED6F,
        "thumbnails": 0x7B,
        # texts
        "text judged rows": 0x7E1,
        "text planning rows": 0x7E2,
        "text sample": 0x7E3,
        "text rehearsal": 0x7E0D,
        "text redraw folds": 0x7E4,
        "text report": 0x7E7,
        "text explanation": 0xA2F1,
        "texts of a page": 0xA2F2,
    }
)
"""What each stream is for, and its number."""


def stream(seed: int, name: str) -> np.random.SeedSequence:
    """The random numbers for one purpose, from the user's seed."""
    return np.random.SeedSequence([count("seed", seed, 0), STREAMS[name]])


def generator(seed: int, name: str) -> np.random.Generator:
    """A generator of the numbers of a stream."""
    return np.random.default_rng(stream(seed, name))


def derived_seed(seed: int, name: str) -> int:
    """A further seed, below 2³², from a stream."""
    return int(stream(seed, name).generate_state(1)[0])


def generator_for(name: str, n: int) -> np.random.Generator:
    """A generator without a seed of the user: the same for all data of n rows."""
    return np.random.default_rng([STREAMS[name], n])
