"""Keyed noise: a function of key, row and feature, and otherwise random."""

import hashlib
import pickle
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lowtide.disclose.noise import KeyedNoise, new_key, row_ids
from lowtide.errors import LowtideError, LowtideTypeError

KEY = bytes(range(32))
numbers = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=30, unique=True)


@given(numbers, st.integers(0, 2**32 - 1), st.integers(1, 7), st.randoms(), st.integers(1, 30))
def test_a_row_keeps_its_noise_in_any_order_and_batch(ids, feature, width, random, cut):
    noise = KeyedNoise(KEY)
    ids = np.array(ids, dtype=np.uint64)
    whole = noise.normal(ids, feature, width)
    order = np.array(random.sample(range(len(ids)), len(ids)))
    again = KeyedNoise(bytes(KEY))
    parts = [again.normal(ids[part], feature, width) for part in (order[:cut], order[cut:])]
    assert np.concatenate(parts).tobytes() == whole[order].tobytes()


def test_large_requests_are_cut_into_blocks_without_a_seam():
    noise = KeyedNoise(KEY)
    ids = np.arange(3000, dtype=np.uint64)
    whole = noise.uniform(ids, 1, 801)  # 1.2 million blocks
    assert whole[2900:].tobytes() == noise.uniform(ids[2900:], 1, 801).tobytes()
    assert whole[:, :5].tobytes() == noise.uniform(ids, 1, 5).tobytes()
    assert len(np.unique(whole)) == whole.size


def test_noise_equals_the_recorded_values():
    """Block (row 1, feature 2, counter 0) under the key 00 01 … 1f, from the cipher itself."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    block = (1).to_bytes(8, "big") + (2).to_bytes(4, "big") + bytes(4)
    out = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor().update(block)  # noqa: S305
    words = [int.from_bytes(out[:8], "little"), int.from_bytes(out[8:], "little")]
    expected = [((word >> 12) + 0.5) / 2**52 for word in words]
    np.testing.assert_array_equal(
        KeyedNoise(KEY).uniform(np.array([1], dtype=np.uint64), 2, 2), [expected]
    )


def test_noise_is_normal_and_uniform():
    ids = np.arange(40_000, dtype=np.uint64)
    noise = KeyedNoise(KEY)
    for column in noise.normal(ids, 0, 3).T:
        assert stats.kstest(column, "norm").pvalue > 1e-3
    uniform = noise.uniform(ids, 1, 2)
    assert 0 < uniform.min() < uniform.max() < 1
    assert stats.kstest(uniform[:, 0], "uniform").pvalue > 1e-3


def test_other_keys_features_rows_and_places_are_independent():
    ids = np.arange(20_000, dtype=np.uint64)
    noise = KeyedNoise(KEY)
    base = noise.normal(ids, 0, 2)
    others = {
        "key": KeyedNoise(new_key()).normal(ids, 0, 1)[:, 0],
        "label": noise.derive(b"a").normal(ids, 0, 1)[:, 0],
        "feature": noise.normal(ids, 1, 1)[:, 0],
        "row": noise.normal(ids + np.uint64(1), 0, 1)[:, 0][::-1],
        "place": base[:, 1],
    }
    for name, other in others.items():
        assert abs(np.corrcoef(base[:, 0], other)[0, 1]) < 5 / np.sqrt(len(ids)), name
        assert abs(np.corrcoef(base[:, 0] ** 2, other**2)[0, 1]) < 5 / np.sqrt(len(ids)), name
    same = noise.derive(b"a").normal(ids, 0, 1)
    np.testing.assert_array_equal(same, KeyedNoise(KEY).derive(b"a").normal(ids, 0, 1))


def leaks(text, key):
    return any(shown in text for shown in (repr(key), key.hex(), repr(list(key)), str(key)))


def test_the_key_is_never_shown():
    key = new_key()
    noise = KeyedNoise(key)
    assert not leaks(f"{noise} {noise!r} {[noise]} {noise.derive(b'x')}", key)
    assert not hasattr(noise, "__dict__")
    for call in (
        lambda: KeyedNoise(key[:-1]),
        lambda: KeyedNoise(key + b"x"),
        lambda: KeyedNoise(key.hex()),
        lambda: pickle.dumps(noise),
        lambda: noise.uniform(np.zeros(1, dtype=np.uint64), -1, 1),
        lambda: noise.uniform(np.zeros(1, dtype=np.uint64), 2**32, 1),
    ):
        with pytest.raises(LowtideError) as caught:
            call()
        assert not leaks("".join(traceback.format_exception(caught.value)), key)
        assert not leaks(str(caught.value), key[:-1])


def test_a_key_is_32_bytes():
    assert len(new_key()) == 32
    assert new_key() != new_key()
    with pytest.raises(LowtideError, match="32 bytes long, got 16; make one with new_key"):
        KeyedNoise(bytes(16))
    with pytest.raises(LowtideTypeError, match="must be bytes, got str"):
        KeyedNoise("a" * 32)


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        np.array,
        pd.Series,
        pd.Index,
        pl.Series,
        pa.array,
        torch.tensor,
        lambda v: pa.chunked_array([v]),
    ],
)
def test_whole_numbers_are_taken_as_they_are(make):
    ids = row_ids(make([5, 0, -1]), 3)
    assert ids.dtype == np.uint64
    assert ids.tolist() == [5, 0, 2**64 - 1]


@pytest.mark.parametrize(
    "make",
    [
        list,
        np.array,
        pd.Series,
        pl.Series,
        pa.array,
        lambda v: np.array(v, dtype=np.dtypes.StringDType()),
    ],
)
def test_texts_are_hashed_alike(make):
    digests = [hashlib.blake2b(name, digest_size=8).digest() for name in (b"ann", "bøb".encode())]
    assert row_ids(make(["ann", "bøb"]), 2).tolist() == [
        int.from_bytes(digest, "big") for digest in digests
    ]


def test_large_and_mixed_ids():
    assert row_ids([2**64 - 1, 1], 2).tolist() == [2**64 - 1, 1]
    assert row_ids(np.array([2**64 - 1, 1], dtype=np.uint64), 2).tolist() == [2**64 - 1, 1]
    assert len(row_ids([7, "7"], 2)) == 2


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (
            None,
            (
                "rows need ids: noise is keyed by .* one different value per row, that stays with"
                " the row"
            ),
        ),
        ([1, 2], r"of shape \(3,\), got \(2,\)"),
        (np.zeros((3, 1), dtype=int), r"of shape \(3,\), got \(3, 1\)"),
        ("abc", "got a single text"),
        ([4711, 4711, 4711], "repeats itself in 2 of 3 rows"),
        (["x", "x", "y"], "repeats itself in 1 of 3 rows"),
        ([1.0, 2.0, 3.0], "whole numbers or texts, got float"),
        (np.array([1.0, np.nan, 2.0]), "got float64"),
        ([True, False, 2], "got bool"),
        (np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="M8[ns]"), "got datetime64"),
        ([1, None, 2], "missing values"),
        ([1, float("nan"), 2], "missing values"),
        (["a", pd.NA, "b"], "missing values"),
        (pd.Series([1, None, 3], dtype="Int64"), "missing values|got float"),
        (pl.Series(["a", None, "b"]), "missing values"),
        ([2**64, 1, 2], "more than 64 bits"),
    ],
)
def test_refuses_bad_ids(ids, message):
    with pytest.raises(LowtideError, match=message) as caught:
        row_ids(ids, 3)
    assert "4711" not in str(caught.value)
