"""Where the key of the noise lives: in memory only, or in the one file the user names."""

from __future__ import annotations

from pathlib import Path

from lowtide.disclose.noise import KeyedNoise, new_key
from lowtide.errors import LowtideError
from lowtide.files import write_whole


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
