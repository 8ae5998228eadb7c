"""The folder of a command that judges runs: its file of verdicts, its pages, and below them the runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from knee import _core
from knee.errors import FolderError
from knee.results import tree
from knee.results.manifest import PROGRAM, commit
from knee.system import files
from knee.system.sudo import make_folder


def program() -> dict[str, str | None]:
    """The program that judges, for the file of verdicts: ``program``, ``version``, ``commit``."""
    return {"program": PROGRAM, "version": _core.version(), "commit": commit()}


def claim(out: Path, mark: str, layout: tree.Layout, *below: str, by: str) -> None:
    """Creates or reuses a folder that the command ``by`` writes, and folders ``below`` it.

    It is one of the command's if it has the file ``mark`` or, since an interrupted command has runs and no verdict, all
    of the folders below.

    Raises:
        FolderError: it has something else, or cannot be made.
    """
    ours = (out / mark).is_file() or (below and all((out / name).is_dir() for name in below))
    if out.exists() and not ours and (not out.is_dir() or any(out.iterdir())):
        found = f"{out} was not written by {by}, so it is not replaced"
        raise FolderError(f"{found}; name another folder with --out, or remove it.")
    tree.refuse_foreign(out, layout)
    try:
        for folder in (out, *(out / name for name in below)):
            make_folder(folder)
    except OSError as error:
        raise FolderError(f"The folder {out} cannot be made ({error.strerror}); name another with --out.") from None


def as_json(verdicts: dict[str, Any]) -> str:
    """The text of the file of verdicts."""
    return json.dumps(verdicts, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_verdicts(path: Path, verdicts: dict[str, Any]) -> None:
    """Writes the file of verdicts."""
    files.write(path, as_json(verdicts))
