"""Whether a release is the one of its card, and whether what the card says holds for it.

Imports neither torch nor scikit-learn.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lowtide.disclose.card import ReleaseCard, versions
from lowtide.disclose.review import NOBODY_ASKED, Approval, check_approvals, current_day
from lowtide.errors import LowtideError, note
from lowtide.formatting import listed
from lowtide.table_files.formats import format_of
from lowtide.table_files.reading import batches

_NAMED = 6  # columns listed by name


class Planned(Protocol):
    """What is asked of a plan."""

    @property
    def digest(self) -> str:
        """Of all that it says."""
        ...

    @property
    def card(self) -> ReleaseCard:
        """Of its rehearsed release."""
        ...


def why_refused(
    card: ReleaseCard,
    data: str | Path,
    *,
    plan: Planned | None = None,
    key: bytes | None = None,
    approval: Approval = NOBODY_ASKED,
) -> str | None:
    """What speaks against a release, to be said after its name: `None` where nothing does.

    A card that was edited after a decision, and an approval that expired, are errors.

    Args:
        card: of the release.
        data: the released file or folder.
        plan: that should have made it, and whose claims the card must repeat; `None` does not ask.
        key: that the card must be signed with; `None` does not ask.
        approval: whose approval it needs.
    """
    edited = card.edited_since
    if edited is not None:
        raise LowtideError(
            f"the card was edited after the decision of {edited.name} on {edited.date}; take the"
            " card that was reviewed, or have it reviewed again"
        )
    if not card.matches(data):
        return "is not the release of the card: it was changed, or the card is of another"
    if not card.sealed:
        return (
            "cannot be verified: its card has no digest, so that an edit would go unnoticed;"
            " release again"
        )
    if key is not None and not card.is_signed_with(key):
        return (
            "has a card that is not signed with this key: somebody else wrote or changed it, or"
            " nobody signed it"
        )
    contradicted = _contradicted(card, Path(data), plan)
    if contradicted is not None:
        return contradicted
    written = card.versions["lowtide"]
    here = versions()["lowtide"]
    if written != here:
        note(f"the card was written by Lowtide {written}, and this is {here}")
    check_approvals(card.decisions, current_day())
    missing = approval.missing(card.decisions)
    return None if missing is None else f"may not be shared: {missing}"


def _contradicted(card: ReleaseCard, data: Path, plan: Planned | None) -> str | None:
    """What plan or data say otherwise than the card; `None` where they agree."""
    if plan is not None and card.plan_sha256 != plan.digest:
        return "was not made by the plan: the plan was changed, or the release is of another"
    different = [] if plan is None else card.differences(plan.card)
    if different:
        return f"has a card that was edited: it differs from its plan in: {', '.join(different)}"
    broken = broken_claims(card, data)
    return f"is not what the card says: {'; '.join(broken)}" if broken else None


def broken_claims(card: ReleaseCard, path: Path) -> list[str]:
    """What a card says of a table and its file contradicts: rows, columns, and that hidden ones
    show nothing.

    Cards of images and texts name patches and words, not columns: of a text file only rows and
    columns that nobody judged are compared, of a folder nothing.
    """
    if path.is_dir() or not _is_table(path):
        return []
    rows, telling, columns = _survey(batches(path))
    grouped = set(card.parameters.get("together") or ())
    features = {one.name: one.hidden for one in card.features if one.name not in grouped}
    unjudged = card.unjudged
    broken = []
    if rows != card.rows:
        broken.append(f"the card is about {card.rows:,} rows, and the file has {rows:,}")
    expected = set(unjudged.released)
    if columns & features.keys():  # the card names columns, and not words
        expected |= features.keys()
    broken += _naming("the card names columns that the file lacks", expected - columns)
    blank = set(unjudged.withheld)
    if (
        card.policy != "redraw"
        and card.mechanism in ("redact", "merge")
        and not card.parameters.get("fill")
    ):
        blank |= {name for name, hidden in features.items() if hidden == 1}
    broken += _naming(
        "the card calls columns hidden that show more than one value", blank & telling
    )
    if columns & features.keys() and not grouped:
        known = features.keys() | set(unjudged.released) | blank
        broken += _naming("the file shows columns that the card does not name", telling - known)
    return broken


def _is_table(path: Path) -> bool:
    try:
        format_of(path)
    except LowtideError:
        return False
    return True


def _survey(tables: Iterable[pa.Table]) -> tuple[int, set[str], set[str]]:
    """How many rows there are, the columns with more than one value, and all columns."""
    rows = 0
    columns = set[str]()
    seen: dict[str, set[object]] = {}
    for table in tables:
        rows += len(table)
        columns |= set(table.column_names)
        for name in table.column_names:
            values = seen.setdefault(name, set())
            if len(values) < 2:
                values |= _some_values(table[name])
    return rows, {name for name, values in seen.items() if len(values) > 1}, columns


def _some_values(column: pa.ChunkedArray) -> set[object]:
    """Two different values of a column, if it has them; a list or a record counts as two, since
    nobody judged it.
    """
    there = column.drop_null()
    if pa.types.is_nested(column.type):
        return {0, 1} if len(there) else set()
    return set(pc.unique(there)[:2].to_pylist())


def _naming(what: str, names: set[str]) -> list[str]:
    return [f"{what}: {listed(sorted(names), _NAMED)}"] if names else []
