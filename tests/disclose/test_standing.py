"""Kept, not shown, exceeded: what is compared with a budget, and what so few rows can show."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.disclose.aim import Aim
from lowtide.disclose.budget import Budget
from lowtide.disclose.standing import Standing, level_of, stand
from lowtide.interface import Estimate

EVEN = np.array([0.5, 0.5])


def _stand(limit, value, low, high, *, n=400, found=True, lower=-1.0, shown=True):
    estimate = Estimate(value, low, high, n, found)
    return stand(limit, "nats", estimate, lower=lower, reference=1000, shown=shown)


class TestStates:
    def test_a_budget_is_kept_only_when_the_upper_end_lies_within_it(self):
        assert _stand(0.05, 0.01, 0.0, 0.049).state == "kept"
        assert _stand(0.05, 0.01, 0.0, 0.051).state == "not shown"

    def test_it_is_exceeded_when_the_lower_end_lies_above(self):
        assert _stand(0.05, 0.08, 0.06, 0.1).state == "exceeded"

    def test_an_attack_alone_can_show_that_it_is_exceeded(self):
        assert _stand(0.05, 0.01, 0.0, 0.04, lower=0.06).state == "exceeded"

    def test_an_estimate_that_an_attack_contradicts_shows_nothing(self):
        assert _stand(0.05, 0.01, 0.0, 0.02, lower=0.03, shown=False).state == "not shown"

    def test_nothing_found_is_not_a_kept_budget(self):
        standing = _stand(0.01, 0.0, 0.0, 0.02, found=False)
        assert standing.state == "not shown"
        assert "as much as 0.0200 nat could have gone unseen in 400 samples" in str(standing)

    def test_the_rows_that_would_show_it_are_counted_in_reference_rows(self):
        # 400 of 1,000 rows judge; half as much can go unseen in twice as many.
        assert _stand(0.01, 0.0, 0.0, 0.02, found=False).rows_needed == 2000

    def test_more_rows_do_not_help_where_more_was_found_than_is_allowed(self):
        assert _stand(0.01, 0.012, 0.005, 0.02).rows_needed is None

    @pytest.mark.parametrize("state", ["kept", "not shown", "exceeded"])
    def test_every_state_says_its_own_word_first(self, state):
        made = {
            "kept": (0.0, 0.0, 0.01),
            "not shown": (0.0, 0.0, 0.1),
            "exceeded": (0.2, 0.1, 0.3),
        }[state]
        assert str(_stand(0.05, *made)).startswith(state)


def test_looks_together_spend_five_percent():
    spent = sum(1 - level_of(look) for look in range(1, 2000))
    assert 0.049 < spent <= 0.05
    assert level_of(1) < level_of(2) < level_of(3) < 1


class TestAim:
    def test_two_fifths_of_a_thousand_rows_can_show_a_fiftieth_of_a_nat(self):
        assert Aim.of(Budget(0.021), EVEN, judging=400, reference=1000).can_be_shown
        assert not Aim.of(Budget(0.02), EVEN, judging=400, reference=1000).can_be_shown

    def test_too_few_rows_are_told_how_many_it_takes(self):
        aim = Aim.of(Budget(0.01), EVEN, judging=200, reference=500)
        assert aim.rows_needed == 2050
        words = aim.warning(500)
        for remedy in ("Raise the budget", "more rows", "--certify", "not shown"):
            assert remedy in words

    def test_a_budget_of_nothing_is_never_shown_by_rows(self):
        aim = Aim.of(Budget(0.0), EVEN, judging=10**6, reference=10**7)
        assert not aim.can_be_shown
        assert aim.rows_needed is None

    @given(limit=st.floats(0.001, 0.6), judging=st.integers(20, 10**6))
    def test_what_is_planned_leaves_room_for_the_interval(self, limit, judging):
        aim = Aim.of(Budget(limit), EVEN, judging=judging, reference=2 * judging)
        if aim.can_be_shown:
            assert 0 < aim.planned.limit < limit
            assert aim.planned.limit + 2 * np.sqrt(
                2 * aim.planned.limit / judging
            ) == pytest.approx(limit)

    @given(limit=st.floats(0.5, 0.99), judging=st.integers(20, 10**6))
    def test_planned_accuracy_is_between_a_guess_and_the_limit(self, limit, judging):
        aim = Aim.of(Budget.accuracy(limit), EVEN, judging=judging, reference=2 * judging)
        assert 0.5 <= aim.planned.limit <= limit


def test_an_upper_end_is_never_stated_below_itself():
    assert "kept: at most 62.7% in" in str(Standing(0.65, "accuracy", "kept", 0.62612, 0.5, 567))
    assert "kept: at most 0.0579 nat in" in str(Standing(0.06, "nats", "kept", 0.05781, 0.0, 944))
    assert "kept: at most 62.6% in" in str(Standing(0.65, "accuracy", "kept", 0.626, 0.5, 567))
