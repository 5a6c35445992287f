"""The documentation: quoted messages are ours, links lead somewhere, and the site builds without a
warning.
"""

import ast
import os
import re
import runpy
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import typer

from lowtide.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "generated" not in path.parts),
]


@cache
def messages():
    """Every text in the source, with `…` for what is put in when it is shown."""
    found = set()
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    part.value if isinstance(part, ast.Constant) else "…" for part in node.values
                ]
                found.add("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def test_questions_quote_messages_that_lowtide_prints():
    page = (ROOT / "docs" / "explanation" / "faq.md").read_text()
    quoted = re.findall(r"^\*\*`(.+?)`\*\*$", page, re.MULTILINE)
    assert len(quoted) > 10
    unknown = [one for one in quoted if not any(one in message for message in messages())]
    assert not unknown


@cache
def flags():
    """The options of every command, by name."""
    commands = typer.main.get_command(app).commands
    return {
        name: {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        for name, command in commands.items()
    }


def shown_commands(page):
    """The command lines of Lowtide in the shell blocks of a page, without comments and output."""
    for block in re.findall(
        r"^```(?:sh|console|)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE
    ):
        for line in block.replace("\\\n", " ").splitlines():
            command = line.removeprefix("$ ").replace("…", "X")
            if command.startswith("lowtide "):
                yield shlex.split(command, comments=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_have_the_options_that_pages_show(page):
    for _, name, *rest in shown_commands(page):
        assert name in flags(), f"{page.name}: lowtide {name}"
        unknown = {word.partition("=")[0] for word in rest if word.startswith("--")} - flags()[name]
        assert name == "reproduce" or not unknown, f"{page.name}: lowtide {name} {unknown}"


def test_the_readme_shows_all_five_verbs():
    assert sum(len(list(shown_commands(page))) for page in PAGES) > 40
    assert {"scan", "plan", "release", "audit", "warn"} <= {
        name for _, name, *_ in shown_commands(PAGES[0])
    }


def slug(heading):
    """The anchor of a heading, as GitHub and the site make it."""
    text = re.sub(r"[`*_]|\[([^]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if (
            "generated" in path.parts
        ):  # made from the code when the site is built, where Sphinx checks them
            continue
        if page.name in ("contributing.md", "changes.md"):  # they include a page of the root
            continue
        assert path.exists(), f"{page.name} links to {target}"
        if anchor and path.name != "contributing.md":
            assert anchor in anchors(path), f"{page.name} links to {target}"


def test_the_site_builds_without_a_warning(tmp_path):
    # Sphinx imports the package for its docstrings, and makes the pages on the command line and the
    # card from the code.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        "docs",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(  # noqa: S603
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "reference" / "generated" / "cli.html").read_text()
    assert "--attacker-accuracy" in page
    assert "http://" not in re.sub(r"http://www\.w3\.org[^\"]*", "", page).replace(
        "http://localhost", ""
    )


def test_coverage_is_added_up_by_room():
    made = runpy.run_path(str(ROOT / "docs" / "coverage_by_room.py"))
    counts = ("num_statements", "covered_lines", "num_branches", "covered_branches")
    files = {
        "src/lowtide/theory/response.py": (30, 30, 4, 4),
        "src/lowtide/theory/redraw.py": (10, 0, 0, 0),
        "/else/lowtide/errors.py": (20, 20, 0, 0),
    }
    measured = {
        name: {"summary": dict(zip(counts, one, strict=True))} for name, one in files.items()
    }
    rooms = made["by_room"]({"files": measured})
    assert rooms["theory"] == dict(zip(counts, (40, 30, 4, 4), strict=True))
    lines = made["page"](rooms).splitlines()
    assert lines[-3:] == [
        "| `theory` | 40 | 75.0% | 4 | 100.0% |",
        "| `errors` | 20 | 100.0% | 0 | – |",
        "| **all** | 60 | 83.3% | 4 | 100.0% |",
    ]
    assert "without a measurement" in made["page"](None)
