"""The sweeps and searches shipped with the program, by name."""

from __future__ import annotations

from pathlib import Path


def _files(kind: str) -> dict[str, Path]:
    folder = Path(__file__).parent / kind / "shipped"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


SWEEPS, SEARCHES = _files("sweeps"), _files("searches")
