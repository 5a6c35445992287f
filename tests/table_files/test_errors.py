"""Every broken file gets one line with a remedy, and none of its contents."""

import gzip
import os
import traceback

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from lowtide.errors import LowtideError
from lowtide.table_files.formats import find_column
from lowtide.table_files.reading import batches, read

RAW = "Zarquon77"  # stands for what must not be told


def refuse(path, match, **options):
    """Reading fails with one line that fits, and neither it nor its traceback tells the data."""
    with pytest.raises(LowtideError, match=match) as caught:
        read(path, **options)
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value)
    assert RAW not in "".join(traceback.format_exception(caught.value, chain=True))
    return str(caught.value)


def file(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_files_that_are_not_there(tmp_path):
    file(tmp_path, "survey.csv", "a\n1\n")
    refuse(tmp_path / "survy.csv", "no file .*; did you mean 'survey.csv'")
    refuse(tmp_path / "nowhere" / "t.csv", "no file .*; check the path")
    (tmp_path / "folder.csv").mkdir()
    refuse(tmp_path / "folder.csv", "is a folder")
    with pytest.raises(LowtideError, match=r"must end in one of \.csv, \.csv\.gz, .*\.ndjson"):
        read(file(tmp_path, "t.xlsx", "x"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_that_may_not_be_read(tmp_path):
    path = file(tmp_path, "t.csv", "a\n1\n")
    path.chmod(0)
    refuse(path, "Permission denied; check")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow", "jsonl"])
def test_empty_files(tmp_path, suffix):
    refuse(file(tmp_path, f"t.{suffix}", ""), "empty file; give")


def test_files_without_rows_or_columns(tmp_path):
    refuse(file(tmp_path, "t.csv", "a,b\n"), "no rows; give")
    refuse(file(tmp_path, "t.csv", "\n\n"), "empty file; give")
    refuse(file(tmp_path, "t.jsonl", "\n\n"), "no rows; give")
    nothing = pa.table({"a": pa.array([], pa.int64())})
    pq.write_table(nothing, tmp_path / "t.parquet")
    refuse(tmp_path / "t.parquet", "no rows; give")
    pq.write_table(nothing.select([]), tmp_path / "t.parquet")
    refuse(tmp_path / "t.parquet", "no columns; give")


def test_duplicate_columns(tmp_path):
    refuse(file(tmp_path, "t.csv", "a,b,a\n1,2,3\n"), "more than one column 'a'; rename")
    refuse(file(tmp_path, "t.jsonl", '{"a": 1, "a": 2}\n'), "'a' twice in line 1; rename")


def test_columns_that_cannot_be_judged_are_read(tmp_path):
    assert pa.types.is_struct(read(file(tmp_path, "t.jsonl", '{"a": {"b": 1}}\n'))["a"].type)
    pq.write_table(pa.table({"a": [[1, 2]]}), tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet")["a"].to_pylist() == [[1, 2]]


def test_ragged_rows_are_located_and_not_quoted(tmp_path):
    rows = "1,2\n" * 1000
    refuse(
        file(tmp_path, "t.csv", f"a,b\n{rows}3,{RAW},5\n{rows}"),
        "has 3 cells near row 1002 .* and 2 columns; quote",
    )
    refuse(file(tmp_path, "t.csv", f"a,b\n{rows}{RAW}\n"), "has 1 cells near row 1002")


def test_values_that_do_not_fit_are_located_and_not_quoted(tmp_path):
    path = file(tmp_path, "t.csv", "a,b\n" + "1,2\n" * 1000 + f"1,{RAW}\n")
    assert read(path)["b"].type == pa.string()
    refuse(path, "column 'b' of .* near row 1002", types={"b": "number"})
    refuse(
        path, "column 'b' of .* dates in all rows; write them as YYYY-MM-DD", types={"b": "date"}
    )
    like = pa.schema([("b", pa.int64())])
    lines = file(tmp_path, "t.jsonl", '{"b": 1}\n' * 3 + f'{{"b": "{RAW}"}}\n')
    refuse(lines, "column 'b' of .* changes from number to string in line 4")
    text = file(tmp_path, "u.jsonl", f'{{"b": "{RAW}"}}\n')
    pq.write_table(pa.table({"b": ["1", RAW]}), tmp_path / "t.parquet")
    for name, match in (
        (path, "near row 1002"),
        (text, "lines 1 to 1"),
        (tmp_path / "t.parquet", "in some rows"),
    ):
        with pytest.raises(LowtideError, match=match) as caught:
            list(batches(name, like=like))
        assert "column 'b'" in str(caught.value)
        assert RAW not in "".join(traceback.format_exception(caught.value))


def test_types_and_columns_that_do_not_exist(tmp_path):
    path = file(tmp_path, "t.csv", "vote,age\nleft,3\n")
    with pytest.raises(LowtideError, match="no column 'vot'; did you mean 'vote'"):
        read(path, types={"vot": "text"})
    with pytest.raises(LowtideError, match=r"must be one of 'number', .* got 'float'"):
        read(path, types={"vote": "float"})
    with pytest.raises(LowtideError, match="rows must be at least 1"):
        batches(path, rows=0)


def test_text_that_is_not_utf8(tmp_path):
    cell = f"größe,b\n{RAW}ü,2\n"
    refuse(
        file(tmp_path, "t.csv", cell.encode("latin-1")),
        "save it again as UTF-8, or give its encoding",
    )
    refuse(
        file(tmp_path, "t.csv", f"a,b\n{RAW}ü,2\n".encode("latin-1")),
        "save it again as UTF-8, or give its encoding",
    )
    late = b"a,b\n" + b"1,2\n" * 2_000_000 + f"{RAW}ü,2\n".encode("latin-1")
    refuse(file(tmp_path, "t.csv", late), "save it again as UTF-8, or give its encoding")
    refuse(file(tmp_path, "t.csv", cell.encode("utf-16")), "encoding='utf-16'")
    refuse(file(tmp_path, "t.csv", cell), "not text in ascii", encoding="ascii")
    with pytest.raises(LowtideError, match="encoding must be one of text that Python knows"):
        read(file(tmp_path, "t.csv", cell), encoding="klingon")
    refuse(
        file(tmp_path, "t.jsonl", '{"a": 1}\n{"a": "ü"}\n'.encode("latin-1")),
        "not UTF-8 in line 2; save",
    )
    refuse(file(tmp_path, "t.jsonl", '{"a": 1}\n'), "CSV and TSV only", encoding="latin-1")


def test_damaged_files(tmp_path):
    table = pa.table({"a": list(range(5000)), "b": [f"{RAW}{i}" for i in range(5000)]})
    pq.write_table(table, tmp_path / "t.parquet")
    pa.feather.write_feather(table, tmp_path / "t.feather", compression="uncompressed")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 5000))
    for name in ("t.parquet", "t.feather", "t.csv.gz"):
        path = tmp_path / name
        whole = (tmp_path / name).read_bytes()
        assert read(path).num_rows == 5000
        for cut in (5, len(whole) // 2, len(whole) - 5):
            path.write_bytes(whole[:cut])
            refuse(path, "damaged, cut short or not (Parquet|Arrow|gzip); copy")
        path.write_bytes(b"a,b\n1,2\n" * 10)
        refuse(path, "damaged, cut short or not")


def test_damage_inside_an_arrow_file_is_an_error_or_harmless(tmp_path):
    path = tmp_path / "t.arrow"
    pa.feather.write_feather(
        pa.table({"b": [f"x{i}" for i in range(200)]}), path, compression="uncompressed"
    )
    whole = path.read_bytes()
    refused = 0
    for place in range(8, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            read(path)
        except LowtideError:
            refused += 1
    assert refused > 5


def test_broken_lines(tmp_path):
    good = '{"a": 1, "b": "x"}\n'
    refuse(
        file(tmp_path, "t.jsonl", good * 3 + f'\n{{"a": 2, "b": "{RAW}\n' + good),
        "broken in line 5; write one",
    )
    refuse(file(tmp_path, "t.jsonl", f'["{RAW}"]\n'), "broken in line 1; write one")
    refuse(file(tmp_path, "t.jsonl", good + good[:9]), "broken in line 2; write one")


def test_other_delimiters_and_open_quotes(tmp_path):
    refuse(
        file(tmp_path, "t.csv", f"a;b\n{RAW}\n"),
        "one column only.*; give every row as many cells as the header",
    )
    assert read(file(tmp_path, "t.csv", '"a;b"\n1\n')).column_names == ["a;b"]
    refuse(
        file(tmp_path, "t.csv", f'a,b\n1,"{RAW}\n2,3\n4,5\n'), "ends within a quoted cell; close"
    )
    ok = file(tmp_path, "t.csv", 'a,b\n1,"two\nlines"\n2,5" pipe\n3,"x\n"\n')
    assert read(ok)["b"].to_pylist()[:2] == ["two\nlines", '5" pipe']


def test_find_column():
    assert find_column("vote", ["age", "vote"]) == "vote"
    with pytest.raises(LowtideError, match=r"^no column 'vot'; did you mean 'vote'[?]$"):
        find_column("vot", ["age", "vote"])
    with pytest.raises(LowtideError, match="did you mean 'Vote'"):
        find_column("vote", ["age", "Vote"])
    with pytest.raises(LowtideError, match="no column 'x'; the columns are 'age', 'vote'"):
        find_column("x", ["age", "vote"])
