"""Audits of releases whose truth is known: everything hidden, a copy left, noise that gives itself
away.
"""

import json
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from lowtide.auditing.report import HEADER, audit_samples
from lowtide.auditing.verdict import Gate, give_verdict
from lowtide.errors import LowtideError
from lowtide.interface import Estimate
from lowtide.worlds import (
    gaussian_xor,
    naive_bayes_text,
    rare_value,
    redundant_bit,
    shifted_gaussian,
)

FAST = ("boosted trees", "logistic regression")
LABELS = np.array(["ZEBRA", "YAK"])


def exact(value):
    return Estimate(value, value, value, 10_000)


@pytest.fixture(scope="module")
def shifted():
    return shifted_gaussian(dimension=3, shift=1.0).sample(1200, seed=1)


@pytest.mark.parametrize(
    "world",
    [redundant_bit(2), shifted_gaussian(dimension=2, shift=1.5), rare_value(0.4)],
    ids=["bit", "shift", "rare"],
)
def test_redaction_of_everything_leaves_guessing_while_the_clean_data_is_read(world):
    x, s = world.sample(1200, seed=2)
    found = audit_samples(np.zeros_like(x), s, clean=x, attackers=FAST, fail_above=0.03)
    attacks = found.attacks
    assert abs(attacks.headline.accuracy.value - attacks.guess.accuracy.value) < 0.02
    assert attacks.headline_clean.accuracy.low > attacks.guess.accuracy.value + 0.1
    assert attacks.headline.information.value < 0.005 < attacks.headline_clean.information.low
    assert (found.divergence.forward_max, found.divergence.reverse_max) == (0.0, 0.0)
    assert (found.verdict.conclusive, found.verdict.passed) == (True, True)
    assert found.change.rms == pytest.approx(
        np.sqrt(np.mean(np.square(x).mean(axis=0) / x.var(axis=0)))
    )


def test_a_copy_of_the_secret_left_untouched_is_read():
    x, s = redundant_bit(2).sample(800, seed=3)
    # The paper's rule hides the first column, and releases the second since it tells nothing new
    # given the first.
    release = x + np.column_stack([np.random.default_rng(4).normal(0, 50, 800), np.zeros(800)])
    claim = exact(0.02)
    truth = exact(math.log(2))
    found = audit_samples(
        release,
        s,
        clean=x,
        estimate=claim,
        attackers=FAST,
        fail_above=Gate.accuracy(0.6),
        epsilon=0.4,
    )
    assert found.attacks.headline.accuracy.value == 1.0
    assert found.verdict.passed is False
    assert found.verdict.distrust.startswith("Do not trust the estimate")
    assert found.change.share == 0.5
    # Full disclosure of a fair bit has 1 − γ/2 forward and ½ in reverse; the paper's claim at m·ε =
    # 0.4 is 0.02.
    assert 0.02 < found.divergence.forward_max < 1 - math.exp(0.4) / 2
    assert 0.25 < found.divergence.reverse_max < 0.5
    assert give_verdict(found.attacks, truth).trusted


def test_noise_on_the_leaking_value_alone_is_detected():
    x, s = rare_value(0.4).sample(1500, seed=5)
    release = np.where(x == 1, x + 1000 * np.random.default_rng(6).normal(size=x.shape), x)
    found = audit_samples(release, s, clean=x, attackers=FAST)
    assert found.attacks.headline.information.low > 0.05
    # E_γ of the release, however large the noise: p − γ p/2.
    assert 0.05 < found.divergence.forward_max < 0.4 - 0.2 * math.exp(0.1)


def test_an_honest_estimate_is_trusted_and_a_too_small_one_is_not(shifted):
    x, s = shifted
    truth = shifted_gaussian(dimension=3, shift=1.0).information()
    found = audit_samples(x, s, estimate=exact(truth), attackers=FAST)
    assert found.verdict.trusted
    small = give_verdict(found.attacks, Estimate(0.03, 0.01, 0.05, 400))
    assert not small.trusted
    assert small.distrust.startswith("Do not trust the estimate")


def test_independent_data_is_seldom_reported_as_readable():
    world = shifted_gaussian(dimension=2)
    said = []
    for seed in range(30):
        x, _ = world.sample(300, seed)
        s = np.random.default_rng(1000 + seed).integers(0, 2, 300)
        found = audit_samples(
            x, s, clean=x, attackers=GaussianNB(), seed=seed, epsilon=None, estimate=exact(0.0)
        )
        said.append((found.verdict.conclusive, not found.verdict.trusted))
    # Each is an event of 2.5 % at most for an attacker that knows nothing: one of 40, and there are
    # 30.
    assert (np.sum(said, axis=0) <= 2).all()


def test_the_verdict_says_whether_the_limit_is_kept(shifted):
    x, s = shifted
    found = audit_samples(x, s, attackers=FAST)
    high = found.attacks.headline.information.high
    assert audit_samples(x, s, attackers=FAST, fail_above=high + 0.01).verdict.passed is True
    assert give_verdict(found.attacks, fail_above=high - 0.01).passed is False
    assert found.verdict.passed is None


def test_attackers_too_weak_for_the_clean_data_show_nothing():
    x, s = gaussian_xor(2, flip=0.0).sample(800, seed=7)
    weak = audit_samples(x, s, clean=x, attackers=("logistic regression",), fail_above=0.05).verdict
    assert (weak.conclusive, weak.passed) == (False, None)
    assert "says nothing about the release" in str(weak)
    strong = audit_samples(x, s, clean=x, attackers=("boosted trees",), fail_above=0.05).verdict
    assert (strong.conclusive, strong.passed) == (True, False)


@pytest.fixture(scope="module")
def full():
    """An audit with everything in it, of a table whose values and labels are easy to find again."""
    rng = np.random.default_rng(8)
    s = rng.integers(0, 2, 600)
    beast = np.where(s ^ (rng.random(600) < 0.2), "HIPPO", "RHINO")
    clean = pd.DataFrame(
        {
            "beast": beast,
            "weight": 7_654_321.0 + s + rng.normal(size=600),
            "age": rng.normal(size=600),
        }
    )
    release = clean.assign(weight=7_654_321.0)
    return audit_samples(
        release,
        pd.Series(LABELS[s], name="vote"),
        clean=clean,
        estimate=exact(0.2),
        utility=np.where(clean["age"] > 0, "GNU", "OKAPI"),
        fail_above=0.5,
        secret="vote",
        attackers=FAST,
    )


def test_json_is_plain_and_holds_neither_a_label_nor_a_value(full):
    found = full.to_json()
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text) == found
    for private in (*LABELS, "HIPPO", "RHINO", "7654321", "7_654_321", "GNU", "OKAPI"):
        assert private not in text
        assert private not in full.text()
        assert private not in repr(full)
    assert found["verdict"]["passed"] is True
    assert found["attacks"][0]["attacker"] == found["strongest"]
    assert found["change"]["columns"][1] == {
        "name": "weight",
        "share": 1.0,
        "rms": pytest.approx(1.1, abs=0.2),
    }
    assert found["utility"]["release"][0]["auc"]["value"] > 0.9
    assert found["divergence"]["epsilon"] == 0.1
    assert found["estimate"]["value"] == 0.2


def test_the_table_puts_the_retrained_attackers_first(full):
    rows = full.table()
    assert all(
        len(row) == len(HEADER) and all(isinstance(cell, str) for cell in row) for row in rows
    )
    assert [row[1:3] for row in rows] == (
        [("release", "release")] * 3
        + [("clean", "release")] * 2
        + [("clean", "clean")] * 2
        + [("nothing", "release")]
    )
    headline = full.attacks.headline
    bits = headline.information.bits
    assert rows[0][0] == headline.attacker
    assert rows[2][0] == "row order"
    assert rows[0][3].startswith(f"{headline.accuracy.value:.3f} [")
    assert rows[0][5] == f"{bits.value:.3f} [{bits.low:.3f}, {bits.high:.3f}]"


def test_the_summary_holds_every_figure(full):
    text = full.text()
    for part in (
        "An attacker guesses the vote right ",
        full.verdict.gate,
        "attacker",
        "At ε = 0.1 the divergence is at least",
        "33.3 % of the values changed",
    ):
        assert part in text
    assert "to an AUC of" in text
    assert "the clean data to" in text


def test_only_requested_parts_are_reported(shifted):
    x, s = shifted
    found = audit_samples(x, s, attackers=FAST, epsilon=None)
    plain = found.to_json()
    assert all(
        plain[name] is None
        for name in ("divergence", "change", "change_missing", "utility", "estimate")
    )
    assert "the divergence is at least" not in found.text()
    assert "changed" not in found.text()


def test_images_get_a_psnr_and_a_missing_psnr_is_null_in_json(shifted):
    x, s = shifted
    pixels = np.clip(x / 8 + 0.5, 0, 1)
    found = audit_samples(pixels, s, clean=pixels, attackers=FAST, peak=1.0)
    assert found.change.psnr == math.inf
    assert found.to_json()["change"]["psnr"] is None
    darker = audit_samples(
        0.9 * pixels, s, clean=pixels, attackers=FAST, peak=1.0, utility=x[:, 0] + x[:, 1]
    )
    assert "PSNR 2" in darker.text()
    assert "to an R² of 1.000" in darker.text()


def test_changed_texts_have_no_distance():
    s = np.arange(200) % 2
    clean = pd.DataFrame({"beast": np.where(s, "HIPPO", "RHINO")})
    found = audit_samples(clean.assign(beast="*"), s, clean=clean, attackers=FAST, epsilon=None)
    assert "100.0 % of the values changed." in found.text()
    assert found.verdict.conclusive


def test_a_release_of_other_columns_is_attacked_and_its_change_is_not_measured(shifted):
    x, s = shifted
    found = audit_samples(x[:, :2], s, clean=x, attackers=FAST)
    assert found.change is None
    assert found.attacks.fixed == ()
    assert (
        "The change was not measured: clean and release must have the same rows and columns"
        in found.text()
    )
    assert found.to_json()["change_missing"] == found.change_missing


def test_sparse_rows_are_audited():
    x, s = naive_bayes_text(vocabulary=40).sample(600, seed=9)
    hidden = x.copy().tolil()
    hidden[:, :20] = 0
    found = audit_samples(
        hidden.tocsr(),
        s,
        clean=x,
        attackers=FAST,
        utility=np.asarray(x[:, [30]].todense()).ravel() > 0,
    )
    assert found.attacks.headline_clean.information.value > found.attacks.headline.information.value
    assert 0 < found.change.share < 0.5
    assert found.utility.dropped == ()


def test_the_same_seed_gives_the_same_audit_report(shifted):
    x, s = shifted
    first, again, other = (
        audit_samples(x, s, attackers=FAST, seed=seed).to_json() for seed in (4, 4, 5)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clean": np.zeros((39, 2))}, "clean has 39 rows and the release 40"),
        ({"release": np.full((40, 2), np.nan)}, "NaN"),
        ({"s": np.zeros(40)}, "1 class"),
        ({"s": np.zeros(39)}, "1 class|rows"),
        ({"s": np.array([None, "ZEBRA"] * 20)}, "missing values"),
        ({"level": 1.0}, "level must lie in"),
        ({"epsilon": -0.1}, "epsilon must lie in"),
        ({"fail_above": -1.0}, "limit must lie in"),
        ({"estimate": 0.1}, "estimate must be an Estimate"),
        ({"attackers": ("oracle",)}, "attackers must be one of"),
        ({"clean": np.zeros((40, 2)), "peak": -1.0}, "peak must lie in"),
        ({"release": 3.0, "clean": np.zeros((40, 2))}, "float is not data that Lowtide reads"),
        (
            {
                "release": pd.DataFrame({"vote": np.zeros(40)}),
                "s": pd.Series([0, 1] * 20, name="vote"),
            },
            "column 'vote'",
        ),
    ],
)
def test_bad_arguments_of_an_audit_are_refused(change, message):
    arguments = {
        "release": np.eye(2)[np.arange(40) % 2],
        "s": np.arange(40) % 2,
        "attackers": FAST,
        **change,
    }
    with pytest.raises(LowtideError, match=message) as caught:
        audit_samples(arguments.pop("release"), arguments.pop("s"), **arguments)
    assert "ZEBRA" not in str(caught.value)
