"""The command line. Exit codes: 0 done, 1 the run failed, 2 the input was refused."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Annotated

import typer

from knee import _core
from knee.cli import terminal
from knee.cli.bench import bench
from knee.cli.compare import compare
from knee.cli.console import complain
from knee.cli.doctor import doctor
from knee.cli.fidelity import fidelity
from knee.cli.linux import app as linux
from knee.cli.listing import list_
from knee.cli.matrix import matrix
from knee.cli.reproduce import reproduce
from knee.cli.run import run
from knee.cli.sweep import sweep
from knee.errors import InputError, KneeError

#: What typer makes of Ctrl-C.
_INTERRUPTED = 130

app = typer.Typer(name="knee", add_completion=False, no_args_is_help=True, rich_markup_mode=None)
app.command("run")(run)
app.command("list")(list_)
app.command("compare")(compare)
app.command("reproduce")(reproduce)
app.command("matrix")(matrix)
app.command("sweep")(sweep)
app.command("fidelity")(fidelity)
app.command("bench")(bench)
app.command("doctor")(doctor)
app.add_typer(linux, name="linux")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"knee {_core.version()}")
        raise typer.Exit


@app.callback()
def knee(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; goes anywhere.")] = False,
) -> None:
    """A laboratory for low-delay networking: one scenario file, several grounds, one kind of result.

    Begin with: knee run hello
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and gives the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"]
    try:
        # Without a command there is nothing to do but to say what there is.
        # What was asked for goes along for the manifests of runs.
        code = app(given or ["--help"], prog_name="knee", standalone_mode=False, obj=shlex.join(["knee", *given]))
        terminal.flush()
    except BrokenPipeError:
        # The reader of our output has gone; nothing more can be said to it, not even at exit.
        sys.stdout = None
        return 1
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except Exception as error:
        if debug:
            raise
        return _explain(error)
    if code == _INTERRUPTED:
        complain("interrupted; the run that was under way has left nothing behind.")
        return 1
    return code if isinstance(code, int) else 0


def _explain(error: Exception) -> int:
    """Says what went wrong, and gives the exit code."""
    if isinstance(error, KneeError):
        complain(str(error))
        return 2 if isinstance(error, InputError) else 1
    # A usage error, from whichever version of click typer brings: it words itself.
    wording = getattr(error, "format_message", None)
    if wording is not None:
        complain(f"{wording().rstrip('.')}. See knee --help.")
        return 2
    complain(f"an error in the program ({type(error).__name__}: {error}); the same command with --debug shows where.")
    return 1


def _terminate(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def entry() -> None:
    """The program ``knee``."""
    # Being terminated is like Ctrl-C: half-written folders are taken away.
    signal.signal(signal.SIGTERM, _terminate)
    try:
        terminal.prepare()
    except InputError as error:
        sys.exit(_explain(error))
    sys.exit(main())
