"""``knee doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from knee.cli.console import out
from knee.cli.tables import table
from knee.errors import RunError

if TYPE_CHECKING:
    from knee.grounds import Ground


def doctor(
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove what killed runs and killed loads left behind; needs root.")
    ] = False,
) -> None:
    """Show which grounds work here, and how to fix the others."""
    from knee import grounds
    from knee.kernel import bpf
    from knee.results import owned

    if clean:
        removed = [*owned.sweep(), *(f"loading {name}" for name in bpf.sweep())]
        out().print(f"Removed the remains of {', '.join(removed)}." if removed else "There is nothing to remove.")
        return
    rows = table("Grounds", ["ground", "works", "remark"], text=3)
    works = {}
    for name, ground in grounds.GROUNDS.items():
        works[name], remark = _try(ground)
        rows.add_row(name, "yes" if works[name] else "no", remark)
    out().print(rows)
    if not works["sim"]:
        raise typer.Exit(1)


def _try(ground: Ground) -> tuple[bool, str]:
    """Whether a ground works, and the lines to print about it."""
    missing = ground.missing()
    if missing:
        return False, "; ".join(f"{part.what}: {part.mend}" for part in missing)
    try:
        return True, ground.trial()
    except RunError as error:
        return False, str(error)
