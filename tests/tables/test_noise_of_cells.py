"""What several releases of the same table give away together: no more than one of them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lowtide.disclose.noise import KeyedNoise
from lowtide.tables.encoder import TableEncoder, read_table
from lowtide.tables.layout import ranges, read_bounds, rounded_range
from lowtide.tables.mechanism import TableMechanism

N = 4000
IDS = np.arange(N)
NOISE = KeyedNoise(bytes(range(32)))


def numbers(lam, names=("age",), **options):
    """A mechanism for numbers in [0, 1]."""
    encoder = TableEncoder(names, (None,) * len(names))
    return TableMechanism.build(
        encoder,
        encoder.features(),
        np.zeros((1, len(names))),
        **{"kind": "gaussian", "bounds": (0.0, 1.0), "clip": False, "lam": lam, **options},
    )


def noise_of(lam, values, names=("age",), column=0, key=NOISE, **options):
    rows = np.column_stack([values] * len(names)).astype(np.float32)
    mechanism = numbers(lam, names, **options)
    shown = mechanism.hide(rows, np.ones(len(names), dtype=bool), noise=key, ids=IDS)
    return (shown - rows)[:, column].astype(np.float64)


HALF = np.full(N, 0.5)


def correlation(a, b):
    return float(np.corrcoef(a, b)[0, 1])


class TestNumbers:
    def test_a_changed_value_gets_fresh_noise_and_the_same_value_the_same(self):
        first, again, changed = (noise_of(1.0, values) for values in (HALF, HALF, HALF + 0.25))
        np.testing.assert_array_equal(first, again)
        assert abs(correlation(first, changed)) < 0.06
        assert changed.std() == pytest.approx(1.0, abs=0.05)

    def test_another_plan_is_no_second_look(self):
        """Other columns beside it, in another order, and no clipping: the same noise."""
        first = noise_of(1.0, HALF)
        other = noise_of(1.0, HALF, names=("pay", "age", "rent"), column=1)
        np.testing.assert_array_equal(first, other)
        assert abs(correlation(first, noise_of(1.0, HALF, names=("pay",)))) < 0.06, (
            "another column has noise of its own"
        )
        assert abs(correlation(first, noise_of(1.0, HALF, key=KeyedNoise(bytes(32))))) < 0.06

    @pytest.mark.parametrize("more", [1.001, 1.3, 2.0, 7.0])
    def test_more_noise_is_less_noise_plus_noise(self, more):
        """So the best guess from both releases is the one from the less noised."""
        less = noise_of(1.0, HALF)
        noisy = noise_of(more, HALF)
        assert less.std() == pytest.approx(1.0, abs=0.05)
        assert noisy.std() == pytest.approx(more, rel=0.05)
        if more > 1.01:
            assert abs(correlation(less, noisy - less)) < 0.06

    def test_eight_plans_average_nothing_away_and_cannot_be_solved(self):
        scales = np.linspace(1.0, 3.0, 8)
        looks = np.array([noise_of(lam, HALF) for lam in scales])
        for power in (0.0, 1.0, 2.0):
            weights = scales**-power / (scales**-power).sum()
            assert (weights @ looks).std() > 0.97 * looks[0].std()
        best = np.linalg.solve(np.cov(looks), np.ones(8))
        assert (best / best.sum() @ looks).std() > 0.97, "the best linear combination of all eight"

    @pytest.mark.parametrize("lam", [1e-6, 0.03, 1.0, 50.0])
    def test_the_noise_is_normal_at_any_scale(self, lam):
        drawn = NOISE.cells("age", IDS.astype(np.uint64), HALF).gaussian(lam)
        assert stats.kstest(drawn / lam, "norm").pvalue > 1e-3


class TestAnswers:
    KNOWN = IDS.astype(np.uint64), np.zeros(N)

    def test_answers_follow_their_law(self):
        for keep in (0.0, 0.2, 0.8):
            drawn = NOISE.cells("job", *self.KNOWN).answers(keep, 4)
            assert (drawn == -1).mean() == pytest.approx(keep, abs=0.03)
            shares = np.bincount(drawn[drawn >= 0], minlength=4) / N
            np.testing.assert_allclose(shares, (1 - keep) / 4, atol=0.03)

    def test_an_answer_that_keeps_less_tells_nothing_beyond_one_that_keeps_more(self):
        """Given the better answer, the other does not depend on whether that one was the truth."""
        cells = NOISE.cells("job", *self.KNOWN)
        truth = 0
        better = cells.answers(0.6, 4)
        other = cells.answers(0.3, 4)
        shown = np.where(better < 0, truth, better)
        worse = np.where(other < 0, truth, other)
        for told in (
            better < 0,
            (better == truth),
        ):  # the truth told, and the same category drawn by chance
            same = (worse == shown)[told & (shown == truth)].mean()
            assert same == pytest.approx(0.5 + 0.5 / 4, abs=0.07)

    def test_a_changed_category_is_answered_afresh(self):
        cells = [
            NOISE.cells("job", IDS.astype(np.uint64), np.full(N, value, dtype=np.uint64))
            for value in (1, 1, 2)
        ]
        first, again, changed = (cell.answers(0.1, 10) for cell in cells)
        np.testing.assert_array_equal(first, again)
        assert (first == changed).mean() < 0.2

    def test_the_table_s_answers_do_not_depend_on_the_plan(self):
        job = np.array(["cook", "smith", "nurse"])[IDS % 3]
        found = []
        for extra in ({}, {"site": job[::-1]}):
            rows, encoder = read_table(pd.DataFrame({**extra, "job": job}))
            promise = {"categorical": "response", "epsilon": 2.0, "delta": 0.1}
            made = TableMechanism.build(encoder, encoder.features(), rows, kind="redact", **promise)
            made = replace(made, keeps=np.full(len(encoder.names), 0.4))
            shown = made.hide(rows, np.ones(len(encoder.names), dtype=bool), noise=NOISE, ids=IDS)[
                :, -3:
            ]
            assert (shown == rows[:, -3:]).all(axis=1).mean() == pytest.approx(
                0.4 + 0.6 / 3, abs=0.03
            )
            found.append(shown)
        np.testing.assert_array_equal(*found)


class TestRanges:
    @pytest.mark.parametrize(
        ("data", "shown"),
        [
            ((18, 91), (10, 100)),
            ((0.31, 0.77), (0.3, 0.8)),
            ((-7, 1204), (-200, 1400)),
            ((3, 3), (3, 3)),
        ],
    )
    def test_learnt_ranges_are_rounded_outwards(self, data, shown):
        low, high = rounded_range([data[0]], [data[1]])
        assert (low[0], high[0]) == pytest.approx(shown)
        assert low[0] <= data[0]
        assert high[0] >= data[1]

    def test_a_clipped_release_does_not_show_the_smallest_and_largest_value(self):
        rng = np.random.default_rng(0)
        rows = rng.uniform(18.3, 91.7, (N, 1)).astype(np.float32)
        encoder = TableEncoder(("age",), (None,))
        mechanism = TableMechanism.build(
            encoder, encoder.features(), rows, kind="gaussian", lam=0.5
        )
        shown = mechanism.hide(rows, np.array([True]), noise=NOISE, ids=IDS)
        assert (shown.min(), shown.max()) == (10.0, 100.0)

    def test_bounds_of_days_are_read(self):
        found = read_bounds(["born=1970-01-02:1971-01-01", "a=b=-1:2.5"])
        assert found == {"born": (1.0, 365.0), "a=b": (-1.0, 2.5)}
        low, high = ranges(TableEncoder(("a",), (None,)), np.array([[5.0], [8.0]]), {"a": (0, 10)})
        assert (low[0], high[0]) == (0, 10)
