"""``knee.compare``: the figures of results side by side, in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import knee
from knee.cli import main
from knee.errors import FolderError, InputError
from knee.figures.compared import figures, of_run
from knee.view.compare.variants import variants


@pytest.fixture
def results(tmp_path: Path, scenario: Callable[..., dict[str, Any]]) -> list[knee.Result]:
    """Two flows, and one of them alone."""
    one = scenario(name="one", duration="1 s")
    other = scenario(name="other", duration="1 s", flows=one["flows"][:1])
    return [knee.run(each, out=tmp_path / each["name"]) for each in (one, other)]


def test_each_result_is_a_column_of_its_figures(results: list[knee.Result]) -> None:
    frame = knee.compare(*results)
    assert frame.columns == ["figure", "one", "other"]
    for result in results:
        shown = dict(zip(frame["figure"], frame[result.summary["name"]], strict=True))
        told = figures(result.summary)
        assert {name: value for name, value in shown.items() if name in told} == pytest.approx(told, nan_ok=True)
        assert all(value is None for name, value in shown.items() if name not in told), "a figure that it does not have"
    assert frame["figure"].is_unique().all()


def test_folders_are_named_by_their_paths_and_alike_names_numbered(results: list[knee.Result], tmp_path: Path) -> None:
    folder = str(tmp_path / "one")
    frame = knee.compare(folder, tmp_path / "other", results[0], results[0])
    assert frame.columns == ["figure", folder, str(tmp_path / "other"), "one", "one (4)"]
    assert frame[folder].equals(frame["one"], null_equal=True)
    assert frame["one"].equals(frame["one (4)"], null_equal=True)


def test_one_result_or_none_and_what_is_no_result_are_refused(results: list[knee.Result], tmp_path: Path) -> None:
    for given in ((), results[:1]):
        with pytest.raises(InputError, match="give two or more to compare"):
            knee.compare(*given)
    with pytest.raises(FolderError, match="nothing-here"):
        knee.compare(results[0], tmp_path / "nothing-here")


@pytest.mark.parametrize("figure", [None, "rtt", "goodput", "queue"])
def test_several_runs_are_drawn_into_one_file(
    figure: str | None, results: list[knee.Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    chosen = ["--figure", figure] if figure else []
    for name in ("both.pdf", "both.html"):
        file = tmp_path / name
        assert main(["plot", *(str(tmp_path / run) for run in ("one", "other")), *chosen, "--out", str(file)]) == 0
        assert file.stat().st_size > 1000
        assert name in capsys.readouterr().out


def test_a_figure_of_several_runs_has_the_rows_of_each_under_its_name(scenario: Callable[..., dict[str, Any]]) -> None:
    made = {
        cc: knee.run(scenario(duration="1 s", flows=[{"cc": cc, "rtt": "20 ms"}])) for cc in ("reno", "lola", "bbr")
    }
    first, *others = made.values()
    (panel,) = first.plot("cwnd", beside=others).chart.panels
    assert [line.name for line in panel.lines] == list(made)
    assert len({line.colour for line in panel.lines}) == 3
    for line, result in zip(panel.lines, made.values(), strict=True):
        rows = result.samples.drop_nulls("cwnd_packets")
        assert np.allclose(line.x, rows["t_s"])
        assert np.allclose(line.y, rows["cwnd_packets"])


def test_seeds_of_one_scenario_are_told_apart(scenario: Callable[..., dict[str, Any]]) -> None:
    runs = [knee.run(scenario(duration="1 s", seed=seed, flows=[{"cc": "bbr", "rtt": "20 ms"}])) for seed in (1, 2)]
    (panel,) = runs[0].plot("rtt", beside=runs[1]).chart.panels
    assert len({(line.name, line.colour) for line in panel.lines}) == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["one", "nothing-here"], "nothing-here is not a knee result"),
        (["one", "other", "--figure", "buffer"], "No figure of several runs is named 'buffer'; there are overview,"),
        (["one", "other", "--kind", "heat"], "--kind is for sweeps"),
        (["one", "swept"], "swept is a sweep, which is drawn alone"),
        (["swept", "one"], "swept is a sweep, which is drawn alone"),
    ],
)
def test_what_does_not_go_into_one_figure_is_refused(
    given: list[str],
    said: str,
    results: list[knee.Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    swept = {"cc": "reno", "rtt": "20 ms"}
    knee.sweep({"duration": "1 s", "link": {"rate": "5 Mbit/s"}, "flows": [swept]}, over={"seed": [1]}, out="swept")
    before = sorted(tmp_path.iterdir())
    assert main(["plot", *given]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert sorted(tmp_path.iterdir()) == before


def test_the_bottlenecks_of_differently_named_links_are_in_one_row() -> None:
    flow = {"cc": "cubic", "rtt": "20 ms"}
    link = {"rate": "10 Mbit/s", "limit": "50 packets"}
    access = {"name": "access", "rate": "1 Gbit/s", "limit": "1000 packets"}
    one = knee.run({"name": "one", "duration": "2 s", "link": link, "flows": [flow]})
    two = knee.run({"name": "two", "duration": "2 s", "links": [access, link | {"name": "modem"}], "flows": [flow]})
    frame = knee.compare(one, two)
    rows = {name: values for name, *values in frame.iter_rows()}
    assert all(value > 1 for value in rows["slowest queue: queueing delay, mean, ms"])
    assert "modem: queueing delay, mean, ms" not in rows
    assert rows["access: queueing delay, mean, ms"][0] is None
    # The bottlenecks are one link, which is the same; of the other link no default is told.
    keys, _, values = variants([one, two], ["a", "b"])
    other = {f"links.0.{key}" for key in ("name", "rate", "queue", "limit")}
    assert set(keys) == {"bottleneck.name", "flows.0.path"} | other
    assert [value["links.0.rate"] for value in values] == ["–", "1 Gbit/s"]


def test_a_transfer_has_the_goodput_of_the_time_in_which_it_ran() -> None:
    """10 MB at 9.6 Mbit/s of payload take 8.4 s: over a run of 30 s that were 2.667 Mbit/s."""
    flow = {"cc": "cubic", "rtt": "20 ms", "bytes": "10 MB"}
    link = {"rate": "10 Mbit/s", "limit": "50 packets"}
    summary = knee.run({"duration": "30 s", "link": link, "flows": [flow]}).summary
    told = figures(summary)
    assert told["goodput of transfers while they run, least, Mbit/s"] == summary["flows"][0]["goodput_mbps"] > 9
    assert "goodput of all flows, Mbit/s" not in told
    assert "goodput_mbps" not in of_run(summary)
    assert of_run(summary)["transfer_goodput_mbps"] > 9
    endless = knee.run({"duration": "1 s", "link": link, "flows": [{"cc": "cubic", "rtt": "20 ms"}]}).summary
    assert of_run(endless) == endless["run"]
