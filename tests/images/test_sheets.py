"""Sheets: exact pixels, words for every image, the same bytes every time, and nothing left where
one is refused.
"""

import numpy as np
import pytest
from PIL import Image

from common import contact_sheet
from lowtide.errors import LowtideError
from lowtide.images.encoder import Grid
from lowtide.images.heatmaps import heat, magnify, veil
from lowtide.images.sheets import draw_hidden, draw_map
from lowtide.interface import NATS_PER_BIT


def scene(height=24, width=20, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def pixels_of(path):
    return np.asarray(Image.open(path).convert("RGB"))


def holds(page, image):
    """Whether an image stands on a page somewhere, pixel by pixel."""
    high, wide = image.shape[:2]
    starts = np.argwhere(
        (page[: len(page) - high + 1, : page.shape[1] - wide + 1] == image[0, 0]).all(axis=-1)
    )
    return any(np.array_equal(page[y : y + high, x : x + wide], image) for y, x in starts)


def written(path, draw, *args, **options):
    """Draw into a file; the sheet in words."""
    content, alt = draw(*args, **options)
    path.write_bytes(content)
    return alt


def test_a_sheet_holds_its_images_pixel_by_pixel(tmp_path):
    images = [scene(32, 32, seed=seed) for seed in range(3)]
    path = tmp_path / "sheet.png"
    grid = Grid(32, 32, 3, 8)
    maps = [heat(image, np.arange(16), grid, scale=6) for image in images]
    alt = contact_sheet(
        [("original", images), ("8 px", maps[:2])],
        path,
        title="Faces",
        most=0.1,
        note="outlined: hidden",
    )
    page = pixels_of(path)
    assert all(holds(page, magnify(image, 6)) for image in images)
    assert all(holds(page, image) for image in maps[:2])
    assert not holds(page, maps[2])
    assert alt == "Faces. Images in 2 rows, from the top: original (3); 8 px (2). outlined: hidden."
    assert Image.open(path).text["Description"] == alt
    assert [file.name for file in tmp_path.iterdir()] == ["sheet.png"]


def test_a_sheet_is_the_same_bytes_twice_and_changes_with_what_it_says(tmp_path):
    def made(**options):
        contact_sheet([("a", [scene()])], tmp_path / "sheet.png", **{"title": "t", **options})
        return (tmp_path / "sheet.png").read_bytes()

    first = made()
    assert made() == first
    others = [{"title": "u"}, {"bar": False}, {"most": 0.2}, {"note": "n"}, {"columns": ["c"]}]
    assert len({first, *(made(**other) for other in others)}) == 6
    assert made(most=0.2, unit="nats") != made(most=0.2)


@pytest.mark.parametrize("text", ["$x_1$ \\frac", "顔と笑顔", "<b>&amp;", "a\nb\x00c" * 40, ""])
def test_a_sheet_takes_any_label(text, tmp_path):
    alt = contact_sheet(
        [(text, [scene()])], tmp_path / "s.png", title=text, columns=[text], note=text
    )
    assert "\n" not in alt
    assert holds(pixels_of(tmp_path / "s.png"), magnify(scene(), 8))


def test_a_map_marks_the_strongest_patch_and_says_so(tmp_path):
    grid = Grid(24, 20, 3, 4)
    values = np.zeros(30)
    values[17] = 0.5 * NATS_PER_BIT
    values[3] = 0.02
    alt = written(
        tmp_path / "map.png", draw_map, scene(), values, grid, title="Smiles", outline=values > 0.1
    )
    assert "row 4 of 6 from the top, column 3 of 5 from the left, tells 0.5 bits" in alt
    assert "1 of 30 have 90% of the sum" in alt
    assert Image.open(tmp_path / "map.png").text["Description"] == f"Smiles. {alt}"
    page = pixels_of(tmp_path / "map.png")
    inner = heat(scene(), values, grid, scale=34)[12 * 34 + 20 :, 8 * 34 + 20 :]
    assert holds(page, inner[: 4 * 34 - 40, : 4 * 34 - 40])
    assert not holds(page, heat(scene(), values, grid, scale=34)), "the frame is drawn over it"
    written(tmp_path / "none.png", draw_map, scene(), np.zeros(30), grid, title="Nothing")
    assert holds(pixels_of(tmp_path / "none.png"), heat(scene(), np.zeros(30), grid, scale=34))


def test_hidden_patches_are_striped_and_counted(tmp_path):
    grid = Grid(24, 20, 3, 4)
    hidden = np.isin(np.arange(30), [11, 12])
    alt = written(tmp_path / "hidden.png", draw_hidden, scene(), hidden, grid, title="Smiles")
    assert alt.startswith(
        "2 of 30 patches are hidden, within rows 3 to 3 of 6 from the top, columns 2 to 3 of 5"
    )
    assert Image.open(tmp_path / "hidden.png").text["Description"] == f"Smiles. {alt}"
    page = pixels_of(tmp_path / "hidden.png")
    assert holds(page, veil(scene(), hidden, grid, scale=34))
    assert not holds(page, veil(scene(), ~hidden, grid, scale=34))
    assert (page[-20:] == 255).all(), "the words end before the sheet does"


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ([], {}, "needs an image"),
        ([("a", [])], {}, "needs an image"),
        ([("a", [scene()])], {"columns": ["b", "c"]}, "heading for all"),
        ([("a", [scene(24, 20), scene(20, 24)])], {}, "whole multiple"),
        ([("a", [scene(24, 20), scene(36, 30)])], {}, "whole multiple"),
        ([("a", [scene()])], {"most": -1.0}, "most must lie in"),
        ([("a", [scene()])], {"name": "sheet.jpg"}, "must end in .png"),
    ],
)
def test_a_sheet_that_cannot_be_made_is_refused_and_leaves_nothing(rows, options, words, tmp_path):
    name = options.pop("name", "sheet.png")
    with pytest.raises(LowtideError, match=words):
        contact_sheet(rows, tmp_path / name, title="t", **options)
    assert not list(tmp_path.iterdir())
