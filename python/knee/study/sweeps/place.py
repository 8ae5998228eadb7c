"""The folder of a sweep, a matrix or a search: what may be in it, and how it is claimed, emptied and put aside."""

from __future__ import annotations

import json
import os
import re
from contextlib import ExitStack
from pathlib import Path

from knee.errors import FolderError
from knee.results import tree
from knee.results.tree import FILE, RESULT, Layout
from knee.system import files
from knee.system.rights import make_folder
from knee.system.text import JsonTable

#: The file that identifies the folder of a sweep.
MARK = "sweep.json"
#: The file that identifies a search, whose runs are a sweep too.
SEARCH = "search.json"
#: The data set, and while it is replaced by one with other numbers the new and the old one.
DATA, NEW, OLD = "data", ".data.new", ".data.old"
#: Folder of the runs' result folders, where those are wanted.
RUNS = "runs"
#: Folder of data sets of other sweeps that were in the same place before.
BEFORE = "before"
#: The figures of runs of a search that are no trials: those of shrunk scenarios.
TRIED = "tried.json"
#: Folder of the scenarios that a search found.
FINDINGS = "findings"
#: The table and the page of a sweep, and of a search.
TABLE, PAGE = "sweep.parquet", "sweep.html"
SEARCH_TABLE, SEARCH_PAGE = "search.parquet", "search.html"
#: Files that plots of a sweep may have, and those that they may not.
FIGURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.(pdf|svg|png|html)")
TAKEN = (PAGE, SEARCH_PAGE, "matrix.html", "matrix.png")
#: The tables of a data set, and the name of a part.
TABLES = ("runs", "flows", "links", "samples", "link_samples", "events")
PART = r"part-[0-9]{6,12}\.parquet"

_DATA: Layout = {f"({'|'.join(TABLES)})": {PART: FILE}}
_HERE: Layout = {
    r"(sweep|search|tried)\.json|(sweep|search|matrix)\.(parquet|html)|matrix\.png": FILE,
    DATA: _DATA,
    FINDINGS: {r".+-(finding|front)-[0-9]+\.toml": FILE},
}
#: What such a folder may have.
LAYOUT: Layout = {
    **_HERE,
    r"\.data\.(new|old)": _DATA,
    RUNS: {"[1-9][0-9]*": RESULT},
    BEFORE: {"[0-9]{3,}": _HERE},
}
#: The largest such file that is read: it has the samples of a sweep.
_MOST_MARK = 1 << 30


def read_mark(path: Path, version: int) -> JsonTable | None:
    """The content of a folder's mark ``path``, of this ``version`` of its format; None where there is no such file.

    Raises:
        FolderError: it cannot be read, or is of another version.
    """
    try:
        about = json.loads(files.read(path, _MOST_MARK))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FolderError(f"{path} cannot be read ({error}); name another folder with --out, or remove it.") from None
    if not isinstance(about, dict) or about.get("format") != version:
        found = f"{path} is of format {about.get('format') if isinstance(about, dict) else 'unknown'}"
        raise FolderError(f"{found}, and this version reads format {version}; name another folder, or remove it.")
    return about


def check_folder(out: Path, mark: str = MARK, by: str = "knee matrix or knee sweep") -> None:
    """Rejects a folder that contains something else than what ``by`` writes, which has the file ``mark``.

    Raises:
        FolderError: says what is there, or that the folder cannot be made.
    """
    # The runs of a search are a sweep too.
    of_a_search = mark != SEARCH and (out / SEARCH).is_file()
    tree.refuse_other(out, by, LAYOUT, begun=(out / mark).is_file() and not of_a_search)
    above = next(parent for parent in (out.absolute(), *out.absolute().parents) if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise FolderError(f"The folder {out} cannot be made in {above}; name another with --out.")


def prepared(out: Path, *, again: bool, stack: ExitStack) -> Path:
    """The folder, made and locked; without the data of earlier calls if ``again``.

    Raises:
        FolderError: it cannot be made, another process holds it, or it has files that knee did not write.
    """
    tree.make(out)
    if not stack.enter_context(files.held(out)):
        raise FolderError(f"Another process is writing to {out}; wait for it, or name another folder with --out.")
    tree.refuse_foreign(out, LAYOUT)
    if again:
        _check_runs(out)
        found = [f"{FINDINGS}/{name}" for name in written_findings(out)]
        tree.remove(out, (*found, DATA, RUNS, BEFORE, NEW, OLD, MARK, SEARCH, TRIED), LAYOUT)
    return out


def written_findings(out: Path) -> list[str]:
    """The names of the findings that a search has written into its folder; others there are somebody's own."""
    try:
        about = json.loads(files.read(out / SEARCH, _MOST_MARK))
        return [Path(each["file"]).name for each in about.get("findings", ())]
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return []


def _check_runs(out: Path) -> None:
    """Rejects result folders of runs that contain something that knee did not write, before they are dropped."""
    from knee.results.folder import check_target

    if (out / RUNS).is_dir():
        for folder in sorted((out / RUNS).iterdir()):
            if not folder.name.startswith("."):
                check_target(folder)


def next_aside(folder: Path) -> Path:
    """A new folder for the data of another sweep or search that was here."""
    numbers = [int(path.name) for path in (folder / BEFORE).glob("*") if path.name.isdigit()]
    aside = folder / BEFORE / f"{max(numbers, default=0) + 1:03}"
    make_folder(aside)
    return aside
