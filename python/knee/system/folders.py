"""Open folders: what is done to names in one cannot be led elsewhere by a link that another process makes meanwhile.

Where the system cannot open folders (Windows), names are used by their paths, and links are refused as they are found.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from knee.system import abilities
from knee.system.rights import give_open

_FOLDER = os.O_RDONLY | abilities.DIRECTORY | abilities.CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | abilities.NOFOLLOW | abilities.CLOEXEC | abilities.BINARY


@dataclass(frozen=True)
class Folder:
    """An open folder.

    Attributes:
        path: where it was opened.
        descriptor: its file descriptor; None where folders cannot be opened.
    """

    path: Path
    descriptor: int | None

    def names(self) -> list[str]:
        """The names in it."""
        return os.listdir(self.path if self.descriptor is None else self.descriptor)  # noqa: PTH208 - an open folder

    def owner(self) -> int:
        """The user id of its owner."""
        return (os.stat(self.path) if self.descriptor is None else os.fstat(self.descriptor)).st_uid  # noqa: PTH116

    def stat(self, name: str) -> os.stat_result:
        """What is known of a name in it; of a link, the link itself."""
        return os.stat(self._at(name), dir_fd=self.descriptor, follow_symlinks=False)

    @contextmanager
    def inside(self, name: str, *, make: bool = False) -> Iterator[Folder]:
        """Opens a folder in it.

        Args:
            name: its name, which is not followed if it is a link.
            make: whether it is created where it is missing.

        Raises:
            OSError: it is no folder, or cannot be opened.
        """
        new = False
        if make:
            try:
                os.mkdir(self._at(name), dir_fd=self.descriptor)
                new = True
            except FileExistsError:
                pass
        if self.descriptor is None:
            if stat.S_ISLNK(self.stat(name).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self.path / name))
            with opened(self.path / name) as inner:
                yield inner
            return
        handle = os.open(name, _FOLDER | abilities.NOFOLLOW, dir_fd=self.descriptor)
        try:
            if new:
                give_open(handle)
            yield Folder(self.path / name, handle)
        finally:
            os.close(handle)

    def create(self, name: str) -> io.FileIO:
        """Makes a new file in it, open for writing.

        Raises:
            OSError: it cannot be made, or there is something of that name.
        """
        return io.FileIO(os.open(self._at(name), _NEW, 0o666, dir_fd=self.descriptor), "wb")

    def replace(self, name: str, other: str) -> None:
        """Gives a file in it another name, in place of what has that name."""
        os.replace(self._at(name), self._at(other), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def unlink(self, name: str) -> None:
        """Removes a file in it."""
        os.unlink(self._at(name), dir_fd=self.descriptor)

    def rmdir(self, name: str) -> None:
        """Removes an empty folder in it."""
        os.rmdir(self._at(name), dir_fd=self.descriptor)

    def remove_tree(self, name: str) -> None:
        """Removes a folder in it with its content; no link is followed."""
        shutil.rmtree(self._at(name), dir_fd=self.descriptor)

    def _at(self, name: str) -> str | Path:
        return self.path / name if self.descriptor is None else name


@contextmanager
def opened(path: Path) -> Iterator[Folder]:
    """Opens a folder, whose own name may be a link.

    Raises:
        OSError: it is no folder, or cannot be opened.
    """
    if not abilities.OPENS_FOLDERS:
        if not path.is_dir():
            code = errno.ENOTDIR if os.path.lexists(path) else errno.ENOENT
            raise OSError(code, os.strerror(code), str(path))
        yield Folder(path, None)
        return
    handle = os.open(path, _FOLDER)
    try:
        yield Folder(path, handle)
    finally:
        os.close(handle)
