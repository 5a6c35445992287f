"""A room of the code imports only rooms above it."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "lowtide"
# The order of docs/architecture.md.
ROOMS = (
    "interface",
    "errors",
    "files",
    "theory",
    "features",
    "worlds",
    "density",
    "attack",
    "disclose",
    "audit",
    "data",
    "report",
    "engines",
    "cli",
    "studio",
)


def imports(path):
    """The rooms a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield "a relative import"
                continue
            modules = [
                f"{node.module}.{alias.name}" if node.module == "lowtide" else node.module for alias in node.names
            ]
        else:
            continue
        yield from (module.split(".")[1] for module in modules if module.startswith("lowtide."))


def files():
    return [path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_only_rooms_above(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert room in ROOMS, f"{room} is not in the list of rooms"
    # Errors stand beside the interface, which imports nothing of ours.
    allowed = () if room in ("interface", "errors") else ROOMS[: ROOMS.index(room) + 1]
    assert set(imports(path)) <= set(allowed)


def test_every_room_is_described():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    rooms = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in files()}
    assert rooms <= set(ROOMS)
    for room in rooms:
        assert f"`{room}" in page, f"docs/architecture.md does not describe {room}"


def test_theory_needs_no_torch_and_no_data():
    for path in (SOURCE / "theory").rglob("*.py"):
        assert not {"torch", "sklearn", "pandas"} & set(path.read_text().replace(",", " ").split())
