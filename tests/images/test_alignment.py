"""Masks that follow the face: faces that lie anywhere are planned in one frame, and hidden where
they lie.
"""

import csv
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from lowtide import TIDE, Obfuscator, release
from lowtide.disclose.plan_file import Plan
from lowtide.errors import LowtideError
from lowtide.images.alignment import AlignedImages, Alignment
from lowtide.images.dataset import check_layout, open_dataset, open_images
from lowtide.images.options import ImageOptions
from lowtide.images.planner import ImageSettings
from lowtide.worlds import drawn_faces

SIDE = 32
EYES = {
    "left_eye": (0.38, 0.46),
    "right_eye": (0.62, 0.46),
    "chin": (0.5, 0.85),
}  # of a drawn face, in shares


def album(root, n=90, seed=4, **columns):
    """Drawn faces of several sizes, each somewhere on a canvas of its own, with their boxes and
    landmarks.
    """
    world = drawn_faces(SIDE)
    rng = np.random.default_rng(seed)
    x, s = world.sample(n, seed)
    images = np.rint(255 * world.images(x)).astype(np.uint8)
    root.mkdir()
    rows = []
    for number, (image, smile) in enumerate(zip(images, s, strict=True)):
        side = int(rng.integers(32, 64))
        left, top = (int(value) for value in rng.integers(0, 96 - side, 2))
        canvas = Image.new("RGB", (96, 96), (204, 227, 242))
        canvas.paste(Image.fromarray(image).resize((side, side)), (left, top))
        canvas.save(root / f"{number:03}.png")
        points = {
            f"{name}_{axis}": round(start + side * share, 2)
            for name, pair in EYES.items()
            for axis, start, share in zip("xy", (left, top), pair, strict=True)
        }
        rows.append(
            {
                "file_name": f"{number:03}.png",
                "smile": int(smile),
                "x": left,
                "y": top,
                "w": side,
                "h": side,
            }
        )
        rows[-1] |= points | {name: value(number, rows[-1]) for name, value in columns.items()}
    with (root / "metadata.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return root


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return album(tmp_path_factory.mktemp("aligned") / "faces")


def detect(image):
    """A detector for these canvases: the box of all that is not background."""
    face = np.abs(image.astype(int) - (204, 227, 242)).max(axis=2) > 60
    rows, columns = (np.flatnonzero(face.any(axis=axis)) for axis in (1, 0))
    return columns[0], rows[0], columns[-1] - columns[0] + 1, rows[-1] - rows[0] + 1


@pytest.mark.parametrize(
    "align", ["box", "landmarks", detect], ids=["box", "landmarks", "detector"]
)
def test_faces_lie_alike_once_they_are_aligned(folder, align):
    opened = open_images(folder, resize=(48, 48))
    every = np.arange(len(opened))
    _, frames = Alignment.of(opened, align)
    moved = AlignedImages(opened, frames).read(every).astype(float)
    still = opened.read(every).astype(float)
    inside = np.s_[:, 20:28, 20:28]
    assert moved[inside].std(axis=0).mean() < 0.8 * still[inside].std(axis=0).mean()


@pytest.fixture(scope="module")
def made(folder):
    """A plan in the frame of the boxes."""
    opened = open_dataset(
        folder, "smile", ImageOptions(resize="48x48", align="box"), progress=False
    )
    settings = ImageSettings(attackers=("edges",), resize="48x48", align="box")
    found = Obfuscator(TIDE(4), kept=0.86, settings=settings, progress=False).fit(
        opened.samples, opened.labels
    )
    layout = {
        "resize": [48, 48],
        "grey": False,
        "kept": [],
        "align": opened.source.alignment.to_config(),
    }
    return Plan("images", "smile", layout, found.hider_)


@pytest.mark.parametrize("align", ["box", "landmarks"])
def test_what_a_plan_hides_is_hidden_where_the_face_lies(made, folder, tmp_path, align):
    found = Alignment.of(open_images(folder, resize=(48, 48)), align)[
        0
    ]  # in both frames faces lie as in most images
    plan = replace(made, layout={**made.layout, "align": found.to_config()})
    check_layout(plan)
    assert "follows a box or landmarks" in plan.card.text()
    out = release(folder, plan, tmp_path / "shared", progress=False)
    mouth = np.kron(drawn_faces(SIDE).leaking_patches().reshape(8, 8), np.ones((8, 8))) > 0
    covered = []
    for row in csv.DictReader((folder / "metadata.csv").read_text().splitlines()):
        before, after = (
            np.asarray(Image.open(place / row["file_name"])) for place in (folder, out.data)
        )
        assert after.shape == before.shape == (96, 96, 3)
        hidden = (after == 128).all(axis=2)
        assert np.array_equal(after[~hidden], before[~hidden])
        left, top, side = (int(row[name]) for name in "xyw")
        face = Image.fromarray(hidden[top : top + side, left : left + side]).resize((64, 64))
        covered.append(np.asarray(face)[mouth].mean())
    assert np.mean(covered) > 0.45, "the mouth, wherever it is"
    assert np.std(covered) < 0.1
    assert "left_eye_x" not in (out.data / "metadata.csv").read_text()


@pytest.mark.parametrize(
    ("columns", "align", "message"),
    [
        ({"w": lambda n, _: "" if n == 3 else 40}, "box", "1 of 30 images have no box"),
        (
            {"w": lambda n, _: 0 if n < 2 else 40},
            "box",
            "2 of 30 images have a box without width or height",
        ),
        (
            {"x": lambda n, _: 400 if n == 0 else 10},
            "box",
            "1 of 30 images have box outside of the image",
        ),
        (
            {
                "w": lambda n, row: 1 if n == 0 else row["w"],
                "h": lambda n, row: 1 if n == 0 else row["h"],
            },
            "box",
            "8 times",
        ),
        (
            {"chin_x": lambda n, _: "nan" if n == 3 else 40},
            "landmarks",
            "1 of 30 images have no landmarks",
        ),
        ({"y": lambda n, _: "low"}, "box", "the column 'y' must hold numbers"),
        ({}, "nose", "align must be 'box', 'landmarks' or a function, got 'nose'"),
        ({}, lambda image: [1, 2, 3], r"\(k, 2\) landmarks, got shape \(3,\)"),
    ],
    ids=["missing", "flat", "outside", "tiny", "nan", "words", "unknown", "detector"],
)
def test_boxes_that_cannot_be_are_refused_and_counted(tmp_path, columns, align, message):
    opened = open_images(album(tmp_path / "faces", 30, **columns), resize=(16, 16))
    with pytest.raises(LowtideError, match=message):
        Alignment.of(opened, align)


def test_columns_that_are_not_there_are_named(tmp_path):
    (tmp_path / "a").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "a" / "1.png")
    (tmp_path / "a" / "metadata.csv").write_text("file_name,smile\n1.png,1\n")
    opened = open_images(tmp_path / "a")
    with pytest.raises(LowtideError, match=r"align='box' needs the column 'x', and .* has smile"):
        Alignment.of(opened, "box")
    with pytest.raises(LowtideError, match="needs at least 2 pairs of columns"):
        Alignment.of(opened, "landmarks")


def test_a_release_needs_the_detector_of_its_plan(folder):
    opened = open_images(folder, resize=(16, 16))
    found, frames = Alignment.of(opened, detect)
    again = Alignment.from_config(found.to_config())
    assert np.allclose(again.frames(opened, detect)[5].matrix, frames[5].matrix)
    with pytest.raises(LowtideError, match="give the same detector"):
        again.frames(opened, None)
    with pytest.raises(LowtideError, match="aligned by detector, got box"):
        again.frames(opened, "box")
    with pytest.raises(LowtideError, match="garbled"):
        Alignment.from_config({"by": "box", "reference": [[1, 2, 3]], "upright": True})


def test_redraw_does_not_follow_faces():
    settings = ImageSettings(align="box")
    with pytest.raises(LowtideError, match="leave align out"):
        Obfuscator(policy="redraw", settings=settings).fit(
            np.zeros((40, 8, 8), np.uint8), np.arange(40) % 2
        )
