"""Commands start quickly because each imports only what it uses; and the shell completes their names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from knee.cli import COMMANDS
from knee.cli.options import first_line
from knee.scenario.paths import shipped

#: What takes long to import, or is seldom needed.
HEAVY = (
    *(
        "distributed",
        "jinja2",
        "matplotlib",
        "numpy",
        "optuna",
        "polars",
        "pydantic",
        "pyroute2",
        "rich",
        "scipy",
    ),
    "typer",
)

# Recent versions of typer check parameters with pydantic.
TYPER = {"typer", "pydantic"}


def imported(arguments: list[str], folder: Path) -> tuple[set[str], int]:
    """Which of the heavy modules a command imports, and its exit code."""
    code = (
        "import json, sys\n"
        "from knee.cli import main\n"
        "code = main(sys.argv[1:])\n"
        f"print(json.dumps([code, [name for name in {HEAVY!r} if name in sys.modules]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=folder, check=True
    )
    code_given, names = json.loads(done.stdout.splitlines()[-1])
    return set(names), code_given


@pytest.mark.parametrize(
    ("arguments", "allowed", "code"),
    [
        (["--help"], {"typer"}, 0),
        (["--version"], {"typer"}, 0),
        (["run", "--help"], TYPER, 0),
        (["bench", "--help"], TYPER, 0),
        (["fidelity", "--help"], TYPER, 0),
        (["linux", "--help"], TYPER, 0),
        (["reproduce", "--help"], TYPER, 0),
        (["sweep", "--help"], TYPER, 0),
        (["matrix", "--help"], TYPER, 0),
        (["plot", "--help"], TYPER, 0),
        (["evaluate", "--help"], TYPER, 0),
        (["score", "--help"], TYPER, 0),
        (["list"], TYPER | {"rich"}, 0),
        (["list", "cc", "lola"], TYPER | {"rich"}, 0),
        (["run", "nosuch"], TYPER, 2),
        (["run", "hello", "--set", "link.rate=fast"], TYPER, 2),
        (["run", "hello", "--ground", "moon"], TYPER, 2),
        (["compare", "one"], TYPER, 2),
        (["sweep", "hello"], TYPER, 2),
        (["search", "--help"], TYPER, 0),
        (["search", "hello"], TYPER | {"numpy", "polars"}, 2),
        (["sweep", "hello", "--over", "link.rate=fast,slow"], TYPER | {"numpy", "polars"}, 2),
        (
            ["sweep", "hello", "--over", "seed=1,2", "--set", "duration=1 s"],
            TYPER | {"rich", "numpy", "polars", "jinja2"},
            0,
        ),
        (["run", "hello", "--no-report", "--set", "duration=1 s"], TYPER | {"rich", "numpy", "polars"}, 0),
        (
            ["run", "hello", "--set", "duration=1 s", "--ground", "sim"],
            set(HEAVY) - {"distributed", "matplotlib", "optuna", "pyroute2", "scipy"},
            0,
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_only_what_it_uses(
    arguments: list[str], allowed: set[str], code: int, tmp_path: Path
) -> None:
    names, given = imported(arguments, tmp_path)
    assert given == code
    assert names <= allowed


def test_requests_are_declared_without_what_checks_them() -> None:
    code = (
        "import sys, knee.scenario.requests, knee.study.requests, knee.evaluate.requests, knee.score.requests\n"
        "print(*{'pydantic', 'numpy', 'polars', 'typer'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def told_at_exit(arguments: list[str], what: str, folder: Path) -> object:
    """The value of an expression as the program ends; ``before`` are the collector's figures as it began."""
    code = (
        "import atexit, gc, json, sys\n"
        "from knee.__main__ import main\n"
        "before = gc.get_stats()\n"
        f"atexit.register(lambda: print(json.dumps({what})))\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=folder, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("arguments", [["list"], ["run", "hello", "--no-report"], ["run", "hello"]], ids=" ".join)
def test_no_time_is_spent_looking_for_garbage(arguments: list[str], tmp_path: Path) -> None:
    # A third of what a short command takes, where Python's own settings hold.
    looked = "[now['collections'] - then['collections'] for now, then in zip(gc.get_stats(), before)]"
    assert told_at_exit(arguments, looked, tmp_path) == [0, 0, 0]
    # What is frozen is not looked through as Python ends.
    assert told_at_exit(arguments, "gc.get_freeze_count() > 10_000", tmp_path) is True


def test_a_run_imports_no_model_that_only_reading_a_result_needs(tmp_path: Path) -> None:
    assert told_at_exit(["run", "hello", "--no-report"], "'knee.results.schema' in sys.modules", tmp_path) is False


def test_the_list_of_commands_says_of_each_what_its_own_help_says() -> None:
    for name, command in COMMANDS.items():
        assert first_line(command.load(name).help) == command.about, name


def completed(words: str, folder: Path) -> list[str]:
    """What bash is told to complete the last of ``words`` with."""
    environment = os.environ | {
        "_KNEE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = subprocess.run(
        [sys.executable, "-m", "knee"], capture_output=True, text=True, env=environment, cwd=folder, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("knee ", list(COMMANDS)),
        ("knee re", ["reproduce"]),
        ("knee run hel", ["hello"]),
        ("knee run ", list(shipped())),
        ("knee sweep lola-fig4a --over x --set y --se", ["--set", "--seeds", "--series"]),
        ("knee list q", ["queues"]),
        ("knee list cc bbr", ["bbr", "bbr3"]),
        ("knee list queues fq", ["fq", "fq_codel", "fq_pie"]),
        ("knee list scenarios hel", ["hello"]),
        ("knee matrix --cc reno,cub", ["reno,cubic"]),
        ("knee matrix --queue ca", ["cake"]),
        ("knee run hello --ground u", ["uml"]),
        ("knee reproduce lo", ["lola"]),
        ("knee search lola-t", ["lola-tuning"]),
        ("knee bench ren", ["reno2"]),
        ("knee fidelity lin", ["linux-7.2", "linux-7.2-more", "linux-7.2-l4s", "linux-7.2-fq_pie"]),
        ("knee linux sta", ["status"]),
    ],
)
def test_the_shell_completes_names(words: str, wanted: list[str], tmp_path: Path) -> None:
    assert sorted(completed(words, tmp_path)) == sorted(wanted)


def test_completing_a_scenario_reads_no_model_of_one(tmp_path: Path) -> None:
    environment = os.environ | {"_KNEE_COMPLETE": "complete_bash", "COMP_WORDS": "knee run h", "COMP_CWORD": "2"}
    script = "import atexit, runpy, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}; runpy.run_module('knee', run_name='__main__')"],
        capture_output=True, text=True, env=environment, cwd=tmp_path, check=False,
    )  # fmt: skip
    modules = set(done.stderr.split())
    assert "knee.scenario.paths" in modules
    assert not modules & {"numpy", "polars", "rich", "knee.scenario.model"}
