"""The report: what it shows equals the result, stays small, loads nothing, and draws whatever a run can give."""

import json
import re
import struct
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from knee.errors import InputError
from knee.view import pages
from knee.view.chart import POINTS, thin_band, thin_line
from knee.view.numbers import NONE, decimals_for, fixed, number, rate_unit
from knee.view.palette import flow_colours
from knee.view.report import headline, plot, tables, write_figures, write_report
from knee.view.report.panels import CHARTS, fairness, rate, rtt
from knee.view.report.prepare import MAX_PICKED, held, jain, prepare, total
from synthetic_results import PERIOD_S, ROUND, SyntheticResult, synthetic

FIGURES = ("throughput", "rtt", "cwnd", "queue", "jain", "overview")
SECTIONS = ("figures", "flows", "links", "fairness", "reproduce", "events", "scenario", "manifest")
CASES = {
    "two": lambda: synthetic(2, stagger=10.0),
    "one": lambda: synthetic(1, cc=["cubic"], duration=20.0, drops=20),
    "eighteen": lambda: synthetic(18, duration=268.0, stagger=4.0),
    "many": lambda: synthetic(300, cc=["cubic", "bbr"], duration=3.0),
    "no rtt": lambda: synthetic(1, duration=10.0, rtt=False),
    "no events": lambda: synthetic(3, duration=10.0, events=False),
}


@pytest.fixture(scope="module", params=list(CASES))
def case(request: pytest.FixtureRequest) -> SyntheticResult:
    return CASES[request.param]()


class Page(HTMLParser):
    """What the page loads, its ids, its cells by key, and its text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.cells: dict[str, list[tuple[str, str]]] = {}
        self.words: list[str] = []
        self.policy = ""
        self._inside: list[str] = []
        self._cell: tuple[str, str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.loads += [given[key] for key in ("src", "href", "data", "srcset", "poster") if key in given]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if "id" in given:
            self.ids.append(given["id"])
        if tag in ("script", "style"):
            self._inside.append(tag)
        if tag == "td":
            self._cell = (given["data-key"], given["data-value"])
            self.cells.setdefault(given["data-key"], []).append((given["data-value"], ""))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside.pop()
        if tag == "td":
            self._cell = None

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.words.append(data)
        if self._cell:
            key, value = self._cell
            self.cells[key][-1] = (value, data)


def write(result: SyntheticResult, folder: Path) -> tuple[str, Page]:
    write_report(result, folder / "report.html")
    text = (folder / "report.html").read_text(encoding="utf-8")
    return text, Page(text)


def names(chart: dict[str, Any]) -> list[str]:
    """The names of a chart's series."""
    items = [item for panel in chart["panels"] for item in panel["items"]]
    return [item["name"] for item in items if item["kind"] in ("line", "band", "marks")]


def chart_data(text: str) -> dict[str, dict[str, Any]]:
    found = re.findall(r'<script type="application/json" data-for="chart-(\w+)">(.*?)</script>', text, re.S)
    return {key: json.loads(data) for key, data in found}


# The page


def test_page_loads_nothing_and_has_every_section(case: SyntheticResult, tmp_path: Path) -> None:
    text, page = write(case, tmp_path)
    assert page.loads == []
    assert not re.search(r"@import|url\(\s*['\"]?http", text.split("</style>")[0])
    assert "default-src 'none'" in page.policy, "the browser itself refuses to load anything"
    scripts = page.policy.count("'sha256-")
    assert scripts == len(pages.CHARTS), "and to run anything but the library and what draws with it"
    assert [key for key in page.ids if key in SECTIONS] == list(SECTIONS)
    for figure in ("throughput", "rtt", "cwnd", "queue", "jain"):
        assert figure in page.ids
    assert text.count("leeoniya/uPlot (v") == 1, "the library is inside, once"
    assert len(text.encode()) < 400_000


def test_cells_carry_the_summary(tmp_path: Path) -> None:
    """Each figure of flows, links and fairness stands in a cell, exactly in the attribute, rounded in the text."""
    result = CASES["eighteen"]()
    _, page = write(result, tmp_path)
    flows, (link,) = result.summary["flows"], result.summary["links"]
    for key in set(flows[0]) - {"flow", "label"}:
        exact = [value for value, _ in page.cells[key]]
        assert [str(flow[key]) if flow[key] is not None else "" for flow in flows] == exact[: len(flows)], key
    for key, value in (link | result.summary["fairness"]).items():
        if key not in ("link", "links"):
            assert str(value) in [exact for exact, _ in page.cells[key]], key
    # By hand: 868.8 Mbit/s at four digits, 99.123 % at one decimal, a count in groups of three.
    shown = page.cells["throughput_mbps"][0]
    assert float(shown[1]) == pytest.approx(float(shown[0]), abs=0.05)
    assert page.cells["utilization"] == [("0.99123", "99.1")]
    assert page.cells["sent_packets"][0] == ("1234567", "1\u202f234\u202f567")


def test_rates_of_a_fast_link_are_shown_in_gbit(tmp_path: Path) -> None:
    result = synthetic(2, duration=10.0)
    for flow, goodput in zip(result.summary["flows"], (4925.4, 812.0), strict=True):
        flow["goodput_mbps"] = goodput
    _, page = write(result, tmp_path)
    assert page.cells["goodput_mbps"] == [("4925.4", "4.925"), ("812.0", "0.812")]


def test_null_is_a_dash(tmp_path: Path) -> None:
    _, page = write(CASES["no rtt"](), tmp_path)
    for key in ("rtt_mean_ms", "rtt_p99_ms", "completion_s", "jain", "convergence_s"):
        assert page.cells[key] == [("", "–")], key


def test_keys_of_a_newer_summary_are_shown(tmp_path: Path) -> None:
    result = synthetic(1, duration=5.0)
    result.summary["flows"][0]["ecn_marked_packets"] = 17
    _, page = write(result, tmp_path)
    assert page.cells["ecn_marked_packets"] == [("17", "17")]


def test_labels_and_scenario_cannot_inject_markup(tmp_path: Path) -> None:
    result = synthetic(2, duration=5.0)
    evil = '</script><img src="http://example.org/x">'
    result.summary["flows"][0]["label"] = evil
    result.scenario_toml = f"title = '{evil}'\n"
    text, page = write(result, tmp_path)
    assert page.loads == []
    assert evil not in text
    assert evil in "".join(page.words), "shown as text"
    assert evil in names(chart_data(text)["throughput"])


def test_scenario_manifest_and_command_are_there(tmp_path: Path) -> None:
    result = synthetic(2, duration=5.0)
    text, page = write(result, tmp_path)
    words = "".join(page.words)
    assert result.scenario_toml in words
    assert "knee run scenario.toml --ground sim" in words
    assert "commit 0123abc" in words
    assert page.cells["host"] == [("a host", "a host")]
    assert "<title>2 &lt;synthetic&gt; flows</title>" in text


def test_ten_thousand_flows_make_no_long_page(tmp_path: Path) -> None:
    text, page = write(synthetic(3000, cc=["cubic", "bbr"], duration=3.0), tmp_path)
    assert len(page.cells["goodput_mbps"]) == 2 * 5 + 60, "two spreads over flows and the first sixty"
    assert "Of 3000 flows, show" in text
    assert "Quantiles over all flows" in text
    assert all(len(names(chart)) <= 8 + 3 * MAX_PICKED for chart in chart_data(text).values())


# Drawings


def png_size(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    return width, height


@pytest.mark.parametrize("case", ["eighteen", "no rtt"], indirect=True)
def test_png_figures_have_the_size_of_a_column(case: SyntheticResult, tmp_path: Path) -> None:
    paths = write_figures(case, tmp_path / "figures")
    assert [path.name for path in paths] == [f"{name}.png" for name in FIGURES]
    for path in paths:
        width, height = png_size(path)
        assert width == 7 * 160
        assert height >= 3.2 * 160
    sizes = {path.stem: png_size(path)[1] for path in paths}
    assert sizes["rtt"] == sizes["cwnd"] == sizes["jain"] == 512
    assert sizes["overview"] > sizes["queue"] > sizes["rtt"], "panels are stacked"


def test_every_figure_can_be_plotted(case: SyntheticResult) -> None:
    for what in CHARTS:
        chart = plot(case, what).chart
        if what != "completion" and not what.endswith("_cdf"):
            assert (chart.x.low, chart.x.high) == (0, case.summary["duration_s"])
        assert len({line.name for panel in chart.panels for line in panel.lines}) <= 18 + 4


def test_unknown_figure_is_refused_with_the_names() -> None:
    with pytest.raises(InputError, match="'cwdn'; there are overview, throughput, rtt, cwnd, queue, jain"):
        plot(synthetic(1, duration=5.0), "cwdn")


def test_a_flow_has_one_colour_and_dash_everywhere() -> None:
    result = synthetic(18, duration=20.0)
    seen: dict[str, set[tuple[str, str]]] = {}
    for what in ("throughput", "rtt", "cwnd", "goodput", "overview"):
        for line in (line for panel in plot(result, what).chart.panels for line in panel.lines):
            if line.name.startswith("flow"):
                seen.setdefault(line.name, set()).add((line.colour, line.dash))
    assert len(seen) == 18
    assert all(len(looks) == 1 for looks in seen.values())
    assert len({look for looks in seen.values() for look in looks}) == 18


def test_no_rtt_is_said_not_drawn(tmp_path: Path) -> None:
    text, _ = write(CASES["no rtt"](), tmp_path)
    assert "No RTT sample was taken." in text
    assert "rtt" not in chart_data(text)


@pytest.mark.parametrize("count", [1, 2, 7, 8, 18, 40])
def test_colours_differ(count: int) -> None:
    colours = flow_colours(count)
    assert len(set(colours)) == count
    assert all(re.fullmatch("#[0-9A-F]{6}", colour) for colour in colours)


# What is drawn


def test_rounds_are_the_stays_in_fair_flow_balancing() -> None:
    view = prepare(CASES["two"]())
    assert view.rounds is not None
    assert view.rounds.flow.number == 1
    wanted = [(at + ROUND[0], at + ROUND[1]) for at in np.arange(0, 150, PERIOD_S)]
    assert view.rounds.spans == [pytest.approx(span) for span in wanted]


def test_a_round_goes_on_over_a_timeout_and_ends_with_the_flow() -> None:
    result = synthetic(1, duration=9.0, events=False)
    rows = [(1.0, "fair_flow_balancing"), (2.0, "timeout"), (3.0, "cwnd_hold"), (8.0, "fair_flow_balancing")]
    result.events = pl.DataFrame(
        [(at, 1, None, name, 0.0) for at, name in rows], schema=result.events.schema, orient="row"
    )
    view = prepare(result)
    assert view.rounds is not None
    assert view.rounds.spans == [(1.0, 3.0), (8.0, 9.0)]
    assert view.timeouts.tolist() == [2.0]


def test_what_the_simulator_reports_of_a_flow_ends_no_round_and_changes_are_told() -> None:
    """The simulator's own words beside phases: drops at links, recovery, cwr; rate, loss_probability, limit, rtt."""
    result = synthetic(1, duration=9.0, events=False)
    rows: list[tuple[float, int | None, str | None, str]] = [(1.0, 1, None, "fair_flow_balancing")]
    rows += [(1.5, 1, "bottleneck", "drop"), (2.0, 1, None, "recovery"), (2.5, 1, None, "cwr")]
    rows += [(2.6, 1, "bottleneck", "guard_interval")]
    changes = [(3.0, None, "rate"), (3.5, None, "loss_probability"), (4.0, None, "limit"), (4.5, 1, "rtt")]
    rows += [(at, flow, None if flow else "bottleneck", name) for at, flow, name in changes]
    rows += [(6.0, 1, None, "cwnd_hold")]
    result.events = pl.DataFrame([(*row, 0.0) for row in rows], schema=result.events.schema, orient="row")
    view = prepare(result)
    assert view.rounds is not None
    assert view.rounds.spans == [(1.0, 6.0)]
    assert view.changes.tolist() == [3.0, 3.5, 4.0, 4.5]


def test_a_sample_between_gaps_is_drawn_over_its_interval() -> None:
    """A starved flow has an RTT sample every few intervals: single points that a line would not show."""
    gap = np.nan
    assert held(np.array([gap, 5.0, gap, gap, 7.0, 8.0, gap, 9.0])).tolist() == pytest.approx(
        [5.0, 5.0, gap, gap, 7.0, 8.0, 9.0, 9.0], nan_ok=True
    )
    result = synthetic(1, duration=10.0)
    every_fifth = pl.when(pl.int_range(pl.len()) % 5 == 0).then(pl.col("rtt_mean_ms"))
    result.samples = result.samples.with_columns(every_fifth.alias("rtt_mean_ms"))
    (line, *_) = rtt(prepare(result)).panels[0].lines
    pairs = ~np.isnan(line.y[1:]) & ~np.isnan(line.y[:-1])
    assert pairs.sum() == 19, "each of the 20 points but the first has a stretch to be seen by"


def test_rounds_come_from_the_samples_without_events() -> None:
    view = prepare(synthetic(2, duration=12.0, events=False))
    assert view.rounds is not None
    # A sample at 2.0 s with the state of the round is the end of the interval from 1.9 s.
    assert view.rounds.spans == [pytest.approx((1.9, 4.9)), pytest.approx((7.9, 10.9))]


def test_phases_that_sound_like_changes_are_none() -> None:
    result = synthetic(1, duration=9.0, events=False)
    names = ["probe_rtt", "rate_control", "rate_change", "rtt"]
    rows = [(float(at), 1, None, name, 0.0) for at, name in enumerate(names, 1)]
    result.events = pl.DataFrame(rows, schema=result.events.schema, orient="row")
    assert prepare(result).changes.tolist() == [3.0, 4.0]


def shares(*rates: list[float], starts: tuple[float, ...]) -> SyntheticResult:
    """Flows with the given throughputs in the seconds up to 4 s that end after their start."""
    result = synthetic(len(rates), duration=4.0, interval=1.0, events=False)
    frames = [
        result.samples.filter((pl.col("flow") == i + 1) & (pl.col("t_s") > start)).with_columns(
            pl.Series("throughput_mbps", own), pl.Series("sending_rate_mbps", own), pl.Series("in_flight_packets", own)
        )
        for i, (own, start) in enumerate(zip(rates, starts, strict=True))
    ]
    for flow, start in zip(result.summary["flows"], starts, strict=True):
        flow["start_s"] = start
    result.samples = pl.concat(frames)
    return result


def jain_of(result: SyntheticResult) -> tuple[np.ndarray, np.ndarray]:
    view = prepare(result)
    return jain(view, [flow.number for flow in view.flows])


def test_jain_counts_the_flows_that_run_through_an_interval() -> None:
    """(4 + 2)^2 / (2 (16 + 4)) = 0.9; a flow alone, or that starts within the interval, does not count."""
    # Flow 2 starts at 1.5 s: it runs through half of the interval that ends at 2 s.
    t, index = jain_of(shares([8.0, 8.0, 4.0, 3.0], [1.0, 2.0, 3.0], starts=(0.0, 1.5)))
    assert t.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert index.tolist() == pytest.approx([np.nan, np.nan, 0.9, 1.0], nan_ok=True)


def test_jain_forgets_a_flow_that_has_ended_and_keeps_a_starved_one() -> None:
    ended = shares([5.0, 5.0, 5.0, 5.0], [5.0, 5.0, 0.0, 0.0], starts=(0.0, 0.0))
    t, index = jain_of(ended)
    assert dict(zip(t.tolist(), index.tolist(), strict=True))[1.0] == pytest.approx(1.0)
    assert np.isnan(index[t >= 2.0]).all()
    starved = shares([5.0, 5.0, 5.0, 5.0], [5.0, 0.0, 0.0, 0.0], starts=(0.0, 0.0))
    starved.samples = starved.samples.with_columns(pl.lit(1.0).alias("in_flight_packets"))
    t, index = jain_of(starved)
    assert index.tolist() == pytest.approx([1.0, 0.5, 0.5, 0.5])


def test_total_adds_up_flows_sampled_a_little_apart() -> None:
    result = shares([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0], starts=(0.0, 0.0))
    late = pl.when(pl.col("flow") == 2).then(pl.col("t_s") + 0.1).otherwise(pl.col("t_s"))
    result.samples = result.samples.with_columns(late.alias("t_s"))
    _, sums = total(prepare(result), "throughput_mbps", [1, 2])
    assert sums.tolist() == [11.0, 22.0, 33.0, 44.0]


# Thinning


def test_long_series_are_thinned_and_keep_their_peaks(tmp_path: Path) -> None:
    result = synthetic(2, duration=1000.0)
    peak = pl.when(pl.col("t_s").is_between(500.05, 500.15) & (pl.col("flow") == 1)).then(99_000.0)
    result.samples = result.samples.with_columns(peak.otherwise(pl.col("cwnd_packets")).alias("cwnd_packets"))
    text, _ = write(result, tmp_path)
    assert text.count(f"Thinned to at most {fixed(POINTS, 0)} points per line") == 5
    lines = plot(result, "cwnd").chart.panels[0].lines
    assert all(len(line.x) <= POINTS for line in lines)
    assert max(lines[0].y) == pytest.approx(99.0), "in 1000 packets"
    assert len(plot(synthetic(2), "cwnd").chart.panels[0].lines[0].x) == 1500, "150 s at 100 ms are drawn as they are"


def test_thinned_line_keeps_ends_extremes_and_gaps() -> None:
    x = np.arange(100_000.0)
    y = np.sin(x / 5000)
    y[31_000:52_000] = np.nan
    y[77_777], y[3] = 50.0, -50.0
    tx, ty = thin_line(x, y, 1000)
    assert len(tx) <= 1000
    assert (tx[0], tx[-1]) == (0.0, 99_999.0)
    assert (np.diff(tx) > 0).all()
    assert (np.nanmax(ty), np.nanmin(ty)) == (50.0, -50.0)
    assert np.isnan(ty[(tx > 31_300) & (tx < 51_700)]).all()
    known = ~np.isnan(ty)
    assert (ty[known] == y[tx[known].astype(int)]).all(), "only points of the series"


def test_thinned_band_encloses_the_band() -> None:
    x = np.arange(10_001.0)
    low, high = -1 - np.cos(x), 1 + np.sin(x)
    tx, tlow, thigh = thin_band(x, low, high, 500)
    assert len(tx) <= 500
    assert (tx[0], tx[-1]) == (0.0, 10_000.0)
    assert tlow.min() == low.min()
    assert thigh.max() == high.max()
    assert (np.interp(x, tx, thigh) >= high - 0.7).all()


# Words and numbers


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(2.3456, 2, "2.3"), (12_345_678, 4, "12\u202f345\u202f678"), (0.00097, 2, "0.00097"), (150.0, 4, "150"),
     (None, 4, "–"), (float("nan"), 4, "–"), (9123.4, 4, "9\u202f123"), (0.0, 4, "0")],
)  # fmt: skip
def test_numbers_read_well(value: float | None, digits: int, shown: str) -> None:
    assert number(value, digits) == shown


def test_a_column_has_the_digits_of_its_greatest_value() -> None:
    assert decimals_for([12.3456, 0.1]) == 2
    assert decimals_for([21.0, 5.0]) == 0, "no decimals that say nothing"


def test_rate_units_adapt() -> None:
    assert [rate_unit(mbps).name for mbps in (9800.0, 98.0, 0.5, 0.0)] == ["Gbit/s", "Mbit/s", "kbit/s", "Mbit/s"]
    view = prepare(synthetic(1, duration=5.0, rate_mbps=50.0))
    assert rate(view, "throughput").panels[0].label == "Throughput (Mbit/s)"


def test_headline_says_what_came_out() -> None:
    summary = synthetic(2, duration=5.0).summary
    wanted = "Two lola flows on bottleneck: 99.1 % utilization, Jain 0.999, mean queueing delay 2.3 ms, no loss."
    assert headline(summary) == wanted


def test_headline_of_mixed_flows_with_loss() -> None:
    summary = synthetic(3, cc=["cubic", "bbr", "cubic"], duration=5.0, drops=5).summary
    summary["run"]["timeouts"] = 2.0
    # 36 lost of 3 x 1,234,567 sent = 0.00097 %.
    assert headline(summary).startswith("Two cubic and one bbr flows on bottleneck: ")
    assert headline(summary).endswith("0.00097 % loss, 2 timeouts.")


def test_headline_of_one_flow_leaves_fairness_out() -> None:
    assert "Jain" not in headline(synthetic(1, duration=5.0).summary)


def test_fairness_needs_two_flows() -> None:
    panel = fairness(prepare(synthetic(1, duration=5.0))).panels[0]
    assert panel.lines == []
    assert panel.note == "Fairness needs two flows that run at the same time."


def test_one_flow_is_fair_to_nobody() -> None:
    fair = {"jain": 1.0, "jain_interval_mean": 1.0, "convergence_s": None}
    assert {row.cells[0].text for row in tables.fairness_table(fair, 1).rows} == {NONE}
    assert "1.0000" in [row.cells[0].text for row in tables.fairness_table(fair, 2).rows]


def test_samples_at_each_interval_are_no_events() -> None:
    events = pl.DataFrame({"t_s": [0.1, 0.1, 0.2], "flow": [1, 1, 1], "event": ["backlog", "buffer", "backlog"]})
    shown, more = tables.events_table(events)
    assert [row.head.text for row in shown.rows] == ["buffer"]
    assert more == 0
