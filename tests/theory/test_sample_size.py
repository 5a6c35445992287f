"""The paper's sample size."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.theory import sample_size


def test_the_sample_size_is_the_papers_formula():
    m = 3.0
    d = 100
    size = 2.0 * 5.0
    eta = 0.1
    delta = 0.01
    bound = (
        32 * m**2 * (d * math.log(16 * size * math.sqrt(d) / eta) + math.log(2 / delta)) / eta**2
    )
    n = sample_size.tide(eta, parameters=d, trim=m, lipschitz=2.0, radius=5.0, delta=delta)
    assert n - 1 <= bound < n


@given(st.floats(0.01, 1), st.integers(1, 10_000), st.floats(0.5, 10))
def test_the_sample_size_grows_with_precision(error, parameters, trim):
    n = sample_size.tide(error, parameters=parameters, trim=trim)
    assert n <= sample_size.tide(error / 2, parameters=parameters, trim=trim)
    assert n <= sample_size.tide(error, parameters=parameters + 1, trim=trim)
    assert n <= sample_size.tide(error, parameters=parameters, trim=2 * trim)
    assert n <= sample_size.tide(error, parameters=parameters, trim=trim, delta=0.01)


@given(st.integers(1, 10**7), st.integers(1, 2000), st.floats(0.5, 10))
def test_the_error_for_so_many_samples_is_the_least_that_the_formula_allows(rows, parameters, trim):
    error = sample_size.tide_error(rows, parameters=parameters, trim=trim)
    assert sample_size.tide(error, parameters=parameters, trim=trim) <= rows
    assert sample_size.tide(error * (1 - 1e-6), parameters=parameters, trim=trim) > rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"error": 0.0, "parameters": 1}, "error"),
        ({"error": 0.1, "parameters": 0}, "parameters must be at least 1, got 0"),
        ({"error": 0.1, "parameters": 1.5}, "whole number"),
        ({"error": 0.1, "parameters": 1, "delta": 1.0}, "delta"),
        ({"error": 1e-200, "parameters": 1}, "choose a larger error"),
    ],
)
def test_refuses_bad_input(arguments, message):
    with pytest.raises(LowtideError, match=message):
        sample_size.tide(**arguments)
