"""The page of a sweep, in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest

import knee
from browser import DESKTOP, PHONE, Tab, check_layout, look, needs_chromium
from knee.errors import InputError
from knee.figures.register import RUN
from knee.scenario.paths import PACKAGE, called
from knee.study import sweeps
from knee.study.sweeps import dataset, sweepfile, work
from knee.view.sweep import page as sweep_page
from sweep_examples import of


def _frame(tiny: Path, values: dict[str, list[Any]], zips: Sequence[Sequence[str]] = ()) -> sweeps.Sweep:
    """A sweep with made-up figures, a row per point."""
    base = {"link": {"rate": "10 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "20 ms"}], "duration": "1 s"}
    made = sweepfile.read(base, values, zip=zips)
    writer = dataset.Writer(tiny / "s", made)
    rows = [
        {"run": i, "seed": 1} | {name: float(i % 7 + k) for k, name in enumerate(RUN)} for i in range(1, len(made) + 1)
    ]
    writer.add(work.Part(rows))
    writer.flush()
    return sweeps.Sweep(tiny / "s", made, {})


@pytest.fixture
def page(tiny: Path) -> Path:
    made = sweeps.run_sweep(
        of("tiny.toml", "link.rate=5 Mbit/s,10 Mbit/s", "flows.0.cc=reno,cubic", changes=["link.loss=0.01"], seeds=2),
        tiny / "s",
    )
    made.write_page()
    return tiny / "s" / "sweep.html"


CHANGE = """
const set = (id, value) => {
  const select = document.getElementById(id);
  select.value = value;
  select.dispatchEvent(new Event("change"));
};
const chart = document.getElementById("chart");
"""


@needs_chromium
def test_the_page_draws_what_is_chosen(page: Path) -> None:
    probe = (
        CHANGE
        + """
    const items = () => charts.of(chart).chart.panels[0].items;
    const names = () => [...new Set(items().map(({ name }) => name).filter(Boolean))];
    const first = names();
    const bands = items().filter(({ kind }) => kind === "band").length;
    set("over", "1"); set("by", "0");
    await drawAllCharts();
    const second = names();
    const joined = items().some(({ width }) => width > 0);
    set("kind", "bars");
    await drawAllCharts();
    const bars = items().map(({ kind }) => kind);
    set("kind", "heat");
    await drawAllCharts();
    const heat = [items()[0].kind, items()[0].z.length, items()[0].z[0].length];
    set("kind", "pareto");
    await drawAllCharts();
    return [first, bands, second, joined, bars, heat, names(), document.getElementById("about").textContent];
    """
    )
    told = look(page, probe=probe)
    first, bands, second, joined, bars, heat, pareto, about = told["probe"]
    assert page.stat().st_size < 400_000
    assert (first, second) == (["reno", "cubic"], ["5 Mbit/s", "10 Mbit/s"])
    assert bands == 2, "intervals of confidence over two seeds"
    assert not joined, "algorithms have no order"
    assert bars == ["bars", "bars"]
    assert heat == ["heat", 2, 2]
    assert pareto == ["5 Mbit/s", "10 Mbit/s", "Pareto front"]
    assert "Means over the seeds" in about
    assert told["console"] == []


@needs_chromium
def test_the_page_is_over_all_samples(tiny: Path) -> None:
    """The first of many sampled networks may show the reverse of all of them."""
    base = {"link": {"rate": "10 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "20 ms"}], "duration": "1 s"}
    axes = {
        "link.rate": "uniform(1 Mbit/s, 9 Mbit/s)",
        "flows.0.rtt": "uniform(5 ms, 9 ms)",
        "flows.0.cc": ["reno", "cubic"],
    }
    sweep = sweeps.Sweep(tiny / "s", sweepfile.read(base, axes, samples=5), {})
    writer = dataset.Writer(tiny / "s", sweep.definition)
    writer.add(work.Part([{"run": i, "seed": 1, **dict.fromkeys(RUN, float(i * i))} for i in range(1, 11)]))
    writer.flush()
    sweep.write_page()
    probe = (
        CHANGE
        + """
    const shown = async (kind) => {
      set("kind", kind);
      await drawAllCharts();
      return charts.of(chart).chart.panels[0].items.filter(({ kind }) => kind !== "band")
        .map(({ name, x, y, half, width }) => ([name, [...x].length, [...y], [...half ?? []], width]));
    };
    const first = await shown("lines");
    set("over", "2");
    return [first, await shown("bars"), document.getElementById("about").textContent];
    """
    )
    told = look(tiny / "s" / "sweep.html", probe=probe)
    assert told["console"] == []
    lines, bars, about = told["probe"]
    assert [(name, count, width) for name, count, _, _, width in lines] == [("reno", 5, 0), ("cubic", 5, 0)]
    (_, _, means, halves, _) = bars[0]
    values = {"reno": [1, 9, 25, 49, 81], "cubic": [4, 16, 36, 64, 100]}
    assert means == [sum(values["reno"]) / 5, sum(values["cubic"]) / 5]
    # Student's t for 4 degrees of freedom.
    assert halves == pytest.approx([2.776 * stdev(each) / 5**0.5 for each in values.values()])
    assert "Means over all samples of link.rate, flows.0.rtt with the 95 % confidence intervals" in about


@needs_chromium
def test_tied_axes_are_held_together(tiny: Path) -> None:
    """A choice of the rate alone leaves two points at each place, one of them hidden."""
    values = {
        "link.rate": ["5 Mbit/s", "10 Mbit/s", "10 Mbit/s"],
        "flows.0.rtt": ["20 ms", "20 ms", "80 ms"],
        "flows.0.cc": ["reno", "cubic"],
    }
    _frame(tiny, values, zips=[["link.rate", "flows.0.rtt"]]).write_page()
    probe = (
        CHANGE
        + """
    set("over", "2"); set("by", "-1"); set("panels", "-1");
    const held = document.querySelector("#fixed label");
    const [select] = held.getElementsByTagName("select");
    const choices = [...select.options].map(({ textContent }) => textContent);
    select.value = "2";
    select.dispatchEvent(new Event("change"));
    await drawAllCharts();
    return [held.firstChild.textContent, choices, [...charts.of(chart).chart.panels[0].items[0].rows]];
    """
    )
    label, choices, rows = look(tiny / "s" / "sweep.html", probe=probe)["probe"]
    assert label == "link.rate with flows.0.rtt "
    assert choices == ["5 Mbit/s, 20 ms", "10 Mbit/s, 20 ms", "10 Mbit/s, 80 ms"]
    assert rows == [4, 5], "the two points of the third pair"


def test_the_best_value_is_best_by_the_figures_sense(tiny: Path) -> None:
    """0.0288 Mbit/s, all that a game has to send, is no best goodput; no timeout anywhere is no row's merit."""

    def marked(flow: dict[str, Any]) -> dict[str, list[float]]:
        base = {"link": {"rate": "10 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "20 ms"}, flow], "duration": "1 s"}
        folder = tiny / f"s{len(flow)}"
        definition = sweepfile.read(base, {"flows.0.cc": ["reno", "cubic", "lola"]})
        writer = dataset.Writer(folder, definition)
        same = dict.fromkeys(RUN, 0.0)
        made = [0.0286, 0.0288, 0.0287]
        moving = ("least_goodput_mbps", "goodput_mbps", "rtt_mean_ms", "marks", "first_share")
        writer.add(work.Part([{"run": i, "seed": 1} | same | dict.fromkeys(moving, x) for i, x in enumerate(made, 1)]))
        writer.flush()
        sweep = sweeps.Sweep(folder, definition, {})
        table = sweep_page._table(sweep, sweep.runs.collect())
        cells = [cell for row in table.rows for cell in row.cells if cell.kind == "best"]
        return {cell.key: [float(other.exact or 0) for other in cells if other.key == cell.key] for cell in cells}

    assert marked({"cc": "reno", "rtt": "20 ms", "label": "b"}) == {
        "least_goodput_mbps": [0.0288],
        "goodput_mbps": [0.0288],
        "rtt_mean_ms": [0.0286],
    }
    assert marked({"traffic": {"kind": "udp", "preset": "game-60hz"}, "rtt": "20 ms"}) == {
        "goodput_mbps": [0.0288],
        "rtt_mean_ms": [0.0286],
    }


def test_figures_name_a_probe_only_where_there_is_one() -> None:
    """Latency under load is that of a call or a game where nothing probes."""
    assert not [figure.title for figure in RUN.values() if "probe" in figure.title]


@needs_chromium
def test_a_click_leads_to_the_run_and_heads_sort(page: Path) -> None:
    probe = (
        CHANGE
        + """
    set("kind", "heat");
    await drawAllCharts();
    // A click on the cell of the faster link and the second algorithm.
    const [u] = charts.of(chart).plots;
    const box = u.over.getBoundingClientRect();
    const at = { clientX: box.left + u.valToPos(1, "x"), clientY: box.top + u.valToPos(1, "y"), bubbles: true };
    u.over.dispatchEvent(new MouseEvent("click", at));
    const said = document.getElementById("chosen").textContent;
    const heads = [...document.querySelectorAll("#runs thead th")];
    const rate = heads.find((head) => head.textContent.startsWith("link.rate"));
    rate.click(); rate.click();
    const order = [...document.querySelectorAll("#runs tbody tr")].map((row) => row.cells[0].textContent);
    return [said, order, document.querySelectorAll("#runs td.best").length > 5];
    """
    )
    said, order, best = look(page, probe=probe)["probe"]
    assert "flows.0.cc = cubic" in said
    assert said.endswith("knee run --from " + str(page.parent) + " 7")
    assert order[:4] == ["5", "6", "7", "8"], "the faster link first"
    assert best


@needs_chromium
def test_no_command_is_shown_that_needs_a_class_which_the_folder_does_not_hold(tmp_path: Path) -> None:
    class Mine(knee.CongestionControl):
        """Reno without an increase."""

    base = {"link": {"rate": "10 Mbit/s"}, "flows": [{"cc": Mine, "rtt": "20 ms"}], "duration": "1 s"}
    knee.sweep(base, {"link.rate": ["5 Mbit/s", "10 Mbit/s"]}, out=tmp_path / "s")
    probe = "choose(0); return document.getElementById('chosen').textContent;"
    said = look(tmp_path / "s" / "sweep.html", probe=probe)["probe"]
    assert said.endswith("With its report: run the scenario itself, since the folder does not hold its class")
    with pytest.raises(InputError, match="need the Python class"):
        knee.open_sweep(tmp_path / "s").scenario(1)


@needs_chromium
def test_on_a_phone_the_touched_run_is_named_in_sight_of_what_was_touched(tiny: Path) -> None:
    """Three panels below each other are higher than a phone."""
    sweep = _frame(tiny, {"link.rate": ["5 Mbit/s", "10 Mbit/s"], "flows.0.cc": ["reno", "cubic"], "seed": [1, 2, 3]})
    sweep.write_page()
    tab = Tab(tiny / "s" / "sweep.html", PHONE)
    tab.evaluate("""(() => {
      for (const [id, value] of [["over", "0"], ["by", "1"], ["panels", "2"]]) {
        const select = document.getElementById(id);
        select.value = value;
        select.dispatchEvent(new Event("change"));
      }
    })()""")
    first = "#chart .uplot:first-child .u-over"
    tab.tap(first)
    at = tab.evaluate("""(() => {
      const [u] = charts.of(document.getElementById("chart")).plots;
      const [{ x, y }] = u.knee.panel.items.filter(({ kind }) => kind === "line");
      return [u.valToPos(x[0], "x") / u.over.clientWidth, u.valToPos(y[0], "y") / u.over.clientHeight];
    })()""")
    tab.touch(first, [[(at[0], at[1])]])
    tab.until("document.getElementById('chosen').textContent.startsWith('Run ')")
    box = "document.getElementById('chosen').getBoundingClientRect()"
    top, bottom, height = tab.evaluate(f"(({{ top, bottom }}) => [top, bottom, innerHeight])({box})")
    assert 0 <= top < bottom <= height
    tab.close()


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_thirty_lines_look_different_and_the_page_fits(tiny: Path, width: int) -> None:
    """A legend over the axis's title, or lines of one look, would be seen here."""
    made = _frame(tiny, {"link.rate": ["5 Mbit/s", "10 Mbit/s"], "title": [f"name {i}" for i in range(30)]})
    made.write_page()
    probe = """
    const { items } = charts.of(document.getElementById("chart")).chart.panels[0];
    const looks = items.map(({ colour, dash }) => [colour, dash]);
    const { top } = document.getElementById("chart").getBoundingClientRect();
    const buttons = [...document.querySelectorAll(".legend button")];
    const over = buttons.filter((button) => button.parentNode.getBoundingClientRect().bottom > top + 1);
    return [looks, buttons.map((button) => button.textContent), over.length];
    """
    looks, names, over = check_layout(tiny / "s" / "sweep.html", width, 4200, probe)["probe"]
    assert len({tuple(each) for each in looks}) == 30, "by colour and dash"
    assert len({each[0] for each in looks}) == 20
    assert names == [f"name {i}" for i in range(30)]
    assert over == 0


@needs_chromium
def test_values_of_axes_are_text(tiny: Path) -> None:
    values = ["<script>boom()</script>", "<b>bold</b>", "$x^$", "\x1b[31mred"]
    made = _frame(tiny, {"title": values, "link.rate": ["5 Mbit/s", "10 Mbit/s"]})
    made.write_page()
    probe = """
    await drawAllCharts();
    const svg = await charts.svg(charts.of(document.getElementById("chart")).chart, 900);
    const all = new DOMParser().parseFromString(svg, "image/svg+xml").querySelectorAll("text");
    const texts = [...all].map((one) => one.textContent);
    const { names } = charts.of(document.getElementById("chart")).chart.x;
    const drawn = names.filter((name) => texts.some((text) => text === name || text === `${name.slice(0, 17)}…`));
    return [drawn, [...document.querySelectorAll("tbody tr")].map((row) => row.cells[1].textContent)];
    """
    told = look(tiny / "s" / "sweep.html", probe=probe)
    shown = [*values[:3], "\\x1b[31mred"]
    assert told["probe"] == [shown, [text for text in shown for _ in range(2)]]
    assert told["console"] == []


def test_a_page_names_what_ships_with_knee_and_no_path_of_the_machine(tiny: Path) -> None:
    made = sweeps.run_sweep(of("hello", "link.limit=25 packets,50 packets", changes=["duration=100 ms"]), tiny / "s")
    made.write_page()
    text = (tiny / "s" / "sweep.html").read_text()
    assert "<span>hello</span>" in text
    assert str(PACKAGE) not in text
    assert called(str(tiny / "mine.toml")) == str(tiny / "mine.toml")
