"""The skeleton of all pages, their colours, and reports of a few and of many flows in a real browser."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from browser import DESKTOP, PHONE, Tab, check_layout, look, needs_chromium
from knee.view import pages, palette
from knee.view.report import headline, write_report
from knee.view.report.completion import completion, completion_table
from knee.view.report.panels import charts, rate, report_keys, window
from knee.view.report.prepare import MAX_LINES, MAX_PICKED, prepare
from synthetic_results import EVENT_SCHEMA, SyntheticResult, synthetic

SOURCES = Path(pages.__file__).resolve().parents[2]


# The skeleton


def test_there_is_one_skeleton_and_one_policy() -> None:
    """A page that made its own would not have the policy."""
    files = [path for path in SOURCES.rglob("*") if path.suffix in (".py", ".html", ".js")]
    for words in ("<!DOCTYPE html>", "Content-Security-Policy", "default-src"):
        found = [str(path.relative_to(SOURCES)) for path in files if words in path.read_text(encoding="utf-8")]
        assert found == ["view/pages/__init__.py" if words == "default-src" else "view/pages/base.html"], words


def test_templates_escape_and_have_no_handlers() -> None:
    """No template turns escaping off, and none asks for a script that the policy would refuse."""
    for path in SOURCES.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "|safe" not in text.replace(" ", ""), path
        assert "autoescape" not in text, path
        assert not re.search(r"<[^>]*\son\w+=", text), path
        assert not re.search(r"https?:", text), path


def test_text_is_shown_as_it_is(tmp_path: Path) -> None:
    text = pages.page(
        "papers/summary.html", title="<b>\x1b[31m", facts=["&amp;"], papers=[], totals=[], items=[], findings=[]
    )
    assert "<title>&lt;b&gt;\\x1b[31m</title>" in text
    assert "<span>&amp;amp;</span>" in text


def test_the_policy_names_each_script_by_its_digest() -> None:
    import base64
    import hashlib

    nothing = {"facts": [], "papers": [], "totals": [], "items": [], "findings": []}
    text = pages.page("papers/summary.html", title="", scripts=("view/pages/sort.js",), **nothing)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = unescape(re.findall(r'Content-Security-Policy" content="(.*?)"', text)[0])
    assert f"script-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")


# Colours


def _linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


#: Machado, Oliveira, Fernandes 2009, Table 1, severity 1.0.
MACHADO = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
#: To CIE XYZ under D65, over its white.
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def _lab(linear: np.ndarray) -> np.ndarray:
    t = TO_XYZ @ np.clip(linear, 0, 1) / TO_XYZ.sum(axis=1)
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("colours", [palette.OKABE_ITO, palette.LINK_COLOURS], ids=["lines", "links"])
@pytest.mark.parametrize("sight", ["normal", *MACHADO])
def test_colours_stay_apart_for_colour_blind_readers(sight: str, colours: tuple[str, ...]) -> None:
    """CIE 1976 differences; 2.3 is a just noticeable one, and thin lines want several of it."""
    seen = np.eye(3) if sight == "normal" else np.array(MACHADO[sight])
    labs = {colour: _lab(seen @ _linear(colour)) for colour in colours}
    apart = {pair: float(np.linalg.norm(labs[pair[0]] - labs[pair[1]])) for pair in itertools.combinations(labs, 2)}
    assert min(apart.values()) > 6 * 2.3, min(apart, key=lambda pair: apart[pair])


def test_looks_of_lines_differ() -> None:
    styles = palette.line_styles()
    assert len(set(styles)) == len(styles) == 21
    assert len({colour for colour, _ in styles[:7]}) == 7
    assert len(set(palette.MARKERS)) == len(palette.OKABE_ITO)


# Many flows


def transfers(count: int, endless: int = 2) -> SyntheticResult:
    """Some flows without an end, and many that each send for 0.5 to 2 s, one after the other; one never completes."""
    result = synthetic(endless + count, cc=["cubic", "bbr"], duration=30.0, events=False)
    random = np.random.default_rng(3)
    took = random.uniform(0.5, 2.0, count)
    starts = np.linspace(0, 26, count)
    for i, flow in enumerate(result.summary["flows"]):
        k = i - endless
        flow["label"] = f"web {k + 1}" if k >= 0 else f"bulk {i + 1}"
        if k >= 0:
            flow["start_s"], flow["completion_s"] = float(starts[k]), float(took[k]) if k else None
    last = np.concatenate([np.full(endless, 31.0), starts + took])
    ends = pl.DataFrame(
        {"flow": np.arange(len(last)) + 1, "end": last, "from": np.concatenate([np.zeros(endless), starts])}
    )
    idle = pl.col("t_s") > pl.col("end") + 0.1
    quiet = [
        pl.when(idle).then(0.0).otherwise(pl.col(name)).alias(name)
        for name in ("throughput_mbps", "goodput_mbps", "sending_rate_mbps", "in_flight_packets")
    ]
    result.samples = (
        result.samples.join(ends, on="flow")
        .filter(pl.col("t_s") > pl.col("from"))
        .with_columns(quiet)
        .drop("end", "from")
    )
    flows = "".join(
        f'\n[[flows]]\ncc = "cubic"\nlabel = "web {k}"\nbytes = "1 MB"\nrtt = "21 ms"\n' for k in range(count)
    )
    result.scenario_toml = f'title = "Many"\n[[flows]]\ncount = {endless}\nlabel = "bulk"\n{flows}'
    return result


@pytest.fixture(scope="module")
def many() -> SyntheticResult:
    return transfers(300)


def test_a_finished_flow_leaves_the_figures(many: SyntheticResult) -> None:
    view = prepare(many)
    ends = view.samples.group_by("flow").agg(pl.col("t_s").max()).sort("flow")["t_s"].to_list()
    assert ends[:2] == [30.0, 30.0]
    for flow, end in zip(view.flows[3:], ends[3:], strict=True):
        assert flow.completion_s is not None
        assert end == pytest.approx(flow.start_s + flow.completion_s, abs=0.21)
    for chart in (rate(view, "throughput"), window(view, "cwnd")):
        names = {line.name for line in chart.panels[-1].lines}
        assert len(names) <= 2 + 4 * MAX_PICKED + 2, "of 302 flows"


def test_a_total_goes_on_when_all_have_finished() -> None:
    view = prepare(transfers(40, endless=0))
    total = rate(view, "throughput").panels[0].lines[0]
    assert total.x[-1] == pytest.approx(30.0)
    assert total.y[-1] == 0.0


def test_choices_of_many_flows_are_by_start_duration_and_goodput(many: SyntheticResult) -> None:
    view = prepare(many)
    assert list(view.choices) == ["endless", "quantiles", "first", "longest", "least", "greatest"]
    shown = {key: [flow for flow in view.flows if key in flow.choices] for key in view.choices}
    assert [flow.label for flow in shown["endless"]] == ["bulk 1", "bulk 2"]
    took = sorted((flow.completion_s for flow in view.flows if flow.completion_s is not None), reverse=True)
    assert sorted((f.completion_s for f in shown["longest"]), reverse=True) == took[:MAX_PICKED]
    least = sorted(flow.goodput_mbps for flow in view.flows)
    assert sorted(flow.goodput_mbps for flow in shown["least"]) == least[:MAX_PICKED]
    for key, flows in shown.items():
        looks = {(flow.colour, flow.dash) for flow in flows}
        assert len(looks) == len(flows), f"two lines of {key} look the same"


def test_few_flows_are_all_drawn_without_a_choice() -> None:
    view = prepare(synthetic(MAX_LINES, duration=5.0))
    assert view.choices == {}
    assert len(view.drawn) == MAX_LINES


def test_completion_times_are_a_distribution_and_a_table(many: SyntheticResult) -> None:
    view = prepare(many)
    assert report_keys(view)[0] == "completion"
    chart = completion(view)
    took = {cc: [f.completion_s for f in view.flows if f.finite and f.cc == cc] for cc in ("cubic", "bbr")}
    for line in chart.panels[0].lines:
        own = took[line.name.removeprefix("web, ")]
        known = sorted(time for time in own if time is not None)
        # The part of all transfers, those that never completed among them, that took at most so long.
        at = 1.2
        drawn = line.y[np.searchsorted(line.x, at, side="right") - 1]
        assert drawn == pytest.approx(sum(time <= at for time in known) / len(own))
        assert line.y[-1] == pytest.approx(len(known) / len(own))
    assert any("1 of the transfers" in sentence for sentence in chart.caption)
    table = completion_table(view)
    assert table is not None
    exact = {row.head.text: [cell.exact for cell in row.cells] for row in table.rows}
    assert [head.text for head in table.heads] == ["Transfers of", "web, cubic", "web, bbr"]
    assert exact["Number"] == ["150", "150"]
    assert exact["Completed"] == ["149", "150"]
    medians = [np.median([time for time in took[cc] if time is not None]) for cc in ("cubic", "bbr")]
    assert [float(median or "nan") for median in exact["Median"]] == pytest.approx(medians)
    assert "half of 299 transfers done within" in headline(many.summary)


def test_what_happened_over_time_is_marked_only_over_time() -> None:
    result = transfers(20)
    row = {"t_s": [1.0], "flow": [1], "link": [None], "event": ["timeout"], "value": [1.0]}
    result.events = pl.DataFrame(row, schema=EVENT_SCHEMA)
    view = prepare(result)
    over_time, distribution = charts(view, "throughput", "completion")
    assert [rules.name for panel in over_time.panels for rules in panel.rules] == ["timeout"] * 2, "one in each panel"
    assert [panel.rules for panel in distribution.panels] == [[]]


def test_fairness_is_that_of_each_bottleneck(tmp_path: Path) -> None:
    """Three downloads and two uploads share no queue: an index over all five says nothing."""
    from knee.view.report.panels import fairness
    from knee.view.report.tables import fairness_table

    result = synthetic(5, duration=10.0, events=False)
    one = {"jain_interval_mean": 0.9, "convergence_s": None}
    links = [
        {"link": "down", "flows": [1, 2, 3], "jain": 0.99, **one},
        {"link": "up", "flows": [4, 5], "jain": 0.75, **one},
    ]
    result.summary["fairness"] = {"jain": None, "jain_interval_mean": None, "convergence_s": None, "links": links}
    assert [line.name for line in fairness(prepare(result)).panels[0].lines] == ["down", "up"]
    rows = fairness_table(result.summary["fairness"], 5).rows
    assert [(row.head.text, row.cells[0].text) for row in rows] == [
        ("down, three flows", "0.9900"),
        ("up, two flows", "0.7500"),
    ]
    assert "Jain 0.990 on down, Jain 0.750 on up" in headline(result.summary)


@pytest.mark.parametrize("count", [300, 1000])
def test_reports_of_many_flows_stay_small(tmp_path: Path, count: int) -> None:
    write_report(transfers(count), tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 400_000


def test_a_report_is_written_without_the_libraries_that_draw_other_figures(tmp_path: Path) -> None:
    """Importing matplotlib takes longer than writing a report."""
    script = """
import sys
from pathlib import Path
from knee.view.report import write_report
from synthetic_results import synthetic
write_report(synthetic(2, duration=5.0), Path(sys.argv[1]) / "report.html")
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"matplotlib"}))
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# In a browser


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("count", [2, 300, 1000])
def test_reports_fit_a_phone_and_a_desktop(tmp_path: Path, count: int, width: int) -> None:
    """Not wider than the window, and a few screens long: 300 tables of a scenario were 100,000 pixels."""
    result = synthetic(2, stagger=10.0, drops=20) if count == 2 else transfers(count)
    result.summary["flows"][0]["label"] = (
        "a label without any space that is long enough to be wider than a phone".replace(" ", "_")
    )
    write_report(result, tmp_path / "report.html")
    told = check_layout(tmp_path / "report.html", width, tallest=8000 if width == PHONE else 5000)
    assert told["charts"] >= 5


@needs_chromium
def test_a_choice_shows_other_flows(many: SyntheticResult, tmp_path: Path) -> None:
    write_report(many, tmp_path / "report.html")
    probe = """
    const choice = document.getElementById("choice");
    const shown = () => charts.shown(document.getElementById("chart-cwnd")).flat();
    const names = () => [...document.querySelectorAll("#cwnd .legend button")].map((button) => button.textContent);
    const told = [];
    for (const { value } of choice.options) {
      choice.value = value;
      choice.dispatchEvent(new Event("change"));
      await drawAllCharts();
      told.push([value, shown(), names()]);
    }
    return told;
    """
    told = look(tmp_path / "report.html", probe=probe)
    assert told["console"] == []
    for key, shown, names in told["probe"]:
        assert set(shown) == set(names), "the names above are those of what is drawn"
        if key == "quantiles":
            assert "cubic: median" in shown
        else:
            assert 2 <= len(shown) <= MAX_PICKED


@needs_chromium
def test_a_name_hides_and_shows_in_all_figures(tmp_path: Path) -> None:
    write_report(synthetic(2, duration=10.0), tmp_path / "report.html")
    tab = Tab(tmp_path / "report.html", PHONE)
    tab.ask()
    hidden = """["throughput", "rtt", "cwnd"].map((key) => !charts.shown(document.getElementById(`chart-${key}`)).flat()
      .includes("flow 1")).join()"""
    tab.tap("#cwnd .legend button[data-group='flow 1']")
    tab.until(f"{hidden} === 'true,true,true'")
    assert tab.evaluate("document.querySelector('#rtt .legend button').getAttribute('aria-pressed')") == "false"
    tab.tap("#rtt .legend button[data-group='flow 1']")
    tab.until(f"{hidden} === 'false,false,false'")
    assert tab.console() == []
    tab.close()


@needs_chromium
def test_what_is_touched_is_large_enough(many: SyntheticResult, tmp_path: Path) -> None:
    write_report(many, tmp_path / "report.html")
    probe = """
    return [...document.querySelectorAll("button, select, summary")].filter((one) => one.checkVisibility())
      .map((one) => one.getBoundingClientRect().height);
    """
    heights = look(tmp_path / "report.html", PHONE, probe)["probe"]
    assert len(heights) > 10
    assert min(heights) >= 40


@needs_chromium
def test_labels_of_any_kind_are_text(tmp_path: Path) -> None:
    labels = ["$x^$", "[/b]", "<script>boom()</script>", "<b>bold</b> &amp; more", "\x1b[31mred\x07", "[red]hid[den]"]
    result = synthetic(len(labels), duration=5.0)
    for flow, label in zip(result.summary["flows"], labels, strict=True):
        flow["label"] = label
    result.scenario_toml = "title = '<i>$y^$</i> [/b]'"
    write_report(result, tmp_path / "report.html")
    shown = [label.replace("\x1b", "\\x1b").replace("\x07", "\\x07") for label in labels]
    probe = """
    const texts = (selector) => [...document.querySelectorAll(selector)].map((found) => found.textContent);
    return [document.title, texts("h1"), texts("#cwnd .legend button").slice(0, 6), texts("#flows thead th").slice(1)];
    """
    told = look(tmp_path / "report.html", probe=probe)
    assert told["console"] == []
    title = "<i>$y^$</i> [/b]"
    assert told["probe"] == [title, [title], shown, shown]


@needs_chromium
def test_a_dark_screen_gets_dark_paper_and_charts_that_are_seen_on_it(tmp_path: Path) -> None:
    """The line of a total is nearly black on white; on dark paper it would not be seen."""
    write_report(synthetic(2, duration=10.0), tmp_path / "report.html")
    paint = """(async () => {
      await drawAllCharts();
      const { plots } = charts.of(document.getElementById("chart-throughput"));
      const { data } = plots[0].ctx.getImageData(0, 0, plots[0].ctx.canvas.width, plots[0].ctx.canvas.height);
      let [light, dark] = [0, 0];
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3] < 250) continue;
        if (data[i] === 0xE4 && data[i + 1] === 0xE8) light += 1;
        if (data[i] === 0x1F && data[i + 1] === 0x29) dark += 1;
      }
      return [getComputedStyle(document.body).backgroundColor, light > 50, dark > 50];
    })()"""
    for dark, wanted in ((False, ["rgb(255, 255, 255)", False, True]), (True, ["rgb(18, 23, 28)", True, False])):
        tab = Tab(tmp_path / "report.html", DESKTOP, dark=dark)
        paper, light_ink, dark_ink = tab.evaluate(paint)
        assert paper == wanted[0]
        assert [light_ink, dark_ink] == wanted[1:], "totals, numbers and titles"
        tab.close()
