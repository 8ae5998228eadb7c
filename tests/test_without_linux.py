"""The simulator needs nothing that only Linux or Unix has; ``without_linux.py`` says what is taken away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

PRETENDING = Path(__file__).with_name("without_linux.py")
#: Text that is read or written without naming its encoding raises a warning then, and in knee's own code an error.
ENVIRONMENT = {**os.environ, "PYTHONWARNDEFAULTENCODING": "1"}


def start(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=ENVIRONMENT, capture_output=True, encoding="utf-8", check=False
    )


def knee(*arguments: str, folder: Path) -> str:
    """What ``knee`` prints, which has to succeed."""
    done = start(str(PRETENDING), *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def inside(folder: Path, code: str) -> str:
    """What Python code prints that runs after the same was taken away."""
    script = folder / "code.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(PRETENDING.parent)!r})\n{code}", encoding="utf-8")
    done = start(str(script), folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_taken_away_is_missed(tmp_path: Path) -> None:
    """Else the other tests would pass on any code."""
    said = inside(
        tmp_path,
        "import os, signal\n"
        "import without_linux\n"
        "without_linux.pretend()\n"
        "for trial in ('import fcntl', 'import pwd', 'import resource', 'import pyroute2', 'os.geteuid()',\n"
        "              'signal.SIGKILL', 'os.O_NOFOLLOW', 'os.open(\".\", os.O_RDONLY)', 'open(\"/proc/stat\")',\n"
        "              'os.unlink(\"x\", dir_fd=3)'):\n"
        "    try:\n"
        "        exec(trial)\n"
        "    except (ImportError, AttributeError, OSError, NotImplementedError):\n"
        "        print('missed')\n",
    )
    assert said.split() == ["missed"] * 10


def test_every_public_name_is_imported(tmp_path: Path) -> None:
    said = inside(
        tmp_path,
        "from without_linux import pretend\n"
        "pretend()\n"
        "import knee\n"
        "print(sum(getattr(knee, name) is not None for name in knee.__all__) == len(knee.__all__))\n",
    )
    assert said.strip() == "True"


def test_a_run_is_the_same_to_the_bit(tmp_path: Path) -> None:
    short = ("run", "hello", "--set", "duration=2 s")
    knee(*short, "--out", "there", folder=tmp_path)
    # The second time the folder is replaced.
    knee(*short, "--out", "there", folder=tmp_path)
    here = start("-m", "knee", *short, "--out", "here", folder=tmp_path)
    assert here.returncode == 0, here.stderr
    files = [json.loads((tmp_path / name / "manifest.json").read_text())["files"] for name in ("here", "there")]
    assert files[0].keys() == files[1].keys()
    tables = [name for name in files[0] if name.endswith((".parquet", ".toml"))]
    assert len(tables) >= 4
    assert [files[0][name] for name in tables] == [files[1][name] for name in tables]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "there"]


def test_a_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    sweep = ("sweep", "hello", "--set", "duration=1 s", "--out", "out", "--over")
    knee(*sweep, "flows.0.cc=reno,cubic", folder=tmp_path)
    before = (tmp_path / "out" / "data" / "runs").stat().st_mtime_ns
    knee(*sweep, "flows.0.cc=reno,cubic", folder=tmp_path)
    assert (tmp_path / "out" / "data" / "runs").stat().st_mtime_ns == before
    # Another grid has the old data set renumbered and put in place of the old one.
    knee(*sweep, "flows.0.cc=reno,cubic,vegas", folder=tmp_path)
    runs = pl.read_parquet(tmp_path / "out" / "data" / "runs")
    assert runs.height == 3
    assert runs["error"].null_count() == 3
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith(".")] == []


def test_a_folder_is_locked_there_too(tmp_path: Path) -> None:
    said = inside(
        tmp_path,
        "import without_linux\n"
        "without_linux.pretend()\n"
        "from pathlib import Path\n"
        "from knee.system import files\n"
        "with files.held(Path('.')) as ours, files.held(Path('missing')) as nobodys:\n"
        "    print(ours, nobodys, len(without_linux.locked))\n",
    )
    assert said.split() == ["True", "False", "2"]


def test_a_paper_is_reproduced(tmp_path: Path) -> None:
    assert "2 of 2 reproduced" in knee("reproduce", "timely", "--quick", "--out", "out", folder=tmp_path)


@pytest.mark.parametrize("ground", ["uml", "host"])
def test_grounds_of_linux_say_what_is_missing(ground: str, tmp_path: Path) -> None:
    done = start(str(PRETENDING), "run", "hello", "--ground", ground, folder=tmp_path)
    assert done.returncode == 1
    assert " ".join(done.stderr.split()) == (
        f"knee: The ground {ground} does not work here: this is Windows: this ground needs Linux."
    )
    assert "this is Windows" in knee("doctor", folder=tmp_path)


@pytest.mark.parametrize(
    "arguments", [("--help",), ("list",), ("linux", "--help"), ("bench", "--help"), ("search", "--help")]
)
def test_commands_are_there(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert knee(*arguments, folder=tmp_path)
