"""Frozen results."""

import math

import pytest

from lowtide import Estimate, worlds
from lowtide.interface import World


def test_an_estimate_counts_in_bits_too():
    estimate = Estimate(math.log(2), 0.0, 2 * math.log(2), 10)
    assert estimate.bits == Estimate(1.0, 0.0, 2.0, 10)
    assert str(Estimate(0.12345, 0.1, 0.2, 5)) == "0.1235 [0.1000, 0.2000]"


def test_results_are_frozen():
    with pytest.raises(AttributeError):
        Estimate(1.0, 0.0, 2.0, 10).value = 3.0


def test_worlds_speak_the_protocol():
    world: World = worlds.xor()
    members = [name for name in vars(World) if not name.startswith("_")]
    assert {"sample", "density", "prefixes", "observed", "information", "prior"} <= set(members)
    assert all(hasattr(world, name) for name in members)
