"""Mechanisms hide what they are told to, follow their law, and keep their promise."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from scipy.special import ndtr

from lowtide.disclose.noise import KeyedNoise
from lowtide.errors import LowtideError
from lowtide.features import Features, one_per_column
from lowtide.tables.encoder import TableEncoder, read_table
from lowtide.tables.mechanism import TableMechanism
from lowtide.theory import calibration, hockey_stick, response
from lowtide.worlds.base import two_points

NOISE = KeyedNoise(bytes(range(32)))
FRAME = pd.DataFrame(
    {
        "age": [30, 40, 50, 20],
        "job": ["cook", "smith", "nurse", "cook"],
        "pay": [1.5, 2.5, 9.0, 3.0],
        "site": ["a", "b", "a", "b"],
    }
)
ROWS, ENCODER = read_table(FRAME)
FEATURES = ENCODER.features()
ALL = np.ones(4, dtype=bool)


def build(**options):
    return TableMechanism.build(
        ENCODER, FEATURES, ROWS, **{"kind": "gaussian", "lam": 1.0, **options}
    )


def unit_numbers(columns, **options):
    """A mechanism for numbers in [0, 1]."""
    encoder = TableEncoder((), (None,) * columns)
    rows = np.zeros((1, columns), dtype=np.float32)
    return TableMechanism.build(
        encoder,
        encoder.features(),
        rows,
        **{"kind": "gaussian", "bounds": (0.0, 1.0), "clip": False, **options},
    )


def test_redaction_fills_numbers_and_blanks_categories():
    mechanism = build(kind="redact", lam=None, fill=-1.0)
    assert not mechanism.draws
    hidden = mechanism.hide(ROWS, np.array([True, True, False, False]))
    np.testing.assert_array_equal(hidden[:, 0], -1)
    np.testing.assert_array_equal(hidden[:, 1:4], 0)
    assert hidden[:, 4:].tobytes() == ROWS[:, 4:].tobytes()
    assert ROWS[0, 0] == 30, "the rows given are left alone"
    assert (mechanism.ratios() == 0).all()
    assert mechanism.bound(0.1, ALL) == 0


def test_every_row_may_hide_other_features():
    mask = np.zeros((4, 4), dtype=bool)
    mask[0, 0] = mask[1, 1] = mask[2, 2] = mask[3, 3] = True
    mechanism = build(categorical="response", epsilon=1.0, delta=0.1, clip=False)
    hidden = mechanism.hide(ROWS, mask, noise=NOISE, ids=range(4))
    cells = FEATURES.columns(mask)
    assert hidden[~cells].tobytes() == ROWS[~cells].tobytes()
    assert hidden.dtype == np.float32
    assert hidden[0, 0] != ROWS[0, 0]
    assert hidden[2, 4] != ROWS[2, 4]
    together = mechanism.hide(ROWS, ALL, noise=NOISE, ids=range(4))
    assert hidden[cells].tobytes() == together[cells].tobytes(), (
        "a cell's noise does not depend on other cells"
    )


def test_noise_has_the_law_it_claims():
    n = 20_000
    rows = np.full((n, 2), 0.3, dtype=np.float32)
    mechanism = unit_numbers(2, lam=0.5)
    hidden = mechanism.hide(rows, np.array([True, True]), noise=NOISE, ids=np.arange(n))
    for column in hidden.T:
        assert stats.kstest(column, "norm", args=(0.3, 0.5)).pvalue > 1e-3
    assert abs(np.corrcoef(hidden.T)[0, 1]) < 5 / np.sqrt(n)
    assert stats.kstest(hidden[:, 0], "norm", args=(0.3, 0.4)).pvalue < 1e-6, (
        "and the test would notice"
    )


def test_the_scale_is_in_units_of_the_range():
    n = 20_000
    encoder = TableEncoder(("a",), (None,))
    rows = np.linspace(-5, 15, n, dtype=np.float32)[:, None]
    mechanism = TableMechanism.build(
        encoder, encoder.features(), rows, kind="gaussian", lam=0.5, clip=False
    )
    hidden = mechanism.hide(rows, np.array([True]), noise=NOISE, ids=np.arange(n))
    assert stats.kstest((hidden - rows)[:, 0], "norm", args=(0, 10)).pvalue > 1e-3
    assert mechanism.ratios() == pytest.approx([2.0])


def test_values_beyond_the_range_are_clipped_before_and_after():
    far = np.array([[1e6], [1.0], [-1e6], [0.0]], dtype=np.float32)
    shown = unit_numbers(1, lam=1e-3).hide(far, np.array([True]), noise=NOISE, ids=range(4))
    np.testing.assert_allclose(shown[:, 0], [1, 1, 0, 0], atol=0.01)
    clipped = unit_numbers(1, lam=3.0, clip=True).hide(
        far, np.array([True]), noise=NOISE, ids=range(4)
    )
    assert ((clipped >= 0) & (clipped <= 1)).all()


def test_responses_have_the_law_they_claim():
    n = 30_000
    encoder = TableEncoder(("c",), (("x", "y", "z"),))
    features = encoder.features()
    truth = np.tile(np.array([[0, 1, 0]], dtype=np.float32), (n, 1))
    mechanism = TableMechanism.build(
        encoder, features, truth, kind="redact", categorical="response", epsilon=1.0, delta=0.1
    )
    ((keep, k),) = mechanism.responses(0)
    assert keep == pytest.approx(float(response.keep_for(1.0, 0.1, 3)))
    assert k == 3
    shown = mechanism.hide(truth, np.array([True]), noise=NOISE, ids=np.arange(n))
    np.testing.assert_array_equal(shown.sum(axis=1), 1)
    expected = np.array([(1 - keep) / 3, keep + (1 - keep) / 3, (1 - keep) / 3])
    assert stats.chisquare(shown.sum(axis=0), n * expected).pvalue > 1e-3
    unknown = mechanism.hide(np.zeros_like(truth), np.array([True]), noise=NOISE, ids=np.arange(n))
    assert stats.chisquare(unknown.sum(axis=0)).pvalue > 1e-3, (
        "a category never seen is answered evenly"
    )


def test_the_release_of_a_small_world_stays_below_its_bound():
    """S = X: the share of released rows beyond a threshold tells the two classes apart no better
    than the bound.
    """
    x, s = two_points(0.3).sample(20_000, seed=1)
    encoder = TableEncoder((), (None,))
    mechanism = TableMechanism.build(
        encoder, encoder.features(), x, kind="gaussian", epsilon=0.5, delta=0.02, prior=[0.7, 0.3]
    )
    shown = mechanism.hide(x, np.array([True]), noise=NOISE, ids=np.arange(len(x)))[:, 0]
    assert mechanism.bound(0.5, [True], prior=[0.7, 0.3]) == pytest.approx(0.02)
    for t in np.linspace(-1, 1, 21):
        for event in (shown > t, shown < t):
            for mine in (s == 1, s == 0):
                inside = event[mine].mean()
                overall = event.mean()
                assert inside - np.e**0.5 * overall < 0.02 + 0.03
                assert overall - np.e**0.5 * inside < 0.02 + 0.03
    raw = x[:, 0] > 0
    assert raw[s == 1].mean() - np.e**0.5 * raw.mean() > 0.3, "without noise the promise is broken"


@settings(max_examples=40)
@given(
    st.integers(0, 3),
    st.lists(st.integers(2, 6), max_size=3),
    st.floats(0.05, 3),
    st.floats(1e-4, 0.3),
    st.one_of(st.none(), st.lists(st.floats(0.1, 1), min_size=2, max_size=3)),
)
def test_calibrated_mechanisms_keep_their_promise(numbers, sizes, epsilon, delta, weights):
    """With everything hidden, both directions, every class: by the exact joint bound."""
    if numbers + len(sizes) == 0:
        numbers = 1
    categories = (None,) * numbers + tuple(tuple(f"c{k}" for k in range(size)) for size in sizes)
    names = tuple(f"n{j}" for j in range(len(categories)))
    encoder = TableEncoder(names, categories)
    features = encoder.features()
    prior = None if weights is None else np.array(weights) / sum(weights)
    if prior is not None and (1 - prior).max() <= delta:
        return
    mechanism = TableMechanism.build(
        encoder,
        features,
        np.zeros((1, len(features.groups)), dtype=np.float32),
        kind="gaussian",
        categorical="response",
        epsilon=epsilon,
        delta=delta,
        prior=prior,
        bounds=(0, 1),
    )
    everything = np.ones(len(features), dtype=bool)
    bound = mechanism.bound(epsilon, everything, prior=prior)
    assert bound <= delta * (1 + 1e-9)
    if not sizes:
        assert bound == pytest.approx(delta, rel=1e-6), "nothing is wasted on numbers alone"
    if not numbers and len(sizes) == 1:
        assert bound == pytest.approx(delta, rel=1e-6) or mechanism.keeps[0] == 1


def test_a_prior_saves_noise():
    free = unit_numbers(4, epsilon=0.5, delta=0.05)
    aware = unit_numbers(4, epsilon=0.5, delta=0.05, prior=[0.5, 0.5])
    assert free.lam == pytest.approx(float(calibration.scale_for(0.5, 0.05, 2.0)))
    assert aware.lam == pytest.approx(float(calibration.scale_for(0.5, 0.05, 2.0, prior=0.5)))
    assert aware.lam < free.lam
    uneven = unit_numbers(4, epsilon=0.5, delta=0.05, prior=[0.1, 0.9])
    worst = max(float(calibration.scale_for(0.5, 0.05, 2.0, prior=p)) for p in (0.1, 0.9))
    assert uneven.lam == pytest.approx(worst)


def test_clipping_does_not_raise_the_divergence():
    """Two values a range apart: the law of the clipped release, its atoms included, against θ."""
    lam = 0.7
    cells = np.linspace(0, 1, 400)
    laws = [np.diff(ndtr((cells - x) / lam), prepend=0.0, append=1.0) for x in (0.0, 1.0)]
    for epsilon in (0.0, 0.3, 1.0):
        clipped = hockey_stick.discrete(laws[1], laws[0], np.exp(epsilon))
        assert clipped <= unit_numbers(1, lam=lam, clip=True).bound(epsilon, [True])


def test_features_of_several_columns():
    features = Features(np.array([0, 0, 0, 0, 0, 1, 1]), ("person", "place"))
    mechanism = TableMechanism.build(
        ENCODER,
        features,
        ROWS,
        kind="gaussian",
        categorical="response",
        lam=2.0,
        epsilon=1.0,
        delta=0.1,
    )
    np.testing.assert_allclose(mechanism.ratios(), [np.sqrt(2) / 2, 0])
    assert [k for _, k in mechanism.responses(0)] == [3]
    assert [k for _, k in mechanism.responses(1)] == [2]
    hidden = mechanism.hide(ROWS, np.array([True, False]), noise=NOISE, ids=["a", "b", "c", "d"])
    assert hidden[:, 5:].tobytes() == ROWS[:, 5:].tobytes()
    assert (hidden[:, [0, 4]] != ROWS[:, [0, 4]]).any(axis=0).all()
    with pytest.raises(LowtideError, match="column 'job' is split over several features"):
        TableMechanism.build(ENCODER, one_per_column(7), ROWS, kind="redact")


def test_a_single_category_has_nothing_to_hide():
    encoder = TableEncoder(("c",), (("only",),))
    mechanism = TableMechanism.build(
        encoder, encoder.features(), np.ones((1, 1)), kind="redact", categorical="response"
    )
    assert mechanism.responses(0) == []
    assert mechanism.hide(np.ones((2, 1)), np.array([True]), noise=NOISE, ids=[1, 2]).tolist() == [
        [1],
        [1],
    ]


def test_no_noise_is_spent_on_kept_features():
    mechanism = build(keep=["age"], lam=None, epsilon=0.5, delta=0.05)
    assert mechanism.lam == pytest.approx(float(calibration.scale_for(0.5, 0.05, 1.0)))
    assert mechanism.ratios()[0] == 0
    hidden = mechanism.hide(ROWS, ALL, noise=NOISE, ids=range(4))
    assert (hidden[:, 0] == 0).all(), "hidden nonetheless, it is redacted"


@settings(max_examples=30)
@given(st.randoms(), st.integers(0, 40))
def test_any_order_and_any_batches(random, cut):
    mechanism = build(categorical="response", epsilon=1.0, delta=0.1)
    rows = np.tile(ROWS, (10, 1))
    ids = np.arange(40) * 7
    mask = np.random.default_rng(1).random((40, 4)) < 0.6
    whole = mechanism.hide(rows, mask, noise=NOISE, ids=ids)
    order = np.array(random.sample(range(40), 40))
    parts = [
        mechanism.hide(rows[part], mask[part], noise=NOISE, ids=ids[part])
        for part in (order[:cut], order[cut:])
        if len(part)
    ]
    assert np.concatenate(parts).tobytes() == whole[order].tobytes()


def test_configuration_survives_json_and_keeps_ranges_apart():
    mechanism = build(categorical="response", epsilon=1.0, delta=0.1, fill=2.0, keep=["site"])
    config = json.loads(json.dumps(mechanism.to_config(), allow_nan=False))
    again = TableMechanism.from_config(config)
    assert again.to_config() == mechanism.to_config()
    options = {"noise": NOISE, "ids": range(4)}
    mask = np.array([True, True, True, False])
    assert (
        again.hide(ROWS, mask, **options).tobytes()
        == mechanism.hide(ROWS, mask, **options).tobytes()
    )
    private = config.pop("private")
    assert private["low"][0] == 20
    public = json.dumps({**config, "features": None})
    assert "smith" not in public
    assert not {"20.0", "50.0", "9.0"} & set(public.replace(",", " ").replace("]", " ").split())
    with pytest.raises(LowtideError, match="lacks or garbles"):
        TableMechanism.from_config(config)


def test_bounds_by_name_leave_the_rest_to_the_rows():
    mechanism = build(bounds={"age": (0, 120)})
    np.testing.assert_array_equal(mechanism.low[[0, 2]], [0, 1])  # the least pay is 1.5
    np.testing.assert_array_equal(mechanism.high[[0, 2]], [120, 9])
    assert np.isnan(mechanism.low[[1, 3]]).all()


CONSTANT = np.array([[1.0, 1.0], [2.0, 1.0]], dtype=np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: build(lam=None),
            "gaussian noise needs a scale; give lam, or give epsilon and delta",
        ),
        (lambda: build(categorical="response"), "a response needs a probability"),
        (lambda: build(lam=0.0), "lam must lie in"),
        (lambda: build(lam=-1.0), "lam must lie in"),
        (lambda: build(lam=None, epsilon=0.1), "one promise; give both or neither"),
        (lambda: build(lam=None, epsilon=0.1, delta=0.0), "delta must lie in"),
        (lambda: build(lam=None, epsilon=0.1, delta=1.0), "delta must lie in"),
        (lambda: build(lam=None, epsilon=5.0, delta=0.6, prior=[0.5, 0.5]), "promise nothing"),
        (lambda: build(kind="blur"), "kind must be one of"),
        (lambda: build(categorical="gaussian"), "categorical must be one of"),
        (lambda: build(keep=["nobody"]), "keep names 'nobody', which is not a feature"),
        (lambda: build(keep="age"), "list of names"),
        (
            lambda: build(bounds={"job": (0, 1)}),
            "bounds names 'job', which is not a column of numbers",
        ),
        (lambda: build(bounds=(1, 0)), "low < high"),
        (lambda: build(bounds=(0, np.inf)), "bounds must lie in"),
        (lambda: build(fill=np.nan), "fill contains NaN"),
        (
            lambda: TableMechanism.build(
                TableEncoder((), (None, None)),
                one_per_column(2),
                CONSTANT,
                kind="gaussian",
                lam=1.0,
            ),
            "feature 'x2' takes a single value .* drop it, list it under keep, or give its bounds",
        ),
        (lambda: build().hide(ROWS, ALL, noise=NOISE), "rows need ids"),
        (lambda: build().hide(ROWS, ALL, ids=range(4)), "need noise; give noise=KeyedNoise"),
        (lambda: build().hide(ROWS, ALL), "rows need ids"),
        (lambda: build().hide(ROWS[:, :3], ALL), r"rows must have shape \(n, 7\)"),
        (lambda: build().hide(sparse.csr_array(ROWS), ALL), "toarray"),
        (lambda: build().hide(ROWS, ALL[:3]), "mask must be booleans of shape"),
        (
            lambda: build().hide(ROWS, np.ones((3, 4), dtype=bool)),
            "hidden has 3 rows and the table 4",
        ),
        (lambda: build().hide(ROWS, ALL, noise=NOISE, ids=[1, 1, 2, 3]), "repeats itself"),
    ],
)
def test_refuses_the_impossible(call, message):
    with pytest.raises(LowtideError, match=message):
        call()


def test_constants_are_fine_where_they_are_not_noised():
    options = {"kind": "gaussian", "lam": 1.0}
    encoder = TableEncoder((), (None, None))
    features = one_per_column(2)
    TableMechanism.build(encoder, features, CONSTANT, **options, keep=["x2"])
    TableMechanism.build(encoder, features, CONSTANT, **options, bounds={"x2": (0, 1)})
    TableMechanism.build(encoder, features, CONSTANT, kind="redact")


def test_a_release_without_hidden_features_needs_no_noise():
    assert build().hide(ROWS, np.zeros(4, dtype=bool)).tobytes() == ROWS.tobytes()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("fill", "much"),
        ("fill", [1]),
        ("keeps", ["a"]),
        ("kinds", 3),
        ("categories", ["Ulm"]),
        ("low", ["a"]),
    ],
)
def test_a_garbled_configuration_is_refused(place, value):
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0], "town": ["Ulm", "Bonn", "Ulm"]})
    rows, encoder = read_table(frame)
    config = TableMechanism.build(encoder, encoder.features(), rows, kind="redact").to_config()
    assert TableMechanism.from_config(config).kinds == ("redact", "redact")
    part = config["private"] if place in config["private"] else config
    part[place] = value
    with pytest.raises(LowtideError):
        TableMechanism.from_config(config)
