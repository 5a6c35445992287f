"""Limits held against audits whose truth is known, and the evidence that is written about them."""

from dataclasses import replace
from xml.etree import ElementTree as Xml

import numpy as np
import pytest

from lowtide.auditing.gate import GateOutcome, LimitOutcome, judge_limits, junit, summary
from lowtide.auditing.policy_file import PolicyFile
from lowtide.auditing.report import audit_samples
from lowtide.auditing.verdict import Gate, Unseen
from lowtide.disclose.review import Approval
from lowtide.disclose.standing import Bound
from lowtide.errors import LowtideError
from lowtide.formatting import percent_up
from lowtide.worlds import redundant_bit

FAST = ("logistic regression",)
LIMITS = "limits = ['0.03', '60%']\nevery_attacker = '60%'\n"


@pytest.fixture(scope="module")
def audits():
    """The redundant bit with everything hidden, and with one of its copies left."""
    x, s = redundant_bit(2).sample(1500, seed=2)
    labels = np.array(["ZEBRA", "YAK"])[s]
    hidden = np.zeros_like(x)
    copied = x * [0, 1]
    return tuple(
        audit_samples(one, labels, clean=x, attackers=FAST, secret="beast", epsilon=None)
        for one in (hidden, copied)
    )


@pytest.fixture
def rules(tmp_path):
    def made(text, top=""):
        path = tmp_path / "lowtide.toml"
        path.write_text(f'{top}\n[[secret]]\nname = "beast"\n{text}')
        return PolicyFile.load(path).rules()

    return made


def states(outcome):
    return [one.state for one in outcome.outcomes]


def test_every_limit_is_kept_where_nothing_is_released_and_exceeded_where_a_copy_is(audits, rules):
    asked = rules(LIMITS, "minimum_group = 10")
    kept, exceeded = (judge_limits(found, asked, None, Unseen()) for found in audits)
    assert (kept.passed, states(kept)) == (True, ["kept"] * 4)
    assert (exceeded.passed, states(exceeded)) == (False, ["exceeded"] * 3 + ["kept"])
    assert kept.sentence == "Gate passed: 4 of 4 limits of lowtide.toml kept."
    assert exceeded.sentence == "Gate failed: 1 of 4 limits of lowtide.toml kept."


def test_upper_ends_are_compared_so_that_a_limit_too_tight_for_the_rows_is_not_shown(audits, rules):
    found = audits[0]
    most = found.attacks.headline.accuracy
    tight = rules(
        f"limits = ['{100 * (most.value + most.high) / 2}%', '1e-6']\nevery_attacker = '1e-6'\n"
    )
    outcome = judge_limits(found, tight, None, Unseen())
    assert states(outcome) == ["not shown"] * 3
    assert "could have gone unseen in 1,500 samples" in outcome.outcomes[1].found
    assert not outcome.passed


def test_a_group_that_is_too_small_exceeds_its_limit_and_its_size_is_not_told(audits, rules):
    outcome = judge_limits(audits[1], rules("", "minimum_group = 1400"), None, Unseen())
    assert states(outcome) == ["exceeded"]
    rarest = audits[1].counted.anonymity.k
    assert str(rarest) not in str(outcome.outcomes[0])


def test_measures_have_limits_and_unknown_ones_are_refused(audits, rules):
    asked = rules("measures = { maximal_leakage = 0.3, total_variation = 0.9, g_leakage = 1 }\n")
    hidden, copied = (judge_limits(found, asked, None, Unseen()) for found in audits)
    assert states(hidden) == ["kept"] * 3, "every row is shown alike"
    assert states(copied) == ["exceeded", "kept", "not shown"]
    assert "needs costs" in copied.outcomes[2].found
    silent = judge_limits(replace(audits[0], counted=None), asked, None, Unseen())
    assert states(silent) == ["not shown"] * 3, "nothing was measured"
    with pytest.raises(LowtideError, match="did you mean 'maximal_leakage'"):
        rules("measures = { maximal_leak = 0.3 }\n")
    with pytest.raises(LowtideError, match="not below 0"):
        rules("measures = { chi_squared = -1 }\n")


def test_what_was_not_counted_is_not_shown(audits, rules):
    found = replace(audits[0], counted=None)
    outcome = judge_limits(
        found, rules("every_attacker = '60%'\n", "minimum_group = 2"), None, Unseen()
    )
    assert states(outcome) == ["not shown", "not shown"]


def test_a_bound_that_the_plan_may_have_used_up_is_not_shown(audits, rules):
    found = replace(audits[0], counted=replace(audits[0].counted, planned=True, chosen=None))
    asked = rules("every_attacker = '60%'\n")
    assert states(judge_limits(audits[0], asked, None, Unseen())) == ["kept"]
    assert states(judge_limits(found, asked, None, Unseen())) == ["not shown"]


def test_the_bound_of_a_certified_card_keeps_a_limit_against_every_attacker(audits, rules):
    stated = Bound.of_counts(np.array([[300.0], [290.0]]), 0.1, 0.025)
    found = replace(
        audits[0], counted=replace(audits[0].counted, planned=True, chosen=None, stated=stated)
    )
    kept = judge_limits(found, rules("every_attacker = '60%'\n"), None, Unseen())
    assert states(kept) == ["kept"]
    assert f"{percent_up(stated.accuracy)} right, as the card states" in kept.outcomes[0].found
    assert states(judge_limits(found, rules("every_attacker = '52%'\n"), None, Unseen())) == [
        "not shown"
    ]


def test_columns_that_nobody_judged_leave_limits_open_unless_they_are_accepted(audits, rules):
    asked = rules("limits = ['0.03']\n")
    assert states(judge_limits(audits[0], asked, None, Unseen(("photo",)))) == ["not shown"]
    assert states(judge_limits(audits[0], asked, None, Unseen(("photo",), ("photo",)))) == ["kept"]


def test_attackers_who_cannot_read_the_clean_data_keep_no_limit(audits, rules):
    x, s = redundant_bit(2).sample(600, seed=3)
    noise = np.random.default_rng(0).permutation(x)
    found = audit_samples(
        np.zeros_like(x), s, clean=noise, attackers=FAST, secret="beast", epsilon=None
    )
    outcome = judge_limits(found, rules("limits = ['60%']\n"), None, Unseen())
    assert states(outcome) == ["not shown"]
    assert "attackers who read nothing keep every limit" in outcome.outcomes[0].found


def test_a_limit_of_the_user_is_one_more_and_no_limit_at_all_is_said(audits, rules):
    own = Gate.accuracy(0.6)
    assert states(judge_limits(audits[0], None, own, Unseen())) == ["kept"]
    both = judge_limits(audits[0], rules("limits = ['60%', '0.03']\n"), own, Unseen())
    assert len(both.outcomes) == 2, "the same limit is not listed twice"
    assert judge_limits(audits[0], None, None, Unseen()) is None
    with pytest.raises(LowtideError, match=r"has no limit for an audit of 'beast'.*minimum_group"):
        judge_limits(audits[0], rules("budget = 0.1\n"), None, Unseen())


def test_junit_has_one_test_case_per_limit_and_no_value_of_the_secret(audits, rules):
    outcome = judge_limits(audits[1], rules(LIMITS, "minimum_group = 10"), None, Unseen())
    text = junit(outcome, "shared.csv")
    root = Xml.fromstring(text)  # noqa: S314 - our own
    cases = root.findall("./testsuite/testcase")
    assert [one.get("name") for one in cases] == [one.asked for one in outcome.outcomes]
    failures = [one.find("failure") for one in cases]
    assert [None if one is None else one.get("type") for one in failures] == ["exceeded"] * 3 + [
        None
    ]
    assert root.get("failures") == root[0].get("failures") == "3"
    assert not {"ZEBRA", "YAK"} & set(text.replace('"', " ").split())


def test_names_of_others_cannot_break_the_xml_or_the_page(audits):
    hostile = 'a<b>&"|`x`\n# big\x1b[1m'
    outcome = GateOutcome(
        hostile, (LimitOutcome("at most", "exceeded", "Much"),), hostile, Approval((hostile,), 1)
    )
    # Lowtide wrote this XML.
    assert len(Xml.fromstring(junit(outcome, hostile)).findall(".//failure")) == 1  # noqa: S314
    page = summary(replace(audits[0], secret=hostile, gate=outcome), hostile)
    assert "\x1b" not in page
    assert "\n# big" not in page
    assert "<b>" not in page
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) == 3


def test_the_summary_says_outcome_limits_approvers_and_verdict(audits, rules):
    asked = rules(LIMITS)
    asked = replace(asked, file=replace(asked.file, approval=Approval(("Ada", "Grace"), 2)))
    found = replace(audits[0], gate=judge_limits(audits[0], asked, None, Unseen()))
    page = summary(found, "shared.csv")
    assert "**Gate passed: 3 of 3 limits of lowtide.toml kept.**" in page
    assert page.count("| kept |") == 3
    assert "To be approved by 2 of: Ada, Grace." in page
    assert "guessing blindly gives" in page
    assert found.to_json()["gate"]["passed"] is True
    assert "Gate passed: 3 of 3" in found.text()
