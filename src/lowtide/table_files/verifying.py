"""Whether a release is the one of its card, and whether what the card says holds for it.

Imports neither torch nor scikit-learn.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lowtide.disclose.card import ReleaseCard, versions
from lowtide.disclose.review import NOBODY_ASKED, Approval, check_approvals, current_day
from lowtide.errors import LowtideError, note
from lowtide.formatting import listed
from lowtide.table_files.formats import format_of
from lowtide.table_files.reading import batches

_NAMED = 6  # columns listed by name


def why_refused(
    card: ReleaseCard,
    data: str | Path,
    *,
    plan_digest: str | None = None,
    approval: Approval = NOBODY_ASKED,
) -> str | None:
    """What speaks against a release, to be said after its name: `None` where nothing does.

    A card that was edited after a decision, and an approval that expired, are errors.

    Args:
        card: of the release.
        data: the released file or folder.
        plan_digest: of the plan that should have made it; `None` does not ask.
        approval: whose approval it needs.
    """
    edited = card.edited_since
    if edited is not None:
        raise LowtideError(
            f"the card was edited after the decision of {edited.name} on {edited.date}; take the card that was "
            "reviewed, or have it reviewed again"
        )
    if not card.matches(data):
        return "is not the release of the card: it was changed, or the card is of another"
    if plan_digest is not None and card.plan_sha256 != plan_digest:
        return "was not made by the plan: the plan was changed, or the release is of another"
    broken = broken_claims(card, Path(data))
    if broken:
        return f"is not what the card says: {'; '.join(broken)}"
    written, here = card.versions["lowtide"], versions()["lowtide"]
    if written != here:
        note(f"the card was written by Lowtide {written}, and this is {here}")
    check_approvals(card.decisions, current_day())
    missing = approval.missing(card.decisions)
    return None if missing is None else f"may not be shared: {missing}"


def broken_claims(card: ReleaseCard, path: Path) -> list[str]:
    """What a card says of a table and its file contradicts: rows, columns, and that hidden ones show nothing.

    Cards of images and texts name patches and words, not columns: of a text file only rows and columns that nobody
    judged are compared, of a folder nothing.
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
    if card.policy != "redraw" and card.mechanism in ("redact", "mixed", "merge") and not card.parameters.get("fill"):
        blurred = {name for how in ("noised", "answered") for name in card.parameters.get(how) or ()}
        blank |= {name for name, hidden in features.items() if hidden == 1 and name not in blurred}
    broken += _naming("the card calls columns hidden that show more than one value", blank & telling)
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
    rows, columns = 0, set[str]()
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
    """Two different values of a column, if it has them; a list or a record counts as two, since nobody judged it."""
    there = column.drop_null()
    if pa.types.is_nested(column.type):
        return {0, 1} if len(there) else set()
    return set(pc.unique(there)[:2].to_pylist())


def _naming(what: str, names: set[str]) -> list[str]:
    return [f"{what}: {listed(sorted(names), _NAMED)}"] if names else []
