"""``knee shell``."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from knee.cli import complete, options, tables
from knee.cli.console import complain, out
from knee.cli.options import option
from knee.errors import InputError

#: How often the line changes, ns, and the share of late packets that it tells, %.
_EVERY_NS, _WORTH = 400_000_000, 0.1


def shell(
    context: typer.Context,
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="FILE-or-NAME",
            help="A scenario file, or a name from knee list scenarios.",
            autocompletion=complete.scenarios,
        ),
    ],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="The program, after --; default: your shell.")
    ] = None,
    changes: options.Set = None,
    instead_of: Annotated[
        str | None,
        option(
            options.INPUT,
            "--instead-of",
            metavar="LABEL",
            help="Put the program in the place of this flow; default: beside all, with the first one's path and RTT.",
        ),
    ] = None,
    server: Annotated[
        str | None,
        option(
            options.RUNNING,
            "--server",
            metavar="COMMAND",
            help="Run a server on the other side, such as 'iperf3 -s'; the program finds it at $KNEE_SERVER.",
        ),
    ] = None,
    sends: Annotated[
        bool,
        option(options.RUNNING, "--sends", help="Put the program where the data of forward flows come from."),
    ] = False,
    outside: Annotated[
        bool, option(options.RUNNING, "--outside/--no-outside", help="Lead outside by pasta, where it is installed.")
    ] = True,
    out_folder: Annotated[Path | None, options.out("The result folder.")] = None,
    report: Annotated[bool, option(options.OUTPUT, "--report/--no-report", help="Write report.html.")] = True,
) -> int:
    """Run a program behind a scenario's links, in real time.

    Everything that the program sends and receives crosses the links, beside the flows of the scenario. It is where the
    data of forward flows go to, such as a home, and lasts as long as the program, at most the scenario's duration. The
    exit code is the program's.
    """
    from knee.grounds.host import shell as sessions
    from knee.results.folder import check_target, default
    from knee.scenario import load

    words = list(command or [os.environ.get("SHELL") or "/bin/sh"])
    try:
        serves = shlex.split(server) if server is not None else None
    except ValueError as error:
        raise InputError(
            f"--server {server!r} is no command ({error}); expected words as a shell takes them."
        ) from None
    if out_folder is None:
        changed = [*(changes or ()), *([f"instead_of={instead_of}"] if instead_of else ())]
        out_folder = Path("results") / default(f"{load(scenario, changes or ()).name}-shell", changed)
    check_target(out_folder)
    if outside and shutil.which("pasta") is None:
        complain(
            "there is no program pasta (package passt), so the program reaches nothing but the other side, --server."
        )
    live = Line() if sys.stderr.isatty() else None
    try:
        result, code = sessions.run(
            scenario,
            words,
            out_folder,
            changes=changes or (),
            replace=instead_of,
            server=serves,
            sends=sends,
            pasta=outside,
            live=live,
            remark=complain,
            asked=context.obj,
            report=report,
        )
    finally:
        if live is not None:
            live.end()
    for remark in result.summary.get("remarks", ()):
        complain(remark)
    what, where = ("report", out_folder / "report.html") if report else ("result", out_folder)
    if sys.stdout.isatty():
        tables.show_summary(out(), result.summary)
        out().print(f"The {what}: {where}", soft_wrap=True)
    else:
        # Standard output is the program's, which somebody reads.
        complain(f"the {what}: {where}")
    return code


class Line:
    """How a session goes, on the last line of the terminal; the program has those above."""

    def __init__(self) -> None:
        self._before: dict[str, Any] = {"t": 0, "program": 0, "all": 0}
        self._rows = 0

    def __call__(self, report: dict[str, Any]) -> None:
        """Shows the rates since the last time, Mbit/s, what waits, and how late the switch is."""
        span = report["t"] - self._before["t"]
        if span < _EVERY_NS:
            return
        mine, every = (8e3 * (report[key] - self._before[key]) / span for key in ("program", "all"))
        self._before = report
        late = 100 * report["behind"] / max(report["departures"], 1)
        text = f"{report['t'] / 1e9:.0f} s: program {mine:.1f}, all {every:.1f} Mbit/s; {report['held']} packets inside"
        if late >= _WORTH:
            text += f"; {late:.1f} % left late"
        columns, rows = shutil.get_terminal_size()
        if rows != self._rows:
            # A line more, if the cursor is on the last one; then the program scrolls above it.
            self._rows = rows
            self._write(f"\n\x1b[A\x1b7\x1b[1;{rows - 1}r\x1b8")
        self._write(f"\x1b7\x1b[{rows};1H\x1b[2K\x1b[7m{text[: columns - 1]}\x1b[m\x1b8")

    def end(self) -> None:
        """Gives the line back."""
        if self._rows:
            self._write(f"\x1b7\x1b[r\x1b[{self._rows};1H\x1b[2K\x1b8")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
