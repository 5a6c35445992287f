"""The frozen result of an Obfuscator: saved, read back, and refused when garbled."""

import json

import numpy as np
import pandas as pd
import pytest

from lowtide.disclose.obfuscator import Obfuscator
from lowtide.disclose.saved import load_hider
from lowtide.errors import LowtideError
from lowtide.estimate.tide import TIDE
from lowtide.tables.hider import TableHider


def make_rows(n=400, seed=0):
    rng = np.random.default_rng([seed, 77])
    s = rng.integers(0, 2, n)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["a"] += 2 * s
    return frame, np.array(["ZEBRA", "OKAPI"])[s]


@pytest.fixture(scope="module", params=["fixed", "disclosed", "raw"])
def hider(request):
    options = {"policy": "sequential", "past": request.param, "epsilon": 0.3}
    if request.param == "fixed":
        options = {"budget": 0.05}
    tide = TIDE(max_steps=40, progress=False)
    return Obfuscator(tide, progress=False, **options).fit(*make_rows()).hider_


def test_the_hider_hides_the_leaking_columns(hider):
    x, _ = make_rows(seed=1)
    released, flags = hider.release(x)
    assert flags[:, 0].mean() > 0.5 > flags[:, 1:].mean()
    assert np.array_equal(released.to_numpy()[~flags], x.to_numpy()[~flags])
    assert (released.to_numpy()[flags] == 0).all()


def test_a_saved_hider_hides_the_same(hider, tmp_path):
    hider.save(tmp_path / "hider")
    again = load_hider(tmp_path / "hider")
    x, _ = make_rows(seed=1)
    (released, flags) = again.release(x)
    (wanted, wanted_flags) = hider.release(x)
    pd.testing.assert_frame_equal(released, wanted)
    assert np.array_equal(flags, wanted_flags)
    assert again.card == hider.card
    for path in (tmp_path / "hider").iterdir():
        assert b"ZEBRA" not in path.read_bytes()
        assert b"OKAPI" not in path.read_bytes()


def test_new_columns_are_refused(hider):
    x, _ = make_rows()
    with pytest.raises(LowtideError, match=r"column\(s\) more"):
        hider.transform(x.assign(more=1.0))


@pytest.mark.parametrize(
    "mask",
    [[True], [True, False, False, False], ["x", "y", "z"], [1, 0, 0], [[True] * 3], None, []],
)
def test_a_mask_of_another_length_or_kind_is_refused(hider, mask):
    """NumPy would spread a short mask and take any text for true."""
    config, tensors = hider.parts()
    config = json.loads(json.dumps(config))
    holder = config["policy"]["rule"] if "rule" in config["policy"] else config["policy"]
    if "hide" in tensors:
        tensors = {**tensors, "hide": np.array(mask)}
    else:
        holder["hidden" if "hidden" in holder else "hide"] = mask
    with pytest.raises(LowtideError, match="here"):
        TableHider.from_parts(config, tensors, "here")


def test_a_card_of_other_features_is_refused(hider, sealed):
    config, tensors = hider.parts()
    config = json.loads(json.dumps(config))
    config["card"]["features"][0]["name"] = "z"
    config["card"] = sealed(config["card"])
    with pytest.raises(LowtideError, match="here: the card is about other features"):
        TableHider.from_parts(config, tensors, "here")


@pytest.mark.parametrize("part", ["policy", "mechanism", "card"])
@pytest.mark.parametrize("junk", [None, 3, "x", [], {}, {"name": "fixed"}])
def test_garbled_parts_are_refused(hider, part, junk):
    config, tensors = hider.parts()
    with pytest.raises(LowtideError, match="here"):
        TableHider.from_parts({**config, part: junk}, tensors, "here")


def test_a_plan_of_the_policy_paper_is_refused_with_the_remedy(hider, tmp_path):
    config, tensors = hider.parts()
    config["policy"] = {**config["policy"], "name": "paper"}
    with pytest.raises(LowtideError, match=r"no longer known; make it again with .*--past raw"):
        TableHider.from_parts(config, tensors, tmp_path)
