"""Names tell what they should not; new names tell nothing."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import norm

from lowtide.errors import LowtideError
from lowtide.images.dataset import open_images
from lowtide.images.names import (
    _neighbours,
    mapping_text,
    names_tell,
    pair,
    read_mapping,
    shuffled_names,
)

N = 400
RNG = np.random.default_rng(11)
CODES = RNG.integers(0, 2, N)
NUMBERS = [f"{number}.jpg" for number in range(N)]


def test_the_order_of_genki():
    check = names_tell([f"files/file{number:04}.jpg" for number in range(N)], np.arange(N) < 216)
    assert check.tells
    assert check.auc == 1.0
    assert "their order" in check.how
    assert "--rename" in str(check)


@pytest.mark.parametrize(
    ("names", "codes", "how"),
    [
        (NUMBERS, np.sort(CODES), "their order"),
        (NUMBERS, np.sort(RNG.integers(0, 5, N)), "their order"),
        (NUMBERS, np.arange(N) // 10 % 2, "their neighbours"),
        (NUMBERS, np.arange(N) % 2, "their neighbours"),
        ([f"{code}/{row}.png" for row, code in enumerate(CODES)], CODES, "their order"),
        (
            [f"x{row}_{'ab'[code]}.png" for row, code in enumerate(CODES)],
            CODES,
            "the words in them",
        ),
        (
            [
                f"{chr(97 + row % 26) * (1 + row // 26)}_{'ab'[c]}b.png"
                for row, c in enumerate(CODES)
            ],
            CODES,
            "the words",
        ),
        (
            [f"x{row}.{'png' if code else 'jpg'}" for row, code in enumerate(CODES)],
            CODES,
            "the words in them",
        ),
        (
            [f"{row}_{code}_{row % 7}.jpg" for row, code in enumerate(CODES)],
            CODES,
            "number 2 in them",
        ),
        (
            [f"{row}_{(code * 5 + 2) % 3}.jpg" for row, code in enumerate(np.arange(N) % 3)],
            np.arange(N) % 3,
            "number 2",
        ),
        (
            [f"x{row}.png" for row in range(N)],
            np.where(np.arange(N) < 200, "yes", "no"),
            "their order",
        ),
    ],
)
def test_names_that_reveal_the_secret_are_found(names, codes, how):
    check = names_tell(names, codes)
    assert check.tells
    assert how in " ".join(check.how)
    order = np.random.default_rng(0).permutation(
        N
    )  # the same names with other people's secrets tell nothing
    assert not names_tell(names, np.asarray(codes)[order]).tells


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 300), st.integers(2, 6))
def test_independent_names_are_rarely_flagged(seed, n, classes):
    rng = np.random.default_rng([seed, 1])
    names = [f"{rng.choice(['a', 'b', 'c'])}/{rng.integers(9)}_{row}.png" for row in range(n)]
    assert not names_tell(names, rng.integers(0, classes, n)).tells


def test_the_runs_test_is_exact():
    """Mean and variance of the number of runs, against all orders of six images."""
    codes = np.array([0, 0, 0, 1, 1, 2])
    runs = np.array([1 + np.count_nonzero(np.diff(order)) for order in permutations(codes)])
    z = abs(3 - runs.mean()) / runs.std()  # three runs: the classes in order
    assert _neighbours(codes) == pytest.approx(2 * norm.sf(z))


def test_names_are_not_flagged_for_a_constant_secret():
    assert not names_tell(NUMBERS, np.zeros(N)).tells
    with pytest.raises(LowtideError, match="400 names for 3 values"):
        names_tell(NUMBERS, [0, 1, 1])


@pytest.fixture
def folder(tmp_path):
    for number in range(60):
        path = (
            tmp_path
            / "set"
            / ("no" if number < 30 else "yes")
            / f"{number}.{'png' if number % 2 else 'jpg'}"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), number).save(path)
    return open_images(tmp_path / "set")


def test_new_names_reveal_nothing(folder):
    secret = folder.column("label")
    assert names_tell(folder.names, secret).tells
    names = shuffled_names(folder)
    assert len(set(names)) == 60
    assert all(
        name.endswith(".png") and name[:6].isdigit() for name in names
    )  # formats were mixed, and may tell
    assert not names_tell(names, secret).tells


def test_the_order_can_be_repeated_only_with_the_seed(folder):
    assert shuffled_names(folder, seed=1) == shuffled_names(folder, seed=1)
    assert shuffled_names(folder, seed=1) != shuffled_names(folder, seed=2)
    assert shuffled_names(folder) != shuffled_names(folder)


def test_new_names_are_paired_with_the_old(folder, tmp_path):
    path = tmp_path / "private.csv"
    new = [f'a "{number}", b.png' for number in range(60)]
    path.write_text(mapping_text(new, folder.names))
    assert read_mapping(path) == dict(zip(new, folder.names, strict=True))
    some = folder.take(np.array([9, 3, 40]))
    rows, places = pair(some, folder)
    assert (rows.tolist(), places.tolist()) == ([0, 1, 2], [9, 3, 40])
    with pytest.raises(LowtideError, match=r"no image of .* has the name of one"):
        pair(some, folder, mapping=path)
    path.write_text("text")
    with pytest.raises(LowtideError, match="not a mapping of names"):
        read_mapping(path)
