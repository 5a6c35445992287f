"""No value of the data and no label of the secret in anything that leaves the house, nor on the
screen.
"""

import json

import pytest

LABELS = ("ZEBRA", "OKAPI")
CELLS = ("987654321", "9.87654321", "9.876543e", "P7-0000", "P7-0001")


def leaks(text):
    return [word for word in (*LABELS, *CELLS) if word.lower() in text.lower()]


@pytest.fixture(scope="module")
def scanned(home, lowtide):
    files = (
        "--json",
        home.folder / "s.json",
        "--report",
        home.folder / "s.html",
        "--figures",
        home.folder / "figures",
    )
    return lowtide("scan", home.survey, "--secret", "beast", "--steps", 40, *files)


def test_the_searched_values_and_labels_are_in_the_data(home):
    text = home.survey.read_text()
    assert set(leaks(text)) >= {*LABELS, "987654321", "P7-0000"}


def test_printed_output_shows_no_value_or_label(home, scanned, audited):
    for ran in (home.planned, home.released, scanned, audited):
        assert ran.code == 0
        assert leaks(ran.out + ran.err) == []


def test_publishable_files_hold_no_value_or_label(home, scanned, audited):
    published = [
        home.folder / name
        for name in ("s.json", "s.html", "p.json", "p.html", "r.json", "a.json", "a.html")
    ]
    published += [home.folder / "shared.csv.card.json", home.folder / "shared.csv.card.md"]
    published += list((home.folder / "figures").glob("*.svg"))
    assert len(published) >= 12
    for path in published:
        text = path.read_text()
        assert len(text) > 200
        assert leaks(text) == [], path
        # Categories of the data are not told either.
        assert "north" not in text, path


def test_the_secret_is_not_in_the_release(home):
    for label in LABELS:
        assert label not in home.shared.read_text()


def test_a_plan_keeps_learnt_values_in_its_private_part(home):
    plan = json.loads(home.plan.read_text())
    private = plan["mechanism"].pop("private")
    assert "north" in json.dumps(private)
    assert (
        leaks(json.dumps(private)) == []
    )  # the secret is not among the categories, and redaction needs no ranges
    assert leaks(json.dumps(plan)) == []
    assert "north" not in json.dumps(plan)


def test_error_messages_quote_no_value(home, lowtide, tmp_path):
    text = home.survey.read_text()
    broken = tmp_path / "broken.csv"
    for old, new in (
        ("987654321.0", "987654321x"),
        ("ZEBRA", "ZEBRA,OKAPI"),
        ("P7-00001", '"P7-00001'),
    ):
        broken.write_text(text.replace(old, new, 1))
        ran = lowtide("release", broken, "--plan", home.plan, "--out", tmp_path / "a.csv")
        assert ran.code == 2, (new, ran)
        assert leaks(ran.err) == []
    broken.write_text(text.replace(",north,", ",ZEBRAVILLE,", 1))
    ran = lowtide("release", broken, "--plan", home.plan, "--out", tmp_path / "a.csv")
    assert leaks(ran.err + ran.out) == []
    ran = lowtide("scan", home.survey, "--secret", "beast", "--type", "beast=number")
    assert ran.code == 2
    assert leaks(ran.err) == []
    ran = lowtide("scan", home.survey, "--secret", "income")
    assert ran.code == 2
    assert leaks(ran.err) == []
