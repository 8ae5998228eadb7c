"""The figure of buffers per flow, from notes written by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from knee.view.chart import Panel
from knee.view.report import plot, write_figures, write_report
from knee.view.report.buffers import MAX_BUFFERS, buffer
from knee.view.report.prepare import prepare
from synthetic_results import EVENT_SCHEMA, SyntheticResult, synthetic

Note = tuple[float, str, float]
#: The first loss ends the first interval; then a loss in the guard interval, its end, and growth.
NOTES: list[Note] = [
    (0.0, "buffer", 10.0),
    (0.5, "backlog", 7.0),
    (1.0, "idle", 0.0), (1.0, "restart", 1.0), (1.0, "longest_interval", 1.0), (1.0, "guard_interval", 1.25),
    (1.0, "backlog", 10.0),
    (1.5, "idle", 0.0), (1.5, "loss", 0.5), (1.5, "backlog", 10.0),
    (2.5, "idle", 0.0), (2.5, "reduce", 4.0), (2.5, "buffer", 6.0),
    (2.5, "longest_interval", 1.0), (2.5, "guard_interval", 1.0),
    (3.0, "idle", 0.02), (3.0, "enlarge", 3.0), (3.0, "buffer", 9.0),
]  # fmt: skip


def noted(notes: list[Note], flows: int = 1, of: int = 1) -> SyntheticResult:
    """A run of 5 s in which a queue left these notes on each of the first `of` flows."""
    result = synthetic(flows, duration=5.0, events=False)
    rows = [(t, i + 1, "bottleneck", event, value) for t, event, value in notes for i in range(of)]
    return replace(result, events=pl.DataFrame(rows, schema=EVENT_SCHEMA, orient="row"))


@pytest.fixture
def panel() -> Panel:
    chart = buffer(prepare(noted(NOTES)))
    assert len(chart.panels) == 1
    return chart.panels[0]


def test_the_buffer_is_a_step_that_lasts_to_the_end_and_the_backlog_a_line(panel: Panel) -> None:
    lines = {line.name: line for line in panel.lines}
    assert list(zip(lines["buffer"].x, lines["buffer"].y, strict=True)) == [(0, 10), (2.5, 6), (3, 9), (5, 9)]
    assert lines["buffer"].step
    assert list(lines["backlog"].y) == [7, 10, 10]
    assert panel.label == "Queue (packets)"


def test_guard_intervals_and_the_longest_interval_of_each_are_where_they_were(panel: Panel) -> None:
    shaded, longest = panel.spans
    # The guard intervals 1 to 2.5 s and 2.5 s to the end: every other one.
    assert shaded.spans == [(1.0, 2.5)]
    # 0 to 1 s was the first; in the guard interval 1 to 1.5 and 1.5 to 2.5 s, of which the latter is as long as told.
    assert longest.spans == [(0.0, 1.0), (1.5, 2.5)]


def test_what_was_done_at_a_full_queue_is_marked_where_the_buffer_is_then(panel: Panel) -> None:
    marks = {marks.name: marks for marks in panel.marks}
    assert {name: list(zip(m.x, m.y, strict=True)) for name, m in marks.items()} == {
        "queue full": [(1.0, 10.0), (1.5, 10.0)],
        "reduced": [(2.5, 6.0)],
        "enlarged": [(3.0, 9.0)],
    }
    assert marks["enlarged"].texts == ["3 packets more: idle for 20 ms"]
    assert marks["reduced"].texts[0].startswith("4 packets less: the standing queue\nthe longest interval was 1 s\n")


def test_only_a_run_with_such_a_queue_has_the_figure(tmp_path: Path) -> None:
    for name, result, there in (("with", noted(NOTES), True), ("without", synthetic(1, duration=5.0), False)):
        assert ("buffer.png" in [path.name for path in write_figures(result, tmp_path / name)]) == there
        write_report(result, tmp_path / f"{name}.html")
        html = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert bool(re.search(r'<figure id="buffer">', html)) == there
    assert buffer(prepare(synthetic(1, duration=5.0))).panels[0].note


def test_of_many_flows_a_few_are_drawn_and_the_caption_says_so() -> None:
    chart = buffer(prepare(noted(NOTES, flows=7, of=6)))
    assert [panel.label for panel in chart.panels] == [f"flow {i} (packets)" for i in range(1, MAX_BUFFERS + 1)]
    assert "The first 4 of 6." in chart.caption


def test_a_queue_that_only_tells_of_the_buffer_is_drawn_too() -> None:
    (panel,) = buffer(prepare(noted([(0.0, "buffer", 10.0), (2.0, "buffer", 20.0)]))).panels
    assert [line.name for line in panel.lines] == ["buffer"]
    assert (panel.marks, panel.spans) == ([], [])


def test_bursts_of_losses_do_not_fill_the_page() -> None:
    burst = [(1 + k * 1e-4, event, 0.0) for k in range(5000) for event in ("idle", "loss")]
    (panel,) = buffer(prepare(noted([(0.0, "buffer", 10.0), *burst]))).panels
    assert 1 <= len(panel.marks[0].x) <= 400


def test_marks_answer_to_the_pointer() -> None:
    (panel,) = plot(noted(NOTES), "buffer").chart.panels
    assert {line.name: line.step for line in panel.lines} == {"backlog": False, "buffer": True}
    assert next(marks for marks in panel.marks if marks.name == "enlarged").texts[0].startswith("3 packets more")
