"""Folders as they are in real life: what is skipped is counted, and what is refused has a
remedy.
"""

import os

import numpy as np
import pytest
from PIL import Image

from lowtide.errors import LowtideError
from lowtide.images.dataset import open_images
from lowtide.images.files import NOT_AN_IMAGE, encode

NOISE = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)


def save(path, size=(32, 32), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size).save(path)


@pytest.fixture
def messy(tmp_path):
    """Two good images among everything that goes wrong."""
    save(tmp_path / "no" / "good.jpg")
    save(tmp_path / "yes" / "good.png")
    save(tmp_path / "alone.png")
    (tmp_path / "no" / "cut.jpg").write_bytes(encode(NOISE, ".jpg")[:900])
    (tmp_path / "no" / "notes.txt").write_text("hello")
    (tmp_path / "yes" / "text.png").write_text("hello")
    (tmp_path / "yes" / ".hidden.png").write_text("hello")
    (tmp_path / "yes" / "Thumbs.db").write_text("hello")
    (tmp_path / "README.md").write_text("about these images")
    return tmp_path


def test_unreadable_files_are_skipped_and_counted(messy):
    folder = open_images(messy)
    assert folder.names == ("no/good.jpg", "yes/good.png")
    assert folder.skipped.reasons == {
        "without a label": ("alone.png",),
        NOT_AN_IMAGE: ("no/notes.txt", "yes/text.png"),
        "damaged or cut short": ("no/cut.jpg",),
    }
    assert len(folder.skipped) == 4
    assert folder.describe()[-1].startswith(
        f"skipped: 1 without a label (alone.png); 2 {NOT_AN_IMAGE} (notes.txt, text.png); 1 damaged"
    )


def test_unreadable_files_are_refused_when_strict(messy):
    with pytest.raises(
        LowtideError, match=r"1 damaged or cut short .cut.jpg.; mend or remove them"
    ) as caught:
        open_images(messy, strict=True)
    assert "no/" not in str(caught.value).replace(
        str(messy), ""
    )  # the class of an image is not told
    for name in ("alone.png", "no/cut.jpg", "no/notes.txt", "yes/text.png"):
        (messy / name).unlink()
    assert len(open_images(messy, strict=True)) == 2


def test_labels_without_files_and_files_without_labels(tmp_path):
    for name in ("a.png", "b.png"):
        save(tmp_path / name)
    (tmp_path / "metadata.csv").write_text("file_name,smile\na.png,1\nc.png,0\n")
    folder = open_images(tmp_path)
    assert folder.names == ("a.png",)
    assert folder.skipped.reasons == {
        "without a label": ("b.png",),
        "named in the labels, but not there": ("c.png",),
    }
    with pytest.raises(LowtideError, match=r"1 without a label \(b.png\)"):
        open_images(tmp_path, strict=True)


def test_a_folder_without_a_usable_image_is_refused(tmp_path):
    (tmp_path / "a.png").write_text("text")
    with pytest.raises(LowtideError, match="no image that can be used; 1 not a JPEG, PNG"):
        open_images(tmp_path)
    (tmp_path / "metadata.csv").write_text("file_name,smile\nc.png,0\n")
    with pytest.raises(
        LowtideError, match=r"no image that can be used; 1 without a label .*1 named in the labels"
    ):
        open_images(tmp_path)


def test_a_folder_without_images_is_refused(tmp_path):
    with pytest.raises(LowtideError, match=r"holds no images .*; give a folder per class"):
        open_images(tmp_path)
    with pytest.raises(LowtideError, match=r"not a folder of images or an .npz file; check"):
        open_images(tmp_path / "nowhere")
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(LowtideError, match=r"not a folder of images or an .npz file; check"):
        open_images(tmp_path / "a.csv")


def test_mixed_sizes_are_named_and_can_be_resized(tmp_path):
    for number, size in enumerate([(32, 24)] * 3 + [(16, 16)] * 2 + [(5, 5), (6, 6)]):
        save(tmp_path / f"{number}.png", size)
    with pytest.raises(
        LowtideError,
        match=r"32×24 \(3\), 16×16 \(2\), 5×5 \(1\) and 1 more sizes; .*--resize 32x24",
    ):
        open_images(tmp_path)
    folder = open_images(tmp_path, resize=(10, 20))
    assert folder.shape == (20, 10, 3)
    assert folder.read(np.arange(7)).shape == (7, 20, 10, 3)
    with pytest.raises(LowtideError, match="width to resize to must be at least 1"):
        open_images(tmp_path, resize=(0, 20))


def test_mixed_numbers_of_channels_become_rgb(tmp_path):
    save(tmp_path / "a.png", mode="L")
    save(tmp_path / "b.jpg", mode="L")
    assert open_images(tmp_path).shape == (32, 32, 1)
    save(tmp_path / "c.png", mode="RGBA")
    folder = open_images(tmp_path)
    assert folder.shape == (32, 32, 3)
    assert folder.read(np.arange(3)).shape == (3, 32, 32, 3)
    grey = open_images(tmp_path, grey=True)
    assert grey.shape == (32, 32, 1)
    assert grey.read(np.arange(3)).max(axis=(1, 2, 3)).tolist() == [
        0,
        0,
        255,
    ]  # the last is transparent: white


def test_damage_behind_an_intact_header_is_found(tmp_path):
    content = bytearray(encode(NOISE, ".png"))
    content[1000:1100] = bytes(100)
    (tmp_path / "a.png").write_bytes(content)
    save(tmp_path / "b.png")
    folder = open_images(tmp_path)
    assert len(folder) == 2
    with pytest.raises(LowtideError, match=r"a.png is damaged or cut short, .*thorough=True"):
        folder.read(np.arange(2))
    folder = open_images(tmp_path, thorough=True)
    assert folder.names == ("b.png",)
    assert folder.skipped.reasons == {"damaged or cut short": ("a.png",)}


def test_files_that_change_after_opening(tmp_path):
    save(tmp_path / "a.png")
    folder = open_images(tmp_path)
    save(tmp_path / "a.png", (8, 8))
    with pytest.raises(LowtideError, match=r"a.png is not of the size it had"):
        folder.read(np.array([0]))
    (tmp_path / "a.png").unlink()
    with pytest.raises(LowtideError, match=r"a.png is not readable"):
        folder.read(np.array([0]))


@pytest.mark.parametrize("name", ["../a.png", "/etc/a.png", "x/../../a.png", ""])
def test_metadata_must_stay_in_its_folder(tmp_path, name):
    save(tmp_path / "set" / "b.png")
    save(tmp_path / "a.png")
    (tmp_path / "set" / "metadata.csv").write_text(f"file_name,smile\n{name},1\nb.png,0\n")
    with pytest.raises(LowtideError, match="empty or leaves the folder"):
        open_images(tmp_path / "set")


def test_metadata_that_does_not_fit(tmp_path):
    save(tmp_path / "a.png")
    (tmp_path / "metadata.csv").write_text("filename,smile\na.png,1\n")
    with pytest.raises(LowtideError, match="no column 'file_name'; did you mean 'filename'"):
        open_images(tmp_path)
    (tmp_path / "metadata.csv").write_text("file_name,smile\na.png,1\na.png,0\n")
    with pytest.raises(LowtideError, match=r"name 1 file.s. more than once"):
        open_images(tmp_path)


def test_a_secret_that_is_nearly_right(tmp_path):
    save(tmp_path / "a.png")
    (tmp_path / "metadata.csv").write_text("file_name,Smiling,Male\na.png,1,0\n")
    folder = open_images(tmp_path)
    with pytest.raises(LowtideError, match="no column 'smilling'; did you mean 'Smiling'"):
        folder.column("smilling")
    with pytest.raises(LowtideError, match="the columns are 'Smiling', 'Male'"):
        folder.column("zzz")


def test_a_decompression_bomb_is_skipped(tmp_path, monkeypatch):
    save(tmp_path / "a.png")
    save(tmp_path / "b.png", (400, 400))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2000)
    assert open_images(tmp_path).names == ("a.png",)


def test_links_are_followed_but_not_in_circles(tmp_path):
    save(tmp_path / "elsewhere" / "a.png")
    save(tmp_path / "set" / "no" / "a.png")
    (tmp_path / "set" / "yes").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "set" / "no" / "up").symlink_to(tmp_path / "set")
    assert open_images(tmp_path / "set").names == ("no/a.png", "yes/a.png")


def test_a_folder_that_cannot_be_listed_is_not_left_out_in_silence(tmp_path, monkeypatch):
    save(tmp_path / "no" / "a.png")
    save(tmp_path / "yes" / "a.png")
    scan = os.scandir

    def refuse(place):
        if str(place).endswith("yes"):
            raise PermissionError(13, "Permission denied", str(place))
        return scan(place)

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(
        LowtideError, match=r"cannot read the folder .*yes: Permission denied; check"
    ):
        open_images(tmp_path)
