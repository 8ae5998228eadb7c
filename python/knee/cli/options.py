"""Options that several commands share, and the groups of all options in help texts.

An option of a name means the same in every command, with one placeholder for its value and in one group;
`tests/test_cli_options.py` enforces it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from knee.cli import complete

#: The groups of options, in the order in which help texts have them.
INPUT, AXES, FIGURE, RUNNING, OUTPUT, CODE = "Scenario", "Axes", "Figure", "Running", "Output", "Permissions"
#: And of the commands of the kernel parts.
KERNEL, DEVICE = "Kernel", "Device"


def option(group: str, *names: str, **settings: Any) -> Any:
    """An option of a group; ``settings`` are typer's."""
    return typer.Option(*names, rich_help_panel=group, **settings)


def choice(group: str, words: tuple[str, ...], *names: str, **settings: Any) -> Any:
    """An option whose value is one of ``words``, which its help shows and the shell completes."""
    return option(group, *names, metavar="|".join(words), autocompletion=_starting(words), **settings)


def _starting(words: tuple[str, ...]) -> Callable[[str], list[str]]:
    def completed(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return completed


Set = Annotated[
    list[str] | None,
    option(INPUT, "--set", metavar="KEY=VALUE", help="Change the scenario: link.rate='5 Gbit/s', flows.0.cc=reno."),
]
Ground = Annotated[
    str | None,
    choice(INPUT, ("sim", "uml", "host"), "--ground", help="Where to run; default: the file's ground, else sim."),
]
Kernel = Annotated[
    str | None,
    option(
        INPUT,
        "--kernel",
        metavar="NUMBER",
        help="The kernel of the ground uml, such as 7.2; default: the one built last.",
        autocompletion=complete.built_kernels,
    ),
]
Threads = Annotated[
    int | None,
    option(
        RUNNING,
        "--threads",
        metavar="N",
        min=1,
        help="Threads that work at a run of the simulator; default: 1. Results are the same for any number.",
    ),
]
Seeds = Annotated[
    int | None,
    option(
        INPUT, "--seeds", metavar="N", min=1, help="Run each scenario with N seeds; default: as its file says, or 1."
    ),
]
Derive = Annotated[
    list[str] | None,
    option(AXES, "--derive", metavar="KEY=EXPRESSION", help="Derive a key: link.limit='2 * link.rate * flows.0.rtt'."),
]
Zip = Annotated[list[str] | None, option(AXES, "--zip", metavar="KEY,KEY", help="Let axes go together, step by step.")]
Jobs = Annotated[
    int | None,
    option(RUNNING, "--jobs", metavar="N", min=1, help="Number of parallel runs; default: one per core."),
]
Dask = Annotated[
    str | None,
    option(RUNNING, "--dask", metavar="ADDRESS", help="Run on a Dask cluster: its scheduler, tcp://HOST:8786."),
]
MaxMemory = Annotated[
    str | None,
    option(
        RUNNING,
        "--max-memory",
        metavar="SIZE",
        help="Refuse a run that needs more memory, such as '8 GB'; default: the available memory.",
    ),
]
DryRun = Annotated[
    bool, option(RUNNING, "--dry-run", help="Only check, and print the number of runs, packets and hours.")
]
Again = Annotated[bool, option(RUNNING, "--again", help="Start anew and drop the runs in DIR.")]
Out = Annotated[Path | None, option(OUTPUT, "--out", metavar="DIR", help="Folder for the page and the data.")]
Json = Annotated[bool, option(OUTPUT, "--json", help="Print only JSON.")]
Check = Annotated[bool, option(OUTPUT, "--check", help="Exit with 1 if the figures are not as they should be.")]
AllowCode = Annotated[
    bool,
    option(CODE, "--allow-code", help='Run files that cc and queue name: "mine.py:Mine", "tcp_mine.c".'),
]
AllowPrograms = Annotated[
    bool, option(CODE, "--allow-programs", help="Let flows be programs, which run on this machine.")
]
Unconfined = Annotated[
    bool, option(CODE, "--unconfined-programs", help="Run them without confinement, on a machine that has none.")
]
