"""``python -m knee``, and the program ``knee``."""

from __future__ import annotations

import gc


def main() -> None:
    """Runs the command line."""
    # While modules are imported nothing becomes garbage, but Python would look for it hundreds of times: a fifth of the
    # time that a short command takes.
    gc.set_threshold(100_000, 20, 20)
    from knee.cli import entry

    entry()


if __name__ == "__main__":
    main()
