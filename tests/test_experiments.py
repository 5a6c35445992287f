"""Experiments and benchmarks run as commands and write their JSON."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import density_rate
import public_benchmarks
import reader
import text_models
from lowtide.errors import LowtideError

ROOT = Path(__file__).parents[1]


def run(script, *options, expect=0):
    command = [sys.executable, str(ROOT / script), *options]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert result.returncode == expect, result.stderr
    return result.stdout


def test_paper_failures_experiment_prints_and_writes_the_failures(tmp_path):
    target = tmp_path / "failures.json"
    printed = run("experiments/paper_failures.py", "--json", str(target))
    failures = json.loads(target.read_text())["failures"]
    assert [round(failure["truth"], 3) for failure in failures] == [0.254, 0.045, 0.614, 0.814]
    for failure in failures:
        assert failure["claim"] < failure["truth"] <= failure["bound"] + 1e-9
        assert f"{failure['truth']:.4f}" in printed


def test_which_features_experiment_finds_the_shifted_columns(tmp_path):
    target = tmp_path / "features.json"
    run("experiments/which_features.py", "--quick", "--json", str(target))
    results = json.loads(target.read_text())
    assert results["held_out"]["low"] < results["exact"] < results["held_out"]["high"]
    leading = [row[0] for row in sorted(results["rows"], key=lambda row: -row[3])[:3]]
    assert set(leading) == {"age", "income", "commute"}, (
        "the three columns that shift with the secret"
    )


def test_the_slope_of_an_error_that_falls_like_a_power_is_that_power():
    sizes = np.array([100.0, 1000.0, 10_000.0])
    exact = density_rate.slope(sizes, np.tile(sizes[:, None] ** -0.5, 3), seed=0)
    assert exact.value == pytest.approx(-0.5)
    assert exact.low == pytest.approx(exact.high)
    noise = np.exp(0.3 * np.random.default_rng(0).standard_normal((3, 8)))
    found = density_rate.slope(sizes, sizes[:, None] ** -0.5 * noise, seed=0)
    assert found.low < -0.5 < found.high < -0.3


def test_the_bits_that_can_be_listed_never_settle_the_secret():
    world = density_rate.listed_bits()
    assert abs(world.density(world.atoms)).max() < density_rate.TRIM
    assert world.information() > 0.1


@pytest.mark.parametrize("name", reader.laws())
def test_the_laws_of_the_reader_state_their_density(name):
    """Of rows whose stated posterior is about p, a share of about p is of the class."""
    sample = reader.laws()[name](20_000, np.random.default_rng(0))
    posterior = np.exp(sample.truth) / 2
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0, atol=1e-9)
    bins = np.digitize(posterior[:, 1], [0.2, 0.4, 0.6, 0.8])
    for k in np.unique(bins):
        inside = bins == k
        error = np.sqrt(0.25 / inside.sum())
        gap = sample.secret[inside].mean() - posterior[inside, 1].mean()
        assert abs(gap) < 4 * error


@pytest.mark.filterwarnings("ignore")
def test_the_reader_is_scored_beside_plain_models_on_the_same_rows():
    law = reader.laws()["Gaussian, d = 2"]
    rng = np.random.default_rng(0)
    task = reader.Task("Gaussian, d = 2", 0, law(300, rng), law(1000, rng))
    scores = list(reader.measure(task))
    assert {"TIDE", "logistic, L2", "HistGradientBoosting"} <= {score.model for score in scores}
    (cell,) = reader.cells(scores)
    plain = [score for score in scores if score.model != "TIDE"]
    assert cell.best_error == min(score.error for score in plain)
    assert cell.best_nats == max(score.nats for score in plain)
    (own,) = (score for score in scores if score.model == "TIDE")
    assert (cell.error, cell.nats) == (own.error, own.nats)
    assert 0 < own.nats < 0.4


def test_public_benchmarks_average_errors_by_family_and_count_estimators_that_gave_no_number():
    found = [
        {
            "family": family,
            "truth": truth,
            "estimates": {"a": {"information": a}, "b": {"information": b}},
        }
        for family, truth, a, b in [
            ("f", 1.0, 0.9, None),
            ("f", 2.0, 2.3, 2.0),
            ("g", 0.5, 0.5, None),
        ]
    ]
    assert public_benchmarks.by_family(found, ["a", "b"]) == [
        ["f", 2, "0.200 / 0.300", "0.000 / 0.000, 1 failed"],
        ["g", 1, "0.000 / 0.000", "failed"],
    ]


def test_public_benchmarks_clip_densities_and_their_truth_alike():
    assert public_benchmarks.density_error(
        np.array([9.0, 1.0]), np.array([7.0, 1.5])
    ) == pytest.approx(0.25)


def test_public_benchmarks_say_which_python_lacks_the_package(tmp_path):
    with pytest.raises(LowtideError, match="No module named 'bmi'"):
        public_benchmarks.Peers(tmp_path, {"bmi": Path(sys.executable), "dmi": None}).ask(
            "bmi", "list"
        )


def test_the_theory_benchmark_writes_its_ratios(tmp_path):
    target = tmp_path / "bench.json"
    run("benchmarks/bench_theory.py", "--quick", "--json", str(target))
    ratios = json.loads(target.read_text())["ratios"]
    assert all(ratio > 0 for ratio in ratios.values())


def test_certified_bounds_experiment_finds_bounds_that_hold_and_say_something(tmp_path):
    target = tmp_path / "bounds.json"
    run("experiments/certified_bounds.py", "--quick", "--json", str(target))
    results = json.loads(target.read_text())
    for name, samples, below, _, _, dense, above in results["coverage"]:
        assert below <= 0.05 * samples + 3 * (0.05 * samples) ** 0.5, name
        assert int(dense.rstrip("%")) > 30, f"{name} says something of 25 rows a cell"
        assert 0 < above < 0.5
    for name, _, _, _, attack, exact, bound in results["attacked"]:
        assert attack < exact < bound, name


def test_known_columns_experiment_finds_the_exact_conditional_information(tmp_path):
    target = tmp_path / "known.json"
    run("experiments/known_columns.py", "--quick", "--json", str(target))
    laws = json.loads(target.read_text())["laws"]
    assert [inside for *_, inside in laws] == ["yes"] * 4
    assert laws[0][2] > 0.1
    assert laws[2][2] == pytest.approx(
        0, abs=1e-12
    )  # a copy that is flipped half the time adds nothing


def test_what_may_go_wrong_prints_what_its_page_says(tmp_path):
    target = tmp_path / "wrong.json"
    run("experiments/what_may_go_wrong.py", "--json", str(target))
    found = {one["trouble"]: one for one in json.loads(target.read_text())["troubles"]}
    page = (ROOT / "docs" / "what-may-go-wrong.md").read_text()
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    listed = [row for row in rows if row[0] in found]
    assert len(listed) == len(found) - 1, "all but the drift that is small enough to be bounded"
    for name, stated, true in listed:
        assert (f"{found[name]['stated']:.3f}", f"{found[name]['true']:.3f}") == (stated, true)
        assert found[name]["true"] > found[name]["stated"] + 0.1
    small = found["the same, and by how much"]
    assert small["true"] <= small["stated"] == pytest.approx(0.528, abs=0.0005)


SCRIPTS = [path for path in ROOT.glob("[eb]*s/*.py") if "def main" in path.read_text()]


@pytest.mark.parametrize("script", sorted(path.relative_to(ROOT) for path in SCRIPTS), ids=str)
def test_takes_the_common_options(script, monkeypatch, capsys):
    # In this process: torch and scikit-learn are loaded once for all scripts, not once for each.
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.syspath_prepend((ROOT / script).parent)
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(ROOT / script), run_name="__main__")
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    for option in ("--json", "--quick", "--seed", "--data"):
        assert option in printed


def test_calibration_error_is_how_far_beliefs_are_from_shares():
    truth = np.repeat([1, 0], [60, 40])
    assert text_models.calibration_error(np.full(100, 0.6), truth) == pytest.approx(0.0)
    assert text_models.calibration_error(np.full(100, 0.9), truth) == pytest.approx(0.3)
    both = np.repeat([0.9, 0.1], [60, 40])
    assert text_models.calibration_error(both, truth) == pytest.approx(0.1)
