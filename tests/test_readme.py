"""Every Python block of the README and of the docs runs, page by page, in one namespace."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page, monkeypatch, tmp_path):
    # The README takes more than 10 s: its programs fit, release and attack for real.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "lowtide.images.networks._FEWEST_STEPS", 10
    )  # a rehearsal trains networks for minutes
    namespace = {}
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    ):
        exec(compile(block, f"{page.name}, block {number}", "exec"), namespace)  # noqa: S102


def test_the_readme_opens_with_the_two_commands():
    head = (ROOT / "README.md").read_text()[:1500]
    assert head.index("make demo") < head.index("make test")
