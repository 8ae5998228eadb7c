"""Figures in a column of a paper: no title is cut, no warning of matplotlib leaks, the font is the one asked for."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from matplotlib import rc_context

from knee.cli import main
from knee.errors import InputError
from knee.figures.register import RUN
from knee.study import sweeps
from knee.study.sweeps import Sweep, sweepfile
from knee.view import drawing
from knee.view.sweep.pictures import KINDS, Picture, chart


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    folder = tmp_path_factory.mktemp("narrow")
    (folder / "x.toml").write_text(
        'duration = "1 s"\nlink = { rate = "10 Mbit/s", limit = "50 packets" }\n'
        'flows = [{ cc = "reno", rtt = "20 ms" }]\n[sweep.over]\nflows.0.cc = ["reno", "cubic"]\n'
        'link.rate = ["4 Mbit/s", "9 Mbit/s"]\nflows.0.rtt = ["10 ms", "20 ms"]\n'
    )
    return sweeps.run_sweep(sweepfile.read(str(folder / "x.toml"), ()), folder / "made", jobs=1)


@pytest.mark.parametrize("width", ["column", 2.2, "page"])
@pytest.mark.parametrize("kind", KINDS)
def test_titles_of_axes_lie_within_the_figure(made: Sweep, kind: str, width: str | float) -> None:
    """The longest titles of the register, in one panel and in two."""
    for panels in (None, "link.rate"):
        for figure in ("goodput_mbps", "queue_delay_mean_ms", "loss"):
            over = None if kind in ("ecdf", "pareto") else "flows.0.rtt"
            by = "flows.0.cc"
            picture = Picture(kind=kind, figure=figure, over=over, by=by, panels=panels)
            at = drawing.size(width, 9.0)
            with rc_context(at.style()):
                figure_made = drawing.draw(chart(made, picture), at)
                figure_made.draw_without_rendering()
                box = figure_made.bbox
                for axes in figure_made.axes:
                    for axis in (axes.xaxis.label, axes.yaxis.label):
                        if not axis.get_text():
                            continue
                        own = axis.get_window_extent()
                        inside = (own.x0 >= -1, own.y0 >= -1, own.x1 <= box.x1 + 1, own.y1 <= box.y1 + 1)
                        assert all(inside), f"{axis.get_text()!r} of {kind} {figure} {panels}: {own} in {box}"


def test_short_titles_are_shorter_and_tell_figures_apart() -> None:
    assert all(len(one.short) < len(one.title) for one in RUN.values() if one.short and one.short != one.title)
    assert len({one.brief for one in RUN.values()}) == len(RUN)
    assert max(len(one.short or one.title) for one in RUN.values()) <= 28


def test_a_figure_without_room_is_refused_in_our_words(made: Sweep, tmp_path: Path) -> None:
    whole = made.plot(figure="queue_delay_mean_ms", over="flows.0.rtt", panels="link.rate")
    with pytest.raises(InputError, match=r"leave no room for the data at 1\.5 in and 24 pt; expected a larger --width"):
        whole.save(tmp_path / "x.png", width=1.5, font_size=24)
    assert not (tmp_path / "x.png").exists()


def test_the_font_is_the_one_asked_for(made: Sweep, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["plot", str(made.folder), "--figure", "loss", "--over", "flows.0.rtt", "--out", str(tmp_path / "x.svg")]
    assert main([*given, "--font", "DejaVu Serif"]) == 0
    assert drawing.size("page", 9, "DejaVu Serif").style()["font.family"] == "DejaVu Serif"
    assert main([*given, "--font", "DejaVu Serf"]) == 2
    assert "did you mean DejaVu Serif" in capsys.readouterr().err
    assert math.isclose(drawing.size("column").width_in, 3.5)
