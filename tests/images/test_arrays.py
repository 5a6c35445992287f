"""Images in NumPy files, and images decoded once."""

import tempfile

import numpy as np
import pytest
from PIL import Image

from lowtide.errors import LowtideError
from lowtide.images.archive import open_npz
from lowtide.images.dataset import open_images
from lowtide.images.encoder import Stack
from lowtide.images.folder import cached

RNG = np.random.default_rng(5)
BYTES = RNG.integers(0, 256, (7, 6, 8, 3), dtype=np.uint8)
SMILE = np.arange(7) % 2


def npz(tmp_path, save=np.savez, **arrays):
    path = tmp_path / "faces.npz"
    save(path, **arrays)
    return path


def everything(folder):
    return folder.read(np.arange(len(folder)))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("key", ["images", "X"])
def test_bytes_and_labels(tmp_path, save, key):
    words = np.array(list("abcdefg"))
    path = npz(
        tmp_path,
        save,
        **{key: BYTES},
        smile=SMILE,
        word=words,
        code=words.astype("S1"),
        mean=np.zeros(3),
    )
    folder = open_images(path)
    assert (folder.layout, folder.shape) == ("npz", (6, 8, 3))
    assert folder.names == tuple("0123456")
    assert set(folder.columns) == {"smile", "word", "code"}
    assert folder.column("code").tolist() == list("abcdefg")
    np.testing.assert_array_equal(folder.column("smile"), SMILE)
    np.testing.assert_array_equal(everything(folder), BYTES)
    np.testing.assert_array_equal(everything(folder.take(np.array([5, 1]))), BYTES[[5, 1]])
    assert folder.skipped.reasons == {"arrays that are not labels": ("mean",)}
    with pytest.raises(LowtideError, match="1 arrays that are not labels"):
        open_images(path, strict=True)


def test_arrays_that_name_splits_and_images(tmp_path):
    split = np.array(["train"] * 5 + ["test"] * 2)
    names = np.array([f"face {number}" for number in range(7)])
    folder = open_images(npz(tmp_path, images=BYTES, split=split, file_name=names))
    assert folder.split.tolist() == split.tolist()
    assert folder.names == tuple(names)
    with pytest.raises(LowtideError, match="some names more than once"):
        open_images(npz(tmp_path, images=BYTES, file_name=np.array(["a"] * 7)))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_floats_from_zero_to_one(tmp_path, kind):
    folder = open_images(npz(tmp_path, X=(BYTES[..., 0] / 255).astype(kind)))
    assert folder.shape == (6, 8, 1)
    np.testing.assert_array_equal(everything(folder)[..., 0], BYTES[..., 0])


def test_grey_and_resized(tmp_path):
    folder = open_images(npz(tmp_path, images=BYTES), grey=True, resize=(4, 5))
    assert folder.shape == (5, 4, 1)
    want = Image.fromarray(BYTES[3]).convert("L").resize((4, 5), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(folder.read(np.array([3]))[0, ..., 0], np.array(want))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_large_files_are_mapped_and_leave_nothing_behind(tmp_path, monkeypatch, save):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    images = open_npz(npz(tmp_path, save, images=BYTES), limit_bytes=100).images
    assert isinstance(images.array, np.memmap)
    np.testing.assert_array_equal(images.read(np.array([6, 0])), BYTES[[6, 0]])
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"faces": BYTES}, "no array `images` or `X`"),
        ({"images": BYTES, "who": np.array([{}] * 7)}, "Python objects, which are never loaded"),
        (
            {"images": np.array([BYTES[0], None], dtype=object)},
            "Python objects, which are never loaded",
        ),
        ({"images": BYTES.reshape(7, -1)}, r"shape \(7, 144\); images have"),
        ({"images": np.zeros((3, 4, 4, 4), np.uint8)}, r"1 or 3"),
        ({"images": BYTES[:0]}, "shape"),
        ({"images": BYTES.astype(np.int64)}, r"type int64; images are bytes"),
        ({"images": BYTES.astype(float)}, r"floats outside \[0, 1\]"),
        ({"images": np.full((2, 3, 3), np.nan)}, r"floats outside \[0, 1\]"),
        ({"images": BYTES, "z": SMILE * 1j}, "neither numbers nor texts"),
    ],
)
def test_arrays_that_are_refused(tmp_path, arrays, match):
    with pytest.raises(LowtideError, match=match):
        open_images(npz(tmp_path, **arrays))


def test_files_that_are_damaged(tmp_path):
    path = npz(tmp_path, np.savez_compressed, images=BYTES)
    content = path.read_bytes()
    for broken in (content[:200], b"text", content[:100] + bytes(60) + content[160:]):
        path.write_bytes(broken)
        with pytest.raises(LowtideError, match=r"damaged, cut short or not an .npz file"):
            open_images(path)
    with pytest.raises(LowtideError, match="no file"):
        open_images(tmp_path / "nothing.npz")


@pytest.fixture
def files(tmp_path):
    for number, pixels in enumerate(BYTES):
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    return open_images(tmp_path)


def test_cached_in_memory(files, tmp_path):
    kept = cached(files)
    for path in tmp_path.glob("*.png"):
        path.unlink()
    np.testing.assert_array_equal(everything(kept), BYTES)
    assert cached(kept) is kept


def test_cached_on_disk_without_a_trace(files, tmp_path):
    place = tmp_path / "cache"
    place.mkdir()
    kept = cached(files, 100, folder=str(place))
    assert isinstance(kept, Stack)
    assert isinstance(kept.pixels, np.memmap)
    np.testing.assert_array_equal(kept.read(np.array([6, 2])), BYTES[[6, 2]])
    assert list(place.iterdir()) == []


def test_not_cached_when_nothing_fits(files, monkeypatch):
    usage = type("Usage", (), {"free": 500, "total": 1000})()
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    assert cached(files, 100) is files
    usage.free = 10**9
    assert cached(files, 100) is not files


def test_arrays_are_not_cached_twice(tmp_path):
    folder = open_images(npz(tmp_path, images=BYTES))
    assert cached(folder) is folder
    grey = open_images(npz(tmp_path, images=BYTES), grey=True)
    assert cached(grey) is not grey
