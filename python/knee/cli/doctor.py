"""``knee doctor``."""

from __future__ import annotations

import typer

from knee.cli.console import out
from knee.cli.tables import table


def doctor() -> None:
    """Say which grounds work here, and what to do where one does not."""
    works, sim = _sim()
    rows = table("Grounds", ["ground", "works", "remark"], text=3)
    rows.add_row("sim", "yes" if works else "no", sim)
    rows.add_row("uml", "no", "not part of this version")
    rows.add_row("host", "no", "not part of this version")
    out().print(rows)
    if not works:
        raise typer.Exit(1)


def _sim() -> tuple[bool, str]:
    """Whether the simulator runs, tried on a tenth of a second of one flow."""
    try:
        from knee import _core, runner

        flow = {"cc": "reno", "rtt": "10 ms"}
        result = runner.run({"duration": "100 ms", "link": {"rate": "10 Mbit/s"}, "flows": [flow]})
    except ImportError as error:
        return False, f"the core does not load ({error}); build it with make setup"
    packets = result.summary["packets"]
    return packets > 0, f"core {_core.version()} simulates ({packets} packets in a trial); needs no privileges"
