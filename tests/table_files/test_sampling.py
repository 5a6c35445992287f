"""Uniform samples of rows, and what scan and plan say of them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowtide import Plan, plan, scan, worlds
from lowtide.errors import LowtideError, LowtideNote
from lowtide.table_files.sampling import sample_rows

WORLD = worlds.shifted_gaussian(2, dimension=3, moved=2)


def numbered(n, size):
    return [
        pa.table({"row": np.arange(start, min(start + size, n))}) for start in range(0, n, size)
    ]


def write_world(path, n, row_group=500):
    x, s = WORLD.sample(n, seed=3)
    order = np.argsort(
        s, kind="stable"
    )  # sorted by the secret: the first rows say nothing of the last
    columns = {f"c{j}": x[order, j] for j in range(x.shape[1])}
    pq.write_table(
        pa.table({**columns, "s": np.array(["no", "yes"])[s[order]]}),
        path,
        row_group_size=row_group,
    )


def test_every_row_is_as_likely_to_be_in_the_sample():
    sample = sample_rows(numbered(100_000, 1000), 10_000)
    assert (len(sample.table), sample.rows, sample.is_part) == (10_000, 100_000, True)
    np.testing.assert_array_equal(sample.table["row"].to_numpy(), sample.places)
    assert (np.diff(sample.places) > 0).all(), "in the order of the source"
    tenths = np.bincount(sample.places // 10_000, minlength=10)
    chi2 = ((tenths - 1000) ** 2 / 1000).sum()
    assert chi2 < 27.9, (
        "the 99.9 % quantile with 9 degrees of freedom; a sample of the first rows has 90,000"
    )


def test_the_sample_does_not_depend_on_how_the_source_is_cut():
    one, other = (sample_rows(numbered(5000, size), 300) for size in (5000, 77))
    np.testing.assert_array_equal(one.places, other.places)


def test_few_rows_are_all_taken():
    sample = sample_rows(numbered(50, 20), 50)
    assert not sample.is_part
    np.testing.assert_array_equal(sample.places, np.arange(50))


def test_a_group_is_in_the_sample_as_a_whole_or_not_at_all():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 400, 20_000)
    tables = [pa.table({"who": groups[start : start + 999]}) for start in range(0, 20_000, 999)]
    sample = sample_rows(tables, 4000, group="who")
    chosen = np.bincount(sample.table["who"].to_numpy(), minlength=400)
    assert set((chosen / np.bincount(groups)).tolist()) == {0.0, 1.0}
    assert 3800 < len(sample.table) <= 4000


def test_rows_without_a_group_stand_for_themselves():
    sample = sample_rows([pa.table({"who": pa.nulls(1000, pa.string())})], 100, group="who")
    assert len(sample.table) == 100


def test_a_group_larger_than_the_sample_is_refused():
    with pytest.raises(LowtideError, match="a group has more than the 100 rows"):
        sample_rows([pa.table({"who": np.zeros(1000)})], 100, group="who")


def test_a_sampled_scan_agrees_with_the_exact_information(tmp_path):
    write_world(tmp_path / "w.parquet", 6000)
    with pytest.warns(
        LowtideNote, match=r"w.parquet is judged by a uniform sample of 2,000 of 6,000 rows"
    ):
        found = scan(tmp_path / "w.parquet", "s", most_rows=2000, steps=200, progress=False)
    assert found.information.low < WORLD.information() < found.information.high
    assert (found.to_json()["rows"], found.to_json()["source_rows"]) == (2000, 6000)
    assert "a uniform sample of 2,000 of 6,000 rows" in str(found)


@pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")
def test_the_card_of_a_sampled_plan_says_so(tmp_path):
    write_world(tmp_path / "w.parquet", 3000)
    made = plan(
        tmp_path / "w.parquet", "s", policy="fixed", most_rows=800, steps=40, progress=False
    )
    Plan.load(made.save(tmp_path / "plan.json"))
    assert made.card.parameters["planned on"] == "a uniform sample of 800 of 3,000 rows"
    assert "planned on = a uniform sample of 800 of 3,000 rows" in made.card.text()
    assert "planned on" in json.dumps(made.card.to_json())
    whole = plan(tmp_path / "w.parquet", "s", policy="fixed", steps=40, progress=False)
    assert "planned on" not in whole.card.parameters


@pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")
def test_values_of_a_secret_are_sampled_with_their_rows():
    x, s = WORLD.sample(3000, seed=1)
    found = scan(
        pa.table({f"c{j}": x[:, j] for j in range(3)}), s, most_rows=1500, steps=100, progress=False
    )
    assert found.information.low > 0.05
    with pytest.raises(LowtideError, match="the secret"):
        scan(pa.table({"c": x[:, 0]}), s[:-1], most_rows=1500, progress=False)


def test_arrays_and_lists_are_sampled_as_files_are():
    x, s = WORLD.sample(3000, seed=1)
    texts = [f"{'left' if label else 'right'} word{number}" for number, label in enumerate(s)]
    with pytest.warns(
        LowtideNote, match="array is judged by a uniform sample of 1,500 of 3,000 rows"
    ):
        found = scan(x, s, most_rows=1500, steps=100, progress=False)
    assert (found.to_json()["rows"], found.to_json()["source_rows"]) == (1500, 3000)
    assert found.information.low > 0.05
    with pytest.warns(
        LowtideNote, match=r"list is judged by a uniform sample of 1,500 of 3,000 texts"
    ):
        words = scan(texts, s, most_rows=1500, steps=16, progress=False).to_json()
    assert (words["texts"], words["source_texts"]) == (1500, 3000)


def test_fewer_rows_than_asked_for_are_noted(tmp_path):
    write_world(tmp_path / "w.parquet", 300)
    with pytest.warns(
        LowtideNote, match="has 300 rows, fewer than --rows 1,000: all of them are used"
    ):
        scan(tmp_path / "w.parquet", "s", most_rows=1000, steps=40, progress=False)


def test_a_damaged_row_group_in_the_middle_is_refused(tmp_path):
    path = tmp_path / "w.parquet"
    write_world(path, 6000)
    start = pq.ParquetFile(path).metadata.row_group(6).column(0).dictionary_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 400] = b"\xff" * 400
    path.write_bytes(content)
    with pytest.raises(LowtideError, match=r"w\.parquet: it is damaged"):
        scan(path, "s", most_rows=500, progress=False)


def test_files_of_other_columns_are_refused(tmp_path):
    write_world(tmp_path / "a.parquet", 300)
    pq.write_table(
        pq.read_table(tmp_path / "a.parquet").drop_columns(["c1"]), tmp_path / "b.parquet"
    )
    with pytest.raises(LowtideError, match=r"b.parquet lacks c1 than a.parquet"):
        scan(tmp_path, "s", kind="tables", most_rows=100, progress=False)


@pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")
def test_authors_of_sampled_texts_stay_together(tmp_path):
    rng = np.random.default_rng(0)
    authors = rng.integers(0, 200, 2000)
    party = authors % 2
    words = np.where(rng.random(2000) < 0.9, np.array(["left", "right"])[party], "other")
    texts = [f"{word} word{k % 50} today{k}" for k, word in enumerate(words)]
    columns = {
        "text": texts,
        "party": np.array(["a", "b"])[party],
        "author": [f"author {a}" for a in authors],
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    how = {"text": "text", "group": "author", "most_rows": 600, "steps": 20, "progress": False}
    found = scan(tmp_path / "t.parquet", "party", **how)
    assert found.to_json()["source_texts"] == 2000
    assert 540 < found.rows <= 600
    assert found.information.low > 0.3
