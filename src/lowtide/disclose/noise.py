"""Noise that belongs to a row: a keyed function of (key, row id, feature), the same in any order and any batch.

The function is AES-256 over counters: without the key its output cannot be told from fresh random numbers, and with the
key the same row gets the same noise whenever it is released, so that asking again teaches nothing.

Where the key of the noise lives: in memory only, or in the one file the user names.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray
from scipy.special import ndtri

from lowtide.checks import LowtideError, LowtideTypeError, count
from lowtide.files import write_whole
from lowtide.types import Floats

KEY_BYTES = 32
_BLOCK = np.dtype([("row", ">u8"), ("feature", ">u4"), ("counter", ">u4")])  # the 16 bytes AES takes
_BLOCKS_AT_ONCE = 2**20
_NO_IDS = (
    "rows need ids: noise is keyed by (key, row id, feature) so that the same row always gets the same noise; "
    "give ids=..., one different value per row, that stays with the row"
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
            raise LowtideTypeError(f"a key must be bytes, got {type(key).__name__}; make one with new_key()")
        if len(key) != KEY_BYTES:
            raise LowtideError(f"a key must be {KEY_BYTES} bytes long, got {len(key)}; make one with new_key()")
        self._key = key
        # ECB is unsafe for messages; over counters that never repeat it is the block cipher itself, a random function.
        self._cipher = Cipher(AES(key), ECB())  # noqa: S305

    def __repr__(self) -> str:
        return "KeyedNoise(key=<secret>)"

    def __reduce__(self) -> NoReturn:
        raise LowtideTypeError("KeyedNoise holds a secret key and is not pickled; store the key where secrets are kept")

    def derive(self, label: bytes) -> KeyedNoise:
        """Noise independent of this one, for another purpose named by `label`.

        Two mechanisms that shared their noise would differ by a known multiple of it, and could be solved for the data.
        """
        return KeyedNoise(hashlib.blake2b(label, key=self._key, digest_size=KEY_BYTES).digest())

    def uniform(self, ids: Ids, feature: int, width: int) -> Floats:
        """Uniform numbers in the open interval (0, 1), on a lattice of 2⁵² points symmetric about ½.

        Args:
            ids: (n,) row ids, as `row_ids` gives them.
            feature: the number of the feature, below 2³².
            width: how many numbers each row needs.

        Returns:
            (n, width); a row's numbers do not depend on the other rows, nor its first ones on the width.
        """
        count("feature", feature, 0, 2**32 - 1)
        blocks = -(-count("width", width, 1, 2**32) // 2)  # two numbers of 64 bits a block
        result = np.empty((len(ids), width))
        step = max(1, _BLOCKS_AT_ONCE // blocks)
        for start in range(0, len(ids), step):
            part = slice(start, start + step)
            # 52 bits and a half: with 53 the largest would round to 1.
            result[part] = ((self._words(ids[part], feature, blocks)[:, :width] >> np.uint64(12)) + 0.5) * 2.0**-52
        return result

    def normal(self, ids: Ids, feature: int, width: int) -> Floats:
        """Standard normal numbers, (n, width): the normal quantiles of `uniform`."""
        return np.asarray(ndtri(self.uniform(ids, feature, width)))

    def _words(self, ids: Ids, feature: int, blocks: int) -> NDArray[np.uint64]:
        """(n, 2·blocks) words of 64 bits."""
        counters = np.empty((len(ids), blocks), dtype=_BLOCK)
        counters["row"] = ids[:, None]
        counters["feature"] = feature
        counters["counter"] = np.arange(blocks)
        encryptor = self._cipher.encryptor()
        words = np.frombuffer(encryptor.update(counters.tobytes()) + encryptor.finalize(), dtype="<u8")
        return words.reshape(len(ids), 2 * blocks).astype(np.uint64, copy=False)


def row_ids(ids: Any, n: int) -> Ids:
    """Return ids as n different numbers: whole numbers as they are, texts by their hash.

    Args:
        ids: n different whole numbers or texts: a list, an array, a tensor, or a column of any data frame library.
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
    repeated = n - len(np.unique(numbers))
    if repeated:
        raise LowtideError(
            f"ids repeats itself in {repeated} of {n} rows: equal ids get equal noise, which two rows would cancel; "
            "give every row an id of its own"
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
    array = np.empty(len(values), dtype=object)  # NumPy would turn large and small whole numbers into floats
    array[:] = values
    return array


def _number(value: Any) -> int:
    """One id as a number of 64 bits."""
    if isinstance(value, str):
        return int.from_bytes(hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**64:
            raise LowtideError("ids holds a whole number of more than 64 bits; give such ids as text")
        return int(value) % 2**64
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:  # noqa: PLR0124 NaN
        raise LowtideError("ids has missing values; every row needs an id")
    raise _wrong_type(type(value).__name__)


def _wrong_type(name: str) -> LowtideError:
    return LowtideError(f"ids must be whole numbers or texts, got {name}; convert them without merging any two")


def open_noise(path: str | Path | None) -> KeyedNoise:
    """The noise of a release.

    Args:
        path: a file that holds the key, or will: it is made, readable by its owner only, when it does not exist.
            `None` draws a key that lives in memory and dies with the process.
    """
    if path is None:
        return KeyedNoise(new_key())
    file = Path(path)
    if not file.exists():
        try:
            write_whole(file, new_key().hex() + "\n", rights=0o600, new=True)
        except LowtideError:
            if not file.exists():  # otherwise another process has made one in the meantime
                raise
    try:
        return KeyedNoise(bytes.fromhex(file.read_text(encoding="ascii").strip()))
    except OSError as error:
        raise LowtideError(
            f"cannot read the key file {file}: {error.strerror}; name a file that you may read"
        ) from error
    except ValueError as error:  # not hexadecimal, or not a key; the content stays out of the message
        raise LowtideError(
            f"the key file {file} holds no key (64 hexadecimal digits); name another, or remove it to draw a new key"
        ) from error
