"""Planned small, released at full size: every image keeps its size, and what is hidden is hidden
there, too.
"""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from lowtide import TIDE, Obfuscator, audit, release
from lowtide.disclose.plan_file import Plan
from lowtide.errors import LowtideNote
from lowtide.images.dataset import open_dataset, open_images
from lowtide.images.encoder import Grid
from lowtide.images.files import encode, look
from lowtide.images.inpainting import fill_in
from lowtide.images.mechanism import ImageMechanism
from lowtide.images.names import files_tell
from lowtide.images.native import Frame, batches_by_size, hide_native
from lowtide.images.options import ImageOptions
from lowtide.images.planner import ImageSettings
from lowtide.worlds import drawn_faces

SIZES = ((64, 64), (80, 64), (50, 71))


def faces(folder, n=120, suffix=".png", sizes=SIZES, **options):
    """Drawn faces of several sizes, in folders by whether they smile; the size does not depend on
    that.
    """
    world = drawn_faces(32)
    x, s = world.sample(n, 5)
    images = np.rint(255 * world.images(x)).astype(np.uint8)
    for row, (image, smile) in enumerate(zip(images, s, strict=True)):
        place = folder / ("smiling" if smile else "calm")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).resize(sizes[row % len(sizes)]).save(
            place / f"{row:03}{suffix}", **options
        )
    return folder


def planned(source):
    """A plan that looked at 16 × 16 pixels, checked by one quick attacker."""
    folder = open_images(source, resize=(16, 16))
    settings = ImageSettings(attackers=("edges",), resize="16x16")
    made = Obfuscator(TIDE(4), kept=0.75, settings=settings, progress=False)
    made.fit(folder.read(np.arange(len(folder))), folder.column("label"))
    return Plan("images", "label", {"resize": [16, 16], "grey": False, "kept": []}, made.hider_)


def hiding_by(plan, **how):
    """The same plan with another mechanism."""
    return replace(plan, hider=replace(plan.hider, mechanism=replace(plan.hider.mechanism, **how)))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder, its plan, and the release under it."""
    root = tmp_path_factory.mktemp("native")
    source = faces(root / "faces")
    found = planned(source)
    out = release(source, found, root / "shared", mapping=root / "names.csv", progress=False)
    return source, found, out, root


def pairs(made):
    source, _, out, root = made
    rows = (root / "names.csv").read_text().split()[1:]
    for row in rows:
        new, old = row.split(",")
        yield np.asarray(Image.open(source / old)), np.asarray(Image.open(out.data / new))


def test_images_keep_their_sizes_and_every_pixel_that_is_shown(made):
    hidden = made[1].hider.mechanism.grid.spread(made[1].hider.policy.hidden)
    seen = set()
    for before, after in pairs(made):
        assert after.shape == before.shape
        height, width = before.shape[:2]
        seen.add((width, height))
        row, column = (
            (2 * np.arange(side) + 1) * 16 // (2 * side) for side in (height, width)
        )  # by their centres
        mask = hidden[row[:, None], column]
        assert (after[mask] == 128).all()
        assert np.array_equal(after[~mask], before[~mask])
    assert seen == set(SIZES)


def test_the_card_says_in_which_size_attackers_looked(made):
    assert "Attackers looked at 16x16 pixels" in made[2].card.text()
    assert made[2].card.changed == pytest.approx(0.25, abs=0.01)


def test_an_audit_brings_both_to_the_size_of_the_plan(made):
    source, found, out, root = made
    with pytest.warns(LowtideNote):
        report = audit(
            out.data,
            source,
            "label",
            plan=found,
            mapping=root / "names.csv",
            attackers=["edges"],
            progress=False,
        )
    assert report.attacks.retrained[0].accuracy.n > 20


def test_a_fill_at_full_size_depends_on_what_is_shown_there():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (50, 70, 3)).astype(np.uint8)
    grid = Grid(16, 16, 3, 4)
    hidden = np.zeros((16, 16), dtype=bool)
    hidden[8:, 4:12] = True
    frame = Frame((70, 50), (16, 16))
    mask = hidden[frame.pixels()]
    for fill in ("mean", "blur", "inpaint"):
        shown = hide_native(image, frame, hidden, None, ImageMechanism(grid, fill=fill))
        assert np.array_equal(shown, fill_in(image[None], mask, fill)[0])
        other = np.where(mask[..., None], 255 - image, image)
        assert np.array_equal(
            hide_native(other, frame, hidden, None, ImageMechanism(grid, fill=fill)), shown
        )


def test_noise_is_that_of_the_small_version_so_that_averages_do_not_take_it_away(made, tmp_path):
    source = faces(tmp_path / "faces", n=20, sizes=((64, 64),))
    found = hiding_by(made[1], kind="gaussian", lam=1.0)
    out = release(
        source, found, tmp_path / "shared", mapping=tmp_path / "names.csv", progress=False
    )
    hidden = found.hider.mechanism.grid.spread(found.hider.policy.hidden)
    shown = (
        np.asarray(Image.open(next(out.data.rglob("*.png"))))
        .reshape(16, 4, 16, 4, 3)
        .swapaxes(1, 2)
    )
    blocks = shown[hidden].reshape(hidden.sum(), 16, 3)
    assert (blocks == blocks[:, :1]).all(), (
        "every small pixel has one noise, and no detail of the image under it"
    )
    assert shown[hidden].std() > 60


def test_other_images_lend_their_detail_at_full_size(made, tmp_path):
    source = faces(tmp_path / "faces", n=30)
    found = hiding_by(made[1], fill="redraw")
    out = release(
        source, found, tmp_path / "shared", mapping=tmp_path / "names.csv", progress=False
    )
    hidden = found.hider.mechanism.grid.spread(found.hider.policy.hidden)
    for before, after in pairs((source, found, out, tmp_path)):
        mask = hidden[Frame(before.shape[1::-1], hidden.shape).pixels()]
        assert np.array_equal(after[~mask], before[~mask])
        assert (after[mask] != 128).any()


def test_jpeg_files_keep_their_quality_and_sampling_and_lose_their_metadata(made, tmp_path):
    exif = Image.Exif()
    exif[0x010F] = "camera of a person"
    source = faces(tmp_path / "faces", n=12, suffix=".jpg", quality=71, subsampling=2, exif=exif)
    found = made[1]
    assert b"camera of a person" in next(source.rglob("*.jpg")).read_bytes()
    out = release(
        source, found, tmp_path / "shared", mapping=tmp_path / "names.csv", progress=False
    )
    first = next(out.data.rglob("*.jpg"))
    assert b"camera of a person" not in first.read_bytes()
    assert look(first).coding == look(next(source.rglob("*.jpg"))).coding
    assert look(first).coding.subsampling == 2
    release(
        source, found, tmp_path / "other", mapping=tmp_path / "b.csv", quality=90, progress=False
    )
    other = next((tmp_path / "other").rglob("*.jpg"))
    assert look(other).coding != look(first).coding
    assert look(other).coding.subsampling == 0


def test_a_grey_image_takes_the_table_of_brightness_alone(tmp_path):
    path = tmp_path / "a.jpg"
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (16, 16, 3)).astype(np.uint8)).save(path, quality=60)
    coding = look(path).coding
    path.write_bytes(encode(np.zeros((16, 16, 1), np.uint8), ".jpg", coding=coding))
    assert look(path).coding.tables == coding.tables[:1]


def test_sizes_that_go_with_the_secret_are_named(tmp_path):
    folder = open_images(faces(tmp_path / "faces", n=80), resize=(16, 16))
    assert files_tell(folder, folder.column("label")) is None
    for path in (tmp_path / "faces" / "smiling").iterdir():
        Image.open(path).resize((90, 90)).save(path)
    options = ImageOptions(resize="16x16")
    with pytest.warns(LowtideNote, match="the sizes of the images tell the secret"):
        open_dataset(tmp_path / "faces", "label", options, progress=False)


def test_batches_have_few_images_and_few_pixels():
    sizes = np.array([[10, 10], [10, 10], [100, 100], [10, 10], [10, 10], [10, 10]])
    parts = batches_by_size(sizes, most=2, at_once=1000)
    assert [part.tolist() for part in parts] == [[0, 1], [2], [3, 4], [5]]


def test_arrays_are_released_at_their_own_size(made, tmp_path):
    world = drawn_faces(32)
    x, s = world.sample(60, 3)
    images = np.rint(255 * world.images(x)).astype(np.uint8)
    np.savez(tmp_path / "faces.npz", images=images, label=s)
    found = made[1]
    out = release(tmp_path / "faces.npz", found, tmp_path / "shared.npz", progress=False)
    shown = np.load(out.data)["images"]
    mask = np.kron(
        found.hider.mechanism.grid.spread(found.hider.policy.hidden), np.ones((2, 2), bool)
    )
    assert np.array_equal(shown[:, ~mask], images[:, ~mask])
    assert (shown[:, mask] == 128).all()
    assert open_images(out.data).shape == (32, 32, 3)
