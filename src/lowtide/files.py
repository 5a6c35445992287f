"""Files that appear whole or not at all, and their hashes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from lowtide.errors import LowtideError


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file under another name and move it into place, so that nobody ever reads half of it.

    Args:
        path: the file; an older one is replaced.
        content: text (written as UTF-8) or bytes.

    Returns:
        The path.
    """
    try:
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise LowtideError(
            f"cannot write {path}: {error.strerror}; choose a folder that exists and is writable"
        ) from error
    try:
        os.fchmod(handle, 0o644)  # a report is for sharing; temporary files are not
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)
        Path(partial).replace(path)
    except OSError as error:
        Path(partial).unlink(missing_ok=True)
        raise LowtideError(f"cannot write {path}: {error.strerror}; choose another name or folder") from error
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
    return path


def sha256_of(path: Path) -> str:
    """The hash of a file, which the card of a release carries."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
