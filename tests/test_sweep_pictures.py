"""Figures of sweeps for papers: what they draw, in which formats, and what they refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tomli_w import dumps

from knee.cli import main
from knee.errors import InputError
from knee.figures.register import RUN
from knee.study import sweeps
from knee.study.sweeps import dataset, sweepfile, work
from knee.study.sweeps.points import averaged, quantile_of_t
from knee.view.sweep.pictures import Picture, chart, front

BASE = {"link": {"rate": "10 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "20 ms"}], "duration": "1 s"}
AXES = {
    "link.rate": ["1 Mbit/s", "10 Mbit/s", "100 Mbit/s"],
    "flows.0.cc": ["reno", "cubic"],
    "flows.0.rtt": ["5 ms", "9 ms"],
}


@pytest.fixture
def made(tmp_path: Path) -> sweeps.Sweep:
    """A sweep with made-up figures: run N has N, and a tenth more with the second seed; none of probes and calls."""
    names = RUN.keys() - {"rpm", "mos"}
    definition = sweepfile.read(BASE, AXES, seeds=2)
    writer = dataset.Writer(tmp_path / "s", definition)
    for run in range(1, len(definition) + 1):
        value = (run + 1) // 2 * (1.0 if run % 2 else 1.1)
        writer.add(work.Part([{"run": run, "seed": run, **dict.fromkeys(names, value)}]))
    writer.flush()
    (tmp_path / "s" / "sweep.json").write_text(json.dumps({"format": 2, "definition": definition.plain()}))
    return sweeps.open_sweep(tmp_path / "s")


def test_lines_have_the_means_and_a_band(made: sweeps.Sweep) -> None:
    drawn = chart(made, Picture(figure="jain", over="link.rate", by="flows.0.cc", panels="flows.0.rtt"))
    assert [panel.title for panel in drawn.panels] == ["flows.0.rtt: 5 ms", "flows.0.rtt: 9 ms"]
    (reno, cubic) = drawn.panels[0].lines
    assert list(reno.x) == [1.0, 10.0, 100.0]
    # Points 1, 5 and 9 of the grid, each the mean of N and 1.1 N.
    assert list(reno.y) == pytest.approx([1.05, 5.25, 9.45])
    assert list(cubic.y) == pytest.approx([3.15, 7.35, 11.55])
    assert len(drawn.panels[0].bands) == 2, "bands of confidence"
    assert drawn.x.log
    assert reno.colour != cubic.colour


def test_lines_join_points_only_over_an_axis_with_an_order(made: sweeps.Sweep) -> None:
    """Between two algorithms there is nothing: a line between them would claim values that do not exist."""
    ordered = chart(made, Picture(figure="jain", over="link.rate", by="flows.0.cc")).panels[0]
    names = chart(made, Picture(figure="jain", over="flows.0.cc", by="link.rate")).panels[0]
    assert all(line.width > 0 for line in ordered.lines)
    assert all(line.width == 0 and line.marker and line.half is not None for line in names.lines)
    assert names.bands == []


def test_boxes_and_bars_are_over_the_seeds(made: sweeps.Sweep) -> None:
    """Runs 1 and 2 are the seeds of the first point: 1 and 1.1, so their median is 1.05."""
    given = {"figure": "jain", "over": "link.rate", "by": "flows.0.cc", "at": {"flows.0.rtt": "5 ms"}}
    reno, _ = chart(made, Picture("box", **given)).panels[0].boxes
    assert reno.five[0] == pytest.approx((1.0, 1.025, 1.05, 1.075, 1.1))
    bars, beside = chart(made, Picture("bar", **given)).panels[0].bars
    assert list(bars.y) == pytest.approx([1.05, 5.25, 9.45])
    # Student's t for one degree of freedom, 12.7062, times 0.1 / sqrt(2) / sqrt(2).
    assert bars.half is not None
    assert bars.half[0] == pytest.approx(12.706204736174694 * 0.05)
    assert (beside.x - bars.x).tolist() == pytest.approx([0.4] * 3)


def test_a_distribution_is_over_all_runs(made: sweeps.Sweep) -> None:
    """24 runs; --at leaves 12 of them, 6 of each algorithm."""
    drawn = chart(made, Picture("ecdf", "jain", by="flows.0.cc"))
    (reno, _) = drawn.panels[0].lines
    values = made.runs.collect().filter(pl.col("flows.0.cc") == "reno")["jain"].sort()
    for value in values:
        assert reno.y[np.searchsorted(reno.x, value, side="right") - 1] == pytest.approx((values <= value).mean())
    held = chart(made, Picture("ecdf", "jain", by="flows.0.cc", at={"flows.0.rtt": "9 ms"})).panels[0].lines[0]
    assert np.unique(held.y).tolist() == pytest.approx([k / 6 for k in range(7)])


def test_there_is_no_band_where_all_seeds_give_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A scenario without chance runs three times alike: that says nothing about how far other runs would be apart."""
    path = tmp_path / "s.toml"
    path.write_text(dumps(BASE | {"link": {"rate": "10 Mbit/s", "limit": "20 packets"}}))
    command = ["sweep", str(path), "--over", "link.rate=10 Mbit/s,20 Mbit/s", "--seeds", "3", "--out"]
    assert main([*command, str(tmp_path / "same")]) == 0
    out, said = capsys.readouterr()
    assert "confidence intervals" not in out, "there are none"
    assert "All seeds gave the same figures: only loss, jitter and randomised algorithms depend on the seed" in said
    assert "--vary" in said
    same = sweeps.open_sweep(tmp_path / "same")
    points = averaged(same, same.runs.collect())
    assert all(points[f"{name} half"].null_count() == points.height for name in RUN)
    assert chart(same, Picture(figure="rtt_mean_ms")).panels[0].bands == []
    assert "All seeds gave the same figures" in (tmp_path / "same" / "sweep.html").read_text()
    assert main([*command, str(tmp_path / "varied"), "--vary"]) == 0
    assert "same figures" not in capsys.readouterr().err
    varied = sweeps.open_sweep(tmp_path / "varied")
    assert varied.runs.collect()["rtt_mean_ms"].n_unique() == 6
    assert chart(varied, Picture(figure="rtt_mean_ms")).panels[0].bands
    assert "same figures" not in (tmp_path / "varied" / "sweep.html").read_text()


def test_a_heat_map_has_a_cell_per_point(made: sweeps.Sweep) -> None:
    drawn = chart(made, Picture("heat", "jain", over="link.rate", by="flows.0.cc", at={"flows.0.rtt": "9 ms"}))
    (heat,) = drawn.panels[0].heats
    assert list(heat.z) == [pytest.approx([2.1, 6.3, 10.5]), pytest.approx([4.2, 8.4, 12.6])]


def test_a_pareto_figure_has_all_points_and_the_front(made: sweeps.Sweep) -> None:
    (panel,) = chart(made, Picture("pareto", "utilization", by="flows.0.cc")).panels
    (edge,) = panel.lines
    assert [len(group.x) for group in panel.marks] == [6, 6]
    # Both figures are the same number here, so more use is more delay: nothing is beaten.
    assert len(edge.x) == 12


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40))
def test_the_front_is_what_nothing_beats(points: list[tuple[int, int]]) -> None:
    frame = pl.DataFrame(points, schema={"queue_delay_mean_ms": pl.Float64, "utilization": pl.Float64}, orient="row")
    kept = front(frame, "queue_delay_mean_ms", "utilization")

    def beats(a: Any, b: Any) -> bool:
        return bool(a[0] <= b[0] and a[1] >= b[1] and a != b)

    wanted = {point for point in points if not any(beats(other, point) for other in points)}
    assert {(int(x), int(y)) for x, y in kept.iter_rows()} == wanted


def _network(
    folder: Path, samples: int, others: dict[str, list[str]], value: Callable[[int], float], seeds: int = 2
) -> sweeps.Sweep:
    """A sweep of two algorithms over sampled networks and other axes, in which run N has `value(N)`."""
    axes = {"link.rate": "loguniform(1 Mbit/s, 1 Gbit/s)", "flows.0.rtt": "uniform(5 ms, 90 ms)"}
    definition = sweepfile.read(BASE, axes | others | {"flows.0.cc": ["reno", "cubic"]}, samples=samples, seeds=seeds)
    writer = dataset.Writer(folder, definition)
    rows = [{"run": i, "seed": i, **dict.fromkeys(RUN, value(i))} for i in range(1, len(definition) + 1)]
    writer.add(work.Part(rows))
    writer.flush()
    (folder / "sweep.json").write_text(json.dumps({"format": 2, "definition": definition.plain()}))
    return sweeps.open_sweep(folder)


@settings(max_examples=20, deadline=None)
@given(st.data(), st.integers(2, 30), st.lists(st.sampled_from(["pfifo", "red", "pie"]), unique=True, max_size=3))
def test_a_figure_is_over_all_samples_and_says_what_it_holds(
    data: st.DataObject, samples: int, queues: list[str]
) -> None:
    """A comparison of algorithms in the first of many sampled networks may be the reverse of that over all of them."""
    random = data.draw(st.randoms(use_true_random=False))
    with TemporaryDirectory() as folder:
        made = _network(
            Path(folder) / "s", samples, {"link.queue": queues} if queues else {}, lambda _: random.random()
        )
        runs = made.runs.collect()
        given: dict[str, Any] = {"figure": "jain", "over": "flows.0.cc", "panels": "link.queue" if queues else None}
        for held in (False, True) if queues else (False,):
            if held:
                given["panels"], given["by"] = None, "flows.0.cc"
                runs = runs.filter(pl.col("link.queue") == queues[0])
            boxes, bars = (chart(made, Picture(kind, **given)) for kind in ("box", "bar"))
            where = pl.col("flows.0.cc") == "reno"
            for i in range(len(boxes.panels)):
                mine = (
                    runs.filter(where) if held or not queues else runs.filter(where, pl.col("link.queue") == queues[i])
                )
                assert boxes.panels[i].boxes[0].five[0][2] == pytest.approx(mine["jain"].median())
                assert bars.panels[i].bars[0].y[0] == pytest.approx(mine["jain"].mean())
                networks = mine.group_by("link.rate_mbps").agg(pl.col("jain").mean())["jain"]
                half = quantile_of_t(samples - 1) * float(networks.std() or 0) / samples**0.5  # type: ignore[arg-type]
                assert bars.panels[i].bars[0].half is not None
                assert bars.panels[i].bars[0].half[0] == pytest.approx(half), "networks count, not their seeds"
            assert f"the {samples} samples of link.rate, flows.0.rtt" in boxes.note
            first = f"link.queue = {queues[0]} (the first of {len(queues)})" if queues else ""
            assert (first in boxes.note) == ((held and len(queues) > 1) or not first)


def test_without_by_the_algorithm_makes_the_groups(tmp_path: Path) -> None:
    """30 colours of sampled rates say nothing."""
    made = _network(tmp_path / "s", 30, {"link.queue": ["pfifo", "pie"]}, float)
    for kind in ("lines", "bar", "box", "ecdf", "pareto"):
        (panel,) = chart(made, Picture(kind)).panels
        named = [each.name for each in (*panel.lines, *panel.bars, *panel.boxes, *panel.marks)]
        assert [name for name in named if name != "Pareto front"] == ["reno", "cubic"], kind
    lines = chart(made, Picture(over="link.rate"))
    assert all(line.width == 0 for line in lines.panels[0].lines), "between samples of several keys there is nothing"
    assert lines.note == "At link.queue = pfifo (the first of 2)."
    assert len(lines.panels[0].lines[0].x) == 30


def test_what_is_held_stands_in_the_file(tmp_path: Path) -> None:
    made = _network(tmp_path / "s", 3, {"link.queue": ["pfifo", "pie"]}, float)
    for ending in (".svg", ".html"):
        figure = made.plot(
            tmp_path / f"figure{ending}", kind="box", over="flows.0.cc", by="flows.0.cc", at={"link.queue": "pie"}
        )
        text = re.sub(r"\s+", " ", (tmp_path / f"figure{ending}").read_text())
        assert figure.chart.note == "At link.queue = pie. All runs of the 3 samples of link.rate, flows.0.rtt."
        assert figure.chart.note in text


def test_a_derived_key_follows_all_axes_that_it_is_worked_out_from(tmp_path: Path) -> None:
    """Held at the first rate and RTT it would have one value."""
    axes = {"link.rate": ["10 Mbit/s", "20 Mbit/s"], "flows.0.rtt": ["10 ms", "30 ms"], "flows.0.cc": ["reno", "cubic"]}
    definition = sweepfile.read(BASE, axes, derive={"link.limit": "link.rate * flows.0.rtt"})
    writer = dataset.Writer(tmp_path / "s", definition)
    writer.add(work.Part([{"run": i, "seed": 1, **dict.fromkeys(RUN, float(i))} for i in range(1, 9)]))
    writer.flush()
    (line, _) = chart(sweeps.Sweep(tmp_path / "s", definition, {}), Picture(over="link.limit")).panels[0].lines
    assert line.x.tolist() == [12500.0, 25000.0, 37500.0, 75000.0]


@pytest.mark.parametrize(("ending", "begin"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_the_command_writes_each_format(
    made: sweeps.Sweep, ending: str, begin: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made.folder / f"figure{ending}"
    assert main(["plot", str(made.folder), "--figure", "jain", "--out", str(path)]) == 0
    assert str(path) in capsys.readouterr().out
    assert path.read_bytes().startswith(begin)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--figure", "jane"], "did you mean jain"),
        (["--kind", "lime"], "did you mean lines? There are: lines, bar, box, ecdf, heat, pareto"),
        (["--width", "wide"], "'wide' is no width; expected column (3.5 in), page (7 in), or inches from 1.5 to 30"),
        (["--width", "0.5"], "is no width"),
        (["--font-size", "0"], "expected 4 to 24"),
        (["--over", "link.rat"], "did you mean link.rate"),
        (["--by", "nothing"], "does not vary"),
        (
            ["--at", "link.rate=7 Mbit/s", "--over", "flows.0.rtt"],
            "No point has link.rate = 7 Mbit/s; there are: 1",
        ),
        (["--at", "link.rate"], "is not a key with a value"),
        (["--out", "figure.gif"], ".gif is no format"),
        (["--figure", "mos"], "has the figure mos; expected one of goodput_mbps"),
        (["--kind", "pareto", "--over", "rpm"], "has the figure rpm; expected one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_refused(
    made: sweeps.Sweep, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", str(made.folder), *arguments]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_a_figure_for_a_column_is_as_wide_as_that_and_has_truetype_fonts(made: sweeps.Sweep) -> None:
    """Publishers refuse Type 3, which is what matplotlib embeds by default."""
    path = made.folder / "figure.pdf"
    assert main(["plot", str(made.folder), "--figure", "jain", "--width", "column", "--out", str(path)]) == 0
    data = path.read_bytes()
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ", data)
    assert box is not None
    assert float(box[1]) == 3.5 * 72
    assert b"/Type3" not in data
    assert b"/CIDFontType2" in data


def test_more_lines_than_can_be_told_apart_are_refused(made: sweeps.Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knee.view.sweep.pictures.MOST_LINES", 1)
    with pytest.raises(InputError, match=r"flows\.0\.cc has 2 values; expected at most 1 lines"):
        made.plot(figure="jain", over="link.rate", by="flows.0.cc")


PLOT = {"x": "link.rate", "y": "rtt_p95_ms", "group": "flows.0.cc", "at": {"flows": {"0": {"rtt": "5 ms"}}}}


def test_declared_plots_are_those_that_the_command_draws(tmp_path: Path) -> None:
    """Each kind of ``[[plots]]`` gives the chart of ``knee plot``, byte by byte."""
    plots = [PLOT | {"kind": kind, "file": f"{kind}.html"} for kind in ("lines", "bar", "box", "ecdf", "heat")]
    plots.append({"kind": "pareto", "x": "queue_delay_mean_ms", "file": "pareto.html"})
    definition = sweepfile.read(BASE | {"plots": plots}, AXES)
    made = sweeps.run_sweep(definition, tmp_path / "s")
    made.write_page()
    for kind in ("lines", "bar", "box", "ecdf", "heat"):
        command = ["plot", str(tmp_path / "s"), "--kind", kind, "--figure", "rtt_p95_ms", "--over", "link.rate"]
        more = ["--by", "flows.0.cc", "--at", "flows.0.rtt=5 ms", "--out", str(tmp_path / f"{kind}.html")]
        assert main([*command, *more]) == 0
    assert main(["plot", str(tmp_path / "s"), "--kind", "pareto", "--out", str(tmp_path / "pareto.html")]) == 0
    for name in definition.plots:
        assert (tmp_path / "s" / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_declaring_a_plot_makes_no_run_again(tmp_path: Path) -> None:
    first = sweeps.run_sweep(sweepfile.read(BASE, AXES), tmp_path / "s")
    again = sweeps.run_sweep(sweepfile.read(BASE | {"plots": [PLOT | {"file": "rtt.html"}]}, AXES), tmp_path / "s")
    assert again.aside is None
    assert again.runs.collect().equals(first.runs.collect()), "also wall_s"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x": "link.rat"}, 'plots[0].x: the sweep does not vary "link.rat"; did you mean link.rate?'),
        ({"x": "link.delay"}, 'plots[0].x: the sweep does not vary "link.delay"; '),
        ({"x": 5}, "plots[0].x: 5 is not a key"),
        ({"y": "jane"}, 'plots[0].y: there is no figure "jane"; did you mean jain'),
        ({"kind": "pareto"}, 'plots[0].x: there is no figure "link.rate"; '),
        ({"kind": "bars"}, 'plots[0].kind: "bars" is not known; did you mean bar?'),
        ({"at": {"link.rate": "2 Mbit/s"}}, 'plots[0].at.link.rate: the sweep does not give it "2 Mbit/s"; there are'),
        ({"file": "../jain.png"}, 'plots[0].file: "../jain.png" cannot be the file; '),
        ({"file": "sweep.html"}, 'plots[0].file: "sweep.html" cannot be the file; '),
        ({"file": "jain.gif"}, 'plots[0].file: "jain.gif" cannot be the file; '),
        ({"width": "big"}, 'plots[0].width: "big" is not known; there are: column, page'),
        ({"colour": "red"}, "plots[0].colour: "),
    ],
)
def test_a_plot_that_cannot_be_drawn_is_refused_before_the_first_run(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refused:
        sweepfile.read(BASE | {"plots": [PLOT | {"file": "a.html"} | change]}, AXES)
    assert says in str(refused.value)


def test_two_plots_of_one_file_are_refused() -> None:
    with pytest.raises(InputError, match=r"plots\[1\].file: two plots are named a.html"):
        sweepfile.read(BASE | {"plots": [PLOT | {"file": "a.html"}] * 2}, AXES)
