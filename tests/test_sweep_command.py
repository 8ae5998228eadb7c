"""The command ``knee sweep``: its table, its dry run, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from knee.cli import main
from knee.errors import InputError
from knee.figures.register import RUN
from sweep_examples import TINY, of


def test_the_command_leaves_its_table_and_page(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sweep", "tiny.toml", "--over", "link.rate=5 Mbit/s,10 Mbit/s", "--over", "flows.0.cc=reno,cubic"]
    assert main(command) == 0
    assert "results/sweep-tiny/sweep.html" in capsys.readouterr().out
    out = tiny / "results" / "sweep-tiny"
    assert sorted(path.name for path in out.iterdir()) == ["data", "sweep.html", "sweep.json", "sweep.parquet"]
    frame = pl.read_parquet(out / "sweep.parquet")
    assert frame.height == 4
    # Twice the rate carries twice as much, within what slow start costs.
    by_rate = frame.group_by("link.rate_mbps", maintain_order=True).agg(pl.col("goodput_mbps").mean())["goodput_mbps"]
    assert by_rate[1] / by_rate[0] == pytest.approx(2, rel=0.15)
    assert main(command) == 0
    assert pl.read_parquet(out / "sweep.parquet").equals(frame), "nothing ran again: wall_s is the same"


def test_the_terminal_sorts_and_counts(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    over = "link.limit=10 packets,100 packets,30 packets"
    assert main(["sweep", "tiny.toml", "--over", over, "--sort", "queue_delay_mean_ms", "--rows", "2"]) == 0
    printed = capsys.readouterr().out
    rows = [line.split()[:2] for line in printed.splitlines() if "packets" in line and line.split()[0].isdigit()]
    assert rows == [["1", "10"], ["3", "30"]], "least delay first"
    assert "and 1 more points sorted by mean queueing delay" in printed
    assert main(["sweep", "tiny.toml", "--over", over, "--sort", "jane"]) == 2
    assert "did you mean jain" in capsys.readouterr().err


def test_every_figure_has_a_head_that_fits() -> None:
    heads = [figure.head for figure in RUN.values()]
    assert all(heads)
    assert max(len(line) for head in heads for line in head.split("\n")) <= 8


def test_words_wrap_whole_on_a_narrow_terminal(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    over = ["--over", "flows.*.cc=timely,ledbat", "--over", "link.limit=20 packets,200 packets"]
    assert main(["sweep", "tiny.toml", *over, "--sort", "queue_delay_p95_ms"]) == 0
    printed = capsys.readouterr().out
    words = {word for line in printed.splitlines() for word in line.split()}
    assert words >= {"timely", "ledbat", "packets", "flows.*.", "limit"}
    assert max(len(line.rstrip()) for line in printed.splitlines()) <= 80


def test_a_dry_run_counts_and_writes_nothing(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knee.bench.cases.case", lambda name: {"packets_per_s": 5e3})
    assert (
        main(
            [
                "sweep",
                "tiny.toml",
                "--over",
                "link.rate=5 Mbit/s,10 Mbit/s",
                "--seeds",
                "500",
                "--dry-run",
                "--jobs",
                "2",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    # Mean 7.5 Mbit/s for 2 s in packets of 1500 bytes: 1250 packets, 1000 times, at 10,000 a second: two minutes.
    assert "1 000 runs, some 1.2e+06 packets: about 2.1 minutes on 2 cores" in printed
    assert sorted(path.name for path in tiny.iterdir()) == ["grid.toml", "tiny.toml"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to sweep"),
        (["--over", "link.rate"], "is not an axis"),
        (["--over", "link.rate="], "is not an axis"),
        (["--over", "link.rate=5 Mbit/s,,6 Mbit/s"], "is not an axis"),
        (["--over", "link.rate=5 Mbit/s,5 Mbit/s"], "twice"),
        (["--over", "link.rate=5 Mbit/s", "--over", "link.rate=6 Mbit/s"], "twice"),
        (["--over", "link.rate=5 Mbit/s,fast"], "link.rate = fast: link.rate"),
        (["--over", "link.rat=5 Mbit/s"], "did you mean rate"),
        (["--over", "flows.7.cc=reno"], "flows.7"),
        (["--over", "seed=1,2", "--seeds", "2"], "both set the seed"),
        (["--over", "seed=linear(1,10000,10000)", "--over", "flows.0.count=linear(1,10000,10000)"],
         "100000000 runs: 10000 (seed) x 10000 (flows.0.count) x 1 seeds; expected at most 10000000"),
        (["--over", "seed=1,2", "--out", "tiny.toml"], "is not replaced"),
        (["--over", "link.rate=1 Mbit/s,2 Mbit/s", "--over", "flows.0.rtt=1 ms,2 ms,3 ms", "--zip",
          "link.rate,flows.0.rtt"], "link.rate has 2 values, flows.0.rtt has 3 values"),
        (["--over", "link.rate=1 Mbit/s,2 Mbit/s", "--over", "flows.0.rtt=1 ms", "--zip",
          "link.rate,flows.0.rtt"], "link.rate has 2 values, flows.0.rtt has 1 value;"),
        (["--over", "link.rate=1 Mbit/s", "--zip", "link.rate,link.limit"], "link.limit is tied but has no values"),
        (["--over", "link.rate=uniform(1 Mbit/s, 9 Mbit/s)"], "--samples 100"),
        (["--over", "seed=1,2", "--samples", "5"], "nothing is sampled"),
        (["--over", "link.rate=uniform(1 Mbit/s, 9 Mbit/s)", "--samples", "5", "--sampling", "latino"], "mean latin"),
        (["--over", "seed=1,2", "--derive", "link.limit"], "is not a key with an expression"),
        (["--over", "seed=1,2", "--derive", "link.limit=2 * link.rat"], "does not say link.rat"),
        (["--over", "link.limit=9 kB", "--derive", "link.limit=link.rate * flows.0.rtt"], "values and an expression"),
        (["--over", "flows.0.cc=reno,bbr", "--over", "flows.*.cc=cubic,lola"], "flows.*.cc: it sets flows.0.cc again"),
        (["--over", "link.limit=1 packet,9 packets", "--over", "link={rate='1 Mbit/s'},{rate='2 Mbit/s'}"],
         "link: it sets link.limit"),
        (["--over", "link.rate=1 Mbit/s,2 Mbit/s", "--derive", "links.0.rate='2 Mbit/s' + link.rate"],
         "it sets link.rate again"),
        (["--over", "seed=1,2", "--derive", "link.limit='9 kB'", "--derive", "link.limit='8 kB'"], "link.limit twice"),
        (["--over", "seed=1,2", "--set", "link.rate=fast"], "fast"),
        (["--over", "seed=1,2", "--set", "run.ground=moon"], "moon"),
        (["--over", "seed=1,2", "--dask", "nonsense"], "nonsense"),
        (["--over", "seed=1,2", "--series", "--save-runs"], "both given"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)  # fmt: skip
def test_bad_input_is_refused_and_nothing_written(
    tiny: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["sweep", "tiny.toml", *arguments]) in ((2,) if "--dask" not in arguments else (1, 2))
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in tiny.iterdir()) == ["grid.toml", "tiny.toml"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("[sweep]\novr = 1", "sweep.ovr: unknown key; did you mean over"),
        ("[sweep]\nseeds = 0\n[sweep.over]\nlink.rate = ['1 Mbit/s']", "seeds"),
        ("[sweep]\nseeds = 'two'", "sweep.seeds"),
        ("[sweep]\nzip = ['link.rate']", "sweep.zip"),
        ("[sweep]\n", "nothing to sweep"),
        ("[sweep.over]\nlink.rate = []", "link.rate: the list of values is empty"),
        ("[sweep.derive]\nlink.limit = 5", "sweep.derive.link.limit"),
        ("[sweep.over]\nlink.rate = ['1 Mbit/s']\n[sweep.derive]\nlink.limit = '2 +'", "derive.link.limit"),
        ("[sweep.over]\nlink.rate = 'log(1 Mbit/s, 9 Mbit/s)'", "expected log(FROM, TO, NUMBER)"),
    ],
)
def test_a_bad_sweep_file_is_refused_by_key(
    tiny: Path, capsys: pytest.CaptureFixture[str], table: str, words: str
) -> None:
    (tiny / "bad.toml").write_text(TINY + table)
    assert main(["sweep", "bad.toml"]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "bad.toml" in err


def test_a_sweep_file_is_no_scenario(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "grid.toml"]) == 2
    assert "run it with knee sweep" in capsys.readouterr().err


def test_an_unknown_scenario_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean hello"):
        of("helo", "seed=1")


@pytest.mark.parametrize("command", ["sweep", "search"])
def test_an_interruption_says_that_runs_are_kept_and_where(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def interrupt(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("knee.study.sweeps.work.perform", interrupt)
    more = ["--figure", "jain", "--goal", "min"] if command == "search" else []
    assert main([command, "tiny.toml", "--over", "link.limit=9 kB,8 kB,7 kB", "--out", "s", *more]) == 1
    said = capsys.readouterr().err
    assert said == "knee: interrupted; finished runs are kept in s; the same command continues from there.\n"


def test_the_table_of_points_has_all_figures_on_a_narrow_terminal(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 80 columns six keys left no room for what was queued, used and lost."""
    monkeypatch.setenv("COLUMNS", "80")
    keys = ["link.rate=10 Mbit/s,20 Mbit/s", "link.queue=pfifo,fq_codel", "flows.*.rtt=5 ms,160 ms", "var.bdps=1,2"]
    over = [word for key in [*keys, "flows.0.cc=cubic,daimd", "duration=1 s"] for word in ("--over", key)]
    probes = ["--set", 'probes=[{rtt="5 ms"}]', "--derive", "link.limit=var.bdps * link.rate * '30 ms'"]
    assert main(["sweep", "tiny.toml", *over, *probes, "--rows", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "At duration = 1 s:" in lines
    assert all(len(line) <= 80 for line in lines[:10])
    shown = "\n".join(lines)
    for head in ("total", "Jain", "queued", "used", "lost", "latency"):
        assert head in shown
    first = next(line for line in lines if line.split()[:1] == ["1"])
    assert len(first.split()) == 1 + 7 + 6, "the run; 10 Mbit/s, pfifo, 5 ms, 1, cubic; six figures"


def test_values_that_are_tables_are_shown_as_a_file_has_them(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    flows = 'flows=[{cc="reno",rtt="20 ms"}],[{cc="cubic",rtt="20 ms",tls=false}]'
    assert main(["sweep", "tiny.toml", "--over", flows]) == 0
    assert '[{cc = "cubic", rtt = "20 ms", tls = false}]' in capsys.readouterr().out


def test_a_row_whose_file_has_changed_is_made_again_with_a_warning(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tiny / "t").write_text("1\n")
    link = "link={trace='t',limit='9 packets'}"
    assert main(["sweep", "tiny.toml", "--set", link, "--over", "seed=1,2", "--out", "s"]) == 0
    assert main(["sweep", "grid.toml", "--out", "g"]) == 0
    capsys.readouterr()
    for folder in ("s", "g"):
        assert main(["run", "--from", folder, "2", "--no-report", "--out", "r"]) == 0
        assert capsys.readouterr().err == ""
    (tiny / "t").write_text("2\n")
    assert main(["run", "--from", "s", "2", "--no-report", "--out", "r"]) == 0
    assert "A file that run 2 of s was made from has changed since" in capsys.readouterr().err


def test_remarks_on_runs_are_printed_once_with_the_number_of_runs(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    over = ["--over", "link.queue=pfifo,codel", "--over", "flows.0.cc=reno,cubic"]
    assert main(["sweep", "tiny.toml", *over, "--set", "link.model=docsis", "--set", "link.rate=50 Mbit/s"]) == 0
    found = [line for line in capsys.readouterr().err.splitlines() if "takes the medium for congestion" in line]
    assert len(found) == 1
    assert "(2 of 4 runs, the first is run 3)" in found[0]


def test_a_remark_on_what_a_run_showed_is_in_the_data_set(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As ``knee run`` says it: here nothing was marked although the link was full."""
    command = ["sweep", "tiny.toml", "--set", "flows.0.cc=prague", "--set", "link.queue=fq_codel"]
    command += ["--set", "link.queue_params={ce_threshold='20 ms'}", "--set", "link.limit=10 packets"]
    command += ["--set", "duration=5 s", "--set", "flows.0.count=1", "--set", "link.rate=20 Mbit/s"]
    assert main([*command, "--over", "flows.0.rtt=7 ms,8 ms"]) == 0
    assert "No queue marked a packet" in capsys.readouterr().err


def test_the_terminal_says_that_figures_are_means_over_seeds(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    over = ["--over", "flows.0.cc=reno,cubic", "--seeds", "3", "--vary"]
    assert main(["sweep", "tiny.toml", *over]) == 0
    assert "Means over 3 seeds" in capsys.readouterr().out
    assert main(["sweep", "tiny.toml", "--over", "flows.0.cc=reno,cubic"]) == 0
    assert "Means over" not in capsys.readouterr().out


def test_the_time_that_finite_flows_take_is_a_figure(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """100 kB and 10 MB over 10 Mbit/s for 2 s: the second does not finish, so there is no time for it."""
    assert main(["sweep", "tiny.toml", "--over", "flows.0.bytes=100 kB,10 MB"]) == 0
    assert "losttransfertook\n" in capsys.readouterr().out.replace(" ", "")
    times = pl.read_parquet("results/sweep-tiny/sweep.parquet")["completion_s"].to_list()
    # Two flows of 69.06 segments of 1514 bytes.
    assert times[0] > 2 * 100e3 * 8 / 10e6
    assert times[1] is None
