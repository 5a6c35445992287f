"""A first look: which features tell the secret, with intervals, for any kind of table."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lowtide.errors import LowtideError
from lowtide.estimate.tide import TIDE
from lowtide.tables.scan import TableScan, scan

NAMES = ("first", "copy", "noise", "weak")


def make_rows(n=600, seed=0):
    """Two noisy copies of the secret, noise, and a feature that tells a little."""
    rng = np.random.default_rng([seed, 90])
    s = rng.integers(0, 2, n)
    first = s + rng.normal(size=n)
    x = np.stack(
        [
            first,
            first + 0.01 * rng.normal(size=n),
            rng.normal(size=n),
            0.6 * s + rng.normal(size=n),
        ],
        axis=1,
    )
    return x, np.array(["ZEBRA", "OKAPI"])[s]


def quick():
    return TIDE(max_steps=160, progress=False)


@pytest.fixture(scope="module")
def found():
    x, s = make_rows()
    return scan(pd.DataFrame(x, columns=NAMES), s, estimator=quick())


def test_columns_are_ranked_by_their_leakage(found):
    names = [leak.name for leak in found.ranked()]
    assert set(names[:2]) == {"first", "copy"}
    shares = [leak.order_free.value for leak in found.ranked()]
    assert shares == sorted(shares, reverse=True)
    assert [leak.name for leak in found.features] == list(NAMES)


def test_shares_in_any_order_and_in_order_add_up_to_the_whole(found):
    for kind in ("order_free", "in_order"):
        total = sum(getattr(leak, kind).value for leak in found.features)
        assert total == pytest.approx(found.information.value, abs=0.02)


def test_a_copy_adds_nothing_in_order_but_leaks_alone(found):
    first, copy, noise, _ = found.features
    assert copy.alone.low > 0.01
    assert copy.in_order.value < 0.5 * first.in_order.value
    assert abs(noise.alone.value) < 0.02


def test_every_number_has_an_interval(found):
    for estimate in (
        found.information,
        *(e for f in found.features for e in (f.order_free, f.in_order, f.alone)),
    ):
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.n == 180  # three tenths of the rows are held out
    # X1 = S + N(0, 1) with a fair bit tells 0.1155 nat by quadrature.
    assert found.information.low < 0.17
    assert found.information.high > 0.1
    assert (found.rows, found.classes) == (600, 2)
    assert found.entropy == pytest.approx(np.log(2), abs=0.01)
    assert 0.5 <= found.largest_class < 0.56


def test_the_repr_of_a_scan_shows_no_data(found):
    assert isinstance(found, TableScan)
    assert "ZEBRA" in found.density.classes.labels
    for text in (repr(found), str(found)):
        assert "ZEBRA" not in text
        assert "OKAPI" not in text
        assert "density" not in text


def test_arrays_and_frames_of_any_library_are_scanned_alike(found):
    x, s = make_rows()
    tables = [pl.DataFrame(x, schema=list(NAMES)), pa.table(list(x.T), names=list(NAMES)), x]
    for table in tables:
        other = scan(table, s, estimator=quick())
        assert other.information.value == pytest.approx(found.information.value, abs=1e-6)
        assert [leak.order_free.value for leak in other.features] == pytest.approx(
            [leak.order_free.value for leak in found.features], abs=1e-6
        )


def test_level_widens_the_intervals(found):
    x, s = make_rows()
    wide = scan(x, s, estimator=quick(), level=0.999).information
    assert wide.value == pytest.approx(found.information.value, abs=1e-6)
    assert wide.high - wide.low > 1.5 * (found.information.high - found.information.low)


def test_bad_tables_are_refused_by_scan():
    x, s = make_rows(n=100)
    with pytest.raises(LowtideError, match="at least two classes"):
        scan(x, np.zeros(100, dtype=int), estimator=quick())
    with pytest.raises(LowtideError, match="100 classes in 100 rows"):
        scan(x, np.random.default_rng(5).normal(size=100), estimator=quick())
    for table in (x, pd.DataFrame(x), x.tolist()):
        with pytest.raises(LowtideError, match=r"there are 100 rows and s has shape \(50,\)"):
            scan(table, s[:50], estimator=quick())


def test_where_nothing_is_found_a_scan_says_how_much_could_have_gone_unseen():
    rng = np.random.default_rng(5)
    found = scan(
        rng.normal(size=(200, 2)),
        rng.integers(0, 2, 200),
        estimator=TIDE(max_steps=40, progress=False),
    )
    assert not found.information.found
    assert found.information.high > 0.01
    assert f"none found; at most {found.information.high:.4f}" in str(found.information)
    assert "0.0000 [0.0000" not in str(found)
