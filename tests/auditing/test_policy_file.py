"""Policy files: what is read, what contradicts itself, and what a plan may not ask for."""

import re
from pathlib import Path

import numpy as np
import pytest

from lowtide.auditing.policy_file import PolicyFile, audit_rules, check_reachable
from lowtide.auditing.several import plan_budgets
from lowtide.auditing.verdict import Gate
from lowtide.disclose.budget import Budget
from lowtide.disclose.review import Approval
from lowtide.errors import LowtideError
from lowtide.interface import NATS_PER_BIT

PAGE = Path(__file__).parents[2] / "docs" / "evidence.md"
VOTE = '[[secret]]\nname = "vote"\n'


@pytest.fixture
def write(tmp_path):
    def written(text):
        path = tmp_path / "lowtide.toml"
        path.write_text(text)
        return path

    return written


def test_the_file_of_the_page_says_what_the_page_says(write):
    (example,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    found = PolicyFile.load(write(example))
    vote, pair = found.secrets
    assert (vote.secret, vote.budget) == ("vote", Budget.nats(0.02))
    assert vote.limits == (Gate.nats(0.05), Gate.accuracy(0.65))
    assert vote.every_attacker == Gate.accuracy(0.75)
    assert (pair.secret, pair.limits) == (("sex", "race"), (Gate.nats(0.1 * NATS_PER_BIT),))
    assert (found.minimum_group, found.approval) == (
        10,
        Approval(("Ada Lovelace", "Grace Hopper"), 1),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("minimum_group = 10\n", ("secret", "[[secret]]", "name = 'COLUMN'")),
        ("secret = 3\n", ("secret = 3", "[[secret]]")),
        (
            f"minimum_gruop = 10\n{VOTE}",
            ("minimum_gruop = 10", "no such key", "did you mean 'minimum_group'?"),
        ),
        (f"zzz = 1\n{VOTE}", ("zzz = 1", "the keys are secret, minimum_group, approval")),
        (f"minimum_group = 1\n{VOTE}", ("minimum_group = 1", "at least 2", "leave it out")),
        (f"minimum_group = true\n{VOTE}", ("minimum_group = True", "whole number")),
        (
            f"{VOTE}limit = ['0.05']\n",
            ("[[secret]] number 1", "limit = ", "did you mean 'limits'?"),
        ),
        (f"{VOTE}limits = '0.05'\n", ("limits = '0.05'", "must be a list", "write limits = ")),
        (f"{VOTE}limits = ['much']\n", ("limits = ['much']", "0.02nats", "write nats such as")),
        (f"{VOTE}budget = '130%'\n", ("budget = '130%'", "write nats such as")),
        (f"{VOTE}budget = true\n", ("budget = True", "not an amount")),
        (f"{VOTE}limits = ['0.05', '0.03bits']\n", ("two limits of one quantity", "keep the one")),
        (
            f"{VOTE}budget = 0.1\nlimits = [0.05]\n",
            ("budget = 0.1", "exceeds the limit", "lower the budget"),
        ),
        (
            f"{VOTE}{VOTE}",
            ("[[secret]] number 2", "name = 'vote'", "two entries are about one secret"),
        ),
        (
            "[[secret]]\nname = ['a', 'b']\n[[secret]]\nname = ['b', 'a']\n",
            ("number 2", "about one secret"),
        ),
        ("[[secret]]\nbudget = 0.1\n", ("name", "every secret has a name")),
        ("[[secret]]\nname = ' '\n", ("name = ' '", "names that are not empty")),
        (f"approval = 3\n{VOTE}", ("approval = 3", "must be a table")),
        (f"{VOTE}[approval]\nnames = ['Ada', 'Ada']\n", ("[approval]", "twice")),
        (f"{VOTE}[approval]\nnames = ['Ada']\nneeded = 2\n", ("needed = 2", "only 1 are named")),
        (f"{VOTE}[approval]\nneeded = 1\n", ("needed = 1", "only 0 are named")),
        (f"{VOTE}[approval]\nname = ['Ada']\n", ("[approval]", "did you mean 'names'?")),
        ("[[secret]\n", ("is not TOML", "correct it there")),
    ],
)
def test_what_is_wrong_is_said_with_file_key_value_rule_and_remedy(write, text, words):
    path = write(text)
    with pytest.raises(LowtideError) as error:
        PolicyFile.load(path)
    assert str(error.value).startswith(str(path))
    for word in words:
        assert word in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(
        LowtideError, match=r"cannot read the policy file .*nowhere.toml: No such file"
    ):
        PolicyFile.load(tmp_path / "nowhere.toml")


def test_a_secret_that_the_file_does_not_know_is_refused_with_the_nearest_one(write):
    found = PolicyFile.load(write(f'{VOTE}[[secret]]\nname = ["sex", "race"]\n'))
    assert found.rules(("race", "sex")).own is found.secrets[1]
    with pytest.raises(LowtideError, match="'votes'; did you mean 'vote'"):
        found.rules("votes")
    with pytest.raises(LowtideError, match=r"about vote, sex . race; say which"):
        found.rules()
    with pytest.raises(LowtideError, match="by name"):
        found.rules(np.zeros(3))


def test_limits_below_the_blind_guess_and_groups_larger_than_the_data_are_refused(write):
    labels = ["a"] * 60 + ["b"] * 40
    for limits in ("limits = ['59%']", "every_attacker = '59%'"):
        rules = PolicyFile.load(write(f"{VOTE}{limits}\n")).rules()
        with pytest.raises(
            LowtideError,
            match=r"limit 59.0% of 'vote' lies below the blind guess.*60.0%.*allow more",
        ):
            check_reachable(rules, labels)
    check_reachable(
        PolicyFile.load(write(f"minimum_group = 100\n{VOTE}limits = ['60%', 0.0]\n")).rules(),
        labels,
    )
    with pytest.raises(LowtideError, match="minimum_group = 101 is more than the 100 samples"):
        check_reachable(PolicyFile.load(write(f"minimum_group = 101\n{VOTE}")).rules(), labels)


def test_a_plan_takes_secret_and_budget_from_the_file_and_nothing_that_exceeds_it(write):
    path = write(f"{VOTE}budget = '0.02'\nlimits = ['0.05', '65%']\n")
    assert plan_budgets(path, None, None, None) == ("vote", {"vote": Budget.nats(0.02)})
    assert plan_budgets(path, "vote", "0.01", None) == ("vote", {"vote": Budget.nats(0.01)})
    assert plan_budgets(path, "vote", "60%", None) == ("vote", {"vote": Budget.accuracy(0.6)})
    with pytest.raises(
        LowtideError, match=r"a budget of 0.03 nat .* exceeds what .*lowtide.toml allows, 0.02 nat"
    ):
        plan_budgets(path, "vote", 0.03, None)
    with pytest.raises(LowtideError, match=r"66.0% .* exceeds"):
        plan_budgets(path, "vote", "66%", None)
    with pytest.raises(LowtideError, match=r"kept = 0.8.*leave kept out"):
        plan_budgets(path, "vote", None, 0.8)
    with pytest.raises(LowtideError, match="cannot be compared"):
        plan_budgets(write(f"{VOTE}budget = '60%'\n"), "vote", 0.01, None)


def test_without_a_file_a_secret_is_needed_and_a_budget_is_as_given():
    assert plan_budgets(None, "vote", "0.5", 0.8) == ("vote", {"vote": "0.5"})
    for ask in (lambda: plan_budgets(None, None, None, None), lambda: audit_rules({}, None)):
        with pytest.raises(LowtideError, match="needs the secret"):
            ask()
