"""Which kind of data an object is taken for, and a kind that a stranger adds."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse

from lowtide import TIDE, modalities
from lowtide.errors import LowtideError
from lowtide.images.encoder import Stack
from lowtide.tables.modality import TableModality
from lowtide.texts.terms import TermOptions

PIXELS = np.zeros((3, 4, 4, 1), dtype=np.uint8)


@pytest.mark.parametrize(
    ("x", "kind"),
    [
        (np.zeros((3, 2)), "tables"),
        (np.zeros((3, 2), dtype=np.uint8), "tables"),
        ([[1.0, 2.0], [3.0, 4.0]], "tables"),
        (sparse.csr_array((3, 2)), "tables"),
        (torch.zeros(3, 2), "tables"),
        (pd.DataFrame({"a": ["x", "y"]}), "tables"),
        (pl.DataFrame({"a": ["x", "y"]}), "tables"),
        (pa.table({"a": ["x", "y"]}), "tables"),
        ([(np.zeros((3, 2)), [0, 1, 0])], "tables"),
        (PIXELS, "images"),
        (PIXELS[..., 0], "images"),
        (Stack(PIXELS), "images"),
        (["a text", "another"], "texts"),
        (pa.array(["a text", "another"]), "texts"),
        (pd.Series(["a text", "another"]), "texts"),
    ],
)
def test_an_object_is_of_one_kind(x, kind):
    assert modalities.of(x).name == kind


def test_the_features_can_determine_the_kind():
    assert modalities.of(np.zeros((3, 2)), 8).name == "images"
    assert modalities.of([], TermOptions()).name == "texts"
    assert modalities.of(np.zeros((3, 2)), [0, 1]).name == "tables"


@pytest.mark.parametrize("x", [None, 3, 0.5, object()])
def test_objects_of_an_unknown_kind_are_refused(x):
    with pytest.raises(LowtideError, match="is not data that Lowtide reads"):
        modalities.of(x)


class Signals(TableModality):
    """A table under another name, as a stranger might start."""

    name = "signals"

    def claims(self, x, features=None):
        return isinstance(x, dict)

    def fit_density(self, x, s, options, groups):
        return super().fit_density(x["rows"], s, options, groups)


def test_a_registered_kind_is_found():
    modalities.register(Signals())
    try:
        x = np.random.default_rng(0).standard_normal((20, 2))
        s = np.arange(20) % 2
        assert TIDE(critic="null").fit({"rows": x}, s).n_features_in_ == 2
    finally:
        modalities.unregister("signals")
    with pytest.raises(LowtideError, match="got 'signals'"):
        modalities.get("signals")
