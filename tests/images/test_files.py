"""One image file: whatever it holds, its pixels are 8 bits deep, upright and opaque."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from lowtide.images import files
from lowtide.images.files import (
    DAMAGED,
    NOT_AN_IMAGE,
    TOO_DEEP,
    Header,
    UnusableError,
    decode,
    encode,
    look,
    spread,
)

RNG = np.random.default_rng(3)
COLOUR = RNG.integers(0, 256, (6, 9, 3), dtype=np.uint8)
GREY = RNG.integers(0, 256, (6, 9), dtype=np.uint8)
EXACT = [".png", ".webp", ".bmp", ".tif", ".PNG"]


def save(tmp_path, name, image, **options):
    path = tmp_path / name
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(path, **options)
    return path


def smooth(height, width):
    """Colours that JPEG keeps well."""
    down, across = np.mgrid[:height, :width]
    return np.stack([down * 4, across * 4, 200 - down - across], axis=-1).astype(np.uint8)


@pytest.mark.parametrize("suffix", EXACT)
@pytest.mark.parametrize("pixels", [COLOUR, GREY[..., None]], ids=["colour", "grey"])
def test_lossless_formats_are_read_back_exactly(tmp_path, suffix, pixels):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(encode(pixels, suffix))
    channels = pixels.shape[2]
    np.testing.assert_array_equal(decode(path, channels=channels), pixels)
    assert look(path).size == (9, 6)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 20),
    st.integers(1, 20),
    st.sampled_from([1, 3]),
    st.sampled_from([".png", ".webp"]),
    st.data(),
)
def test_any_pixels_survive_png_and_webp(tmp_path_factory, height, width, channels, suffix, data):
    seed = data.draw(st.integers(0, 2**32 - 1))
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)
    path = tmp_path_factory.mktemp("one") / f"a{suffix}"
    path.write_bytes(encode(pixels, suffix))
    np.testing.assert_array_equal(decode(path, channels=channels), pixels)


def test_jpeg_is_close_and_closer_at_higher_quality(tmp_path):
    pixels = smooth(40, 48)
    errors = []
    for quality in (30, 95):
        (tmp_path / "a.jpg").write_bytes(encode(pixels, ".jpg", quality=quality))
        errors.append(np.abs(decode(tmp_path / "a.jpg", channels=3).astype(int) - pixels).mean())
    assert errors[1] < 1.0 < errors[0]


def test_transparency_is_laid_over_white(tmp_path):
    rgba = np.dstack([COLOUR, np.tile(np.array([0, 255, 128], np.uint8), (6, 3))])
    seen = decode(save(tmp_path, "a.png", rgba), channels=3)
    assert np.all(seen[:, ::3] == 255)  # what lies under full transparency does not show
    np.testing.assert_array_equal(seen[:, 1::3], COLOUR[:, 1::3])
    half = COLOUR[:, 2::3] * (128 / 255) + 255 * (127 / 255)
    assert np.abs(seen[:, 2::3] - half).max() <= 1


def test_grey_with_transparency_stays_grey(tmp_path):
    alpha = np.full_like(GREY, 255)
    alpha[0] = 0
    path = save(
        tmp_path, "a.png", Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(alpha)])
    )
    assert look(path) == Header((9, 6), True)
    seen = decode(path, channels=1)[..., 0]
    assert np.all(seen[0] == 255)
    np.testing.assert_array_equal(seen[1:], GREY[1:])


def test_a_palette_with_a_transparent_colour(tmp_path):
    image = Image.fromarray(np.array([[0, 1]], np.uint8))
    image.putpalette([10, 20, 30, 40, 50, 60])
    seen = decode(save(tmp_path, "a.png", image, transparency=0), channels=3)
    assert seen.tolist() == [[[255, 255, 255], [40, 50, 60]]]
    seen = decode(save(tmp_path, "b.png", image), channels=3)
    assert seen.tolist() == [[[10, 20, 30], [40, 50, 60]]]


def test_cmyk_becomes_rgb(tmp_path):
    path = save(tmp_path, "a.jpg", Image.new("CMYK", (8, 8), (0, 255, 255, 0)), quality=95)
    assert look(path) == Header((8, 8), False)
    red = decode(path, channels=3).reshape(-1, 3).mean(axis=0)
    assert np.abs(red - [255, 0, 0]).max() < 8


def test_sixteen_bits_become_eight(tmp_path):
    deep = (np.arange(54).reshape(6, 9) * 1200).astype(np.uint16)
    for name in ("a.png", "a.tif"):
        path = save(tmp_path, name, deep)
        assert look(path).grey
        np.testing.assert_array_equal(decode(path, channels=1)[..., 0], deep >> 8)


def test_black_and_white_images_become_bytes(tmp_path):
    path = save(tmp_path, "a.png", Image.fromarray(GREY > 128))
    assert look(path).grey
    np.testing.assert_array_equal(decode(path, channels=1)[..., 0], np.where(GREY > 128, 255, 0))


def test_numbers_of_unknown_range_are_not_guessed(tmp_path):
    path = save(tmp_path, "a.tif", Image.fromarray(GREY.astype(np.float32)))
    with pytest.raises(UnusableError, match=TOO_DEEP):
        decode(path, channels=1)
    with pytest.raises(UnusableError, match=TOO_DEEP):
        look(path)


@pytest.mark.parametrize("suffix", [".png", ".webp", ".tif"])
@pytest.mark.parametrize("turn", range(1, 9))
def test_exif_rotation_is_applied(tmp_path, suffix, turn):
    exif = Image.Exif()
    exif[0x0112] = turn
    options = {"lossless": True} if suffix == ".webp" else {}
    path = save(tmp_path, f"a{suffix}", COLOUR, exif=exif, **options)
    flips = {1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud}
    swaps = {5: lambda a: a.swapaxes(0, 1), 6: lambda a: np.rot90(a, -1)}
    swaps |= {7: lambda a: np.rot90(a, 2).swapaxes(0, 1), 8: np.rot90}
    upright = {**flips, **swaps}[turn](COLOUR)
    np.testing.assert_array_equal(decode(path, channels=3), upright)
    assert look(path).size == upright.shape[1::-1]


def test_exif_rotation_of_jpeg_shows_in_the_header(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = save(tmp_path, "a.jpg", smooth(16, 32), exif=exif)
    assert look(path).size == (16, 32)
    assert decode(path, channels=3).shape == (32, 16, 3)


def test_broken_exif_is_ignored(tmp_path):
    path = save(
        tmp_path, "a.jpg", smooth(16, 16), exif=b"Exif\x00\x00II*\x00\x08\x00\x00\x00\xff\xff"
    )
    (seen,) = spread(lambda place: decode(place, channels=3), [path])
    assert seen.shape == (16, 16, 3)


def test_resizing_averages_what_it_shrinks(tmp_path):
    board = (np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8)
    small = decode(save(tmp_path, "a.png", board), channels=1, size=(8, 16))
    assert small.shape == (16, 8, 1)
    assert (
        np.abs(small.astype(int) - 127).max() <= 2
    )  # without antialiasing it would be black or white


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".bmp", ".tif"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_files_that_are_cut_short_are_found_when_looked_at(tmp_path, suffix, share):
    path = tmp_path / f"a{suffix}"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    whole = encode(noise, suffix)
    path.write_bytes(whole)
    assert look(path) == Header((64, 64), False)
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(UnusableError, match=f"{DAMAGED}|{NOT_AN_IMAGE}"):
        look(path)


def test_a_jpeg_with_something_behind_it_is_whole(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(encode(smooth(16, 16), ".jpg") + b"\x00" * 5000)
    assert look(path).size == (16, 16)


def test_damage_in_the_middle_is_found_by_a_thorough_look(tmp_path):
    path = tmp_path / "a.png"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    content = bytearray(encode(noise, ".png"))
    content[2000:2100] = bytes(100)
    path.write_bytes(content)
    assert look(path).size == (64, 64)
    with pytest.raises(UnusableError, match=DAMAGED):
        look(path, thorough=True)


def test_text_and_other_formats_are_refused_as_images(tmp_path):
    (tmp_path / "a.png").write_text("not an image")
    Image.fromarray(GREY).save(tmp_path / "b.png", format="GIF")
    (tmp_path / "c.png").write_bytes(b"")
    for name in "abc":
        with pytest.raises(UnusableError, match=NOT_AN_IMAGE):
            look(tmp_path / f"{name}.png")


def test_only_pixels_are_written_to_a_file(tmp_path):
    """What a source says beside its pixels never reaches a release."""
    comment = PngImagePlugin.PngInfo()
    comment.add_text("Comment", "Zarquon77")
    path = save(
        tmp_path, "a.png", COLOUR, pnginfo=comment, dpi=(300, 300), icc_profile=b"Zarquon77"
    )
    assert b"Zarquon77" in path.read_bytes()
    with Image.open(path) as image:
        assert {"Comment", "dpi", "icc_profile"} <= set(image.info)
    again = tmp_path / "b.png"
    again.write_bytes(encode(decode(path, channels=3), ".png"))
    with Image.open(again) as image:
        assert image.info == {}


def test_work_is_spread_in_order_over_threads_that_all_share():
    """Two callers at once, as a release that reads a batch while it writes another, get no more
    threads than one.
    """
    used = set()

    def square(number):
        used.add(threading.get_ident())
        return number * number

    with ThreadPoolExecutor(2) as callers:
        found = list(callers.map(lambda n: spread(square, range(n)), [300, 301, 5, 16]))
    assert found == [[number * number for number in range(n)] for n in (300, 301, 5, 16)]
    assert len(used) <= files._WORKERS
    assert spread(square, [3]) == [9]  # too few for threads
    assert threading.get_ident() in used


def test_nothing_is_worked_on_after_an_exception():
    """A release that fails removes what it wrote, and nothing may be written behind its back."""
    begun = []
    ended = []

    def work(number):
        begun.append(number)
        if number == 20:
            raise OSError("stop")
        time.sleep(0.001)
        ended.append(number)

    with pytest.raises(OSError, match="stop"):
        spread(work, range(400))
    at_once = len(ended)
    assert len(begun) == at_once + 1  # whatever was begun has ended
    assert at_once < 399
    time.sleep(0.05)
    assert len(ended) == at_once


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    assert spread(abs, range(-20, 0)) == list(range(20, 0, -1))
    child = os.fork()
    if child == 0:
        os._exit(0 if spread(abs, range(-20, 0)) == list(range(20, 0, -1)) else 1)
    deadline = time.monotonic() + 20
    done = 0
    status = 0
    while done == 0 and time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if done == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert (done, status) == (child, 0)
