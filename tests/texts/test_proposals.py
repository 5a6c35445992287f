"""Rewordings by a program of the user's: judged one by one, and shown only where they may be
used.
"""

import os
import shlex
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.estimate.learners.bag import Bag
from lowtide.features import one_per_column
from lowtide.labels import Classes
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.proposals import command_rewriter, judge
from lowtide.texts.terms import TermOptions, Vocabulary
from lowtide.warning import warn

PLAIN = (
    "we i walked saw never not no the two 2 3 by at dog before work water everywhere it was"
    " late ada"
)
TELLING = {"harbour": 2.0, "gulls": 1.0, "ridge": -2.0}
TEXT = "We never saw 3 gulls by the harbour, @ada"


@pytest.fixture(scope="module")
def density():
    """Two classes, coast and hills; of all words three tell."""
    terms = (*PLAIN.split(), *TELLING)
    weights = np.array(
        [[TELLING.get(term, 0.0), -TELLING.get(term, 0.0)] for term in terms], np.float32
    )
    encoder = TextEncoder(Vocabulary(terms, TermOptions()), np.full((len(terms), 2), -1))
    classes = Classes(("coast", "hills"), np.array([0.5, 0.5]))
    return Density(
        classes,
        one_per_column(len(terms)),
        Bag(np.arange(len(terms)), "counts", {"u": weights}),
        6.0,
        encoder,
    )


def faults(density, proposed, text=TEXT):
    return judge(density, text, proposed, 0.5).faults


def test_a_rewording_that_says_the_same_is_accepted(density):
    assert faults(density, "We never saw 3 by the water, @ada") == ()
    assert faults(density, "By the water we never saw 3") == ()  # a handle may go


@pytest.mark.parametrize(
    ("proposed", "said"),
    [
        ("We never saw 3 gulls by the harbour, @ada", "it tells"),
        ("We never saw 3 by the ridge, @ada", "it tells"),
        ("We never saw 3 by the marina, @ada", "a word that the model does not know"),
        ("We saw 3 by the water, @ada", "other negations"),
        ("We never saw 2 by the water, @ada", "other numbers"),
        ("We never saw by the water, @ada", "other numbers"),
        ("We never saw 3 by the water, @bob", "names somebody"),
        ("We never saw 3 by the Water at Work, @ada", "names somebody"),
        ("We never saw 3 by the water, @ada #Late", "names somebody"),
        ("We never saw 3 by the water, @ada https://example.org/x", "names somebody"),
        ("", "says nothing"),
        ("> We never saw 3 by the water, @ada", "says nothing"),
    ],
)
def test_a_rewording_that_tells_or_says_something_else_is_refused(density, proposed, said):
    assert any(said in fault for fault in faults(density, proposed)), faults(density, proposed)


def test_a_word_that_the_writer_used_may_be_written_large(density):
    assert faults(density, "We walked by the Water", "We walked by the water at the harbour") == ()


def test_a_callable_is_given_the_words_to_avoid_and_only_what_holds_is_shown(density):
    asked = []

    def rewriter(text, words):
        asked.append((text, list(words)))
        return ["We saw it by the water", "We never saw 3 by the water"]

    found = warn(TEXT, density, budget=0.5, rewriter=rewriter)
    assert asked == [(TEXT, ["gulls", "harbour"])]
    assert [one.accepted for one in found.proposals] == [False, True]
    said = "\n".join(found.sentences())
    assert "in other words (0.00 bits): We never saw 3 by the water" in said
    assert "We saw it by the water" not in said
    assert "a proposal is refused: it has other numbers; it has other negations" in said
    assert [one["accepted"] for one in found.to_json()["proposals"]] == [False, True]


def test_a_text_within_its_budget_is_not_shown_to_a_rewriter(density):
    def refuse(*_):
        raise AssertionError("asked")

    assert warn("we saw the dog", density, rewriter=refuse).proposals == ()


def test_only_the_first_proposals_are_judged_and_they_are_texts(density):
    endless = (f"we saw the dog {'late ' * k}" for k in range(10**9))
    assert len(warn(TEXT, density, rewriter=lambda *_: endless).proposals) == 5
    assert len(warn(TEXT, density, rewriter=lambda *_: "one text").proposals) == 1
    with pytest.raises(LowtideError, match="must return a text"):
        warn(TEXT, density, rewriter=lambda *_: [1])


def program(code):
    return shlex.join([sys.executable, "-c", code])


def test_a_command_reads_the_request_and_prints_proposals(density):
    echo = program(
        "import sys; asked = sys.stdin.read(); print(asked.split()[13:15], chr(10) + '---' +"
        " chr(10) + asked)"
    )
    first, second = command_rewriter(echo)(TEXT, ["gulls", "harbour"])
    assert first == "['gulls,', 'harbour.']"
    assert second.startswith("Reword the text below")
    assert second.endswith(TEXT)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "is empty"),
        ("'open", "not closed"),
        ("no-such-program-anywhere", "cannot be run"),
        (program("import sys; sys.exit(3)"), "ended with code 3"),
        (program("import time; time.sleep(9)"), "did not answer within 0.5 seconds"),
        (
            program("import os, time; os.close(1); time.sleep(9)"),
            "did not answer within 0.5 seconds",
        ),
    ],
)
def test_a_command_that_does_not_work_is_refused_without_quoting_the_text(command, said):
    with pytest.raises(LowtideError, match=said) as caught:
        command_rewriter(command, seconds=0.5)(TEXT, ["gulls"])
    assert "gulls" not in str(caught.value)


def test_a_command_that_never_stops_printing_is_ended(tmp_path):
    there = tmp_path / "pid"
    endless = program(
        f"import os; open({str(there)!r}, 'w').write(str(os.getpid()))\nwhile True: os.write(1,"
        " b'gulls ' * 100000)"
    )
    with pytest.raises(
        LowtideError, match=r"printed more than 1,048,576 bytes and was ended; let it print"
    ) as caught:
        command_rewriter(endless, seconds=60)(TEXT, ["gulls"])
    assert "gulls" not in str(caught.value)
    with pytest.raises(ProcessLookupError):
        os.kill(int(there.read_text()), 0)


def test_what_a_command_started_is_ended_with_it(tmp_path):
    there = tmp_path / "pid"
    inner = f"import os, time; open({str(there)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    outer = program(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])")
    with pytest.raises(LowtideError, match="did not answer within 3 seconds"):
        command_rewriter(outer, seconds=3)(TEXT, ["gulls"])
    end = time.monotonic() + 5
    while time.monotonic() < end and is_running(int(there.read_text())):
        time.sleep(0.05)
    assert not is_running(int(there.read_text()))


def is_running(number):
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_command_may_leave_a_long_text_unread():
    assert command_rewriter(program("print('x')"))("word " * 100_000, ["word"]) == ["x"]
