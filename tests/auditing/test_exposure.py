"""Who is exposed, and the field's measures, beside the truth of laws that are known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from lowtide.attack.panel import attack
from lowtide.auditing.costs import read_costs
from lowtide.auditing.exposure import FEWEST, Exposure
from lowtide.auditing.measures import measure
from lowtide.errors import LowtideError
from lowtide.interface import AuditContext
from lowtide.theory.measures import Lifts
from lowtide.worlds.base import EnumerableWorld


def answered(q, codes, prior):
    """A report in which one attacker gave these answers; the rest is that of an attack on few other
    rows.
    """
    x = np.arange(80.0)[:, None]
    blank = attack(x, np.arange(80) % len(prior), attackers="logistic regression", progress=False)
    one = replace(blank.retrained[0], attacker="exact")
    return replace(
        blank,
        retrained=(one,),
        answers={"exact": q},
        codes=codes,
        prior=np.asarray(prior),
        rows=np.arange(len(codes)),
    )


@pytest.fixture(scope="module")
def law():
    rng = np.random.default_rng(5)
    return EnumerableWorld(np.arange(12.0)[:, None], rng.dirichlet(np.full(36, 0.6)).reshape(3, 12))


def exact_answers(law, n, seed):
    x, s = law.sample(n, seed)
    posterior = law.joint / law.joint.sum(axis=0)
    return np.maximum(posterior.T[x[:, 0].astype(int)], 1e-12), s


COSTS = np.array(
    [[0.0, 1.0, 5.0], [1.0, 0.0, 5.0], [2.0, 2.0, 0.0], [1.0, 1.0, 1.0]]
)  # to miss the third is dear


def cost_saved(law):
    """What the best guesser pays blindly, less what they pay having seen an outcome."""
    return float((COSTS @ law.joint.sum(axis=1)).min() - (COSTS @ law.joint).min(axis=0).sum())


def test_measures_of_exact_answers_hold_the_exact_ones_in_nine_of_ten(law):
    truth = Lifts.of_joint(law.joint)
    exact = {
        "claimed_information": truth.information(),
        "maximal_leakage": truth.maximal_leakage(),
        "sibson_2": truth.sibson(2.0),
        "sibson_10": truth.sibson(10.0),
        "arimoto_1.5": truth.arimoto(1.5),
        "arimoto_2": truth.arimoto(2.0),
        "total_variation": truth.total_variation(),
        "chi_squared": truth.chi_squared(),
        "principal_inertia": truth.principal_inertias()[0],
        "principal_inertia_2": truth.principal_inertias()[1],
        "g_leakage": truth.g_leakage(COSTS.max() - COSTS),
        "cost_saved": cost_saved(law),
        "pointwise_leakage_0.5": float(truth.pointwise_leakage(0.5)),
        "pointwise_cost_1": float(truth.pointwise_cost(1.0)),
    }
    blank = answered(*exact_answers(law, 60, 0), law.prior)
    held = dict.fromkeys(exact, 0)
    for seed in range(50):
        q, s = exact_answers(law, 600, seed)
        report = replace(blank, answers={"exact": q}, codes=s, rows=np.arange(len(s)))
        found = {one.key: one.estimate for one in measure(report, costs=COSTS)}
        for name, value in exact.items():
            held[name] += found[name].low <= value <= found[name].high
    assert min(held.values()) >= 45, held


def test_costs_are_read_by_the_names_of_the_classes(tmp_path):
    place = tmp_path / "costs.csv"
    place.write_text("guess,c,a,b\nsay a,5,0,1\nsay nothing,1,1,1\n")
    np.testing.assert_array_equal(read_costs(place, ["a", "b", "c"]), [[0, 1, 5], [1, 1, 1]])
    np.testing.assert_array_equal(read_costs(COSTS, ["a", "b", "c"]), COSTS)
    for text, message in (
        ("guess,a,b\nx,0,1\n", "2 classes in its header, 2 of which are among the 3"),
        ("guess,a,b,b\nx,0,1,1\n", "name each of these once"),
        ("guess,a,b,c\nx,0,1\n", "a row of 3 costs"),
        ("guess,a,b,c\n", "a row of 3 costs"),
        ("guess,a,b,c\nx,0,1,dear\n", "not numbers"),
        ("guess,a,b,c\nx,0,1,-1\n", "not below 0"),
        ("", "0 classes"),
    ):
        place.write_text(text)
        with pytest.raises(LowtideError, match=message):
            read_costs(place, ["a", "b", "c"])
    with pytest.raises(LowtideError, match="shape"):
        read_costs(np.zeros((2, 2)), ["a", "b", "c"])
    with pytest.raises(LowtideError, match="cannot read"):
        read_costs(tmp_path / "none.csv", ["a", "b"])


def test_nothing_learnt_has_no_measures():
    prior = np.array([0.5, 0.5])
    assert measure(answered(np.tile(prior, (100, 1)), np.arange(100) % 2, prior)) == ()


def gaussian_answers(shift, n, seed):
    """A number that is shifted in one of two equally frequent classes: the best attacker's
    answers.
    """
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    up = 1 / (1 + np.exp(-(shift * (rng.normal(size=n) + shift * s) - shift**2 / 2)))
    return np.column_stack([1 - up, up]), s


def test_the_interval_of_those_found_at_few_false_alarms_holds_the_exact_share():
    shift = 2.0
    held = {1e-2: 0, 1e-3: 0}
    blank = answered(*gaussian_answers(shift, 60, 0), [0.5, 0.5])
    for seed in range(40):
        q, s = gaussian_answers(shift, 3000, seed)
        found = Exposure.of(replace(blank, answers={"exact": q}, codes=s, rows=np.arange(len(s))))
        for one in found.caught:
            exact = norm.sf(norm.isf(one.rate) - shift)  # the same for both classes, by symmetry
            held[one.rate] += one.share.low <= exact <= one.share.high
    assert min(held.values()) >= 38, held
    assert found.caught[0].share.low > 0.2  # and not for being vacuous


def test_the_most_certain_guesses_are_right_more_often_and_quantiles_rise():
    found = Exposure.of(answered(*gaussian_answers(1.0, 3000, 1), [0.5, 0.5]))
    assert [one.count for one in found.sure] == [10, 100, 1000]
    assert found.sure[1].right.value > 0.85 > found.sure[2].right.value
    values = [one.value for one in found.quantiles.values()]
    assert values == sorted(values)
    assert all(one.low <= one.value <= one.high for one in found.quantiles.values())
    shares = [one.value for one in found.curve.values()]
    assert shares == sorted(shares, reverse=True)


def test_the_worst_group_is_the_one_that_is_read_and_small_groups_are_left_out():
    q, s = gaussian_answers(2.5, 1200, 2)
    groups = np.repeat([0, 1, 2], [700, 500 - FEWEST + 1, FEWEST - 1])
    q[groups != 1] = 0.5
    told = AuditContext(subgroups=groups, subgroups_of="district", numbers=np.arange(1200) + 5000)
    found = Exposure.of(answered(q, s, [0.5, 0.5]), told)
    assert (found.group.groups, found.group.left_out, found.group.rows) == (2, 1, 500 - FEWEST + 1)
    assert found.group.accuracy.low > 0.8
    assert found.group.elsewhere.high < 0.6
    assert found.private["row_of_the_worst_group"] == 5700
    assert all(5700 <= row < 5700 + 451 for row in found.private["rows"])
    assert "5700" not in str(found.table("vote", "rows"))
