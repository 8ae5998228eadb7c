"""The command line. Exit codes: 0 done, 1 the run failed, 2 the input was refused."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from knee.cli.console import (
    Interrupted,
    caused_by_interrupt,
    complain,
    flush,
    handle_signals,
    ignore_signals,
    prepare_streams,
)
from knee.cli.options import Later, group, loaded_later
from knee.errors import InputError, KneeError, blame
from knee.system import rights
from knee.system.contained import containing

#: typer's exit code for Ctrl-C.
_INTERRUPTED = 130

#: The commands in the order of ``knee --help``. Each is imported when it is called, since together they import most of
#: the program.
COMMANDS = {
    "run": Later("knee.cli.run", "run", "Run scenarios and write their results."),
    "shell": Later("knee.cli.shell", "shell", "Run a program behind a scenario's links, in real time."),
    "list": Later(
        "knee.cli.listing",
        "list_",
        "List what there is: scenarios, algorithms, queues, models of links, receivers, traffic, sweeps and searches.",
    ),
    "compare": Later("knee.cli.compare", "compare", "Show the figures of results side by side."),
    "open": Later("knee.cli.open_", "open_", "Open the page of a result in the browser, and print its path."),
    "reproduce": Later("knee.cli.reproduce", "reproduce", "Rerun the figures and tables of papers."),
    "evaluate": Later("knee.cli.evaluate", "evaluate", "Evaluate a congestion control by the criteria of RFC 9743."),
    "conform": Later(
        "knee.cli.conform",
        "conform",
        "Play the conformance vectors of a congestion control, and name each rule of its standard that is broken.",
    ),
    "score": Later("knee.cli.score", "score", "Score a congestion control that a program wrote, in a sandbox."),
    "matrix": Later("knee.cli.matrix", "matrix", "Run every algorithm against every other."),
    "sweep": Later("knee.cli.sweep", "sweep", "Run a grid of scenarios over any keys."),
    "search": Later(
        "knee.cli.search", "search", "Find the scenario, within bounds, that is worst or best for a figure."
    ),
    "import": Later("knee.cli.import_", "import_", "Make a scenario of a measurement of a real path."),
    "plot": Later(
        "knee.cli.plot", "plot", "Draw a figure of runs, or of a sweep, matrix or search, as PDF, SVG, PNG or HTML."
    ),
    "fidelity": Later("knee.cli.fidelity", "fidelity", "Compare the simulator with recordings of real kernels."),
    "bench": Later("knee.cli.bench", "bench", "Measure how fast this machine simulates."),
    "doctor": Later("knee.cli.doctor", "doctor", "Show which grounds work here, and how to fix the others."),
    "linux": Later("knee.cli.linux", "app", "Build, load and watch the kernel parts."),
}

app = group("knee", cls=loaded_later(COMMANDS), completion=True)


def _version(wanted: bool) -> None:
    if wanted:
        from knee import _core

        print(f"knee {_core.version()}")
        raise typer.Exit


@app.callback()
def knee(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; accepted in any position.")
    ] = False,
) -> None:
    """A laboratory for low-delay networking: one scenario file, several grounds, one kind of result.

    Begin with: knee run hello
    """


def main(arguments: Sequence[str] | None = None, commands: typer.Typer | None = None, name: str = "knee") -> int:
    """Runs the command line, or one of other commands that is called ``name``, and returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    left = "the run that was under way has left nothing behind"
    rights.gain_none()
    given = [argument for argument in given if argument != "--debug"]
    try:
        # Without a command, show the help.
        # Manifests of runs record the command line.
        with containing():
            code = (commands or app)(
                given or ["--help"], prog_name=name, standalone_mode=False, obj=shlex.join([name, *given])
            )
        flush()
    except BrokenPipeError:
        # The reader of our output has gone, so write nothing more, not even at exit.
        sys.stdout = None
        return 1
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except Interrupted as interrupted:
        code, left = _INTERRUPTED, str(interrupted)
    except Exception as error:
        if not caused_by_interrupt(error):
            if debug:
                raise
            return _explain(error)
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        # Python remembers that code which exec got as text, as dataclasses give it, was interrupted, and would end by
        # SIGINT. The next such code that is not interrupted makes it forget.
        exec("")
        complain(f"interrupted; {left}.")
        return 1
    return code if isinstance(code, int) else 0


def _explain(error: Exception) -> int:
    """Prints what went wrong and returns the exit code."""
    if (blamed := blame(error)) is not None:
        complain(f"{blamed}. The same command with --debug shows the traceback.")
        return 1
    if isinstance(error, KneeError):
        complain(str(error))
        return 2 if isinstance(error, InputError) else 1
    # A usage error of typer's click, in click's words.
    wording = getattr(error, "format_message", None)
    if wording is not None:
        context = getattr(error, "ctx", None)
        said = wording().rstrip(".")
        complain(f"{said}{'' if said.endswith('?') else '.'} See {context.command_path if context else 'knee'} --help.")
        return 2
    if isinstance(error, MemoryError):
        reason = f" ({str(error).split(' for ')[0].rstrip('.')})" if str(error) else ""
        mend = "a longer interval, a shorter duration or fewer flows need less, and so do fewer runs at once (--jobs)"
        complain(f"the memory was not enough{reason}, and nothing was written that is not whole; {mend}.")
        return 1
    complain(f"an error in the program ({type(error).__name__}: {error}); the same command with --debug shows where.")
    return 1


def _check_folder() -> None:
    """Rejects a current folder that is gone: paths, also those of results, are relative to it.

    Raises:
        InputError: it has been removed, or may not be entered.
    """
    try:
        os.getcwd()  # noqa: PTH109 - the folder itself is wanted
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"The current folder cannot be used ({reason}): it may have been removed; cd to another."
        ) from None


def entry(commands: typer.Typer | None = None, name: str = "knee") -> None:
    """The program ``knee``, or that of other commands."""
    handle_signals()
    try:
        prepare_streams()
        _check_folder()
    except InputError as error:
        sys.exit(_explain(error))
    code = main(commands=commands, name=name)
    ignore_signals()
    sys.exit(code)
