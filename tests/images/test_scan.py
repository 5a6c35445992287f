"""A scan of images: what a whole image tells, read by a density and by attackers together."""

import numpy as np
import pytest

from lowtide import worlds
from lowtide.estimate.tide import TIDE
from lowtide.images.scan import scan_images

WORLD = worlds.drawn_faces(16)


@pytest.fixture(scope="module")
def faces():
    x, s = WORLD.sample(500, 0)
    return (255 * WORLD.images(x)).round().astype(np.uint8), s


def scanned(images, s):
    return scan_images(images, s, estimator=TIDE(8, max_steps=60, progress=False, random_state=1))


def test_a_scan_states_what_its_readers_read_together_and_no_more_than_there_is(faces):
    found = scanned(*faces)
    alone = {name: one.value for name, one in found.readers.items()}
    assert list(alone) == [
        "the density of patches",
        "edges",
        "oriented gradients",
        "local patterns",
    ]
    assert found.information.value > max(alone.values()) - 0.03
    assert found.information.low < WORLD.information() < found.information.high
    assert found.information.n == 150
    assert "tells at least" in str(found)
    assert found.to_json()["readers_nats"]["edges"]["value"] == alone["edges"]


def test_a_scan_reads_nothing_of_a_secret_that_images_do_not_tell(faces):
    images, s = faces
    found = scanned(images, np.random.default_rng(2).permutation(s))
    assert found.information.low <= 0
    assert found.information.value < 0.03


def test_a_class_too_rare_for_attackers_is_read_by_the_density_alone():
    rng = np.random.default_rng(3)
    images = rng.integers(0, 255, (30, 8, 8, 1), dtype=np.uint8)
    s = (np.arange(30) < 4).astype(int)
    found = scan_images(images, s, estimator=TIDE(8, max_steps=4, progress=False, random_state=0))
    assert list(found.readers) == ["the density of patches"]
