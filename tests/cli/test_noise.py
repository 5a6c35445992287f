"""Noise: keyed by row, the same in any order, different without the key."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowtide.table_files.reading import read


@pytest.fixture(scope="module")
def noisy(home, lowtide, tmp_path_factory):
    """A plan that adds noise to ages, whatever they tell."""
    plan = tmp_path_factory.mktemp("noisy") / "plan.json"
    options = (
        "--mechanism",
        "gaussian",
        "--lam",
        0.5,
        "--hide",
        "age",
        "--budget",
        "0.05",
        "--steps",
        40,
    )
    ran = lowtide("plan", home.survey, "--secret", "beast", *options, "--out", plan)
    assert ran.code == 0, ran.err
    return plan


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_without_ids_rows_are_recognised_by_content_and_a_sentence_says_so_once(
    home, noisy, lowtide, tmp_path
):
    options = ("--plan", noisy, "--key-file", tmp_path / "noise.key")
    turned = write_rows(tmp_path / "turned.csv", rows_of(home.survey)[::-1])
    ran = lowtide("release", home.survey, *options, "--out", tmp_path / "a.csv")
    assert ran.code == 0, ran.err
    assert ran.err.count("recognised by its content") == 1
    assert lowtide("release", turned, *options, "--out", tmp_path / "b.csv").code == 0
    assert rows_of(tmp_path / "a.csv") == rows_of(tmp_path / "b.csv")[::-1]
    moved = zip(rows_of(home.survey), rows_of(tmp_path / "a.csv"), strict=True)
    assert sum(a["age"] != b["age"] for a, b in moved) > 200
    named = lowtide(
        "release", home.survey, *options, "--ids", "person", "--out", tmp_path / "c.csv"
    )
    assert "recognised by its content" not in named.err


def test_the_same_key_file_gives_the_same_release(home, noisy, lowtide, tmp_path):
    options = ("--plan", noisy, "--ids", "person", "--key-file", tmp_path / "noise.key")
    first = tmp_path / "first.csv"
    second = tmp_path / "second.csv"
    ran = lowtide("release", home.survey, *options, "--out", first)
    assert ran.code == 0, ran.err
    assert "--key-file" not in ran.err
    assert lowtide("release", home.survey, *options, "--out", second).code == 0
    assert first.read_bytes() == second.read_bytes()
    assert (tmp_path / "noise.key").stat().st_mode & 0o077 == 0
    before = rows_of(home.survey)
    after = rows_of(first)
    moved = sum(a["age"] != b["age"] for a, b in zip(before, after, strict=True))
    assert moved > 200
    assert [row["income"] for row in before] == [row["income"] for row in after]
    assert {row["person"] for row in after} == {"hidden"}


def test_noise_does_not_depend_on_the_order_of_rows(home, noisy, lowtide, tmp_path):
    options = ("--plan", noisy, "--ids", "person", "--key-file", tmp_path / "noise.key")
    turned = write_rows(tmp_path / "turned.csv", rows_of(home.survey)[::-1])
    assert lowtide("release", home.survey, *options, "--out", tmp_path / "a.csv").code == 0
    assert lowtide("release", turned, *options, "--out", tmp_path / "b.csv").code == 0
    assert rows_of(tmp_path / "a.csv") == rows_of(tmp_path / "b.csv")[::-1]


def test_without_a_key_file_the_key_is_kept_beside_the_plan(home, noisy, lowtide, tmp_path):
    """Forgotten keys would make every release a second look, and sixteen of them average the noise
    away.
    """
    plan = tmp_path / "plan.json"
    plan.write_bytes(noisy.read_bytes())
    for name in ("a.csv", "b.csv"):
        ran = lowtide(
            "release", home.survey, "--plan", plan, "--ids", "row", "--out", tmp_path / name
        )
        assert ran.code == 0, ran.err
        assert ("is kept in" in ran.err) == (name == "a.csv")
    assert (tmp_path / "noise.key").stat().st_mode & 0o077 == 0
    assert rows_of(tmp_path / "a.csv") == rows_of(tmp_path / "b.csv")


def test_fresh_noise_must_be_asked_for(home, noisy, lowtide, refused, tmp_path):
    out = ("--plan", noisy, "--ids", "row", "--fresh-noise")
    for name in ("a.csv", "b.csv"):
        ran = lowtide("release", home.survey, *out, "--out", tmp_path / name)
        assert ran.code == 0, ran.err
        assert "average it away" in ran.err
    assert rows_of(tmp_path / "a.csv") != rows_of(tmp_path / "b.csv")
    line = refused(
        "release", home.survey, *out, "--key-file", tmp_path / "k", "--out", tmp_path / "c.csv"
    )
    assert "leave out the key file" in line


def test_ids_that_repeat_or_are_missing_are_refused(home, noisy, refused, tmp_path):
    out = ("--plan", noisy, "--out", tmp_path / "a.csv")
    line = refused("release", home.survey, *out, "--ids", "town")
    assert "repeats itself" in line
    assert "or leave ids out" in line
    assert "did you mean 'person'" in refused("release", home.survey, *out, "--ids", "persn")
    rows = rows_of(home.survey)
    rows[3]["person"] = ""
    holes = write_rows(tmp_path / "holes.csv", rows)
    assert "missing" in refused("release", holes, *out, "--ids", "person")


def test_ids_repeated_in_a_later_batch_are_refused(home, noisy, refused, lowtide, tmp_path):
    few = read(home.survey)
    table = pa.concat_tables([few] * 220)  # more rows than are read at once
    ids = [f"P{i}" for i in range(len(table))]
    for name, last in (("good", ids[-1]), ("bad", ids[0])):
        column = pa.array([*ids[:-1], last])
        pq.write_table(table.set_column(0, "person", column), tmp_path / f"{name}.parquet")
    out = ("--plan", noisy, "--out", tmp_path / "a.parquet", "--ids", "person")
    assert "--ids names a column that repeats itself" in refused(
        "release", tmp_path / "bad.parquet", *out
    )
    assert lowtide("release", tmp_path / "good.parquet", *out).code == 0


def test_a_damaged_key_is_refused_and_not_replaced(home, noisy, refused, tmp_path):
    key = tmp_path / "noise.key"
    key.write_text("not a key")
    options = ("--plan", noisy, "--ids", "person", "--key-file", key, "--out", tmp_path / "a.csv")
    line = refused("release", home.survey, *options)
    assert "holds no key" in line
    assert "not a key" not in line
    assert key.read_text() == "not a key"


def test_no_key_is_made_for_a_table_that_is_refused(noisy, refused, survey, tmp_path):
    other = survey(tmp_path / "other.csv", columns=("person", "age", "beast"))
    options = (
        "--plan",
        noisy,
        "--ids",
        "person",
        "--key-file",
        tmp_path / "noise.key",
        "--out",
        tmp_path / "a.csv",
    )
    assert "other columns" in refused("release", other, *options)


def range_of(plan, column):
    mechanism = json.loads(plan.read_text())["mechanism"]
    place = mechanism["columns"].index(column)
    return [mechanism["private"][end][place] for end in ("low", "high")]


def test_ranges_are_given_or_rounded_and_the_card_says_which(
    home, noisy, lowtide, refused, tmp_path
):
    ages = [float(row["age"]) for row in rows_of(home.survey)]
    low, high = range_of(noisy, "age")
    assert low < min(ages)
    assert high > max(ages)
    assert "age" in json.loads(noisy.read_text())["card"]["parameters"]["ranges_learnt"]
    given = tmp_path / "given.json"
    options = (
        "--mechanism",
        "gaussian",
        "--lam",
        0.5,
        "--hide",
        "age",
        "--kept",
        0.5,
        "--steps",
        40,
    )
    ran = lowtide(
        "plan", home.survey, "--secret", "beast", *options, "--bounds", "age=0:120", "--out", given
    )
    assert ran.code == 0, ran.err
    assert range_of(given, "age") == [0.0, 120.0]
    assert "age" not in json.loads(given.read_text())["card"]["parameters"]["ranges_learnt"]
    wrong = (
        "plan",
        home.survey,
        "--secret",
        "beast",
        *options,
        "--out",
        tmp_path / "b.json",
        "--bounds",
    )
    assert "such as age=0:120" in refused(*wrong, "age=low:high")
    assert "low < high" in refused(*wrong, "age=9:3")
