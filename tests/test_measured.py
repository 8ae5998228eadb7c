"""Measurements of iperf3 and Flent beside results, in ``knee compare`` and ``knee plot``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import knee
from knee.cli import main
from knee.view.compare.measured import Track, chart, figures, of_result, track
from test_import import flent, iperf3

SCENARIO = {
    "duration": "3 s",
    "link": {"rate": "10 Mbit/s", "limit": "20 packets", "reverse": {"rate": "4 Mbit/s", "limit": "20 packets"}},
    "flows": [
        {"cc": "reno", "rtt": "20 ms", "count": 2},
        {"cc": "reno", "rtt": "20 ms", "direction": "reverse"},
    ],
}


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path, Path]:
    import gzip

    knee.run(SCENARIO, out=tmp_path / "run")
    (tmp_path / "a.json").write_text(json.dumps(iperf3(reverse=False)))
    (tmp_path / "b.flent.gz").write_bytes(gzip.compress(json.dumps(flent()).encode()))
    return tmp_path / "run", tmp_path / "a.json", tmp_path / "b.flent.gz"


def test_values_hold_until_the_next_and_means_are_over_time() -> None:
    rtt = (np.array([0.0, 1.0, 4.0]), np.array([10.0, 20.0, 40.0]))
    found = figures(Track("x", "y", ((np.array([0.0, 9.0]), np.array([5.0, 15.0])), None), rtt, 10.0))
    assert found["goodput, Mbit/s"] == pytest.approx((9 * 5 + 15) / 10)
    assert found["goodput against the data, Mbit/s"] is None
    assert found["RTT, mean, ms"] == pytest.approx((10 + 3 * 20 + 6 * 40) / 10)
    assert (found["RTT, least, ms"], found["RTT, median, ms"]) == (10.0, 20.0)


def test_the_track_of_a_result_has_the_figures_of_its_summary(paths: tuple[Path, Path, Path]) -> None:
    run = figures(of_result(paths[0]))
    summary = knee.open(paths[0]).summary  # type: ignore[union-attr]
    forward, reverse = summary["run"]["goodput_mbps"], summary["run"]["reverse_goodput_mbps"]
    assert run["goodput, Mbit/s"] == pytest.approx(forward, rel=0.01)
    assert run["goodput against the data, Mbit/s"] == pytest.approx(reverse, rel=0.01)


def test_measurements_have_the_direction_that_was_measured_first(paths: tuple[Path, Path, Path]) -> None:
    iperf, rrul = (figures(track(path)) for path in paths[1:])
    assert iperf["goodput, Mbit/s"] == pytest.approx(42.5), "an upload, which is the only one"
    assert iperf["RTT, least, ms"] == pytest.approx(21.25)
    assert rrul["goodput, Mbit/s"] == pytest.approx(4.0), "5, 5 and 2 Mbit/s"
    assert rrul["goodput against the data, Mbit/s"] == pytest.approx(2.5)
    assert rrul["RTT, median, ms"] == 35.0


def test_the_command_lays_them_beside_each_other(
    paths: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(path) for path in paths]
    assert main(["compare", *given, "--json", "--out", str(tmp_path / "page")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["format"] for each in told] == ["knee", "iperf3", "flent"]
    text = (tmp_path / "page" / "compare.html").read_text(encoding="utf-8")
    assert "b.flent.gz" in text
    assert "default-src" in text
    assert main(["compare", *given]) == 0
    assert "goodput, Mbit/s" in capsys.readouterr().out
    assert main(["compare", given[1]]) == 2
    assert "There is only" in capsys.readouterr().err
    (tmp_path / "c.json").write_text("{}")
    assert main(["compare", given[0], str(tmp_path / "c.json")]) == 2
    assert "has none of round_trips" in capsys.readouterr().err


def test_a_measurement_is_drawn(
    paths: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, panels in ((paths[1], 2), (paths[2], 2)):
        assert len(chart([track(path)]).panels) == panels
        file = tmp_path / f"{path.name}.svg"
        assert main(["plot", str(path), "--out", str(file), "--width", "column"]) == 0
        assert file.read_text(encoding="utf-8").lstrip().startswith("<?xml")
    assert main(["plot", str(paths[1]), "--kind", "heat"]) == 2
    assert "leave out --kind" in capsys.readouterr().err
