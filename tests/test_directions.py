"""Flows in both directions and on several links: what is added up, averaged or named together belongs to one link."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import knee
from knee.cli import main
from knee.figures.compared import figures
from knee.study import sweeps
from knee.view.chart import Panel
from knee.view.compare.charts import charts
from knee.view.compare.variants import variants
from knee.view.report.panels import rate
from knee.view.report.prepare import prepare

#: What one interval may carry beyond the rate: packets under way as it begins, in a burst behind the queue.
ROOM = 1.03


@st.composite
def networks(draw: st.DrawFn) -> dict[str, Any]:
    """One to three links of one rate, and few or many flows over some of them in both directions."""
    rate = draw(st.sampled_from([5, 20, 60]))
    links = [f"link{i}" for i in range(draw(st.integers(1, 3)))]
    flows = []
    for way in ("forward", "reverse", draw(st.sampled_from(["forward", "reverse"]))):
        first = draw(st.integers(0, len(links) - 1))
        last = draw(st.integers(first, len(links) - 1))
        cc, rtt = draw(st.sampled_from(["cubic", "bbr", "vegas"])), f"{draw(st.sampled_from([10, 30]))} ms"
        count = draw(st.sampled_from([1, 3, 9, 30]))
        flows.append({"cc": cc, "rtt": rtt, "direction": way, "count": count, "path": links[first : last + 1]})
    queue = {"rate": f"{rate} Mbit/s", "queue": "pfifo", "limit": "50 packets"}
    return {
        "duration": "2 s",
        "links": [{"name": name, **queue, "reverse": queue} for name in links],
        "flows": flows,
        "seed": draw(st.integers(1, 99)),
    }


def _greatest(panel: Panel, words: str) -> float:
    """The greatest value of the lines whose names have these words, Mbit/s."""
    values = [float(np.nanmax(line.y)) for line in panel.lines if words in line.name and not np.isnan(line.y).all()]
    scale = {"Gbit/s": 1000.0, "Mbit/s": 1.0, "kbit/s": 1e-3, "bit/s": 1e-6}[panel.unit]
    return max(values, default=0.0) * scale


def _rate(scenario: dict[str, Any]) -> float:
    return float(scenario["links"][0]["rate"].split()[0])


@settings(max_examples=12, deadline=None)
@given(networks())
def test_no_total_that_a_page_draws_is_above_its_link(scenario: dict[str, Any]) -> None:
    most, results = ROOM * _rate(scenario), [knee.run(scenario), knee.run(scenario | {"seed": 100})]
    for view in map(prepare, results):
        for chart in (rate(view, "throughput"), rate(view, "goodput")):
            for panel in chart.panels:
                assert _greatest(panel, "") <= most, (chart.key, panel.label)
    _, made, _ = variants(results, ["a", "b"])
    over_time, distributions, _ = charts(made)
    rates = [chart for chart in over_time if chart.key.startswith("throughput")]
    loads = [dict(view.loads) for view in map(prepare, results)]
    several = len({link for each in loads for link in each}) > 1
    for chart in rates:
        assert _greatest(chart.panels[0], "") <= most, chart.title
    for chart in distributions:
        if chart.key.startswith("throughput"):
            unit = {"Gbit/s": 1000.0, "Mbit/s": 1.0, "kbit/s": 1e-3}[chart.x.unit]
            # Each line ends beyond its last value, in the room at the end of the axis.
            values = [float(line.x[-2]) * unit for line in chart.panels[0].lines]
            assert max(values) <= most, chart.title
    for chart in (*rates, *distributions):
        assert any(link in chart.title for each in loads for link in each) == several, "the heading names the link"


@settings(max_examples=6, deadline=None)
@given(networks())
def test_no_total_that_a_table_prints_is_above_its_links(scenario: dict[str, Any]) -> None:
    """On one link; what flows on several links carry together is no link's."""
    scenario = scenario | {"links": scenario["links"][:1]}
    scenario["flows"] = [{key: value for key, value in flow.items() if key != "path"} for flow in scenario["flows"]]
    most = ROOM * _rate(scenario)
    result = knee.run(scenario)
    totals = {name: value for name, value in figures(result.summary).items() if name.startswith("goodput of all")}
    assert totals.keys() == {"goodput of all forward flows, Mbit/s", "goodput of all reverse flows, Mbit/s"}
    assert all(value is not None and value <= most for value in totals.values())
    with TemporaryDirectory() as folder:
        runs = knee.sweep(scenario, {"seed": [1, 2]}, out=Path(folder) / "s").runs.collect()
        for name in ("goodput_mbps", "reverse_goodput_mbps"):
            assert (runs[name] <= most).all(), name


def test_the_terminal_names_the_direction_of_a_sweeps_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A goodput of one direction beside the delay of the other, without a word, is that of no network."""
    path = tmp_path / "both.toml"
    path.write_text("""
duration = "2 s"
[link]
rate = "20 Mbit/s"
reverse = { rate = "20 Mbit/s", queue = "pfifo" }
[[flows]]
cc = "vegas"
rtt = "20 ms"
[[flows]]
cc = "cubic"
rtt = "20 ms"
direction = "reverse"
""")
    command = ["sweep", str(path), "--over", "flows.0.rtt=20 ms,40 ms", "--sort", "queue_delay_mean_ms", "--out"]
    assert main([*command, str(tmp_path / "s")]) == 0
    out = capsys.readouterr().out
    assert re.search(r"forward +reverse +forward +reverse", out)
    assert "Forward: bottleneck; reverse: bottleneck (reverse)." in out
    links = sweeps.open_sweep(tmp_path / "s").links.collect()
    for run, link, delay in links.select("run", "link", "queue_delay_mean_ms").iter_rows():
        (line,) = [line for line in out.splitlines() if line.split()[:1] == [str(run)]]
        assert f"{delay:.2f}" in line.split(), link
