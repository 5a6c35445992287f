"""Real faces, where they are at hand: `LOWTIDE_DATA` names a folder of images, or one that holds
such folders.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from lowtide.images.dataset import open_images
from lowtide.images.names import names_tell
from lowtide.images.writing import ImageWriter
from paper import layouts

GIVEN = os.environ.get("LOWTIDE_DATA")
SETS = {"genki4k": ("smile", 4000, (64, 64, 3)), "celeba": ("Smiling", 5000, (218, 178, 3))}


@pytest.mark.parametrize("name", SETS)
def test_faces(name, tmp_path):
    places = [Path(GIVEN) / name, Path(GIVEN)] if GIVEN else []
    place = next((place for place in places if place.name == name and place.is_dir()), None)
    if place is None:
        pytest.skip(f"$LOWTIDE_DATA does not hold {name}")
    secret, count, shape = SETS[name]
    folder = open_images(place, strict=True, listing=layouts.read(place))
    assert (len(folder), folder.shape) == (count, shape)
    assert set(folder.split) >= {"train", "test"}
    assert names_tell(folder.names, folder.column(secret)).tells == (name == "genki4k")
    some = folder.take(np.arange(0, count, 40))
    with ImageWriter(tmp_path / "out", some, drop=secret, png=True) as writer:
        writer.write(np.arange(len(some)), some.read(np.arange(len(some))))
    release = open_images(tmp_path / "out", strict=True)
    np.testing.assert_array_equal(release.read(np.arange(9)), some.read(np.arange(9)))
    assert secret not in release.columns
