"""Names of image files: whether they tell the secret, names that do not, and which image a new name
stands for.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2, norm, rankdata

from lowtide.errors import LowtideError
from lowtide.images.files import FORMATS, suffix_of
from lowtide.images.folder import ImageFolder
from lowtide.splits import generator
from lowtide.table_files.formats import AnyPath, existing
from lowtide.types import Ints

_Z = 4.0  # deviations from chance that count as telling, after counting how many tests there were
_FEWEST = 5  # images with one word, for the χ² of words
_MOST_WORDS = 50
_RARE = 20  # classes of fewer images count as one there
_HEADER = ("released", "source")


@dataclass(frozen=True)
class NameCheck:
    """Whether names give a secret away.

    Attributes:
        tells: whether anything about the names goes with the secret by more than chance.
        how: what does, in words.
        auc: of the order of the names, as a guess at the value of the secret it tells most about;
            1/2 is chance.
    """

    tells: bool
    how: tuple[str, ...]
    auc: float

    def __str__(self) -> str:
        if not self.tells:
            return "the names of the images do not tell the secret"
        return (
            f"the names of the images tell the secret, by {' and '.join(self.how)} (AUC of their"
            f" order {self.auc:.2f}); write the release with --rename"
        )


def names_tell(names: Sequence[str], codes: ArrayLike) -> NameCheck:
    """Look for the secret in names: in their order, among neighbours, in their words and folders,
    and in their numbers.

    GENKI-4K is an example: its first 2,162 files smile. In each test the images are shuffled in
    thought, which needs no model; nothing found does not prove that there is nothing.

    Args:
        names: (n,) paths.
        codes: (n,) the secret, as any values.
    """
    classes, inverse = np.unique(np.asarray(codes), return_inverse=True)
    if len(inverse) != len(names):
        raise LowtideError(
            f"there are {len(names)} names for {len(inverse)} values of the secret; give one for"
            " each"
        )
    if len(classes) < 2:
        return NameCheck(False, (), 0.5)
    parts = [re.split(r"(\d+)", name) for name in names]
    order = np.empty(len(names), np.intp)
    order[sorted(range(len(names)), key=lambda row: _natural(parts[row]))] = np.arange(len(names))
    chance, auc = _ranks(order, inverse)
    found = {"their order": chance, "their neighbours": _neighbours(inverse[np.argsort(order)])}
    found["the words in them"] = _any_word(["".join(part[::2]) for part in parts], inverse)
    if (
        len({len(part) for part in parts}) == 1 and len(parts[0]) > 3
    ):  # with one number, its order is that of the names
        for number in range(len(parts[0]) // 2):
            values = [part[2 * number + 1] for part in parts]
            chance, _ = _ranks(np.array([float(value) for value in values]), inverse)
            found[f"number {number + 1} in them"] = 2 * min(chance, _words(values, inverse))
    limit = 2 * norm.sf(_Z) / len(found)
    how = tuple(what for what, chance in found.items() if chance < limit)
    return NameCheck(bool(how), how, auc)


def files_tell(folder: ImageFolder, codes: ArrayLike) -> str | None:
    """What a release that keeps the sizes and the JPEG quality of its files would tell by them;
    `None` for nothing.

    Args:
        folder: n images.
        codes: (n,) the secret, as any values.
    """
    classes, inverse = np.unique(np.asarray(codes), return_inverse=True)
    if len(classes) < 2:
        return None
    sizes = folder.sizes
    words = [f"{width}x{height}" for width, height in sizes]
    chances = {
        "sizes": min(_words(words, inverse), _ranks(sizes.prod(axis=1), inverse)[0]),
        "JPEG quality": _words([str(coding) for coding in folder.codings], inverse),
    }
    limit = 2 * norm.sf(_Z) / (len(chances) + 1)
    how = [what for what, chance in chances.items() if chance < limit]
    if not how:
        return None
    remedies = []
    if "sizes" in how:
        remedies.append("bring all images to one size before")
    if "JPEG quality" in how:
        # What a histogram of DCT coefficients reads after each:
        # tests/images/test_traces_of_compression.py.
        remedies.append(
            "the quality leaves a trace in the pixels that --png and --quality do not remove;"
            " images shrunk to half their width, or less, before the plan have lost most of it"
        )
    return (
        f"the {' and the '.join(how)} of the images tell the secret, and a release keeps them:"
        f" {'; '.join(remedies)}"
    )


def shuffled_names(
    source: ImageFolder, *, png: bool = False, seed: int | None = None
) -> tuple[str, ...]:
    """New names in random order: numbers, all with the same suffix.

    Args:
        source: n images.
        png: whether they are written as PNG; so they are where the files have different formats,
            since those may tell.
        seed: of the order; whoever knows it can undo the order, so it is to be kept like the
            secret. By default the order cannot be repeated.
    """
    rng = np.random.default_rng() if seed is None else generator(seed, "image names")
    order = rng.permutation(len(source))
    if source.layout == "npz":
        return tuple(map(str, order))
    forms = {FORMATS[suffix_of(name)] for name in source.names}
    suffix = (
        ".png" if png or len(forms) > 1 else next(s for s, form in FORMATS.items() if form in forms)
    )
    digits = max(6, len(str(len(source))))
    return tuple(f"{number + 1:0{digits}}{suffix}" for number in order)


def read_mapping(path: AnyPath) -> dict[str, str]:
    """The private file that a release with new names comes with: the name of the source by the name
    in the release.
    """
    try:
        rows = list(csv.reader(io.StringIO(existing(path).read_text(encoding="utf-8"), newline="")))
    except (csv.Error, UnicodeDecodeError):
        rows = []
    if not rows or tuple(rows[0]) != _HEADER or any(len(row) != 2 for row in rows):
        raise LowtideError(
            f"{path} is not a mapping of names; give the file written together with the release"
        )
    return {row[0]: row[1] for row in rows[1:]}


def mapping_text(released: Sequence[str], source: Sequence[str]) -> str:
    """The text of such a file, in the order of the released names, which is random."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [_HEADER, *sorted(zip(released, source, strict=True))]
    )
    return text.getvalue()


def pair(
    release: ImageFolder, reference: ImageFolder, *, mapping: AnyPath | None = None
) -> tuple[Ints, Ints]:
    """Find the same images in a release and in the data it was made from.

    Args:
        release: what was written; its files may have become PNG.
        reference: the images it was written from, or more of them.
        mapping: the private file, if the release has new names.

    Returns:
        Rows of the release and, for each, the row of the reference.
    """
    known = None if mapping is None else read_mapping(mapping)
    exact = {name: row for row, name in enumerate(reference.names)}
    stems = Counter(map(_stem, reference.names))
    loose = {
        _stem(name): row for row, name in enumerate(reference.names) if stems[_stem(name)] == 1
    }
    rows = []
    for row, name in enumerate(release.names):
        old = name if known is None else known.get(name)
        place = None if old is None else exact.get(old, loose.get(_stem(old)))
        if place is not None:
            rows.append((row, place))
    if not rows:
        hint = (
            "give the mapping written together with it"
            if known is None
            else "check that the mapping is its own"
        )
        raise LowtideError(
            f"no image of {release.path} has the name of one of {reference.path}; {hint}"
        )
    pairs = np.array(rows, np.intp)
    return pairs[:, 0], pairs[:, 1]


def _stem(name: str) -> str:
    return PurePosixPath(name).with_suffix("").as_posix()


def _natural(parts: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Text and numbers in turns, so that 10 comes after 9."""
    return tuple(
        (text, int(number)) for text, number in zip(parts[::2], [*parts[1::2], "0"], strict=True)
    )


def _ranks(values: NDArray[Any], codes: Ints) -> tuple[float, float]:
    """The chance of rank sums as far apart as those of the classes, and the AUC furthest from
    1/2.
    """
    n = len(values)
    ranks = rankdata(values)
    counts = np.bincount(codes)
    spread = np.sqrt(
        ranks.var() / (n - 1) * counts * (n - counts)
    )  # of a rank sum, drawn without replacement
    gaps = np.bincount(codes, weights=ranks) - counts * ranks.mean()
    z = np.divide(np.abs(gaps), spread, out=np.zeros(len(counts)), where=spread > 0).max()
    auc = 0.5 + np.max(np.abs(gaps) / (counts * (n - counts)))
    return float(min(1.0, 2 * norm.sf(z) * (1 if len(counts) == 2 else len(counts)))), float(auc)


def _neighbours(codes: Ints) -> float:
    """The chance of as many or as few runs of one class (Wald and Wolfowitz, for several
    classes).
    """
    n = len(codes)
    counts = np.bincount(codes).astype(float)
    runs = 1 + np.count_nonzero(np.diff(codes))
    squares = np.sum(counts**2)
    cubes = np.sum(counts**3)
    mean = n + 1 - squares / n
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n**2 * (n - 1))
    return float(2 * norm.sf(abs(runs - mean) / np.sqrt(variance))) if variance > 0 else 1.0


def _any_word(texts: Sequence[str], codes: Ints) -> float:
    """The chance of texts that go as well with the classes, as a whole or in any one of their
    words.
    """
    split = [set(re.findall(r"[^\W_]+", text)) for text in texts]
    times = Counter(word for words in split for word in words)
    some = [
        word for word, number in times.most_common(_MOST_WORDS) if _FEWEST <= number < len(texts)
    ]
    chances = [
        _words(texts, codes),
        *(_words([str(word in words) for words in split], codes) for word in some),
    ]
    return min(chances) * len(chances)


def _words(words: Sequence[str], codes: Ints) -> float:
    """The chance of words that go as well with the classes (χ²); rare words count as one, and so do
    rare classes.
    """
    sizes = np.bincount(codes)
    codes = np.unique(
        np.where(sizes < _RARE, -1, np.arange(len(sizes)))[codes], return_inverse=True
    )[1]
    fewest = max(
        _FEWEST, len(codes) / np.bincount(codes).min()
    )  # so that at least one is expected of each class
    common = [word for word, number in Counter(words).most_common(_MOST_WORDS) if number >= fewest]
    place = {word: number for number, word in enumerate(common)}
    table = np.zeros((len(common) + 1, codes.max() + 1))
    np.add.at(table, (np.array([place.get(word, len(common)) for word in words]), codes), 1.0)
    table = table[table.sum(axis=1) > 0]
    if len(table) < 2:
        return 1.0
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / len(words)
    return float(
        chi2.sf(
            np.sum((table - expected) ** 2 / expected), (table.shape[0] - 1) * (table.shape[1] - 1)
        )
    )
