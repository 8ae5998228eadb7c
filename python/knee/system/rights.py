"""Users and their rights: what this process may not do, the user who called ``sudo``, and who else can change a file.

Root runs nothing, and removes nothing, that another user could have put there, and gives what it writes to the user
who called ``sudo``.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from knee.errors import RunError
from knee.system import abilities

#: Ids that no distribution assigns (systemd.io/UIDS-GIDS): large ones, one for each process id; and the few of 16 bits
#: that are left to containers with small ranges.
_LARGE, _SMALL, _SMALL_COUNT = 0x7000_0000, 65_520, 14
_PR_SET_NO_NEW_PRIVS = 38
_MAP = Path("/proc/self/uid_map")


def gain_none() -> None:
    """Makes sure that nothing started from here gains rights by a set-user-id program or a file's capabilities."""
    prctl = getattr(abilities.c_library(), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def unused_user() -> int:
    """A user and group id that nobody has.

    The user ``nobody`` is shared: any other program that runs as ``nobody`` could end or trace our processes.

    Raises:
        RunError: this container's range of ids has none.
    """
    for uid in (_LARGE + os.getpid(), _SMALL + os.getpid() % _SMALL_COUNT):
        if is_mapped(uid) and not _taken(uid):
            return uid
    raise RunError(f"This container has no user id to spare: {_MAP} has neither {_LARGE} nor {_SMALL}.")


def is_mapped(uid: int) -> bool:
    """Whether a user id exists in this user namespace."""
    rows = (map(int, line.split()) for line in _MAP.read_text().splitlines())
    return any(first <= uid < first + count for first, _, count in rows)


def _taken(uid: int) -> bool:
    import pwd

    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


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


#: In a user namespace, the owner of what belongs to users outside of it, the machine's root among them.
_UNMAPPED = 65_534
_FOLDER = os.O_RDONLY | abilities.DIRECTORY | abilities.NOFOLLOW | abilities.CLOEXEC


def trusted(path: Path, mend: str, owners: Collection[int] = ()) -> Path:
    """The real path of what root is about to run or to read; checks that only root can change it.

    The check covers the file, all folders above it, and not the links on the way: use the path that is returned.
    Of a path that does not exist yet, the folders that do are checked. For other users than root nothing is checked.

    Args:
        path: a program, a library, or a folder of such.
        mend: what to do about it, the end of the error's sentence; ``{part}`` stands for what somebody else can change.
        owners: user ids that may change it too.

    Raises:
        RunError: names the part that somebody else can change, and who.
    """
    if not abilities.is_root():
        return path
    real = path.resolve()
    _check([*reversed(real.parents)], path, mend, owners, above=True)
    _check([real], path, mend, owners)
    return real


def _check(parts: Sequence[Path], path: Path, mend: str, owners: Collection[int] = (), *, above: bool = False) -> None:
    for part in parts:
        try:
            found = part.lstat()
        except FileNotFoundError:
            return
        if (who := _others(found, owners, above=above)) is not None:
            raise RunError(f"{path} is not used as root, because {who} can change {part}; {mend.format(part=part)}.")


def _others(found: os.stat_result, owners: Collection[int], *, above: bool) -> str | None:
    """Who, other than root and ``owners``, can change a file, or what is in a folder ``above`` one that was checked."""
    if found.st_uid not in (0, *owners) and not (found.st_uid == _UNMAPPED and not is_mapped(_UNMAPPED)):
        return user(found.st_uid)
    if stat.S_ISLNK(found.st_mode):
        return "somebody who made a link of it just now"
    if above and stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
        # As /tmp: nobody renames or removes what belongs to another.
        return None
    if found.st_mode & stat.S_IWOTH:
        return "every user"
    if found.st_mode & stat.S_IWGRP and found.st_gid != 0 and not _of_one(found):
        return f"the group {_group(found.st_gid)}"
    return None


def _of_one(found: os.stat_result) -> bool:
    """Whether a file's group has its owner as only member, as the groups that adduser makes."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    return owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name and not group.gr_mem


def user(uid: int) -> str:
    """A user, for a sentence."""
    import pwd

    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


@contextmanager
def private(folder: Path, *, make: int | None = None, anywhere: bool = False) -> Iterator[int]:
    """Yields a descriptor of a folder of this user's own, in which nobody else can change names.

    No link is followed at its name, and the folders above it are checked as :func:`trusted` does.

    Args:
        folder: it.
        make: the mode with which it is made if it does not exist.
        anywhere: whether the folders above it may be somebody else's. Then only the descriptor leads to this folder;
            another one may get its name.

    Raises:
        RunError: it is somebody else's, or no folder.
        FileNotFoundError: it does not exist.
    """
    if abilities.is_root() and not anywhere:
        around = folder.parent.resolve()
        _check([*reversed(around.parents), around], folder, "remove {part}", above=True)
    if make is not None:
        with suppress(FileExistsError):
            folder.mkdir(mode=make)
    try:
        handle = os.open(folder, _FOLDER)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise RunError(
            f"{folder} is a link or a file, and knee expects a folder of its own there; remove it."
        ) from None
    try:
        found = os.fstat(handle)
        who = (
            user(found.st_uid) if found.st_uid != abilities.user_id() else _others(found, (found.st_uid,), above=False)
        )
        if who is not None:
            raise RunError(f"{folder} is not used, because {who} can change it; remove {folder}.")
        yield handle
    finally:
        os.close(handle)


def remove(folder: Path, name: str, known: Iterable[str]) -> None:
    """Removes the files ``known`` of a subfolder of a :func:`private` folder, and then the subfolder.

    Raises:
        RunError: the subfolder is a link, somebody else's, or has other files, which stay.
    """
    with suppress(FileNotFoundError), private(folder) as around:
        with private(folder / name) as inside:
            for file in known:
                with suppress(FileNotFoundError):
                    os.unlink(file, dir_fd=inside)
            with os.scandir(inside) as entries:
                left = sorted(entry.name for entry in entries)
        if left:
            raise RunError(f"{folder / name} has files that knee did not put there ({', '.join(left)}); remove them.")
        os.rmdir(name, dir_fd=around)


def folders(folder: Path) -> list[str]:
    """The names of the subfolders of a :func:`private` folder, without links to some; none if it does not exist."""
    with suppress(FileNotFoundError), private(folder) as here, os.scandir(here) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return []
