"""The secret of the samples that a plan with `redraw` releases: its values are known when seen, and
not listed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.errors import LowtideError
from lowtide.types import Ints


@dataclass(frozen=True)
class SecretCodes:
    """The values of the secret by their digests: a plan knows them when it sees them, and does not
    list them.

    Attributes:
        salt: so that digests of common words cannot be looked up.
        digests: of the values, in the order of their classes.
    """

    salt: str
    digests: tuple[str, ...]

    @classmethod
    def of(cls, labels: Sequence[Any]) -> SecretCodes:
        """Those of some values."""
        salt = secrets.token_hex(16)
        return cls(salt, tuple(_digest(salt, label) for label in labels))

    def read(self, values: Iterable[Any], rows: str = "rows") -> Ints:
        """The class (n,) of each sample; `rows` is what samples are called."""
        codes = self._codes(values)
        refuse_unknown(int((codes < 0).sum()), rows)
        return codes

    def unknown(self, values: Iterable[Any]) -> int:
        """How many samples have a secret that is missing or new."""
        return int((self._codes(values) < 0).sum())

    def _codes(self, values: Iterable[Any]) -> Ints:
        known = {digest: k for k, digest in enumerate(self.digests)}
        texts = list(map(str, values))
        found = {text: known.get(_digest(self.salt, text), -1) for text in set(texts)}
        return np.array([found[text] for text in texts], dtype=np.intp)

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"salt": self.salt, "digests": list(self.digests)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> SecretCodes:
        """Read back what `to_config` wrote."""
        return cls(str(config["salt"]), tuple(map(str, config["digests"])))


def refuse_unknown(number: int, rows: str = "rows") -> None:
    """Refuse data in which so many samples have a secret that a plan does not know."""
    if number:
        raise LowtideError(
            f"{number} {rows} have a secret that is missing, or that the reference data did not"
            f" have; drop these {rows}, or make a plan from data that has them"
        )


def _digest(salt: str, value: Any) -> str:
    return hashlib.blake2b(
        f"{salt}:{value}".encode("utf-8", "surrogatepass"), digest_size=16
    ).hexdigest()
