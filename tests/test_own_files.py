"""Congestion controls of Python files that a scenario names: run only where allowed, and kept in the result."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import knee
from knee.cli import main
from knee.study import batch

SOURCE = '''"""One algorithm."""
import knee


class {name}(knee.CongestionControl):
    """Gives a fifth of the window back."""

    def on_loss(self, signal, now, control):
        control.ssthresh = max(control.cwnd * {factor}, 2)
'''
SCENARIO = """
duration = "2 s"
link = {{ rate = "10 Mbit/s", limit = "30 packets" }}
flows = [{{ cc = "{cc}", rtt = "20 ms" }}, {{ cc = "reno", rtt = "20 ms" }}]
"""


@pytest.fixture
def files(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an algorithm and a scenario that names it; each test has its own name, since files are run once."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "made"
    place.mkdir()
    (place / f"{name_of(request)}.py").write_text(SOURCE.format(name="Glide", factor=0.8))
    (place / "one.toml").write_text(SCENARIO.format(cc=f"{name_of(request)}.py:Glide"))
    return place


def name_of(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def fresh(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in a new process, which has run no file yet."""
    return subprocess.run([sys.executable, "-m", "knee", *arguments], capture_output=True, text=True, check=False)


def test_a_file_is_run_only_where_that_is_allowed(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = str(files / "one.toml")
    ran = files / "ran"
    source = next(files.glob("*.py"))
    source.write_text(source.read_text() + f"\nopen({str(ran)!r}, 'w').close()\n")
    commands = [["run", one], ["sweep", one, "--over", "seed=1,2"], ["search", one]]
    for command in [*commands, ["matrix", "--cc", f"{source}:Glide"]]:
        assert main(command) == 2, command
        assert "--allow-code" in capsys.readouterr().err
    with pytest.raises(knee.ScenarioError, match=r"one\.toml:\d+:\d+: flows\[0\]\.cc: it would run the Python file"):
        knee.load(one)
    assert not ran.exists()
    assert knee.load(one, allow_code=True).flows[0].cc == f"{source.name}:Glide"
    assert ran.exists()


def test_a_result_keeps_the_file_and_repeats_from_it_alone(files: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert fresh("run", str(files / "one.toml"), "--allow-code", "--out", str(first)).returncode == 0
    (source,) = files.glob("*.py")
    assert (first / source.name).read_text() == source.read_text()
    source.unlink()
    assert fresh("run", str(first / "scenario.toml"), "--allow-code", "--out", str(second)).returncode == 0
    one, other = knee.Result.load(first), knee.Result.load(second)
    assert one.samples.equals(other.samples)
    assert one.code == other.code == {source.name: (second / source.name).read_text()}
    one.save(tmp_path / "third", report=False)
    assert (tmp_path / "third" / source.name).is_file()
    (first / source.name).write_text("changed")
    with pytest.raises(knee.FolderError, match=f"{source.name}: it was changed"):
        knee.Result.load(first)


def test_figures_are_those_of_the_class_itself(files: Path) -> None:
    class Glide(knee.CongestionControl):
        def on_loss(self, signal: str, now: float, control: knee._core.Control) -> None:  # type: ignore[name-defined]
            control.ssthresh = max(control.cwnd * 0.8, 2)

    named = knee.run(files / "one.toml", allow_code=True)
    scenario = knee.load(files / "one.toml", allow_code=True).plain()
    scenario["flows"][0]["cc"] = Glide
    assert knee.run(scenario).samples["cwnd_packets"].equals(named.samples["cwnd_packets"])


def test_sweeps_and_batches_take_files_and_notice_changes(files: Path, tmp_path: Path) -> None:
    (source,) = files.glob("*.py")

    def swept(again: bool = False) -> list[float]:
        over = {"flows.0.cc": ["reno", f"{source}:Glide"]}
        made = knee.sweep(files / "one.toml", over, allow_code=True, out=tmp_path / "s", again=again)
        assert made.failed.is_empty()
        return made.runs.collect()["first_share"].to_list()

    def job() -> batch.Job:
        return batch.Job("one", knee.load(files / "one.toml", allow_code=True))

    first = swept()
    assert swept() == first
    batch.run([job()], tmp_path / "b")
    assert batch.is_done(job(), tmp_path / "b" / "one")
    source.write_text(SOURCE.format(name="Glide", factor=0.3))
    with pytest.raises(knee.FolderError, match="has runs of other traces, files or classes"):
        swept()
    second = swept(again=True)
    assert second[0] == first[0]
    assert second[1] != first[1]
    assert not batch.is_done(job(), tmp_path / "b" / "one")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, r"cannot be read \(No such file or directory\)"),
        ("x = (", r"fails as it is run \(SyntaxError: "),
        ("import nosuchmodule", r"fails as it is run \(ModuleNotFoundError: No module named 'nosuchmodule'\)"),
        ("Gone = 3", "has no class Gone; there are: none"),
        ("import knee\nclass Other(knee.CongestionControl): pass", "has no class Gone; there are: Other"),
        ("class Gone: pass", "the class Gone is not a congestion control"),
        ("import knee\nclass Gone(knee.CongestionControl):\n async def on_ack(self, a, c): pass", "on_ack .* is async"),
    ],
)
def test_what_is_no_algorithm_is_refused_by_name(tmp_path: Path, content: str | None, found: str) -> None:
    if content is not None:
        (tmp_path / "bad.py").write_text(content)
    (tmp_path / "one.toml").write_text(SCENARIO.format(cc="bad.py:Gone"))
    done = fresh("run", str(tmp_path / "one.toml"), "--allow-code", "--out", str(tmp_path / "r"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert re.search(rf"one\.toml:\d+:\d+: flows\[0\]\.cc: .*{found}", done.stderr), done.stderr
    assert not (tmp_path / "r").exists()


def test_two_files_of_one_name_are_refused(files: Path, tmp_path: Path) -> None:
    (source,) = files.glob("*.py")
    other = tmp_path / source.name
    other.write_text(source.read_text())
    scenario = knee.load(files / "one.toml", allow_code=True).plain()
    scenario["flows"][1] = {"cc": f"{other}:Glide", "rtt": "20 ms"}
    with pytest.raises(knee.ScenarioError, match=f"two files are called {source.name}"):
        knee.run(scenario, allow_code=True)


def test_a_result_is_read_without_its_classes_and_not_run(files: Path, tmp_path: Path) -> None:
    """Nothing of a result's code runs as it is read, compared or drawn."""
    assert fresh("run", str(files / "one.toml"), "--allow-code", "--out", str(tmp_path / "r")).returncode == 0
    code = (
        "import knee\n"
        f"result = knee.Result.load({str(tmp_path / 'r')!r})\n"
        "assert result.scenario.plain()['flows'][0]['cc'].endswith('.py:Glide')\n"
        "knee.run(result.scenario)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    found = r"ScenarioError: one: flows\[0\]\.cc: the Python class .* of this result is not here; expected --allow-code"
    assert re.search(found, done.stderr), done.stderr


@pytest.mark.root
def test_root_runs_no_file_that_another_user_can_change(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = next(files.glob("*.py"))
    os.chown(source, 12345, 54321)
    ran = files / "ran"
    source.write_text(source.read_text() + f"\nopen({str(ran)!r}, 'w').close()\n")
    assert main(["run", str(files / "one.toml"), "--allow-code", "--no-report"]) == 2
    said = capsys.readouterr().err
    assert f'"{source}" is not used as root, because user 12345 can change' in said
    assert not ran.exists()
    # Behind sudo it is the caller's own file.
    monkeypatch.setenv("SUDO_UID", "12345")
    monkeypatch.setenv("SUDO_GID", "54321")
    assert main(["run", str(files / "one.toml"), "--allow-code", "--no-report"]) == 0
    assert ran.exists()
