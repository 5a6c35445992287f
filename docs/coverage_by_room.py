"""What share of each room the tests run: `make coverage` measures it, and the site shows it as a
page.

`python docs/coverage_by_room.py coverage.json` reads what `coverage json` wrote, and keeps the
counts of each room in `docs/reference/coverage.json`.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KEPT = Path(__file__).parent / "reference" / "coverage.json"
_COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def by_room(measured: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """The counts of `coverage json`, added up for each room: a module or package of `src/lowtide`,
    in any folder.
    """
    rooms: dict[str, dict[str, int]] = {}
    for name, file in sorted(measured["files"].items()):
        parts = Path(name).parts
        room = parts[len(parts) - parts[::-1].index("lowtide")].removesuffix(".py")
        counts = rooms.setdefault(room, dict.fromkeys(_COUNTS, 0))
        for count in _COUNTS:
            counts[count] += file["summary"][count]
    return rooms


def page(rooms: Mapping[str, Mapping[str, int]] | None) -> str:
    """The page: a row for each room, and all of them together; how to measure it where nobody
    has.
    """
    head = (
        "# What the tests run\n\n`make coverage` runs the whole test suite and measures which lines"
        " and branches of "
    )
    head += (
        "each [room](../../architecture.md#rooms) it reaches; programs that tests start in"
        " processes of their own "
    )
    head += "are not counted.\n\n"
    if rooms is None:
        return head + "This copy of the documentation was built without a measurement.\n"
    whole = {count: sum(room[count] for room in rooms.values()) for count in _COUNTS}
    rows = [
        _row(f"`{name}`", rooms[name])
        for name in sorted(rooms, key=lambda name: _share(rooms[name]))
    ]
    table = [
        "| room | statements | run | branches | taken |",
        "|---|---|---|---|---|",
        *rows,
        _row("**all**", whole),
    ]
    return head + "\n".join(table) + "\n"


def _row(name: str, counts: Mapping[str, int]) -> str:
    statements, _, branches, taken = (counts[count] for count in _COUNTS)
    ways = f"{branches:,} | {taken / branches:.1%}" if branches else "0 | –"
    return f"| {name} | {statements:,} | {_share(counts):.1%} | {ways} |"


def _share(counts: Mapping[str, int]) -> float:
    """Statements that run, of all of them; a room without statements is whole."""
    return counts["covered_lines"] / counts["num_statements"] if counts["num_statements"] else 1.0


if __name__ == "__main__":
    found = by_room(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    KEPT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(page(found))
