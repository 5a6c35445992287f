"""The membership term: what the places of hidden values tell, and what noise and random answers
leave of them.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lowtide.disclose.membership import hidden_shares, membership
from lowtide.errors import LowtideError
from lowtide.interface import Estimate
from lowtide.theory import hockey_stick, response

SIDES = ("forward", "reverse")


def test_hidden_places_are_counted_by_class():
    hidden = np.array([[True, False], [True, False], [False, False], [True, True]])
    p, q, prior = hidden_shares(hidden, [0, 0, 1, 1], classes=2)
    np.testing.assert_array_equal(p, [[1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_array_equal(q, [0.75, 0.25])
    np.testing.assert_array_equal(prior, [0.5, 0.5])


def test_the_membership_term_is_the_selective_bound_of_the_shares():
    rng = np.random.default_rng(5)
    s = rng.integers(0, 3, 600)
    hidden = rng.random((600, 4)) < 0.2 + 0.2 * s[:, None]
    ratios = np.array([0.0, 0.3, 1.0, 5.0])
    term = membership(hidden, s, ratios=ratios, epsilon=0.1, classes=3)
    p, q, _ = hidden_shares(hidden, s, classes=3)
    for side in SIDES:
        sums = [hockey_stick.selective(0.1, ratios, 1.0, p[c], q, side).sum() for c in range(3)]
        estimate = getattr(term, side)
        assert estimate.value == pytest.approx(max(sums))
        assert estimate.low < estimate.value < estimate.high
        assert estimate.n == 600
    assert term.hidden == pytest.approx(hidden.mean(axis=0))


def test_the_interval_holds_the_truth():
    """One feature hidden with p = (.2, .6), at λ = ∞: the term is (.6 − e^ε·.4)_+ forward."""
    truth = 0.6 - np.exp(0.1) * 0.4
    covered = 0
    rng = np.random.default_rng(17)
    for _ in range(100):
        s = np.repeat([0, 1], 300)
        hidden = (rng.random(600) < np.where(s, 0.6, 0.2))[:, None]
        estimate = membership(hidden, s, ratios=[0.0], epsilon=0.1, classes=2).forward
        covered += estimate.low <= truth <= estimate.high
    assert covered >= 85


def test_places_independent_of_the_secret_have_membership_term_zero():
    hidden = np.tile([[True], [False]], (100, 1))
    s = np.repeat([0, 1], 100)
    term = membership(hidden, s, ratios=[0.0], epsilon=0.1, classes=2)
    assert term.forward == Estimate(0.0, 0.0, 0.0, 200)
    telling = membership(s.astype(bool)[:, None], s, ratios=[0.0], epsilon=0.1, classes=2)
    assert telling.forward.value == pytest.approx(1 - np.exp(0.1) / 2)


@given(
    hnp.arrays(float, (2, 4), elements=st.floats(0, 1, allow_subnormal=False)),
    st.floats(0, 0.5),
    st.floats(0, 2),
)
def test_averaging_over_uninformative_pasts_is_a_lower_estimate(chances, epsilon, ratio):
    """Four equally likely pasts, independent of a fair secret; P(hidden | s, past) anything:
    Jensen.
    """
    p = chances
    q = chances.mean(axis=0)
    for side in SIDES:
        by_past = hockey_stick.selective(epsilon, ratio, 1.0, p, q, side).mean(axis=1)
        averaged = hockey_stick.selective(epsilon, ratio, 1.0, p.mean(axis=1), q.mean(), side)
        assert (averaged <= by_past + 1e-12).all()


def test_averaging_over_informative_pasts_can_exceed_the_truth():
    """Two pasts shown raw tell s with 2ε; the third feature is hidden for one past and tells
    nothing more.
    """
    epsilon = 0.1
    past = np.array([[0.3, 0.7], [0.7, 0.3]])
    chance = np.array([0.0, 1.0])  # hidden or not is decided by the past alone: p = q for each
    exact = hockey_stick.selective(epsilon, 0.0, 1.0, chance, chance)
    p = past @ chance
    averaged = hockey_stick.selective(epsilon, 0.0, 1.0, p, p.mean())
    assert exact.max() == 0
    assert averaged.max() > 0.1


class TestResponses:
    @staticmethod
    def release(seed=5, classes=3):
        rng = np.random.default_rng(seed)
        s = rng.integers(0, classes, 600)
        return {
            "hidden": rng.random((600, 4)) < 0.2 + 0.2 * s[:, None],
            "s": s,
            "epsilon": 0.1,
            "classes": classes,
        }

    @pytest.mark.parametrize("responses", [[[]] * 4, [[(0.0, 3)], [], [(0.0, 2), (0.0, 5)], []]])
    def test_without_an_answer_the_noise_counts_as_ever(self, responses):
        """An answer that keeps nothing of the truth is a redaction."""
        ratios = [0.0, 0.3, 1.0, 5.0]
        alone = membership(**self.release(), ratios=ratios)
        assert membership(**self.release(), ratios=ratios, responses=responses) == alone

    def test_a_tiny_keep_is_the_gaussian_path(self):
        """The two ways through the code meet."""
        ratios = [0.0, 0.3, 1.0, 5.0]
        responses = [[(1e-12, 3)]] * 4
        alone = membership(**self.release(), ratios=ratios)
        both = membership(**self.release(), ratios=ratios, responses=responses)
        for side in SIDES:
            for end in ("value", "low", "high"):
                assert getattr(getattr(both, side), end) == pytest.approx(
                    getattr(getattr(alone, side), end), rel=1e-8
                )

    def test_answers_alone_have_a_closed_form(self):
        p, q, _ = hidden_shares(self.release()["hidden"], self.release()["s"], classes=3)
        keeps = np.array([0.0, 0.1, 0.5, 0.9])
        term = membership(
            **self.release(), ratios=[0] * 4, responses=[[(keep, 3)] for keep in keeps]
        )
        gamma = np.exp(0.1) * q / p
        assert term.forward.value == pytest.approx(
            (p * response.divergence(gamma, keeps, 3)).sum(axis=1).max()
        )
        gamma = np.exp(0.1) * p / q
        assert term.reverse.value == pytest.approx(
            (q * response.divergence(gamma, keeps, 3)).sum(axis=1).max()
        )
        assert term.forward.low < term.forward.value < term.forward.high

    def test_a_randomised_answer_leaks_more_than_a_redaction(self):
        """Places that do not depend on the secret tell nothing; what is answered there does."""
        hidden = np.tile([[True], [False]], (100, 1))
        s = np.repeat([0, 1], 100)
        arguments = {"ratios": [0.0], "epsilon": 0.1, "classes": 2}
        assert membership(hidden, s, **arguments, responses=[[]]).forward.value == 0
        values = [
            membership(hidden, s, **arguments, responses=[[(k, 3)]]).forward.value
            for k in (0.2, 0.5, 1.0)
        ]
        assert values == sorted(values)
        assert values[0] > 0
        assert values[-1] == pytest.approx(0.5), "p, as for full disclosure"

    def test_a_class_that_hides_nothing(self):
        hidden = np.array([[True], [True], [False], [False]])
        s = np.array([0, 0, 1, 1])
        term = membership(hidden, s, ratios=[0.5], epsilon=0.1, classes=2, responses=[[(0.5, 2)]])
        assert term.forward.value == pytest.approx(
            float(response.pairwise(0.1 + np.log(0.5), 0.5, [0.5], [2])), rel=1e-9
        )
        assert term.reverse.value == pytest.approx(0.5), (
            "q where p = 0: there the class is ruled out"
        )

    @given(
        hnp.arrays(float, (2, 4), elements=st.floats(0.01, 1)),
        st.floats(0, 1),
        st.floats(0, 1),
        st.integers(1, 4),
    )
    def test_bounds_what_the_hidden_values_tell(self, weights, keep, epsilon, places):
        """A feature of four categories, the last `places` of which are hidden behind an answer at
        random.
        """
        counts = np.maximum(np.round(weights * 50), 1).astype(int)
        s = np.repeat([0, 0, 0, 0, 1, 1, 1, 1], counts.ravel())
        x = np.repeat([0, 1, 2, 3] * 2, counts.ravel())
        term = membership(
            (x >= 4 - places)[:, None],
            s,
            ratios=[0.0],
            epsilon=epsilon,
            classes=2,
            responses=[[(keep, 4)]],
        )
        given_s = counts / counts.sum(axis=1, keepdims=True)
        answers = given_s[:, 4 - places :] @ (keep * np.eye(4) + (1 - keep) / 4)[4 - places :]
        overall = np.bincount(s) / len(s) @ answers
        forward = np.maximum(answers - np.exp(epsilon) * overall, 0).sum(axis=1).max()
        reverse = np.maximum(overall - np.exp(epsilon) * answers, 0).sum(axis=1).max()
        assert forward <= term.forward.value + 1e-12
        assert reverse <= term.reverse.value + 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: membership([[True]], [0], ratios=[0], epsilon=0.1, classes=2), "have no row"),
        (
            lambda: membership([[True]], [2], ratios=[0], epsilon=0.1, classes=2),
            "encode the secret",
        ),
        (
            lambda: membership([[1]], [0], ratios=[0], epsilon=0.1, classes=2),
            "hidden must be booleans",
        ),
        (
            lambda: membership([[True], [True]], [0, 1], ratios=[0, 1], epsilon=0.1, classes=2),
            r"ratios must have shape \(1,\), got \(2,\)",
        ),
        (
            lambda: membership(
                [[True], [True]], [0, 1], ratios=[0], epsilon=0.1, classes=2, responses=[[], []]
            ),
            "responses must be one list per feature, 1, got 2",
        ),
    ],
)
def test_refuses_bad_input(call, message):
    with pytest.raises(LowtideError, match=message):
        call()
