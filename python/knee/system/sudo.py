"""The user who called ``sudo``, who gets what root writes for them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from knee.system import abilities


def caller() -> tuple[int, int] | None:
    """User and group id of the user who called ``sudo``; None without sudo."""
    user, group = (os.environ.get(name, "") for name in ("SUDO_UID", "SUDO_GID"))
    if not abilities.is_root() or not (user.isdecimal() and group.isdecimal()) or int(user) == 0:
        return None
    return int(user), int(group)


def give_open(handle: int) -> None:
    """Gives a new file or folder of root's, which is open, to the user who called ``sudo``."""
    whom = caller()
    if whom is not None and os.fstat(handle).st_uid == 0:
        os.fchown(handle, *whom)


def make_folder(path: Path) -> None:
    """Makes a folder, and those above it that are missing, for the user who called ``sudo``.

    Raises:
        OSError: it cannot be made.
    """
    missing = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for place in missing if caller() is not None else ():
        here = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            give_open(here)
        finally:
            os.close(here)


def give_to_caller(folder: Path, around: Iterable[Path] = ()) -> None:
    """Gives a new folder with its content, and the folders ``around`` it, to the user who called ``sudo``."""
    whom = caller()
    if whom is not None:
        give(folder, whom, around)


def give(folder: Path, whom: tuple[int, int], around: Iterable[Path] = ()) -> None:
    """Gives a new folder of root's with its content, and the folders ``around`` it, to a user and group.

    Only what belongs to root changes owner. It works on file descriptors and follows no links, because other users may
    be able to write to a parent folder.
    """
    for _, _, files, here in os.fwalk(folder, topdown=False, follow_symlinks=False):
        if os.fstat(here).st_uid != 0:
            continue
        for name in files:
            found = os.stat(name, dir_fd=here, follow_symlinks=False)
            if (found.st_uid, found.st_nlink) == (0, 1):
                os.chown(name, *whom, dir_fd=here, follow_symlinks=False)
        os.fchown(here, *whom)
    for place in around:
        here = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(here).st_uid == 0:
                os.fchown(here, *whom)
        finally:
            os.close(here)
