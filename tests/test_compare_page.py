"""The page of `knee compare`: what differs on top, differences with their spread, all series over each other."""

from __future__ import annotations

import math
from html import unescape
from pathlib import Path

import pytest

import knee
from browser import DESKTOP, PHONE, check_layout, needs_chromium
from knee.cli import main
from knee.figures.register import RUN
from knee.results.result import Result
from knee.view.compare.charts import charts
from knee.view.compare.page import page
from knee.view.compare.variants import Variant, difference, variants

BASE = {
    "duration": "3 s",
    "link": {"rate": "10 Mbit/s", "limit": "50 packets", "loss": 0.005},
    "flows": [{"cc": "reno", "rtt": "20 ms", "label": "one"}],
}


def run(cc: str, seed: int) -> Result:
    return knee.run(BASE | {"seed": seed, "flows": [{"cc": cc, "rtt": "20 ms", "label": "one"}]})


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [run(cc, seed) for cc in ("reno", "cubic") for seed in (1, 2, 3)]


FOLDERS = [f"{cc}-{seed}" for cc in ("reno", "cubic") for seed in (1, 2, 3)]


def test_results_that_differ_in_the_seed_alone_are_one_variant(results: list[Result]) -> None:
    """Parameters of an algorithm follow from its name, so they are no difference of their own."""
    keys, made, values = variants(results, FOLDERS)
    assert keys == ["flows.0.cc", "seed"]
    assert [variant.name for variant in made] == ["reno", "cubic"]
    assert [len(variant.results) for variant in made] == [3, 3]
    assert values[1] == {"flows.0.cc": "cubic", "seed": "1, 2, 3"}


def test_a_changed_parameter_of_the_same_algorithm_is_a_difference() -> None:
    other = BASE | {"seed": 1, "flows": [{"cc": "reno", "rtt": "40 ms", "label": "one"}]}
    keys, made, _ = variants([run("reno", 1), knee.run(other)], ["a", "b"])
    assert keys == ["flows.0.rtt"]
    assert [variant.name for variant in made] == ["20 ms", "40 ms"]


def variant(*values: float) -> Variant:
    return Variant("", [], [], [{"jain": value, "marks": value, "loss": value} for value in values])


def test_parameters_are_compared_among_runs_of_one_algorithm_only() -> None:
    """CUBIC's beta is in 1/1024 and LoLa's a fraction; LoLa's phi is a difference although CUBIC has none."""
    flows = [{"cc": "cubic"}, {"cc": "lola"}, {"cc": "lola", "cc_params": {"phi": 70}}]
    made = [knee.run(BASE | {"seed": 1, "flows": [flow | {"rtt": "20 ms"}]}) for flow in flows]
    keys, of, _ = variants(made, ["a", "b", "c"])
    assert keys == ["flows.0.cc", "flows.0.cc_params.phi"]
    assert [variant.name for variant in of] == ["cubic", "lola, 35.0", "lola, 70.0"]
    assert variants(made[:2], ["a", "b"])[0] == ["flows.0.cc"]


def test_a_difference_has_welchs_interval() -> None:
    """Means 2 and 6, variances 1 and 4 of three runs each: 4.3027 sqrt(1/3 + 4/3) = 5.5547."""
    found = difference(variant(1.0, 2.0, 3.0), variant(4.0, 6.0, 8.0), "jain")
    assert found is not None
    assert found.amount == 4.0
    assert found.part == 2.0
    assert found.half == pytest.approx(4.302652729911275 * math.sqrt(5 / 3))
    assert not found.clear
    assert found.verdict(RUN["jain"]) == ""


def test_a_verdict_needs_a_clear_difference_and_a_direction() -> None:
    few, many = variant(1.0, 1.1, 1.2), variant(6.0, 6.1, 6.2)
    assert [difference(few, many, name).verdict(RUN[name]) for name in ("jain", "loss", "marks")] == [  # type: ignore[union-attr]
        "better",
        "worse",
        "",
    ]
    alone = difference(variant(1.0), variant(6.0), "jain")
    assert alone is not None
    assert alone.half is None
    assert not alone.clear, "one run says nothing of the spread"


def test_all_series_lie_over_each_other_and_boxes_are_over_the_seeds(results: list[Result]) -> None:
    _, made, _ = variants(results, FOLDERS)
    over_time, distributions, (boxes,) = charts(made)
    rtt = next(chart for chart in over_time if chart.key == "rtt").panels[0]
    assert [line.name for line in rtt.lines] == ["reno"] * 3 + ["cubic"] * 3
    assert len({line.colour for line in rtt.lines}) == 2
    assert {chart.key for chart in distributions} == {"throughput-ecdf", "rtt-ecdf", "queue-ecdf"}
    for chart in distributions:
        for line in chart.panels[0].lines:
            assert (line.y[0], line.y[-1]) == (0.0, 1.0)
    (reno, cubic) = boxes.panels[0].boxes
    goodputs = sorted(result.summary["flows"][0]["goodput_mbps"] for result in results[:3])
    assert reno.five[0][2] == pytest.approx(goodputs[1])
    assert (reno.five[0][0], reno.five[0][4]) == pytest.approx((goodputs[0], goodputs[2]))
    assert cubic.x.tolist() == [1.0]


def test_the_command_writes_a_light_page_that_loads_nothing(results: list[Result], tmp_path: Path) -> None:
    folders = []
    for result, name in zip(results, FOLDERS, strict=True):
        folders.append(str(result.save(tmp_path / name)))
    assert main(["compare", *folders, "--out", str(tmp_path / "page")]) == 0
    path = tmp_path / "page" / "compare.html"
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 400_000
    assert "default-src 'none'" in unescape(text)
    assert text.index("What differs") < text.index('<section id="figures">') < text.index('<section id="series">')
    assert "src=" not in text.replace("img-src", "").replace("script-src", "").replace("default-src", "")


def test_the_terminal_has_a_column_for_each_variant(
    results: list[Result], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight seeds side by side are some 300 columns of a terminal, and no comparison."""
    # Names short enough for a head in one line.
    monkeypatch.chdir(tmp_path)
    folders = [str(result.save(name)) for result, name in zip(results, FOLDERS, strict=True)]
    assert main(["compare", *folders]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["figure", "reno", "cubic"] in lines
    assert ["seed", "1,", "2,", "3", "1,", "2,", "3"] in lines
    means = [
        sum(result.summary["flows"][0]["goodput_mbps"] for result in own) / 3 for own in (results[:3], results[3:])
    ]
    assert ["one:", "goodput,", "Mbit/s", *(f"{mean:.3f}" for mean in means)] in lines
    assert main(["compare", folders[0], folders[3]]) == 0
    assert ["figure", folders[0], folders[3]] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_a_page_is_not_written_where_a_folder_is_in_its_place(
    results: list[Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (str(result.save(tmp_path / f"r{i}")) for i, result in enumerate(results[:2]))
    (tmp_path / "page" / "compare.html").mkdir(parents=True)
    assert main(["compare", one, other, "--out", str(tmp_path / "page")]) == 2
    assert "compare.html is a folder, and only files are replaced" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["compare", one, other, "--out", str(tmp_path / "file")]) in (1, 2)
    assert capsys.readouterr().err.count("\n") == 1


def test_the_page_shows_the_figures_that_differ_and_folds_the_rest(results: list[Result]) -> None:
    one = results[0]
    longer = knee.run(one.scenario.plain() | {"flows": [{"cc": "reno", "rtt": "40 ms", "label": "one"}]})
    text = page([one, longer], ["a", "b"])
    shown, folded = text.split('<section id="series">')
    same = [name for name in RUN if one.summary["run"].get(name) is not None]
    same = [name for name in same if one.summary["run"][name] == longer.summary["run"][name]]
    assert "timeouts" in same
    assert not any(f'data-key="{name}"' in shown for name in same)
    assert all(f'data-key="{name}"' in folded[folded.index('<details id="same">') :] for name in same)
    assert 'data-key="rtt_mean_ms"' in shown
    assert "Figures of the runs" not in text, "a mark for each of two runs says what the table says"


@needs_chromium
@pytest.mark.parametrize(("width", "tallest"), [(PHONE, 5000), (DESKTOP, 3400)])
def test_a_page_of_two_runs_on_differing_links_is_short(width: int, tallest: int, tmp_path: Path) -> None:
    """It was 12,747 px long on a phone."""
    flow = {"cc": "cubic", "rtt": "40 ms", "bytes": "3 MB"}
    access = {"name": "access", "rate": "100 Mbit/s", "limit": "600 packets"}
    made = [
        knee.run({"duration": "5 s", "flows": [flow], **links})
        for links in (
            {"link": BASE["link"]},
            {"links": [access, BASE["link"] | {"name": "modem", "queue": "fq_codel"}]},
        )
    ]
    path = tmp_path / "compare.html"
    path.write_text(page(made, ["one", "two"]), encoding="utf-8")
    check_layout(path, width, tallest=tallest)


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_page_fits(results: list[Result], tmp_path: Path, width: int) -> None:
    evil = "</script><script>boom()</script>\"'&"
    path = tmp_path / "compare.html"
    path.write_text(page(results[:2], [evil, "b"]), encoding="utf-8")
    check_layout(path, width, tallest=9000)
    path.write_text(page(results, FOLDERS), encoding="utf-8")
    told = check_layout(path, width, tallest=9000)
    assert told["charts"] >= 8
