"""Sweeps: their grids, their files, and what they refuse."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser import DESKTOP, PHONE, check_layout, look, needs_chromium
from knee import batch
from knee import sweeps as sweep
from knee.cli import main
from knee.errors import InputError
from knee.scenario import from_dict
from knee.sweeps import page
from knee.sweeps.grid import Axis, axis
from knee.sweeps.table import FIGURES

TINY = """
duration = "2 s"
link = { rate = "10 Mbit/s", limit = "50 packets" }
flows = [{ cc = "reno", rtt = "20 ms", count = 2 }]
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with tiny.toml in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("link.rate=5 Mbit/s, 10 Mbit/s", ("5 Mbit/s", "10 Mbit/s")),
        ("flows.0.cc=reno", ("reno",)),
        ("link.reverse={rate='1 Mbit/s',limit='9 packets'},{rate='2 Mbit/s'}", 2),
        ("flows.0.path=['a','b'],['b']", ("['a','b']", "['b']")),
        ("title='one, two',three", ("'one, two'", "three")),
    ],
)
def test_commas_part_values_outside_of_brackets_and_quotes(text: str, values: tuple[str, ...] | int) -> None:
    found = axis(text).values
    assert len(found) == values if isinstance(values, int) else found == values


@given(st.lists(st.text("az09.", min_size=1, max_size=8), min_size=1, max_size=6, unique=True))
def test_an_axis_has_the_values_it_was_given(values: list[str]) -> None:
    assert axis(f"key={','.join(values)}") == Axis("key", tuple(values))


def test_axes_of_quantities_are_numbers_of_one_unit() -> None:
    assert Axis("k", ("500 us", "2 ms", "1 s")).numbers == ([0.5, 2.0, 1000.0], "ms")
    assert Axis("k", ("1 Gbit/s", "10 Mbit/s")).numbers == ([1000.0, 10.0], "Mbit/s")
    assert Axis("k", ("0.5", "1")).numbers == ([0.5, 1.0], "")
    assert Axis("k", ("25 packets", "100 packets")).numbers == ([25.0, 100.0], "packets")
    assert Axis("k", ("25 packets", "100 ms")).numbers is None
    assert Axis("k", ("reno", "cubic")).numbers is None


def test_a_grid_has_each_point_once_the_last_axis_first(tiny: Path) -> None:
    grid = [axis("link.rate=5 Mbit/s,10 Mbit/s"), axis("flows.0.cc=reno,cubic,vegas")]
    made = sweep.scenarios("tiny.toml", grid, seeds=2)
    assert [(s.links[0].rate // 10**6, s.flows[0].cc, s.seed) for s in made] == [
        (rate, cc, seed) for rate in (5, 10) for cc in ("reno", "cubic", "vegas") for seed in (1, 2)
    ]


def test_a_sweep_leaves_its_table_and_page_and_runs_nothing_twice(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["sweep", "tiny.toml", "--over", "link.rate=5 Mbit/s,10 Mbit/s", "--over", "flows.0.cc=reno,cubic"]
    assert main(command) == 0
    assert "results/sweep-tiny/sweep.html" in capsys.readouterr().out
    out = tiny / "results" / "sweep-tiny"
    assert sorted(path.name for path in out.iterdir()) == ["runs", "sweep.html", "sweep.json", "sweep.parquet"]
    frame = pl.read_parquet(out / "sweep.parquet")
    assert frame.columns == ["run", "link.rate", "flows.0.cc", "seed", *FIGURES]
    assert frame.height == 4
    # Twice the rate carries twice as much, within what slow start costs.
    by_rate = frame.group_by("link.rate", maintain_order=True).agg(pl.col("goodput_mbps").mean())["goodput_mbps"]
    assert by_rate[1] / by_rate[0] == pytest.approx(2, rel=0.15)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("it ran again")

    monkeypatch.setattr(batch.runner, "run", never)
    assert main(command) == 0
    assert pl.read_parquet(out / "sweep.parquet").equals(frame)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to sweep"),
        (["--over", "link.rate"], "is not an axis"),
        (["--over", "link.rate="], "is not an axis"),
        (["--over", "link.rate=5 Mbit/s,,6 Mbit/s"], "is not an axis"),
        (["--over", "link.rate=5 Mbit/s,5 Mbit/s"], "twice"),
        (["--over", "link.rate=5 Mbit/s", "--over", "link.rate=6 Mbit/s"], "twice"),
        (["--over", "link.rate=5 Mbit/s,fast"], "link.rate"),
        (["--over", "link.rat=5 Mbit/s"], "did you mean rate"),
        (["--over", "flows.7.cc=reno"], "flows.7"),
        (["--over", "seed=1,2", "--seeds", "2"], "seed"),
        (["--over", "seed=" + ",".join(map(str, range(400))), "--over", "flows.0.count=" + ",".join(
            map(str, range(1, 400)))], "159600 runs"),
        (["--over", "seed=1,2", "--out", "tiny.toml"], "is not replaced"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)  # fmt: skip
def test_bad_input_is_refused_and_nothing_written(
    tiny: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["sweep", "tiny.toml", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
    assert [path.name for path in tiny.iterdir()] == ["tiny.toml"]


def test_the_columns_stand_in_the_documents() -> None:
    text = (Path(__file__).resolve().parent.parent / "docs" / "matrix.md").read_text(encoding="utf-8")
    for name in FIGURES:
        assert f"`{name}`" in text, name


def test_an_unknown_scenario_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean hello"):
        sweep.scenarios("helo", [axis("seed=1")])


@needs_chromium
def test_the_page_draws_what_is_chosen(tiny: Path) -> None:
    grid = [axis("link.rate=5 Mbit/s,10 Mbit/s"), axis("flows.0.cc=reno,cubic")]
    sweep.run("tiny.toml", grid, tiny / "s", changes=["link.jitter=1 ms"], seeds=2)
    probe = """
    const names = () => document.getElementById("chart").data.map((line) => line.legendgroup);
    const first = names();
    const over = document.getElementById("over");
    over.value = "1";
    over.dispatchEvent(new Event("change"));
    await drawAllCharts();
    return [first, names(), document.getElementById("about").textContent];
    """
    told = look(tiny / "s" / "sweep.html", probe=probe)
    assert told["probe"][:2] == [["reno", "cubic"], ["5 Mbit/s", "10 Mbit/s"]]
    assert "Means over the seeds" in told["probe"][2]
    assert told["console"] == []


def test_seeds_can_be_an_axis(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/matrix.md has it; a seed is a number where other values are text."""
    assert main(["sweep", "tiny.toml", "--over", "seed=1,2,3", "--set", "link.loss=0.01"]) == 0
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines() if line.strip()[:1].isdigit()] == ["1", "2", "3"]


def _frame(axes: list[Axis]) -> pl.DataFrame:
    """A table with made-up figures, a row per point."""
    points = list(product(*(axis.values for axis in axes)))
    columns = {name: [float(i % 7 + k) for i in range(len(points))] for k, name in enumerate(FIGURES)}
    keys = {axis.key: [point[i] for point in points] for i, axis in enumerate(axes)}
    return pl.DataFrame({"run": [str(i) for i in range(len(points))], **keys, "seed": [1] * len(points), **columns})


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_twenty_lines_look_different_and_the_page_fits(tmp_path: Path, width: int) -> None:
    """A legend over the axis's title, or lines of one look, would be seen here."""
    axes = [axis("link.rate=5 Mbit/s,10 Mbit/s"), Axis("flows.0.cc", tuple(f"name {i}" for i in range(20)))]
    scenario = from_dict({"link": {"rate": "10 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "20 ms"}], "duration": "1 s"})
    (tmp_path / "sweep.html").write_text(page.page(_frame(axes), axes, scenario, "tiny"))
    probe = """
    const looks = document.getElementById("chart").data.map(({ line }) => [line.color, line.dash]);
    const title = document.querySelector(".chart .xtitle").getBoundingClientRect();
    const buttons = [...document.querySelectorAll(".legend button")];
    const over = buttons.filter((button) => button.getBoundingClientRect().bottom > title.top);
    return [looks, buttons.map((button) => button.textContent), over.length];
    """
    looks, names, over = check_layout(tmp_path / "sweep.html", width, 3000, probe)["probe"]
    assert len({tuple(each) for each in looks}) == 20, "by colour and dash"
    assert names == [f"name {i}" for i in range(20)]
    assert over == 0


@needs_chromium
def test_values_of_axes_are_text(tmp_path: Path) -> None:
    values = ("<script>boom()</script>", "<b>bold</b>", "$x^$", "\x1b[31mred")
    axes = [Axis("title", values), axis("link.rate=5 Mbit/s,10 Mbit/s")]
    scenario = from_dict({"link": {"rate": "10 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "20 ms"}], "duration": "1 s"})
    (tmp_path / "sweep.html").write_text(page.page(_frame(axes), axes, scenario, "<i>tiny</i>"))
    probe = """
    const drawn = [...document.querySelectorAll(".chart .xtick text")].map((text) => text.textContent);
    return [drawn, [...document.querySelectorAll("tbody th")].map((head) => head.textContent)];
    """
    told = look(tmp_path / "sweep.html", probe=probe)
    shown = [*values[:3], "\\x1b[31mred"]
    assert told["probe"] == [shown, [text for text in shown for _ in range(2)]]
    assert told["console"] == []
