"""Result folders: written whole or not at all, replaced only where they are results."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from knee.errors import FolderError
from knee.sudo import give_to_caller

#: The format of result folders, and what their manifests call the program.
FORMAT = 1
PROGRAM = "knee"
#: What :func:`partial` gives; the target's name is in it.
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{8}\.partial")


def is_result(folder: Path) -> bool:
    """Whether ``folder`` holds a result of this program."""
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("program") == PROGRAM and isinstance(manifest.get("format"), int)


def check_target(target: Path) -> None:
    """Refuses a place that a result cannot take."""
    if target.exists() and not is_result(target):
        what = "folder" if target.is_dir() else "file"
        found = f"{target} is a {what} that is not a knee result, so it is not replaced"
        raise FolderError(f"{found}; name another folder with --out, or remove it.")


def partial(target: Path) -> Path:
    """A new name beside ``target`` for what is not whole yet."""
    target = _absolute(target)
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")


def clear(partial: Path) -> None:
    """Removes what a killed process left of a folder that it was writing; what was to be replaced comes back.

    Nothing else: it has to have a name as :func:`partial` gives.
    """
    named = _PARTIAL.fullmatch(partial.name)
    if named is None or not partial.is_absolute():
        return
    old, target = partial.with_suffix(".old"), partial.with_name(named[1])
    if is_result(old) and not target.exists():
        old.rename(target)
    for left in (partial, old):
        if left.is_dir() and not left.is_symlink():
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
    """
    target = _absolute(target)
    check_target(target)
    folder = into or partial(target)
    new_parents = [parent for parent in folder.parents if not parent.exists()]
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise FolderError(
            f"The result folder {target} cannot be made ({error.strerror}); name another with --out."
        ) from None
    try:
        yield folder
        give_to_caller(folder, new_parents)
        _swap_in(folder, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        for parent in new_parents:
            with contextlib.suppress(OSError):
                parent.rmdir()
        raise


def _absolute(target: Path) -> Path:
    return Path(os.path.abspath(target))  # noqa: PTH100 - resolve() would follow a link that is to be replaced


def _swap_in(partial: Path, target: Path) -> None:
    # Somebody may have put something there during the run.
    check_target(target)
    if not target.exists():
        partial.rename(target)
        return
    old = partial.with_suffix(".old")
    target.rename(old)
    try:
        partial.rename(target)
    except BaseException:
        old.rename(target)
        raise
    # A link to a folder is replaced, what it points to stays.
    if old.is_symlink():
        old.unlink()
    else:
        shutil.rmtree(old)
