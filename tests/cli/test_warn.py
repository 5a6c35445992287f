"""`lowtide warn` and `lowtide export`: what a writer sees before posting, whatever they type."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from lowtide.cli.main import app
from lowtide.cli.warnings import marked
from lowtide.estimate.density import Density
from lowtide.formatting import printable

PLAIN = [
    head + tail
    for head in ("ba", "do", "fi", "gu")
    for tail in ("lan", "mor", "nit", "pel", "ras", "vik")
]
TELLING = (("zorrik", "yalben"), ("plimda", "trenko"))
BEASTS = ("OKAPI", "ZEBRA")
HEAVY = ("torch", "sklearn", "pandas", "scipy", "pyarrow", "fsspec")


@pytest.fixture(scope="module")
def model(tmp_path_factory, lowtide):
    folder = tmp_path_factory.mktemp("warn")
    rng = np.random.default_rng([3, 7702])
    with (folder / "posts.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "beast"])
        for row in range(600):
            words = rng.choice(PLAIN, 5).tolist()
            side = row % 2 if rng.random() < 0.9 else 1 - row % 2
            words[int(rng.integers(5))] = str(rng.choice(TELLING[side]))
            writer.writerow([" ".join(words), BEASTS[row % 2]])
    saved = ("--save", folder / "model")
    ran = lowtide(
        "scan", folder / "posts.csv", "--text", "text", "--secret", "beast", "--steps", 40, *saved
    )
    assert ran.code == 0, ran.err
    return folder / "model"


def test_a_revealing_word_is_named_and_removed(model, lowtide, tmp_path):
    ran = lowtide(
        "warn", "--model", model, "Balan, ZORRIK fipel unheard", "--json", tmp_path / "w.json"
    )
    assert ran.code == 0, ran.err
    assert ran.out.startswith("Balan, ZORRIK fipel unheard\n")
    assert "What words tell about OKAPI" in ran.out
    assert "leave out zorrik" in ran.out
    assert "1 word is unknown" in ran.out
    found = json.loads((tmp_path / "w.json").read_text())
    assert found["classes"] == list(BEASTS)
    assert found["posterior"][0] > 0.75 > found["prior"][0]
    terms = {term["term"]: term for term in found["words"]}
    assert [term for term in terms if " " not in term] == ["balan", "zorrik", "fipel"], (
        "pairs are terms of their own"
    )
    assert terms["zorrik"]["places"] == [[7, 13]]
    assert terms["zorrik"]["order_free_nats"][0] > 0.3
    assert found["unknown"] == [[20, 27]]
    assert found["remedy"]["leave_out"] == ["zorrik"]
    assert "zorrik" not in found["remedy"]["without"].lower()
    # What is shown without the word tells no more than allowed.
    density = Density.load(model).density([found["remedy"]["without"]])
    assert np.abs(density).max() <= 0.5


def test_a_text_under_the_budget_is_left_alone(model, lowtide):
    ran = lowtide("warn", "--model", model, "balan fipel")
    assert ran.code == 0
    assert "within the budget of 0.72" in ran.out
    assert "leave out" not in ran.out
    assert "0.70" in lowtide("warn", "--model", model, "balan fipel", "--budget", "0.7bits").out


def test_a_text_is_read_from_standard_input(model):
    for given, said in (("Zorrik balan\n", "leave out zorrik"), ("", "knows none of these words")):
        ran = CliRunner().invoke(
            app, ["warn", "--model", str(model), "-"], input=given, catch_exceptions=False
        )
        assert ran.exit_code == 0
        assert said in ran.stdout


@pytest.mark.parametrize("text", ["", " ", "nothing known whatever", "!?", "שלום עולם", "\ud800"])
def test_a_text_of_unknown_words_reveals_nothing(model, lowtide, text):
    ran = lowtide("warn", "--model", model, "--", text)
    assert ran.code == 0
    assert "to other readers they may tell something" in ran.out
    assert "leave out" not in ran.out


def test_control_characters_of_a_text_are_not_printed(model, lowtide):
    signs = "".join(
        map(
            chr,
            [*range(1, 9), *range(11, 32), 127, *range(128, 160), 0x202E, 0x2066, 0x200F, 0xFEFF],
        )
    )
    text = f"zorrik \x1b[31mred\x1b]0;title\x07 {signs} \u202ebalan\u202c trenko\x9b2J שלום"
    ran = lowtide("warn", "--model", model, text)
    assert ran.code == 0
    assert not set(ran.out) & set(signs)
    assert "red" in ran.out
    assert "שלום" in ran.out
    # On a terminal, too, the only sequences are those that colour the words.
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system="standard", width=500)
    console.print(marked(Density.load(model).explain(text)))
    shown = screen.getvalue()
    assert "\x1b[1;" in shown
    for colours in ("\x1b[1;31m", "\x1b[1;4;31m", "\x1b[34m", "\x1b[4;34m", "\x1b[0m"):
        shown = shown.replace(colours, "")
    assert "\x1b" not in shown
    assert "\x9b" not in shown


def test_markup_in_a_text_is_printed_as_text(model, lowtide):
    text = "zorrik [bold]x[/bold] [/] :smile: weight [kg]"
    ran = lowtide("warn", "--model", model, text)
    assert ran.code == 0
    assert ran.out.startswith(f"{text}\n")


def test_only_printable_characters_are_kept():
    family = "👩\u200d👩\u200d👧"
    persian = "می\u200cخواهم"
    assert printable(f"a\tb\n{family} {persian}") == f"a\tb\n{family} {persian}"
    assert printable("a\x1b[2Jb\u202ec\r") == "a\ufffd[2Jb\ufffdc\ufffd"


@pytest.mark.parametrize("piece", ["zorrik balan ", "x"])
def test_a_text_of_a_million_characters_is_answered_in_seconds(model, lowtide, piece):
    start = time.process_time()
    ran = lowtide("warn", "--model", model, "--", (piece * 1_000_000)[:1_000_000])
    assert ran.code == 0
    assert time.process_time() - start < 30  # a few seconds on an idle machine


@pytest.mark.parametrize(
    ("budget", "said"),
    [("55%", "nats or bits"), ("99", "trimmed"), ("-1", "budget"), ("nan", "budget")],
)
def test_bad_budgets_are_refused(model, refused, budget, said):
    assert said in refused("warn", "--model", model, "zorrik", f"--budget={budget}")


@pytest.mark.parametrize("verb", ["warn", "export"])
def test_files_that_are_not_models_are_refused(verb, model, home, lowtide, refused, tmp_path):
    def asked(path):
        if verb == "warn":
            return refused("warn", "--model", path, "zorrik in a private text")
        return refused("export", path, "--page", tmp_path / "out.html")

    lines = [asked(tmp_path / "missing"), asked(home.survey), asked(home.plan)]
    table = tmp_path / "table"
    assert (
        lowtide("scan", home.survey, "--secret", "beast", "--steps", 40, "--save", table).code == 0
    )
    lines.append(asked(table))
    assert "does not hold a model of texts" in lines[-1]
    for name in ("config.json", "model.safetensors"):
        broken = tmp_path / f"broken {name}"
        shutil.copytree(model, broken)
        whole = (model / name).read_bytes()
        (broken / name).write_bytes(whole[: len(whole) // 2])
        lines.append(asked(broken))
        assert "copy the folder again" in lines[-1]
        (broken / name).unlink()
        lines.append(asked(broken))
    for line in lines:
        assert not {"zorrik", "private", "okapi", "zebra"} & set(line.lower().split())


def test_an_export_names_what_it_can_write_and_spares_the_model(model, refused):
    assert "--page FILE or --extension DIR" in refused("export", model)
    assert "would overwrite" in refused("export", model, "--extension", model)
    assert (model / "config.json").is_file()


def test_a_warning_prints_in_an_ascii_terminal(model, tmp_path):
    command = [Path(sys.executable).parent / "lowtide", "warn", "--model", model, "zorrik שלום ε"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "ascii"}
    pipes = {"capture_output": True, "text": True}
    ran = subprocess.run(  # noqa: S603
        list(map(str, command)), env=environment, cwd=tmp_path, check=False, **pipes
    )
    assert ran.returncode == 0, ran.stderr
    assert "leave out zorrik" in ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_one_warning_imports_nothing_that_takes_long(model):
    program = (
        "import json, sys\n"
        f"sys.argv = ['lowtide', 'warn', 'zorrik balan', '--model', {str(model)!r}]\n"
        "from lowtide.__main__ import run\ntry:\n    run()\nfinally:\n"
        f"    print(json.dumps([name for name in {HEAVY} if name in sys.modules]))\n"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []
    assert "leave out zorrik" in done.stdout


def test_a_text_with_few_terms_is_scored_like_any_other(model):
    density = Density.load(model)
    for text in ("Balan, zorrik fipel fipel", "zorrik balan zorrik balan", "nothing known"):
        np.testing.assert_allclose(
            density.explain(text).density, density.density([text])[0], atol=1e-6
        )
