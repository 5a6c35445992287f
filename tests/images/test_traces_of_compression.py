"""What a histogram of DCT coefficients reads of the quality of a first compression, and what takes
it away.
"""

import numpy as np
import pytest
from PIL import Image
from scipy.fft import dctn
from scipy.ndimage import gaussian_filter
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lowtide.images.dataset import open_images
from lowtide.images.files import decode, encode
from lowtide.images.names import files_tell

N = 200
SIZE = 96
WAVES = [(0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (2, 1), (1, 2), (0, 3), (3, 0)]


@pytest.fixture(scope="module")
def compressed(tmp_path_factory):
    """Clouds of one law for both classes, compressed at quality 75 or 95 by their class; a folder
    per class.
    """
    rng = np.random.default_rng(0)
    place = tmp_path_factory.mktemp("clouds")
    classes = rng.integers(0, 2, N)
    for row, kind in enumerate(classes):
        cloud = np.full((SIZE, SIZE), 128.0)
        for width, weight in ((8, 40), (3, 18), (1, 8), (0.5, 4)):
            wave = gaussian_filter(rng.normal(size=cloud.shape), width)
            cloud += weight * wave / wave.std()
        folder = place / ("low", "high")[kind]
        folder.mkdir(exist_ok=True)
        picture = Image.fromarray(cloud.clip(0, 255).astype(np.uint8))
        picture.save(folder / f"{row:03}.jpg", quality=(75, 95)[kind])
    return place


def histograms(pixels):
    """How often the coefficients of blocks of 8 × 8 pixels have each whole value."""
    side = len(pixels) // 8
    blocks = (
        pixels[: 8 * side, : 8 * side].astype(float).reshape(side, 8, side, 8).transpose(0, 2, 1, 3)
        - 128
    )
    waves = dctn(blocks, axes=(2, 3), norm="ortho")
    counted = [
        np.histogram(np.abs(waves[:, :, u, v]), bins=np.arange(26) - 0.5)[0] for u, v in WAVES
    ]
    return np.concatenate(counted) / side**2


def read_after(folder, change, tmp_path):
    """How often a regression on histograms is right about the class, after a change and another
    compression.
    """
    rows = []
    classes = []
    for path in sorted(folder.rglob("*.jpg")):
        changed = change(Image.open(path))
        again = tmp_path / f"again{changed[1]}"
        again.write_bytes(encode(np.asarray(changed[0])[..., None], changed[1], quality=90))
        rows.append(histograms(decode(again, channels=1)[..., 0]))
        classes.append(path.parent.name)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.05, max_iter=500))
    return cross_val_score(model, np.array(rows), classes, cv=4).mean()


def test_another_compression_keeps_the_trace_and_shrinking_to_half_removes_most_of_it(
    compressed, tmp_path
):
    half = SIZE // 2
    assert read_after(compressed, lambda image: (image, ".png"), tmp_path) > 0.95
    assert read_after(compressed, lambda image: (image, ".jpg"), tmp_path) > 0.95
    assert (
        read_after(compressed, lambda image: (image.resize((half, half)), ".jpg"), tmp_path) < 0.7
    )


def test_the_note_about_the_quality_does_not_name_another_compression_as_a_remedy(compressed):
    folder = open_images(compressed)
    said = files_tell(folder, folder.column("label"))
    assert "the JPEG quality of the images tell the secret" in said
    assert "that --png and --quality do not remove" in said
    assert "bring all images to one size" not in said
