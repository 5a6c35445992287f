"""The shape of the code: a room imports only rooms above it, and functions, files and the package stay small."""

import ast
from collections import Counter
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
    "density",
    "attack",
    "disclose",
    "auditing",
    "report",
    "table_files",
    "tables",
    "images",
    "texts",
    "vectors",
    "engines",
    "warning",
    "verbs",
    "frames",
    "demo_data",
    "browser",
    "language_server",
    "studio",
    "cli",
    "__main__",
)
KINDS = {"tables", "images", "texts"}
BELOW_KINDS = set(ROOMS[ROOMS.index("vectors") :]) - {"engines"}
FUNCTION_LINES = 60
PARAMETERS = 12
FILE_LINES = 400
IMPORT_SHARE = 0.07
LINES = 68_000


@cache
def parsed(path):
    return ast.parse(path.read_text())


def lines(path):
    return len(path.read_text().splitlines())


def modules(path):
    """The dotted names of ours that a file imports, wherever in the file that is."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            names = [f"{node.module}.{alias.name}" if node.module == "lowtide" else node.module for alias in node.names]
        else:
            continue
        yield from (name for name in names if name == "lowtide" or name.startswith("lowtide."))


def imports(path):
    """The rooms that a file imports, and what it takes from the front door of the package instead."""
    return {module.partition(".")[2].partition(".")[0] for module in modules(path)}


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def files():
    """All files of the package but its front door, which may import any room."""
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def name_of(path):
    return str(path.relative_to(SOURCE))


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def parameters(function):
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return len([one for one in every if one.arg not in ("self", "cls")])


def makers_of_estimators(tree):
    """`__init__` of classes with a `fit`, whose options scikit-learn wants one by one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = {inner.name: inner for inner in node.body if isinstance(inner, ast.FunctionDef)}
            if {"fit", "__init__"} <= methods.keys():
                yield methods["__init__"]


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_imports_only_rooms_above(path):
    room = room_of(path)
    assert room in ROOMS, f"{room} is not in the list of rooms"
    outside = imports(path) - set(ROOMS[: ROOMS.index(room) + 1])
    assert not outside & set(ROOMS)
    assert not outside or room in ("cli", "__main__"), f"only the command line imports {outside} from the package"


@pytest.mark.parametrize("path", [path for path in files() if room_of(path) in KINDS], ids=name_of)
def test_kinds_do_not_import_each_other(path):
    assert not imports(path) & (KINDS - {room_of(path)})


def test_layers_above_the_kinds_import_none_of_them():
    for path in files():
        if room_of(path) not in KINDS | BELOW_KINDS:
            assert not imports(path) & KINDS, name_of(path)


def test_nothing_imports_vectors():
    for path in [*files(), SOURCE / "__init__.py"]:
        assert room_of(path) == "vectors" or "vectors" not in imports(path), name_of(path)


def test_the_registry_names_kinds_by_text():
    assert imports(SOURCE / "modalities.py") <= {"errors", "interface", "protocols", "types"}


def test_every_room_is_described():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    described = [line.split("`")[1].split(".")[0].rstrip("/") for line in page.splitlines() if line.startswith("| `")]
    assert [room for room in described if room in ROOMS] == list(ROOMS)
    assert {room_of(path) for path in files()} <= set(ROOMS)


def test_theory_needs_no_torch_and_no_data():
    for path in (SOURCE / "theory").rglob("*.py"):
        assert not {"torch", "sklearn", "pandas", "pyarrow"} & set(path.read_text().replace(",", " ").split())


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_functions_and_files_are_small(path):
    assert not [f.name for f in functions(parsed(path)) if f.end_lineno - f.lineno + 1 > FUNCTION_LINES]
    assert lines(path) <= FILE_LINES


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_functions_have_few_parameters(path):
    spared = {id(maker) for maker in makers_of_estimators(parsed(path))}
    assert not [f.name for f in functions(parsed(path)) if parameters(f) > PARAMETERS and id(f) not in spared]


def test_the_package_is_small_and_few_of_its_lines_are_imports():
    every = sum(map(lines, SOURCE.rglob("*.py")))
    imported = sum(
        node.end_lineno - node.lineno + 1
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    assert imported / every < IMPORT_SHARE
    assert every < LINES


def test_class_names_are_unique():
    names = Counter(node.name for path in files() for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef))
    assert not {name: count for name, count in names.items() if count > 1}
