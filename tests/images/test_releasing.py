"""A release of a folder leaves damaged images out, however late they are found, and decodes the
others once.
"""

import filecmp
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from lowtide import LowtideError, Plan, release
from lowtide.disclose.card import Feature
from lowtide.disclose.certificate import certify_fixed
from lowtide.images import files, folder, releasing
from lowtide.images.encoder import Grid
from lowtide.images.hider import ImageHider
from lowtide.images.mechanism import FixedPatches, ImageMechanism
from lowtide.images.names import read_mapping

quietly = pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")
IMAGES = 12
BAD = 7


@pytest.fixture(scope="module")
def plans(make_card):
    """Plans that paint over the lower half, and that add noise to it."""
    grid = Grid(16, 16, 3, 4)
    hidden = np.arange(16) >= 8
    none = np.zeros(16, bool)
    card = make_card(
        features=tuple(map(Feature, grid.features.names, hidden.astype(float).tolist())),
        certificate=certify_fixed(0.1, [0.5, 0.5], ratios=np.zeros(16), hidden=hidden),
        data_sha256=None,
    )
    policy = FixedPatches(
        grid, hidden, np.argsort(~hidden, kind="stable"), none, none, (), np.zeros(16)
    )
    layout = {"resize": None, "grey": False, "kept": []}
    return {
        kind: Plan(
            "images",
            "smile",
            layout,
            ImageHider(policy, ImageMechanism(grid, kind, lam), replace(card, mechanism=kind)),
        )
        for kind, lam in (("redact", None), ("gaussian", 0.5))
    }


def save(path, row, side=16):
    rng = np.random.default_rng([row, 5])
    Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(path)


def damage(path):
    content = bytearray(path.read_bytes())
    at = content.index(b"IDAT") + 8
    content[at : at + 40] = b"\xff" * 40  # its header and its end are as they were
    path.write_bytes(content)


@pytest.fixture
def sources(tmp_path):
    """A folder with an image that is damaged in its middle, and the same without it."""
    for name in ("damaged", "whole"):
        (tmp_path / name).mkdir()
        for row in range(IMAGES):
            if name == "damaged" or row != BAD:
                save(tmp_path / name / f"{row:02d}.png", row)
    damage(tmp_path / "damaged" / f"{BAD:02d}.png")
    assert files.look(tmp_path / "damaged" / f"{BAD:02d}.png").size == (
        16,
        16,
    )  # so that only decoding finds it
    return tmp_path / "damaged", tmp_path / "whole"


def same(one, other):
    names = sorted(path.name for path in one.iterdir())
    return names == sorted(path.name for path in other.iterdir()) and (
        filecmp.cmpfiles(one, other, names, shallow=False)[0] == names
    )


@pytest.mark.parametrize("batch", [3, 256])
def test_an_image_that_turns_out_to_be_damaged_is_left_out(
    sources, plans, tmp_path, monkeypatch, batch
):
    monkeypatch.setattr(releasing, "BATCH", batch)
    damaged, whole = sources
    with pytest.warns(
        UserWarning, match=rf"{BAD:02d}\.png is damaged or cut short.*starts again"
    ) as said:
        found = release(damaged, plans["redact"], tmp_path / "shared", progress=False)
    assert any("skipped: 1 damaged or cut short" in str(one.message) for one in said)
    with pytest.warns(UserWarning, match="colour images") as said:
        wanted = release(whole, plans["redact"], tmp_path / "wanted", progress=False)
    assert not any("starts again" in str(one.message) for one in said)
    assert same(tmp_path / "shared", tmp_path / "wanted")
    assert found.card == wanted.card
    assert found.card.rows == IMAGES - 1
    assert not list(tmp_path.glob(".shared*"))


@quietly
def test_new_names_have_no_gap_for_it(sources, plans, tmp_path):
    how = {"rename": True, "mapping": tmp_path / "names.csv", "progress": False}
    release(sources[0], plans["redact"], tmp_path / "shared", **how)
    names = read_mapping(how["mapping"])
    assert sorted(names) == sorted(path.name for path in (tmp_path / "shared").iterdir())
    assert sorted(names) == [f"{number:06d}.png" for number in range(1, IMAGES)]
    assert f"{BAD:02d}.png" not in names.values()


@quietly
def test_a_damaged_image_of_another_size_is_left_out(sources, plans, tmp_path):
    damaged, whole = sources
    save(damaged / f"{BAD:02d}.png", 0, side=24)
    with pytest.raises(LowtideError, match="different sizes"):  # as long as it is whole
        release(damaged, plans["redact"], tmp_path / "shared", progress=False)
    damage(damaged / f"{BAD:02d}.png")
    release(damaged, plans["redact"], tmp_path / "shared", progress=False)
    release(whole, plans["redact"], tmp_path / "wanted", progress=False)
    assert same(tmp_path / "shared", tmp_path / "wanted")


@quietly
def test_a_complete_release_is_refused_and_leaves_nothing(sources, plans, tmp_path):
    damaged, whole = sources
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(LowtideError, match="1 damaged or cut short"):
        release(damaged, plans["redact"], tmp_path / "shared", complete=True, progress=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    release(whole, plans["redact"], tmp_path / "shared", complete=True, progress=False)
    assert len(list((tmp_path / "shared").iterdir())) == IMAGES - 1


@quietly
def test_no_key_is_made_for_a_release_that_is_refused(sources, plans, tmp_path):
    how = {"complete": True, "key_file": tmp_path / "noise.key", "progress": False}
    with pytest.raises(LowtideError, match="1 damaged or cut short"):
        release(sources[0], plans["gaussian"], tmp_path / "shared", **how)
    assert not how["key_file"].exists()
    release(sources[1], plans["gaussian"], tmp_path / "shared", **how)
    assert how["key_file"].exists()


@quietly
@pytest.mark.parametrize(("kind", "looks"), [("redact", 0), ("gaussian", IMAGES - 1)])
def test_images_that_are_whole_are_decoded_once(sources, plans, tmp_path, monkeypatch, kind, looks):
    """Before a key is made, every image is decoded one more time; without one, none is."""
    decoded = []
    plain = files._plain
    monkeypatch.setattr(files, "_plain", lambda image: decoded.append(1) or plain(image))
    release(sources[1], plans[kind], tmp_path / "shared", progress=False)
    assert len(decoded) == IMAGES - 1 + looks


@quietly
def test_files_that_are_alike_share_what_is_known_of_them(sources):
    """A header of its own for each of very many images would be most of the memory of a release."""
    first = files.look(sources[1] / "00.png")
    assert all(files.look(path) is first for path in sources[1].iterdir())
    save(sources[1] / "00.png", 0, side=24)
    assert files.look(sources[1] / "00.png").size == (24, 24)


@quietly
def test_an_image_that_changes_while_it_is_released_is_refused(
    sources, plans, tmp_path, monkeypatch
):
    """Damage is looked for twice at most: a third time would be without end."""
    decode = folder.decode

    def cut(path, **how):
        if path.name == "03.png":
            raise files.UnusableError(files.DAMAGED)
        return decode(path, **how)

    monkeypatch.setattr(folder, "decode", cut)
    with pytest.raises(LowtideError, match=r"03\.png is damaged"):
        release(sources[1], plans["redact"], tmp_path / "shared", progress=False)
    assert not (tmp_path / "shared").exists()
