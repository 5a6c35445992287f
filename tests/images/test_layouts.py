"""Every layout gives the same images and labels, and says what it had to leave out."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from lowtide.errors import LowtideError
from lowtide.images.dataset import open_images
from lowtide.images.encoder import Images
from lowtide.verbs import kind_of


def image(path, value=0, size=(8, 6), mode="RGB"):
    """An image of one brightness, by which it is told from others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value,) * 3).save(path)


def shades(folder):
    return folder.read(np.arange(len(folder)))[:, 0, 0, 0].tolist()


def faces(root, n=5):
    """Images in a folder beside a table of labels."""
    for number in range(n):
        image(root / "files" / f"{number + 1}.png", number)
    rows = "".join(f"files/{number + 1}.png,{number % 2},0.{number}\n" for number in range(n))
    (root / "metadata.csv").write_text("file_name,smile,yaw\n" + rows)
    return root


def test_a_folder_per_class(tmp_path):
    for number, name in enumerate(["no/a.png", "no/deep/b.png", "yes/a.png"]):
        image(tmp_path / name, number)
    folder = open_images(tmp_path)
    assert isinstance(folder, Images)
    assert (folder.layout, folder.shape, len(folder)) == ("classes", (6, 8, 3), 3)
    assert folder.names == ("no/a.png", "no/deep/b.png", "yes/a.png")
    assert folder.column("label").tolist() == ["no", "no", "yes"]
    assert folder.split is None
    assert shades(folder) == [0, 1, 2]


def test_a_folder_per_class_below_a_folder_per_split(tmp_path):
    for name in ("train/no/a.png", "train/yes/b.png", "test/yes/a.png"):
        image(tmp_path / name)
    folder = open_images(tmp_path)
    assert folder.names == ("test/yes/a.png", "train/no/a.png", "train/yes/b.png")
    assert folder.column("label").tolist() == ["yes", "no", "yes"]
    assert folder.split.tolist() == ["test", "train", "train"]


def test_images_without_labels(tmp_path):
    image(tmp_path / "b.png", 1)
    image(tmp_path / "a.png", 0)
    folder = open_images(tmp_path)
    assert (folder.layout, folder.columns, shades(folder)) == ("plain", (), [0, 1])
    assert len(folder.take(np.array([1]))) == 1
    with pytest.raises(
        LowtideError,
        match=r"no column 'smile'.*without labels; add a metadata.csv with the columns",
    ):
        folder.column("smile")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_metadata_with_file_names(tmp_path, suffix):
    for number, name in enumerate(["x/b.png", "a.png"]):
        image(tmp_path / name, number)
    path = tmp_path / f"metadata.{suffix}"
    if suffix == "csv":
        path.write_text("smile,file_name,zip\nyes,./x/b.png,010\nno,a.png,\n")
    elif suffix == "jsonl":
        path.write_text(
            '{"file_name": "x/b.png", "smile": "yes", "zip": "010"}\n{"file_name": "a.png",'
            ' "smile": "no"}\n'
        )
    else:
        pq.write_table(
            pa.table(
                {"file_name": ["x/b.png", "a.png"], "smile": ["yes", "no"], "zip": ["010", None]}
            ),
            path,
        )
    folder = open_images(tmp_path, strict=True)
    assert (folder.layout, folder.names) == ("metadata", ("a.png", "x/b.png"))
    assert folder.column("smile").tolist() == ["no", "yes"]
    assert folder.column("zip").tolist() == [None, "010"]
    assert folder.known("zip").tolist() == [False, True]
    assert shades(folder) == [1, 0]


def test_metadata_in_the_folder_of_every_split(tmp_path):
    for number, split in enumerate(["train", "test"]):
        image(tmp_path / split / "a.png", number)
        (tmp_path / split / "metadata.csv").write_text(f"file_name,age\na.png,{number}\n")
    folder = open_images(tmp_path, strict=True)
    assert folder.names == ("test/a.png", "train/a.png")
    assert folder.split.tolist() == ["test", "train"]
    assert folder.column("age").tolist() == [1, 0]


def test_label_files_do_not_make_a_folder_of_images_one_of_texts(tmp_path):
    faces(tmp_path / "faces")
    (tmp_path / "faces" / "labels.txt").write_text("1 0.1\n" * 5)
    assert kind_of(tmp_path / "faces", "scan", {}).name == "images"
    assert not open_images(tmp_path / "faces").skipped
    (tmp_path / "mails" / "spam").mkdir(parents=True)
    (tmp_path / "mails" / "spam" / "1.txt").write_text("buy now")
    (tmp_path / "mails" / "metadata.csv").write_text("file_name,spam\nspam/1.txt,1\n")
    assert kind_of(tmp_path / "mails", "scan", {}).name == "texts"


def test_a_split_file_beside_the_images(tmp_path):
    faces(tmp_path)
    rows = "".join(f"files/{i + 1}.png,{'train' if i < 3 else 'test'}\n" for i in range(4))
    (tmp_path / "split.csv").write_text("file,split\n" + rows)
    folder = open_images(tmp_path, strict=True)
    assert folder.split.tolist() == ["train", "train", "train", "test", None]
    assert "split: 3 train, 1 test, 1 without" in folder.describe()
    test = folder.take(folder.split == "test")
    assert (test.names, shades(test)) == (("files/4.png",), [3])


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("image,split\na,b\n", "must have the columns file and split"),
        ("file,part\nfiles/1.png,train\n", "no column 'split'"),
        ("file,split\nfiles/1.png,train\nfiles/1.png,test\n", "more than once"),
        ("file,split\nface1.png,train\n", "names none of the images"),
    ],
)
def test_split_files_that_do_not_fit(tmp_path, text, match):
    faces(tmp_path)
    (tmp_path / "split.csv").write_text(text)
    with pytest.raises(LowtideError, match=match):
        open_images(tmp_path)


def test_taking_some_keeps_names_labels_and_pixels_together(tmp_path):
    folder = open_images(faces(tmp_path, 9))
    some = folder.take(np.array([7, 2, 5])).take(np.array([2, 0]))
    assert shades(some) == [5, 7]
    np.testing.assert_allclose(some.column("yaw"), [0.5, 0.7])
    assert some.names == ("files/6.png", "files/8.png")
    assert some.read(np.array([], np.intp)).shape == (0, 6, 8, 3)


def test_the_description_names_layout_and_counts(tmp_path):
    faces(tmp_path)
    (tmp_path / "files" / "3.png").write_text("text")
    folder = open_images(tmp_path)
    assert folder.describe() == (
        "4 colour images of 8×6 in a folder with metadata",
        "labels: smile, yaw",
        "skipped: 1 not a JPEG, PNG, WebP, BMP or TIFF image (3.png)",
    )
