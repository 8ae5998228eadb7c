"""Options that several commands share: ``knee run``, ``knee sweep``, ``knee matrix`` and ``knee search``."""

from __future__ import annotations

from typing import Annotated

import typer

Jobs = Annotated[
    int | None, typer.Option("--jobs", metavar="N", min=1, help="Number of parallel runs; default: one per core.")
]
Dask = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Run on a Dask cluster: its scheduler, tcp://HOST:8786.")
]
Derive = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=EXPRESSION", help="Derive a key: link.limit='2 * link.rate * flows.0.rtt'."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check, and print the number of runs, packets and hours.")]
Again = Annotated[bool, typer.Option("--again", help="Start anew and drop the runs in DIR.")]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help='Run Python files that the scenario names: cc = "mine.py:Mine".')
]
