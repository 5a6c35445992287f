"""Shapes that a plan may hide: closed forms agree with their definitions, and the best one wins on
held-out images.
"""

import numpy as np
import pytest

from lowtide import TIDE, Obfuscator
from lowtide.disclose.saved import load_hider
from lowtide.images.encoder import Grid
from lowtide.images.planner import ImageSettings
from lowtide.images.planning_attackers import CELLS, Thumbnails
from lowtide.images.shapes import (
    GREEDY,
    KNOTS,
    KernelReader,
    LinearReader,
    blended,
    choose_families,
    families,
    hiding,
)

SIDE = 32
N = 240
RANK = np.arange(CELLS**2, dtype=float).reshape(CELLS, CELLS)


def faces(seed=0):
    """Noise, and a disc in the lower middle that is brighter in one class, with a wave whose phase
    only tells pairs.
    """
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, N)
    x = rng.integers(90, 130, (N, SIDE, SIDE, 1)).astype(np.uint8)
    y, across = (np.mgrid[:SIDE, :SIDE] + 0.5) / SIDE
    disc = np.hypot(y - 0.74, (across - 0.5) / 1.5) < 0.14
    x[:, disc] += (25 * s).astype(np.uint8)[:, None, None]
    return Thumbnails(x, np.full_like(x, 128), s, np.bincount(s) / N, 1, np.arange(N)), disc


@pytest.fixture(scope="module")
def data():
    return faces()


def learning(data):
    return np.arange(len(data.codes)) % 5 < 3


@pytest.mark.parametrize("mirror", [False, True])
def test_families_are_nested_and_have_the_share_they_are_asked_for(mirror):
    grid = Grid(SIDE, SIDE, 1, 2)
    every = families(RANK, mirror=mirror)
    assert sum(family.kind == "box" for family in every) >= 20
    assert {"ellipse", "smoothed order", GREEDY} <= {family.kind for family in every}
    for family in every[:: 7 if mirror else 31]:
        order = family.order(grid, np.arange(len(grid)))
        assert sorted(order) == list(range(len(grid)))
        for more, less in ((0.9, 0.7), (0.7, 0.5)):
            small, large = (hiding(order, grid, kept) for kept in (more, less))
            assert (large >= small).all()
            assert 0 <= 1 - small.mean() - more < 1 / len(grid) + 1e-9


def test_boxes_and_ellipses_are_what_they_are_called():
    grid = Grid(64, 64, 1, 1)
    box = next(
        f for f in families(RANK, mirror=True) if f.kind == "box" and "1 times as wide" in f.name
    )
    hidden = hiding(box.order(grid, np.arange(len(grid))), grid, 0.9).reshape(64, 64)
    rows, columns = (np.flatnonzero(hidden.any(axis=axis)) for axis in (1, 0))
    inside = hidden[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    assert inside.mean() > 0.9, "a filled rectangle, but for a last line that is cut short"
    assert abs(len(rows) - len(columns)) <= 2


def test_a_blend_hides_first_what_the_order_and_the_shapes_hide_early():
    every = families(RANK, mirror=True)
    shapes = [place for place, one in enumerate(every) if one.kind == "ellipse"][:2]
    grid = Grid(64, 64, 1, 4)
    before = np.arange(CELLS**2)
    assert blended(every, (3,)) is every[3]
    mixed = blended(every, (0, *shapes))
    assert "greedy order, blended with the best 2" in mixed.name
    place = np.argsort(mixed.order(grid, before))
    ranks = [np.argsort(every[part].order(grid, before)) for part in (0, *shapes)]
    expected = ranks[0] + (ranks[1] + ranks[2]) / 2
    assert np.corrcoef(place, np.argsort(np.argsort(expected)))[0, 1] > 0.99
    assert max(np.corrcoef(place, rank)[0, 1] for rank in ranks) < 0.95, "and is none of them"


def test_the_linear_attacker_of_a_share_is_the_one_that_is_fitted_to_what_is_shown(data):
    """The Cholesky factor in the order of showing gives the attacker that a fit on the shown
    features alone gives.
    """
    small, _ = data
    reader = LinearReader(small, learning(small), mirror=False)
    family = families(RANK, mirror=False)[0]
    told = reader.read(family, (0.75,))[0]
    shown = np.flatnonzero(
        np.tile(np.arange(CELLS**2) >= CELLS**2 // 4, len(reader._between) // CELLS**2)
    )
    weights = np.linalg.solve(reader._within[np.ix_(shown, shown)], reader._between[shown])
    scores = reader._asked[:, shown] @ weights
    codes = small.codes[~learning(small)]
    line = scores[:, 1] - scores[:, 0]
    means = np.array([line[codes == k].mean() for k in (0, 1)])
    shares = np.bincount(codes) / len(codes)
    between = shares @ (means - shares @ means) ** 2
    assert told == pytest.approx(between / (line - means[codes]).var(), rel=1e-6)


def test_leaving_one_out_in_closed_form_is_leaving_one_out(data):
    small, _ = data
    few = Thumbnails(
        small.raw[:40], small.standins[:40], small.codes[:40], small.prior, 1, np.arange(40)
    )
    seen = []
    for row in (3, 17):
        changed = np.array(few.codes)
        changed[row] = 1 - changed[row]
        asked = np.arange(40) != row
        # What is said of all others may change with the class of this one; what is said of itself
        # may not.
        first, other = (
            KernelReader(
                Thumbnails(few.raw, few.standins, codes, few.prior, 1, few.rows),
                asked,
                mirror=False,
            )
            for codes in (few.codes, changed)
        )
        nothing = np.zeros((SIDE, SIDE), dtype=bool)
        seen.append(first.read(nothing) != other.read(nothing))
    assert all(seen)


def test_the_shape_that_covers_the_secret_is_chosen_and_others_are_read(data):
    small, disc = data
    grid = Grid(SIDE, SIDE, 1, 2)
    learnt = learning(data[0])
    wrong = np.arange(len(grid))  # an order that hides the upper lines first
    every = families(RANK, mirror=True)
    every = [*every[:2], *(one for one in every if "70% down" in one.name)]
    chosen = choose_families(small, grid, every, wrong, learning=learnt, mirror=True)
    kernel = KernelReader(small, ~learnt, mirror=True)
    place = KNOTS.index(0.8)
    best = hiding(every[chosen[place][0]].order(grid, wrong), grid, 0.8)
    order = hiding(every[0].order(grid, wrong), grid, 0.8)
    assert len(chosen[place]) == 1, "a blend with a wrong order tells more"
    assert every[chosen[place][0]].kind in ("box", "ellipse")
    assert grid.spread(best)[disc].mean() > 0.95
    assert kernel.read(grid.spread(order)) > 1.0 > 5 * kernel.read(grid.spread(best))


def test_a_plan_has_a_shape_for_every_share_and_keeps_it_when_it_is_saved(tmp_path):
    """Enough images to choose from; the order alone knows nothing, since planning starts from what
    it is given.
    """
    rng = np.random.default_rng(1)
    s = rng.integers(0, 2, 720)
    x = rng.integers(90, 130, (720, 16, 16, 1)).astype(np.uint8)
    x[:, 10:14, 4:12] += (25 * s).astype(np.uint8)[:, None, None, None]
    settings = ImageSettings(attackers=("edges",))
    made = Obfuscator(
        TIDE(2), kept=0.8, hide=[0], keep=[63], settings=settings, progress=False
    ).fit(x, s)
    plan = made.policy_
    assert tuple(shape.kept for shape in plan.shapes) == KNOTS
    for share in (0.95, 0.8, 0.4):
        at = plan.at(share)
        assert at.hidden[0]
        assert not at.hidden[63]
        assert 0 <= at.kept - share <= 2 / 64
    assert plan.grid.spread(plan.hidden)[10:14, 4:12].mean() > 0.9
    assert made.card_.parameters["shape"] == plan.shape
    made.hider_.save(tmp_path / "plan")
    again = load_hider(tmp_path / "plan").policy
    for share in (0.95, 0.8, 0.4):
        assert np.array_equal(again.at(share).hidden, plan.at(share).hidden)
    assert all(
        np.array_equal(a.hidden, b.hidden) for a, b in zip(again.curve, plan.curve, strict=True)
    )
