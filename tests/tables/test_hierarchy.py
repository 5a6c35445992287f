"""Hierarchies that a user gives: read in ARX's form, and refused where they contradict
themselves.
"""

import pytest

from lowtide import LowtideError
from lowtide.tables.hierarchy import read_hierarchies, read_hierarchy


def write(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "work.csv"
    path.write_text(text, encoding=encoding)
    return path


@pytest.mark.parametrize("separator", [";", ","])
def test_a_row_for_each_value_from_fine_to_coarse(tmp_path, separator):
    rows = [("Private", "Employed", "*"), ("State", "Employed", "*"), ("Never", "None", "*")]
    path = write(tmp_path, "\n".join(separator.join(row) for row in rows), "utf-8-sig")
    assert read_hierarchy(path).levels["State"] == ("Employed", "*")
    assert set(read_hierarchies([f"work={path}"])["work"].levels) == {"Private", "State", "Never"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;x;p\nb;x;q\n", "rows 1 and 2 agree in level 1 and differ in level 2"),
        ("a;x;*\na;y;*\n", "row 2 .* an earlier row has"),
        ("a;x;*\nb;y\n", "row 2 .* has 2 levels, and the first has 3"),
        ("a;x;*\nb;;*\n", "row 2 .* has 2 levels"),
        ("a\nb\n", "two or more levels"),
        ("", "two or more levels"),
    ],
)
def test_one_that_contradicts_itself_is_refused_and_quotes_no_value(tmp_path, text, message):
    with pytest.raises(LowtideError, match=message):
        read_hierarchy(write(tmp_path, text))


def test_what_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(LowtideError, match="not UTF-8"):
        read_hierarchy(write(tmp_path, "é;x;*", "latin-1"))
    with pytest.raises(LowtideError):
        read_hierarchy(tmp_path / "nowhere.csv")
    with pytest.raises(LowtideError, match=r"COLUMN=FILE\.csv"):
        read_hierarchies(["work.csv"])
