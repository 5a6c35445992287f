"""`lowtide warn` without typer: the same arguments, and no package that takes long to import."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lowtide.cli.plain import read_plainly
from lowtide.cli.text_arguments import WarnArguments
from lowtide.density.artefact import Density
from lowtide.density.critics.bag import Bag
from lowtide.labels import Classes
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.terms import TermOptions, Vocabulary

TERMS = ("we", "act", "climate", "now", "care", "climate now")
HEAVY = ("torch", "sklearn", "pandas", "scipy", "pyarrow", "typer", "pydantic", "fsspec")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A bag of words and pairs in which `climate` tells."""
    encoder = TextEncoder(Vocabulary(TERMS, TermOptions(ngrams=2)), np.full((len(TERMS), 1), -1, dtype=np.int32))
    told = np.array([[0.0, 0.0], [0.1, -0.1], [1.5, -1.5], [0.0, 0.0], [0.2, -0.2], [0.3, -0.3]], dtype=np.float32)
    critic = Bag(np.arange(len(TERMS)), "log", {"u": told})
    classes = Classes(("green", "grey"), np.array([0.4, 0.6]))
    folder = tmp_path_factory.mktemp("plain") / "model"
    Density(classes, encoder.features(), critic, 8.0, encoder).save(folder)
    return folder


def test_one_warning_imports_nothing_that_takes_long(model):
    program = (
        "import json, sys\n"
        f"sys.argv = ['lowtide', 'warn', 'We act on climate now, care care', '--model', {str(model)!r}]\n"
        "from lowtide.__main__ import run\n"
        "try:\n    run()\n"
        f"finally:\n    print(json.dumps([name for name in {HEAVY} if name in sys.modules]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert json.loads(done.stdout.splitlines()[-1]) == []
    assert "leave out climate" in done.stdout


def test_a_text_with_few_terms_is_scored_like_any_other(model):
    density = Density.load(model)
    for text in ("We act on climate now, care care", "climate now climate now", "nothing known"):
        np.testing.assert_allclose(density.explain(text).density, density.density([text])[0], atol=1e-6)


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["hello", "--model", "m"], WarnArguments(text="hello", model=Path("m"))),
        (["--model=m", "-"], WarnArguments(text="-", model=Path("m"))),
        (
            ["--json", "-", "--model", "m", "a = b", "--budget", "0.7bits", "--history=old.txt"],
            WarnArguments(text="a = b", model=Path("m"), budget="0.7bits", history="old.txt", json=Path("-")),
        ),
    ],
)
def test_plain_words_are_read(words, read):
    assert read_plainly(["warn", *words]) == read


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--help"],
        ["warn", "--help"],
        ["warn", "hello"],
        ["warn", "--model", "m"],
        ["warn", "two", "texts", "--model", "m"],
        ["warn", "hello", "--model"],
        ["warn", "hello", "--model", "--json"],
        ["warn", "hello", "--model", "m", "--colour", "red"],
        ["warn", "--model", "m", "--", "-dash"],
        ["scan", "hello", "--model", "m"],
    ],
)
def test_whatever_is_not_plain_is_left_to_typer(words):
    assert read_plainly(words) is None


def test_who_asks_for_tracebacks_gets_them_from_typer(monkeypatch):
    monkeypatch.setenv("LOWTIDE_DEBUG", "1")
    assert read_plainly(["warn", "hello", "--model", "m"]) is None
