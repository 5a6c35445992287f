"""Files and folders that appear whole or not at all, and their hashes."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from lowtide.errors import LowtideError


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file under another name and move it into place, so that no reader ever sees half of it.

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


def write_folder(
    path: Path, files: Mapping[str, str | bytes], *, ours: Callable[[Path], bool], names: frozenset[str]
) -> Path:
    """Write a folder of files under another name and move it into place.

    An existing folder is replaced only if Lowtide wrote it and it holds nothing else. It is moved aside and removed
    once the new one is in place, so that an interruption never leaves less than one whole folder.

    Args:
        path: the folder.
        files: what to put into it, by file name: text (written as UTF-8) or bytes.
        ours: whether an existing folder carries Lowtide's format mark.
        names: all file names that a folder of this kind may hold; a folder with any other entry is not replaced.

    Returns:
        The path.
    """
    check_replaceable(path, ours=ours, names=names)
    # `--save .` names the working folder; only its full path can be moved.
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise LowtideError(f"cannot write {path}: {error.strerror}; choose a folder you may write to") from error
    old, new = work / "old", work / "new"
    try:
        new.mkdir()
        for name, content in files.items():
            (new / name).write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        if target.exists():
            target.rename(old)
        new.rename(target)
    except OSError as error:
        raise LowtideError(f"cannot write {path}: {error.strerror}; choose another name or folder") from error
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(work, ignore_errors=True)
    return path


def check_replaceable(path: Path, *, ours: Callable[[Path], bool], names: frozenset[str]) -> None:
    """Refuse a path at which something that Lowtide did not write exists; arguments as in `write_folder`."""
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise LowtideError(f"{path} is a file, not a Lowtide folder; choose another name or remove it")
    entries = sorted(entry.name for entry in path.iterdir())
    if not entries:
        return
    if not ours(path):
        raise LowtideError(
            f"{path} exists and is not a Lowtide folder of this kind; nothing was changed: choose another name"
        )
    foreign = [name for name in entries if name not in names]
    if foreign:
        some = ", ".join(foreign[:3]) + (" …" if len(foreign) > 3 else "")
        raise LowtideError(
            f"{path} also holds {some}, which Lowtide did not write; nothing was changed: choose another name, or move "
            "them elsewhere"
        )


def sha256_of(path: Path) -> str:
    """The hash of a file; of a folder, that of the names and hashes of its files in the order of their names.

    It is what the card of a release carries, whatever kind of data it is about.
    """
    if not path.is_dir():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    files = {entry.relative_to(path).as_posix(): entry for entry in path.rglob("*") if entry.is_file()}
    listing = "".join(f"{sha256_of(files[name])}  {name}\n" for name in sorted(files))
    return hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()
