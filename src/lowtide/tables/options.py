"""What a user may tell about tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from lowtide.errors import LowtideError
from lowtide.options import option


@dataclass(frozen=True)
class TableOptions:
    """How a table is read, and which column tells rows apart."""

    default_budget: ClassVar[float] = 0.01
    types: tuple[str, ...] = option(
        (),
        "override a column's type: COLUMN=number|integer|text|boolean|date",
        metavar="C=T",
        flag="type",
    )
    encoding: str = option("utf-8", "of a CSV file")
    most_rows: int | None = option(
        None,
        "use at most so many, chosen at random; by default 200,000",
        verbs=("scan", "plan"),
        least=100,
        metavar="N",
        flag="rows",
    )
    bounds: tuple[str, ...] = option(
        (),
        "range of a noised column, learnt from the data otherwise: age=0:120",
        verbs=("plan",),
        metavar="C=LOW:HIGH",
    )
    fill: str | None = option(
        None,
        "fill what is hidden with values drawn given what is shown: redraw",
        verbs=("plan",),
        metavar="redraw",
    )
    categorical: str | None = option(
        None,
        "gaussian: how text is hidden: redact, or response, which answers at random",
        verbs=("plan",),
        metavar="HOW",
    )
    bands: tuple[str, ...] = option(
        (),
        "merge: where the bands of a column begin: age=17,30,45,65",
        verbs=("plan",),
        metavar="C=CUT,CUT",
    )
    hierarchy: tuple[str, ...] = option(
        (),
        "merge: what values of a column may be joined into, one row per value: workclass=FILE.csv",
        verbs=("plan",),
        metavar="C=FILE",
    )
    together: tuple[str, ...] = option(
        (),
        "columns that are hidden or drawn together: education,education_num",
        verbs=("plan",),
        metavar="A,B",
    )
    shuffle: bool = option(False, "write them in random order", verbs=("release",))
    order: Any = option(
        None, "the order of a shuffled release, written beside it", verbs=("audit",), metavar="FILE"
    )
    id: str | None = option(
        None,
        "column that joins the rows of release and reference, in any order",
        verbs=("audit",),
        metavar="COLUMN",
    )
    renamed: tuple[str, ...] = option(
        (),
        "a column with another name in the release",
        verbs=("audit",),
        metavar="NEW=OLD",
        flag="column",
    )
    rows: str | None = option(
        None,
        "other: the release is about other people, and holds their secret",
        verbs=("audit",),
        metavar="other",
    )
    synthetic: bool = option(
        False,
        "the release is synthetic, and holds the secret: attackers learn from it alone",
        verbs=("audit",),
    )
    release_secret: str | None = option(
        None,
        "the secret's column in such a release, where it has another name",
        verbs=("audit",),
        metavar="COLUMN",
    )
    known: tuple[str, ...] = option(
        (),
        "what the attacker has of everybody anyway; the release is charged for what it adds",
        verbs=("audit",),
        metavar="A,B",
    )
    train: Any = option(
        None,
        "more rows of the release's layout whose secret the attacker knows",
        verbs=("audit",),
        metavar="FILE",
    )
    group: str | None = option(
        None,
        "column of the reference that says whose each row is",
        verbs=("audit",),
        metavar="COLUMN",
    )
    posts: Any = option(
        None,
        "what so many rows of one person tell together: 1,5,10,20",
        verbs=("audit",),
        metavar="N,N",
    )
    groups_of: str | None = option(
        None,
        "column of the reference whose values are groups: which one tells most",
        verbs=("audit",),
        metavar="COLUMN",
    )
    ids: str | None = option(
        None,
        "column that tells rows apart, where a plan draws; without it a row is recognised by its"
        " content",
        verbs=("release",),
        metavar="COLUMN",
    )


def read_types(types: Sequence[str]) -> dict[str, str]:
    """`COLUMN=TYPE` entries as a mapping."""
    pairs = [entry.rpartition("=") for entry in types]
    for name, _, kind in pairs:
        if not name or not kind:
            raise LowtideError("--type must read COLUMN=TYPE, such as --type zip=text")
    return {name: kind for name, _, kind in pairs}
