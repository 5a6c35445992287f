"""How words are written: the runs of two to five characters that each is made of.

A run never reaches from one word into the next, so what runs tell of a word is a fixed sum, and
what words tell stays a sum over words. Runs are hashed into a fixed number of columns: a model
holds no list of them, and a word that nobody has seen before is read by its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.types import Ints

Sparse = Any  # scipy.sparse.csr_array, which carries no types
SIZES = (2, 3, 4, 5)  # characters of a run
COLUMNS = 1 << 17  # that runs are hashed into
_EDGE = ord(" ")  # before and after every word
_STEP = np.uint32(0x01000193)
_MIX = np.uint32(0x2C1B3C6D)


def runs_of(words: Sequence[str]) -> tuple[Ints, Ints]:
    """The columns of all runs of words, (runs,), and the number of the word that each is in."""
    signs = "".join(f" {word} " for word in words).encode("utf-32-le", "surrogatepass")
    points = np.frombuffer(signs, dtype="<u4").astype(np.uint32)
    owner = np.repeat(np.arange(len(words)), [len(word) + 2 for word in words])
    columns = [np.zeros(0, dtype=np.intp)]
    owners = [np.zeros(0, dtype=np.intp)]
    for size in SIZES:
        starts = max(0, len(points) - size + 1)
        code = np.full(starts, size, dtype=np.uint32)
        for at in range(size):
            code = (code ^ points[at : at + starts]) * _STEP
        code = (code ^ (code >> np.uint32(15))) * _MIX
        code ^= code >> np.uint32(13)
        inside = owner[:starts] == owner[size - 1 :]
        columns.append((code[inside] % COLUMNS).astype(np.intp))
        owners.append(owner[:starts][inside])
    return np.concatenate(columns), np.concatenate(owners)


def spelled(terms: Sequence[str]) -> Sparse:
    """How often each term has the runs of every column, (terms, columns); a term of several words
    has none, since its words are terms themselves.
    """
    from scipy import sparse

    columns, owners = runs_of(["" if " " in term else term for term in terms])
    words = np.array([" " not in term for term in terms], dtype=bool)
    kept = words[owners]
    rows = sparse.csr_array(
        (
            np.ones(int(kept.sum()), np.float32),
            (owners[kept].astype(np.int32), columns[kept].astype(np.int32)),
        ),
        shape=(len(terms), COLUMNS),
    )
    rows.sum_duplicates()
    return rows
