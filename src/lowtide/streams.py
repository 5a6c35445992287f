"""Random streams by name: what draws for one purpose shares no random numbers with what draws for another.

A user who draws data with `default_rng(0)` and fits with `random_state=0` would otherwise have the very numbers that
drew the classes decide which rows are held out. Each number stays as it is for good: results depend on it.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from lowtide.errors import count

STREAMS = MappingProxyType(
    {
        # density
        "density": 0x71DE,
        "paper recipe on texts": 0x7E87,
        "paper recipe on images": 0x9A9E,
        "image networks": 0x1A6E,
        "image folds": 0xF01D,
        # attack
        "attacker": 0xA77C,
        "attack panel": 0x9A7E1,
        "divergence bound": 0x10B0,
        "utility": 0x5554494C,
        # tables
        "table planning rows": 1,
        "table planning sample": 2,
        "table planning orders": 3,
        "table histories": 4,
        "table attacked rows": 5,
        "table estimate": 6,
        "table judged rows": 8,
        "table rehearsal": 0xD15C,
        "table scan": 0x5CA4,
        # images
        "image judged rows": 0x1D6,
        "image attacked rows": 0x1D7,
        "image sequential": 0x5E9,
        "image rehearsal": 0x1D15C,
        "image scan": 0x1A5CA,
        "image report": 0x5A3,
        "image names": 0x6E616D65,
        "edge folds": 0xED6E,
        "edge orders": 0xED6F,
        "thumbnails": 0x7B,
        # texts
        "text judged rows": 0x7E1,
        "text planning rows": 0x7E2,
        "text sample": 0x7E3,
        "text rehearsal": 0x7E0D,
        "text report": 0x7E7,
        "text explanation": 0xA2F1,
    }
)
"""What each stream is for, and its number."""


def stream(seed: int, name: str) -> np.random.SeedSequence:
    """The random numbers for one purpose, from the user's seed."""
    return np.random.SeedSequence([count("seed", seed, 0), STREAMS[name]])


def generator(seed: int, name: str) -> np.random.Generator:
    """A generator of the numbers of a stream."""
    return np.random.default_rng(stream(seed, name))


def derived_seed(seed: int, name: str) -> int:
    """A further seed, below 2³², from a stream."""
    return int(stream(seed, name).generate_state(1)[0])


def generator_for(name: str, n: int) -> np.random.Generator:
    """A generator without a seed of the user: the same for all data of n rows."""
    return np.random.default_rng([STREAMS[name], n])
