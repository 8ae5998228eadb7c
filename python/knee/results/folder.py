"""Result folders: written completely or not at all, and replaced only if knee wrote everything in them.

A run fills a folder ``.NAME.XXXXXXXX.partial`` and keeps it locked. At the end the digest of each file goes into
``manifest.json``, and the folder is renamed. If it replaces a result, the two names are exchanged in one step, so at
every moment one complete result is there, old or new. On file systems that cannot exchange names, the old one is called
``.NAME.XXXXXXXX.old`` for a moment; :func:`recover` restores it if the process was killed just then.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knee.errors import FolderError
from knee.system import abilities, files
from knee.system.files import partial as partial  # the name of a folder that is being written
from knee.system.rights import give_to_caller

PROGRAM = "knee"
MANIFEST = "manifest.json"
FRAMES = ("samples", "links", "events")
#: Tables that a result has if they have rows.
EXTRA = ("completions", "delays", "distributions")
#: The files from which a result is loaded, but for :data:`EXTRA`; the others are for people.
DATA = ("summary.json", "scenario.toml", *(f"{name}.parquet" for name in FRAMES))
#: Largest manifest that is read, bytes; real ones have a few kB.
MAX_MANIFEST = 16 << 20

#: A name made by :func:`partial`; it contains the target's name.
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{8}\.partial", re.DOTALL)
#: Longest folder name that spells out changes; a digest replaces longer ones.
_LONGEST_CHANGES = 60
_FOREIGN, _CHANGED, MISSING = "was not written by knee", "was changed since knee wrote it", "is missing"
#: Spaces do not matter in quantities, but they do in keys whose value is free text.
_QUANTITY = re.compile(r"[0-9.]+ ?[A-Za-z]+(/s)?")
_WORDS = {"name", "title", "label"}
#: How many names a refusal lists.
_LISTED = 3


def manifest_of(folder: Path) -> dict[str, Any] | None:
    """The manifest of a knee result; None if ``folder`` is not one."""
    path = folder / MANIFEST
    if not path.is_file():
        # A pipe would be waited for.
        return None
    try:
        manifest = json.loads(files.read(path, MAX_MANIFEST))
    except (OSError, ValueError, RecursionError):
        return None
    known = isinstance(manifest, dict) and manifest.get("program") == PROGRAM
    return manifest if known and type(manifest.get("format")) is int else None


def what_is(path: Path) -> str:
    """What is at a path that was given for a knee folder and is none that fits, for an error message."""
    found = {"manifest.json": "damaged result", "search.json": "search", "sweep.json": "sweep"}
    if not os.path.lexists(path):
        return "does not exist"
    if not path.is_dir():
        return "is a file, not a folder" if path.is_file() else "is not a folder"
    what = next((what for name, what in found.items() if os.path.lexists(path / name)), None)
    return "is a folder that knee did not write" if what is None else f"is the folder of a {what}"


def check_result(folder: Path) -> dict[str, Any]:
    """The manifest of a result.

    Raises:
        FolderError: ``folder`` is not a result; names what it is.
    """
    manifest = manifest_of(folder)
    if manifest is None:
        found = f"{folder} is not a knee result: it {what_is(folder)}"
        raise FolderError(f"{found}; expected a folder written by knee run.")
    return manifest


def is_result(folder: Path) -> bool:
    """Whether ``folder`` is a knee result."""
    return manifest_of(folder) is not None


def seal(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Writes ``manifest.json``, with the size and digest of each file in ``folder`` and a digest of itself.

    It is written last, since it makes the folder a result.

    Raises:
        OSError: something cannot be written.
    """
    listed = {}
    for name in sorted(_inside(folder)):
        path = folder / name
        listed[name] = {"bytes": path.stat().st_size, "sha256": files.digest(path)}
    whole = {**manifest, "files": listed}
    whole |= {"sha256": _digest_of(whole)}
    text = json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    # File names on the command line may be in any encoding; JSON has escapes for them.
    (folder / MANIFEST).write_bytes(text.encode(errors="backslashreplace"))


def without_digests(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest without what :func:`seal` added."""
    return {key: value for key, value in manifest.items() if key not in ("files", "sha256")}


def problems(folder: Path, only: Collection[str] | None = None) -> dict[str, str]:
    """The files of a result folder that are missing, modified or not knee's, each path with what is wrong.

    Args:
        folder: a folder for which :func:`is_result` holds.
        only: the files to check; by default all.
    """
    manifest = manifest_of(folder) or {}
    listed = manifest.get("files")
    if not isinstance(listed, dict) or manifest.get("sha256") != _digest_of(manifest):
        return {MANIFEST: _CHANGED}
    found = {}
    for name in sorted(_inside(folder) - {MANIFEST} if only is None else only):
        what = listed.get(name)
        if not isinstance(what, dict):
            found[name] = _FOREIGN
        elif (trouble := _trouble(folder / name, what)) is not None:
            found[name] = trouble
    return found


def _trouble(path: Path, what: dict[str, Any]) -> str | None:
    try:
        same = path.lstat().st_size == what.get("bytes") and files.digest(path) == what.get("sha256")
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None if same else _CHANGED


def _inside(folder: Path) -> set[str]:
    """Everything in a folder and its subfolders, by relative path, including links and empty folders."""
    found: set[str] = set()
    for here, below, names in os.walk(folder, followlinks=False):
        at = Path(here)
        empty = not below and not names and at != folder
        links = [name for name in below if (at / name).is_symlink()]
        found.update((at / name).relative_to(folder).as_posix() for name in [*names, *links])
        if empty:
            found.add(f"{at.relative_to(folder).as_posix()}/")
    return found


def _digest_of(manifest: dict[str, Any]) -> str:
    """The digest of a manifest without its own digest; the order of keys does not matter."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def check_target(target: Path) -> None:
    """Rejects a path to which a result cannot be written.

    Raises:
        FolderError: it is not a result, or contains files that knee did not write.
    """
    try:
        str(target).encode()
        target.lstat()
    except FileNotFoundError:
        return
    except UnicodeEncodeError:
        raise FolderError(f"The name {target} is not UTF-8; name another result folder with --out.") from None
    except (OSError, ValueError) as error:
        raise _cannot_be_made(target, error) from None
    if target.is_symlink() and not target.exists():
        raise FolderError(f"{target} is a broken link; name another folder with --out.")
    if not is_result(target):
        what = "folder" if target.is_dir() else "file"
        found = f"{target} is a {what} that is not a knee result, so it is not replaced"
        raise FolderError(f"{found}; name another folder with --out, or remove it.")
    foreign = _foreign(target)
    if foreign:
        found = f"{target} is not replaced, because in it {listed(foreign)}"
        raise FolderError(f"{found}; move it elsewhere, or name another folder with --out.")


def listed(found: Mapping[str, str]) -> str:
    """The first of some names, each with what is wrong with it, and how many more there are."""
    named = [f"{name} {what}" for name, what in list(found.items())[:_LISTED]]
    return ", ".join(named) + (f", and {len(found) - _LISTED} more" if len(found) > _LISTED else "")


def _foreign(folder: Path) -> dict[str, str]:
    """Files that knee did not write. If another run replaces the folder meanwhile, the new one is checked."""
    while True:
        before = manifest_of(folder)
        foreign = {name: what for name, what in problems(folder).items() if what != MISSING}
        if not foreign or before == manifest_of(folder):
            return foreign


def _cannot_be_made(target: Path, error: OSError | ValueError) -> FolderError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return FolderError(f"The result folder {target} cannot be made ({reason}); name another with --out.")


def default(name: str, changes: Sequence[str] = ()) -> str:
    """The default name of a result folder, with the changes made by ``--set``: ``hello+flows.0.cc=reno``.

    The same changes give the same name, and different ones different names.
    """
    given = [change.partition("=") for change in changes]
    slugs = [_slug(key.strip(), value.strip()) for key, _, value in given]
    suffix = "".join(f"+{slug}" for slug, _ in slugs)
    if len(suffix) <= _LONGEST_CHANGES and all(exact for _, exact in slugs):
        return name + suffix
    whole = "\0".join(f"{key.strip()}={value.strip()}" for key, _, value in given)
    digest = hashlib.sha256(whole.encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{name}{suffix[:_LONGEST_CHANGES]}+{digest}"


def _slug(key: str, value: str) -> tuple[str, bool]:
    """A change as part of a folder's name, and whether it is unambiguous."""
    if key.rpartition(".")[2] not in _WORDS and _QUANTITY.fullmatch(value):
        value = value.replace(" ", "").replace("bit/s", "bps")
    text = f"{key}={value}"
    slug = re.sub(r"[^A-Za-z0-9._=-]+", "-", text)
    return slug, slug == text


def recover(target: Path) -> None:
    """Removes what killed runs left of folders for ``target``, and restores a result that they were replacing.

    Folders that a running process holds locked stay, and so do those of other users.
    """
    target = files.absolute(target)
    with contextlib.suppress(OSError):
        for left in list(target.parent.iterdir()):
            folder = left.with_suffix(".partial") if left.suffix == ".old" else left
            named = _PARTIAL.fullmatch(folder.name)
            if named is not None and named[1] == target.name:
                clear(folder)


def clear(partial: Path) -> None:
    """Removes a folder that a killed process was writing, and restores the result that it was replacing.

    Only if its name is one of :func:`partial`'s, it belongs to this user, and no process holds its lock.
    """
    named = _PARTIAL.fullmatch(partial.name)
    if named is None or not partial.is_absolute():
        return
    old, target = partial.with_suffix(".old"), partial.with_name(named[1])
    with files.held(partial) as ours:
        if not ours and os.path.lexists(partial):
            return
        if is_result(old) and not os.path.lexists(target):
            old.rename(target)
        for left in (partial, old):
            if left.is_dir() and not left.is_symlink() and left.stat().st_uid == abilities.user_id():
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def writing(target: Path, into: Path | None = None) -> Iterator[Path]:
    """Yields a folder to write to, which replaces ``target`` at the end; on any error it is removed.

    A result written under ``sudo`` belongs to the user who called it.

    Args:
        target: the result folder.
        into: the folder to create, with a name made by :func:`partial`.

    Raises:
        FolderError: ``target`` is something else or cannot be created; raised before anything is yielded.
        RunError: writing failed, as on a full disk.
    """
    target = files.absolute(target)
    recover(target)
    check_target(target)
    with _made(target, into) as (folder, new_parents):
        try:
            yield folder
            try:
                give_to_caller(folder, new_parents)
                _swap_in(folder, target)
            except OSError as error:
                raise files.unwritable(target, error, f"The result folder {target}") from None
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            _remove_empty(new_parents)
            raise


@contextmanager
def _made(target: Path, into: Path | None) -> Iterator[tuple[Path, list[Path]]]:
    """Creates the folder to write to and locks it; yields it and the parent folders that are new."""
    while True:
        folder = into or partial(target)
        new_parents = []
        try:
            new_parents = [parent for parent in folder.parents if not parent.exists()]
            folder.mkdir(parents=True)
        except OSError as error:
            _remove_empty(new_parents)
            raise _cannot_be_made(target, error) from None
        # Some network file systems have no locks. Then no run gets one, and nothing counts as a dead run's.
        with files.held(folder, wait=True) as locked:
            if locked or folder.exists():
                yield folder, new_parents
                return
        # Another run's recovery found it before it was locked, and removed it.


def _remove_empty(parents: Sequence[Path]) -> None:
    for parent in parents:
        with contextlib.suppress(OSError):
            parent.rmdir()


def _swap_in(partial: Path, target: Path) -> None:
    # Something may have been put there during the run.
    check_target(target)
    if not target.exists():
        partial.rename(target)
        return
    # The new result is on disk before the old one is removed, so a power cut cannot destroy both.
    for name in _inside(partial):
        if not (partial / name).is_symlink():
            files.sync(partial / name)
    files.sync(partial)
    if files.exchange(partial, target):
        _discard(partial)
    else:
        old = partial.with_suffix(".old")
        target.rename(old)
        try:
            partial.rename(target)
        except BaseException:
            old.rename(target)
            raise
        _discard(old)


def _discard(old: Path) -> None:
    """Removes the replaced result. If it was a link, only the link is removed.

    The new result is in place; the next run to the same path removes what cannot be removed now.
    """
    with contextlib.suppress(OSError):
        if old.is_symlink():
            old.unlink()
        else:
            shutil.rmtree(old, ignore_errors=True)
