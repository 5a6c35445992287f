"""The order of hiding is that of an attacker who is retrained, in closed form, for every unit that
is tried.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.images.convnets import to_input
from lowtide.images.edges import edges_and_shades
from lowtide.images.encoder import Grid
from lowtide.images.planning import PatchPlanner, Units
from lowtide.images.planning_attackers import CELLS, Thumbnails, at_places, by_kind, placed
from lowtide.images.showing import PlaceNumbers, Spread, _Shown, showing_order

NONE = np.zeros(0, dtype=np.intp)


def _told(spread: Spread, shown: np.ndarray) -> float:
    """d² of the features `shown`, from its definition."""
    mine = spread.between[shown]
    return float((mine * np.linalg.solve(spread.within[np.ix_(shown, shown)], mine)).sum())


def _random(seed: int, features: int = 6) -> Spread:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((features, 2 * features))
    return Spread(root @ root.T / features, rng.standard_normal((features, 3)), np.arange(features))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_step_shows_what_adds_least(seed: int) -> None:
    spread = _random(seed)
    order = showing_order(spread, np.arange(6), np.ones(6), first=NONE, last=NONE)
    assert sorted(order) == list(range(6))
    for k in range(6):
        leakage = {j: _told(spread, np.array([*order[:k], j])) for j in order[k:]}
        assert leakage[order[k]] == pytest.approx(min(leakage.values()), rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_knowing_some_features_takes_out_what_they_tell(seed: int) -> None:
    spread = _random(seed)
    known = np.arange(6) < 3
    rest = spread.given(known)
    assert _told(spread, np.arange(6)) == pytest.approx(
        _told(spread, np.flatnonzero(known)) + _told(rest, np.arange(3)), rel=1e-6
    )


def test_copies_do_not_excuse_each_other() -> None:
    # 0 and 1 are the secret twice, 2 a weak reading of its own, 3 and 4 nothing.
    within = np.eye(5)
    within[0, 1] = within[1, 0] = 0.999
    spread = Spread(within, np.array([[1.0], [1.0], [0.5], [0.0], [0.0]]), np.arange(5))
    order = showing_order(spread, np.arange(5), np.ones(5), first=NONE, last=NONE)
    assert set(order[:2]) == {3, 4}
    assert order[2] == 2
    # A rule that hides what is lost while all the rest is shown would hide 2 first.
    alone = [
        _told(spread, np.arange(5)) - _told(spread, np.delete(np.arange(5), j)) for j in range(5)
    ]
    assert int(np.argmax(alone)) == 2


def test_area_counts_and_units_can_be_forced() -> None:
    spread = Spread(np.eye(3), np.array([[1.0], [1.1], [0.0]]), np.arange(3))
    unit = np.arange(3)
    assert showing_order(spread, unit, np.array([1.0, 4.0, 1.0]), first=NONE, last=NONE) == [
        2,
        1,
        0,
    ]
    assert showing_order(spread, unit, np.ones(3), first=np.array([1]), last=np.array([2])) == [
        1,
        0,
        2,
    ]


def test_features_belong_to_their_places() -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (1, 64, 64, 3), dtype=np.uint8)
    other = pixels.copy()
    other[:, 48:, :16] = rng.integers(0, 256, (1, 16, 16, 3), dtype=np.uint8)
    before, after = (edges_and_shades(to_input(x)).numpy() for x in (pixels, other))
    changed = placed(np.abs(after - before), 3).reshape(CELLS, CELLS) > 1e-4
    assert changed[12:, :4].all()
    # Edges are relative to those around, one coarse cell of 8 pixels and its neighbours.
    assert not changed[:8].any()
    assert not changed[:, 8:].any()
    shades, coarse, fine = by_kind(before, 3)
    assert shades.shape[1] + fine.shape[1] == len(at_places(3))
    assert placed(np.ones_like(before), 3).sum() == pytest.approx(
        shades.shape[1] + fine.shape[1] + coarse.shape[1]
    )
    with pytest.raises(LowtideError, match="1 channel"):
        by_kind(before, 1)


@pytest.mark.parametrize("patch", [1, 3, 4, 8, 9, 64])
@pytest.mark.parametrize("mirror", [False, True])
def test_units_join_what_lies_together(patch: int, mirror: bool) -> None:
    grid = Grid(64, 64, 3, patch)
    units = Units.make(grid, 16, mirror=mirror)
    assert len(units.of_patch) == len(grid)
    assert len(units.of_place) == 256
    # Every unit owns patches; the number of units says how fine planning is.
    owners = np.bincount(units.of_patch, minlength=len(units))
    assert (owners > 0).mean() > 0.9
    if mirror:
        cells = units.of_place.reshape(16, 16)
        assert np.array_equal(cells, cells[:, ::-1])
        patches = units.of_patch.reshape(grid.down, grid.across)
        assert np.array_equal(patches, patches[:, ::-1])
    if patch == 4 and not mirror:
        assert np.array_equal(units.of_patch, units.of_place)
    if patch == 8 and not mirror:
        assert np.array_equal(units.of_place.reshape(16, 16)[::2, ::2].ravel(), units.of_patch)
        assert len(units) == 64


def test_what_noise_adds_by_chance_is_taken_off() -> None:
    """Features that have nothing to do with the secret add to d² of few images, and nothing beyond
    chance.
    """
    rng = np.random.default_rng(3)
    s = np.arange(60) % 2
    n = 60
    plain = []
    beyond = []
    for _ in range(300):
        x = rng.standard_normal((n, 6))
        means = np.stack([x[s == k].mean(axis=0) for k in (0, 1)])
        centred = x - means[s]
        scale = centred.std(axis=0)
        within = (centred / scale).T @ (centred / scale) / n + np.eye(6)
        between = (means - x.mean(axis=0)).T / scale[:, None] * np.sqrt(0.5)
        for found, chance in ((plain, 0.0), (beyond, 1 / n)):
            found.append(
                _Shown(
                    Spread(within, between, np.zeros(6, dtype=int), chance), np.zeros(1, dtype=int)
                ).adds(0)
            )
    error = np.std(plain) / np.sqrt(300)
    assert np.mean(plain) > 10 * error
    assert abs(np.mean(beyond)) < 4 * error


def test_a_plain_background_does_not_spoil_the_moments() -> None:
    """Where nearly all images are the same, rounding must not turn a variance negative."""
    rng = np.random.default_rng(2)
    pixels = np.full((300, 32, 32, 3), 204, dtype=np.uint8)
    codes = np.arange(300) % 2
    pixels[:, 8:24, 8:24] = rng.integers(0, 256, (300, 16, 16, 3))
    pixels[::50, 2, 3] += 1
    data = Thumbnails(
        pixels, np.full_like(pixels, 128), codes, np.array([0.5, 0.5]), 1, np.arange(300)
    )
    within = PlaceNumbers.of(data, mirror=False).spread(np.arange(len(codes)), codes).within
    assert np.diag(within).min() > 0.99
    assert np.linalg.eigvalsh(within[::4, ::4])[0] > 0.9


def test_moments_are_those_of_the_features() -> None:
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (40, 16, 16, 1), dtype=np.uint8)
    codes = np.arange(40) % 2
    data = Thumbnails(
        pixels, np.full_like(pixels, 128), codes, np.array([0.5, 0.5]), 1, np.arange(len(codes))
    )
    spread = PlaceNumbers.of(data, mirror=False).spread(np.arange(len(codes)), codes)
    shades, _, fine = by_kind(edges_and_shades(to_input(pixels)).double().numpy(), 1)
    x = np.concatenate([shades, fine], axis=1)[:, :50]
    centred = x - np.stack([x[codes == k].mean(axis=0) for k in (0, 1)])[codes]
    assert np.allclose(spread.within[:50, :50] - np.eye(50), np.corrcoef(centred.T), atol=1e-3)
    gap = (x[codes == 1].mean(axis=0) - x[codes == 0].mean(axis=0)) / centred.std(axis=0)
    assert np.allclose(
        spread.between[:50, 1] - spread.between[:50, 0], gap * np.sqrt(0.5), atol=1e-3
    )


def test_orders_of_halves_are_averaged_where_images_are_enough() -> None:
    """Every image is in as many halves; of few images there is one order of all."""
    for n, halves in ((399, 1), (401, 6)):
        pixels = np.zeros((n, 4, 4, 1), dtype=np.uint8)
        codes = np.arange(n) % 2
        data = Thumbnails(pixels, pixels, codes, np.array([0.5, 0.5]), 1, np.arange(n))
        none = np.zeros(4, dtype=bool)
        found = PatchPlanner(data, Grid(4, 4, 1, 2), none, none, mirror=True, seed=0)._halves(
            np.arange(n)
        )
        assert len(found) == halves
        assert (np.bincount(np.concatenate(found), minlength=n) == max(1, halves // 2)).all()
        assert all(abs(codes[half].mean() - 0.5) < 0.01 for half in found)
