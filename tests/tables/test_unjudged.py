"""Nothing that a plan has not judged is released unless it is named, and then card, verdict and
gate say so.
"""

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from lowtide import LowtideError, audit, plan, release
from lowtide.cli.main import app
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.obfuscator import Obfuscator
from lowtide.estimate.tide import TIDE
from lowtide.table_files.reading import read
from lowtide.table_files.writing import Writer
from lowtide.tables.cells import withhold_new
from lowtide.tables.encoder import TableEncoder

NEW = "HIV+ patient 0"
N = 160
FAST = {
    "steps": 5,
    "progress": False,
    "budget": 0.6,
}  # a budget above what there is to tell: all judged columns show


def survey(seed=0):
    rng = np.random.default_rng(seed)
    vote = rng.integers(0, 2, N)
    return pa.table(
        {
            "vote": pa.array(["left" if v else "right" for v in vote]),
            "age": pa.array(rng.integers(18, 60, N)),
            "town": pa.array(np.array(["north", "south"])[vote ^ (rng.random(N) < 0.15)]),
            "country": pa.array(["Zarquonia"] * N),
            "wave": pa.array([7] * N),
            "remark": pa.nulls(N, pa.string()),
            "dose": pa.nulls(N, pa.float64()),
            "email": pa.array([f"person{i}@example.org" for i in range(N)]),
            "uid": pa.array([int(n) for n in rng.permutation(10**6)[:N]]),
            "family": pa.array([f"family {i // 3}" for i in range(N)]),
        }
    )


def later():
    """The same columns with something new in each, in the first row."""
    table = survey(seed=1)
    for name, value in {
        "town": NEW,
        "country": NEW,
        "wave": 31337,
        "remark": NEW,
        "dose": 31337.5,
        "age": 200,
    }.items():
        values = table[name].to_pylist()
        values[0] = value
        place = table.schema.get_field_index(name)
        table = table.set_column(
            place, table.schema.field(name), pa.array(values, table.schema.field(name).type)
        )
    return table


@pytest.fixture(scope="module")
def made():
    return plan(survey(), "vote", policy="fixed", **FAST)


@pytest.fixture(scope="module")
def keeping():
    return plan(survey(), "vote", keep=["email", "family"], policy="fixed", **FAST)


def save(path, table):
    with Writer(path, table.schema) as writer:
        writer.write(table)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow", ".jsonl"])
def test_what_the_reference_did_not_have_is_blank_in_files(made, tmp_path, suffix):
    done = release(save(tmp_path / f"later{suffix}", later()), made, tmp_path / f"shared{suffix}")
    shown = read(done.data)
    first = shown.slice(0, 1).to_pylist()[0]
    assert [first[name] for name in ("town", "country", "wave", "remark", "dose")] == [None] * 5
    assert shown["country"].to_pylist()[1:] == ["Zarquonia"] * (N - 1)
    assert b"HIV" not in done.data.read_bytes()
    assert b"31337" not in done.data.read_bytes()
    assert (done.card.unjudged.blank, done.card.unjudged.beyond) == (5, 1)
    assert first["age"] == 200  # numbers are shown outside their range, and counted


@pytest.mark.parametrize(
    "library", [pa.Table.to_pandas, pl.from_arrow, lambda table: table], ids=["pd", "pl", "pa"]
)
def test_what_the_reference_did_not_have_is_blank_in_frames(made, library):
    done = release(library(later()), made)
    shown = str(done.data.to_pydict() if isinstance(done.data, pa.Table) else done.data.to_dict())
    assert "HIV" not in shown
    assert "31337" not in shown
    assert done.card.unjudged.blank == 5
    assert "5 values that did not occur in the reference data are blank" in done.card.text()
    assert "1 numbers or dates that are shown lie outside the range" in done.card.text()


def test_whole_numbers_that_cannot_be_missing_are_filled_where_the_reference_was_constant():
    frame = pd.DataFrame({"wave": np.full(N, 7), "age": np.arange(N) % 40})
    hider = Obfuscator(TIDE(max_steps=5, progress=False), progress=False, budget=0.6).fit(
        frame, np.arange(N) % 2
    )
    shown = hider.transform(frame.assign(wave=[31337, *[7] * (N - 1)]))
    assert shown["wave"].dtype == frame["wave"].dtype
    assert shown["wave"].tolist() == [0, *[7] * (N - 1)]


@pytest.mark.parametrize(
    "make", [np.asarray, lambda x: __import__("torch").tensor(x)], ids=["array", "tensor"]
)
def test_a_constant_column_of_an_array_shows_its_constant_only(make):
    x = np.column_stack([np.full(N, 7.0), np.arange(N) % 40])
    hider = Obfuscator(TIDE(max_steps=5, progress=False), progress=False, budget=0.6).fit(
        make(x), np.arange(N) % 2
    )
    x[0, 0] = 7.0 + 1e-9
    shown = np.asarray(hider.transform(make(x)))
    assert shown[:, 0].tolist() == [0.0, *[7.0] * (N - 1)]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_rare_texts_that_were_judged_as_one_category_are_blank(make):
    encoder = TableEncoder(("job",), (("baker", "…other"),), others=(True,))
    jobs = make({"job": ["baker", "president", "…other", None]})
    shown, blank, _ = withhold_new(jobs, encoder, np.ones((4, 1), bool), 0.0)
    assert nw.from_native(shown, eager_only=True)["job"].is_null().to_list() == [
        False,
        True,
        True,
        True,
    ]
    assert blank == 2


@pytest.mark.parametrize("column", ["email", "uid", "family"])
def test_columns_that_name_rows_are_blank(made, column):
    assert column in made.layout["blank"]
    shown = release(survey(), made).data[column].to_pylist()
    assert set(shown) <= {"hidden", None}
    assert column in made.card.unjudged.withheld
    assert column in made.card.text()


def test_a_kept_column_that_nobody_judged_is_on_plan_card_and_verdict(keeping, tmp_path):
    assert "Released on your word, judged by nobody: email, family." in str(keeping)
    reference = save(tmp_path / "survey.csv", survey())
    done = release(reference, keeping, tmp_path / "shared.csv")
    assert done.card.unjudged.released == ("email", "family")
    assert ReleaseCard.load(done.written["card.json"]) == done.card
    page = done.written["card.md"].read_text()
    assert "Released on your word, judged by nobody: email, family." in page
    assert (
        "no worst-case promise for the whole release (it has columns that nobody judged)"
        in page.lower()
    )
    found = audit(
        done.data,
        reference,
        "vote",
        fail_above=0.9,
        attackers=["logistic regression"],
        progress=False,
    )
    assert "Released on your word, judged by nobody: email." in str(
        found.verdict
    )  # attackers read the families
    assert found.verdict.passed is None
    assert "undecided, since some columns were judged by nobody" in found.verdict.gate


def test_the_gate_passes_over_unjudged_columns_only_on_an_explicit_word(keeping, tmp_path):
    reference = save(tmp_path / "survey.csv", survey())
    shared = release(reference, keeping, tmp_path / "shared.csv").data
    command = [
        "audit",
        str(shared),
        "--reference",
        str(reference),
        "--secret",
        "vote",
        "--attacker",
    ]
    command += ["logistic regression", "--fail-above", "0.9", "--quiet"]
    assert CliRunner().invoke(app, command).exit_code == 1
    assert CliRunner().invoke(app, [*command, "--accept", "email"]).exit_code == 0


def test_strict_refuses_a_kept_column_that_nobody_judged():
    with pytest.raises(LowtideError, match="strict refuses what nobody judged: email"):
        plan(survey(), "vote", keep=["email"], strict=True, **FAST)


def test_no_bound_is_promised_beside_a_kept_column_that_nobody_judged():
    with pytest.raises(
        LowtideError, match="certify cannot bound what columns tell that nobody judged: email"
    ):
        plan(survey(), "vote", keep=["email"], mechanism="merge", certify=0.95, **FAST)


def test_a_plan_that_is_saved_blanks_the_same(made, tmp_path):
    again = release(later(), made.save(tmp_path / "plan.json"))
    assert again.data.equals(release(later(), made).data)
