"""The folder of a command that judges runs: its file of verdicts, its pages, and below them the runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from knee import _core
from knee.results import tree
from knee.results.manifest import PROGRAM, commit
from knee.system import files


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
    begun = (out / mark).is_file() or (bool(below) and all((out / name).is_dir() for name in below))
    tree.refuse_other(out, by, layout, begun=begun)
    for folder in (out, *(out / name for name in below)):
        tree.make(folder)


def as_json(verdicts: dict[str, Any]) -> str:
    """The text of the file of verdicts."""
    return json.dumps(verdicts, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_verdicts(path: Path, verdicts: dict[str, Any]) -> None:
    """Writes the file of verdicts."""
    files.write(path, as_json(verdicts))
