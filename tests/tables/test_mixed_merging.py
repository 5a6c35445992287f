"""`mixed` with merging, noise and responses, on a law that can be listed: what each plan releases tells is known."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import xlogy
from scipy.stats import norm

from lowtide import TIDE, LowtideError, Obfuscator, Plan, plan, release
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise
from lowtide.tables.settings import TableSettings
from lowtide.tables.view import released_as

REGIONS = np.array(["centre", "east", "north", "south"])
BUDGET = 0.03  # nats


def law():
    """All rows, and the joint law (2, rows) of secret and row: every column tells the secret."""
    ages, regions, scores = (g.ravel() for g in np.meshgrid(np.arange(20, 80), np.arange(4), np.arange(10)))
    odds = 1.3 * np.sin(ages / 9) + np.array([0, 0, 1.2, -0.9])[regions] + 0.25 * (scores - 4.5)
    mass = np.array([4, 2, 2, 1])[regions] * np.exp(-(((ages - 45) / 25) ** 2))
    share = 1 / (1 + np.exp(-odds))
    joint = np.stack([mass * (1 - share), mass * share])
    return pa.table({"age": ages, "region": REGIONS[regions], "score": scores}), joint / joint.sum()


ROWS, JOINT = law()


def people(n, seed):
    """Rows of the law, their secret, and a use that changes at 60."""
    rng = np.random.default_rng([seed, 17])
    place = rng.choice(JOINT.size, n, p=JOINT.ravel())
    table = ROWS.take(pa.array(place % len(ROWS)))
    use = (table["age"].to_numpy() >= 60) ^ (rng.random(n) < 0.05)
    return table, place // len(ROWS), use.astype(int)


def quick(**options):
    tide = TIDE(max_steps=60, folds=2, progress=False, random_state=0)
    return Obfuscator(tide, mechanism="mixed", progress=False, random_state=0, **{"budget": BUDGET, **options})


def information(joint):
    outcome, prior = joint.sum(axis=0), joint.sum(axis=1)
    return float((xlogy(joint, joint) - xlogy(joint, np.outer(prior, outcome))).sum())


def exact(hider):
    """The joint law (2, outputs) of the secret and a released row, with noise and answers enumerated."""
    mechanism, hidden = hider.mechanism, hider.policy.hidden
    merged = ROWS if mechanism.merging is None else mechanism.merging.apply(ROWS).table
    chances = np.ones((len(ROWS), 1))
    for j, name in enumerate(ROWS.column_names):
        values, place = np.unique(merged[name].to_numpy(zero_copy_only=False), return_inverse=True)
        if not hidden[j]:
            chance = np.eye(len(values))
        elif mechanism.kinds[j] == "gaussian":
            low, high = mechanism.low[j], mechanism.high[j]
            below = norm.cdf((np.arange(low, high) + 0.5 - values[:, None]) / (mechanism.lam * (high - low)))
            ends = np.zeros((len(values), 1)), np.ones((len(values), 1))
            chance = np.diff(np.hstack([ends[0], below, ends[1]]), axis=1)
        elif mechanism.kinds[j] == "response":
            keep = mechanism.keeps[j]
            chance = keep * np.eye(len(values)) + (1 - keep) / len(values)
        else:
            chance = np.ones((len(values), 1))
        chances = (chances[:, :, None] * chance[place][:, None, :]).reshape(len(ROWS), -1)
    return JOINT @ chances


@pytest.fixture(scope="module")
def mixed():
    """A plan that merges two columns and noises the third."""
    table, s, _ = people(4000, seed=1)
    return quick().fit(table, s).hider_


@pytest.fixture(scope="module")
def answered():
    """One that noises a number and answers a category at random."""
    table, s, _ = people(4000, seed=1)
    return quick(lam=0.5, settings=TableSettings(categorical="response")).fit(table, s).hider_


def test_each_column_comes_back_in_its_own_way(mixed, answered):
    assert set(mixed.mechanism.merging.columns) == {"age", "region"}
    assert mixed.card.parameters["noised"] == ("score",)
    assert answered.card.parameters["answered"] == ("region",)
    assert answered.card.parameters["noised"] == ("score",)
    assert answered.mechanism.keeps[1] == pytest.approx(2 * norm.cdf(1) - 1)  # λ of a half


@pytest.mark.parametrize("name", ["mixed", "answered"])
def test_the_exact_leakage_keeps_the_budget_and_was_far_above_it(name, request):
    hider = request.getfixturevalue(name)
    left = information(exact(hider))
    assert information(JOINT) > 4 * BUDGET
    assert 0.2 * BUDGET < left <= BUDGET
    assert hider.card.standing.state == "kept"
    assert hider.card.leakage.low <= left <= hider.card.leakage.high


@pytest.mark.parametrize("name", ["mixed", "answered"])
def test_the_bound_of_the_exact_channel_lies_above_what_any_attacker_achieves(name, request):
    """And below what the rows tell clean, which nobody could show of a release without noise and merging."""
    hider = request.getfixturevalue(name)
    joint, bound = exact(hider), hider.card.bound
    assert information(joint) <= bound.information < information(JOINT)
    assert joint.max(axis=0).sum() <= bound.accuracy < JOINT.max(axis=0).sum()
    prior, outcome = joint.sum(axis=1, keepdims=True), joint.sum(axis=0)
    assert np.maximum(joint / prior - np.exp(bound.epsilon) * outcome, 0).sum(axis=1).max() <= bound.forward


@pytest.mark.parametrize("name", ["mixed", "answered"])
def test_a_release_has_the_enumerated_law(name, request):
    """Rows of one age, region and score, released under many ids: shares of each output as enumerated."""
    hider, n = request.getfixturevalue(name), 4000
    same = ROWS.take(pa.array(np.full(n, 777)))
    shown = hider.transform(same, noise=KeyedNoise(bytes(KEY_BYTES)), ids=np.arange(n))
    assert shown.column_names == ROWS.column_names
    low, high = int(hider.mechanism.low[2]), int(hider.mechanism.high[2])
    truth = same["score"][0].as_py()
    for score in (low, truth, high):
        ends = norm.cdf((score + np.array([-0.5, 0.5]) - truth) / (hider.mechanism.lam * (high - low)))
        expected = {low: ends[1], high: 1 - ends[0]}.get(score, ends[1] - ends[0])
        assert abs((shown["score"].to_numpy() == score).mean() - expected) < 4 * np.sqrt(expected / n)
    kinds = set(shown["region"].to_pylist())
    if name == "mixed":
        assert kinds == {hider.mechanism.merging.apply(same).table["region"][0].as_py()}
    else:
        right = np.mean(np.array(shown["region"].to_pylist()) == same["region"][0].as_py())
        keep = hider.mechanism.keeps[1]
        assert abs(right - (keep + (1 - keep) / 4)) < 0.03
        assert kinds == set(REGIONS)


def test_the_card_says_what_became_of_each_column(mixed, answered):
    said = released_as(mixed.card)
    assert said["score"] == "with noise"
    assert said["age"] == mixed.card.merged["age"]
    assert "Released coarser, as text: region" in mixed.card.text()
    assert released_as(answered.card) == {"age": "redacted", "region": "answered at random", "score": "with noise"}
    assert "answered at random and not redacted (1): region; an answer is the true one outright with probability " in (
        answered.card.text()
    )
    assert "exactly nothing" not in answered.card.text()


def test_the_verbs_show_a_redacted_number_in_the_bands_of_the_user(tmp_path):
    table, s, _ = people(2000, seed=2)
    table = table.select(["age", "region"]).append_column("vote", pa.array(s))
    made = plan(
        table, "vote", mechanism="mixed", budget=BUDGET, bands=("age=40",), hide=["region"], steps=60, progress=False
    )
    assert made.to_json()["released"] == {"age": "up to 39, 40+", "region": "redacted"}
    assert "up to 39, 40+" in str(made)
    again = Plan.load(made.save(tmp_path / "plan.json"))
    shown = release(table, again).data
    assert set(shown["age"].to_pylist()) == {"up to 39", "40+"}
    assert shown.equals(release(table, made).data)


@pytest.fixture(scope="module")
def given():
    """Bands of the user, and a number that is redacted."""
    table, s, _ = people(800, seed=3)
    settings = TableSettings(bands=["age=40,60"])
    return quick(settings=settings, keep=["age"], hide=["region", "score"], budget=0.3).fit(table, s).hider_


def test_bands_that_the_user_gives_hold_for_mixed_and_only_where_columns_are_merged(given):
    table, s, _ = people(800, seed=3)
    assert set(given.transform(table)["age"].to_pylist()) == {"up to 39", "40–59", "60+"}
    with pytest.raises(LowtideError, match="each by itself"):
        quick(settings=TableSettings(bands=["age=40"], together=["age,score"])).fit(table, s)
    with pytest.raises(LowtideError, match="holds text"):
        quick(settings=TableSettings(bands=["region=40"])).fit(table, s)


@pytest.mark.parametrize("rows", [50, 0])
def test_a_number_that_is_redacted_beside_bands_cannot_be_taken_for_a_value(given, answered, rows):
    table = people(50, seed=4)[0].slice(0, rows)
    shown = given.transform(table)
    assert shown.schema.field("score").type == pa.string()
    assert set(shown["score"].to_pylist()) == ({"hidden"} if rows else set())
    assert set(given.transform(table.to_pandas())["score"]) == set(shown["score"].to_pylist())
    noise = KeyedNoise(bytes(KEY_BYTES))
    plain = answered.transform(table, noise=noise, ids=np.arange(rows))  # nothing is merged here
    assert plain.schema.field("age").type == pa.int64()
