"""Result folders: written whole or not at all, replaced only where they are results."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from knee.errors import FolderError
from knee.manifest import PROGRAM


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


@contextmanager
def writing(target: Path) -> Iterator[Path]:
    """Gives a folder beside ``target`` to write into, which takes its place at the end; on any error, nothing is left.

    Raises:
        FolderError: where ``target`` is taken by something else or cannot be made; before anything is yielded.
    """
    target = Path(os.path.abspath(target))  # noqa: PTH100 - resolve() would follow a link that is to be replaced
    check_target(target)
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")
    new_parents = [parent for parent in partial.parents if not parent.exists()]
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise FolderError(
            f"The result folder {target} cannot be made ({error.strerror}); name another with --out."
        ) from None
    try:
        yield partial
        _swap_in(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in new_parents:
            with contextlib.suppress(OSError):
                parent.rmdir()
        raise


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
