"""Drawn faces: the plan hides the mouth, where the secret is known to sit, and attackers lose what
they had.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lowtide import TIDE, Obfuscator, release
from lowtide.attack.panel import attack
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.plan_file import Plan
from lowtide.disclose.raw_past import RawPast
from lowtide.disclose.saved import load_hider
from lowtide.errors import LowtideError
from lowtide.images.encoder import Grid, Stack
from lowtide.images.mechanism import FixedPatches, Released, all_flags
from lowtide.images.modality import IMAGES
from lowtide.images.planner import ImageSettings, read_patches
from lowtide.tables.settings import TableSettings
from lowtide.worlds import drawn_faces

WORLD = drawn_faces(32, patch=4)
ATTACKERS = ("edges",)
EDGES = ImageSettings(attackers=ATTACKERS)


def _faces(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    x, s = WORLD.sample(n, seed)
    return np.rint(WORLD.images(x) * 255).astype(np.uint8), np.array(["calm", "smiling"])[s]


@pytest.fixture(scope="module")
def faces() -> tuple[np.ndarray, np.ndarray]:
    return _faces(400, 11)


@pytest.fixture(scope="module")
def fitted(faces: tuple[np.ndarray, np.ndarray]) -> Obfuscator:
    return Obfuscator(TIDE(4), settings=EDGES).fit(Stack(faces[0]), faces[1])


@pytest.fixture(scope="module")
def noised(
    faces: tuple[np.ndarray, np.ndarray], tmp_path_factory: pytest.TempPathFactory
) -> Obfuscator:
    key = tmp_path_factory.mktemp("keys") / "key"
    grey = faces[0].mean(axis=3).astype(np.uint8)[:200]
    obfuscator = Obfuscator(mechanism="gaussian", kept=0.75, settings=EDGES, key_file=str(key))
    return obfuscator.fit(grey, faces[1][:200])


def test_the_plan_hides_the_mouth(fitted: Obfuscator) -> None:
    plan = fitted.policy_
    mouth = WORLD.leaking_patches()
    assert isinstance(plan, FixedPatches)
    assert mouth[plan.order[: mouth.sum()]].mean() >= 0.9
    assert plan.kept > 0.6
    assert np.nansum(plan.marginal[mouth]) > 0.5 * np.nansum(plan.marginal)


def test_attackers_read_the_clean_images_and_hardly_the_release(fitted: Obfuscator) -> None:
    images, s = _faces(500, 12)
    before = attack(images, s, attackers=ATTACKERS, progress=False).headline.information
    after = attack(
        fitted.transform(images), s, attackers=ATTACKERS, progress=False
    ).headline.information
    assert before.low > 0.1
    assert after.low < 0.05
    assert after.value < 0.4 * before.value


def test_the_budget_is_kept_against_the_checking_attackers(fitted: Obfuscator) -> None:
    assert fitted.check_.measured.value <= 0.05
    assert fitted.check_.attacks.retrained[0].information.low <= 0.05
    assert fitted.check_.measured.n == 80  # a fifth of the images judges


@pytest.mark.parametrize("limit", [0.56, 0.65, 0.97])
def test_an_accuracy_on_the_card_never_exceeds_its_budget_without_the_word(
    limit: float, faces: tuple[np.ndarray, np.ndarray]
) -> None:
    small = faces[0][:200, ::2, ::2]
    made = Obfuscator(budget=f"{limit:.0%}", settings=EDGES, progress=False).fit(
        small, faces[1][:200]
    )
    standing = made.card_.standing
    read = made.check_.attacks.retrained[0].accuracy
    state = "exceeded" if read.low > limit else "kept" if read.high <= limit else "not shown"
    if made.check_.empty:
        state = "kept"
    assert standing.state == state
    assert f"{state}:" in made.card_.text()
    if read.value > limit and not made.check_.empty:
        assert standing.state in ("not shown", "exceeded")


def test_attacks_are_not_printed_as_an_estimate(fitted: Obfuscator) -> None:
    assert fitted.leakage_ is None
    assert fitted.card_.leakage is None
    assert "has no estimate of its own, only attacks, which are lower bounds" in fitted.card_.text()


def test_the_curve_falls_and_every_share_has_its_shape(fitted: Obfuscator) -> None:
    plan = fitted.policy_
    kept = [point.kept for point in plan.curve]
    assert kept[0] == 1.0
    assert kept == sorted(kept, reverse=True)
    assert kept[-1] < 0.2
    for point in plan.curve:
        assert np.array_equal(plan.at(point.kept).hidden, point.hidden)
    assert plan.curve[0].reading.leakage.value > 0.15
    assert plan.curve[-1].reading.leakage.value < 0.05
    for share in (0.9, 0.55, 0.0):
        assert 0 <= plan.at(share).kept - share < 1 / 64 + 1e-9
    with pytest.raises(LowtideError, match="kept must lie in"):
        plan.at(1.5)


def test_patches_that_are_not_hidden_stay(
    fitted: Obfuscator, faces: tuple[np.ndarray, np.ndarray]
) -> None:
    images = faces[0][:20]
    released = fitted.transform(images)
    mask = fitted.mechanism_.grid.spread(fitted.policy_.hidden)
    assert np.array_equal(released[:, ~mask], images[:, ~mask])
    assert (released[:, mask] == 128).all()
    lazy = fitted.transform(Stack(images))
    assert isinstance(lazy, Released)
    assert np.array_equal(lazy.read(np.array([3, 1])), released[[3, 1]])
    flags = fitted.flags(images)
    assert flags.shape == (20, 64)
    assert (flags == fitted.policy_.hidden).all()


def test_the_card_describes_the_release_of_images(fitted: Obfuscator) -> None:
    card = fitted.card_
    assert set(card.parameters["attackers not met"]) == set(IMAGES.attackers) - {"edges"}
    assert "Not met: oriented gradients" in card.text()
    assert ReleaseCard.from_json(card.to_json()) == card
    assert card.rows == 400
    assert card.changed == pytest.approx(1 - fitted.policy_.kept)
    assert card.parameters["budget"] == "0.05 nat (0.0721 bits)"
    assert [feature.hidden for feature in card.features] == fitted.policy_.hidden.tolist()
    assert "smiling" not in card.text()


def test_save_and_load(
    fitted: Obfuscator, faces: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    fitted.hider_.save(tmp_path / "plan")
    again = load_hider(tmp_path / "plan")
    assert np.array_equal(again.transform(faces[0]), fitted.transform(faces[0]))
    assert again.mechanism == fitted.mechanism_
    plan = again.policy
    old = fitted.policy_
    assert isinstance(plan, FixedPatches)
    for share in (0.9, 0.4):
        assert np.array_equal(plan.at(share).hidden, old.at(share).hidden)
    assert [point.reading for point in plan.curve] == [point.reading for point in old.curve]
    assert again.card == fitted.card_
    assert "smiling" not in (tmp_path / "plan" / "config.json").read_text()
    config = tmp_path / "plan" / "config.json"
    config.write_text(config.read_text().replace('"name": "fixed"', '"name": "x"'))
    with pytest.raises(LowtideError, match="make it again"):
        load_hider(tmp_path / "plan")


def test_noise_is_the_same_in_any_batch(
    noised: Obfuscator, faces: tuple[np.ndarray, np.ndarray]
) -> None:
    grey = faces[0].mean(axis=3).astype(np.uint8)[:10]
    names = [f"face{k}.png" for k in range(10)]
    released = noised.transform(grey, ids=names)
    assert released.shape == grey.shape
    assert np.array_equal(noised.transform(grey[4:6], ids=names[4:6]), released[4:6])
    changed = (released != grey).mean()
    assert 0.15 < changed <= 0.25
    again = noised.transform(Stack(grey[..., None]), ids=names).read(np.arange(10))
    assert np.array_equal(again[..., 0], released)
    assert np.array_equal(
        noised.transform(grey[4:6]), noised.transform(grey)[4:6]
    )  # without names, too
    assert noised.card_.certificate.hidden_part is not None
    assert Path(noised.key_file).stat().st_mode & 0o077 == 0


def test_a_second_release_draws_the_same_noise_unless_fresh_noise_is_asked_for(
    noised: Obfuscator, faces: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    grey = faces[0].mean(axis=3).astype(np.uint8)[:10]
    plan = Plan("images", "smile", {"resize": None, "grey": True, "kept": []}, noised.hider_).save(
        tmp_path / "plan"
    )
    first, second = (release(grey, plan).data for _ in range(2))
    assert np.array_equal(first, second)
    other = release(grey, plan, fresh_noise=True).data
    assert not np.array_equal(first, other)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for row, image in enumerate(grey):
            # The same name and another picture, and the same picture under another name.
            Image.fromarray(image).save(
                tmp_path / folder / f"{row if folder == 'a' else 9 - row}.png"
            )
    outs = [
        release(tmp_path / folder, plan, tmp_path / f"{folder} released").data
        for folder in ("a", "b")
    ]
    shown = [
        np.stack([np.asarray(Image.open(out / f"{row}.png")) for row in range(10)]) for out in outs
    ]
    assert np.array_equal(shown[0], first)
    assert np.array_equal(shown[1][::-1], first)


def test_the_papers_rule_with_the_exact_density(faces: tuple[np.ndarray, np.ndarray]) -> None:
    class Exact:
        def conditionals(self, x: Any) -> Any:
            return WORLD.conditionals(x.reshape(len(x), -1) / 255)

    images = faces[0][:60]
    nothing = np.zeros(64, dtype=bool)
    some = np.arange(64) == 5
    flags = RawPast(Exact(), 0.5, nothing, some).flags(images)
    assert flags.shape == (60, 64)
    assert flags[:, 5].all()
    mouth = WORLD.leaking_patches()
    assert flags[:, mouth].mean() > 5 * flags[:, ~mouth & ~some].mean()
    assert flags[:, mouth].any(axis=1).mean() > 0.5
    assert not RawPast(Exact(), 0.5, ~nothing, nothing).flags(images).any()
    assert all_flags(Stack(images), RawPast(Exact(), 9.0, nothing, nothing)).sum() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "plan"}, "policy must be one of 'fixed', 'redraw', 'sequential', got 'plan'"),
        ({"mechanism": "blur"}, "mechanism must be one of"),
        ({"estimator": TIDE(0)}, "side of a patch must be at least 1"),
        ({"estimator": TIDE(40)}, "larger than the image"),
        ({"estimator": TIDE([0, 1])}, "side of their patches in pixels, such as 8; got list"),
        ({"kept": 1.2}, "kept must lie in"),
        ({"kept": 0.5, "budget": 0.1}, "not both"),
        ({"policy": "sequential", "past": "raw", "budget": 0.1}, "keeps no budget"),
        ({"policy": "sequential", "past": "raw", "kept": 0.5}, "keeps no share"),
        ({"delta": 0.1}, "leave delta out"),
        (
            {"settings": TableSettings()},
            "settings of images must be a ImageSettings, got TableSettings",
        ),
        ({"lam": 1.0}, "leave lam out"),
        ({"epsilon": -1.0}, "epsilon must lie in"),
        ({"budget": "40%"}, "allow at least that much"),
        ({"keep": [16]}, "numbers of patches from 0 to 15"),
        ({"keep": [3], "hide": [2, 3]}, "cannot be both kept and hidden"),
        ({"hide": [0.5]}, "must hold numbers of patches"),
        ({"hide": "1,2,3"}, 'boxes "x,y,w,h" in pixels'),
        ({"hide": ["0,0,33,1"]}, "reaches beyond the images of 32×32 pixels"),
        ({"hide": np.ones(3, dtype=bool)}, "there are 16 patches"),
        ({"random_state": -1}, "random_state must be at least 0"),
    ],
)
def test_bad_options(
    options: dict[str, Any], message: str, faces: tuple[np.ndarray, np.ndarray]
) -> None:
    with pytest.raises(LowtideError, match=message):
        Obfuscator(**options).fit(*faces)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, s: (x.astype(float), s), "must be bytes"),
        (lambda x, s: (x, None), "give the secret"),
        (lambda x, s: (x, s[:-1]), "they must match"),
        (lambda x, s: (x[:10], s[:10]), "at least 20"),
        (lambda x, s: (x, np.where(np.arange(len(s)) < 2, "rare", s)), "fewer than 5 images"),
        (lambda x, s: (x, np.linspace(0.0, 1.0, len(s))), "put it into bins"),
    ],
)
def test_bad_data(change: Any, message: str, faces: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(LowtideError, match=message):
        Obfuscator().fit(*change(*faces))


def test_other_sizes_are_refused(fitted: Obfuscator, faces: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(LowtideError, match="the plan is for images of 32×32"):
        fitted.transform(faces[0][:, :16])


def test_patches_are_named_by_numbers_masks_and_boxes() -> None:
    grid = Grid(16, 24, 1, 8)  # two rows of three patches
    assert np.flatnonzero(read_patches("keep", [1, 3], grid)).tolist() == [1, 3]
    assert np.flatnonzero(read_patches("keep", ["1", 3], grid)).tolist() == [1, 3]
    assert np.flatnonzero(read_patches("keep", np.arange(6) == 2, grid)).tolist() == [2]
    assert np.flatnonzero(read_patches("hide", "7,0,2,8", grid)).tolist() == [0, 1]
    assert np.flatnonzero(read_patches("hide", ["8,8,8,8", "0,0,1,1"], grid)).tolist() == [0, 4]
    assert np.flatnonzero(read_patches("hide", "0,0,24,16", grid)).tolist() == list(range(6))
    assert not read_patches("hide", (), grid).any()


def test_patches_that_carry_the_utility_are_hidden_later() -> None:
    rng = np.random.default_rng(6)
    s, u = rng.integers(0, 2, (2, 300))
    images = rng.integers(90, 130, (300, 16, 16, 1)).astype(np.uint8)
    images[:, 9:15, 1:7] += (12 * s[:, None, None, None]).astype(np.uint8)
    images[:, 9:12, 9:15] += (40 * s[:, None, None, None]).astype(np.uint8)
    images[:, 13:15, 9:15] += (80 * u[:, None, None, None]).astype(np.uint8)
    settings = ImageSettings(mirror=False, attackers=ATTACKERS)
    plain = Obfuscator(kept=0.75, settings=settings, progress=False).fit(images, s)
    minded = Obfuscator(kept=0.75, settings=settings, progress=False).fit(images, s, utility=u)
    assert plain.policy_.order[:2].tolist() == [3, 2]
    assert minded.policy_.order[:2].tolist() == [2, 3]
    assert minded.check_.utility.headline.information.low > 0.3
    assert minded.policy_.curve[0].useful.leakage.low > 0.3
    assert plain.policy_.curve[0].useful is None
    with pytest.raises(LowtideError, match="give one value for each"):
        Obfuscator(settings=settings).fit(images, s, utility="age")
