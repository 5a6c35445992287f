"""Other words for a text, proposed by the user's own program or language model, and judged here one
by one.

A proposal is shown only where it keeps the budget, where the model knows every word that it brings,
and where it says the same: numbers and negations stay, and there is no name, handle, hashtag or
address that the writer has not written.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.formatting import printable
from lowtide.interface import NATS_PER_BIT
from lowtide.texts.partial import read_densities, text_vocabulary
from lowtide.texts.remedies import Remedy, carries_meaning
from lowtide.texts.terms import TermOptions
from lowtide.texts.writing import is_negation, other_language, read_writing, vocabulary_language

Rewriter = Callable[[str, Sequence[str]], str | Iterable[str]]
"""From a text and the words to avoid to one rewording or several."""

_MOST = 5  # proposals that are judged
_SECONDS = 120.0  # for a command to answer
_MOST_BYTES = (
    1 << 20
)  # that a command may print: a post has some hundreds, and a language model may never end
_BETWEEN = "---"  # a line between two proposals of a command
_EVERYTHING = TermOptions(urls=True)
_SIGNED = "#＃@＠"
_PROMPT = """\
Reword the text below so that it says the same without these words: {words}.
Keep every number, name, handle and negation as it is, and add none. Answer with the new text only.

{text}
"""


@dataclass(frozen=True, eq=False)
class Proposal:
    """A rewording, as it was judged.

    Attributes:
        text: what was proposed.
        leak: `max_s |i(s; text)|` of it, in nats.
        faults: why it is not to be used, each as a clause; none where it may be.
    """

    text: str = field(repr=False)
    leak: float
    faults: tuple[str, ...]

    @property
    def accepted(self) -> bool:
        """Whether it may be used."""
        return not self.faults

    def sentence(self) -> str:
        """The proposal in words; one that is refused is not quoted."""
        if self.accepted:
            return f"in other words ({self.leak / NATS_PER_BIT:.2f} bits): {printable(self.text)}"
        return f"a proposal is refused: {'; '.join(self.faults)}"

    def to_json(self) -> dict[str, Any]:
        """The proposal as plain values."""
        return {
            "text": self.text,
            "leak_nats": self.leak,
            "accepted": self.accepted,
            "faults": list(self.faults),
        }


def propose(density: Density, text: str, found: Remedy, rewriter: Rewriter) -> tuple[Proposal, ...]:
    """Ask for rewordings of a text that is over its budget, and judge each.

    Args:
        density: fitted on texts.
        text: as it was written.
        found: what would have to go.
        rewriter: is given the text and the words to avoid; of what it proposes, the first few are
            judged.
    """
    avoided = [word for word in found.words if not carries_meaning(word)]
    if not avoided:
        return ()
    proposed = rewriter(text, avoided)
    texts = [proposed] if isinstance(proposed, str) else list(islice(proposed, _MOST))
    if not all(isinstance(one, str) for one in texts):
        raise LowtideError("a rewriter must return a text, or several; it returned something else")
    return tuple(judge(density, text, one.strip(), found.budget) for one in texts)


def judge(density: Density, text: str, proposed: str, budget: float) -> Proposal:
    """Whether a rewording may stand for a text: what it tells, and whether it says the same."""
    leak = float(abs(read_densities(density, [proposed])[0]).max())
    vocabulary = text_vocabulary(density)
    before, after = (
        read_writing(one, vocabulary, vocabulary.options).words for one in (text, proposed)
    )
    written = {word.text for word in before}
    new = {word.text for word in after if word.text not in vocabulary} - written
    faults = []
    if not after:
        faults.append("it says nothing")
    if leak > budget:
        faults.append(
            f"it tells {leak / NATS_PER_BIT:.2f} bits, and the budget is"
            f" {budget / NATS_PER_BIT:.2f}"
        )
    if new:
        some = "a word" if len(new) == 1 else f"{len(new)} words"
        faults.append(f"it brings {some} that the model does not know, and that nobody can judge")
    if other_language((word.text for word in after), vocabulary_language(vocabulary)) is not None:
        faults.append("it is in another language")
    return Proposal(proposed, leak, (*faults, *_said_otherwise(_facts(text), _facts(proposed))))


@dataclass(frozen=True)
class _Facts:
    """What a rewording must not change: how often each number stands, how many negations, and who
    and what is named.
    """

    numbers: Counter[str]
    negations: int
    named: frozenset[str]
    words: frozenset[str]


def _facts(text: str) -> _Facts:
    words = read_writing(text, (), _EVERYTHING).words
    written = [(word.text, text[word.start : word.end], word.start) for word in words]
    numbers = Counter(term for term, piece, _ in written if any(map(str.isnumeric, piece)))
    negations = sum(is_negation(term) for term, _, _ in written)
    named = {term for term, piece, start in written if _names(piece, text[:start])}
    return _Facts(numbers, negations, frozenset(named), frozenset(term for term, _, _ in written))


def _names(piece: str, before: str) -> bool:
    """Whether a piece names somebody or something: by its sign, as an address, or by a capital
    within a sentence.
    """
    if piece[0] in _SIGNED or "://" in piece or piece.lower().startswith("www."):
        return True
    spoken = before.rstrip(" \t\"'“”‘’«»(*_")
    begins = not spoken or spoken[-1] in ".!?…:;\n。！？"
    return len(piece) > 1 and piece[0].isupper() and not begins


def _said_otherwise(before: _Facts, after: _Facts) -> list[str]:
    faults = []
    if after.numbers != before.numbers:
        faults.append("it has other numbers")
    if after.negations != before.negations:
        faults.append("it has other negations")
    if after.named - before.words:
        faults.append("it names somebody or something that you did not")
    return faults


def command_rewriter(command: str, seconds: float = _SECONDS) -> Rewriter:
    """A rewriter that asks a program, such as a local language model.

    Args:
        command: run without a shell. A request in plain English stands on its standard input; what
            it prints is the new text, or several with a line `---` between them.
        seconds: in which it must answer.
    """
    try:
        program = shlex.split(command)
    except ValueError as error:
        raise LowtideError("the command of the rewriter has a quote that is not closed") from error
    if not program:
        raise LowtideError(
            "the command of the rewriter is empty; name a program, such as 'ollama run llama3.2'"
        )

    def ask(text: str, words: Sequence[str]) -> list[str]:
        prompt = _PROMPT.format(words=", ".join(words), text=text)
        return _parted(
            _answer(program, prompt.encode(errors="replace"), seconds).decode(errors="replace")
        )

    return ask


def _answer(program: Sequence[str], prompt: bytes, seconds: float) -> bytes:
    """What a program prints when it is given a prompt; it is ended where that is too much, or takes
    too long.
    """
    end = time.monotonic() + seconds
    answer = bytearray()
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's own program
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that what it has started is ended with it
        )
    except OSError as error:
        raise LowtideError(
            f"the rewriter {program[0]!r} cannot be run: {error.strerror}"
        ) from error

    def write() -> None:
        with contextlib.suppress(OSError), process.stdin as pipe:  # type: ignore[union-attr]
            pipe.write(prompt)

    def read() -> None:
        with process.stdout as pipe:  # type: ignore[union-attr]
            while len(answer) <= _MOST_BYTES and (block := os.read(pipe.fileno(), 1 << 16)):
                answer.extend(block)

    threads = [threading.Thread(target=work, daemon=True) for work in (write, read)]
    try:
        for thread in threads:
            thread.start()
        threads[1].join(seconds)
        if len(answer) > _MOST_BYTES:
            raise LowtideError(
                f"the rewriter {program[0]!r} printed more than {_MOST_BYTES:,} bytes and was"
                " ended; let it print the new text only"
            )
        code = process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise LowtideError(
            f"the rewriter {program[0]!r} did not answer within {seconds:g} seconds"
        ) from error
    finally:
        if process.poll() is None:
            _end(process)
    if code:
        raise LowtideError(f"the rewriter {program[0]!r} ended with code {code}; try it by hand")
    return bytes(answer)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and what it has started."""
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _parted(answer: str) -> list[str]:
    """The proposals in what a command printed."""
    parts: list[list[str]] = [[]]
    for line in answer.splitlines():
        if line.strip() == _BETWEEN:
            parts.append([])
        else:
            parts[-1].append(line)
    texts = ("\n".join(lines).strip() for lines in parts)
    return [text for text in texts if text]
