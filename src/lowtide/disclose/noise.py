"""Noise that belongs to a cell: a keyed function of (key, row id, column, value), the same in any
order and any batch.

The function is AES-256: without the key its output cannot be told from fresh random numbers. With
the key a cell gets the same noise whenever it is released, by whatever plan, so that asking again
teaches nothing; a cell whose value has changed gets fresh noise, so that the difference of two
releases does not show by how much. Releases with more and with less noise are steps of one random
path: together they tell what the less noised one tells.

Where the key of the noise lives: in memory only, or in the one file the user names.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray
from scipy.special import ndtri

from lowtide.checks import LowtideError, LowtideTypeError, count
from lowtide.files import PRIVATE, regular, write_whole
from lowtide.types import Floats, Ints

KEY_BYTES = 32
_BLOCK = np.dtype(
    [("row", ">u8"), ("feature", ">u4"), ("counter", ">u4")]
)  # the 16 bytes AES takes
_BLOCKS_AT_ONCE = 2**20
_CELLS_AT_ONCE = (
    2**13
)  # whose paths are followed together: what they need stays in the cache of a processor
_OCTAVES = (
    12  # doublings of the scale that a path goes through; what lies below has 4⁻¹² of the variance
)
_HALVINGS = (
    10  # of the octave in which a scale lies: paths at closer scales share all but a thousandth
)
_EVENTS = (
    64  # in which an answer is drawn anew; the chance of more is nil for any `keep` above 1e-9
)
KEY_NAME = "noise.key"  # beside a plan
_NO_IDS = (
    "rows need ids: noise is keyed by (key, row id, column, value) so that the same row always gets"
    " the same noise; give ids=..., one different value per row, that stays with the row"
)
Ids = NDArray[np.uint64]


def new_key() -> bytes:
    """A fresh random key of 32 bytes; keep it secret, whoever has it can take the noise off."""
    return secrets.token_bytes(KEY_BYTES)


class KeyedNoise:
    """Random numbers that are a function of the key, the row and the feature.

    Args:
        key: 32 bytes, from `new_key`. It is never shown, and the object refuses to be pickled.
    """

    __slots__ = ("_cipher", "_key")

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes):
            raise LowtideTypeError(
                f"a key must be bytes, got {type(key).__name__}; make one with new_key()"
            )
        if len(key) != KEY_BYTES:
            raise LowtideError(
                f"a key must be {KEY_BYTES} bytes long, got {len(key)}; make one with new_key()"
            )
        self._key = key
        # ECB is unsafe for messages; over counters that never repeat it is the block cipher itself,
        # a random function.
        self._cipher = Cipher(AES(key), ECB())  # noqa: S305

    def __repr__(self) -> str:
        return "KeyedNoise(key=<secret>)"

    def __reduce__(self) -> NoReturn:
        raise LowtideTypeError(
            "KeyedNoise holds a secret key and is not pickled; store the key where secrets are kept"
        )

    def handed_over(self) -> str:
        """The key as text, for a pipe to a process of ours; never for a file, a log or another
        machine.
        """
        return self._key.hex()

    @property
    def mark(self) -> str:
        """What tells two keys apart and neither of them: 64 bits that the key makes."""
        return f"{int(self.content_ids([b'mark of the key'], 1)[0]):016x}"

    def derive(self, label: bytes) -> KeyedNoise:
        """Noise independent of this one, for another purpose named by `label`.

        Two mechanisms that shared their noise would differ by a known multiple of it, and could be
        solved for the data.
        """
        return KeyedNoise(hashlib.blake2b(label, key=self._key, digest_size=KEY_BYTES).digest())

    def uniform(self, ids: Ids, feature: int, width: int) -> Floats:
        """Uniform numbers in the open interval (0, 1), on a lattice of 2⁵² points symmetric about
        ½.

        Args:
            ids: (n,) row ids, as `row_ids` gives them.
            feature: the number of the feature, below 2³².
            width: how many numbers each row needs.

        Returns:
            (n, width); a row's numbers do not depend on the other rows, nor its first ones on the
            width.
        """
        count("feature", feature, 0, 2**32 - 1)
        blocks = -(-count("width", width, 1, 2**32) // 2)  # two numbers of 64 bits a block
        result = np.empty((len(ids), width))
        step = max(1, _BLOCKS_AT_ONCE // blocks)
        for start in range(0, len(ids), step):
            part = slice(start, start + step)
            # 52 bits and a half: with 53 the largest would round to 1.
            result[part] = (
                (self._words(ids[part], feature, blocks)[:, :width] >> np.uint64(12)) + 0.5
            ) * 2.0**-52
        return result

    def normal(self, ids: Ids, feature: int, width: int) -> Floats:
        """Standard normal numbers, (n, width): the normal quantiles of `uniform`."""
        return np.asarray(ndtri(self.uniform(ids, feature, width)))

    def cells(self, column: str, ids: Ids, values: NDArray[Any]) -> CellNoise:
        """The noise of n cells of a column, whatever plan releases it.

        Args:
            column: its name.
            ids: (n,) row ids, as `row_ids` gives them.
            values: (n,) numbers, or for other values 64-bit numbers that stand for them, as
                `value_ids` gives them.
        """
        if values.dtype != np.uint64:
            values = (values.astype(np.float64) + 0.0).view(np.uint64)  # −0 is 0
        stream = self.derive(b"cells of " + column.encode("utf-8", "surrogatepass"))
        return CellNoise(stream._cipher, np.column_stack([ids, values]))

    def content_ids(self, contents: Iterable[bytes], n: int) -> Ids:
        """Numbers that stand for what n samples hold, (n,): without the key nobody finds two with
        the same number.
        """
        key = hashlib.blake2b(b"contents", key=self._key, digest_size=KEY_BYTES).digest()
        digests = (
            hashlib.blake2b(content, key=key, digest_size=8).digest() for content in contents
        )
        return np.fromiter((int.from_bytes(digest, "big") for digest in digests), np.uint64, n)

    def _words(self, ids: Ids, feature: int, blocks: int) -> NDArray[np.uint64]:
        """(n, 2·blocks) words of 64 bits."""
        counters = np.empty((len(ids), blocks), dtype=_BLOCK)
        counters["row"] = ids[:, None]
        counters["feature"] = feature
        counters["counter"] = np.arange(blocks)
        encryptor = self._cipher.encryptor()
        words = np.frombuffer(
            encryptor.update(counters.tobytes()) + encryptor.finalize(), dtype="<u8"
        )
        return words.reshape(len(ids), 2 * blocks).astype(np.uint64, copy=False)


class CellNoise:
    """Random numbers of n cells; `KeyedNoise.cells` makes it. All methods give (n,), a cell's own
    in any company.

    The k-th number of a cell is E(E(id, value) ⊕ k), CBC-MAC over two blocks, which is a random
    function.
    """

    __slots__ = ("_cipher", "_starts")

    def __init__(self, cipher: Cipher[ECB], cells: NDArray[np.uint64]) -> None:
        self._cipher = cipher
        self._starts = self._encrypted(cells)

    def uniform(self, place: int) -> Floats:
        """Uniform numbers in (0, 1), other ones for every `place` below 2⁶⁴."""
        return self._uniform(self._starts, place)

    def gaussian(self, scale: float) -> Floats:
        """Normal numbers of standard deviation `scale`: where the cell's Brownian path is at the
        time `scale²`.

        At a larger scale it is the same number plus an independent one. Were it a multiple of the
        same one, two releases would be two equations for the value and the noise.
        """
        result = np.empty(len(self._starts))
        for first in range(0, len(result), _CELLS_AT_ONCE):
            some = slice(first, first + _CELLS_AT_ONCE)
            result[some] = self._path(self._starts[some], scale)
        return result

    def _path(self, cells: NDArray[np.uint64], scale: float) -> Floats:
        """`gaussian` of some cells."""
        part, octave = math.frexp(
            scale
        )  # scale = part·2^octave, ½ ≤ part < 1; times below are in units of 4^octave
        start = self._normal(cells, octave - _OCTAVES, 0) * 2.0**-_OCTAVES
        for down in range(_OCTAVES - 1, 0, -1):
            start += self._normal(cells, octave - down, 0) * math.sqrt(0.75) * 2.0**-down
        end = start + self._normal(cells, octave, 0) * math.sqrt(0.75)
        early = 0.25
        late = 1.0
        time = part * part
        node = 1
        for _ in range(_HALVINGS):  # Lévy's construction of the path between two times
            middle = 0.5 * (early + late)
            there = 0.5 * (start + end) + math.sqrt(0.25 * (late - early)) * self._normal(
                cells, octave, node
            )
            if time < middle:
                late = middle
                end = there
                node = 2 * node
            else:
                early = middle
                start = there
                node = 2 * node + 1
        share = (time - early) / (late - early)
        spread = math.sqrt(share * (late - time))
        return (
            start + share * (end - start) + spread * self._normal(cells, octave, node)
        ) * 2.0**octave

    def answers(self, keep: float, categories: int) -> Ints:
        """The category, 0 … k − 1, that is answered, each with the same chance; −1 for the truth,
        with chance `keep`.

        Answers are drawn anew at random times, and `keep` says how long one waits: an answer with a
        smaller `keep` is the one with a larger `keep`, or drawn without a look at the truth.
        """
        if keep == 0:
            return self._category(_EVENTS - 1, categories)
        result = np.full(len(self._starts), -1)
        time = np.zeros(len(self._starts))
        wait = -math.log(keep)
        for event in range(_EVENTS):
            time -= np.log(self.uniform(2 * event))
            if (time > wait).all():
                break
            result = np.where(time > wait, result, self._category(event, categories))
        return result

    def _category(self, event: int, categories: int) -> Ints:
        return np.minimum(
            (self.uniform(2 * event + 1) * categories).astype(np.intp), categories - 1
        )

    def _normal(self, cells: NDArray[np.uint64], octave: int, node: int) -> Floats:
        return np.asarray(ndtri(self._uniform(cells, ((octave + 2**12) << 32) | node)))

    def _uniform(self, cells: NDArray[np.uint64], place: int) -> Floats:
        blocks = cells.copy()
        blocks[:, 1] ^= np.uint64(place)
        return np.asarray(
            ((self._encrypted(blocks)[:, 0] >> np.uint64(12)) + 0.5) * 2.0**-52, dtype=np.float64
        )

    def _encrypted(self, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
        encryptor = self._cipher.encryptor()
        words = encryptor.update(blocks.astype("<u8").tobytes()) + encryptor.finalize()
        return np.frombuffer(words, dtype="<u8").reshape(-1, 2).astype(np.uint64, copy=False)


def value_ids(values: Sequence[str]) -> Ids:
    """Texts as 64-bit numbers that stand for them, (n,)."""
    return np.fromiter(map(_number, values), dtype=np.uint64, count=len(values))


def row_ids(ids: Any, n: int) -> Ids:
    """Return ids as n different numbers: whole numbers as they are, texts by their hash.

    Args:
        ids: n different whole numbers or texts: a list, an array, a tensor, or a column of any data
            frame library.
        n: the number of rows.
    """
    if ids is None:
        raise LowtideError(_NO_IDS)
    array = _as_array(ids)
    if array.ndim != 1 or len(array) != n:
        raise LowtideError(f"ids must be one per row, of shape ({n},), got {array.shape}")
    if array.dtype.kind == "i":
        numbers = array.astype(np.int64).view(np.uint64)
    elif array.dtype.kind == "u":
        numbers = array.astype(np.uint64)
    elif array.dtype.kind not in "OUT":
        raise _wrong_type(array.dtype.name)
    else:
        numbers = np.fromiter(map(_number, array.tolist()), dtype=np.uint64, count=n)
    in_order = np.sort(numbers)  # many times faster than `np.unique`, which hashes
    repeated = int(np.count_nonzero(in_order[1:] == in_order[:-1]))
    if repeated:
        raise LowtideError(
            f"ids repeats itself in {repeated} of {n} rows: equal ids get equal noise, which two"
            " rows would cancel; give every row an id of its own, or leave ids out: each row is"
            " then recognised by its content"
        )
    return numbers


def _as_array(ids: Any) -> NDArray[Any]:
    if isinstance(ids, (str, bytes)):
        raise LowtideError("ids must be one per row, got a single text")
    if hasattr(ids, "detach"):
        ids = ids.detach().cpu()
    if hasattr(ids, "__array__"):
        return np.asarray(ids)
    values = list(ids)
    array = np.empty(
        len(values), dtype=object
    )  # NumPy would turn large and small whole numbers into floats
    array[:] = values
    return array


def _number(value: Any) -> int:
    """One id as a number of 64 bits."""
    if isinstance(value, str):
        return int.from_bytes(
            hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
        )
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**64:
            raise LowtideError(
                "ids holds a whole number of more than 64 bits; give such ids as text"
            )
        return int(value) % 2**64
    marks_missing = value is None or type(value).__name__ in ("NAType", "NaTType")
    if marks_missing or value != value:  # noqa: PLR0124 - NaN differs from itself
        raise LowtideError("ids has missing values; every row needs an id")
    raise _wrong_type(type(value).__name__)


def _wrong_type(name: str) -> LowtideError:
    return LowtideError(
        f"ids must be whole numbers or texts, got {name}; convert them without merging any two"
    )


def open_noise(path: str | Path | None) -> KeyedNoise:
    """The noise of a release.

    Args:
        path: a file that holds the key, or will: it is made, readable by its owner only, when it
            does not exist. `None` draws a key that lives in memory and dies with the process.
    """
    return KeyedNoise(new_key() if path is None else open_key(path))


def keyed_order(n: int, noise: KeyedNoise | None) -> Ints:
    """A random order of n rows, (n,): which row comes first, second and so on; the same for the
    same key.

    Args:
        n: how many rows.
        noise: where the key is; `None` draws one that nobody keeps.
    """
    drawn = (
        (noise or open_noise(None))
        .derive(b"order of rows")
        .uniform(np.arange(n, dtype=np.uint64), 0, 1)
    )
    return np.argsort(drawn[:, 0], kind="stable")


def open_key(path: str | Path, *, make: bool = True) -> bytes:
    """The key in a file: 32 bytes as 64 hexadecimal digits; it is made where there is none, unless
    told otherwise.
    """
    file = regular(path)
    if make and not file.exists():
        try:
            write_whole(file, new_key().hex() + "\n", rights=PRIVATE, new=True)
        except LowtideError:
            if not file.exists():  # otherwise another process has made one in the meantime
                raise
    try:
        key = bytes.fromhex(file.read_text(encoding="ascii").strip())
        if len(key) == KEY_BYTES:
            return key
        raise ValueError("length")
    except OSError as error:
        raise LowtideError(
            f"cannot read the key file {file}: {error.strerror}; name a file that you may read"
        ) from error
    except (
        ValueError
    ) as error:  # not hexadecimal, or not a key; the content stays out of the message
        raise LowtideError(
            f"the key file {file} holds no key (64 hexadecimal digits); name another, or remove it"
            " to draw a new key"
        ) from error
