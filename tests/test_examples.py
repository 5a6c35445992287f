"""Every example runs and says something."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")
def test_an_example_runs(path, capsys, monkeypatch):
    monkeypatch.setattr(
        "lowtide.images.networks._FEWEST_STEPS", 10
    )  # a rehearsal trains networks for minutes
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_there_are_examples():
    assert len(EXAMPLES) >= 5
