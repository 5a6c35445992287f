"""TIDE is a scikit-learn citizen."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lowtide import TIDE, Obfuscator, doc_links, worlds

QUICK = {"max_steps": 40, "folds": 2}


@parametrize_with_checks([TIDE(**QUICK)])
def test_estimator_checks(estimator, check):
    """All of scikit-learn's checks, without an expected failure."""
    check(estimator)


@pytest.fixture(scope="module")
def sample():
    return worlds.shifted_gaussian(2, dimension=3, shift=2.0).sample(200, seed=0)


def test_parameters_are_cloned_unchanged(sample):
    tide = TIDE(trim=2.0, random_state=7)
    assert clone(tide).get_params() == tide.get_params()
    tide.set_params(trim=1.5, critic="null").fit(*sample)
    assert tide.artefact.trim == 1.5
    assert tide.artefact.report.chosen == "null"


def test_tide_works_in_a_pipeline(sample):
    pipeline = make_pipeline(StandardScaler(), TIDE(**QUICK), LogisticRegression())
    assert pipeline.fit(*sample).score(*sample) > 0.8


def test_set_output_names_the_classes(sample):
    labels = np.array(["no", "yes"])[sample.s]
    tide = (
        TIDE(**QUICK)
        .set_output(transform="pandas")
        .fit(pd.DataFrame(sample.x, columns=list("abc")), labels)
    )
    out = tide.transform(pd.DataFrame(sample.x, columns=list("abc")))
    assert list(out.columns) == ["density_no", "density_yes"]
    np.testing.assert_allclose(
        out.to_numpy(), tide.density(pd.DataFrame(sample.x, columns=list("abc")))
    )
    assert list(tide.feature_names_in_) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "estimator", [TIDE(), Obfuscator(TIDE())], ids=lambda one: type(one).__name__
)
def test_a_diagram_links_to_the_documentation_where_the_distribution_names_it(
    estimator, monkeypatch
):
    assert estimator._get_doc_link() == ""  # no address is named
    monkeypatch.setattr(doc_links, "site", lambda: "https://lowtide.test/")
    page = estimator._get_doc_link()
    assert page.startswith("https://lowtide.test/reference/api.html#lowtide.")
    assert page in estimator._repr_html_()
    shown = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text()
    assert f"autoclass:: {page.partition('#')[2]}\n" in shown  # the entry is there
