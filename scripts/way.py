"""Counts the files and functions that a command passes through: python scripts/way.py [--list] run hello.

It counts functions that run after their module is imported; lambdas and comprehensions have a count of their own.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

_PACKAGE = Path(__file__).resolve().parents[1] / "python" / "knee"


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(str(_PACKAGE)) and code.co_filename.endswith(".py")


def _is_imported(frame: FrameType | None) -> bool:
    """Whether a module of the package is being imported, which runs some functions."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and _is_ours(frame.f_code):
            return True
        frame = frame.f_back
    return False


def passed(arguments: list[str]) -> set[tuple[str, str, int]]:
    """The functions that a command passes through: file, name and first line of each."""
    from knee.cli import main

    seen: set[CodeType] = set()

    def look(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        # Bodies of classes and modules lack this flag.
        is_function = code.co_flags & inspect.CO_OPTIMIZED and _is_ours(code)
        if event == "call" and code not in seen and is_function and not _is_imported(frame.f_back):
            seen.add(code)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        main(arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {
        (Path(code.co_filename).relative_to(_PACKAGE).as_posix(), code.co_qualname, code.co_firstlineno)
        for code in seen
    }


def _main() -> None:
    arguments = [each for each in sys.argv[1:] if each != "--list"]
    with tempfile.TemporaryDirectory() as folder:
        found = sorted(passed([*arguments, "--out", f"{folder}/out"]))
    whole = [one for one in found if not one[1].endswith(">")]
    if "--list" in sys.argv:
        for file, name, line in found:
            print(f"{file}:{line} {name}")
    for file, count in sorted(Counter(file for file, _, _ in whole).items()):
        print(f"{file}: {count}")
    files = {file for file, _, _ in found}
    print(f"{len(files)} files, {len(whole)} functions, {len(found) - len(whole)} lambdas and comprehensions")


if __name__ == "__main__":
    _main()
