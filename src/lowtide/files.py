"""Files and folders that appear whole or not at all, and their hashes."""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from lowtide.errors import LowtideError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ELSEWHERE = "choose a folder that exists and is writable, or another name"


def cannot_write(path: str | os.PathLike[str], error: OSError) -> LowtideError:
    """What to raise when the system refuses to write a file or folder."""
    reason = error.strerror or type(error).__name__
    remedy = "make room, or choose another disk" if error.errno in _FULL else _ELSEWHERE
    return LowtideError(f"cannot write {os.fspath(path)}: {reason}; {remedy}")


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], *, rights: int | None = None, new: bool = False) -> Iterator[IO[bytes]]:
    """A file to write bytes to, which appears under its name when the block ends without an exception.

    Until then it is a hidden file of the same folder, which vanishes on any exception. Exceptions of the block itself
    are passed on as they are.

    Args:
        path: the file; an older one is replaced, and a link is followed.
        rights: of the file; by default those of the file that is replaced, or those of a file for sharing.
        new: refuse to replace anything.
    """
    place = Path(os.path.realpath(path))
    if place.is_dir():
        raise LowtideError(f"cannot write {os.fspath(path)}: it is a folder; give the name of a file")
    try:
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.", suffix=".part")
    except OSError as error:
        raise cannot_write(path, error) from error
    partial, file = Path(name), os.fdopen(handle, "wb")
    try:
        yield file
        try:
            _commit(file, partial, place, _rights(place) if rights is None else rights, new)
        except OSError as error:
            raise cannot_write(path, error) from error
    finally:
        with contextlib.suppress(OSError):  # of a file that is given up
            file.close()
        partial.unlink(missing_ok=True)


def _commit(file: IO[bytes], partial: Path, place: Path, rights: int, new: bool) -> None:
    """Put all bytes on the disk, then give the file its name."""
    file.flush()
    os.fchmod(file.fileno(), rights)
    os.fsync(file.fileno())
    file.close()
    if new:
        _move_to_free_name(partial, place)
    else:
        partial.replace(place)
    with contextlib.suppress(OSError):  # not every system can; the file itself is safe
        folder = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _move_to_free_name(partial: Path, place: Path) -> None:
    try:
        os.link(partial, place)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        partial.replace(place)


def _rights(place: Path) -> int:
    """Those of the file that is replaced, or those of a file for sharing; temporary files have fewer."""
    try:
        return stat.S_IMODE(place.stat().st_mode)
    except OSError:
        return 0o644


def write_whole(
    path: str | os.PathLike[str], content: str | bytes, *, rights: int | None = None, new: bool = False
) -> Path:
    """Write a file that no reader ever sees half of.

    Args:
        path: the file; an older one is replaced, and a link is followed.
        content: text (written as UTF-8) or bytes.
        rights: as in `whole_file`.
        new: refuse to replace anything.

    Returns:
        The path.
    """
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    with whole_file(path, rights=rights, new=new) as file:
        try:
            file.write(data)
        except OSError as error:
            raise cannot_write(path, error) from error
    return Path(path)


@contextlib.contextmanager
def whole_path(path: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """A path at which the block makes a file or folder; it is moved to `path` when the block ends without an exception.

    Until then it lies in a hidden folder beside `path`, which vanishes in any case. Exceptions of the block itself are
    passed on as they are.

    Args:
        path: where it is to appear, within a folder that exists.
        replace: whether what stands at `path` may go. A folder is moved aside and removed once the new one is in place,
            so that an interruption never leaves less than one whole folder.
    """
    # `--save .` names the working folder; only its full path can be moved.
    target = Path(os.path.realpath(path))
    try:
        work = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part"))
    except OSError as error:
        raise cannot_write(path, error) from error
    old, made = work / "old", work / target.name
    try:
        yield made
        try:
            if replace and target.is_dir():
                target.rename(old)
            made.rename(target)
        except OSError as error:
            raise cannot_write(path, error) from error
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(work, ignore_errors=True)


def write_folder(
    path: Path, files: Mapping[str, str | bytes], *, ours: Callable[[Path], bool], names: frozenset[str]
) -> Path:
    """Write a folder of files that appears whole.

    An existing folder is replaced only if Lowtide wrote it and it holds nothing else.

    Args:
        path: the folder; folders above it are made.
        files: what to put into it, by file name: text (written as UTF-8) or bytes.
        ours: whether an existing folder carries Lowtide's format mark.
        names: all file names that a folder of this kind may hold; a folder with any other entry is not replaced.

    Returns:
        The path.
    """
    check_replaceable(path, ours=ours, names=names)
    try:
        Path(os.path.realpath(path)).parent.mkdir(parents=True, exist_ok=True)
        with whole_path(path, replace=True) as made:
            made.mkdir()
            for name, content in files.items():
                (made / name).write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise cannot_write(path, error) from error
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


def regular(path: str | os.PathLike[str]) -> Path:
    """Return a path unless it is a pipe, a socket or a device: reading one may wait for ever, or never end."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return Path(path)  # what is wrong with it is told by whoever opens it
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return Path(path)
    raise LowtideError(f"{os.fspath(path)} is a pipe or a device, not a file; save what it gives to a file first")


def sha256_of(path: Path) -> str:
    """The hash of a file; of a folder, that of the names and hashes of its files in the order of their names.

    It is what the card of a release carries, whatever kind of data it is about.
    """
    if not path.is_dir():
        with regular(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    files = {entry.relative_to(path).as_posix(): entry for entry in path.rglob("*") if entry.is_file()}
    listing = "".join(f"{sha256_of(files[name])}  {name}\n" for name in sorted(files))
    return hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()
