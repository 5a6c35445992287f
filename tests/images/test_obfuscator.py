"""Drawn faces: the plan hides the mouth, where the secret is known to sit, and attackers lose what they had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lowtide.images.obfuscator import ImageObfuscator, numbered

from lowtide.attack.panel import attack
from lowtide.disclose.card import ReleaseCard
from lowtide.errors import LowtideError
from lowtide.images.encoder import Stack
from lowtide.images.hider import ImageHider
from lowtide.images.policies import FixedPatches, PaperPatches
from lowtide.images.released import Released, all_flags
from lowtide.worlds import drawn_faces

WORLD = drawn_faces(32, patch=4)
ATTACKERS = ("edges",)


def _faces(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    x, s = WORLD.sample(n, seed)
    return np.rint(WORLD.images(x) * 255).astype(np.uint8), np.array(["calm", "smiling"])[s]


@pytest.fixture(scope="module")
def faces() -> tuple[np.ndarray, np.ndarray]:
    return _faces(400, 11)


@pytest.fixture(scope="module")
def fitted(faces: tuple[np.ndarray, np.ndarray]) -> ImageObfuscator:
    return ImageObfuscator(patch=4, attackers=ATTACKERS).fit(Stack(faces[0]), faces[1])


@pytest.fixture(scope="module")
def noised(faces: tuple[np.ndarray, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> ImageObfuscator:
    key = tmp_path_factory.mktemp("keys") / "key"
    grey = faces[0].mean(axis=3).astype(np.uint8)[:200]
    obfuscator = ImageObfuscator(mechanism="gaussian", kept=0.75, attackers=ATTACKERS, key_file=str(key))
    return obfuscator.fit(grey, faces[1][:200])


def test_the_plan_hides_the_mouth(fitted: ImageObfuscator) -> None:
    plan, mouth = fitted.policy_, WORLD.leaking_patches()
    assert isinstance(plan, FixedPatches)
    assert mouth[plan.order[: mouth.sum()]].mean() >= 0.9
    assert plan.kept > 0.6
    assert np.nansum(plan.marginal[mouth]) > 0.5 * np.nansum(plan.marginal)


def test_attackers_learn_before_and_hardly_after(fitted: ImageObfuscator) -> None:
    images, s = _faces(500, 12)
    before = attack(images, s, attackers=ATTACKERS, progress=False).headline.information
    after = attack(fitted.transform(images), s, attackers=ATTACKERS, progress=False).headline.information
    assert before.low > 0.1
    assert after.low < 0.05
    assert after.value < 0.4 * before.value


def test_the_budget_is_kept_by_the_judges(fitted: ImageObfuscator) -> None:
    assert fitted.leakage_.value <= 0.05
    assert fitted.check_.attacks.retrained[0].information.low <= 0.05
    assert fitted.leakage_.n == 100  # a quarter of the images judges


def test_the_curve_falls_and_is_nested(fitted: ImageObfuscator) -> None:
    plan = fitted.policy_
    kept = [point.kept for point in plan.curve]
    assert kept[0] == 1.0
    assert kept == sorted(kept, reverse=True)
    assert kept[-1] < 0.2
    for more, less in zip(plan.curve, plan.curve[1:], strict=False):
        assert (less.hidden >= more.hidden).all()
    assert plan.curve[0].reading.leakage.value > 0.15
    assert plan.curve[-1].reading.leakage.value < 0.05
    for share in (0.9, 0.55, 0.0):
        assert 0 <= plan.at(share).kept - share < 1 / 64 + 1e-9
    with pytest.raises(LowtideError, match="kept must lie in"):
        plan.at(1.5)


def test_what_is_not_hidden_stays(fitted: ImageObfuscator, faces: tuple[np.ndarray, np.ndarray]) -> None:
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


def test_card(fitted: ImageObfuscator) -> None:
    card = fitted.card_
    assert ReleaseCard.from_json(card.to_json()) == card
    assert card.rows == 400
    assert card.changed == pytest.approx(1 - fitted.policy_.kept)
    assert card.parameters["budget"] == "0.05 nat (0.0721 bits)"
    assert [feature.hidden for feature in card.features] == fitted.policy_.hidden.tolist()
    assert "smiling" not in card.text()


def test_save_and_load(fitted: ImageObfuscator, faces: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    fitted.hider_.save(tmp_path / "plan")
    again = ImageHider.load(tmp_path / "plan")
    assert np.array_equal(again.transform(faces[0]), fitted.transform(faces[0]))
    assert again.mechanism == fitted.mechanism_
    plan, old = again.policy, fitted.policy_
    assert isinstance(plan, FixedPatches)
    for share in (0.9, 0.4):
        assert np.array_equal(plan.at(share).hidden, old.at(share).hidden)
    assert [point.reading for point in plan.curve] == [point.reading for point in old.curve]
    assert again.card == fitted.card_
    assert "smiling" not in (tmp_path / "plan" / "config.json").read_text()
    (tmp_path / "plan" / "config.json").write_text((tmp_path / "plan" / "config.json").read_text().replace("plan", "x"))
    with pytest.raises(LowtideError, match="make it again"):
        ImageHider.load(tmp_path / "plan")


def test_noise_is_the_same_in_any_batch(noised: ImageObfuscator, faces: tuple[np.ndarray, np.ndarray]) -> None:
    grey = faces[0].mean(axis=3).astype(np.uint8)[:10]
    names = [f"face{k}.png" for k in range(10)]
    released = noised.transform(grey, ids=names)
    assert released.shape == grey.shape
    assert np.array_equal(noised.transform(grey[4:6], ids=names[4:6]), released[4:6])
    changed = (released != grey).mean()
    assert 0.15 < changed <= 0.25
    again = noised.transform(Stack(grey[..., None]), ids=names).read(np.arange(10))
    assert np.array_equal(again[..., 0], released)
    with pytest.raises(LowtideError, match="rows need ids"):
        noised.transform(grey)
    assert noised.card_.certificate.hidden_part is not None
    assert Path(noised.key_file).stat().st_mode & 0o077 == 0


def test_the_papers_rule_with_the_exact_density(faces: tuple[np.ndarray, np.ndarray]) -> None:
    class Exact:
        def conditionals(self, x: Any) -> Any:
            return WORLD.conditionals(x.reshape(len(x), -1) / 255)

    images = faces[0][:60]
    nothing, some = np.zeros(64, dtype=bool), np.arange(64) == 5
    flags = PaperPatches(Exact(), 0.5, nothing, some).flags(images)
    assert flags.shape == (60, 64)
    assert flags[:, 5].all()
    mouth = WORLD.leaking_patches()
    assert flags[:, mouth].mean() > 5 * flags[:, ~mouth & ~some].mean()
    assert flags[:, mouth].any(axis=1).mean() > 0.5
    assert not PaperPatches(Exact(), 0.5, ~nothing, nothing).flags(images).any()
    assert all_flags(Stack(images), PaperPatches(Exact(), 9.0, nothing, nothing)).sum() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "disclose"}, "policy must be one of"),
        ({"mechanism": "blur"}, "mechanism must be one of"),
        ({"patch": 0}, "patch must be at least 1"),
        ({"patch": 40}, "larger than the image"),
        ({"kept": 1.2}, "kept must lie in"),
        ({"kept": 0.5, "budget": 0.1}, "not both"),
        ({"policy": "paper", "budget": 0.1}, "keeps neither"),
        ({"lam": 1.0}, "leave lam out"),
        ({"epsilon": -1.0}, "epsilon must lie in"),
        ({"budget": "40%"}, "allow at least that much"),
        ({"keep": [16]}, "numbers of patches from 0 to 15"),
        ({"keep": [3], "hide": [2, 3]}, "cannot be both kept and hidden"),
        ({"hide": [0.5]}, "must hold numbers of patches"),
        ({"hide": np.ones(3, dtype=bool)}, "there are 16 patches"),
        ({"random_state": -1}, "random_state must be at least 0"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str, faces: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(LowtideError, match=message):
        ImageObfuscator(**options).fit(*faces)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, s: (x.astype(float), s), "must be bytes"),
        (lambda x, s: (x, None), "give s"),
        (lambda x, s: (x, s[:-1]), "they must match"),
        (lambda x, s: (x[:10], s[:10]), "at least 20"),
        (lambda x, s: (x, np.where(np.arange(len(s)) < 2, "rare", s)), "fewer than 5 images"),
        (lambda x, s: (x, np.linspace(0.0, 1.0, len(s))), "put it into bins"),
    ],
)
def test_bad_data(change: Any, message: str, faces: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(LowtideError, match=message):
        ImageObfuscator().fit(*change(*faces))


def test_other_sizes_are_refused(fitted: ImageObfuscator, faces: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(LowtideError, match="the plan is for images of 32×32"):
        fitted.transform(faces[0][:, :16])
    assert numbered("keep", [1, 3], 4).tolist() == [False, True, False, True]
