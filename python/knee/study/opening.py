""":func:`knee.open`: whatever a folder holds that knee wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from knee.errors import FolderError

if TYPE_CHECKING:
    from knee.results.result import Result
    from knee.study.searches import Search
    from knee.study.sweeps import Sweep


def open(folder: str | Path) -> Result | Sweep | Search:  # noqa: A001 - as knee.open
    """The result, the sweep (also that of a matrix) or the search in a folder.

    Args:
        folder: a folder that ``knee run``, ``sweep``, ``matrix`` or ``search`` wrote.

    Raises:
        FolderError: it holds none, or one that is damaged or of a newer format.
    """
    folder = Path(folder)
    if (folder / "manifest.json").is_file():
        from knee.results.result import Result

        return Result.load(folder)
    if (folder / "search.json").is_file():
        from knee.study.searches import open_search

        return open_search(folder)
    if (folder / "sweep.json").is_file():
        from knee.study.sweeps import open_sweep

        return open_sweep(folder)
    raise nothing(folder)


def nothing(folder: Path) -> FolderError:
    """The error for a path that is no folder of a result, sweep or search."""
    what = "holds no result, sweep or search" if folder.is_dir() else "is no folder"
    return FolderError(f"{folder} {what}; expected a folder that knee run, sweep, matrix or search wrote.")
