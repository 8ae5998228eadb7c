"""Folders to which several commands write one after the other, such as a sweep's: which names in them are knee's.

A :data:`Layout` lists the names that such a folder may have. Nothing else in it is deleted, moved or overwritten: a
command that finds something else in the way is refused before it starts. The folder and those in it are opened by
descriptor and no link in it is followed, since another process may put one there at any time.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Union

from knee.errors import FolderError
from knee.results import folder as folders
from knee.system import abilities, files
from knee.system.folders import Folder
from knee.system.folders import opened as opened_folder
from knee.system.rights import give_open, make_folder


class Kind(Enum):
    """What a name stands for, where it is no folder with a layout of its own."""

    #: A file that knee writes.
    FILE = auto()
    #: A result folder of ``knee run``, which has digests of what is in it.
    RESULT = auto()
    #: What a killed process left of a file or result folder that it was writing.
    UNFINISHED = auto()


FILE, RESULT = Kind.FILE, Kind.RESULT
#: Regular expressions of the names in a folder, with what they stand for.
Layout = Mapping[str, Union[Kind, "Layout"]]

_UNFINISHED = re.compile(r"\.(.+)\.[0-9a-f]{8}\.(partial|old)", re.DOTALL)
_FOREIGN, _LINK = "was not written by knee", "is a link"


def known(layout: Layout, name: str) -> Kind | Layout | None:
    """What a name stands for in a folder; None if knee writes nothing of that name."""
    found = next((kind for pattern, kind in layout.items() if re.fullmatch(pattern, name)), None)
    if found is not None:
        return found
    unfinished = _UNFINISHED.fullmatch(name)
    if unfinished is not None:
        kind = known(layout, unfinished[1])
        if kind is RESULT or (kind is FILE and unfinished[2] == "partial"):
            return Kind.UNFINISHED
    return None


def refuse_foreign(folder: Path, layout: Layout) -> None:
    """Rejects a folder in which something else has the place of what is to be written, or lies beside it further down.

    Unknown names in ``folder`` itself are no reason: they are in nobody's way.

    Raises:
        FolderError: names what is in the way, and why.
    """
    if folder.is_symlink():
        raise FolderError(f"{folder} is a link, and links are not followed; name the folder that it points to.")
    if not os.path.lexists(folder):
        return
    try:
        with opened_folder(folder) as handle:
            found = dict(_foreign(handle, layout, "", {abilities.user_id(), handle.owner()}))
    except OSError as error:
        raise FolderError(f"{folder} cannot be read ({error.strerror}); name another with --out.") from None
    if found:
        raise FolderError(
            f"{folder} is not written to, because in it {folders.listed(found)}; move it elsewhere, or name another "
            "folder with --out."
        )


def refuse_other(out: Path, by: str, layout: Layout, *, begun: bool) -> None:
    """Rejects a folder with anything but what a command writes.

    Args:
        out: the folder, which need not exist.
        by: the command, such as ``knee evaluate``.
        layout: what it writes there.
        begun: whether it shows that the command has written there before.

    Raises:
        FolderError: says what is there.
    """
    if not begun and out.exists() and (not out.is_dir() or any(out.iterdir())):
        found = f"{out} was not written by {by}, so it is not replaced"
        raise FolderError(f"{found}; name another folder with --out, or remove it.")
    refuse_foreign(out, layout)


def make(out: Path) -> None:
    """Makes a folder, and those above it that are missing.

    Raises:
        FolderError: it cannot be made.
    """
    try:
        make_folder(out)
    except OSError as error:
        raise FolderError(f"The folder {out} cannot be made ({error.strerror}); name another with --out.") from None


def _foreign(handle: Folder, layout: Layout, place: str, owners: set[int]) -> Iterator[tuple[str, str]]:
    """Everything in an open folder that is not as its layout says, with what is wrong."""
    for name in sorted(handle.names()):
        path, kind = f"{place}{name}", known(layout, name)
        try:
            found = handle.stat(name)
        except FileNotFoundError:
            continue
        if kind is None:
            if place:
                yield path, _FOREIGN
        elif stat.S_ISLNK(found.st_mode):
            yield path, _LINK
        elif kind is FILE:
            if not stat.S_ISREG(found.st_mode):
                yield path, "is not a file"
        elif kind is Kind.UNFINISHED:
            continue
        elif not stat.S_ISDIR(found.st_mode):
            yield path, "is not a folder"
        elif found.st_uid not in owners:
            yield path, "belongs to another user"
        elif isinstance(kind, Mapping):
            with handle.inside(name) as inner:
                yield from _foreign(inner, kind, f"{path}/", owners)


@contextmanager
def opened(folder: Path, *below: str, make: bool = False) -> Iterator[Folder]:
    """Opens a folder, or one some levels below it.

    Args:
        folder: the folder, whose own name may be a link.
        below: the names from there, none of which is followed if it is a link.
        make: whether the folders are created where they are missing.

    Raises:
        OSError: it cannot be opened, or is no folder.
    """
    with contextlib.ExitStack() as stack:
        if make:
            make_folder(folder)
        handle = stack.enter_context(opened_folder(folder))
        for name in below:
            handle = stack.enter_context(handle.inside(name, make=make))
        yield handle


@contextmanager
def replacing(handle: Folder, name: str) -> Iterator[io.FileIO]:
    """Yields a new file that gets its name in an open folder at the end; on any error it is removed.

    Raises:
        OSError: it cannot be written.
    """
    beside = f".{name}.{uuid.uuid4().hex[:8]}.partial"
    try:
        with handle.create(beside) as file:
            yield file
            give_open(file.fileno())
            os.fsync(file.fileno())
        handle.replace(beside, name)
    finally:
        with contextlib.suppress(OSError):
            handle.unlink(beside)


def remove(folder: Path, paths: Iterable[str], layout: Layout) -> None:
    """Removes what knee wrote below some relative paths; everything else stays, and the folders that it is in."""
    for path in paths:
        *below, name = path.split("/")
        inside: Kind | Layout | None = layout
        for part in below:
            inside = known(inside, part) if isinstance(inside, Mapping) else None
        if isinstance(inside, Mapping):
            with contextlib.suppress(OSError), opened(folder, *below) as handle:
                _remove(handle, name, known(inside, name), folder.joinpath(*below))


def remove_unfinished(folder: Path, layout: Layout) -> None:
    """Removes what killed processes left of files that they were writing, in a folder that this process has locked."""
    with contextlib.suppress(OSError), opened(folder) as handle:
        _remove_unfinished(handle, layout)


def _remove_unfinished(handle: Folder, layout: Layout) -> None:
    for name in handle.names():
        kind = known(layout, name)
        with contextlib.suppress(OSError):
            if kind is Kind.UNFINISHED and stat.S_ISREG(handle.stat(name).st_mode):
                handle.unlink(name)
            elif isinstance(kind, Mapping):
                with handle.inside(name) as inner:
                    _remove_unfinished(inner, kind)


def _remove(handle: Folder, name: str, kind: Kind | Layout | None, folder: Path) -> None:
    with contextlib.suppress(OSError):
        mode = handle.stat(name).st_mode
        if isinstance(kind, Mapping):
            with handle.inside(name) as inner:
                for each in inner.names():
                    _remove(inner, each, known(kind, each), folder / name)
            handle.rmdir(name)
        elif stat.S_ISREG(mode) and kind in (FILE, Kind.UNFINISHED):
            handle.unlink(name)
        elif stat.S_ISDIR(mode) and kind is RESULT and folders.is_result(folder / name):
            if not any(what != folders.MISSING for what in folders.problems(folder / name).values()):
                handle.remove_tree(name)
        elif stat.S_ISDIR(mode) and kind is Kind.UNFINISHED:
            folders.clear(files.absolute(folder) / name)
