"""Files: atomic writes, bounded reads, digests and locks. All other modules use these."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import io
import os
import select
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from knee.errors import FolderError, KneeError, RunError
from knee.system import abilities
from knee.system.rights import caller, give_open
from knee.system.text import visible

if TYPE_CHECKING:
    import polars as pl
    from typing_extensions import Buffer

#: Time between two attempts, s.
_PAUSE_S = 0.02
#: Longest command that an error shows, characters.
_LONGEST = 120


@contextmanager
def locked(file: Path, patience_s: float, *, at: int | None = None) -> Iterator[int]:
    """Waits for a lock and holds it; yields its file descriptor, which a child may inherit.

    Args:
        file: the file of the lock, made if it does not exist.
        patience_s: how long to wait, s.
        at: a descriptor of the folder of ``file``, if there is one.

    Raises:
        RunError: another process held it all that time; names it. Or the file is another user's.
    """
    flags = os.O_RDWR | os.O_CREAT | abilities.NOFOLLOW | abilities.CLOEXEC
    try:
        handle = os.open(file if at is None else file.name, flags, 0o600, dir_fd=at)
    except OSError as error:
        raise RunError(f"The lock {file} cannot be opened ({error.strerror}); remove it.") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != abilities.user_id() or found.st_nlink != 1:
            raise RunError(f"The lock {file} is not a file of this user's own; remove it.")
        # Earlier versions let everybody read it, which is enough to hold it.
        os.fchmod(handle, 0o600)
        _hold(handle, file, patience_s)
        yield handle
    finally:
        os.close(handle)


def _hold(handle: int, file: Path, patience_s: float) -> None:
    end = time.monotonic() + patience_s
    while not take(handle):
        if time.monotonic() > end:
            raise RunError(
                f"The lock {file} is held by {_holder(handle)} and was not released within {patience_s:g} s; "
                "wait until that process has ended, or end it."
            )
        time.sleep(_PAUSE_S)


def take(handle: int, *, wait: bool = False) -> bool:
    """Takes the lock on an open file or folder; without ``wait`` only if nobody holds it.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        import fcntl
    except ImportError:
        return _take_byte(handle, wait)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take_byte(handle: int, wait: bool) -> bool:
    """As :func:`take`, on Windows: locks the first byte of a file."""
    windows = import_module("msvcrt")
    while True:
        try:
            windows.locking(handle, windows.LK_NBLCK, 1)
        except PermissionError:
            if not wait:
                return False
            time.sleep(_PAUSE_S)
        else:
            return True


def _holder(handle: int) -> str:
    """The process that holds the lock on an open file, for a sentence."""
    found = os.fstat(handle)
    number = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    # "4: FLOCK  ADVISORY  WRITE 1234 00:1a:42 0 EOF"; those that wait have an arrow after the number.
    fields = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    pid = next((line[4] for line in fields if line[1] == "FLOCK" and line[5] == number), None)
    if pid is None:
        return "another process"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return f"a child of process {pid}, which has ended"
    command = visible(b" ".join(words).decode(errors="replace"))
    return f"process {pid} ({command if len(command) <= _LONGEST else f'{command[:_LONGEST]}...'})"


#: Errors that are due to the path given, not to writing.
_OF_THE_PLACE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENOENT, errno.EEXIST),
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTEMPTY),
}
#: A value of a table in memory, bytes; a reference to text has twice as many as a number.
_CELL = 16
#: How long a pipe may have nothing to read, s.
_PIPE_PATIENCE_S = 10.0
#: renameat2(2): relative names are those of the current folder; swap the two.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
#: Errors of kernels and file systems that cannot exchange names.
_NO_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP}


def unwritable(path: Path, error: OSError, what: str = "") -> KneeError:
    """The exception for a ``path`` that cannot be written; ``what`` replaces the path in its message."""
    reason = error.strerror or str(error)
    what = what or str(path)
    if error.errno in _OF_THE_PLACE:
        return FolderError(f"{what} cannot be written ({reason}); name another place with --out.")
    return RunError(f"{what} cannot be written ({reason}); nothing was written, and the previous content is unchanged.")


def partial(target: Path) -> Path:
    """A new hidden name next to ``target``, for a file or folder that is not complete yet."""
    target = absolute(target)
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")


def absolute(path: Path) -> Path:
    """The absolute path. Links are not resolved, since a link itself may be what is replaced."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow them


def check_output(path: Path) -> None:
    """Rejects the name of a file to write where something else is: only files are replaced, and no link is followed.

    Raises:
        FolderError: says what is there.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise FolderError(f"{path} cannot be written ({reason}); name another file.") from None
    if not stat.S_ISREG(mode):
        what = "link" if stat.S_ISLNK(mode) else "folder" if stat.S_ISDIR(mode) else "pipe or device"
        raise FolderError(f"{path} is a {what}, and only files are replaced; name another file, or remove it.")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a name next to ``path`` to write to. At the end that file replaces ``path``; on any error it is removed.

    Raises:
        FolderError: ``path`` cannot be written to, or is a link or a folder.
        RunError: writing failed, as on a full disk.
    """
    check_output(path)
    beside = partial(path)
    try:
        yield beside
        sync(beside)
        _give(beside)
        beside.replace(path)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        # If this fails too, the first error is the one to report.
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _give(path: Path) -> None:
    """Gives a new file to the user who called ``sudo``."""
    if caller() is not None:
        here = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            give_open(here)
        finally:
            os.close(here)


def write(path: Path, content: str | bytes) -> None:
    """Writes a file completely or not at all; raises what :func:`replacing` does."""
    # Nothing has the new name yet, and what has is not followed.
    with replacing(path) as beside, beside.open("xb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_frame(where: Path | io.FileIO, frame: pl.DataFrame) -> None:
    """Writes a table as Parquet, to a path or an open file, which stays open.

    Raises:
        OSError: it cannot be written.
    """
    with where.open("wb", buffering=0) if isinstance(where, Path) else nullcontext(where) as file:
        keeping = _Keeping(file)
        try:
            frame.write_parquet(cast(IO[bytes], keeping))
        except Exception:
            # polars hides the cause: it reports a full disk as "Invalid thrift: transport error", for example.
            if keeping.error is not None:
                raise keeping.error from None
            raise


def read_frame(path: Path, columns: Sequence[str] | None = None, *, most: int | None = None) -> pl.DataFrame:
    """Reads a table from Parquet, once its footer says that it can be one.

    Args:
        path: the file.
        columns: the columns to read; by default all.
        most: the most rows that it can have.

    Raises:
        OSError: it is no Parquet, has lists in place of numbers, or more rows than it can have or memory has room for.
    """
    import polars as pl

    try:
        # Without this, polars would read a folder called "g[a-z]*" as a pattern.
        lazy = pl.scan_parquet(path, glob=False)
        check_rows(lazy, most)
        return (lazy if columns is None else lazy.select(columns)).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise OSError(" ".join(str(error).split())[:200]) from None


def check_rows(lazy: pl.LazyFrame, most: int | None = None) -> None:
    """Refuses a table on disk by its footer: a few bytes can stand for a column of a billion equal values.

    Raises:
        OSError: it has lists in place of numbers, or more than ``most`` rows, or memory has no room for it.
    """
    import polars as pl

    schema = lazy.collect_schema()
    if nested := [name for name, kind in schema.items() if kind.is_nested()]:
        raise OSError(f"the column {nested[0]} holds {schema[nested[0]]}")
    rows, room = lazy.select(pl.len()).collect().item(), abilities.available_memory()
    if most is not None and rows > most:
        raise OSError(f"it has {rows} rows, and {most} are the most that it can have")
    if room is not None and rows * len(schema) * _CELL > room:
        raise OSError(
            f"its {rows} rows need {rows * len(schema) * _CELL >> 20} MiB, and {room >> 20} MiB are available"
        )


class _Keeping(io.RawIOBase):
    """A file for writing that keeps the system's error, which polars hides."""

    def __init__(self, file: io.RawIOBase) -> None:
        self.error: OSError | None = None
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        rest = memoryview(data).cast("B")
        try:
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
        except OSError as error:
            self.error = error
            raise
        return memoryview(data).nbytes


def sync(path: Path) -> None:
    """Flushes a file or folder to disk, so that deferred write errors appear before the old version is replaced."""
    if path.is_dir() and not abilities.OPENS_FOLDERS:
        return
    # Windows flushes only what is open for writing.
    way = os.O_RDONLY if abilities.OPENS_FOLDERS else os.O_RDWR
    handle = os.open(path, way | abilities.NOFOLLOW)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read(path: Path, most: int) -> bytes:
    """The content of a file of at most ``most`` bytes, or of a pipe, as of a shell's ``<(...)``.

    Raises:
        OSError: it cannot be read, is longer (EFBIG), like the endless ``/dev/zero``, or is a pipe into which nobody
            writes (ETIMEDOUT).
    """
    with open(path, "rb", buffering=0, opener=_without_waiting) as file:
        content = _content(file, most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is longer than {most >> 20} MiB", str(path))
    return content


def _without_waiting(path: str, flags: int) -> int:
    # Opening a named pipe that has no writer would block forever.
    return os.open(path, flags | abilities.NONBLOCK)


def _content(file: io.FileIO, most: int) -> bytes:
    """What a file or pipe has, up to ``most`` bytes."""
    piped = bool(abilities.NONBLOCK) and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
    if abilities.NONBLOCK:
        os.set_blocking(file.fileno(), not piped)
    content = bytearray()
    while len(content) < most:
        if piped and not select.select([file], [], [], _PIPE_PATIENCE_S)[0]:
            raise OSError(errno.ETIMEDOUT, f"nothing was written into this pipe for {_PIPE_PATIENCE_S:g} s")
        part = file.read(most - len(content))
        if not part:
            break
        content += part
    return bytes(content)


def digest(path: Path) -> str:
    """The SHA-256 of a regular file, in hexadecimal.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    # Opening a named pipe would block forever.
    handle = os.open(path, abilities.READING)
    with open(handle, "rb") as file:  # noqa: PTH123 - it is open already
        return hashlib.file_digest(file, "sha256").hexdigest()


def exchange(one: Path, other: Path) -> bool:
    """Swaps two names atomically. Returns False, having done nothing, if the system cannot.

    Raises:
        OSError: the names could not be swapped.
    """
    call = getattr(abilities.c_library(), "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(one))


@contextmanager
def held(folder: Path, *, wait: bool = False) -> Iterator[bool]:
    """Holds a folder's lock. Yields False if that fails: another process holds it, or removed the folder meanwhile.

    The lock is released when the process ends, however it ends. It is on the folder itself; where folders cannot be
    opened, it is on a file in the folder for temporary files.

    Args:
        folder: the folder.
        wait: whether to wait while another process holds it.
    """
    handle = None
    try:
        if abilities.OPENS_FOLDERS:
            handle = os.open(folder, os.O_RDONLY | abilities.DIRECTORY | abilities.NOFOLLOW)
            got = take(handle, wait=wait) and os.path.samestat(os.fstat(handle), folder.lstat())
        else:
            name = f"knee-{hashlib.sha256(os.fsencode(absolute(folder))).hexdigest()[:32]}.lock"
            handle = os.open(Path(tempfile.gettempdir()) / name, os.O_RDWR | os.O_CREAT, 0o600)
            got = take(handle, wait=wait) and folder.is_dir()
    except OSError:
        got = False
    try:
        yield got
    finally:
        if handle is not None:
            os.close(handle)
