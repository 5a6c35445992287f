"""What a page needs of a model of texts: vocabulary, rules of its terms, and weights in 4, 8 or 16
bits.

Among the rules is what Python knows of characters: browsers have another version of Unicode, and
must read texts alike.
"""

import gzip
import hashlib
import json
import struct
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.checks import LowtideError, one_of
from lowtide.estimate.density import Density
from lowtide.estimate.learners.bag import Bag
from lowtide.estimate.learners.base import Null
from lowtide.texts import cleaning
from lowtide.texts.partial import text_vocabulary
from lowtide.texts.spelling import SIZES
from lowtide.texts.terms import Vocabulary
from lowtide.texts.writing import NEGATIONS, SMALL_WORDS, vocabulary_language
from lowtide.types import Floats32

Bits = int  # of a weight: 4 or 8
FORMAT = "lowtide-page"
VERSION = 2
_LARGEST = {4: 7, 8: 127}  # of whole numbers in so many bits, on either side of 0
_FINE = 32_767  # what a term tells alone, in 16 bits
_COARSE = 127  # what a run of characters tells, in 8 bits: many of them make a word
_BOUNDARY = 4  # bytes at which arrays begin

_LAST = 0x10FFFF  # the last character there is
_SIGMA = "Σ"

Arrays = dict[str, NDArray[Any]]


def pack_model(density: Density, *, bits: Bits = 4, more: dict[str, Any] | None = None) -> bytes:
    """A model of texts as one compressed block of bytes, which `openModel` of `static/model.js`
    reads.

    Args:
        density: fitted on texts.
        bits: of the embeddings of the networks.
        more: further parts of the description, such as test vectors.
    """
    vocabulary = text_vocabulary(density)
    arrays, networks = _arrays(density, bits)
    about: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "terms": "\n".join(vocabulary.terms),
        "rules": _rules(vocabulary),
        "classes": [str(label) for label in density.classes.labels],
        "prior": density.classes.prior.tolist(),
        "trim": density.trim,
        "weighting": density.critic.weighting if isinstance(density.critic, Bag) else "counts",
        "networks": networks,
        "run_sizes": SIZES,
        "negations": sorted(NEGATIONS),
        "language": vocabulary_language(vocabulary),
        "small_words": SMALL_WORDS,
        "id": _identity(vocabulary, arrays),
        **(more or {}),
    }
    return gzip.compress(_packed(about, arrays), compresslevel=9, mtime=0)


def rounded(density: Density, bits: Bits = 4) -> Density:
    """The density with its weights rounded as a page has them."""
    critic = density.critic
    arrays, networks = _arrays(density, bits)
    if not isinstance(critic, Bag):
        return density
    weights = dict(critic.weights)
    weights["u"] = np.zeros_like(critic.weights["u"])
    weights["u"][: critic.terms] = arrays["u"].astype(np.float32) * arrays["u_scale"]
    if "r" in arrays:
        weights["u"][critic.terms :] = arrays["r"].astype(np.float32) * arrays["r_scale"]
    if networks is not None:
        values = _quantised(weights["E"], bits)
        weights["E"] = values[0].astype(np.float32) * values[1][:, None]
    return replace(density, critic=Bag(critic.groups, critic.weighting, weights, critic.terms))


def _arrays(density: Density, bits: Bits) -> tuple[Arrays, dict[str, int] | None]:
    """The weights as a page holds them, and the sizes of the networks."""
    one_of("bits", bits, tuple(_LARGEST))
    critic = density.critic
    classes = len(density.classes.labels)
    terms = len(text_vocabulary(density))
    if isinstance(critic, Null):
        return {
            "u": np.zeros((terms, classes), np.int16),
            "u_scale": np.ones(classes, np.float32),
        }, None
    if not isinstance(critic, Bag):
        raise LowtideError(
            f"only bag-of-terms critics run in a page, got {critic.kind!r}; fit with critic='bag'"
        )
    weights = critic.weights
    arrays: Arrays = {}
    alone = weights["u"][:terms]
    arrays["u_scale"] = _scale(alone, _FINE)
    arrays["u"] = np.rint(alone / arrays["u_scale"]).astype(np.int16)
    runs = weights["u"][critic.terms :]
    if runs.any():
        arrays["r_scale"] = _scale(runs, _COARSE)
        arrays["r"] = np.rint(runs / arrays["r_scale"]).astype(np.int8)
    if "E" not in weights:
        return arrays, None
    known = np.flatnonzero(weights["c"] != 0)
    rows = weights["e"][known] if "e" in weights else known
    place = np.full(terms, -1, dtype=np.int32)
    place[known] = rows
    own = np.zeros(len(weights["E"]), dtype=np.float32)
    own[rows] = weights["c"][known]
    values, size = _quantised(weights["E"], bits)
    arrays |= {
        "e": place,
        "c": own,
        "E_scale": size,
        "E": values if bits == 8 else _nibbles(values),
    }
    arrays |= {name: weights[name].astype(np.float32) for name in ("b", "V", "a", "U")}
    nets, width, hidden = weights["V"].shape
    return arrays, {"nets": nets, "width": width, "hidden": hidden, "bits": bits}


def _scale(values: Floats32, largest: int) -> Floats32:
    """(|S|,) the scale of whole numbers up to the largest, for each class."""
    return np.maximum(np.abs(values).max(axis=0), 1e-12).astype(np.float32) / np.float32(largest)


def _quantised(values: Floats32, bits: Bits) -> tuple[NDArray[np.int8], Floats32]:
    """Whole numbers (rows, columns) and a scale (rows,) for each row."""
    largest = _LARGEST[bits]
    scale = (np.maximum(np.abs(values).max(axis=1), 1e-12) / largest).astype(np.float32)
    return np.clip(np.rint(values / scale[:, None]), -largest, largest).astype(np.int8), scale


def _nibbles(values: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Two numbers from −8 to 7 in a byte, the first in the low half."""
    whole = np.zeros((len(values), values.shape[1] + values.shape[1] % 2), dtype=np.uint8)
    whole[:, : values.shape[1]] = (values + 8).astype(np.uint8)
    return whole[:, 0::2] | (whole[:, 1::2] << 4)


def _rules(vocabulary: Vocabulary) -> dict[str, Any]:
    """How terms are found in a text."""
    return {
        "options": {**vocabulary.options.to_config(), "stop": None},
        "stop": sorted(cleaning.cleaner(vocabulary.options).stop),
        "classes": cleaning.character_classes(),
        "unicode": unicode_tables(),
    }


def _identity(vocabulary: Vocabulary, arrays: Arrays) -> str:
    """What tells this model from others, so that a browser keeps the history of each apart."""
    digest = hashlib.sha256("\n".join(vocabulary.terms).encode("utf-8", "surrogatepass"))
    for value in arrays.values():
        digest.update(value.tobytes())
    return digest.hexdigest()[:16]


def _packed(about: dict[str, Any], arrays: Arrays) -> bytes:
    """The length of the description, the description as JSON, and the arrays, each at a
    boundary.
    """
    places = {
        name: {"kind": value.dtype.str[1:], "shape": list(value.shape), "start": 0}
        for name, value in arrays.items()
    }
    length = 0
    while (
        True
    ):  # where arrays start depends on how long the description is, which says where they start
        text = json.dumps({**about, "arrays": places}, allow_nan=False).encode("ascii")
        if len(text) <= length:
            break
        length = len(text) + len(arrays) * 12
        start = 4 + length
        for name, value in arrays.items():
            start += -start % _BOUNDARY
            places[name]["start"] = start
            start += value.nbytes
    block = bytearray(struct.pack("<I", length) + text.ljust(length))
    for value in arrays.values():
        block += bytes(-len(block) % _BOUNDARY)
        block += np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<")).tobytes()
    return bytes(block)


@cache
def unicode_tables() -> dict[str, Any]:
    """Classes of characters as ranges, and how capitals are written small.

    Returns:
        For each class a flat list: how far each range begins behind the end of the one before, and
        how many more characters it has than one. `lower` are runs of capitals, as (first, how many,
        step, distance to the small letter); `lower_long` those that become several characters.
    """
    classes: dict[str, Callable[[str], bool]] = {
        "alnum": str.isalnum,
        "alpha": str.isalpha,
        "digit": str.isdecimal,
        "space": str.isspace,
        "mark": lambda sign: unicodedata.category(sign)[0] == "M",
        "accent": lambda sign: cleaning.is_accent(unicodedata.combining(sign)),
        # A capital sigma is written ς at the end of a word: after a letter with case, and before
        # none, passing over characters that do not count, such as accents and apostrophes.
        "cased": lambda sign: f"{sign}{_SIGMA}".lower()[-1] == "ς",
        "passed": lambda sign: (
            f"{sign}{_SIGMA}".lower()[-1] != "ς" and f"a{sign}{_SIGMA}".lower()[-1] == "ς"
        ),
    }
    signs = [chr(point) for point in range(_LAST + 1)]
    tables: dict[str, Any] = {
        name: _ranges(list(map(belongs, signs))) for name, belongs in classes.items()
    }
    small = {point: sign.lower() for point, sign in enumerate(signs) if sign.lower() != sign}
    tables["lower"] = _runs(
        {point: ord(other) - point for point, other in small.items() if len(other) == 1}
    )
    tables["lower_long"] = {chr(point): other for point, other in small.items() if len(other) > 1}
    return tables


def _ranges(belongs: list[bool]) -> list[int]:
    """Ranges of what belongs, as gaps and lengths."""
    found: list[int] = []
    end = 0
    start = None
    for point, inside in enumerate([*belongs, False]):
        if inside and start is None:
            start = point
        elif not inside and start is not None:
            found += [start - end, point - 1 - start]
            end = point
            start = None
    return found


def _runs(distance: dict[int, int]) -> list[list[int]]:
    """Characters at even steps of 1 or 2 with the same distance."""
    runs: list[list[int]] = []
    for point, far in distance.items():
        if runs:
            first, many, step, same = runs[-1]
            gap = point - (first + (many - 1) * step)
            if far == same and gap in ((1, 2) if many == 1 else (step,)):
                runs[-1] = [first, many + 1, gap, same]
                continue
        runs.append([point, 1, 1, far])
    return runs
