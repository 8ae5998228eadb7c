"""How long commands take to start: processor time of the whole process, several times, in turn."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from knee.errors import RunError
from knee.system.text import JsonTable

#: The commands by name, each with the exit code that it has to give.
COMMANDS: dict[str, tuple[list[str], int]] = {
    "help": (["--help"], 0),
    "list": (["list"], 0),
    "refusal": (["run", "hello", "--set", "link.rate=fast"], 2),
    "hello": (["run", "hello", "--out", "hello"], 0),
    "hello without report": (["run", "hello", "--no-report", "--out", "bare"], 0),
}
#: How often each is run by default.
RUNS = 5


def measure(runs: int = RUNS) -> list[JsonTable]:
    """The median processor and wall time of each command, in s.

    The commands are run in turn, so that what else the machine does meets all of them. A first run that does not count
    lets Python compile what it imports, into a folder of its own: some environments forbid that elsewhere, and there
    each command would compile everything again.

    Raises:
        RunError: a command gave another exit code than it has to.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory(prefix="knee-start-") as folder:
        for turn in range(runs + 1):
            for name, (arguments, code) in COMMANDS.items():
                taken = _run(name, arguments, code, folder)
                if turn > 0:
                    times[name].append(taken)
    return [
        {
            "name": name,
            "command": " ".join(["knee", *COMMANDS[name][0]]),
            "processor_s": statistics.median(processor for processor, _ in each),
            "wall_s": statistics.median(wall for _, wall in each),
        }
        for name, each in times.items()
    ]


def _run(name: str, arguments: list[str], code: int, folder: str) -> tuple[float, float]:
    """Processor time, children included, and wall time of one command."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("_KNEE")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "bytecode")
    before, begin = _processor_s(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "knee", *arguments], capture_output=True, encoding="utf-8", cwd=folder, env=environment
    )
    wall, processor = time.perf_counter() - begin, _processor_s() - before
    if done.returncode != code:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RunError(f"The start of {name} cannot be measured: {reason[0]}")
    return processor, wall


def _processor_s() -> float:
    try:
        import resource
    except ImportError:
        raise RunError("This system does not measure the processor time of commands.") from None
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
