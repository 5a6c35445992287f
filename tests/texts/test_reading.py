"""Texts from files, copies among them, and what is wrong with some."""

import gzip
import json
import traceback

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.texts.reading import TextCounts, duplicates, read_texts, split_groups
from lowtide.texts.terms import find_terms

RAW = "Zarquon77"  # stands for what must not be told
TABLE = {
    "author": [1, 1, 2, 3],
    "party": ["D", "R", None, "R"],
    "split": ["train", "train", "test", "test"],
    "text": ["Hello, world", "Thanks!", None, 'שלום "עולם",\n👩🏽‍🚀'],
}


def write(tmp_path, suffix):
    """The table as a file of this format."""
    path = tmp_path / f"tweets{suffix}"
    table = pa.table(TABLE)
    if suffix == ".parquet":
        pq.write_table(table, path)
    elif suffix == ".arrow":
        pyarrow.feather.write_feather(table, path)
    elif suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        cells = (
            ['"' + str(cell or "").replace('"', '""') + '"' for cell in row.values()]
            for row in table.to_pylist()
        )
        content = "\n".join(",".join(row) for row in [list(TABLE), *cells]).encode()
        path.write_bytes(gzip.compress(content) if suffix == ".csv.gz" else content)
    return path


def refuse(path, match, **options):
    """Reading fails with one line and a remedy, and neither it nor its traceback tells the data."""
    with pytest.raises(LowtideError, match=match) as caught:
        read_texts(path, **options)
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value)
    assert RAW not in "".join(traceback.format_exception(caught.value, chain=True))


def file(tmp_path, name, content):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl", ".parquet", ".arrow"])
def test_tables_of_every_format(tmp_path, suffix):
    found = read_texts(write(tmp_path, suffix), text="text", secret="party", group="author")
    assert found.texts == tuple(text or "" for text in TABLE["text"])
    assert found.secret.to_pylist() == TABLE["party"]
    assert [str(author) for author in found.groups.to_pylist()] == ["1", "1", "2", "3"]
    assert found.others.column_names == ["author", "split"]
    assert found.others["split"].to_pylist() == TABLE["split"]
    assert found.names == ("text", "party", "author")
    assert found.counts == TextCounts(texts=4, empty=1, one_word=1, without_secret=1)
    assert len(found) == 4


def test_rows_can_be_taken(tmp_path):
    found = read_texts(write(tmp_path, ".parquet"), secret="party", group="author")
    some = found.take(found.secret.is_valid().to_numpy())
    assert some.secret.to_pylist() == ["D", "R", "R"]
    assert some.others["author"].to_pylist() == [1, 1, 3]
    assert some.counts == TextCounts(texts=3, empty=0, one_word=1, without_secret=0)
    assert found.take([3, 0]).texts == (found.texts[3], found.texts[0])
    np.testing.assert_array_equal(found.split_groups(), [0, 0, 1, 2])


def test_the_column_of_texts_is_found(tmp_path):
    path = file(tmp_path, "t.csv", "age,Message,party\n1,good day,D\n2,good night,R\n")
    found = read_texts(path)
    assert found.names == ("Message", None, None)
    assert found.secret is None
    assert found.groups is None
    only = read_texts(file(tmp_path, "o.csv", "words\nx y\n"))
    assert only.texts == ("x y",)
    assert only.others.shape == (1, 0)
    assert only.take([0, 0]).others.shape == (2, 0)
    path = file(tmp_path, "u.csv", "a,b,party\nx y,y z,D\n")
    refuse(path, "which column .* holds the texts, one of 'a', 'b'; name it", secret="party")
    assert read_texts(path, text="b", secret="party").texts == ("y z",)
    refuse(file(tmp_path, "n.csv", "a,b\n1,2\n"), "none holds text; name it")


def test_a_folder_for_each_class(tmp_path):
    file(tmp_path, "left/a.txt", "\ufefffair pay")
    file(tmp_path, "left/deep/b.TXT", "")
    file(tmp_path, "right/c.txt", "low taxes\r\nnow")
    file(tmp_path, "right/notes.md", "not a text")
    file(tmp_path, "right/.hidden.txt", "hidden")
    file(tmp_path, "stray.txt", "nobody knows")
    found = read_texts(tmp_path)
    assert found.names == ("text", "label", None)
    assert found.others["file"].to_pylist() == [
        "left/a.txt",
        "left/deep/b.TXT",
        "right/c.txt",
        "stray.txt",
    ]
    assert found.texts == ("fair pay", "", "low taxes\r\nnow", "nobody knows")
    assert found.secret.to_pylist() == ["left", "left", "right", None]
    assert found.counts == TextCounts(texts=4, empty=1, one_word=0, without_secret=1)


def test_folders_above_classes_are_a_split(tmp_path):
    for name in ("train/pos/1.txt", "train/neg/1.txt", "test/pos/1.txt"):
        file(tmp_path, name, "a film")
    found = read_texts(tmp_path, secret="label")
    assert found.others["split"].to_pylist() == ["test", "train", "train"]
    assert found.secret.to_pylist() == ["pos", "neg", "pos"]


def test_unreadable_folders_are_refused(tmp_path):
    refuse(tmp_path, r"holds no \.txt files; give")
    file(tmp_path, "only/a.txt", "one class")
    refuse(tmp_path, "no column 'label'; the columns are", secret="label")
    assert read_texts(tmp_path).secret is None
    file(tmp_path, "other/b.txt", f"{RAW} é".encode("latin-1"))
    refuse(tmp_path, r"b\.txt is not text in utf-8; save it again")
    assert read_texts(tmp_path, encoding="latin-1").texts[1] == f"{RAW} é"
    refuse(tmp_path, "encoding must be one Python knows", encoding="utf-99")


def test_unreadable_tables_are_refused(tmp_path):
    path = file(tmp_path, "t.csv", f"text,party,age,none\n{RAW},D,3,\nword,R,4,\n")
    refuse(path, "no column 'txt'; did you mean 'text'?", text="txt")
    refuse(path, "no column 'prty'; did you mean 'party'?", secret="prty")
    refuse(path, "no column 'author'; ", group="author")
    refuse(path, "column 'age' of .* holds integer values, not texts; name", text="age")
    refuse(path, "no text of column 'none' of .* has a word in it; name another", text="none")
    refuse(
        path, "column 'none' of .* is empty in all rows; name another", text="text", secret="none"
    )
    refuse(path, "cannot be both the text and something else; name", text="text", secret="text")
    refuse(file(tmp_path, "e.csv", ""), "is an empty file; give")
    refuse(file(tmp_path, "h.csv", "text,party\n"), "has a header and no rows; give")
    refuse(file(tmp_path, "s.csv", 'text,party\n"...",D\n"  ",R\n'), "no text of column 'text'")
    refuse(tmp_path / "tt.csv", "there is no file .*; ")


def test_a_text_of_a_million_characters(tmp_path):
    long = "word " * 200_000
    path = file(
        tmp_path,
        "t.jsonl",
        "".join(json.dumps({"text": text, "s": 1}) + "\n" for text in (long, "short")),
    )
    assert read_texts(path, secret="s").texts == (long, "short")


def test_copies_are_found():
    texts = ["Hello, World!", "hello world", "Hello, World!", "other", "", "!!!", ""]
    found = duplicates(texts, ["train", "train", "test", "test", "train", "test", "test"])
    np.testing.assert_array_equal(found.codes, [0, 0, 0, 1, 2, 3, 4])
    assert (found.exact, found.near, found.across) == (1, 1, 3)
    assert duplicates(texts).across == 0
    assert duplicates([]).exact == 0


def test_authors_and_copies_stay_together():
    texts = ["a b", "c d", "A, B", "e f", "g h", "e f", "", ""]
    authors = ["x", "y", "y", "z", None, None, float("nan"), "w"]
    np.testing.assert_array_equal(split_groups(texts, authors), [0, 0, 0, 1, 2, 1, 3, 4])
    np.testing.assert_array_equal(split_groups(texts), [0, 1, 0, 2, 3, 2, 4, 5])
    with pytest.raises(LowtideError, match="one group for each text, got 1 for 8"):
        split_groups(texts, ["x"])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "A!", "b", "b c", "d", "", "."]), st.integers(0, 5)),
        max_size=20,
    )
)
def test_no_group_shares_an_author_or_a_text(rows):
    texts = [text for text, _ in rows]
    authors = [author for _, author in rows]
    groups = split_groups(texts, authors).tolist()
    keys = [tuple(term.text for term in find_terms(text)) for text in texts]
    same = [
        [authors[i] == authors[j] or (keys[i] == keys[j] != ()) for j in range(len(rows))]
        for i in range(len(rows))
    ]
    # Groups are the smallest that are closed under "same author or same words".
    reach = np.array(same, dtype=bool).reshape(len(rows), len(rows))
    for _ in rows:
        reach = (reach.astype(int) @ reach.astype(int)) > 0
    for i in range(len(rows)):
        for j in range(len(rows)):
            assert (groups[i] == groups[j]) == reach[i, j]
