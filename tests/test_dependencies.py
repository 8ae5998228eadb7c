"""What only some commands use comes with extras; a command that lacks a package names it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from knee.system.extras import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def named(requirements: list[str]) -> dict[str, str]:
    """Requirements by the names of their packages."""
    return {re.split(r"[<>=!~\[; ]", each)[0]: each for each in requirements}


def plain(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """``knee`` where no extra is installed."""
    code = f"import sys\nsys.modules |= dict.fromkeys({list(EXTRAS)!r})\nfrom knee.__main__ import main\nmain()\n"
    return subprocess.run([sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True)


def test_extras_agree_with_each_other_and_with_the_messages() -> None:
    extras = PROJECT["optional-dependencies"]
    # knee itself uses neither pandas nor the tools of the documentation.
    beside = ("all", "dev", "docs", "pandas")
    single = {name: named(each) for name, each in extras.items() if name not in beside}
    assert {package: name for name, each in single.items() for package in each} == EXTRAS
    everything = {package: text for each in single.values() for package, text in each.items()}
    assert named(extras["all"]) == everything
    assert everything.items() <= named(extras["dev"]).items()
    assert not named(PROJECT["dependencies"]).keys() & EXTRAS.keys()


def test_the_lock_has_every_dependency() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    locked = {line.split("==")[0] for line in lines if "==" in line}
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    assert {name.lower() for name in named(wanted)} <= locked


def test_what_is_installed_from_elsewhere_is_named_by_its_digest() -> None:
    """A version or a tag may come to stand for something else."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for package in re.split(r"\n(?=[a-z])", text)[1:]:
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; [^\\\n]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n?", package), package
    assert "://" not in text
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        for action in re.findall(r"uses:\s*(.+)", workflow.read_text(encoding="utf-8")):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), (workflow.name, action)


def test_runs_sweeps_and_pages_need_no_extra(tmp_path: Path) -> None:
    short = ("--set", "duration=1 s")
    for arguments in (
        ("run", "hello", *short, "--out", "one"),
        ("run", "hello", *short, "--set", "link.queue=fq_codel", "--out", "two"),
        ("compare", "one", "two", "--out", "both"),
        ("sweep", "hello", *short, "--over", "flows.0.cc=reno,cubic", "--out", "swept"),
        ("plot", "one", "--out", "one.html"),
        ("doctor",),
        ("reproduce", "compound", "rtts", "--quick", "--out", "published"),
    ):
        done = plain(*arguments, folder=tmp_path)
        assert done.returncode == 0, done.stderr
    made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")}
    assert {"one.html", "one/report.html", "both/compare.html", "swept/sweep.html", "published/compound.html"} <= made


@pytest.mark.parametrize(
    ("arguments", "package"),
    [
        ("run hello --png --out made", "matplotlib"),
        ("matrix --cc reno,cubic --out made", "matplotlib"),
        ("search lola-fairness --trials 2 --out made", "optuna"),
        ("sweep hello --over 'flows.*.rtt=uniform(5 ms, 9 ms)' --samples 4 --out made", "scipy"),
        ("sweep hello --over flows.0.cc=reno,cubic --dask tcp://127.0.0.1:1 --out made", "distributed"),
        ("linux qdisc show", "pyroute2"),
    ],
)
def test_a_missing_package_is_named_before_anything_is_made(arguments: str, package: str, tmp_path: Path) -> None:
    done = plain(*shlex.split(arguments), folder=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    said = " ".join(done.stderr.split())
    assert f'needs {package}, which is not installed here; pip install "knee[{EXTRAS[package]}]" installs it.' in said
    assert not (tmp_path / "made").exists() or not any((tmp_path / "made").iterdir())


def test_a_result_shows_itself_in_a_notebook_without_matplotlib(tmp_path: Path) -> None:
    code = (
        f"import sys\nsys.modules |= dict.fromkeys({list(EXTRAS)!r})\nimport knee\n"
        "print(knee.run('hello', set=['duration=1 s'])._repr_html_())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'pip install "knee[plot]"' in done.stdout
    assert "<table" in done.stdout
