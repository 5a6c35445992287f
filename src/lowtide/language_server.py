"""Warnings in editors: a language server that underlines the words which give the writer away.

It speaks the Language Server Protocol over standard input and output, as editors start it. The text stays in this
process: nothing is sent, stored or logged.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lowtide.density.artefact import Density
from lowtide.errors import LowtideError
from lowtide.warning import warn

if TYPE_CHECKING:
    from lsprotocol.types import Diagnostic, Range
    from pygls.server import LanguageServer

_STRONG = 0.15  # share of the evidence in a text from which on the command line underlines a word, too
_PAUSE = 0.3  # seconds without a keystroke before a text is read
_LINE_ENDS = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class EditorMark:
    """A stretch of a text to underline.

    Attributes:
        start: its first character; `end` is the one after its last.
        must_go: whether it is among the words to leave out for the budget.
        message: what it tells, without quoting it.
    """

    start: int
    end: int
    must_go: bool
    message: str


def marks_of(text: str, density: Density, budget: float | str) -> list[EditorMark]:
    """What to underline in a text, in reading order."""
    found = warn(text, density, budget=budget)
    remedy = found.remedy.words if found.remedy is not None else ()
    gone = [place for word in found.words if word.term in remedy for place in word.places]
    about = found.labels[found.about]
    marks = []
    for span in found.spans():
        must_go = span.share is not None and any(start < span.end and span.start < end for start, end in gone)
        if must_go or (span.share or 0.0) >= _STRONG:
            advice = "; leave it out or reword it" if must_go else ""
            told = f"{span.share or 0.0:.0%} of what this text tells points to {about!s} from here{advice}"
            marks.append(EditorMark(span.start, span.end, must_go, told))
    return marks


def place_of(text: str, offset: int) -> tuple[int, int]:
    """Line and character of an offset, both counted from 0, in code points."""
    ends = [match.end() for match in _LINE_ENDS.finditer(text)]
    line = bisect_right(ends, offset)
    return line, offset - (ends[line - 1] if line else 0)


def make_server(density: Density, budget: float | str) -> LanguageServer:
    """A server that publishes diagnostics for every text that is open."""
    try:
        from lsprotocol import types  # noqa: PLC0415 - an extra
        from pygls.server import LanguageServer  # noqa: PLC0415
    except ImportError as error:
        raise LowtideError("the language server needs pygls, which is not there: pip install 'lowtide[lsp]'") from error
    server = LanguageServer("lowtide", f"v{importlib.metadata.version('lowtide')}")
    watcher = _Watcher(server, density, budget)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(said: types.DidOpenTextDocumentParams) -> None:
        await watcher.look(said.text_document.uri, 0.0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(said: types.DidChangeTextDocumentParams) -> None:
        await watcher.look(said.text_document.uri, _PAUSE)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(said: types.DidCloseTextDocumentParams) -> None:
        watcher.forget(said.text_document.uri)
        server.publish_diagnostics(said.text_document.uri, [])

    return server


@dataclass
class _Watcher:
    """Reads open texts once their writer pauses; of several changes in a row only the last is read."""

    server: LanguageServer
    density: Density
    budget: float | str
    turns: dict[str, int] = field(default_factory=dict)

    async def look(self, uri: str, pause: float) -> None:
        """Publish what a text tells, unless it changes again meanwhile."""
        turn = self.turns[uri] = self.turns.get(uri, 0) + 1
        await asyncio.sleep(pause)
        if self.turns.get(uri) != turn:
            return
        document = self.server.workspace.get_text_document(uri)
        text = document.source
        found = await asyncio.get_running_loop().run_in_executor(None, self._diagnostics, text)
        if self.turns.get(uri) == turn:
            codec = self.server.workspace.position_codec
            lines = text.splitlines(keepends=True)
            for one in found:
                one.range = codec.range_to_client_units(lines, one.range)
            self.server.publish_diagnostics(uri, found)

    def forget(self, uri: str) -> None:
        """A text was closed."""
        self.turns.pop(uri, None)

    def _diagnostics(self, text: str) -> list[Diagnostic]:
        from lsprotocol import types  # noqa: PLC0415 - an extra

        levels = {True: types.DiagnosticSeverity.Warning, False: types.DiagnosticSeverity.Information}
        try:
            marks = marks_of(text, self.density, self.budget) if text.strip() else []
        except LowtideError as error:
            whole = _range(types, text, 0, 0)
            return [
                types.Diagnostic(whole, str(error), severity=types.DiagnosticSeverity.Information, source="lowtide")
            ]
        return [
            types.Diagnostic(
                _range(types, text, mark.start, mark.end), mark.message, severity=levels[mark.must_go], source="lowtide"
            )
            for mark in marks
        ]


def _range(types: Any, text: str, start: int, end: int) -> Range:
    """A stretch of a text by lines and characters, in code points."""
    found: Range = types.Range(types.Position(*place_of(text, start)), types.Position(*place_of(text, end)))
    return found
