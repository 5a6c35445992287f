"""What commands write: never in the place of something else, and private where it holds labels."""

import html
import os
import re
import stat

import numpy as np
import pytest

from lowtide import plan
from lowtide.disclose.plan_file import Plan
from lowtide.table_files.reading import read

FAST = ("--secret", "beast", "--steps", 40, "--quiet")


@pytest.fixture(scope="module")
def blank(tmp_path_factory, survey):
    """A survey with a column of which every value is missing."""
    path = tmp_path_factory.mktemp("blank") / "blank.csv"
    lines = survey(path, rows=200, columns=("row", "age", "town", "beast")).read_text().splitlines()
    path.write_text("\n".join([f"{lines[0]},empty", *(f"{line}," for line in lines[1:])]) + "\n")
    return path


def test_a_column_without_values_is_scanned_planned_redrawn_and_audited(blank, lowtide, tmp_path):
    ran = lowtide("scan", blank, *FAST)
    assert ran.code == 0, ran.err
    made = lowtide("plan", blank, *FAST, "--budget", "0.05", "--out", tmp_path / "plan.lowtide")
    assert made.code == 0, made.err
    out = tmp_path / "shared.csv"
    ran = lowtide(
        "release", blank, "--plan", tmp_path / "plan.lowtide", "--ids", "row", "--out", out
    )
    assert ran.code == 0, ran.err
    assert read(out)["empty"].null_count == 200
    quick = ("--attacker", "boosted trees", "--attacker", "logistic regression", "--quiet")
    ran = lowtide("audit", out, "--reference", blank, "--secret", "beast", *quick)
    assert ran.code == 0, ran.err


def test_a_scan_is_private_and_no_plan_takes_its_place(home, lowtide, refused, tmp_path):
    kept = tmp_path / "kept"
    ran = lowtide("scan", home.survey, *FAST, "--save", kept)
    assert ran.code == 0, ran.err
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept.iterdir()} == {0o600}
    before = (kept / "config.json").read_bytes()
    assert "is not a Lowtide folder of this kind" in refused(
        "plan", home.survey, *FAST, "--out", kept
    )
    assert (kept / "config.json").read_bytes() == before
    folder = Plan.load(home.plan).save(tmp_path / "plan.lowtide")
    assert "is not a Lowtide folder of this kind" in refused(
        "scan", home.survey, *FAST, "--save", folder
    )
    other = tmp_path / "other.json"
    other.write_text('{"name": "not a plan"}')
    options = (*FAST, "--policy", "fixed", "--out", other)
    assert "exists and is not a plan" in refused("plan", home.survey, *options)
    assert Plan.load(folder).digest == Plan.load(home.plan).digest


def test_a_report_with_a_private_section_is_for_its_owner(home, lowtide, tmp_path):
    quick = ("--attacker", "logistic regression", "--quiet")
    page = tmp_path / "report.html"
    source = ("--reference", home.survey, "--secret", "beast")
    ran = lowtide("audit", home.shared, *source, *quick, "--report", page)
    assert ran.code == 0, ran.err
    assert 'class="mark inside"' in page.read_text()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_pipes_and_loops_are_refused_before_the_work(home, refused, tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    said = "is a pipe, a socket or a device"
    missing = ("--plan", home.plan, "--out")
    assert said in refused("release", tmp_path / "missing.csv", *missing, pipe)
    assert said in refused("plan", tmp_path / "missing.csv", *FAST, "--out", pipe)
    assert said in refused("scan", tmp_path / "missing.csv", *FAST, "--json", pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert "leads to itself" in refused("release", home.survey, *missing, loop)
    assert "symbolic links" in refused("plan", loop, *FAST)
    assert "symbolic links" in refused(
        "release", home.survey, "--plan", loop, "--out", tmp_path / "out.csv"
    )


def test_no_option_is_called_repeatable_twice(lowtide):
    for command in ("scan", "plan", "release", "audit"):
        ran = lowtide(command, "--help")
        assert ran.code == 0
        said = " ".join(re.sub(r"[│\n]", " ", ran.out).split())
        assert "(repeat)" in said or command in ("scan", "release")
        assert "(repeat) (repeat)" not in said


def test_a_plan_in_a_notebook_is_html_and_not_markdown():
    rng = np.random.default_rng(0)
    data = {"<b>x</b>": rng.normal(size=200).round(1), "y": rng.normal(size=200).round(1)}
    import pandas as pd

    made = plan(
        pd.DataFrame(data),
        rng.integers(0, 2, 200),
        policy="fixed",
        kept=0.5,
        steps=40,
        progress=False,
    )
    shown = made._repr_html_()
    assert "<h" in shown
    assert not re.search(r"(?m)^(#|- |\|)", html.unescape(re.sub(r"<[^>]+>", "\n", shown)))
    assert "<b>x" not in shown
