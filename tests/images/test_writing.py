"""A release of images has the same paths, sizes and pixels, no secret, and appears whole or not at
all.
"""

import stat

import numpy as np
import pytest
from PIL import Image

from lowtide.errors import LowtideError
from lowtide.images.dataset import open_images
from lowtide.images.names import pair, read_mapping
from lowtide.images.writing import ImageWriter

RNG = np.random.default_rng(7)
SIZE = (6, 8, 3)
RAW = "Zarquon77"  # stands for what must not be told


def image(path, pixels=None, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RNG.integers(0, 256, SIZE, dtype=np.uint8) if pixels is None else pixels
    Image.fromarray(pixels).save(path, **options)


def everything(folder):
    return folder.read(np.arange(len(folder)))


def copy(source, target, *, batch=3, **options):
    """Write all images as they are, in batches of no particular order."""
    order = np.random.default_rng(0).permutation(len(source))
    with ImageWriter(target, source, **options) as writer:
        for start in range(0, len(source), batch):
            index = order[start : start + batch]
            writer.write(index, source.read(index))
    return open_images(target, strict=True)


def metadata(root, suffixes=("png", "webp", "bmp", "tif", "png"), form="csv"):
    names = [f"{'ab'[row % 2]}/{row}.{suffix}" for row, suffix in enumerate(suffixes)]
    for name in names:
        image(root / name, **({"lossless": True} if name.endswith("webp") else {}))
    if form == "csv":
        rows = "".join(f"{name},{row % 2},0{row}\n" for row, name in enumerate(names))
        (root / "metadata.csv").write_text("file_name,smile,zip\n" + rows)
    else:
        rows = "".join(
            f'{{"file_name": "{n}", "smile": {i % 2}, "zip": "0{i}"}}\n'
            for i, n in enumerate(names)
        )
        (root / "metadata.jsonl").write_text(rows)
    (root / "notes.md").write_text(RAW)
    return open_images(root)


def classes(root, n=6):
    for row in range(n):
        image(root / ("no" if row < n // 2 else "yes") / f"{row}.png")
    return open_images(root)


def npz(root, n=6):
    root.mkdir(parents=True)
    images = RNG.integers(0, 256, (n, *SIZE), dtype=np.uint8)
    np.savez(
        root / "faces.npz", X=images, smile=np.arange(n) // 3, word=np.array(list("abcdef")[:n])
    )
    return open_images(root / "faces.npz")


LAYOUTS = [
    (metadata, "smile"),
    (lambda root: metadata(root, form="jsonl"), "smile"),
    (npz, "smile"),
]
IDS = ["metadata.csv", "metadata.jsonl", "npz"]


def target_of(source, tmp_path, name="out"):
    return tmp_path / (f"{name}.npz" if source.layout == "npz" else name)


@pytest.mark.parametrize(("make", "secret"), LAYOUTS, ids=IDS)
def test_paths_pixels_and_labels_stay_and_the_secret_goes(tmp_path, make, secret):
    source = make(tmp_path / "in")
    release = copy(source, target_of(source, tmp_path), drop=secret)
    assert (release.layout, release.names) == (source.layout, source.names)
    np.testing.assert_array_equal(everything(release), everything(source))
    assert set(release.columns) == set(source.columns) - {secret}
    for name in release.columns:
        np.testing.assert_array_equal(release.column(name), source.column(name))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "in",
        target_of(source, tmp_path).name,
    ]
    assert not any(
        RAW.encode() in path.read_bytes()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    )


@pytest.mark.parametrize(("make", "secret"), LAYOUTS, ids=IDS)
def test_new_names_are_paired_by_the_private_list(tmp_path, make, secret):
    source = make(tmp_path / "in")
    private = tmp_path / "private.csv"
    release = copy(
        source, target_of(source, tmp_path), drop=secret, rename=True, mapping=private, seed=4
    )
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    rows, places = pair(release, source, mapping=private)
    assert rows.tolist() == list(range(len(source)))
    assert places.tolist() != rows.tolist()
    np.testing.assert_array_equal(everything(release), source.read(places))
    for name in release.columns:
        np.testing.assert_array_equal(release.column(name), source.column(name)[places])


def test_a_folder_per_class_that_is_the_secret(tmp_path):
    source = classes(tmp_path / "in", 20)
    private = tmp_path / "private.csv"
    with pytest.raises(LowtideError, match="only be released renamed"):
        ImageWriter(tmp_path / "out", source, drop="label", rename=False)
    with pytest.raises(LowtideError, match="need a file for the private list"):
        ImageWriter(tmp_path / "out", source, drop="label")
    release = copy(source, tmp_path / "out", drop="label", mapping=private)
    assert (release.layout, release.columns) == ("metadata", ())
    assert release.names == tuple(f"{number:06}.png" for number in range(1, 21))
    lists = b"".join(path.read_bytes() for path in (tmp_path / "out").glob("*.csv"))
    assert b"yes" not in lists
    assert (
        len({path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.png")}) == 1
    )  # times tell no order
    _, places = pair(release, source, mapping=private)
    np.testing.assert_array_equal(everything(release), source.read(places))
    assert set(read_mapping(private).values()) == set(source.names)


def test_a_folder_per_class_that_is_not_the_secret(tmp_path):
    source = classes(tmp_path / "in")
    rows = "".join(f"{name},p{number % 2}\n" for number, name in enumerate(source.names))
    (tmp_path / "in" / "split.csv").write_text("file,split\n" + rows)
    source = open_images(tmp_path / "in")
    release = copy(source, tmp_path / "out")
    assert release.names == source.names
    assert release.split.tolist() == source.split.tolist()
    assert release.column("label").tolist() == source.column("label").tolist()


def test_a_secret_that_is_the_only_label_is_removed(tmp_path):
    source = metadata(tmp_path / "in")
    release = copy(source, tmp_path / "out", drop=["smile", "zip"])
    assert (release.layout, release.columns, release.names) == ("metadata", (), source.names)


def test_images_without_labels(tmp_path):
    image(tmp_path / "in" / "a.png")
    source = open_images(tmp_path / "in")
    release = copy(source, tmp_path / "out", drop="smile")
    assert (release.layout, release.names) == ("plain", ("a.png",))


def test_some_images_of_a_set(tmp_path):
    for make, _ in LAYOUTS:
        source = make(tmp_path / f"in{len(list(tmp_path.iterdir()))}")
        some = source.take(np.array([4, 1, 3]))
        release = copy(some, target_of(source, tmp_path, f"out{len(list(tmp_path.iterdir()))}"))
        rows, places = pair(release, source)
        assert sorted(places) == [1, 3, 4]
        np.testing.assert_array_equal(release.read(rows), source.read(places))
        for name in release.columns:
            np.testing.assert_array_equal(release.column(name)[rows], source.column(name)[places])


def test_numpy_labels_keep_their_types(tmp_path):
    labels = {
        "day": np.array(["2020-01-01", "2021-02-03"], "datetime64[D]"),
        "score": np.array([0.5, np.nan], np.float32),
        "flag": np.array([True, False]),
        "word": np.array(["a", "bc"]),
    }
    np.savez(tmp_path / "in.npz", images=np.zeros((2, 4, 4), np.uint8), **labels)
    copy(open_images(tmp_path / "in.npz"), tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as made:
        assert made["images"].shape == (2, 4, 4)
        for name, values in labels.items():
            assert made[name].dtype == values.dtype
            np.testing.assert_array_equal(made[name], values)


def smooth():
    down, across = np.mgrid[:32, :48]
    return np.stack([down * 4, across * 4, 200 - down - across], axis=-1).astype(np.uint8)


def test_jpeg_of_a_stated_quality_or_png(tmp_path):
    for name in ("a.jpg", "b.JPEG"):
        image(tmp_path / "in" / name, smooth(), quality=80)
    source = open_images(tmp_path / "in")
    errors = []
    for quality in (40, 95):
        release = copy(source, tmp_path / f"out{quality}", quality=quality)
        assert release.names == source.names
        errors.append(np.abs(everything(release).astype(int) - everything(source)).mean())
    assert errors[1] < 1 < errors[0]
    release = copy(source, tmp_path / "png", png=True)
    assert release.names == ("a.png", "b.png")
    np.testing.assert_array_equal(everything(release), everything(source))
    assert pair(release, source)[1].tolist() == [0, 1]
    image(tmp_path / "in" / "a.png", smooth())
    with pytest.raises(LowtideError, match="differ only in their suffix"):
        ImageWriter(tmp_path / "more", open_images(tmp_path / "in"), png=True)


def test_metadata_of_files_is_not_copied(tmp_path):
    exif = Image.Exif()
    exif[0x010E] = RAW  # description
    exif[0x0112] = 3
    exif.get_ifd(0x8825)[1] = "N"  # where it was taken
    thumbnail = exif.tobytes() + RAW.encode()
    image(tmp_path / "in" / "a.jpg", exif=thumbnail, comment=RAW, icc_profile=RAW.encode())
    image(tmp_path / "in" / "b.png", exif=exif)
    image(tmp_path / "in" / "c.webp", exif=exif, xmp=f"<x>{RAW}</x>".encode())
    image(tmp_path / "in" / "d.tif", description=RAW, artist=RAW)
    for path in (tmp_path / "in").iterdir():
        assert RAW.encode() in path.read_bytes()
    source = open_images(tmp_path / "in")
    release = copy(source, tmp_path / "out")
    for name in release.names:
        content = (tmp_path / "out" / name).read_bytes()
        assert RAW.encode() not in content
        assert b"Exif" not in content
        with Image.open(tmp_path / "out" / name) as opened:
            assert 0x8825 not in opened.getexif()
            assert not {"exif", "comment", "icc_profile", "xmp"} & set(opened.info)
    np.testing.assert_array_equal(
        release.read(np.arange(1, 4)), source.read(np.arange(1, 4))
    )  # upright, too


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("make", [metadata, npz])
def test_an_exception_leaves_nothing_behind(tmp_path, make, error):
    source = make(tmp_path / "in")

    def interrupted():
        with ImageWriter(
            target_of(source, tmp_path), source, rename=True, mapping=tmp_path / "private.csv"
        ) as writer:
            writer.write(np.arange(len(source)), everything(source))
            raise error("stop")

    with pytest.raises(error, match="stop"):
        interrupted()
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_no_folder_appears_before_all_images_are_written(tmp_path):
    source = metadata(tmp_path / "in")
    with ImageWriter(tmp_path / "out", source) as writer:
        writer.write(np.arange(5), everything(source))
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out").is_dir()
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) & 0o055 == 0o055


def test_every_image_is_written_exactly_once(tmp_path):
    source = metadata(tmp_path / "in")
    pixels = everything(source)
    with (
        pytest.raises(LowtideError, match="2 of 5 images are missing"),
        ImageWriter(tmp_path / "a", source) as writer,
    ):
        writer.write(np.arange(3), pixels[:3])
    with ImageWriter(tmp_path / "b", source) as writer:
        writer.write(np.arange(3), pixels[:3])
        with pytest.raises(LowtideError, match="written already"):
            writer.write(np.array([2]), pixels[2:3])
        with pytest.raises(LowtideError, match=r"bytes of shape \(6, 8, 3\), got float64"):
            writer.write(np.array([3]), pixels[3:4] / 255)
        writer.write(np.array([4, 3]), pixels[[4, 3]])
    np.testing.assert_array_equal(everything(open_images(tmp_path / "b")), pixels)
    with pytest.raises(LowtideError, match="not open"):
        writer.write(np.array([2]), pixels[2:3])
    assert {path.name for path in tmp_path.iterdir()} == {"in", "b"}


def test_bad_target_folders_are_refused(tmp_path):
    source = metadata(tmp_path / "in")
    for target in (tmp_path / "in", tmp_path / "in" / "out", tmp_path):
        with pytest.raises(LowtideError, match="lie within each other"):
            ImageWriter(target, source)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    for target in (tmp_path / "full", tmp_path / "full" / "a"):
        with pytest.raises(LowtideError, match="exists and is not empty"):
            ImageWriter(target, source)
    with pytest.raises(LowtideError, match="must be a folder"):
        ImageWriter(tmp_path / "out.npz", source)
    with pytest.raises(LowtideError, match=r"must be an \.npz file"):
        ImageWriter(tmp_path / "out", npz(tmp_path / "arrays"))
    with (
        pytest.raises(LowtideError, match=r"cannot write .*No such file"),
        ImageWriter(tmp_path / "x" / "y", source),
    ):
        pass
    (tmp_path / "empty").mkdir()
    assert len(copy(source, tmp_path / "empty")) == 5


def test_the_private_list_is_kept_apart_and_never_lost(tmp_path):
    source = metadata(tmp_path / "in")
    with pytest.raises(LowtideError, match="would be part of the release"):
        ImageWriter(tmp_path / "out", source, rename=True, mapping=tmp_path / "out" / "names.csv")
    old = tmp_path / "names.csv"
    old.write_text("released,source\n")
    with pytest.raises(LowtideError, match="only key to another release"):
        ImageWriter(tmp_path / "out", source, rename=True, mapping=old)


def test_options_that_are_refused(tmp_path):
    source = metadata(tmp_path / "in")
    with pytest.raises(LowtideError, match="no column 'smiles'; did you mean 'smile'"):
        ImageWriter(tmp_path / "out", source, drop="smiles")
    with pytest.raises(LowtideError, match="quality must be at least 1 and at most 100"):
        ImageWriter(tmp_path / "out", source, quality=101)


def test_a_target_that_is_taken_meanwhile_is_left_alone(tmp_path):
    source = metadata(tmp_path / "in")
    private = tmp_path / "private.csv"

    def overtaken():
        with ImageWriter(tmp_path / "out", source, rename=True, mapping=private) as writer:
            writer.write(np.arange(5), everything(source))
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "mine").touch()

    with pytest.raises(LowtideError, match="cannot write"):
        overtaken()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]
    assert not private.exists()


def test_a_hidden_patch_changes_only_itself(tmp_path):
    source = metadata(tmp_path / "in")
    with ImageWriter(tmp_path / "out", source, drop="smile") as writer:
        for start in (0, 3):
            index = np.arange(start, min(start + 3, len(source)))
            pixels = source.read(index)
            pixels[:, :2, :2] = 128
            writer.write(index, pixels)
    before = everything(source)
    after = everything(open_images(tmp_path / "out"))
    assert np.all(after[:, :2, :2] == 128)
    after[:, :2, :2] = before[:, :2, :2]
    np.testing.assert_array_equal(after, before)


def test_a_mapping_without_new_names_is_refused(tmp_path):
    source = metadata(tmp_path / "in")
    with pytest.raises(LowtideError, match="these images keep theirs"):
        ImageWriter(tmp_path / "out", source, mapping=tmp_path / "names.csv")
    assert not (tmp_path / "names.csv").exists()
