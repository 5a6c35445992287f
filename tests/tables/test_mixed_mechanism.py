"""Noise in place of redaction, on laws where the exact leakage of the noised column is known."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from lowtide import TIDE, LowtideError, Obfuscator
from lowtide.attack.panel import attack
from lowtide.disclose.saved import load_hider
from lowtide.tables.encoder import read_table
from lowtide.tables.mechanism import TableMechanism

BUDGET = 0.035  # nats


def quick(**options):
    tide = TIDE(folds=3, max_steps=80, progress=False)
    return Obfuscator(tide, **{"mechanism": "mixed", "budget": BUDGET, "progress": False, **options})


def people(n, seed):
    """Age and city tell the secret; age is also what the use needs; the flat column has no range."""
    rng = np.random.default_rng([seed, 77])
    s = rng.integers(0, 2, n)
    age = 40 + 8 * s + rng.normal(0, 10, n)
    city = np.where(s ^ (rng.random(n) < 0.2), "north", "south")
    frame = pd.DataFrame({"age": age, "city": city, "score": rng.random(n), "flat": np.ones(n)})
    return frame, s, (age + rng.normal(0, 5, n) > 44).astype(int)


def exact(shift):
    """`I(S; N(shift·S, 1))` for a fair S, in nats."""
    grid = np.linspace(-12, 12 + shift, 40_001)
    parts = norm.pdf(grid), norm.pdf(grid - shift)
    mean = (parts[0] + parts[1]) / 2
    logs = [np.where(part > 0, part * np.log(np.maximum(part, 1e-300) / np.maximum(mean, 1e-300)), 0) for part in parts]
    return float(np.trapezoid((logs[0] + logs[1]) / 2, grid))


@pytest.fixture(scope="module")
def softened():
    frame, s, u = people(3000, seed=1)
    return quick().fit(frame, s, utility=u)


@pytest.fixture(scope="module")
def bounds(softened):
    return softened.mechanism_.low[0], softened.mechanism_.high[0]


def test_the_useful_number_is_noised_and_the_text_redacted(softened):
    assert softened.mechanism_.kinds == ("gaussian", "redact", "redact", "redact")
    names = np.array(softened.mechanism_.features.names)
    assert names[softened.policy_.hidden].tolist() == ["age", "city"]


def test_the_exact_leakage_of_the_noised_column_is_near_its_budget_and_was_far_above(softened, bounds):
    """Clipping afterwards tells no more. Less than a fifth of the budget would be more noise than needed."""
    spread = softened.mechanism_.lam * (bounds[1] - bounds[0])
    left = exact(8 / np.hypot(10, spread))
    assert 0.2 * BUDGET < left < 1.25 * BUDGET
    assert exact(0.8) > 2 * BUDGET


def test_attackers_read_the_clean_age_and_hardly_the_noised_one_and_utility_is_left(softened):
    frame, s, u = people(4000, seed=2)
    released = softened.transform(frame, ids=np.arange(len(frame)))
    options = {"attackers": ("logistic regression",), "progress": False}
    before, after = (attack(x.drop(columns="flat"), s, **options).headline for x in (frame, released))
    assert before.information.low > 0.15
    assert after.information.low < BUDGET
    assert attack(released[["age"]], u, **options).headline.information.low > 0.02
    assert (released["city"] == "hidden").all()
    assert released["score"].equals(frame["score"])


def test_the_curve_shows_that_less_noise_leaks_more(softened):
    points = [point for point in softened.policy_.curve if point.noised]
    assert {point.noised for point in points} == {(0,)}
    assert softened.mechanism_.lam in [point.lam for point in points]
    assert points[0].reading.leakage.value > points[-1].reading.leakage.value
    assert points[0].useful.leakage.value > points[-1].useful.leakage.value


def test_the_card_names_the_noised_column_and_its_promise(softened):
    card = softened.card_
    assert card.mechanism == "mixed"
    assert card.parameters["noised"] == ("age",)
    assert card.parameters["lam"] == softened.mechanism_.lam
    assert "noised and not redacted (1): age" in card.text()
    assert card.certificate.added.delta > 0  # noise of a small part of the range promises something above nothing
    assert "exactly nothing" not in card.text()


def test_a_saved_mixed_mechanism_adds_the_same_noise(softened, tmp_path):
    softened.hider_.save(tmp_path / "plan")
    again = load_hider(tmp_path / "plan")
    assert again.mechanism.to_config() == softened.mechanism_.to_config()
    assert [point.noised for point in again.policy.curve] == [point.noised for point in softened.policy_.curve]


def test_without_room_in_the_budget_everything_stays_redacted():
    frame, s, _ = people(1500, seed=3)
    tight = quick(lam=0.001).fit(frame[["age", "city"]], s)
    assert set(tight.mechanism_.kinds) == {"redact"}
    assert not tight.mechanism_.draws
    assert tight.card_.parameters["noised"] == ()


def test_without_a_utility_the_least_noise_within_budget_is_taken():
    frame, s, _ = people(3000, seed=4)
    hider = quick().fit(frame[["age", "score"]], s)
    assert hider.mechanism_.kinds == ("gaussian", "redact")
    spread = hider.mechanism_.lam * (hider.mechanism_.high[0] - hider.mechanism_.low[0])
    assert exact(8 / np.hypot(10, spread)) < 1.5 * BUDGET


def test_only_keeps_the_noise_of_the_named_features():
    frame, _, _ = people(100, seed=5)
    rows, encoder = read_table(frame[["age", "score"]])
    both = TableMechanism.build(encoder, encoder.features(), rows, kind="gaussian", lam=0.5)
    one = both.only([False, True])
    assert one.kinds == ("redact", "gaussian")
    assert one.ratios().tolist() == [0.0, 2.0]
    assert both.only([False, False]).lam is None


@pytest.mark.parametrize("options", [{"policy": "sequential"}, {"policy": "paper", "budget": None}, {"delta": 0.1}])
def test_mixed_is_for_plans_and_finds_its_own_noise(options):
    frame, s, _ = people(100, seed=6)
    with pytest.raises(LowtideError, match="mixed"):
        quick(**options).fit(frame, s)
