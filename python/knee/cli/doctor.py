"""``knee doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from knee.cli import options
from knee.cli.console import out, write_json
from knee.cli.options import option
from knee.cli.tables import table
from knee.errors import RunError

if TYPE_CHECKING:
    from knee.grounds import Ground


def doctor(
    clean: Annotated[
        bool,
        option(options.RUNNING, "--clean", help="Remove what killed runs and killed loads left behind; needs root."),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show which grounds work here, and how to fix the others."""
    from knee import grounds
    from knee.kernel import bpf
    from knee.results import owned

    if clean:
        removed = [*owned.sweep(), *(f"loading {name}" for name in bpf.sweep())]
        if as_json:
            write_json({"removed": removed})
        else:
            out().print(f"Removed the remains of {', '.join(removed)}." if removed else "There is nothing to remove.")
        return
    tried = {name: _try(ground) for name, ground in grounds.GROUNDS.items()}
    if as_json:
        write_json([{"ground": name, "works": works, "remark": remark} for name, (works, remark) in tried.items()])
    else:
        rows = table("Grounds", ["ground", "works", "remark"], text=3)
        for name, (works, remark) in tried.items():
            rows.add_row(name, "yes" if works else "no", remark)
        out().print(rows)
    if not tried["sim"][0]:
        raise typer.Exit(1)


def _try(ground: Ground) -> tuple[bool, str]:
    """Whether a ground works, and the lines to print about it."""
    missing = ground.missing()
    if missing:
        return False, "; ".join(map(str, missing))
    try:
        return True, ground.trial()
    except RunError as error:
        return False, str(error)
