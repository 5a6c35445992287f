"""Which rows fresh attackers learn from, and when there are too few."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.attack.panel import attack
from lowtide.errors import LowtideError
from lowtide.splits import sample_with_classes
from lowtide.tables.problem import refuse_few

RNG = np.random.default_rng(0)
S = np.arange(600) % 2


def attacked(x, s=S):
    return attack(x, s, attackers=["logistic regression"], progress=False)


class TestRows:
    def test_every_class_is_among_those_attacked(self):
        codes = np.concatenate([np.zeros(25_000, np.intp), np.full(6, 1), np.full(5, 2)])
        some = sample_with_classes(codes, 20_000, 5, np.random.default_rng(1))
        assert len(some) == len(np.unique(some)) == 20_000
        assert np.bincount(codes[some])[1:].min() >= 5
        assert attack(
            RNG.normal(size=(20_000, 1)), codes[some], attackers=["neighbours"], progress=False
        ).retrained

    @given(st.lists(st.integers(0, 3), min_size=1, max_size=50), st.integers(0, 99))
    def test_few_rows_are_all_taken(self, codes, seed):
        some = sample_with_classes(np.array(codes), 20_000, 5, np.random.default_rng(seed))
        assert sorted(some) == list(range(len(codes)))

    @pytest.mark.parametrize(("ones", "zeros"), [(5, 15), (4, 15), (4, 16), (9, 10), (10, 10)])
    def test_the_fewest_rows_an_attack_needs_are_accepted(self, ones, zeros):
        codes = np.repeat([0, 1], [zeros, ones])
        rows = RNG.normal(size=(len(codes), 2)).astype(np.float32)

        def refused(action):
            try:
                action()
            except LowtideError:
                return True
            return False

        assert refused(lambda: refuse_few(rows, codes)) == refused(lambda: attacked(rows, codes))

    @settings(max_examples=20)
    @given(st.integers(1, 19))
    def test_too_few_are_named_by_their_number(self, n):
        rows = np.zeros((n, 2), dtype=np.float32)
        with pytest.raises(LowtideError, match=rf"{n} sample\(s\) and 2 feature\(s\)"):
            refuse_few(rows, np.arange(n) % 2)
