"""Named random streams: one number per purpose, and the draws that every recorded result rests
on.
"""

import numpy as np
import pytest

from lowtide.errors import LowtideError
from lowtide.splits import STREAMS, derived_seed, generator, generator_for, stream

FIRST = {
    "density": 3626598334,
    "rows of regressions": 3196931734,
    "image networks": 2825710524,
    "image folds": 2637406181,
    "attacker": 694010247,
    "attack panel": 2884556375,
    "divergence bound": 3873452405,
    "surface channels": 3799427792,
    "row order": 1539099074,
    "counted rows": 2429383084,
    "sampled rows": 520984965,
    "utility": 3682253311,
    "table planning rows": 3964924996,
    "table planning sample": 3141116543,
    "table planning orders": 2613022947,
    "table histories": 1874364848,
    "table attacked rows": 161328693,
    "table estimate": 2617721224,
    "table judged rows": 3026431988,
    "table counted rows": 2214077229,
    "table redraw curve": 3587916967,
    "table rehearsal": 4006933708,
    "table scan": 3532027437,
    "image judged rows": 878186583,
    "image halves": 1690324395,
    "image attacked rows": 2829875642,
    "image sequential": 3652663425,
    "image rehearsal": 3822718010,
    "image scan": 2525371557,
    "image report": 481828951,
    "image names": 2365280050,
    "edge folds": 3527552325,
    "edge orders": 2811520079,
    "thumbnails": 4253025450,
    "image shapes": 1467297130,
    "text judged rows": 1919262090,
    "text planning rows": 3388990570,
    "text sample": 557909013,
    "text rehearsal": 2169627033,
    "text redraw folds": 1165557280,
    "text report": 2867060361,
    "text explanation": 303481587,
    "texts of a page": 439358806,
}
"""What each stream gives first with the seed 0."""


def test_every_purpose_has_a_number_of_its_own():
    assert len(set(STREAMS.values())) == len(STREAMS)


def test_the_first_draws_are_those_recorded():
    assert {name: derived_seed(0, name) for name in STREAMS} == FIRST


def test_streams_of_one_seed_and_seeds_of_one_stream_differ():
    drawn = {generator(seed, name).random() for seed in (0, 1) for name in STREAMS}
    assert len(drawn) == 2 * len(STREAMS)


def test_the_entropy_is_the_seed_and_the_number():
    assert stream(7, "attacker").entropy == [7, 0xA77C]
    assert generator(7, "attacker").random() == np.random.default_rng([7, 0xA77C]).random()
    assert generator_for("table scan", 30).random() == np.random.default_rng([0x5CA4, 30]).random()


def test_a_seed_is_not_negative():
    with pytest.raises(LowtideError, match="seed must be at least 0"):
        stream(-1, "attacker")
