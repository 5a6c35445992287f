"""The language server, driven over standard input and output as an editor drives it."""

import json
import subprocess
import sys

import numpy as np
import pytest

from lowtide import TIDE
from lowtide.language_server import marks_of, place_of

TEXT = "First line 😀\r\nToday we talk about climate\n"


@pytest.fixture(scope="module")
def density():
    rng = np.random.default_rng(0)
    side = rng.choice(["left", "right"], 300)
    words = {"left": ["climate", "transit"], "right": ["border", "taxes"]}
    texts = [f"today we talk about {rng.choice(words[one])}" for one in side]
    return TIDE(random_state=0, max_steps=40, progress=False).fit(texts, side).artefact


class Editor:
    """Speaks to `lowtide lsp` in the frames of the protocol."""

    def __init__(self, model):
        command = [sys.executable, "-m", "lowtide", "lsp", "--model", str(model)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603

    def say(self, method, params, number=None):
        body = {"jsonrpc": "2.0", "method": method, "params": params}
        data = json.dumps(body if number is None else {**body, "id": number}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()

    def hear(self, wanted):
        """The next message that has this method, or answers the request of this number."""
        while True:
            length = 0
            while (line := self.process.stdout.readline().strip()) or not length:
                assert line or self.process.poll() is None, "the server ended"
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            message = json.loads(self.process.stdout.read(length))
            if wanted in (message.get("method"), message.get("id")):
                return message


def underlined(message, text):
    """What diagnostics point at, by lines and UTF-16 units."""
    lines = text.split("\n")
    for one in message["params"]["diagnostics"]:
        start, end = one["range"]["start"], one["range"]["end"]
        units = lines[start["line"]].encode("utf-16-le")
        yield units[2 * start["character"] : 2 * end["character"]].decode("utf-16-le"), one


def test_an_editor_sees_the_telling_word_underlined_and_the_line_gone_when_it_is(density, tmp_path):
    density.save(tmp_path / "model.lowtide")
    editor = Editor(tmp_path / "model.lowtide")
    try:
        editor.say("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, 1)
        assert editor.hear(1)["result"]["capabilities"]["textDocumentSync"]
        editor.say("initialized", {})
        document = {"uri": "file:///post.txt", "languageId": "plaintext", "version": 1, "text": TEXT}
        editor.say("textDocument/didOpen", {"textDocument": document})
        found = dict(underlined(editor.hear("textDocument/publishDiagnostics"), TEXT))
        assert "climate" in found
        assert found["climate"]["severity"] == 2, "a warning"
        assert "climate" not in found["climate"]["message"], "messages quote no words"
        change = {"textDocument": {"uri": "file:///post.txt", "version": 2}, "contentChanges": [{"text": "we talk"}]}
        editor.say("textDocument/didChange", change)
        assert "climate" not in dict(underlined(editor.hear("textDocument/publishDiagnostics"), "we talk"))
        editor.say("shutdown", None, 2)
        editor.hear(2)
        editor.say("exit", None)
        assert editor.process.wait(20) == 0
    finally:
        editor.process.kill()
        editor.process.communicate()  # and closes the pipes


def test_words_to_leave_out_are_marked_as_such(density):
    marks = marks_of(TEXT, density, 0.2)
    assert [TEXT[mark.start : mark.end] for mark in marks if mark.must_go] == ["climate"]


@pytest.mark.parametrize(
    ("offset", "place"),
    [(0, (0, 0)), (12, (0, 12)), (14, (1, 0)), (20, (1, 6))],
    ids=["start", "end", "next", "inside"],
)
def test_offsets_are_lines_and_characters(offset, place):
    assert place_of(TEXT, offset) == place
