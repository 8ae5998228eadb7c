"""Result folders: written whole or not at all, replaced only where all in them is what knee wrote.

A folder is filled under a name of its own, ``.NAME.XXXXXXXX.partial``, which its process keeps locked. In the end each
file's digest goes into ``manifest.json`` and the folder takes its place: by one exchange of names where something is
there, so that at every moment the old result or the new one is there, whole. Where a file system cannot exchange names,
the old one is ``.NAME.XXXXXXXX.old`` for a moment; :func:`recover` puts it back if the process was killed just then.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knee import files
from knee.errors import FolderError
from knee.files import partial as partial  # the name of a folder that is being written
from knee.sudo import give_to_caller

PROGRAM = "knee"
FORMAT = 1
MANIFEST = "manifest.json"
FRAMES = ("samples", "links", "events")
#: What a result is loaded from; the rest is for people.
DATA = ("summary.json", "scenario.toml", *(f"{name}.parquet" for name in FRAMES))
#: A manifest is a few kB; one of this many bytes is something else.
MAX_MANIFEST = 16 << 20

#: What :func:`partial` gives; the target's name is in it.
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{8}\.partial", re.DOTALL)
#: What versions wrote that kept no digests.
_WITHOUT_DIGESTS = re.compile(
    r"scenario\.toml|summary\.json|manifest\.json|(samples|links|events)\.parquet|report\.html|packets\.pcapng|"
    r"figures/[a-z_]+\.png"
)
#: Names of changed keys make a folder's name at most that long; beyond that, a digest stands for them.
_LONGEST_CHANGES = 60
_FOREIGN, _CHANGED, _MISSING = "was not written by knee", "was changed since knee wrote it", "is missing"
#: A quantity says the same with and without a space; keys whose value is any text do not.
_QUANTITY = re.compile(r"[0-9.]+ ?[A-Za-z]+(/s)?")
_WORDS = {"name", "title", "label"}
#: How many names a refusal lists.
_LISTED = 3


def manifest_of(folder: Path) -> dict[str, Any] | None:
    """The manifest of a result of this program; None where ``folder`` holds none."""
    try:
        manifest = json.loads(files.read(folder / MANIFEST, MAX_MANIFEST))
    except (OSError, ValueError, RecursionError):
        return None
    known = isinstance(manifest, dict) and manifest.get("program") == PROGRAM
    return manifest if known and type(manifest.get("format")) is int else None


def is_result(folder: Path) -> bool:
    """Whether ``folder`` holds a result of this program."""
    return manifest_of(folder) is not None


def seal(folder: Path, manifest: dict[str, Any]) -> None:
    """Writes ``manifest.json``, with the size and the digest of each file in ``folder`` and of itself.

    Last of all: the manifest is what makes a folder a result.

    Raises:
        OSError: something cannot be written.
    """
    listed = {}
    for name in sorted(_inside(folder)):
        path = folder / name
        listed[name] = {"bytes": path.stat().st_size, "sha256": files.digest(path)}
    whole = manifest | {"files": listed}
    whole |= {"sha256": _digest_of(whole)}
    text = json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    # The command line may have names of files in any encoding; JSON has escapes for them.
    (folder / MANIFEST).write_bytes(text.encode(errors="backslashreplace"))


def sealed(manifest: dict[str, Any]) -> bool:
    """Whether a manifest has digests; those of earlier versions had none."""
    return "files" in manifest or "sha256" in manifest


def without_digests(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest as it was before :func:`seal`."""
    return {key: value for key, value in manifest.items() if key not in ("files", "sha256")}


def problems(folder: Path, only: Collection[str] | None = None) -> dict[str, str]:
    """What is not as knee wrote it in a result folder, by path: missing, changed, or not knee's at all.

    Args:
        folder: a folder for which :func:`is_result` holds.
        only: the files to look at; by default all that there are.
    """
    manifest = manifest_of(folder) or {}
    listed = manifest.get("files")
    if not sealed(manifest):
        foreign = [name for name in sorted(_inside(folder)) if not _WITHOUT_DIGESTS.fullmatch(name)]
        return dict.fromkeys(foreign if only is None else (), _FOREIGN)
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
        return _MISSING
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None if same else _CHANGED


def _inside(folder: Path) -> set[str]:
    """All that is in a folder and in those below it, by relative path; links and empty folders too."""
    found: set[str] = set()
    for here, below, names in os.walk(folder, followlinks=False):
        at = Path(here)
        empty = not below and not names and at != folder
        links = [name for name in below if (at / name).is_symlink()]
        found.update(str((at / name).relative_to(folder)) for name in [*names, *links])
        if empty:
            found.add(f"{at.relative_to(folder)}/")
    return found


def _digest_of(manifest: dict[str, Any]) -> str:
    """The digest of a manifest but for the digest itself, whatever the order of its keys."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def check_target(target: Path) -> None:
    """Refuses a place that a result cannot take.

    Raises:
        FolderError: something is there that is not a result, or holds what knee did not write.
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
        told = [f"{name} {what}" for name, what in list(foreign.items())[:_LISTED]]
        more = f", and {len(foreign) - _LISTED} more" if len(foreign) > _LISTED else ""
        found = f"{target} is not replaced, because in it {', '.join(told)}{more}"
        raise FolderError(f"{found}; move it elsewhere, or name another folder with --out.")


def _foreign(folder: Path) -> dict[str, str]:
    """What knee did not write, by path. If another run replaces the folder meanwhile, the new one is checked."""
    while True:
        before = manifest_of(folder)
        foreign = {name: what for name, what in problems(folder).items() if what != _MISSING}
        if not foreign or before == manifest_of(folder):
            return foreign


def _cannot_be_made(target: Path, error: OSError | ValueError) -> FolderError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return FolderError(f"The result folder {target} cannot be made ({reason}); name another with --out.")


def default(name: str, changes: Sequence[str] = ()) -> str:
    """The name of a result's folder: the scenario's and what ``--set`` changed, as ``hello+flows.0.cc=reno``.

    The same changes always give the same name, and others another.
    """
    given = [change.partition("=") for change in changes]
    slugs = [_slug(key.strip(), value.strip()) for key, _, value in given]
    told = "".join(f"+{slug}" for slug, _ in slugs)
    if len(told) <= _LONGEST_CHANGES and all(exact for _, exact in slugs):
        return name + told
    whole = "\0".join(f"{key.strip()}={value.strip()}" for key, _, value in given)
    digest = hashlib.sha256(whole.encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{name}{told[:_LONGEST_CHANGES]}+{digest}"


def _slug(key: str, value: str) -> tuple[str, bool]:
    """A change as part of a folder's name, and whether no other change looks the same."""
    if key.rpartition(".")[2] not in _WORDS and _QUANTITY.fullmatch(value):
        value = value.replace(" ", "").replace("bit/s", "bps")
    text = f"{key}={value}"
    slug = re.sub(r"[^A-Za-z0-9._=-]+", "-", text)
    return slug, slug == text


def recover(target: Path) -> None:
    """Removes what killed runs left of folders that were to become ``target``; what was to be replaced comes back.

    What a living process is writing has a lock and stays; so does what is somebody else's.
    """
    target = files.absolute(target)
    with contextlib.suppress(OSError):
        for left in list(target.parent.iterdir()):
            folder = left.with_suffix(".partial") if left.suffix == ".old" else left
            named = _PARTIAL.fullmatch(folder.name)
            if named is not None and named[1] == target.name:
                clear(folder)


def clear(partial: Path) -> None:
    """Removes what a killed process left of a folder that it was writing; what was to be replaced comes back.

    Nothing else: it has to have a name as :func:`partial` gives, be of this user, and no process may hold its lock.
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
            if left.is_dir() and not left.is_symlink() and left.stat().st_uid == os.geteuid():
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def writing(target: Path, into: Path | None = None) -> Iterator[Path]:
    """Gives a folder beside ``target`` to write into, which takes its place at the end; on any error, nothing is left.

    What root writes behind ``sudo`` belongs to the person who calls it.

    Args:
        target: the place.
        into: the folder to make, as :func:`partial` names one.

    Raises:
        FolderError: where ``target`` is taken by something else or cannot be made; before anything is yielded.
        RunError: where writing fails, as on a full disk.
    """
    target = files.absolute(target)
    recover(target)
    check_target(target)
    with _made(target, into) as (folder, new_parents):
        try:
            yield folder
            _finish(folder, target, new_parents)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            _remove_empty(new_parents)
            raise


@contextmanager
def _made(target: Path, into: Path | None) -> Iterator[tuple[Path, list[Path]]]:
    """Makes the folder to write into and holds its lock; gives it, and which folders above it are new."""
    while True:
        folder = into or partial(target)
        new_parents = []
        try:
            new_parents = [parent for parent in folder.parents if not parent.exists()]
            folder.mkdir(parents=True)
        except OSError as error:
            _remove_empty(new_parents)
            raise _cannot_be_made(target, error) from None
        # Some network file systems have no locks: then nobody gets one, and nothing is taken for a dead run's.
        with files.held(folder, wait=True) as locked:
            if locked or folder.exists():
                yield folder, new_parents
                return
        # Another run's recovery saw it before it had its lock, and removed it.


def _finish(folder: Path, target: Path, new_parents: Sequence[Path]) -> None:
    try:
        give_to_caller(folder, new_parents)
        _swap_in(folder, target)
    except OSError as error:
        raise files.unwritable(target, error, f"The result folder {target}") from None


def _remove_empty(parents: Sequence[Path]) -> None:
    for parent in parents:
        with contextlib.suppress(OSError):
            parent.rmdir()


def _swap_in(partial: Path, target: Path) -> None:
    # Somebody may have put something there during the run.
    check_target(target)
    if not target.exists():
        partial.rename(target)
        return
    # All of the new one is on the disk before the old one goes, so that not even a power cut takes both.
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
    """Removes a result that was replaced; a link to one is replaced itself, and what it points to stays.

    The new one is in place: what cannot be removed now, the next run into that place removes.
    """
    with contextlib.suppress(OSError):
        if old.is_symlink():
            old.unlink()
        else:
            shutil.rmtree(old, ignore_errors=True)
