"""The bound against every attacker in audits: on laws whose best attacker is known, and what it
says when it cannot.
"""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from lowtide import audit
from lowtide.auditing.counting import CountedRelease
from lowtide.auditing.report import audit_samples
from lowtide.auditing.verdict import Gate, Unseen
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import certify_fixed
from lowtide.disclose.standing import Bound
from lowtide.formatting import percent_up
from lowtide.tables.modality import TABLES
from lowtide.texts.modality import TEXTS
from lowtide.worlds import redundant_bit

FAST = ("logistic regression",)


@pytest.fixture(scope="module")
def people():
    """Two columns of few values; the band tells a little about the vote: the best attacker is right
    in 55 %.
    """
    rng = np.random.default_rng(0)
    n = 800
    vote = rng.integers(0, 2, n)
    band = np.where(rng.random(n) < 0.45 + 0.1 * vote, "low", "high")
    return pd.DataFrame(
        {"town": rng.choice(list("abc"), n), "band": band, "vote": np.where(vote, "yes", "no")}
    )


@pytest.fixture(scope="module")
def audited(people):
    return audit(people.drop(columns="vote"), people, "vote", attackers=FAST, progress=False)


def counted(table, **options):
    return CountedRelease.of_counts(
        np.asarray(table, dtype=float), 0.05, nouns=TABLES.nouns, **options
    )


def card(columns=3, mechanism="redact", **parameters):
    return ReleaseCard(
        mechanism=mechanism,
        certificate=certify_fixed(
            0.1, [0.5, 0.5], hidden=[False] * columns, ratios=[0.0] * columns, rows=2000
        ),
        features=tuple(Feature(f"x{j}", 0.0) for j in range(columns)),
        rows=2000,
        classes=2,
        largest_class=0.5,
        changed=0.0,
        parameters=parameters,
    )


def test_the_bound_lies_between_the_best_attacker_and_certainty(audited):
    found = audited.counted
    assert (found.cells, found.rows) == (6, 800)
    assert 0.55 < found.accuracy < 0.62
    assert audited.attacks.headline.accuracy.value <= found.accuracy
    assert 0.005 < found.information < 0.1, "the band tells 0.005 nat"


def test_the_verdict_states_the_bound_with_its_confidence_and_condition(audited):
    said = audited.verdict.counted
    assert said.startswith(
        "No attacker who has nothing but the release, however clever, guesses the vote right more"
        f" than {percent_up(audited.counted.accuracy)}"
    )
    assert "95 % confidence" in said
    assert "none of these rows had a part in choosing what is released" in said
    assert said in str(audited.verdict)
    assert said in audited.text()


def test_divergence_and_pointwise_leakage_are_bounded_above_what_is_proven_and_true(audited):
    tails = audited.counted.tails
    assert audited.divergence.forward_max <= tails.forward < 0.2
    assert audited.divergence.reverse_max <= tails.reverse < 0.2
    band = counted([[275, 225], [225, 275]], epsilon=0.5).tails
    assert max(band.raised, band.lowered) < 1, "no row makes a vote 1.65 times as likely"
    assert "By counts, at ε = 0.1 the divergence is at most" in audited.text()


def test_the_json_holds_bound_curve_and_measures(audited):
    plain = json.loads(json.dumps(audited.to_json(), allow_nan=False))["counted"]
    assert plain["accuracy"] == audited.counted.accuracy
    assert [point["rows"] for point in plain["curve"]] == [50, 100, 200, 400, 800]
    assert set(plain["anonymity"]) == {
        "k",
        "unique",
        "distinct",
        "entropy",
        "closeness",
        "disclosure",
    }
    assert plain["cannot_tell"] is False


def test_the_report_has_the_bound_and_keeps_rare_cells_inside(people, tmp_path):
    rare = people.assign(
        town=np.where(np.arange(len(people)) == 7, "only one lives here", people.town)
    )
    found = audit(rare.drop(columns="vote"), rare, "vote", attackers=FAST, progress=False)
    found.write_report(tmp_path / "report.html", figures=tmp_path / "figures")
    page = (tmp_path / "report.html").read_text()
    assert "Against every attacker" in page
    cells = page[page.rindex("Rows shown alike") : page.index("k-anonymity")]
    assert "do not publish" in cells
    assert "only one lives here" not in page
    assert (tmp_path / "figures" / "every-attacker.svg").exists()


def test_a_utility_column_is_counted_although_attackers_do_not_see_it(people):
    rng = np.random.default_rng(1)
    wide = people.assign(income=rng.normal(size=len(people)))
    found = audit(
        wide.drop(columns="vote"), wide, "vote", utility="income", attackers=FAST, progress=False
    )
    assert found.counted.cells == len(people), "every income is different"
    assert found.counted.cannot_tell


def test_rows_that_are_all_different_cannot_tell_and_it_says_what_to_do():
    found = counted(np.eye(2)[:, np.arange(300) % 2])
    assert found.cannot_tell
    assert found.sentence("vote").startswith(
        "These rows are too few, or too different, to bound every attacker: 300 of 300"
    )
    assert "Merge values or hide columns" in found.sentence("vote")


def test_where_more_rows_would_tell_it_says_how_many():
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.full(2 * 40, 20.0)).reshape(2, 40)
    found = counted(rng.multinomial(200, law.ravel()).reshape(2, 40))
    assert found.needed > 400
    assert f"About {found.needed:,} rows would show" in found.curve_in_words("vote")
    many = rng.multinomial(3 * found.needed, law.ravel()).reshape(2, 40)
    assert counted(many).accuracy <= found.enough + 0.02


def test_a_gate_is_what_rows_are_asked_for():
    _, s = redundant_bit(1).sample(400, seed=0)
    coin = np.random.default_rng(1).integers(0, 2, size=(400, 1))
    found = audit_samples(coin, s, attackers=FAST, fail_above=Gate.accuracy(0.56))
    assert found.counted.enough == 0.56
    assert found.counted.needed > 400


def test_a_planned_release_states_what_holds_although_its_rows_chose_the_columns():
    table = [[300, 320], [280, 290]]
    plain = counted(table)
    planned = counted(table, card=card())
    assert planned.chosen.columns == 3
    assert planned.chosen.accuracy > plain.accuracy
    assert f"more than {percent_up(planned.chosen.accuracy)} of the time" in planned.sentence(
        "vote"
    )
    assert "even if these rows chose which columns to hide" in planned.sentence("vote")


def certified(failure=0.025, secret="vote"):
    """A card whose bound is from 300 rows that had no part in the plan."""
    bound = Bound.of_counts(np.array([[90.0, 70.0], [60.0, 80.0]]), 0.1, failure)
    return replace(card(mechanism="merge", certify=0.95), secret=secret, bound=bound)


def test_a_certified_release_states_the_bound_of_its_card():
    table = [[300, 320], [280, 290]]
    made = certified()
    found = counted(table, card=made, secret="vote")
    assert found.stated == made.bound
    assert found.holds("accuracy") == made.bound.accuracy > found.accuracy
    assert f"more than {percent_up(made.bound.accuracy)} of the time" in found.sentence("vote")
    assert "so the card says, from 300 rows that had no part in the plan" in found.sentence("vote")


@pytest.mark.parametrize(
    "made", [certified(secret="age"), certified(failure=0.2), card(mechanism="merge")]
)
def test_a_card_of_another_secret_or_of_less_confidence_bounds_nothing_here(made):
    found = counted([[300, 320], [280, 290]], card=made, secret="vote")
    assert found.stated is None
    assert found.holds("accuracy") is None


@pytest.mark.parametrize(
    "made", [card(mechanism="gaussian"), card(fill="redraw")], ids=["noise", "filled in"]
)
def test_of_other_plans_it_says_that_the_figure_does_not_hold_for_rows_that_planned(made):
    found = counted([[300, 320], [280, 290]], card=made)
    assert found.chosen is None
    assert "if it was made from these, the figure does not hold" in found.sentence("vote")


def test_nothing_is_counted_where_rows_are_not_independent_or_columns_are_unread(people):
    x, s = redundant_bit(2).sample(100, seed=0)
    assert audit_samples(x, s, attackers=FAST).counted is not None
    assert audit_samples(x, s, attackers=FAST, groups=np.arange(100) // 2).counted is None
    assert audit_samples(x, s, attackers=FAST, unseen=Unseen(("photo",))).counted is None


def test_rows_are_alike_where_all_that_they_show_is_the_same():
    frame = pd.DataFrame({"a": [1.0, 1.0, np.nan, np.nan, 1.0], "b": ["x", "x", "x", "x", "X"]})
    first, copy, gap, same, other = TABLES.surface(frame).alike
    assert (first, gap) == (copy, same)
    assert len({first, gap, other}) == 3
    rows = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0]])
    for given in (rows, sparse.csr_array(rows)):
        first, second, third = TABLES.surface(given).alike
        assert first == second != third
    first, second, third = TEXTS.surface(["a b", "a b", "a  b"]).alike
    assert first == second != third


@pytest.mark.parametrize(
    ("share", "said"), [(0.6801, "68.1 %"), (0.68, "68.0 %"), (1.0, "100.0 %")]
)
def test_a_bound_is_never_rounded_down(share, said):
    assert percent_up(share) == said
