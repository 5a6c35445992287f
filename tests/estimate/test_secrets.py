"""Reading the secret."""

import numpy as np
import pytest

from lowtide.errors import LowtideError
from lowtide.labels import is_vector, read_classes


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "a", "b", "a"], ("a", "b")),
        ([True, False, True, False], (False, True)),
        (np.array([3, 1, 3, 1], dtype=np.int8), (1, 3)),
        (np.array([[3.0], [1.0], [3.0], [1.0]]), (1.0, 3.0)),
    ],
)
def test_classes_are_sorted_plain_values(labels, expected):
    classes, codes = read_classes(labels)
    assert classes.labels == expected
    np.testing.assert_array_equal(np.array(classes.labels)[codes], np.ravel(labels))
    assert classes.prior.sum() == pytest.approx(1.0)


def test_secrets_that_count_as_vectors():
    assert is_vector(np.zeros((4, 2)))
    assert is_vector([0.5, 1.5, 2.0])
    assert not is_vector([0.0, 1.0, 1.0])
    assert not is_vector(["x", "y"])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 4, "s has 1 class"),
        (["a", "a", "b"], "1 of the 2 classes of s have a single row"),
        (["a", None, "b"], "missing values"),
        ([1.0, np.nan, 2.0], "missing values"),
        (list("abcdefgh"), "8 classes in 8 rows"),
        (np.zeros((3, 2)), "one label per row"),
    ],
)
def test_refuses_what_cannot_leak_or_be_held_out(labels, message):
    with pytest.raises(LowtideError, match=message):
        read_classes(labels)


def test_an_unknown_label_is_not_quoted():
    classes, _ = read_classes(["a", "b", "a", "b"])
    with pytest.raises(LowtideError, match="not there in training \\(row 1\\)") as caught:
        classes.encode(["a", "confidential"])
    assert "confidential" not in str(caught.value)
