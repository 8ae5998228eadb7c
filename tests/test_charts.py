"""A chart as data, on a page, and saved from it."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser import DESKTOP, PHONE, Tab, look, needs_chromium
from knee.errors import InputError
from knee.view.chart import (
    Band,
    Bars,
    Boxes,
    Chart,
    Heat,
    Line,
    Marks,
    Panel,
    Rules,
    Spans,
    by_name,
    ecdf,
    five_numbers,
    over_time,
)
from knee.view.drawing import draw
from knee.view.figure import Figure
from knee.view.pages import spec

EVIL = "</script><script>boom()</script>\"'&<b>=1+1"


def chart(*panels: Panel, **more: Any) -> Chart:
    return Chart("test", "A test", list(panels), [], over_time(10.0), **more)


def unpacked(data: dict[str, Any]) -> list[np.ndarray]:
    """What charts.js makes of a block."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(data["block"])), dtype=np.uint8).reshape(4, -1)
    values = np.ascontiguousarray(planes.T).view("<f4").ravel()
    return np.split(values, np.cumsum(data["lengths"])[:-1])


@given(st.lists(st.floats(1e-6, 1e9), min_size=3, max_size=50))
def test_numbers_keep_the_digits_that_are_shown(values: list[float]) -> None:
    x = np.sort(np.random.default_rng(1).random(len(values)))
    told = spec(chart(Panel("y", [Line("a", x, np.array(values), "#000000")])))
    arrays = unpacked(told["data"])
    (item,) = told["panels"][0]["items"]
    assert arrays[item["x"]] == pytest.approx(x.astype(np.float32))
    assert arrays[item["y"]] == pytest.approx(values, rel=1e-5)


def test_even_places_and_equal_arrays_take_no_space() -> None:
    x, y = np.arange(1.0, 1001.0) / 10, np.sin(np.arange(1000.0))
    told = spec(chart(Panel("y", [Line("a", x, y, "#000000"), Line("b", x, y, "#000000")])))
    assert told["data"]["lengths"] == [1000]
    assert told["panels"][0]["items"][0]["x"] == {"start": 0.1, "step": pytest.approx(0.1), "count": 1000}


def test_gaps_stay_gaps_and_zero_is_kept() -> None:
    y = np.array([1.0, np.nan, 0.0, 3.0])
    told = spec(
        chart(Panel("y", [Line("a", np.arange(4.0), y, "#000000")], spans=[Spans("s", [(1, 2)], 0.0, 1.0, "#000000")]))
    )
    assert unpacked(told["data"])[0].tolist() == pytest.approx(y.tolist(), nan_ok=True)
    spans = next(item for item in told["panels"][0]["items"] if item["kind"] == "spans")
    assert spans["low"] == 0.0, "a zero is no empty field"


def test_a_box_is_tukeys() -> None:
    """Of 1 to 9 and 30: quartiles 3.25, 5.5, 7.75; whiskers end within 1.5 times 4.5 of them; 30 lies beyond."""
    five, beyond = five_numbers([*range(1, 10), 30])
    assert five == (1.0, 3.25, 5.5, 7.75, 9.0)
    assert beyond == [30.0]
    x, y = ecdf([3.0, 1.0, 2.0, 2.0])
    assert (x.tolist(), y.tolist()) == ([1.0, 1.0, 2.0, 2.0, 3.0], [0.0, 0.25, 0.5, 0.75, 1.0])


def everything() -> Chart:
    x = np.linspace(0.0, 10.0, 200)
    time = Panel(
        "RTT (ms)",
        [
            Line(EVIL, x, 20 + np.sin(x), "#0072B2"),
            Line("step", x[::40], x[::40], "#D55E00", step=True, marker="square"),
        ],
        [Band("band", x, 19 + np.sin(x), 21 + np.sin(x), "#0072B2", 0.2)],
        marks=[Marks("marks", np.array([2.0]), np.array([5.0]), "#009E73", "star", [EVIL])],
        spans=[Spans("rounds", [(1.0, 2.0)], 0.0, 1.0, "#E6E8EB")],
        rules=[Rules("drops", np.array([3.0, 4.0]), 0.95, 1.0, "#C2361E")],
        unit="ms",
        title=EVIL,
    )
    names = by_name("algorithm", ["a", "b"])
    bars = Panel(
        "bars", bars=[Bars("bar", np.arange(2.0), np.array([1.0, 2.0]), "#0072B2", 0.4, np.array([0.1, 0.0]))], x=names
    )
    boxes = Panel(
        "boxes", boxes=[Boxes("box", np.arange(2.0), [(1, 2, 3, 4, 5)] * 2, "#0072B2", beyond=[[9.0], []])], x=names
    )
    heat = Panel(
        "map",
        heats=[Heat([[1.0, 2.0], [3.0, float("nan")]], 1.0, 3.0, ("#000000", "#FFFFFF"))],
        rows=("p", EVIL),
        x=names,
    )
    return Chart(EVIL, EVIL, [time, bars, boxes, heat], [], over_time(10.0), columns=2)


@pytest.mark.parametrize("ending", [".pdf", ".svg", ".png", ".html"])
@pytest.mark.parametrize("width", ["column", "page", 5.0])
def test_every_kind_of_series_is_drawn_in_every_format(tmp_path: Path, ending: str, width: str | float) -> None:
    path = Figure(everything()).save(tmp_path / f"figure{ending}", width=width)
    assert path.read_bytes()[:5].startswith(
        {".pdf": b"%PDF", ".svg": b"<?xml", ".png": b"\x89PNG", ".html": b"<!DOC"}[ending]
    )


def line(*values: float) -> Line:
    return Line("a", np.arange(float(len(values))), np.array(values), "#0072B2")


def test_panels_that_share_an_axis_show_all_values_of_each() -> None:
    """The first panel's ends were those of all: what was larger or smaller in another was cut off."""
    drawn = draw(chart(Panel("y", [line(1.0, 2.0)]), Panel("y", [line(-3.0, 9.0)]), columns=2))
    for axes in drawn.axes:
        low, high = axes.get_ylim()
        assert low <= -3.0
        assert high >= 9.0


def test_an_axis_begins_at_zero_unless_values_are_below_it_whatever_a_band_does() -> None:
    band = Band("", np.arange(2.0), np.array([-50.0, -50.0]), np.array([50.0, 50.0]), "#0072B2", 0.2)
    (axes,) = draw(chart(Panel("y", [line(5.0, 9.0)], [band]))).axes
    assert axes.get_ylim()[0] == 0.0
    (axes,) = draw(chart(Panel("y", [line(-1.0, 9.0)], [band]))).axes
    assert axes.get_ylim()[0] <= -1.0


def test_a_logarithmic_axis_shows_what_is_above_zero_and_nothing_else() -> None:
    """It began at the floor of 0, which is nowhere on it."""
    for values in ((0.0, 2.0, 5000.0), (0.02, 7.0), (3.0, 3.0)):
        (axes,) = draw(chart(Panel("y", [line(*values)], log=True))).axes
        low, high = axes.get_ylim()
        assert axes.get_yscale() == "log"
        assert 0 < low <= min(value for value in values if value > 0)
        assert high >= max(values)
    (axes,) = draw(chart(Panel("y", [line(6.0, 80.0)], log=True, floor=5.0, ceiling=200.0))).axes
    assert axes.get_ylim() == (5.0, 200.0)


@needs_chromium
def test_a_logarithmic_axis_of_a_page_shows_what_is_above_zero(tmp_path: Path) -> None:
    panels = [
        Panel("all", [line(0.0, 2.0, 5000.0)], log=True),
        Panel("given", [line(6.0, 80.0)], log=True, floor=5.0, ceiling=200.0),
    ]
    path = Figure(chart(*panels)).save(tmp_path / "figure.html")
    probe = """
    await drawAllCharts();
    return charts.of(document.querySelector(".chart")).plots.map((u) =>
      [u.scales.y.distr, u.scales.y.min, u.scales.y.max, u.valToPos(100, "y", true) - u.valToPos(10, "y", true),
       u.valToPos(1000, "y", true) - u.valToPos(100, "y", true)]);
    """
    told = look(path, probe=probe)
    assert told["console"] == []
    for distribution, low, high, decade, next_decade in told["probe"]:
        assert distribution == 3
        assert 0 < low < high
        assert decade == pytest.approx(next_decade, abs=0.1), "a decade is as high as the next"
    assert told["probe"][0][1] <= 2
    assert told["probe"][0][2] >= 5000
    assert told["probe"][1][1:3] == [5, 200]


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_long_names_of_an_axis_stay_within_the_figure(width: int, tmp_path: Path) -> None:
    names = [f"a long name {k}" for k in range(30)]
    bars = Bars("CUBIC", np.arange(30.0), np.arange(1.0, 31.0), "#000000")
    path = Figure(chart(Panel("y", [bars], x=by_name("", names)))).save(tmp_path / "figure.html")
    probe = """
    const { chart } = charts.of(document.querySelector(".chart"));
    const svg = document.body.appendChild(document.createElement("div"));
    svg.innerHTML = await charts.svg(chart, innerWidth - 40);
    const edge = svg.firstElementChild.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    return texts.map(([name, box]) => [name, box.left - edge.left, edge.right - box.right]);
    """
    told = {name: room for name, *room in look(path, width, probe)["probe"]}
    assert "a long name 0" in told
    assert [name for name, room in told.items() if min(room) < -1] == []


@needs_chromium
def test_each_map_has_its_own_scale(tmp_path: Path) -> None:
    """All four maps of a matrix had the scale of the first above them."""
    names = by_name("a", ["p", "q"])
    heats = [
        Heat([[1.0, 2.0]], 1.0, 2.0, ("#000000", "#FFFFFF")),
        Heat([[5.0, 90.0]], 5.0, 90.0, ("#000000", "#FFFFFF")),
    ]
    panels = [
        Panel("", heats=[heat], rows=("r",), x=names, title=f"map {k}", unit="ms") for k, heat in enumerate(heats)
    ]
    path = Figure(chart(*panels, columns=2)).save(tmp_path / "figure.html")
    told = look(path, probe="return [...document.querySelectorAll('.heat-scale')].map((one) => one.innerText)")
    assert [" ".join(scale.split()) for scale in told["probe"]] == ["map 0: 1 2 ms", "map 1: 5 90 ms"]


def test_an_unknown_format_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.gif is no format; expected \.png, \.svg, \.pdf, \.html\."):
        Figure(everything()).save(tmp_path / "figure.gif")
    with pytest.raises(InputError, match=r"'wide' is no width; expected column \(3\.5 in\), page \(7 in\)"):
        Figure(everything()).save(tmp_path / "figure.pdf", width="wide")


def test_a_notebook_gets_a_frame_that_loads_nothing() -> None:
    shown = Figure(everything())._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "</script><script>boom" not in shown
    assert "default-src" in shown
    assert len(shown) < 400_000


SAVED = """
await drawAllCharts();
const saved = [];
HTMLAnchorElement.prototype.click = function click() { saved.push([this.download, this.href]); };
const fetched = async (href) => new Promise((done) => {
  const blob = blobs.get(href);
  const reader = new FileReader();
  reader.onload = () => done([blob.type, reader.result]);
  reader.readAsDataURL(blob);
});
const blobs = new Map();
const make = URL.createObjectURL;
URL.createObjectURL = (blob) => { const href = make(blob); blobs.set(href, blob); return href; };
for (const button of document.querySelectorAll(".save button")) button.click();
while (saved.length < 3) await new Promise((done) => setTimeout(done, 20));
const found = {};
for (const [name, href] of saved) found[name.split(".").at(-1)] = [name, ...await fetched(href)];
return found;
"""


def content(data: str) -> bytes:
    return base64.b64decode(data.partition(",")[2])


@needs_chromium
def test_buttons_save_a_figure_as_png_svg_and_csv(tmp_path: Path) -> None:
    path = Figure(everything()).save(tmp_path / "figure.html")
    told = look(path, probe=SAVED)
    assert told["console"] == [], "nothing is requested, and no markup of a name runs"
    found = told["probe"]
    assert content(found["png"][2]).startswith(b"\x89PNG")
    svg = content(found["svg"][2]).decode()
    assert svg.startswith("<svg")
    assert "boom()</script" not in svg
    assert "NaN" not in svg
    lines = content(found["csv"][2]).decode().splitlines()
    assert lines[0] == "panel,series,Time (s),value,low,high"
    assert sum("step" in line for line in lines) == 5
    assert all("/" not in found[kind][0] for kind in found)


@needs_chromium
def test_a_text_of_a_csv_file_is_no_formula(tmp_path: Path) -> None:
    """Spreadsheets compute what begins with an equals sign."""
    made = chart(Panel("y", [Line("=1+1", np.arange(3.0), np.arange(3.0), "#000000")]))
    path = Figure(made).save(tmp_path / "figure.html")
    csv = content(look(path, probe=SAVED)["probe"]["csv"][2]).decode()
    assert "'=1+1" in csv
    assert ",=1+1" not in csv


@needs_chromium
def test_a_zoom_of_one_figure_over_time_is_a_zoom_of_all(tmp_path: Path) -> None:
    from knee.view.report import write_report
    from synthetic_results import synthetic

    write_report(synthetic(2, duration=10.0), tmp_path / "report.html")
    tab = Tab(tmp_path / "report.html", DESKTOP)
    tab.ask()
    ends = """[...document.querySelectorAll(".chart")].map((one) => charts.of(one).plots.map((u) =>
      [u.scales.x.min, u.scales.x.max].map((x) => Number(x.toFixed(1))))).flat()"""
    tab.evaluate("""(() => {
      const [u] = charts.of(document.getElementById("chart-rtt")).plots;
      u.setSelect({ left: u.valToPos(2, "x"), width: u.valToPos(5, "x") - u.valToPos(2, "x"), top: 0, height: 10 });
    })()""")
    tab.until(f"{ends}.every(([a, b]) => a === 2 && b === 5)")
    assert len(tab.evaluate(ends)) == 6, "the panels of five figures"
    tab.evaluate(
        """document.querySelector("#chart-cwnd .u-over").dispatchEvent(new MouseEvent("dblclick", { bubbles: true }))"""
    )
    tab.until(f"{ends}.every(([a, b]) => a === 0 && b === 10)")
    assert tab.console() == []
    tab.close()


@needs_chromium
def test_parts_of_a_page_with_other_runs_are_zoomed_and_hidden_by_themselves(tmp_path: Path) -> None:
    """A zoom to 100 s would leave nothing of an experiment of 20 s on the same page."""
    made = chart(Panel("y", [line(1.0, 2.0), replace(line(2.0, 3.0), name="b")]))
    shown = [Figure(replace(made, key=key)).html().partition("<main>") for key in "abc"]
    first, second, third = (after.partition("</main>")[0] for _, _, after in shown)
    part = '<section id="{}" class="own-runs">{}</section>'
    body = part.format("one", first + second) + part.format("two", third)
    path = tmp_path / "parts.html"
    path.write_text(f"{shown[0][0]}<main>{body}</main>{shown[0][2].partition('</main>')[2]}")
    probe = """
    await drawAllCharts();
    const element = (key) => document.getElementById(`chart-${key}`);
    charts.zoom(element("a"), charts.of(element("a")).plots[0], [2, 5]);
    document.querySelector("#one [data-group=b]").click();
    await new Promise((done) => setTimeout(done, 0));
    return ["a", "b", "c"].map((key) => [charts.of(element(key)).plots[0].scales.x.max, ...charts.shown(element(key))]);
    """
    told = look(path, probe=probe)
    assert told["console"] == []
    assert told["probe"] == [[5, ["a"]], [5, ["a"]], [10, ["a", "b"]]]


@needs_chromium
def test_a_pointer_is_answered_with_values_and_units(tmp_path: Path) -> None:
    path = Figure(replace(everything(), panels=everything().panels[:1], columns=1)).save(tmp_path / "figure.html")
    probe = """
    await drawAllCharts();
    const [u] = charts.of(document.querySelector(".chart")).plots;
    const box = u.over.getBoundingClientRect();
    const at = { clientX: box.left + u.valToPos(5, "x"), clientY: box.top + u.valToPos(19, "y"), bubbles: true };
    u.over.dispatchEvent(new MouseEvent("mousemove", at));
    return [...document.querySelectorAll(".tip:not([hidden])")].map((tip) => tip.innerText);
    """
    told = look(path, probe=probe)
    (tip,) = told["probe"]
    assert tip.splitlines()[0].endswith(" s")
    # The nearest of 200 points to 5 s is at 5.0251 s: 20 + sin(5.0251) = 19.05.
    assert f"{EVIL}: 19.05 ms" in tip
    assert told["console"] == []


@needs_chromium
def test_a_title_that_is_cut_keeps_its_unit(tmp_path: Path) -> None:
    """Where panels were low, "Mean queueing delay of the slowest…" had lost its "ms"."""
    long = "a title of an axis that is much longer than the axis is high, as one of many panels is"
    panels = [
        Panel(f"{long} (ms)", [line(1.0, 2.0)], unit="ms"),
        Panel(f"{long}, Mbit/s", [line(1.0, 2.0)], unit="Mbit/s"),
        Panel(long, [line(1.0, 2.0)]),
    ]
    path = Figure(chart(*panels)).save(tmp_path / "figure.html")
    probe = """
    await drawAllCharts();
    return charts.of(document.querySelector(".chart")).plots.map((u) => u.axes[1].label);
    """
    labels = look(path, probe=probe)["probe"]
    assert labels[0].endswith("… (ms)")
    assert labels[1].endswith("…, Mbit/s")
    assert labels[2].endswith("…")
    assert all(len(label) < 60 for label in labels)


@needs_chromium
def test_a_million_points_are_drawn_with_few_strokes_that_keep_the_extremes(tmp_path: Path) -> None:
    """Each column of pixels has its first, lowest, highest and last point; so one spike in a million is there."""
    path = Figure(chart(Panel("y", [Line("a", np.arange(2.0), np.arange(2.0), "#0072B2")]))).save(
        tmp_path / "figure.html"
    )
    probe = """
    await drawAllCharts();
    const element = document.querySelector(".chart");
    const count = 1_000_000;
    const x = Float32Array.from({ length: count }, (_, i) => 10 * i / count);
    const y = Float32Array.from({ length: count }, (_, i) => 20 + Math.sin(i));
    y[777_777] = 100;
    const { chart } = charts.of(element);
    Object.assign(chart.panels[0].items[0], { x, y, ordered: undefined });
    const svg = await charts.svg(chart, 900);
    const paths = [...svg.matchAll(/ d="([^"]*)" fill="none" stroke="#0072B2"/g)].map((found) => found[1]);
    const path = paths.sort((a, b) => b.length - a.length)[0];
    const heights = [...path.matchAll(/[ML][\\d.-]+ ([\\d.-]+)/g)].map((found) => Number(found[1]));
    return [heights.length, Math.min(...heights), heights.sort((a, b) => a - b)[1]];
    """
    strokes, highest, next_highest = look(path, probe=probe)["probe"]
    assert 1000 < strokes < 4 * 900
    assert next_highest - highest > 150, "the spike stands alone"
