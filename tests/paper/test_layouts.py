"""GENKI-4K and CelebA as they are distributed: labels go to the right images, and to a table that
every verb reads.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import face_labels
from lowtide.errors import LowtideError
from lowtide.images.alignment import Alignment
from lowtide.images.dataset import open_images
from paper import layouts

DATA = os.environ.get("LOWTIDE_DATA")


def image(path, value=0):
    """An image of one brightness, by which it is told from others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), (value,) * 3).save(path)


def shades(folder):
    return folder.read(np.arange(len(folder)))[:, 0, 0, 0].tolist()


def opened(root, **options):
    return open_images(root, listing=layouts.read(root), **options)


def genki(root, n=5, labels=None):
    for number in range(n):
        image(root / "files" / f"file{number + 1:04}.png", number)
    lines = (
        [f"{number % 2} 0.{number} -0.25 1e-3\n" for number in range(n)]
        if labels is None
        else labels
    )
    (root / "labels.txt").write_text("".join(lines))
    return root


def celeba(root, n=5, folder="img_align_celeba"):
    for number in range(n):
        image(root / folder / f"{number + 1:06}.png", number)
    rows = "".join(f"{number + 1:06}.png {1 - 2 * (number % 2):2d}  1\n" for number in range(n))
    (root / "list_attr_celeba.txt").write_text(f"{n}\nSmiling Male\n{rows}")
    (root / "list_eval_partition.txt").write_text(
        "".join(f"{i + 1:06}.png {i % 3}\n" for i in range(n))
    )
    return root


def test_genki_as_it_comes(tmp_path):
    folder = opened(genki(tmp_path), strict=True)
    assert folder.columns == ("smile", "yaw", "pitch", "roll")
    assert folder.names[0] == "files/file0001.png"
    assert folder.column("smile").tolist() == [0, 1, 0, 1, 0]
    np.testing.assert_allclose(folder.column("yaw"), [0.0, 0.1, 0.2, 0.3, 0.4])
    assert shades(folder) == [0, 1, 2, 3, 4]


def test_genki_with_a_missing_file_is_not_shifted(tmp_path):
    genki(tmp_path)
    (tmp_path / "files" / "file0002.png").unlink()
    folder = opened(tmp_path)
    np.testing.assert_allclose(folder.column("yaw"), [0.0, 0.2, 0.3, 0.4])
    assert shades(folder) == [0, 2, 3, 4]
    assert folder.skipped.reasons == {"named in the labels, but not there": ("labels.txt, line 2",)}


def test_genki_with_a_missing_line_leaves_files_without_labels(tmp_path):
    genki(tmp_path, labels=["1 0 0 0\n"] * 4)
    folder = opened(tmp_path)
    assert len(folder) == 4
    assert folder.skipped.reasons == {"without a label": ("files/file0005.png",)}


def test_genki_is_not_guessed_at(tmp_path):
    genki(tmp_path)
    (tmp_path / "files" / "file0002.png").rename(tmp_path / "files" / "second.png")
    image(tmp_path / "files" / "more.png")
    with pytest.raises(
        LowtideError, match="5 lines for 6 images, whose names do not say which line"
    ):
        opened(tmp_path)


@pytest.mark.parametrize("line", ["1 0 0\n", "1 0 0 zarquon\n", "\n"])
def test_genki_labels_that_are_not_numbers_are_refused(tmp_path, line):
    genki(tmp_path, labels=["1 0 0 0\n", line, "1 0 0 0\n"])
    with pytest.raises(LowtideError, match=r"line 2 of .*labels.txt is not four numbers") as caught:
        opened(tmp_path)
    assert "zarquon" not in str(caught.value)


def test_celeba_as_it_comes(tmp_path):
    folder = opened(celeba(tmp_path), strict=True)
    assert folder.columns == ("Smiling", "Male", "split")
    assert folder.column("Smiling").tolist() == [1, -1, 1, -1, 1]
    assert folder.split.tolist() == ["train", "valid", "test", "train", "valid"]
    assert shades(folder) == [0, 1, 2, 3, 4]


def test_celeba_as_kaggle_packs_it(tmp_path):
    celeba(tmp_path, folder="img_align_celeba/img_align_celeba")
    for name in ("list_attr_celeba", "list_eval_partition"):
        (tmp_path / f"{name}.txt").unlink()
    rows = "".join(f"{i + 1:06}.png,{1 - 2 * (i % 2)}\n" for i in range(5))
    (tmp_path / "list_attr_celeba.csv").write_text(f"image_id,Smiling\n{rows}")
    rows = "".join(f"{i + 1:06}.png,{i % 3}\n" for i in range(5))
    (tmp_path / "list_eval_partition.csv").write_text(f"image_id,partition\n{rows}")
    folder = opened(tmp_path, strict=True)
    assert folder.names[0] == "img_align_celeba/img_align_celeba/000001.png"
    assert folder.column("Smiling").tolist() == [1, -1, 1, -1, 1]
    assert folder.split.tolist() == ["train", "valid", "test", "train", "valid"]


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("list_attr_celeba.txt", "Smiling\na.png 1\n", "must start with a count"),
        ("list_attr_celeba.txt", "1\nSmiling Male\n000001.png 1\n", "line 3 .* 2 whole numbers"),
        ("list_attr_celeba.txt", "1\nSmiling\n000001.png 1.5\n", "line 3 .* 1 whole numbers"),
        ("list_attr_celeba.txt", "1\nSmiling Smiling\n000001.png 1 1\n", "attributes of one name"),
        ("list_eval_partition.txt", "000001.png 0\n000002.png 7\n", "row 2 .* 0, 1 or 2"),
    ],
)
def test_celeba_with_broken_lists(tmp_path, name, text, match):
    celeba(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(LowtideError, match=match):
        opened(tmp_path)


def test_a_split_file_beside_genki_is_relative_to_its_images(tmp_path):
    genki(tmp_path)
    (tmp_path / "split.csv").write_text("file,split\nfile0001.png,train\nfile0002.png,test\n")
    assert opened(tmp_path).split.tolist() == ["train", "test", None, None, None]


@pytest.mark.parametrize("layout", [genki, celeba])
def test_the_table_beside_the_images_is_read_by_every_verb(layout, tmp_path, monkeypatch, capsys):
    before = opened(layout(tmp_path))
    monkeypatch.setattr("sys.argv", ["face_labels", "--data", str(tmp_path)])
    face_labels.main()
    assert "metadata.csv" in capsys.readouterr().out
    after = open_images(tmp_path, strict=True)
    assert (after.layout, after.names, after.columns) == ("metadata", before.names, before.columns)
    for name in before.columns:
        np.testing.assert_array_equal(after.column(name), before.column(name))


def test_another_folder_is_refused(tmp_path):
    assert layouts.read(tmp_path) is None
    with pytest.raises(LowtideError, match=r"neither GENKI-4K .* nor CelebA"):
        layouts.write_metadata(tmp_path)


def test_the_landmarks_and_boxes_of_celeba_are_columns(tmp_path):
    root = tmp_path / "celeba"
    (root / "img_align_celeba").mkdir(parents=True)
    for number in (1, 2):
        Image.new("RGB", (178, 218)).save(root / "img_align_celeba" / f"{number:06}.jpg")
    (root / "list_attr_celeba.txt").write_text("2\nSmiling\n000001.jpg 1\n000002.jpg -1\n")
    (root / "list_landmarks_align_celeba.txt").write_text(
        "2\nlefteye_x lefteye_y righteye_x righteye_y\n000001.jpg 69 109 106 113\n000002.jpg 69 110"
        " 107 112\n"
    )
    (root / "list_bbox_celeba.txt").write_text(
        "1\nimage_id x_1 y_1 width height\n000001.jpg 95 71 226 313\n"
    )
    found = opened(root)
    assert found.column("lefteye_x").tolist() == [69, 69]
    assert found.column("w").tolist()[0] == 226
    with pytest.raises(LowtideError, match="1 of 2 images have no box"):
        Alignment.of(found, "box")
    assert len(Alignment.of(found, "landmarks")[1]) == 2


@pytest.mark.parametrize(
    ("name", "secret", "count"), [("genki4k", "smile", 4000), ("celeba", "Smiling", 5000)]
)
def test_real_labels(name, secret, count):
    place = None if DATA is None else Path(DATA) / name
    if place is None or not place.is_dir():
        pytest.skip(f"$LOWTIDE_DATA does not hold {name}")
    listing = layouts.read(place)
    assert len(listing.names) == count
    assert not listing.left_out
    assert len(set(listing.labels[secret].to_pylist())) == 2
    assert set(listing.labels["split"].to_pylist()) >= {"train", "test"}
