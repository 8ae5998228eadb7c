"""``python -m knee``, and the program ``knee``."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Runs the command line."""
    if sys.getfilesystemencoding() != "utf-8" and hasattr(os, "execve"):
        # Files of knee are UTF-8, whatever the locale says: without this, arguments and names of files are not text.
        # The terminal keeps its own encoding.
        terminal = getattr(sys.stdout, "encoding", None) or "ascii"
        settings = {"PYTHONUTF8": "1", "PYTHONIOENCODING": os.environ.get("PYTHONIOENCODING", terminal)}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | settings)
    # Imports create no garbage, but Python would collect hundreds of times while they run: a fifth of the
    # time that a short command takes. All of it makes about 120,000 objects.
    gc.set_threshold(200_000, 20, 20)
    from knee.cli import entry

    try:
        entry()
    finally:
        # Else Python looks for cycles among the modules once more as it ends, for a seventh of that time.
        gc.freeze()


if __name__ == "__main__":
    main()
