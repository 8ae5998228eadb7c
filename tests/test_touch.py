"""Charts under fingers: a pinch or a drag zooms, a tap shows values, a double tap zooms out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import NEEDS_CHROMIUM, PHONE, Tab
from knee.view.report import write_report
from synthetic_results import synthetic

pytestmark = NEEDS_CHROMIUM

OVER = "#chart-rtt .u-over"
DURATION_S = 10.0
ENDS = """[...document.querySelectorAll(".chart")].flatMap((one) => charts.of(one).plots.map((u) =>
  [u.scales.x.min, u.scales.x.max]))"""
TIPS = """[...document.querySelectorAll(".tip:not([hidden])")].map((tip) => tip.innerText)"""


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    """The report of two flows that send for 10 s, on a phone."""
    write_report(synthetic(2, duration=DURATION_S), tmp_path / "report.html")
    tab = Tab(tmp_path / "report.html", PHONE)
    tab.ask()
    yield tab
    assert tab.console() == []
    assert tab.evaluate("visualViewport.scale") == 1, "the page itself is not zoomed"
    tab.close()


def ends(tab: Tab) -> list[list[float]]:
    """The ends of the time axes of all charts, once they are the same."""
    tab.until(f"new Set({ENDS}.map(String)).size === 1")
    found: Any = tab.evaluate(ENDS)
    assert len(found) == 6, "the panels of five figures"
    return found


def slide(start: float, end: float, y: float = 0.5) -> list[list[tuple[float, float]]]:
    """One finger that moves sideways."""
    return [[(start + (end - start) * i / 8, y)] for i in range(9)]


def test_a_drag_of_one_finger_sideways_zooms_all_figures_over_time_to_that_stretch(tab: Tab) -> None:
    tab.touch(OVER, slide(0.2, 0.5))
    tab.until(f"{ENDS}[0][0] > 0")
    for low, high in ends(tab):
        assert (low, high) == (pytest.approx(2.0, abs=0.1), pytest.approx(5.0, abs=0.1))


def test_a_pinch_keeps_the_times_under_the_fingers(tab: Tab) -> None:
    """Fingers at 40 % and 60 % of 10 s that move to 20 % and 80 %: 2 s become 60 % of the width, so it shows 3.33 s."""
    tab.touch(OVER, [[(0.4 - 0.2 * i / 8, 0.5), (0.6 + 0.2 * i / 8, 0.5)] for i in range(9)])
    tab.until(f"{ENDS}[0][0] > 3")
    for low, high in ends(tab):
        assert (low, high) == (pytest.approx(10 / 3, abs=0.1), pytest.approx(20 / 3, abs=0.1))
    # Together again, and further: there is nothing beyond the run.
    tab.touch(OVER, [[(0.1 + 0.38 * i / 8, 0.5), (0.9 - 0.38 * i / 8, 0.5)] for i in range(9)])
    tab.until(f"{ENDS}[0][0] === 0")
    assert ends(tab)[0] == [0, DURATION_S]


def test_a_drag_up_scrolls_the_page_and_zooms_nothing(tab: Tab) -> None:
    tab.touch(OVER, [[(0.5, 0.5)]])
    before = tab.evaluate("scrollY")
    tab.touch(OVER, [[(0.5 + 0.01 * i, 0.9 - 0.1 * i)] for i in range(9)])
    tab.until(f"scrollY > {before} + 20")
    assert ends(tab)[0] == [0, DURATION_S]


def test_a_tap_shows_values_until_something_else_is_touched(tab: Tab) -> None:
    tab.tap(OVER)
    tab.until(f"{TIPS}.length === 1")
    (tip,) = tab.evaluate(TIPS)
    assert tip.splitlines()[0] == "5 s"
    assert "flow 1: " in tip
    assert " ms" in tip
    tab.tap("h1")
    tab.until(f"{TIPS}.length === 0")


def test_a_double_tap_zooms_out_and_a_single_one_does_not(tab: Tab) -> None:
    tab.touch(OVER, slide(0.2, 0.5))
    tab.until(f"{ENDS}[0][0] > 0")
    # Both taps in one script: between calls of the test, more time may pass than between the taps of a double tap.
    once, twice = tab.evaluate(f"""(async () => {{
      const over = document.querySelector("{OVER}");
      const box = over.getBoundingClientRect();
      const at = {{ clientX: box.x + 90, clientY: box.y + 90, bubbles: true, pointerType: "touch", isPrimary: true }};
      const ends = [];
      for (const pointerId of [51, 52]) {{
        for (const kind of ["pointerdown", "pointerup"]) {{
          over.dispatchEvent(new PointerEvent(kind, {{ ...at, pointerId }}));
        }}
        for (let turn = 0; turn < 5; turn += 1) await null;
        ends.push({ENDS});
      }}
      return ends;
    }})()""")
    assert all(low == pytest.approx(2.0, abs=0.1) for low, _ in once)
    assert all(zoomed == [0, DURATION_S] for zoomed in twice)


def test_the_page_says_what_fingers_do(tab: Tab) -> None:
    hint = tab.evaluate("document.querySelector('#figures .hint').innerText")
    assert "Pinch" in hint
    assert "double-tap" in hint
    assert "Drag to zoom" not in hint, "that is what a mouse does"


def test_a_pinch_of_a_logarithmic_axis_keeps_what_is_under_the_fingers(tab: Tab) -> None:
    """On 1 to 10,000 over 400 px, a decade is 100 px: 10 and 100 at 50 and 250 px make a decade 200 px."""
    axis = "{ low: 1, high: 10000, log: true }"
    low, high = tab.evaluate(f"touch.stretch({axis}, 400, [{{ at: 50, value: 10 }}, {{ at: 250, value: 100 }}])")
    assert low == pytest.approx(10**0.75)
    assert high == pytest.approx(10**2.75)
    assert tab.evaluate(f"touch.stretch({axis}, 400, [{{ at: 100, value: 10 }}, {{ at: 200, value: 100 }}])") is None
