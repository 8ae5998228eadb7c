"""The scenarios shipped with the program."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from knee.errors import ScenarioError
from knee.scenario.traces import exists
from knee.scenario.units import near, shown

PACKAGE = Path(__file__).resolve().parent.parent
FOLDER = PACKAGE / "scenarios"


@cache
def shipped() -> dict[str, Path]:
    """Shipped scenario files by name."""
    return {path.stem: path for path in sorted(FOLDER.rglob("*.toml"))}


def called(where: str) -> str:
    """What a page calls the file of a scenario, sweep or search: its name if it ships with knee, else its path."""
    path = Path(where)
    return path.stem if path.is_relative_to(PACKAGE) else where


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def find(source: str | Path) -> Path:
    """The file of ``source``, which is a path or the name of a shipped scenario."""
    path = Path(source)
    text = str(source)
    if exists(path):
        return path
    if text in shipped():
        return shipped()[text]
    # What looks like a path is treated as one, so that reading it gives the system's error.
    if isinstance(source, Path) or "/" in text or text.endswith(".toml") or _is_folder(path):
        return path
    raise ScenarioError(
        shown(text).strip('"'), "", "no file or shipped scenario has this name", near(text, list(shipped()))
    )
