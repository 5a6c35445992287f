"""The policy `redraw` on images: most are as they were, none has a hole, and the smile that is seen
tells nothing.
"""

import csv
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from typer.testing import CliRunner

from lowtide import TIDE, LowtideError, Obfuscator, Plan, audit, plan, release
from lowtide.cli.main import app
from lowtide.disclose.noise import KeyedNoise
from lowtide.images.encoder import Grid, Stack
from lowtide.images.planner import ImageSettings
from lowtide.images.region_density import RegionReader, fit_reader
from lowtide.images.region_donors import Looks, change_places
from lowtide.images.regions import Region
from lowtide.theory import redraw as theory

N = 260
SIDE = 16
QUICK = {"steps": 40, "progress": False, "patch": 4}
OTHER = KeyedNoise(b"k" * 32)


def faces(n=N, seed=0):
    """Grey noise of another brightness each; a bar below is the smile, mostly; a bar above is
    something else.
    """
    rng = np.random.default_rng([seed, 77])
    s, hat = rng.integers(0, 2, (2, n))
    shown = np.where(rng.random(n) < 0.9, s, 1 - s)
    pixels = rng.integers(0, 30, (n, SIDE, SIDE, 1)) + rng.integers(60, 120, n)[:, None, None, None]
    pixels[:, 12:15, 5:11] += 60 * shown[:, None, None, None]
    pixels[:, 1:3, 5:11] += 60 * hat[:, None, None, None]
    return pixels.astype(np.uint8), np.array(["calm", "smiling"])[s]


def read_by_regression(pixels, s):
    flat = pixels.reshape(len(pixels), -1) / 255
    return cross_val_score(
        LogisticRegression(), flat - flat.mean(axis=1, keepdims=True), s, cv=5
    ).mean()


@pytest.fixture(scope="module")
def made():
    """A plan that is attacked by edges alone, which need no network."""
    tide = TIDE(4, max_steps=10, progress=False)
    settings = ImageSettings(attackers=("edges",), region=0.26)
    made = Obfuscator(tide, "redraw", settings=settings, progress=False).fit(*faces())
    return Plan("images", "mood", {"resize": None, "grey": False, "kept": []}, made.hider_)


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    """Always the same: of 260 images an attacker reads more or less by chance, with every key."""
    path = tmp_path_factory.mktemp("keys") / "draws.key"
    path.write_text((b"d" * 32).hex())
    return path


@pytest.fixture(scope="module")
def released(made, key):
    x, s = faces()
    return release(x, made, secret=s, key_file=key)


def test_an_attacker_reads_the_clean_images_and_not_the_release(released):
    x, s = faces()
    assert read_by_regression(x, s) > 0.8
    assert read_by_regression(released.data, s) < 0.64
    assert read_by_regression(released.data, s) > 0.36, "nor with its sign turned"


def test_most_images_are_as_they_were_and_only_the_region_of_others_changes(made, released):
    x, _ = faces()
    region = made.hider.policy.region
    assert region.mask[12:15, 5:11].all(), "the bar is what tells"
    differs = (released.data != x).any(axis=3)
    changed = differs.any(axis=(1, 2))
    assert 0.5 < 1 - changed.mean() < 0.8
    assert not differs[:, ~region.mask].any()
    assert released.card.changed == pytest.approx(changed.mean() * region.share)
    assert max(feature.hidden for feature in released.card.features) == pytest.approx(
        changed.mean()
    )


def test_every_region_is_shown_once(made):
    x, s = faces()
    release = made.hider.redraw(x, s, noise=OTHER)
    assert sorted(release.holder) == list(range(N))
    assert release.changed.any()


def test_draws_belong_to_the_image_and_not_to_its_place(made, key, released, tmp_path):
    x, s = faces()
    upside_down = release(x[::-1], made, secret=s[::-1], key_file=key)
    np.testing.assert_array_equal(upside_down.data[::-1], released.data)
    other = release(x, made, secret=s, key_file=tmp_path / "another.key")
    assert (other.data != released.data).any()


def test_a_saved_plan_releases_the_same_and_lists_no_value_of_the_secret(
    made, key, released, tmp_path
):
    x, s = faces()
    place = made.save(tmp_path / "plan.lowtide")
    again = release(x, Plan.load(place), secret=s, key_file=key)
    np.testing.assert_array_equal(again.data, released.data)
    text = (place / "config.json").read_text()
    assert "smiling" not in text
    assert "calm" not in text


def test_a_plan_releases_images_that_it_was_not_made_from(made, key):
    x, s = faces(seed=1)
    later = release(x, made, secret=s, key_file=key).data
    assert read_by_regression(x, s) > 0.8
    assert read_by_regression(later, s) < 0.65


def test_the_card_says_in_words_what_a_reader_must_know(made):
    page = made.card.text()
    assert "of the reference images are as they were" in page
    assert "an attacker can often guess: do not use a single image as a fact about a person" in page
    assert "independent of the secret" in page
    assert made.card.parameters["images as they were"] > 0.5


def test_a_budget_changes_fewer_images(made):
    x, s = faces(80)
    strict = made.hider.policy
    loose = replace(strict, width=theory.half_width(0.3, 0.45))
    codes = strict.secret.read(s)
    changed = [
        policy.release(Stack(x), codes, noise=OTHER).changed.mean() for policy in (loose, strict)
    ]
    assert 0.02 < changed[0] < 0.8 * changed[1]


def test_a_folder_is_released_and_audited_from_the_command_line(made, tmp_path):
    x, s = faces()
    (tmp_path / "faces").mkdir()
    with (tmp_path / "faces" / "metadata.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file_name", "mood"])
        for k, (pixels, mood) in enumerate(zip(x, s, strict=True)):
            Image.fromarray(pixels[..., 0]).save(tmp_path / "faces" / f"{k:03}.png")
            writer.writerow([f"{k:03}.png", mood])
    place = made.save(tmp_path / "plan.lowtide")
    run = CliRunner()
    common = ["--plan", str(place), "--out", str(tmp_path / "shared"), "--quiet"]
    done = run.invoke(app, ["release", str(tmp_path / "faces"), *common])
    assert done.exit_code == 0, done.output
    found = audit(
        tmp_path / "shared", tmp_path / "faces", "mood", attackers=["edges"], progress=False
    )
    assert found.attacks.headline.accuracy.value < 0.7
    assert found.attacks.headline_clean.accuracy.value > 0.75
    assert 0.85 < 1 - found.change.share < 0.95
    (tmp_path / "faces" / "metadata.csv").unlink()
    refused = run.invoke(
        app, ["release", str(tmp_path / "faces"), *common[:-2], str(tmp_path / "no"), "--quiet"]
    )
    assert refused.exit_code == 2
    assert "has no label 'mood'" in " ".join(refused.output.split())
    assert "policy 'fixed'" in " ".join(refused.output.split())
    assert not (tmp_path / "no").exists()


def test_images_without_a_known_secret_are_refused(made):
    x, s = faces()
    with pytest.raises(
        LowtideError, match=r"give secret=\.\.\., one value per image .*policy 'fixed'"
    ):
        release(x, made)
    with pytest.raises(
        LowtideError, match="2 images have a secret that is missing, or that the reference"
    ):
        release(x, made, secret=["grim", None, *s[2:]])
    with pytest.raises(LowtideError, match="images"):
        release(x, made, secret=s[:-1])
    with pytest.raises(LowtideError, match="redraw needs the secret of every image"):
        made.hider.transform(x)


def test_what_redraw_cannot_do_is_refused_with_a_remedy():
    x, s = faces()
    rare = np.where(np.arange(N) < 7, "grim", s)
    with pytest.raises(
        LowtideError, match="1 of the 3 classes of the secret have fewer than 10 images"
    ):
        plan(x, rare, policy="redraw", **QUICK)
    with pytest.raises(LowtideError, match="leave mechanism out, or use policy='fixed'"):
        plan(x, s, policy="redraw", mechanism="gaussian", **QUICK)
    with pytest.raises(LowtideError, match="in nats or bits"):
        plan(x, s, policy="redraw", budget="60%", **QUICK)
    with pytest.raises(LowtideError, match="between 0 and 1"):
        plan(x, s, policy="redraw", region=1.5, **QUICK)
    with pytest.raises(LowtideError, match="fill='redraw' is for policy='fixed'"):
        plan(x, s, policy="redraw", fill="redraw", **QUICK)
    with pytest.raises(LowtideError, match=r"fill must be one of .*'inpaint'"):
        plan(x, s, fill="paint", **QUICK)


# ── filling in what `fixed` hides ─────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def filled():
    settings = ImageSettings(attackers=("edges",), fill="redraw")
    return Obfuscator(TIDE(4), kept=0.74, settings=settings, progress=False).fit(*faces())


def test_a_filled_region_shows_neither_a_hole_nor_what_was_hidden(filled):
    x, s = faces()
    shown = filled.transform(x)
    inside = filled.mechanism_.grid.spread(filled.policy_.hidden)
    np.testing.assert_array_equal(shown[:, ~inside], x[:, ~inside])
    assert read_by_regression(x, s) > 0.8
    assert read_by_regression(shown, s) < 0.62
    assert abs(shown[:, inside].mean(axis=(1, 2)) - x[:, inside].mean(axis=(1, 2))).mean() < 15, (
        "brightness matches"
    )
    assert filled.card_.parameters["fill"] == "redraw"
    assert "the average detail of 5 other images" in filled.card_.text()


def test_what_fills_a_region_does_not_depend_on_what_it_held(filled):
    x, _ = faces()
    inside = filled.mechanism_.grid.spread(filled.policy_.hidden)
    other = np.array(x)
    other[5, inside] = 0
    # Others may have borrowed from the sixth image; it does not borrow from itself.
    np.testing.assert_array_equal(filled.transform(other)[5], filled.transform(x)[5])


def test_a_fill_is_the_same_in_any_order_and_for_a_saved_hider(filled, tmp_path):
    x, _ = faces()
    np.testing.assert_array_equal(filled.transform(x[::-1])[::-1], filled.transform(x))
    with pytest.raises(LowtideError, match="release at least 10 together"):
        filled.transform(x[:3])


def test_regions_change_places_at_the_size_of_each_image(made, key, tmp_path):
    x, s = faces(80)
    source = tmp_path / "faces"
    source.mkdir()
    lines = ["file_name,mood"]
    for row, (image, mood) in enumerate(zip(x[..., 0], s, strict=True)):
        Image.fromarray(image).resize(((32, 32), (48, 40))[row % 2]).save(source / f"{row:03}.png")
        lines.append(f"{row:03}.png,{mood}")
    (source / "metadata.csv").write_text("\n".join(lines))
    small = replace(made, layout={"resize": [16, 16], "grey": False, "kept": []})
    out = release(source, small, tmp_path / "shared", key_file=key, progress=False)
    region = made.hider.policy.region.mask
    changed = 0
    for path in sorted(source.glob("*.png")):
        before, after = (np.asarray(Image.open(place / path.name)) for place in (source, out.data))
        assert after.shape == before.shape
        row, column = ((2 * np.arange(side) + 1) * 16 // (2 * side) for side in before.shape)
        inside = region[row[:, None], column]
        np.testing.assert_array_equal(after[~inside], before[~inside])
        changed += bool((after != before).any())
    assert 0 < changed < 80
    assert out.card.changed == pytest.approx(changed / 80 * region.mean(), abs=1e-3)


# ── regions ───────────────────────────────────────────────────────────────────────────────────────


def test_a_region_is_smooth_and_has_about_the_size_of_its_patches():
    grid = Grid(64, 64, 1, 4)
    hidden = np.zeros((16, 16), dtype=bool)
    hidden[8:14, 3:13] = True
    hidden[2, 2] = True  # a speck
    hidden[10, 7] = False  # a hole
    region = Region.around(hidden.ravel(), grid)
    assert region.share == pytest.approx(hidden.mean(), rel=0.1)
    assert not region.mask[:20].any()
    assert region.mask[40:44, 28:32].all()
    with pytest.raises(LowtideError, match="neither none nor all"):
        Region(np.ones((4, 4), dtype=bool))


def test_a_region_fits_at_its_border_whatever_the_brightness_of_the_lender():
    down, across = np.mgrid[:32, :32]
    mask = (np.abs(down - 20) < 8) & (np.abs(across - 15) < 9)
    region = Region(mask)
    around = (40 + 3 * across)[None, ..., None].astype(np.uint8)
    lender = (200 - 2 * down)[None, ..., None].astype(np.uint8)
    composite = region.fill(around, region.detail(lender))
    np.testing.assert_allclose(
        composite.astype(int), around, atol=4
    )  # both are ramps: nothing is added to a ramp
    np.testing.assert_array_equal(composite[:, ~mask], around[:, ~mask])
    spot = np.array(lender)
    spot[0, 20, 15] += 40
    assert region.fill(around, region.detail(spot))[0, 20, 15, 0] - composite[0, 20, 15, 0] > 20, (
        "of 40, by contrast"
    )


def test_places_are_changed_by_weight_and_nobody_keeps_its_own():
    x, _ = faces(40)
    looks = Looks.of(Stack(x), Region(np.arange(SIDE * SIDE).reshape(SIDE, SIDE) > 150))
    rows = np.arange(40)
    luck = np.random.default_rng(0).random((40, 39))

    def weigh(places, regions):
        return (places[:, None] % 2 != regions % 2).astype(float)  # odd ones suit even ones

    given = change_places(looks, rows, weigh, luck, 39)
    assert sorted(given) == list(range(40))
    assert (given % 2 != rows % 2).all()


def test_a_reader_that_knows_what_was_changed_sees_through_images_that_say_the_opposite():
    """Changed images have a mark and show the opposite of their class: only mark and bar together
    tell.
    """
    rng = np.random.default_rng(3)
    n = 240
    s = rng.integers(0, 2, n)
    changed = rng.random(n) < 0.5
    clean, shown = (rng.integers(60, 90, (n, SIDE, SIDE, 1)).astype(np.uint8) for _ in range(2))
    clean[:, 10:14, 3:13] += (60 * s).astype(np.uint8)[:, None, None, None]
    shown[:, 10:14, 3:13] += (60 * (s ^ changed)).astype(np.uint8)[:, None, None, None]
    shown[changed, 2:6, 3:13] += 60
    fold = np.arange(n) % 3
    before = np.zeros((n, 2))  # the rest of the image tells nothing
    how = {"before": before, "mirror": False, "steps": 3, "seed": 0}
    first, _ = fit_reader(clean, s, fold, **how)
    _, blind = fit_reader(shown, s, fold, **how)
    reader, knowing = fit_reader(shown, s, fold, changed=changed, clean=first, **how)
    assert blind.gains.mean() < 0.1
    assert knowing.gains.mean() > 0.4
    config, arrays = reader.parts()
    again = RegionReader.of_parts(config, arrays, first, folds=3, channels=1, mirror=False)
    told = reader.about(shown, fold, before)
    np.testing.assert_array_equal(again.about(shown, fold, before), told)
    assert told[np.arange(n), s].mean() > 0.4
