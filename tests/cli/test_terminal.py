"""Names of others never steer the terminal, and no output of a command lands on what it reads."""

import csv
import json
import shutil
import stat
import unicodedata

import numpy as np
import pytest

from lowtide.cli import console
from lowtide.disclose.plan_file import Plan

# Colours, a title for the window, the cursor up, the other writing direction, and a line of its
# own.
EVIL = "a\x1b[31m\x1b]0;title\x07\x9b1A\u202eb\nerror: made up\r\u2028c"


def steers(text):
    """The signs in a text that a terminal would act on; lines are allowed to end."""
    return {
        sign
        for sign in text
        if unicodedata.category(sign) in ("Cc", "Cf", "Zl", "Zp") and sign != "\n"
    }


def check_harmless(text):
    assert not steers(text)
    assert not any(line.startswith("error: made up") for line in text.splitlines())


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """A table whose columns have such names; one of them tells the secret."""
    path = tmp_path_factory.mktemp("evil") / "ev\x1b[31mil\u202e.csv"
    rng = np.random.default_rng(3)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([f"telling {EVIL}", f"neutral {EVIL}", "name\x1b[2J", f"secret {EVIL}"])
        for row in range(200):
            secret = int(rng.integers(2))
            writer.writerow([secret ^ (rng.random() < 0.1), rng.integers(5), f"p{row:04d}", secret])
    return path


def test_names_of_columns_and_files_do_not_reach_the_terminal_raw(evil, lowtide, tmp_path):
    attack = ("--attacker", "logistic regression")
    secret = ("--secret", f"secret {EVIL}")
    plan = tmp_path / "plan\x1b[1m.json"
    shared = tmp_path / "out\x1b[1m.csv"
    commands = (
        ("scan", evil, *secret, "--steps", 40, "--report", tmp_path / "re\x1b[1m.html"),
        (
            "plan",
            evil,
            *secret,
            "--policy",
            "fixed",
            "--steps",
            40,
            "--out",
            plan,
            "--budget",
            "0.2",
        ),
        ("release", evil, "--plan", plan, "--out", shared),
        (
            "audit",
            shared,
            "--reference",
            evil,
            *secret,
            "--attacker",
            "logistic regression",
            "--attacker",
            "wrong\x1b[1m",
        ),
        ("audit", shared, "--reference", evil, *secret, *attack, "--fail-above", "60%"),
        ("show", tmp_path / "out\x1b[1m.csv.card.json"),
        ("verify", tmp_path / "out\x1b[1m.csv.card.json", shared),
        ("scan", evil, "--secret", "other\x1b[1m"),
        ("scan", tmp_path / "no\x1b[1mwhere.csv", "--secret", "x"),
    )
    codes = []
    for command in commands:
        ran = lowtide(*command)
        codes.append(ran.code)
        assert ran.out + ran.err
        check_harmless(ran.out)
        check_harmless(ran.err)
    assert codes == [0, 0, 0, 2, codes[4], 0, 0, 2, 2]
    assert codes[4] in (0, 1)
    check_harmless(str(Plan.load(plan)))
    check_harmless((tmp_path / "out\x1b[1m.csv.card.md").read_text())
    check_harmless((tmp_path / "re\x1b[1m.html").read_text())


def test_the_card_of_somebody_else_does_not_reach_the_terminal_raw(home, lowtide, sealed, tmp_path):
    card = json.loads(home.shared.with_name("shared.csv.card.json").read_text())
    card["mechanism"] = card["attacks"][1]["attacker"] = EVIL
    card["features"][0]["name"] = EVIL
    card["certificate"]["statements"] = [EVIL, *card["certificate"]["statements"]]
    card["versions"]["numpy"] = EVIL
    card["parameters"] = {EVIL: EVIL, "noised": [EVIL], "ranges_learnt": [EVIL], "lam": EVIL}
    path = tmp_path / "foreign.card.json"
    path.write_text(json.dumps(sealed(card)))
    ran = lowtide("show", path)
    assert ran.code == 0, ran.err
    assert ran.out.count("made up") >= 6
    check_harmless(ran.out)


def test_words_of_warnings_and_tracebacks_do_not_reach_the_terminal_raw(capsys):
    console.note(EVIL)
    console.say(EVIL)
    check_harmless("".join(capsys.readouterr()))


@pytest.fixture
def copied(home, tmp_path):
    """A release with its card, plan and reference, to be overwritten."""
    for path in (home.survey, home.plan, home.shared, *home.folder.glob("shared.csv.card.*")):
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.parametrize("option", ["--json", "--report"])
@pytest.mark.parametrize(
    "name",
    ["shared.csv.card.json", "shared.csv.card.md", "plan.json", "survey.csv", "shared.csv", "link"],
)
def test_an_audit_overwrites_nothing_that_it_reads(copied, refused, option, name):
    (copied / "link").hardlink_to(copied / "shared.csv.card.json")
    before = {path: path.read_bytes() for path in copied.iterdir() if path.is_file()}
    audit = (
        "audit",
        copied / "shared.csv",
        "--reference",
        copied / "survey.csv",
        "--secret",
        "beast",
    )
    assert "would overwrite" in refused(
        *audit, "--plan", copied / "plan.json", option, copied / name
    )
    assert {path: path.read_bytes() for path in before} == before


def test_outputs_do_not_lie_in_a_folder_that_is_read(refused, home, tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("one")
    line = refused(
        "scan", tmp_path / "texts", "--secret", "label", "--json", tmp_path / "texts" / "out.json"
    )
    assert "lies in" in line
    stop = ("--stop", home.survey, "--text", "town")
    assert "which is the --stop" in refused(
        "scan", home.shared, *stop, "--secret", "x", "--json", home.survey
    )


def test_plans_are_for_their_owner_only(home):
    assert stat.S_IMODE(home.plan.stat().st_mode) == 0o600
    plan = Plan.load(home.plan)
    folder = plan.save(home.folder / "as a folder")
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    others = [
        home.shared,
        home.folder / "p.json",
        home.folder / "p.html",
        home.folder / "shared.csv.card.json",
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in others} == {0o644}
