"""docs/paper.md and the numbers that the code carries agree."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "lowtide"
NUMBER = r"(?:Def\.|Eq\.|Thm|Lemma|Table|Fig\.) \d+|App\. [A-C](?:\.\d)?"
CARRIED = re.compile(r"\(paper,\s+([^)]*)\)")
# As printed: 3 definitions, 20 equations in the text and 23 in the appendix, 5 theorems, a lemma, 3
# tables, 3 figures.
COUNTS = {"Def.": 3, "Eq.": 43, "Thm": 5, "Lemma": 1, "Table": 3, "Fig.": 3}


class Row(NamedTuple):
    """A line of the map: the numbers it is about, the places in the code, and the tests."""

    numbers: tuple[str, ...]
    places: tuple[str, ...]
    tests: tuple[str, ...]


def numbers_of(cell):
    """`Eq. 21–22` and `Thm 1, Eq. 12` as single numbers."""
    spread = re.sub(
        r"(Eq\.) (\d+)–(\d+)",
        lambda m: ", ".join(f"{m[1]} {k}" for k in range(int(m[2]), int(m[3]) + 1)),
        cell,
    )
    return tuple(re.findall(NUMBER, spread))


def rows():
    """The rows of all tables of the page."""
    found = []
    for line in (ROOT / "docs" / "paper.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == 5 and numbers_of(cells[0]):
            found.append(
                Row(
                    numbers_of(cells[0]),
                    *(tuple(re.findall(r"`([^`]+)`", cell)) for cell in cells[2:4]),
                )
            )
    return found


def file_of(place):
    """The file that a place names: in the package, or among the experiments."""
    path = place.partition(":")[0]
    return ROOT / path if path.startswith("experiments/") else SOURCE / path


@cache
def parsed(path):
    return ast.parse(path.read_text())


def node_of(path, names):
    """The class, function or method in a file, by its names from outside in; `None` if there is
    none.
    """
    node = parsed(path)
    for name in names:
        kinds = (ast.FunctionDef, ast.ClassDef)
        node = next(
            (inner for inner in node.body if isinstance(inner, kinds) and inner.name == name), None
        )
        if node is None:
            return None
    return node


def text_of(path, names):
    """The source of a place, its comments included; the whole file where no name is given."""
    lines = path.read_text().splitlines()
    if not names:
        return "\n".join(lines)
    node = node_of(path, names)
    return "\n".join(lines[node.lineno - 1 : node.end_lineno])


def carried(text):
    """The numbers that a piece of code cites."""
    return {number for inside in CARRIED.findall(text) for number in numbers_of(inside)}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.numbers[0])
def test_every_place_exists_and_carries_its_number(row):
    for place in row.places:
        path = file_of(place)
        names = place.partition(":")[2].split(".") if ":" in place else ()
        assert path.is_file(), f"{place} is not a file"
        assert not names or node_of(path, names), f"{place} is not there"
        assert carried(text_of(path, names)) & set(row.numbers), (
            f"{place} carries none of {row.numbers}"
        )


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.numbers[0])
def test_every_test_exists(row):
    for test in row.tests:
        path, *names = test.split("::")
        assert (ROOT / path).is_file(), f"{path} is not a file"
        assert node_of(ROOT / path, names), f"{test} is not there"


def test_every_number_that_the_code_carries_is_mapped_to_its_file():
    places = {
        (number, file_of(place)) for row in rows() for place in row.places for number in row.numbers
    }
    files = [*SOURCE.rglob("*.py"), *(ROOT / "experiments").rglob("*.py")]
    cited = {(number, path) for path in files for number in carried(path.read_text())}
    assert cited <= places, sorted(
        (number, str(path.relative_to(ROOT))) for number, path in cited - places
    )


def test_no_citation_has_another_form():
    """A bare `Eq. 4` does not say whose equation it is."""
    for path in SOURCE.rglob("*.py"):
        bare = re.sub(r"\([^()]*\)", "", path.read_text())
        assert not re.search(r"\b(Eq\. \d|Thm \d|Theorem \d|Definition \d)", bare), path


def test_the_map_is_complete():
    mapped = {number for row in rows() for number in row.numbers}
    for kind, count in COUNTS.items():
        missing = {f"{kind} {k}" for k in range(1, count + 1)} - mapped
        assert not missing, sorted(missing)
        assert f"{kind} {count + 1}" not in mapped
