"""Names, files and places as somebody with bad luck or bad intentions would choose them."""

from __future__ import annotations

import io
import json
import os
import pickle
import pty
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table

import knee
from knee import errors
from knee.cli import main
from knee.cli.console import Bar, complain, screen
from knee.grounds import runner
from knee.results.folder import problems, seal, without_digests
from knee.system import files
from knee.system.text import to_json, visible

Make = Callable[..., dict[str, Any]]

TINY = """
duration = "1 s"
link = { rate = "10 Mbit/s", limit = "50 packets" }
flows = [{ cc = "reno", rtt = "20 ms" }]
"""
#: Each ended in an error, vanished, or changed the screen.
LABELS = ["$x^$", "[/b]", "[red]hid[den]", "_hidden", "\\frac{", "%s {0}", "日本語 😀", "</script><b>", ":smile:", "$"]
#: Red; the window's title; a C1 control; the direction of writing turned.
ESCAPES = "\x1b[31mred\x1b]0;owned\x07 \x9b31m \u202etxt.exe \x00\x7f"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with tiny.toml in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def knee_says(*arguments: str | os.PathLike[str], **how: Any) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a process of its own."""
    command = [sys.executable, "-m", "knee", *arguments]
    return subprocess.run(command, **({"capture_output": True, "text": True, "timeout": 60} | how))


def one_paragraph(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("knee: "), done.stderr
    for word in words:
        assert word in done.stderr


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Text is text.


def test_labels_of_any_kind_are_drawn_and_shown_as_they_are(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flows = "".join(
        f"[[flows]]\ncc = 'reno'\nrtt = '20 ms'\nlabel = {json.dumps(label, ensure_ascii=False)}\n" for label in LABELS
    )
    link = '[[links]]\nname = "$_{[/]"\nrate = "10 Mbit/s"\nlimit = "50 packets"\n'
    (here / "odd.toml").write_text(f'title = "[/b] $\\\\frac$"\nduration = "1 s"\n{link}{flows}', encoding="utf-8")
    assert main(["run", "odd.toml"]) == 0
    shown = capsys.readouterr().out
    for label in [*LABELS, "$_{[/]", "[/b] $\\frac$"]:
        assert label in shown
    assert "report.html" in names(here / "results" / "odd")


def test_a_figure_shows_every_label_in_its_legend(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from knee.view.drawing import STYLE, short

    with rc_context(STYLE):
        figure = Figure()
        axes = figure.subplots()
        lines = [axes.plot([0, 1])[0] for _ in LABELS]
        legend = figure.legend(lines, [short(label) for label in LABELS])
        figure.savefig(io.BytesIO())
    drawn = [text.get_text().removeprefix("\u200b") for text in legend.get_texts()]
    assert drawn == [label.replace("日本語", "□□□") for label in LABELS]


def test_what_a_terminal_would_obey_is_written_out() -> None:
    file = io.StringIO()
    console = screen(file=file, force_terminal=True, width=200)
    table = Table(title=ESCAPES)
    table.add_column(ESCAPES)
    table.add_row(ESCAPES)
    console.print(ESCAPES, table, style="none")
    shown = file.getvalue()
    assert shown.count("\\x1b[31mred\\x1b]0;owned\\x07 \\x9b31m \\u202etxt.exe \\x00\\x7f") == 4
    for sign in "\x9b\u202e\x00\x7f\x07":
        assert sign not in shown
    # Rich's own are left: for bold, and back.
    assert set(shown.split("\x1b")[1:]) <= {rest for rest in shown.split("\x1b")[1:] if rest.startswith("[")}
    assert "\x1b[31m" not in shown
    assert "\x1b]" not in shown


def test_errors_and_progress_show_escapes_too(capsys: pytest.CaptureFixture[str]) -> None:
    complain(f"in {ESCAPES}")
    said = capsys.readouterr().err
    assert "\\x1b[31mred" in said
    assert said == visible(said)
    assert Bar(ESCAPES)._name == visible(ESCAPES)


def test_escapes_in_results_do_not_reach_the_terminal(here: Path) -> None:
    """The manifest, the summary and the file of another may hold anything; a terminal is what obeys."""
    main(["run", "tiny.toml", "--no-report", "--json", "--out", "a"])
    summary = json.loads((here / "a" / "summary.json").read_text())
    summary["flows"][0]["cc"] = summary["name"] = ESCAPES
    (here / "a" / "summary.json").write_text(json.dumps(summary))
    # Whoever writes such names writes digests that fit.
    manifest = json.loads((here / "a" / "manifest.json").read_text())
    seal(here / "a", without_digests(manifest))
    control, terminal = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-m", "knee", "compare", "a", "a"], stdout=terminal, stderr=terminal, close_fds=True
    )
    os.close(terminal)
    shown = b""
    while chunk := _read(control):
        shown += chunk
    assert run.wait(timeout=30) == 0
    os.close(control)
    assert rb"\x1b]0;owned" in shown
    assert b"\x1b]0" not in shown
    assert b"\x1b[31m" not in shown
    assert "\x9b".encode() not in shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", None])
def test_json_is_the_same_on_every_terminal_and_has_no_control_characters(encoding: str | None) -> None:
    data = {"label": "é日😀" + ESCAPES, "nothing": None, "figure": 0.1, "large": 2**60}
    text = to_json(data, encoding=encoding)
    assert json.loads(text) == data
    text.encode(encoding or "ascii")
    assert not any(sign in text for sign in "\x1b\x9b\x00\x7f\x07")


@pytest.mark.parametrize(
    "setting", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
def test_a_terminal_without_umlauts_gets_a_table_and_json(here: Path, setting: dict[str, str]) -> None:
    (here / "tiny.toml").write_text(
        TINY.replace('rtt = "20 ms"', 'rtt = "20 ms", label = "Grüße 日本"'), encoding="utf-8"
    )
    told = {"env": os.environ | setting, "text": False}
    done = knee_says("run", "tiny.toml", "--no-report", **told)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"Gr\xfc\xdfe \u65e5\u672c" in done.stdout
    done = knee_says("run", "tiny.toml", "--no-report", "--json", **told)
    assert json.loads(done.stdout.decode("ascii"))["flows"][0]["label"] == "Grüße 日本"
    done = knee_says("run", "grüße.toml", **told)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Traceback" not in done.stderr


# Places.


@pytest.mark.parametrize(
    "out", ["r" * 300, "r" * 250, "a/" * 3000 + "r", "dangling", "dangling/r", "tiny.toml/r", "loop"]
)
def test_places_that_cannot_be_are_refused_before_anything_starts(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    monkeypatch.setattr("knee._core.simulate", lambda *_: pytest.fail("it was started"))
    (here / "dangling").symlink_to("/nowhere/at/all")
    (here / "loop").symlink_to("loop")
    assert main(["run", "tiny.toml", "--no-report", "--out", out]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "an error in the program" not in said.err
    assert names(here) == ["dangling", "loop", "tiny.toml"]


@pytest.mark.parametrize("name", ["g[a-z]*", "a?b", "**", "{x}", "$HOME", "-x", "a b\nc", "ü"])
def test_a_folder_may_have_any_name(here: Path, name: str) -> None:
    assert main(["run", "tiny.toml", "--no-report", "--out", f"./{name}"]) == 0
    assert knee.Result.load(here / name).summary["name"] == "tiny"
    assert main(["run", "tiny.toml", "--no-report", "--out", f"./{name}"]) == 0
    assert names(here) == sorted([name, "tiny.toml"])


def test_a_name_that_is_not_unicode_is_refused(here: Path) -> None:
    done = knee_says("run", "tiny.toml", "--no-report", "--out", os.fsdecode(b"caf\xe9"))
    one_paragraph(done, 2, "is not UTF-8")
    assert names(here) == ["tiny.toml"]
    # Elsewhere on the command line it may stand; the manifest keeps the command.
    (here / os.fsdecode(b"caf\xe9.toml")).write_text(TINY)
    changes = ["--set", "name=tiny", "--out", "r", "--no-report"]
    assert knee_says("run", os.fsdecode(b"caf\xe9.toml"), *changes).returncode == 0
    assert os.fsdecode(b"caf\xe9.toml") in knee.Result.load("r").manifest["command"]


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (["run", "./pipe"], "pipe"),
        (["sweep", "./pipe", "--over", "seed=1,2"], "pipe"),
        (["search", "./pipe"], "pipe"),
        (["fidelity", "pipe"], "pipe"),
        (["compare", "r", "r"], "r/manifest.json"),
        (["run", "--from", "r", "1"], "r/sweep.json"),
        (["plot", "r"], "r/sweep.json"),
        (["sweep", "tiny.toml", "--over", "seed=1,2", "--out", "r"], "r/sweep.json"),
        (["run", "tiny.toml", "--out", "r"], "r/manifest.json"),
    ],
    ids=" ".join,
)
def test_a_pipe_that_nobody_writes_to_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], file: str
) -> None:
    """Each waited forever."""
    monkeypatch.setattr(files, "_PIPE_PATIENCE_S", 0.1)
    (here / "r").mkdir()
    os.mkfifo(here / file)
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "an error in the program" not in said.err


def test_a_scenario_comes_from_a_pipe(here: Path) -> None:
    """As of a shell's ``<(...)``, and more than a pipe holds at once; an endless one is refused."""
    filler = "# " + "x" * 5000 + "\n"
    made, endless = '<("$0" -c "$1")', "<(yes '#')"
    command = ["bash", "-c", f'exec "$0" -m knee run {made} --no-report --json --out r', sys.executable]
    done = subprocess.run([*command, f"print({TINY!r} + {filler!r} * 100)"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["duration_s"] == 1.0
    command = ["bash", "-c", f'exec "$0" -m knee run {endless}', sys.executable]
    one_paragraph(subprocess.run(command, capture_output=True, text=True, timeout=60), 2, "it is longer than 8 MiB")


# Standard output and error.


def test_a_full_standard_output_is_one_paragraph(here: Path) -> None:
    for arguments in (["run", "tiny.toml", "--no-report"], ["run", "tiny.toml", "--no-report", "--json"], ["list"]):
        with Path("/dev/full").open("w") as full:
            done = knee_says(*arguments, stdout=full, capture_output=False, stderr=subprocess.PIPE)
        one_paragraph(done, 1, "Standard output cannot be written", "No space left on device")
    # The run was done, and its result is there.
    assert knee.Result.load(here / "results" / "tiny").summary["name"] == "tiny"


def test_a_closed_standard_output_is_refused_before_anything_starts(here: Path) -> None:
    close = [sys.executable, "-c", "import os, sys; os.close(1); os.execv(sys.executable, sys.argv[1:])"]
    command = [*close, sys.executable, "-m", "knee", "run", "tiny.toml", "--no-report"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    one_paragraph(done, 2, "Standard output is closed")
    assert names(here) == ["tiny.toml"]


def test_a_closed_standard_error_does_not_put_errors_elsewhere(here: Path) -> None:
    close = [sys.executable, "-c", "import os, sys; os.close(2); os.execv(sys.executable, sys.argv[1:])"]
    command = [*close, sys.executable, "-m", "knee", "run", "helo"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (2, "")


# Files that end nowhere, or are others' secrets.


@pytest.fixture
def little_memory() -> Iterator[None]:
    """One GiB more of memory, and no more: reading all of an endless file fails instead of filling the machine."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_endless_files_are_refused(here: Path, capsys: pytest.CaptureFixture[str], little_memory: None) -> None:
    (here / "endless.toml").symlink_to("/dev/zero")
    (here / "long.toml").write_bytes(b"#" * (9 << 20))
    (here / "cases.csv").symlink_to("/dev/zero")
    (here / "figures.csv").write_bytes(b"case,label,figure,value_ms,count\n" + b"#" * (17 << 20))
    runs = [["run", name] for name in ("/dev/zero", "endless.toml", "long.toml")]
    commands = (*runs, ["fidelity", "cases.csv"], ["fidelity", "figures.csv"], ["search", "endless.toml"])
    for arguments in commands:
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert "it is longer than" in said
        assert said.count("\n") == 1
    (here / "r").mkdir()
    (here / "r" / "manifest.json").symlink_to("/dev/zero")
    assert main(["compare", "r", "r"]) == 2
    assert "not a knee result" in capsys.readouterr().err


def test_a_trace_that_is_none_shows_nothing_of_what_is_in_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "shadow").write_text("root:$6$secret:19000:0:99999:7:::\n")
    (here / "key").write_text("1\n2\nSECRET-KEY\n")
    for name in ("shadow", "key"):
        (here / "t.toml").write_text(TINY.replace('rate = "10 Mbit/s"', f'trace = "{name}"'))
        assert main(["run", "t.toml"]) == 2
        said = capsys.readouterr().err
        assert "secret" not in said.lower()
        assert f"line {1 if name == 'shadow' else 3} of the trace" in said


@pytest.mark.parametrize("count", [256, 10_000])
def test_a_path_of_many_links_is_refused_by_its_key(here: Path, capsys: pytest.CaptureFixture[str], count: int) -> None:
    links = "".join(f'[[links]]\nname = "l{i}"\nrate = "10 Mbit/s"\n' for i in range(count))
    (here / "long.toml").write_text(f'duration = "1 s"\n{links}[[flows]]\ncc = "reno"\nrtt = "20 ms"\n')
    assert main(["run", "long.toml"]) == 2
    assert f"flows[0].path: the path has {count} links; expected at most 255" in capsys.readouterr().err


@pytest.mark.parametrize(("row", "cells"), [("one,1", 2), ("one,1,10mbit,5,20,0,9,21,more,and more", 10)])
def test_a_row_of_the_wrong_length_is_refused_by_its_line(
    here: Path, capsys: pytest.CaptureFixture[str], row: str, cells: int
) -> None:
    head = "case,flow,rate,T,base_rtt_ms,start_s,goodput_mbps,srtt_mean_ms"
    (here / "cases.csv").write_text(f"{head}\none,1,10mbit,5,20,0,9,21\n{row}\n")
    assert main(["fidelity", "cases.csv"]) == 2
    assert f"cases.csv, line 3: {cells} cells in 8 columns" in capsys.readouterr().err


# Processes.


def _run_in_child(seed: int) -> int:
    told = {"duration": "1 s", "link": {"rate": "10 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "20 ms"}], "seed": seed}
    return int(knee.run(told).summary["seed"])


FORKS = """
import multiprocessing, sys
sys.path.insert(0, {here!r})
from test_hostile import _run_in_child
import knee
_run_in_child(1)
# A query starts polars' threads.
knee.run("hello").samples.group_by("flow").len()
for way in sys.argv[1:]:
    with multiprocessing.get_context(way).Pool(2) as pool:
        try:
            print(pool.map(_run_in_child, [2, 3]))
        except knee.RunError as error:
            print(error)
"""


def test_a_process_forked_after_a_run_is_told_so_and_a_spawned_one_works(tmp_path: Path) -> None:
    """It hung for ever: polars' threads are not in the child."""
    (tmp_path / "forks.py").write_text(
        "if __name__ == '__main__':\n" + FORKS.format(here=str(Path(__file__).parent)).replace("\n", "\n    ")
    )
    command = [sys.executable, "-W", "ignore", str(tmp_path / "forks.py"), "fork", "spawn"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    forked_said, spawned = done.stdout.splitlines()
    assert 'multiprocessing.get_context("spawn")' in forked_said
    assert spawned == "[2, 3]"


def test_a_process_forked_before_the_first_run_works() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import multiprocessing\nfrom test_hostile import _run_in_child\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(_run_in_child, [2, 3]))\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[2, 3]\n", done.stderr


def test_every_error_comes_through_from_another_process() -> None:
    """An exception that cannot be made again from its arguments hangs a pool of processes."""
    for error in (
        errors.ScenarioError("f.toml", "flows[0].cc", "it is missing", "expected a name"),
        errors.FolderError("r is taken"),
        errors.RunError("broken"),
        errors.InputError("bad"),
    ):
        back = pickle.loads(pickle.dumps(error))
        assert (type(back), str(back)) == (type(error), str(error))
    assert pickle.loads(pickle.dumps(errors.ScenarioError("f", "k", "x", "y"))).key == "k"


# What is left behind.


def _killed(here: Path) -> Path:
    """Kills a run while it writes into results/tiny; gives what it left."""
    changes = ["--set", "duration=20000 s", "--set", "link.rate=10 Gbit/s", "--set", "link.limit=9999 packets"]
    command = [sys.executable, "-m", "knee", "run", "tiny.toml", "--no-report", "--out", "results/tiny", *changes]
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (left := [*here.glob("results/.tiny.*.partial")]):
        assert time.monotonic() < deadline, "the run never began"
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.wait()
    return left[0]


def test_the_next_run_into_a_place_removes_what_a_killed_one_left(here: Path) -> None:
    left = _killed(here)
    assert left.is_dir()
    (here / "results" / ".other.0123abcd.partial").mkdir()
    assert main(["run", "tiny.toml", "--no-report"]) == 0
    # What is of another place is the next run's into that one.
    assert names(here / "results") == [".other.0123abcd.partial", "tiny"]


def test_what_a_living_run_writes_is_never_touched(here: Path) -> None:
    with runner.writing(here / "r") as living:
        (living / "mine").write_text("x")
        done = knee_says("run", "tiny.toml", "--no-report", "--out", "r")
        assert done.returncode == 0, done.stderr
        assert (living / "mine").read_text() == "x"
        (living / "mine").unlink()
        knee.run("tiny.toml").write_into(living, report=False)
    assert names(here) == ["r", "tiny.toml"]
    assert problems(here / "r") == {}


def test_many_runs_at_once_into_one_place_leave_one_whole_result(here: Path) -> None:
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "knee", "run", "tiny.toml", "--no-report", "--out", "r", "--set", f"seed={k}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for k in range(4)
    ]
    for run in runs:
        _, said = run.communicate(timeout=120)
        # Where two take the empty place in the same instant, one of them is told.
        assert run.returncode == 0 or "cannot be written" in said, said
    assert names(here) == ["r", "tiny.toml"]
    assert problems(here / "r") == {}
    assert knee.Result.load(here / "r").summary["name"] == "tiny"


def test_a_file_is_replaced_whole_or_stays(tmp_path: Path) -> None:
    files.write(tmp_path / "f", "old")
    with pytest.raises(ZeroDivisionError), files.replacing(tmp_path / "f") as beside:  # noqa: PT012
        beside.write_text("half")
        raise ZeroDivisionError
    assert names(tmp_path) == ["f"]
    assert (tmp_path / "f").read_text() == "old"
    with pytest.raises(knee.FolderError, match="cannot be written"):
        files.write(tmp_path / "f" / "g", "new")


# What is read.


def test_a_byte_order_mark_is_refused_by_name(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "tiny.toml").write_text(TINY, encoding="utf-8-sig")
    assert main(["run", "tiny.toml"]) == 2
    assert "tiny.toml:1:1: it begins with a byte order mark (U+FEFF)" in capsys.readouterr().err
    assert names(here) == ["tiny.toml"]


LONG = ".".join(["a"] * 50_000)


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG} = 1",
        f"[{LONG}]",
        f"[[{LONG}]]",
        f"x = {{ {LONG} = 1 }}",
        " . ".join(['"a b"', "'c'"] * 20_000) + " = 1",
    ],
    ids=["key", "table", "list", "inline", "quoted"],
)
def test_a_key_of_many_parts_is_refused_at_once(here: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Each took minutes in Python's parser, which copies the parts so far for each part."""
    (here / "long.toml").write_text(text)
    begin = time.process_time()
    assert main(["run", "long.toml"]) == 2
    assert "it is not valid TOML (it is nested too deeply)" in capsys.readouterr().err
    assert time.process_time() - begin < 20
    assert main(["run", "tiny.toml", "--set", text]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert names(here) == ["long.toml", "tiny.toml"]


def test_text_with_many_dots_is_no_long_key(here: Path) -> None:
    for text in ("0.5, " * 500, "." * 5000, "It is so. " * 500, "x" * 1_000_000, '"' * 5001, "a" + ".a" * 90):
        (here / "tiny.toml").write_text(f"# {text}\n{TINY}")
        assert knee.load("tiny.toml").name == "tiny"


def test_a_current_folder_that_is_gone_is_an_error(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        "import os, sys; os.rmdir(os.getcwd()); sys.argv = ['knee', 'run', 'hello']; import knee.cli; knee.cli.entry()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=gone, capture_output=True, text=True, check=False)
    one_paragraph(done, 2, "The current folder cannot be used (No such file or directory)")


@pytest.mark.parametrize("what", ["nothing", "text", "archive", "folder", "pipe", "loop"])
def test_a_path_that_is_no_result_is_told_before_anything_else(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(files, "_PIPE_PATIENCE_S", 0.1)
    match what:
        case "text":
            (here / "given").write_text("something")
        case "archive":
            (here / "given").write_bytes(b"\x1f\x8b\x08\x00")
        case "folder":
            (here / "given").mkdir()
        case "pipe":
            os.mkfifo(here / "given")
        case "loop":
            (here / "given").symlink_to("given")
    before = names(here)
    for command in (
        ["plot", "given"],
        ["plot", "given", "--kind", "box", "--out", "made"],
        ["compare", "given"],
        ["compare", "given", "given", "--out", "made"],
        ["run", "--from", "given", "1"],
        ["run", "given"],
        ["evaluate", "reno", "--baseline", "given"],
    ):
        assert main(command) == 2, command
        said = capsys.readouterr().err
        assert said.count("\n") == 1, said
        assert said.startswith("knee: given"), said
        assert "cannot be written" not in said
    assert names(here) == before
