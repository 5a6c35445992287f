"""The shape of the code: a room imports only rooms above it, and nothing outside the kinds imports
a kind.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "lowtide"
# The order of docs/architecture.md.
ROOMS = (
    "types",
    "errors",
    "checks",
    "extras",
    "interface",
    "protocols",
    "formatting",
    "remote",
    "places",
    "files",
    "hashes",
    "nesting",
    "progress",
    "training",
    "spread",
    "labels",
    "splits",
    "features",
    "bundles",
    "options",
    "doc_links",
    "modalities",
    "theory",
    "worlds",
    "estimate",
    "attack",
    "disclose",
    "auditing",
    "report",
    "table_files",
    "tables",
    "images",
    "texts",
    "engines",
    "warning",
    "verbs",
    "frames",
    "demo_data",
    "browser",
    "studio",
    "cli",
    "__main__",
)
KINDS = {"tables", "images", "texts"}
BELOW_KINDS = set(ROOMS[ROOMS.index("engines") :]) - {"engines"}


@cache
def parsed(path):
    return ast.parse(path.read_text())


def modules(path):
    """The dotted names of ours that a file imports, wherever in the file that is."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            names = [
                f"{node.module}.{alias.name}" if node.module == "lowtide" else node.module
                for alias in node.names
            ]
        else:
            continue
        yield from (name for name in names if name == "lowtide" or name.startswith("lowtide."))


def imports(path):
    """The rooms that a file imports, and what it takes from the front door of the package
    instead.
    """
    return {module.partition(".")[2].partition(".")[0] for module in modules(path)}


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def files():
    """All files of the package but its front door, which may import any room."""
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def name_of(path):
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_imports_only_rooms_above(path):
    room = room_of(path)
    assert room in ROOMS, f"{room} is not in the list of rooms"
    outside = imports(path) - set(ROOMS[: ROOMS.index(room) + 1])
    assert not outside & set(ROOMS)
    assert not outside or room in ("cli", "__main__"), (
        f"only the command line imports {outside} from the package"
    )


@pytest.mark.parametrize("path", [path for path in files() if room_of(path) in KINDS], ids=name_of)
def test_kinds_do_not_import_each_other(path):
    assert not imports(path) & (KINDS - {room_of(path)})


def test_layers_above_the_kinds_import_none_of_them():
    for path in files():
        if room_of(path) not in KINDS | BELOW_KINDS:
            assert not imports(path) & KINDS, name_of(path)


def test_the_registry_names_kinds_by_text():
    assert imports(SOURCE / "modalities.py") <= {"errors", "interface", "protocols", "types"}


def test_every_room_is_described():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    described = [
        line.split("`")[1].split(".")[0].rstrip("/")
        for line in page.splitlines()
        if line.startswith("| `")
    ]
    assert [room for room in described if room in ROOMS] == list(ROOMS)
    assert {room_of(path) for path in files()} <= set(ROOMS)


def test_theory_needs_no_torch_and_no_data():
    for path in (SOURCE / "theory").rglob("*.py"):
        assert not {"torch", "sklearn", "pandas", "pyarrow"} & set(
            path.read_text().replace(",", " ").split()
        )
