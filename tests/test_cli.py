from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from rich.console import Console

from knee import __version__, grounds
from knee.bench import cases as bench
from knee.cli import main, tables
from knee.scenario import registry
from knee.scenario.paths import shipped
from knee.study.shipped import SEARCHES, SWEEPS

TINY = """
duration = "1 s"
link = { rate = "10 Mbit/s", limit = "50 packets" }
flows = [{ cc = "reno", rtt = "20 ms", count = 2 }]
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with tiny.toml in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_run_prints_a_table_and_leaves_a_folder(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.toml", "--no-report"]) == 0
    out = capsys.readouterr().out
    assert "flow 1" in out
    assert "bottleneck" in out
    assert "Jain's index" in out
    assert names(tiny / "results") == ["tiny"]
    assert "summary.json" in names(tiny / "results" / "tiny")


def test_a_run_draws_its_report(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.toml"]) == 0
    assert "results/tiny/report.html" in capsys.readouterr().out
    html = (tiny / "results" / "tiny" / "report.html").read_text(encoding="utf-8")
    assert "flow 1" in html
    assert not (tiny / "results" / "tiny" / "figures").exists()


def test_figures_are_drawn_where_they_are_asked_for(tiny: Path) -> None:
    assert main(["run", "tiny.toml", "--no-report", "--png"]) == 0
    folder = tiny / "results" / "tiny"
    assert "overview.png" in names(folder / "figures")
    assert "report.html" not in names(folder)


def test_the_manifest_keeps_the_command_line(tiny: Path) -> None:
    assert main(["run", "tiny.toml", "--set", "link.rate=5 Mbit/s", "--no-report"]) == 0
    manifest = json.loads((tiny / "results" / "tiny+link.rate=5Mbps" / "manifest.json").read_text())
    assert manifest["command"] == "knee run tiny.toml --set 'link.rate=5 Mbit/s' --no-report"


def test_seeds_that_change_nothing_are_called_so(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.toml", "--seeds", "2", "--no-report"]) == 0
    assert "All seeds gave the same figures" in capsys.readouterr().out
    assert main(["run", "tiny.toml", "--seeds", "2", "--no-report", "--set", "link.loss=0.01"]) == 0
    assert "All seeds gave the same figures" not in capsys.readouterr().out


def test_json_is_the_summary_and_nothing_else(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.toml", "--json", "--no-report", "--out", "r"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tiny / "r" / "summary.json").read_text())
    assert printed["name"] == "tiny"


def test_seeds_leave_a_folder_each_and_a_table_of_their_spread(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.toml", "--seeds", "3", "--set", "seed=5", "--no-report"]) == 0
    assert names(tiny / "results") == ["tiny-seed5", "tiny-seed6", "tiny-seed7"]
    out = capsys.readouterr().out
    assert "seeds 5, 6, 7" in out
    assert "std. dev." in out
    seeds = [json.loads((tiny / "results" / f"tiny-seed{k}" / "summary.json").read_text())["seed"] for k in (5, 6, 7)]
    assert seeds == [5, 6, 7]


def test_several_scenarios_go_into_one_folder(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.toml", "hello", "--set", "duration=1 s", "--no-report", "--json", "--out", "all"]) == 0
    assert [summary["name"] for summary in json.loads(capsys.readouterr().out)] == ["tiny", "hello"]
    assert names(tiny / "all") == ["hello", "tiny"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "helo"], "did you mean hello"),
        (["run", "none.toml"], "cannot be read"),
        (["run", "tiny.toml", "--ground", "moon"], 'no ground "moon"'),
        (["run", "tiny.toml", "--set", "flows.0.cc=renoo"], "knee: --set flows.0.cc=renoo on tiny.toml: flows[0].cc: "),
        (["run", "tiny.toml", "--set", "link.rate=0 bit/s"], "knee: --set 'link.rate=0 bit/s' on tiny.toml: link.rate"),
        (["run", "tiny.toml", "--set", "duration"], 'knee: --set: "duration" is not a change'),
        (["run", "tiny.toml", "--set", "flows=[]"], "flows"),
        (["run", "tiny.toml", "--set", "flows.0.count=1000001"], "1000000"),
        (["run", "tiny.toml", "--set", "flows.0.start=2 s"], "flows[0].start"),
        (["run", "tiny.toml", "--set", "link={trace='none.down'}"], "on tiny.toml: link.trace: the trace"),
        (["run", "tiny.toml", "tiny.toml"], "Two runs would write"),
        (["run", "tiny.toml", "--out", "tiny.toml"], "not a knee result"),
        (["run", "tiny.toml", "--out", "taken"], "not a knee result"),
        (["run"], "Missing argument"),
        (["run", "tiny.toml", "--seeds", "0"], "--seeds"),
        (["run", "tiny.toml", "--unknown"], "--unknown"),
        (["rum"], "rum"),
        (["list", "queue"], "did you mean queues"),
        (["list", "cc", "renoo"], "did you mean reno"),
        (["list", "sweeps", "low-dela"], "did you mean low-delay"),
        (["bench", "reno3"], "did you mean reno2"),
        (["compare", "taken"], "is not a knee result"),
        (["compare", "taken", "taken"], "not a knee result"),
    ],
    ids=" ".join,
)
def test_refused_input_is_exit_code_2_one_paragraph_and_nothing_written(
    tiny: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (tiny / "taken").mkdir()
    (tiny / "taken" / "thesis.tex").write_text("years of work")
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.startswith("knee: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert names(tiny) == ["taken", "tiny.toml"]
    assert names(tiny / "taken") == ["thesis.tex"]


def test_a_bad_second_scenario_stops_the_first(tiny: Path) -> None:
    assert main(["run", "tiny.toml", "helo"]) == 2
    assert names(tiny) == ["tiny.toml"]


def test_debug_shows_the_traceback(tiny: Path) -> None:
    with pytest.raises(Exception, match="did you mean hello"):
        main(["run", "helo", "--debug"])


def test_a_failed_run_is_exit_code_1(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the engine stopped")

    monkeypatch.setattr("knee._core.simulate", broken)
    assert main(["run", "tiny.toml"]) == 1
    assert "the engine stopped" in capsys.readouterr().err
    assert names(tiny) == ["tiny.toml"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_is_exit_code_1_and_leaves_nothing(tiny: Path, number: signal.Signals) -> None:
    # Hours of simulated time on a fast link: it does not end by itself within the test.
    changes = ["--set", "duration=20000 s", "--set", "link.rate=10 Gbit/s", "--set", "link.limit=9999 packets"]
    command = [sys.executable, "-m", "knee", "run", "tiny.toml", *changes]
    with subprocess.Popen(command, cwd=tiny, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        deadline = time.monotonic() + 60
        while names(tiny) == ["tiny.toml"]:
            assert time.monotonic() < deadline, "the run never began"
            time.sleep(0.05)
        time.sleep(0.2)
        run.send_signal(number)
        out, err = run.communicate(timeout=30)
    assert run.returncode == 1
    assert out == ""
    assert "interrupted" in err
    assert "Traceback" not in err
    assert names(tiny) == ["tiny.toml"]


def test_an_interrupt_within_generated_code_is_exit_code_1_too(tmp_path: Path) -> None:
    """Python kills itself by SIGINT at its end if exec has raised KeyboardInterrupt, even where that was caught."""
    program = """
    import sys
    from knee import cli

    def app(*_, **__):
        exec("raise KeyboardInterrupt")

    cli.app = app
    sys.exit(cli.main(["list"]))
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "program"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr[:18]) == (1, "knee: interrupted;")


def test_lists_show_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for name in [*shipped(), *SWEEPS, *SEARCHES, *registry.congestion_controls(), *registry.queues()]:
        # Classes that other tests of this process have defined are not listed.
        assert name in out or name.startswith("python:")


def test_details_of_an_algorithm_are_its_declared_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "cc", "lola"]) == 0
    out = capsys.readouterr().out
    for name in registry.congestion_controls()["lola"].params:
        assert name in out


def test_results_stand_side_by_side(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rate in ("10", "20"):
        main(["run", "tiny.toml", "--no-report", "--set", f"link.rate={rate} Mbit/s", "--out", rate])
    capsys.readouterr()
    assert main(["compare", "10", "20"]) == 0
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if "goodput of all flows" in line)
    slow, fast = (float(word) for word in row.split()[-2:])
    assert 1.5 < fast / slow < 2.5


@pytest.mark.packages
def test_the_doctor_tries_every_ground(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert all(f" {name} " in said for name in grounds.GROUNDS)
    assert f"core {__version__} simulates" in said


def test_the_benchmark_measures_in_a_process_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from knee.scenario import load

    monkeypatch.setitem(bench.CASES, "reno2", ("small", lambda: load("hello", ["duration=1 s", "flows.0.cc=reno"])))
    assert main(["bench", "reno2", "--json", "--runs", "3"]) == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    assert case["name"] == "reno2"
    # 100 Mbit/s carry 8256 packets of 1514 bytes in a second.
    assert 7000 < case["packets"] < 8257
    assert case["packets_per_s"] == pytest.approx(case["packets"] / case["wall_s"])
    # The interpreter and the core alone; polars and matplotlib would take more than 60.
    assert 5 < case["peak_rss_mib"] < 60


def test_the_benchmarks_are_those_of_the_documents() -> None:
    reno2, lola18, cubic10k = (bench.CASES[name][1]() for name in ("reno2", "lola18", "cubic10k"))
    assert [sum(flow.count for flow in case.flows) for case in (reno2, lola18, cubic10k)] == [2, 18, 10_000]
    assert [case.duration // 10**9 for case in (reno2, lola18, cubic10k)] == [20, 268, 10]


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"knee {__version__}\n"
    assert main([]) == 0
    assert "Commands:" in capsys.readouterr().out
    assert main(["run", "--help"]) == 0
    assert "--seeds" in capsys.readouterr().out


def test_import_alone_is_small() -> None:
    code = "import sys, knee; print('polars' in sys.modules, 'pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.split() == ["False", "False"]


def test_a_run_fits_a_terminal_of_eighty_columns(tiny: Path) -> None:
    """Rich folds what does not fit; the labels of flows must not be broken up, letter by letter."""
    assert main(["run", "tiny.toml", "--no-report", "--json"]) == 0
    summary = json.loads((tiny / "results" / "tiny" / "summary.json").read_text())
    shown = io.StringIO()
    tables.show_summary(Console(file=shown, width=80), summary)
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert sum("flow 1" in line or "flow 2" in line for line in lines) == 2


def test_a_run_with_finite_flows_fits_a_terminal_of_eighty_columns(tiny: Path) -> None:
    """They have a column more, for the time at which they were done."""
    (tiny / "finite.toml").write_text(TINY.replace("count = 2", 'count = 2, bytes = "300 kB"'))
    assert main(["run", "finite.toml", "--no-report"]) == 0
    summary = json.loads((tiny / "results" / "finite" / "summary.json").read_text())
    for seconds in (0.4567, 12.345, 123.456):
        for flow in summary["flows"]:
            flow["completion_s"] = seconds
        shown = io.StringIO()
        tables.show_summary(Console(file=shown, width=80), summary)
        lines = shown.getvalue().splitlines()
        assert max(map(len, lines[:-1])) <= 80
        assert sum("flow 1" in line or "flow 2" in line for line in lines) == 2


@pytest.mark.parametrize("case", bench.CASES)
def test_every_case_of_the_benchmark_is_a_scenario(case: str) -> None:
    assert bench.CASES[case][1]().duration > 0
