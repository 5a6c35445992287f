"""A `.csv` file whose cells are separated by semicolons, tabs or bars is read, and released in the
same way.
"""

import gzip

import numpy as np
import pytest

from lowtide import audit, plan, release
from lowtide.errors import LowtideNote
from lowtide.table_files.reading import read, schema_of

N = 120
RNG = np.random.default_rng(0)
FAST = {"steps": 5, "progress": False, "budget": 0.6}
ROWS = [
    (RNG.choice(["a", "b;c,d|e\tf"]), RNG.integers(0, 9), f"{RNG.integers(0, 9)},5")
    for _ in range(N)
]
VOTES = RNG.choice(["x", "y"], N)


def write(path, delimiter):
    lines = [delimiter.join(('"to,w;n"', "age", '"price|EUR"', "vote"))]
    for (town, age, price), vote in zip(ROWS, VOTES, strict=True):
        lines.append(
            delimiter.join(
                (f'"{town}"', str(age), f'"{price}"' if delimiter == "," else price, vote)
            )
        )
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_file_is_read_released_and_audited(tmp_path, delimiter):
    path = write(tmp_path / "t.csv", delimiter)
    expected = read(write(tmp_path / "comma.csv", ","))
    with pytest.warns(
        LowtideNote,
        match=r"t\.csv: 'price\|EUR' hold numbers with a decimal comma, which are read as text",
    ):
        assert read(path).equals(expected)
    assert str(schema_of(path).field("price|EUR").type) == "string", (
        "a decimal comma makes no number"
    )
    out = release(path, plan(path, "vote", policy="fixed", **FAST), tmp_path / "out.csv").data
    assert out.read_text().splitlines()[0] == delimiter.join(('"to,w;n"', "age", '"price|EUR"'))
    assert read(out).equals(expected.drop_columns(["vote"]))
    assert audit(out, path, "vote", attackers=["logistic regression"], progress=False).verdict


def test_other_suffixes_keep_their_own_sign(tmp_path):
    path = write(tmp_path / "t.csv", ";")
    made = plan(path, "vote", policy="fixed", **FAST)
    assert "\t" in release(path, made, tmp_path / "out.tsv").data.read_text().splitlines()[0]
    packed = release(path, made, tmp_path / "out.csv.gz").data
    assert gzip.decompress(packed.read_bytes()).startswith(b'"to,w;n";age;')


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a;b,c;d\n1,2\n", ["a;b", "c;d"]),
        ('"a;b"\n1\n2\n', ["a;b"]),
        ("a|b\n1\n2\n", ["a|b"]),
        ("a;b|c\n1;2\n", ["a", "b|c"]),
        ("\ufeffa;b\r\n1;2\r\n", ["a", "b"]),
        ('a;b\n"x\n;y";2\n', ["a", "b"]),
    ],
)
def test_what_is_no_delimiter_is_none(tmp_path, text, names):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    assert read(path).column_names == names
