"""The Obfuscator is a scikit-learn citizen, as far as a release may be."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lowtide import TIDE, LowtideError, Obfuscator, worlds
from lowtide.errors import LowtideTypeError
from lowtide.tables.settings import TableSettings

QUICK = {"max_steps": 40, "folds": 2, "progress": False}
FEW = (
    "fits {} rows: too few to attack a rehearsal of the release, and without that nothing is known"
    " of it"
)
EXPECTED = {
    "check_n_features_in_after_fitting": FEW.format(15),
    "check_estimators_nan_inf": FEW.format(10),
}


@parametrize_with_checks(
    [Obfuscator(TIDE(**QUICK), progress=False)], expected_failed_checks=lambda _: EXPECTED
)
def test_estimator_checks(estimator, check):
    """All of scikit-learn's checks, but for two that fit fewer rows than can be attacked."""
    check(estimator)


@pytest.fixture(scope="module")
def sample():
    return worlds.shifted_gaussian(2, dimension=3, shift=2.0, moved=1).sample(200, seed=0)


@pytest.fixture(scope="module")
def redacting(sample):
    return Obfuscator(TIDE(**QUICK), progress=False, settings=TableSettings(fill=7.0)).fit(*sample)


@pytest.fixture(scope="module")
def noising(sample):
    return Obfuscator(
        TIDE(**QUICK), "sequential", "gaussian", past="raw", epsilon=0.2, lam=1.0, progress=False
    ).fit(*sample)


class TestSkippedEstimatorChecks:
    def test_the_number_of_columns_is_checked(self, redacting, sample):
        assert redacting.n_features_in_ == 3
        with pytest.raises(
            LowtideError, match=r"X has 2 features, but \w+ is expecting 3 features as input"
        ):
            redacting.transform(sample.x[:, :2])

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_missing_values_are_checked(self, redacting, sample, value):
        broken = sample.x.copy()
        broken[0, 0] = value
        with pytest.raises(LowtideError, match="NaN or infinite"):
            redacting.transform(broken)
        with pytest.raises(LowtideError, match="NaN or infinite"):
            clone(redacting).fit(broken, sample.s)


def test_parameters_are_cloned_unchanged(sample):
    subject = Obfuscator(TIDE(trim=2.0), "sequential", budget="0.02bits", keep=["x1"])
    assert {
        name: value for name, value in clone(subject).get_params().items() if name != "estimator"
    } == {name: value for name, value in subject.get_params().items() if name != "estimator"}
    assert clone(subject).get_params()["estimator__trim"] == 2.0
    subject.set_params(
        estimator__trim=1.5, policy="sequential", past="raw", budget=None, progress=False
    )
    subject.set_params(**{f"estimator__{name}": value for name, value in QUICK.items()}).fit(
        *sample
    )
    assert (subject.policy_.name, subject.policy_.past) == ("sequential", "raw")
    assert subject.policy_.density.trim == 1.5


def test_the_estimator_that_is_given_stays_unfitted(redacting):
    assert not hasattr(redacting.estimator, "artefact_")


def test_obfuscator_works_in_a_pipeline(sample, redacting):
    direct = make_pipeline(StandardScaler(), LogisticRegression())
    assert direct.fit(*sample).score(*sample) > 0.75
    pipeline = make_pipeline(StandardScaler(), clone(redacting), LogisticRegression())
    assert pipeline.fit(*sample).score(*sample) < 0.65


def test_set_output_names_the_columns_as_the_card_does(sample, redacting):
    subject = copy.copy(redacting).set_output(transform="pandas")
    out = subject.transform(sample.x)
    assert (
        list(out.columns)
        == ["x1", "x2", "x3"]
        == [feature.name for feature in subject.card_.features]
    )
    np.testing.assert_array_equal(out.to_numpy(), redacting.transform(sample.x))
    frame = pd.DataFrame(sample.x, columns=list("abc"), index=np.arange(200) * 2)
    named = clone(redacting).set_output(transform="pandas").fit(frame, sample.s)
    assert list(named.feature_names_in_) == list(named.get_feature_names_out()) == ["a", "b", "c"]
    assert named.transform(frame).index.equals(frame.index)


def test_lists_and_array_likes_come_back_as_arrays(redacting, sample):
    out = redacting.transform(sample.x.tolist())
    assert isinstance(out, np.ndarray)
    np.testing.assert_array_equal(out, redacting.transform(sample.x))


class TestPickling:
    def test_a_redacting_obfuscator_can_be_pickled(self, redacting, sample):
        again = pickle.loads(pickle.dumps(redacting))  # noqa: S301
        np.testing.assert_array_equal(again.transform(sample.x), redacting.transform(sample.x))
        assert again.card_ == redacting.card_
        assert redacting.policy_.hidden[0]

    def test_pickling_a_noising_obfuscator_is_refused_since_it_holds_the_key(self, noising):
        with pytest.raises(LowtideTypeError, match="holds a secret key and is not pickled"):
            pickle.dumps(noising)
        with pytest.raises(LowtideTypeError, match="holds a secret key"):
            copy.deepcopy(noising)

    def test_an_unfitted_noising_obfuscator_can_be_pickled(self, noising):
        assert pickle.loads(pickle.dumps(clone(noising))).lam == 1.0  # noqa: S301


def test_fits_with_the_same_seed_agree_even_with_noise(noising, sample):
    again = clone(noising).fit(*sample)
    assert again.leakage_ == noising.leakage_
    assert [a.accuracy for a in again.card_.attacks] == [a.accuracy for a in noising.card_.attacks]
    ids = np.arange(200)
    # Without a key file each fit draws a key of its own.
    assert (again.transform(sample.x, ids=ids) != noising.transform(sample.x, ids=ids)).any()
