"""The values of a secret as a plan keeps them, where a release needs the secret of every sample."""

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
    """The values of the secret by their digests: a plan knows them when it sees them, and does not list them.

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
        known = {digest: k for k, digest in enumerate(self.digests)}
        texts = list(map(str, values))
        found = {text: known.get(_digest(self.salt, text), -1) for text in set(texts)}
        codes = np.array([found[text] for text in texts], dtype=np.intp)
        if (codes < 0).any():
            raise LowtideError(
                f"{int((codes < 0).sum())} {rows} have a secret that is missing, or that the reference data did not "
                f"have; drop these {rows}, or make a plan from data that has them"
            )
        return codes

    def to_config(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"salt": self.salt, "digests": list(self.digests)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> SecretCodes:
        """Rebuild it."""
        return cls(str(config["salt"]), tuple(map(str, config["digests"])))


def _digest(salt: str, value: Any) -> str:
    return hashlib.blake2b(f"{salt}:{value}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
