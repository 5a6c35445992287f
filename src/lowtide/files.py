"""Files and folders that appear whole or not at all, alone or together."""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Self

from lowtide.errors import LowtideError
from lowtide.places import refuse_url

PRIVATE = (
    0o600  # rights of a file that stays inside: plans, keys, and lists of what was hidden where
)
PRIVATE_FOLDER = 0o700
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)  # of file systems that have none
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ELSEWHERE = "choose a folder that exists and is writable, or another name"


def cannot_write(path: str | os.PathLike[str], error: OSError) -> LowtideError:
    """What to raise when the system refuses to write a file or folder."""
    reason = error.strerror or type(error).__name__
    remedy = "make room, or choose another disk" if error.errno in _FULL else _ELSEWHERE
    return LowtideError(f"cannot write {os.fspath(path)}: {reason}; {remedy}")


@contextlib.contextmanager
def whole_file(
    path: str | os.PathLike[str], *, rights: int | None = None, new: bool = False
) -> Iterator[IO[bytes]]:
    """A file to write bytes to, which appears under its name when the block ends without an
    exception.

    Until then it is a hidden file of the same folder, which vanishes on any exception. Exceptions
    of the block itself are passed on as they are.

    Args:
        path: the file; an older one is replaced, and a link is followed.
        rights: of the file; by default those of the file that is replaced, or what the umask
            leaves.
        new: refuse to replace anything.
    """
    place = _target(path)
    if place.is_dir():
        raise LowtideError(
            f"cannot write {os.fspath(path)}: it is a folder; give the name of a file"
        )
    try:
        partial, file = _open_partial(place, PRIVATE if rights is not None else 0o666)
    except OSError as error:
        raise cannot_write(path, error) from error
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


def _target(path: str | os.PathLike[str]) -> Path:
    """Where something is written, with links followed; refuses a URL, and what no file can
    replace.
    """
    refuse_url("what is to be written", path)
    refuse_special("what is to be written", path)
    return Path(os.path.realpath(path))


def refuse_special(what: str, path: str | os.PathLike[str]) -> None:
    """Refuse to write where a pipe, a socket, a device or a loop of links stands: a file would take
    its place.

    Args:
        what: is to be written there, for the message.
        path: where.
    """
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise LowtideError(
                f"{what}: {os.fspath(path)} is a link that leads to itself; remove it"
            ) from error
        return  # nothing stands there, or whoever writes says what is wrong with it
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise LowtideError(
            f"{what}: {os.fspath(path)} is a pipe, a socket or a device, which a file would"
            " replace; name a file or a folder"
        )


def _open_partial(place: Path, rights: int) -> tuple[Path, IO[bytes]]:
    """A new hidden file beside `place`; the system takes from its rights what the umask says.

    It is locked as long as it is open. What killed processes left behind is removed first.
    """
    _sweep(place.parent, place.name)
    while True:
        partial = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
        with contextlib.suppress(FileExistsError):
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, rights)
            if _hold(handle, partial):
                return partial, os.fdopen(handle, "wb")
            os.close(handle)


@contextlib.contextmanager
def _hidden_folder(target: Path, parent: Path) -> Iterator[Path]:
    """A new hidden folder for what is to appear at `target`, locked and removed with the block.

    What killed processes left behind is removed first.
    """
    _sweep(parent, target.name)
    while True:
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=f".{target.name}.", suffix=".part"))
        handle = os.open(folder, os.O_RDONLY)
        if _hold(handle, folder):
            break
        os.close(handle)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _hold(handle: int, place: Path) -> bool:
    """Lock what was just made until its handle is closed; `False` where it was swept away in
    between.
    """
    with contextlib.suppress(
        OSError
    ):  # of a file system without locks, where nothing is swept either
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        return os.path.samestat(os.fstat(handle), place.stat())
    except FileNotFoundError:
        return False


def _sweep(parent: Path, name: str) -> None:
    """Remove the hidden files and folders that killed processes left while they wrote `name`.

    Those that a process still writes are locked, and stay.
    """
    left = re.compile(rf"\.{re.escape(name)}\.[0-9a-z_]{{8}}\.part")
    try:
        places = [place for place in parent.iterdir() if left.fullmatch(place.name)]
    except OSError:
        return  # whoever writes there says what is wrong with it
    for place in places:
        with contextlib.suppress(OSError):
            handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(place) if place.is_dir() else place.unlink()
            finally:
                os.close(handle)


def _commit(file: IO[bytes], partial: Path, place: Path, rights: int | None, new: bool) -> None:
    """Put all bytes on the disk, then give the file its name."""
    file.flush()
    if rights is not None:
        os.fchmod(file.fileno(), rights)
    os.fsync(file.fileno())
    file.close()
    if new:
        _move_to_free_name(partial, place)
    else:
        partial.replace(place)
    _sync(place.parent)


def _sync(folder: Path) -> None:
    """Put the names in a folder on the disk."""
    with contextlib.suppress(OSError):  # not every system can; the files themselves are safe
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _move_to_free_name(partial: Path, place: Path) -> None:
    try:
        os.link(partial, place)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
        try:
            partial.replace(place)
        except BaseException:
            place.unlink()  # it would be an empty file
            raise
    else:
        partial.unlink()


def _rights(place: Path) -> int | None:
    """Those of the file that is replaced; `None` where there is none."""
    try:
        return stat.S_IMODE(place.stat().st_mode)
    except OSError:
        return None


def write_whole(
    path: str | os.PathLike[str],
    content: str | bytes,
    *,
    rights: int | None = None,
    new: bool = False,
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
    """A path at which the block makes a file or folder; it is moved to `path` when the block ends
    without an exception.

    Until then it lies in a hidden folder beside `path`, which vanishes in any case. Exceptions of
    the block itself are passed on as they are.

    Args:
        path: where it is to appear, within a folder that exists.
        replace: whether what stands at `path` may go. A folder is moved aside and removed once the
            new one is in place, so that an interruption never leaves less than one whole folder.
    """
    # `--save .` names the working folder; only its full path can be moved.
    target = _target(path)
    with contextlib.ExitStack() as stack:
        try:
            work = stack.enter_context(_hidden_folder(target, target.parent))
        except OSError as error:
            raise cannot_write(path, error) from error
        old = work / "old"
        made = work / target.name
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


class Staging:
    """The files of a release, put in place together; a context manager.

    Until `commit` they lie in hidden folders beside their places, which vanish in any case. At no
    moment does new data stand beside a card, or a list of changes, that is not its own: these are
    taken away first, then the data is put in place, then what belongs to it. An exception before
    the data is in place brings everything back as it was; after that, the rest is put in place
    nevertheless. A process that is killed in between leaves data without a card.

    Only one release at a time may write to a target; the lock goes with the process that holds it.
    What killed releases left behind is removed when the next one starts.

    Args:
        target: the data, a file or a folder.
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self._target = _target(target)
        self._staged: dict[Path, Path] = {}
        self._new: set[Path] = set()
        self._old: dict[Path, Path] = {}
        self._work: dict[Path, Path] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(_locked(self._target))
        _sweep(self._target.parent, self._target.name)
        return self

    def __call__(self, path: str | os.PathLike[str], *, new: bool = False) -> Path:
        """Where to write what is to appear at `path`; with `new`, only where nothing stands
        there.
        """
        place = _target(path)
        if place not in self._staged:
            try:
                folder = self._folder(place.parent) / secrets.token_hex(4)
                folder.mkdir()
            except OSError as error:
                raise cannot_write(path, error) from error
            self._staged[place] = folder / place.name
        if new:
            self._new.add(place)
        return self._staged[place]

    def commit(self) -> None:
        """Put everything that was written in place."""
        there = {place: staged for place, staged in self._staged.items() if os.path.lexists(staged)}
        for place, staged in there.items():
            _narrow(staged, _rights(place) if place.is_file() else None)
        try:
            self._put(there)
        except BaseException as error:
            if there[self._target].exists():
                self._bring_back(there)
            else:
                self._put_companions(there)
            if isinstance(error, OSError):
                raise cannot_write(error.filename or self._target, error) from error
            raise

    def _put(self, there: Mapping[Path, Path]) -> None:
        for place in self._new & there.keys():
            _move_to_free_name(there[place], place)
        for place, staged in there.items():
            if place not in self._new | {self._target} and os.path.lexists(place):
                self._old[place] = staged.with_name("old of it")
                place.rename(self._old[place])
        _sync(self._target.parent)
        there[self._target].replace(self._target)
        self._put_companions(there)

    def _put_companions(self, there: Mapping[Path, Path]) -> None:
        for place, staged in there.items():
            if place != self._target and staged.exists():
                staged.replace(place)
            _sync(place.parent)

    def _bring_back(self, there: Mapping[Path, Path]) -> None:
        for place in self._new & there.keys():
            staged = there[place]
            if not staged.exists() or (place.exists() and staged.samefile(place)):
                place.unlink(missing_ok=True)
        for place, old in self._old.items():
            if os.path.lexists(old):
                old.rename(place)

    def _folder(self, parent: Path) -> Path:
        if parent not in self._work:
            self._work[parent] = self._stack.enter_context(_hidden_folder(self._target, parent))
        return self._work[parent]

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _narrow(path: Path, rights: int | None) -> None:
    """Take from a file the rights that the file it replaces does not give."""
    if rights is not None:
        path.chmod(stat.S_IMODE(path.stat().st_mode) & rights)


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Hold the lock of a target: a hidden file beside it, that the system frees when its process
    ends, however.

    A card is under the lock of its release, so that none is reviewed while it is replaced.
    """
    place = target.with_name(f".{target.name.removesuffix('.card.json')}.lock")
    try:
        handle = _lock(place)
    except BlockingIOError as error:
        raise LowtideError(
            f"another release to {target} is under way; wait for it to end, or choose another name"
        ) from error
    except OSError as error:
        raise cannot_write(target, error) from error
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        os.close(handle)


def _lock(place: Path) -> int:
    while True:
        handle = os.open(place, os.O_RDWR | os.O_CREAT, PRIVATE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(handle)
                raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), place.stat()):
                return handle
        os.close(handle)  # of a lock that its holder has removed in the meantime


def write_folder(
    path: Path,
    files: Mapping[str, str | bytes],
    *,
    ours: Callable[[Path], bool],
    names: frozenset[str],
    private: bool = False,
) -> Path:
    """Write a folder of files that appears whole.

    An existing folder is replaced only if Lowtide wrote it and it holds nothing else.

    Args:
        path: the folder; folders above it are made.
        files: what to put into it, by file name: text (written as UTF-8) or bytes.
        ours: whether an existing folder carries Lowtide's format mark.
        names: all file names that a folder of this kind may hold; a folder with any other entry is
            not replaced.
        private: whether only its owner may read it.

    Returns:
        The path.
    """
    check_replaceable(path, ours=ours, names=names)
    try:
        _target(path).parent.mkdir(parents=True, exist_ok=True)
        with whole_path(path, replace=True) as made:
            made.mkdir(PRIVATE_FOLDER if private else 0o777)
            for name, content in files.items():
                (made / name).touch(PRIVATE if private else 0o666, exist_ok=False)
                (made / name).write_bytes(
                    content.encode("utf-8") if isinstance(content, str) else content
                )
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


def check_replaceable(path: Path, *, ours: Callable[[Path], bool], names: frozenset[str]) -> None:
    """Refuse a path at which something that Lowtide did not write exists; arguments as in
    `write_folder`.
    """
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise LowtideError(
            f"{path} is a file, not a Lowtide folder; choose another name or remove it"
        )
    entries = sorted(entry.name for entry in path.iterdir())
    if not entries:
        return
    if not ours(path):
        raise LowtideError(
            f"{path} exists and is not a Lowtide folder of this kind; nothing was changed: choose"
            " another name"
        )
    foreign = [name for name in entries if name not in names]
    if foreign:
        some = ", ".join(foreign[:3]) + (" …" if len(foreign) > 3 else "")
        raise LowtideError(
            f"{path} also holds {some}, which Lowtide did not write; nothing was changed: choose"
            " another name, or move them elsewhere"
        )


def regular(path: str | os.PathLike[str]) -> Path:
    """Return a path unless it is a pipe, a socket or a device: reading one may wait for ever, or
    never end.
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return Path(path)  # what is wrong with it is told by whoever opens it
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return Path(path)
    raise LowtideError(
        f"{os.fspath(path)} is a pipe or a device, not a file; save what it gives to a file first"
    )
