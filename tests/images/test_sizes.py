"""Limits on images: checked on headers, before anything is decoded, unpacked or held in memory."""

import io
import struct
import zipfile

import numpy as np
import pytest
from PIL import Image

from lowtide.errors import LowtideError
from lowtide.images.archive import open_npz
from lowtide.images.dataset import open_dataset, open_images
from lowtide.images.options import ImageOptions, check_pixels


def npy(header):
    """The bytes of an array file with any header and no data."""
    text = header.encode()
    text += b" " * (64 - (len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def saved(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def archive(path, **members):
    labels = saved(np.array(["a", "b"] * 20))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in {"label": labels, **members}.items():
            packed.writestr(f"{name}.npy", content)
    return path


def declared(shape, kind="|u1"):
    return npy(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"images": declared((1_000_000, 100_000, 1000))}, "damaged"),
        ({"images": declared((2**62, 8, 8))}, "damaged"),
        ({"images": declared((-1, 8, 8))}, "damaged"),
        (
            {"images": saved(np.zeros((40, 8, 8), np.uint8)), "label": declared((10**11,))},
            "damaged",
        ),
        (
            {
                "images": saved(np.zeros((40, 8, 8), np.uint8)),
                "label": declared((40,), "<U1000000"),
            },
            "damaged",
        ),
        (
            {"images": saved(np.zeros((40, 8, 8), np.uint8)), "label": declared((40,), "|O")},
            "Python objects",
        ),
        (
            {
                "images": saved(np.zeros((40, 8, 8), np.uint8)),
                "label": saved(np.array([b"\xff"] * 40)),
            },
            "neither",
        ),
        ({"images": b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 16}, "damaged"),
        ({"images": b"hello"}, "damaged"),
    ],
)
def test_headers_that_say_more_than_the_file_holds_are_refused(members, said, tmp_path):
    with pytest.raises(LowtideError, match=said):
        open_npz(archive(tmp_path / "x.npz", **members))


def test_a_small_archive_of_huge_images_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed,
        packed.open("images.npy", "w") as file,
    ):
        file.write(declared((8, 2048, 2048)))
        for _ in range(32):
            file.write(bytes(1 << 20))
    assert path.stat().st_size < 100_000
    with pytest.raises(LowtideError, match=r"2,048×2,048 pixels is too large.*--resize"):
        open_npz(path)


def test_images_too_large_to_be_judged_are_refused_unless_resized(tmp_path):
    for k in range(4):
        folder = tmp_path / "ab"[k % 2]
        folder.mkdir(exist_ok=True)
        Image.new("1", (4000, 3000), k % 2).save(folder / f"{k}.png")
    with pytest.raises(LowtideError, match=r"4,000×3,000 pixels is too large; at most 1,048,576"):
        open_images(tmp_path, thorough=True)
    assert open_images(tmp_path, resize=(8, 6), thorough=True).shape[:2] == (6, 8)


def test_a_huge_size_to_resize_to_is_refused():
    for size in ("100000x100000", "99999999999999999999x2", "1025x1024"):
        with pytest.raises(LowtideError, match="too large"):
            ImageOptions(resize=size).size  # noqa: B018 - it is the reading that refuses
    assert ImageOptions(resize="1024x1024").size == (1024, 1024)


def test_too_many_pixels_in_all_are_refused():
    check_pixels(178, 218, 202_599)  # CelebA
    with pytest.raises(LowtideError, match="1,000,000 images of 512×512 pixels are too many"):
        check_pixels(512, 512, 1_000_000)
    huge = np.broadcast_to(np.zeros(1, np.uint8), (4, 13_000, 13_000))
    with pytest.raises(LowtideError, match="13,000×13,000"):
        open_dataset(huge, np.array([0, 1, 0, 1]), ImageOptions(), progress=False)
