"""Certificates against exact releases: what is promised holds, and what the paper claims does
not.
"""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import ndtr

from lowtide.disclose.certificate import (
    certify_fixed,
    certify_paper,
    certify_sequential,
    full_disclosure,
)
from lowtide.disclose.membership import membership
from lowtide.errors import LowtideError
from lowtide.theory import calibration, hockey_stick
from lowtide.worlds import EnumerableWorld, parity, rare_value, redundant_bit, two_points, xor

EXACT = 1e-9  # the accuracy of the quadrature behind exact releases
SIDES = ("forward", "reverse")
WORLDS = {
    "xor": xor(),
    "parity 3": parity(3),
    "copies 2": redundant_bit(2),
    "copies 3": redundant_bit(3),
    "echoes 2": redundant_bit(2, flip=0.2),
    "echoes 3": redundant_bit(3, flip=0.2),
    "rare value": rare_value(),
    "two points .1": two_points(0.1),
    "two points .3": two_points(0.3),
    "two points .5": two_points(0.5),
}
# Three noised features have more pasts than a test should follow.
NOISED = [(world, 1.0) for world in WORLDS.values() if world.atoms.shape[1] < 3]
REDACTED = [(world, np.inf) for world in WORLDS.values()]
every_world = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())


def masks(world):
    return [np.array(mask) for mask in product([False, True], repeat=world.atoms.shape[1])]


def grid(world, hidden):
    """A few (ε, λ); fewer where the exact release is an integral over many clouds or three
    dimensions.
    """
    if hidden.sum() == 3 and len(world.atoms) > 2:
        return [(0.2, 1.0), (0.0, np.inf)]
    if len(hidden) == 3:
        return [(0.0, 2.0), (0.2, 0.4), (1.0, 2.0), (0.2, np.inf)]
    return list(product([0.0, 0.2, 1.0], [0.4, 2.0, np.inf]))


def plan(world, hidden, scale, epsilon):
    """The certificate of a release that hides some features of a world."""
    return certify_fixed(
        epsilon, world.prior, ratios=np.ptp(world.atoms, axis=0) / scale, hidden=hidden
    )


def marginal(world, mask):
    """The law of some of the features."""
    atoms, index = np.unique(world.atoms[:, mask], axis=0, return_inverse=True)
    joint = np.stack(
        [np.bincount(index.ravel(), weights=row, minlength=len(atoms)) for row in world.joint]
    )
    return EnumerableWorld(atoms, joint)


def largest(release, epsilon):
    return {side: float(getattr(release, side)(epsilon).max()) for side in SIDES}


def assert_bounded(truth, bound):
    assert truth["forward"] <= bound.forward.delta + EXACT
    assert truth["reverse"] <= bound.reverse.delta + EXACT


class TestPlan:
    @every_world
    def test_the_whole_release_keeps_the_promise(self, world):
        for hidden in masks(world):
            for epsilon, scale in grid(world, hidden):
                certificate = plan(world, hidden, scale, epsilon)
                assert_bounded(largest(world.release(hidden, scale), epsilon), certificate.whole)
                assert certificate.whole.vacuous or hidden.all()

    @every_world
    def test_the_hidden_part_alone_keeps_its_promise(self, world):
        for hidden in masks(world):
            if hidden.all() or not hidden.any():
                continue
            part = marginal(world, hidden)
            for epsilon, scale in grid(part, np.ones(hidden.sum(), dtype=bool)):
                release = part.release(np.ones(hidden.sum(), dtype=bool), scale)
                assert_bounded(
                    largest(release, epsilon), plan(world, hidden, scale, epsilon).hidden_part
                )

    @every_world
    def test_the_hidden_part_adds_no_more_than_certified_to_the_raw_part(self, world):
        """Outside probability δ₁ the raw part tells at most E₁; the whole has (E₁ + ε, δ₁ + δ)."""
        for hidden in masks(world):
            if hidden.all() or not hidden.any():
                continue
            leakage = np.abs(world.observed(world.atoms, ~hidden))
            for (epsilon, scale), raw in product(
                [(0.2, 0.4), (0.2, 2.0), (0.5, np.inf)], [0.0, 0.3]
            ):
                release = world.release(hidden, scale)
                added = plan(world, hidden, scale, epsilon).added
                for side, law in (
                    ("forward", world.joint / world.prior[:, None]),
                    ("reverse", world.joint.sum(axis=0)),
                ):
                    beyond = (np.broadcast_to(law, world.joint.shape) * (raw < leakage.T)).sum(
                        axis=1
                    )
                    truth = getattr(release, side)(raw + added.epsilon)
                    assert (truth <= beyond + added.delta + EXACT).all()

    @pytest.mark.parametrize("scale", [0.5, 1.0, 5.0])
    def test_the_certified_addition_is_tight_for_a_rare_class(self, scale):
        """The raw bit tells nothing, the hidden one is the secret, whose class 1 is rare."""
        rare = 1e-5
        atoms = [[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0)]
        world = EnumerableWorld(
            atoms, [[(1 - rare) / 2, 0, (1 - rare) / 2, 0], [0, rare / 2, 0, rare / 2]]
        )
        hidden = np.array([False, True])
        added = plan(world, hidden, scale, 0.2).added
        for side, truth in largest(world.release(hidden, scale), 0.2).items():
            assert truth == pytest.approx(added.delta, rel=1e-3), side
            assert truth <= added.delta

    @given(st.floats(0.05, 0.95), st.floats(0.2, 5), st.floats(0, 1.5))
    def test_two_points_are_certified_exactly(self, prior, scale, epsilon):
        world = two_points(prior)
        bound = plan(world, np.array([True]), scale, epsilon).whole
        truth = largest(world.release(np.array([True]), scale), epsilon)
        assert bound.forward.delta == pytest.approx(truth["forward"], rel=1e-8, abs=1e-14)
        assert bound.reverse.delta == pytest.approx(truth["reverse"], rel=1e-8, abs=1e-14)

    @given(st.floats(0.02, 0.98), st.floats(0.01, 30), st.floats(0, 2))
    def test_a_promise_is_vacuous_when_full_disclosure_satisfies_it(self, prior, scale, epsilon):
        world = two_points(prior)
        bound = plan(world, np.array([True]), scale, epsilon).whole
        open_release = largest(world.release(np.array([False])), epsilon)
        for side in SIDES:
            satisfied = open_release[side] <= getattr(bound, side).delta * (1 + 1e-12)
            assert getattr(bound, f"{side}_vacuous") == satisfied
        limit = full_disclosure(epsilon, world.prior)
        assert limit.forward.delta == pytest.approx(open_release["forward"], abs=1e-12)
        assert limit.reverse.delta == pytest.approx(open_release["reverse"], abs=1e-12)

    def test_enough_noise_on_everything_is_worth_something(self):
        bound = plan(parity(3), np.ones(3, dtype=bool), 10.0, 0.1).whole
        assert not bound.forward_vacuous
        assert not bound.reverse_vacuous
        assert bound.reverse.delta < 0.05

    def test_redacting_everything_is_certified_to_leak_nothing(self):
        whole = plan(xor(), np.ones(2, dtype=bool), np.inf, 0.0).whole
        assert (whole.forward.delta, whole.reverse.delta, whole.vacuous) == (0.0, 0.0, False)
        assert largest(xor().release(np.zeros(2, dtype=bool)), 0.0)["forward"] == 0.5, (
            "and something before"
        )

    def test_a_hundred_patches_are_beyond_noise(self):
        whole = certify_fixed(
            0.5, [0.5, 0.5], ratios=np.full(100, 4.0), hidden=np.ones(100, dtype=bool)
        ).whole
        assert whole.vacuous

    def test_vacuous_certificates_say_so(self):
        raw = plan(xor(), np.array([True, False]), 1.0, 0.2)
        none = plan(xor(), np.array([False, False]), 1.0, 0.2)
        fine = plan(xor(), np.array([True, True]), 3.0, 0.2)
        assert "vacuous" in " ".join(raw.statements)
        assert "vacuous" in " ".join(none.statements)
        assert (none.hidden_part, none.added) == (None, None)
        assert "vacuous" not in " ".join(fine.statements)


class TestResponses:
    @staticmethod
    def channel(keep, k):
        return keep * np.eye(k) + (1 - keep) / k

    @given(
        hnp.arrays(float, (2, 6), elements=st.floats(0.01, 1)),
        st.floats(0, 1),
        st.floats(0, 1),
        st.floats(0, 1.5),
    )
    def test_two_answers_at_random(self, weights, first, second, epsilon):
        """The exact divergence of two responses, of 3 and of 2 categories, for a random law."""
        joint = weights / weights.sum()
        prior = joint.sum(axis=1)
        laws = joint / prior[:, None] @ np.kron(self.channel(first, 3), self.channel(second, 2))
        certificate = certify_fixed(
            epsilon, prior, ratios=[0, 0], hidden=[True, True], responses=[(first, 3), (second, 2)]
        )
        forward = hockey_stick.discrete(laws, prior @ laws, np.exp(epsilon)).max()
        reverse = hockey_stick.discrete(prior @ laws, laws, np.exp(epsilon)).max()
        assert_bounded({"forward": forward, "reverse": reverse}, certificate.whole)

    @given(st.floats(0.1, 0.9), st.floats(0, 0.99), st.floats(0.3, 3), st.floats(0, 1))
    def test_noise_and_an_answer_are_certified_exactly_on_two_rows(
        self, prior, keep, scale, epsilon
    ):
        """S decides both features; the law of (answer, noised value) given s is two Gaussians per
        answer.
        """
        gamma = np.exp(epsilon)
        answers = self.channel(keep, 2)
        certificate = certify_fixed(
            epsilon,
            [1 - prior, prior],
            ratios=[1 / scale, 0],
            hidden=[True, True],
            responses=[(keep, 2)],
        )
        forward = []
        reverse = []
        for s, pi in enumerate((1 - prior, prior)):
            ours = answers[s]
            others = answers[1 - s]
            gain = (1 - gamma * pi) * ours
            loss = gamma * (1 - pi) * others
            pairs = [
                g * hockey_stick.gaussian(b / g, 1.0, scale)
                for g, b in zip(gain, loss, strict=True)
                if g > 0
            ]
            forward.append(sum(pairs))
            gain = (1 - pi) * others
            loss = (gamma - pi) * ours
            reverse.append(
                sum(
                    g * hockey_stick.gaussian(b / g, 1.0, scale)
                    for g, b in zip(gain, loss, strict=True)
                )
            )
        assert certificate.whole.forward.delta == pytest.approx(max(forward), rel=1e-7, abs=1e-12)
        assert certificate.whole.reverse.delta == pytest.approx(max(reverse), rel=1e-7, abs=1e-12)

    def test_one_feature_may_hold_noised_columns_and_answers(self):
        arguments = {"responses": [(0.2, 3), (0.1, 2)]}
        one = certify_fixed(0.2, [0.5, 0.5], ratios=[0.5], hidden=[True], **arguments)
        three = certify_fixed(
            0.2, [0.5, 0.5], ratios=[0.5, 0.0, 0.0], hidden=[True] * 3, **arguments
        )
        assert one.whole == three.whole

    def test_an_answer_weakens_the_promise(self):
        arguments = {"ratios": [0.5, 0.0], "hidden": [True, True]}
        without = certify_fixed(0.2, [0.5, 0.5], **arguments)
        beside = certify_fixed(0.2, [0.5, 0.5], **arguments, responses=[(0.2, 3)])
        assert beside.whole.reverse.delta > without.whole.reverse.delta
        assert beside.added.delta > without.added.delta


def follow(world, scale, epsilon, *, slack=None):
    """Release feature by feature with the exact density; `slack` makes it a running total.

    Returns the laws P(y|s), whether the last feature is hidden in each y, and the exact membership
    terms of each class: selective bounds for every past, averaged over the pasts.
    """
    given_s = world.joint / world.prior[:, None]
    total = world.joint.sum(axis=0)
    paths = np.ones((1, len(total)))
    terms = {side: np.zeros(len(given_s)) for side in SIDES}
    for values in world.atoms.T:
        with np.errstate(divide="ignore", invalid="ignore"):
            before = np.log(paths @ given_s.T / (paths @ total)[:, None])
            same = (values[:, None] == values).astype(float)
            after = np.log(
                np.einsum("pk,sk,kl->pls", paths, given_s, same)
                / ((paths * total) @ same)[..., None]
            )
            leakage = after if slack is not None else after - before[:, None, :]
            hide = (np.abs(np.where(np.isnan(leakage), 0.0, leakage)) > epsilon).any(axis=-1)
            of_s = paths @ given_s.T
            of_all = (paths @ total)[:, None]
            q = (paths * hide) @ total[:, None] / of_all
            p = np.where(of_s > 0, (paths * hide) @ given_s.T / of_s, q)
        width = np.ptp(values)
        each = epsilon if slack is None else slack
        for side, weight in (("forward", of_s), ("reverse", of_all)):
            terms[side] += (weight * hockey_stick.selective(each, width, scale, p, q, side)).sum(
                axis=0
            )
        shown = [paths * ~hide * (values == value) for value in np.unique(values)]
        noised = [paths * hide * chance for chance in cells(values, scale)]
        last = np.repeat([False, True], [len(shown) * len(paths), len(noised) * len(paths)])
        paths = np.concatenate(shown + noised)
        alive = paths.any(axis=1)
        paths = paths[alive]
        last = last[alive]
    return given_s @ paths.T, last, terms


def cells(values, scale):
    """What a hidden value shows: nothing, or its noised value rounded to λ/5."""
    if scale == np.inf:
        return np.ones((1, len(values)))
    edges = np.arange(values.min() - 6 * scale, values.max() + 6 * scale, scale / 5)[:, None]
    below = np.concatenate(
        [np.zeros((1, len(values))), ndtr((edges - values) / scale), np.ones((1, len(values)))]
    )
    return np.diff(below, axis=0)


def divergences(laws, prior, epsilon):
    mixed = prior @ laws
    gamma = np.exp(epsilon)
    return {
        "forward": np.maximum(laws - gamma * mixed, 0).sum(axis=1),
        "reverse": np.maximum(mixed - gamma * laws, 0).sum(axis=1),
    }


@st.composite
def pair_worlds(draw):
    """Random laws of two features with three and two values."""
    weights = draw(hnp.arrays(float, (2, 6), elements=st.floats(0.02, 1)))
    atoms = [[a, b] for a in (0.0, 0.5, 1.0) for b in (0.0, 1.0)]
    return EnumerableWorld(atoms, weights / weights.sum())


class TestDisclosed:
    @every_world
    @pytest.mark.parametrize("epsilon", [0.05, 0.2, 0.6])
    def test_follows_pasts_as_exact_releases_do(self, world, epsilon):
        laws, _, _ = follow(world, np.inf, epsilon)
        policy = world.release(lambda step: (np.abs(step.gain) > epsilon).any(axis=-1))
        truth = divergences(laws, world.prior, epsilon)
        np.testing.assert_allclose(truth["forward"], policy.forward(epsilon), atol=1e-12)
        np.testing.assert_allclose(truth["reverse"], policy.reverse(epsilon), atol=1e-12)

    @pytest.mark.parametrize(("world", "scale"), NOISED + REDACTED)
    def test_an_exact_density_and_its_membership_term_bound_the_whole(self, world, scale):
        m = world.atoms.shape[1]
        for epsilon in (0.05, 0.2, 0.6):
            laws, _, terms = follow(world, scale, epsilon)
            for side, truth in divergences(laws, world.prior, m * epsilon).items():
                assert (truth <= terms[side] + EXACT).all()

    @settings(max_examples=40)
    @given(pair_worlds(), st.sampled_from([0.7, 3.0, np.inf]), st.floats(0.02, 0.5))
    def test_membership_term_and_density_bound_random_laws(self, world, scale, epsilon):
        laws, _, terms = follow(world, scale, epsilon)
        for side, truth in divergences(laws, world.prior, 2 * epsilon).items():
            assert (truth <= terms[side] + EXACT).all()

    @settings(max_examples=40)
    @given(
        pair_worlds(),
        st.sampled_from([0.7, np.inf]),
        st.floats(0.02, 0.5),
        st.sampled_from([0.0, 0.1]),
    )
    def test_a_running_total_of_densities_bounds_the_whole(self, world, scale, total, slack):
        laws, hidden_last, terms = follow(world, scale, total, slack=slack)
        for side, truth in divergences(laws, world.prior, total + 2 * slack).items():
            assert (truth <= terms[side] + EXACT).all()
        leakage = np.log(laws / (world.prior @ laws))
        assert (np.abs(leakage[:, ~hidden_last]) <= total + 1e-9).all()

    def test_the_term_is_tight_where_the_place_tells(self):
        world = rare_value(0.1)
        laws, _, terms = follow(world, np.inf, 0.1)
        truth = divergences(laws, world.prior, 0.1)["forward"]
        assert truth.max() == pytest.approx(terms["forward"].max())
        assert truth.max() == pytest.approx(0.0447, abs=5e-5)

    def test_sequential_policy_without_exact_density_promises_nothing(self):
        term = membership(np.eye(2, dtype=bool), [0, 1], ratios=[0, 0], epsilon=0.2, classes=2)
        certificate = certify_sequential(0.2, [0.5, 0.5], features=2, membership=term)
        assert certificate.whole == full_disclosure(0.4, [0.5, 0.5])
        assert (certificate.hidden_part, certificate.added, certificate.membership) == (
            None,
            None,
            term,
        )
        assert "vacuous" in " ".join(certificate.statements)
        assert "estimate, not a bound" in " ".join(certificate.statements)
        running = certify_sequential(0.3, [0.5, 0.5], features=2, membership=term, running=True)
        assert running.whole.forward.epsilon == pytest.approx(0.3 + 2 * 0.2)


class TestPaper:
    @pytest.mark.parametrize(
        ("world", "epsilon", "scale", "claim", "truth"),
        [
            (redundant_bit(2), 0.2, float(calibration.scale_for(0.2, 0.01, 1.0)), 0.02, 0.254),
            (rare_value(0.1), 0.1, 10.0, 0.00875, 0.0447),
            (two_points(0.1), 0.0, 1.0, 0.383, 0.614),
        ],
        ids=["raw past", "place of the noise", "radius"],
    )
    def test_the_papers_claim_fails_and_no_guarantee_is_given(
        self, world, epsilon, scale, claim, truth
    ):
        radii = np.abs(world.atoms).max(axis=0)
        certificate = certify_paper(epsilon, world.prior, radii=radii, scale=scale)
        exact = largest(world.release(world.leaking(epsilon), scale), certificate.claim.epsilon)
        assert certificate.claim.delta == pytest.approx(claim, abs=5e-4)
        assert exact["forward"] == pytest.approx(truth, abs=5e-4)
        assert exact["forward"] > certificate.claim.delta
        assert certificate.whole.vacuous
        assert_bounded(exact, certificate.whole)
        assert (certificate.hidden_part, certificate.added) == (None, None)
        assert "The paper's claim" in certificate.statements[0]
        assert "vacuous" in " ".join(certificate.statements)

    def test_the_quoted_claim_is_the_papers(self):
        """θ_{e^.5}(1, 1) = 0.2384 for one feature; columns in [0, 1] have the radius √columns."""
        assert certify_paper(0.5, [0.5, 0.5], radii=[1.0], scale=1.0).claim.delta == pytest.approx(
            0.238421708
        )
        wide = certify_paper(0.5, [0.5, 0.5], radii=[np.sqrt(3), 1.0], scale=10.0).claim
        assert wide.delta == pytest.approx(
            2 * float(hockey_stick.gaussian(np.exp(0.5), np.sqrt(3), 10.0))
        )
        assert wide.epsilon == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: certify_fixed(-1, [0.5, 0.5], ratios=[1], hidden=[True]), "epsilon must lie in"),
        (lambda: certify_fixed(1, [0.5, 0.6], ratios=[1], hidden=[True]), "must sum to 1"),
        (lambda: certify_fixed(1, [1.0], ratios=[1], hidden=[True]), "at least 2 classes"),
        (
            lambda: certify_fixed(1, [1.0, 0.0], ratios=[1], hidden=[True]),
            "classes that do not occur",
        ),
        (lambda: certify_fixed(1, [0.5, 0.5], ratios=[1], hidden=[1]), "hidden must be booleans"),
        (
            lambda: certify_fixed(1, [0.5, 0.5], ratios=[np.inf], hidden=[True]),
            "can only be redacted",
        ),
        (
            lambda: certify_fixed(1, [0.5, 0.5], ratios=[1], hidden=[False], responses=[(0.5, 2)]),
            "no feature is hidden",
        ),
        (lambda: certify_paper(1, [0.5, 0.5], radii=[], scale=1.0), "one number per feature"),
    ],
)
def test_refuses_bad_input(call, message):
    with pytest.raises(LowtideError, match=message):
        call()


def test_a_membership_term_belongs_to_its_release():
    term = membership([[True], [False]], [0, 1], ratios=[0], epsilon=0.1, classes=2)
    with pytest.raises(LowtideError, match="is about 1 features"):
        certify_sequential(0.1, [0.5, 0.5], features=2, membership=term)
    with pytest.raises(LowtideError, match=r"compute it at 0\.2"):
        certify_sequential(0.2, [0.5, 0.5], features=1, membership=term)


def test_redaction_is_said_in_plain_words_and_noise_is_not_called_redaction():
    plain = "by themselves the hidden features tell nothing"
    hidden = np.array([True, False])
    redacted = certify_fixed(0.1, [0.5, 0.5], ratios=[0.0, 0.0], hidden=hidden)
    noised = certify_fixed(0.1, [0.5, 0.5], ratios=[0.5, 0.0], hidden=hidden)
    answered = certify_fixed(
        0.1, [0.5, 0.5], ratios=[0.0, 0.0], hidden=hidden, responses=[(0.3, 4)]
    )
    assert plain in " ".join(redacted.statements)
    assert plain not in " ".join(noised.statements)
    assert plain not in " ".join(answered.statements)
