"""What a user may tell about texts."""

from dataclasses import dataclass
from typing import Any, ClassVar

from lowtide.options import option

_READ = ("scan", "plan", "audit")
_FITTED = ("scan", "plan")


@dataclass(frozen=True)
class TextOptions:
    """Which column holds the texts, who wrote them, and what counts as a term."""

    default_budget: ClassVar[float] = 0.05
    text: str | None = option(None, "the column that holds them", verbs=_READ, metavar="COLUMN")
    group: str | None = option(
        None, "the column of authors, who are never split", verbs=_READ, metavar="COLUMN"
    )
    most_rows: int | None = option(
        None,
        "use at most so many, chosen at random; by default 200,000",
        verbs=_FITTED,
        least=100,
        metavar="N",
        flag="rows",
    )
    posts: Any = option(
        None,
        "what so many texts of one author tell together: 1,5,10,20",
        verbs=("audit",),
        metavar="N,N",
    )
    history: int = option(
        1,
        "the budget is about so many texts of one author together",
        verbs=("plan",),
        least=1,
        metavar="N",
    )
    ngrams: int | None = option(
        None,
        "terms of up to so many words; by default 2 for scan, 1 for plan",
        verbs=_FITTED,
        least=1,
        most=3,
    )
    min_count: int = option(2, "leave out rarer terms", verbs=_FITTED, least=1)
    terms: int | None = option(None, "the most frequent so many terms", verbs=_FITTED, least=1)
    stop: str | None = option(
        None, "`english`, or a file of words to leave out", verbs=_FITTED, metavar="LIST"
    )
    without: tuple[str, ...] = option(
        (),
        "leave out hashtags, handles, urls, emoji, numbers or accents",
        verbs=_FITTED,
        metavar="KIND",
    )
    samples: int = option(
        0, "show so many of them in the report, which then stays inside", verbs=("scan",), least=0
    )
    fill: str | None = option(
        None,
        "`redraw`: fill hidden places in, by words that fit (policy fixed)",
        verbs=("plan",),
        metavar="HOW",
    )
    redraw_names: bool = option(
        False, "the policy redraw may put words in the places of names", verbs=("plan",)
    )
    ids: str | None = option(
        None,
        "column that tells them apart, where words are drawn; without it what a text says does",
        verbs=("release",),
        metavar="COLUMN",
    )
    shuffle: bool = option(False, "write them in random order", verbs=("release",))
    order: Any = option(
        None, "the order of a shuffled release, written beside it", verbs=("audit",), metavar="FILE"
    )
    encoding: str = option("utf-8", "of a CSV file")
