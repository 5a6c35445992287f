"""Promises where the class shares of the law are not known, and where features are shown whatever
they tell.
"""

import numpy as np
import pytest

from lowtide import TIDE, Obfuscator
from lowtide.disclose.certificate import (
    certify_fixed,
    certify_paper,
    certify_sequential,
    full_disclosure,
    safe_prior,
)
from lowtide.errors import LowtideError
from lowtide.tables.modality import TABLES
from lowtide.worlds import EnumerableWorld, two_points

HIDDEN = np.array([True])


class TestShares:
    @pytest.mark.parametrize("rarest", [0.1, 0.4])
    def test_the_card_lies_above_the_law_that_attains_the_bound_in_95_percent_of_samples(
        self, rarest
    ):
        world = two_points(rarest)
        rows = 200
        epsilon = 0.1
        scale = 1.0
        exact = world.release(HIDDEN, scale)
        truth = {
            side: float(getattr(exact, side)(epsilon).max()) for side in ("forward", "reverse")
        }
        hits, times = np.unique(
            np.random.default_rng(0).binomial(rows, rarest, 2000), return_counts=True
        )
        above = {"known": 0.0, "counted": 0.0}
        for k, share in zip(hits, times / times.sum(), strict=True):
            for name, n in (("known", None), ("counted", rows)):
                shares = [1 - k / rows, k / rows]
                whole = certify_fixed(
                    epsilon, shares, ratios=[2 / scale], hidden=HIDDEN, rows=n
                ).whole
                above[name] += share * all(
                    getattr(whole, side).delta >= truth[side] for side in truth
                )
        assert above["known"] < 0.65, (
            "the sample's shares taken for the law's hold in half of the samples"
        )
        assert above["counted"] >= 0.95

    def test_the_limit_is_below_every_share_and_tends_to_it(self):
        for rows in (20, 200, 20_000):
            rarest, rest = safe_prior([0.2, 0.3, 0.5], rows)
            assert 0 < rarest < 0.2
            assert rest == 1 - rarest
        assert rarest == pytest.approx(0.2, abs=0.01)
        assert safe_prior([0.2, 0.3, 0.5], None)[0] == 0.2

    def test_what_every_release_satisfies_is_stated_for_the_same_share(self):
        known = full_disclosure(0.1, [0.3, 0.7])
        counted = full_disclosure(0.1, [0.3, 0.7], 100)
        assert counted.forward.delta > known.forward.delta
        assert counted.reverse.delta == 1 - safe_prior([0.3, 0.7], 100)[0]

    def test_certificates_say_which_share_they_depend_on(self):
        prior = [0.25, 0.75]
        rows = 400
        limit = float(safe_prior(prior, rows)[0])
        for certificate in (
            certify_fixed(0.1, prior, ratios=[1.0, 0.0], hidden=[True, True], rows=rows),
            certify_fixed(0.1, prior, ratios=[1.0, 0.0], hidden=[True, False], rows=rows),
            certify_fixed(0.1, prior, ratios=[1.0, 0.0], hidden=[False, False], rows=rows),
            certify_sequential(0.1, prior, features=2, rows=rows),
            certify_paper(0.1, prior, radii=[1.0], scale=1.0, rows=rows),
        ):
            said = " ".join(certificate.statements)
            assert "is 0.25 in 400 reference rows" in said
            assert f"take it to be {limit:.4g}" in said
            assert certificate.rarest_share == limit

    def test_refuses_a_count_that_is_none(self):
        with pytest.raises(LowtideError, match="rows"):
            safe_prior([0.5, 0.5], 0)


def test_a_calibrated_release_keeps_delta_for_the_limit_of_the_shares_too():
    """Noise set for the sample's shares would promise less than asked once their uncertainty
    counts.
    """
    rng = np.random.default_rng(0)
    s = (rng.random(300) < 0.2).astype(int)
    x = rng.random((300, 2))
    asked = Obfuscator(mechanism="gaussian", epsilon=0.5, delta=0.1, budget=1.0)
    mechanism = TABLES.planner(x, s, asked._task(TABLES)).problem.mechanism
    prior = [1 - s.mean(), s.mean()]
    assert mechanism.bound(0.5, [True, True], prior=safe_prior(prior, 300)) <= 0.1 * (1 + 1e-6)
    assert mechanism.bound(0.5, [True, True], prior=prior) < 0.099


class TestKeptFeatures:
    def test_a_running_total_limits_nothing_when_the_last_feature_is_kept(self):
        """The first feature tells nothing; the kept one takes a rare value that names the class."""
        rare = 0.03
        atoms = [[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0)]
        world = EnumerableWorld(
            atoms, [[0.25, 0, 0.25, 0], [(1 - rare) / 4, rare / 4, (1 - rare) / 4, rare / 4]]
        )
        total = 0.3176
        law = world.release(
            lambda step: (np.abs(step.gain) > total).any(axis=-1) & (step.feature != 1)
        )
        # With the rare value i(0; y) is −∞, for 1.5 % of rows.
        assert law.reverse(50.0).max() == pytest.approx(rare / 2)

    def test_no_limit_is_stated_where_features_are_kept(self):
        free = certify_sequential(0.3176, [0.5, 0.5], features=2, running=True)
        kept = certify_sequential(0.3176, [0.5, 0.5], features=2, running=True, kept=True)
        assert "at most 0.3176 nats" in " ".join(free.statements)
        assert "0.3176 nats" not in " ".join(kept.statements)
        assert "shown in every row" in " ".join(kept.statements)

    def test_the_planner_tells_its_certificate_what_is_kept(self):
        rng = np.random.default_rng(1)
        s = np.arange(200) % 2
        x = np.column_stack([rng.random(200), (rng.random(200) < 0.03) * s])
        tide = TIDE(max_steps=5, folds=2, progress=False)
        made = Obfuscator(tide, policy="sequential", budget=0.05, keep=["x2"], progress=False).fit(
            x, s
        )
        said = " ".join(made.card_.certificate.statements)
        assert "shown in every row" in said
        assert "Were the density exact" not in said
