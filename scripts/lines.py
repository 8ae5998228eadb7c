"""Counts the lines of the Python package by room and by purpose: python scripts/lines.py [FOLDER]."""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1] / "python" / "knee"
_PURPOSES = ("code", "signatures", "docstrings", "comments", "imports", "blank")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def purposes(text: str) -> list[str]:
    """The purpose of each line of a module."""
    lines = [line.strip() for line in text.splitlines()]
    found = ["blank" if not line else "comments" if line.startswith("#") else "code" for line in lines]

    def mark(purpose: str, first: int, last: int) -> None:
        for i in range(first - 1, last):
            # Docstrings and imports may have blank lines, signatures no docstrings.
            found[i] = purpose if purpose != "signatures" or found[i] == "code" else found[i]

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            mark("docstrings", node.body[0].lineno, node.body[0].end_lineno or 0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            mark("imports", node.lineno, node.end_lineno or 0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            mark("signatures", node.lineno, node.body[0].lineno - 1)
    return found


def _main() -> None:
    package = Path(sys.argv[1]) if len(sys.argv) > 1 else _PACKAGE
    rooms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for file in sorted(package.rglob("*.py")):
        rooms[file.relative_to(package).parts[0]].update(purposes(file.read_text(encoding="utf-8")))
    rooms["all"] = sum((Counter(counts) for counts in rooms.values()), Counter())
    print(f"{'room':12}{'lines':>8}" + "".join(f"{purpose:>12}" for purpose in _PURPOSES))
    for room, counts in sorted(rooms.items(), key=lambda each: each[1].total()):
        print(f"{room:12}{counts.total():8}" + "".join(f"{counts[purpose]:12}" for purpose in _PURPOSES))


if __name__ == "__main__":
    _main()
