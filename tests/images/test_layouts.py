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


def genki(root, n=5, labels=None):
    for number in range(n):
        image(root / "files" / f"file{number + 1:04}.png", number)
    lines = [f"{number % 2} 0.{number} -0.25 1e-3\n" for number in range(n)] if labels is None else labels
    (root / "labels.txt").write_text("".join(lines))
    return root


def celeba(root, n=5, folder="img_align_celeba"):
    for number in range(n):
        image(root / folder / f"{number + 1:06}.png", number)
    rows = "".join(f"{number + 1:06}.png {1 - 2 * (number % 2):2d}  1\n" for number in range(n))
    (root / "list_attr_celeba.txt").write_text(f"{n}\nSmiling Male\n{rows}")
    (root / "list_eval_partition.txt").write_text("".join(f"{i + 1:06}.png {i % 3}\n" for i in range(n)))
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
    with pytest.raises(LowtideError, match=r"no column 'smile'.*without labels; add a metadata.csv with the columns"):
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
            '{"file_name": "x/b.png", "smile": "yes", "zip": "010"}\n{"file_name": "a.png", "smile": "no"}\n'
        )
    else:
        pq.write_table(
            pa.table({"file_name": ["x/b.png", "a.png"], "smile": ["yes", "no"], "zip": ["010", None]}), path
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


def test_genki_as_it_comes(tmp_path):
    folder = open_images(genki(tmp_path), strict=True)
    assert (folder.layout, folder.columns) == ("genki", ("smile", "yaw", "pitch", "roll"))
    assert folder.names[0] == "files/file0001.png"
    assert folder.column("smile").tolist() == [0, 1, 0, 1, 0]
    np.testing.assert_allclose(folder.column("yaw"), [0.0, 0.1, 0.2, 0.3, 0.4])
    assert shades(folder) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("layout", [genki, celeba])
def test_label_files_do_not_make_a_folder_of_images_one_of_texts(layout, tmp_path):
    assert kind_of(layout(tmp_path / "faces"), "scan", {}).name == "images"
    (tmp_path / "mails" / "spam").mkdir(parents=True)
    (tmp_path / "mails" / "spam" / "1.txt").write_text("buy now")
    (tmp_path / "mails" / "metadata.csv").write_text("file_name,spam\nspam/1.txt,1\n")
    assert kind_of(tmp_path / "mails", "scan", {}).name == "texts"


def test_genki_with_a_missing_file_is_not_shifted(tmp_path):
    genki(tmp_path)
    (tmp_path / "files" / "file0002.png").unlink()
    folder = open_images(tmp_path)
    np.testing.assert_allclose(folder.column("yaw"), [0.0, 0.2, 0.3, 0.4])
    assert shades(folder) == [0, 2, 3, 4]
    assert folder.skipped.reasons == {"named in the labels, but not there": ("labels.txt, line 2",)}


def test_genki_with_a_missing_line_leaves_files_without_labels(tmp_path):
    genki(tmp_path, labels=["1 0 0 0\n"] * 4)
    folder = open_images(tmp_path)
    assert len(folder) == 4
    assert folder.skipped.reasons == {"without a label": ("files/file0005.png",)}


def test_genki_is_not_guessed_at(tmp_path):
    genki(tmp_path)
    (tmp_path / "files" / "file0002.png").rename(tmp_path / "files" / "second.png")
    image(tmp_path / "files" / "more.png")
    with pytest.raises(LowtideError, match="5 lines for 6 images, whose names do not say which line"):
        open_images(tmp_path)


@pytest.mark.parametrize("line", ["1 0 0\n", "1 0 0 zarquon\n", "\n"])
def test_genki_labels_that_are_not_numbers_are_refused(tmp_path, line):
    genki(tmp_path, labels=["1 0 0 0\n", line, "1 0 0 0\n"])
    with pytest.raises(LowtideError, match=r"line 2 of .*labels.txt is not four numbers") as caught:
        open_images(tmp_path)
    assert "zarquon" not in str(caught.value)


def test_celeba_as_it_comes(tmp_path):
    folder = open_images(celeba(tmp_path), strict=True)
    assert (folder.layout, folder.columns) == ("celeba", ("Smiling", "Male", "split"))
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
    folder = open_images(tmp_path, strict=True)
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
        open_images(tmp_path)


def test_a_split_file_beside_the_images(tmp_path):
    genki(tmp_path)
    rows = "".join(f"file{i + 1:04}.png,{'train' if i < 3 else 'test'}\n" for i in range(4))
    (tmp_path / "split.csv").write_text("file,split\n" + rows)
    folder = open_images(tmp_path, strict=True)
    assert folder.split.tolist() == ["train", "train", "train", "test", None]
    assert "split: 3 train, 1 test, 1 without" in folder.describe()
    test = folder.take(folder.split == "test")
    assert (test.names, shades(test)) == (("files/file0004.png",), [3])


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("image,split\na,b\n", "must have the columns file and split"),
        ("file,part\nfile0001.png,train\n", "no column 'split'"),
        ("file,split\nfile0001.png,train\nfile0001.png,test\n", "more than once"),
        ("file,split\nface1.png,train\n", "names none of the images"),
    ],
)
def test_split_files_that_do_not_fit(tmp_path, text, match):
    genki(tmp_path)
    (tmp_path / "split.csv").write_text(text)
    with pytest.raises(LowtideError, match=match):
        open_images(tmp_path)


def test_taking_some_keeps_names_labels_and_pixels_together(tmp_path):
    folder = open_images(genki(tmp_path, 9))
    some = folder.take(np.array([7, 2, 5])).take(np.array([2, 0]))
    assert shades(some) == [5, 7]
    np.testing.assert_allclose(some.column("yaw"), [0.5, 0.7])
    assert some.names == ("files/file0006.png", "files/file0008.png")
    assert some.read(np.array([], np.intp)).shape == (0, 6, 8, 3)


def test_the_description_names_layout_and_counts(tmp_path):
    genki(tmp_path)
    (tmp_path / "files" / "file0003.png").write_text("text")
    folder = open_images(tmp_path)
    assert folder.describe() == (
        "4 colour images of 8×6 in GENKI-4K's layout",
        "labels: smile, yaw, pitch, roll",
        "skipped: 1 not a JPEG, PNG, WebP, BMP or TIFF image (file0003.png)",
    )
