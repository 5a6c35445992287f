"""JSON that is nested to do harm is refused before it is parsed, wherever a file of JSON is
read.
"""

import json

import pytest

from lowtide import LowtideError, scan
from lowtide.nesting import MOST_LEVELS, nested_beyond
from lowtide.table_files.reading import batches, read

DEEP = "[" * 10_000 + "]" * 10_000
FIELD = '{"s": "x", "a": %s}\n'
FAST = {"steps": 5, "progress": False}


@pytest.mark.parametrize(
    "line",
    [
        FIELD % DEEP,
        FIELD % ("[" * 10_000),
        FIELD % ('{"a":' * 10_000 + "1" + "}" * 10_000),
        FIELD % "[\n".join([""] * 10_000),
        '{"s": "]]]]]]]]", "t": "\\\\", "u": "\\"", "a": ' + DEEP + "}\n",
    ],
    ids=["arrays", "never closed", "objects", "over lines", "behind closing brackets in strings"],
)
def test_json_lines(tmp_path, line):
    path = tmp_path / "t.jsonl"
    path.write_text('{"s": "y", "a": [1]}\n' + line)
    with pytest.raises(
        LowtideError,
        match=r"t\.jsonl has more than 64 levels of brackets in line \d+; write one flat",
    ):
        scan(path, "s", **FAST)


def test_the_line_is_named_in_a_large_file_too(tmp_path):
    path = tmp_path / "t.jsonl"
    plain = '{"s": "x", "a": "[[[["}\n'
    path.write_text(plain * 70_000 + FIELD % DEEP)
    with pytest.raises(LowtideError, match="in line 70001;"):
        read(path)


def test_brackets_in_texts_are_no_levels(tmp_path):
    path = tmp_path / "t.jsonl"
    texts = [
        "[" * 500,
        '\\"' + "{[" * 500,
        '"[{' * 100 + "\\",
        "\\\\" * 3 + '"' + "[" * 300,
        "]}" * 200,
    ]
    path.write_text("".join(json.dumps({"s": text, "a": [[1]]}) + "\n" for text in texts * 30_000))
    assert path.stat().st_size > 3 << 20
    first = next(batches(path, rows=5))
    assert first["s"].to_pylist() == texts


def test_levels_up_to_the_limit_are_read():
    assert nested_beyond(b"[" * MOST_LEVELS + b"]" * MOST_LEVELS) is None
    assert nested_beyond(b" " * 7 + b"[" * (MOST_LEVELS + 1)) == 7 + MOST_LEVELS
    wide = b'[{"a": "x"}, ' * 1 + b'{"b": [1, "\\\\"]}, ' * 200_000 + b"1]"
    assert nested_beyond(wide) is None
    assert nested_beyond(wide[:-1] + b"[" * MOST_LEVELS) == len(wide) - 2 + MOST_LEVELS
