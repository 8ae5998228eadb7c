"""The page `play` opens scenario files that are dropped on it, and sends them nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from browser import DESKTOP, PHONE, Tab, needs_chromium
from knee.scenario import from_dict, from_toml
from knee.scenario.spec import spec
from play_page import DROP, PAGE, READY, native, needs_page, ordered


@pytest.fixture
def fresh() -> Iterator[Tab]:
    tab = Tab(PAGE, DESKTOP)
    tab.until(READY)
    yield tab
    tab.close()


@needs_chromium
@needs_page
def test_a_scenario_file_that_is_dropped_is_shown(fresh: Tab) -> None:
    made = {
        "duration": "3 s",
        "interval": "10 ms",
        "link": {"rate": "8 Mbit/s", "limit": "40 packets", "queue": "codel", "loss": 0.001},
        "flows": [{"cc": "reno", "rtt": "30 ms", "count": 2, "stagger": "0.5 s"}, {"cc": "lola", "rtt": "50 ms"}],
        "changes": [{"at": "2 s", "link": "bottleneck", "rate": "4 Mbit/s"}],
    }
    fresh.evaluate(DROP % (json.dumps(tomli_w.dumps(made)), '"mine.toml"'))
    fresh.until("document.getElementById('lead').textContent === 'From mine.toml'")
    fresh.evaluate("knee.setSpeed(30); knee.state.playing = true")
    fresh.until("Boolean(knee.state.ended)")
    assert (
        ordered(fresh.evaluate("JSON.stringify(knee.state.ended)"))
        == native(json.dumps(spec(from_dict(made))))["figures"]
    )
    for text, said in (
        ("[link]\nrate = 3\n", "mine.toml:2:8: link.rate: 3 has no unit"),
        ("seed = 1\n[sweep]\n", "mine.toml:2:2: sweep: the file is a sweep, not one scenario"),
        ("a = 1\nb\n", "mine.toml:2:2: it is not valid TOML"),
    ):
        fresh.evaluate(DROP % (json.dumps(text), '"mine.toml"'))
        fresh.until(f"document.getElementById('banner').textContent.startsWith({json.dumps(said)})")
    assert fresh.console() == []


#: Two links with models and parameters of their own, a trace-like change of each, flows that cross one or both.
BEYOND = """
title = "Two hops"
duration = "4 s"
warmup = "1 s"
interval = "20 ms"

[[links]]
name = "access"
rate = "20 Mbit/s"
queue = "fq_codel"
queue_params = { target = "3 ms" }
delay = "5 ms"
reverse = { rate = "2 Mbit/s", queue = "codel" }

[[links]]
name = "cell"
model = "lte"
rate = "12 Mbit/s"
limit = "200 ms"

[[flows]]
label = "upload"
cc = "cubic"
cc_params = { beta = "717 packets" }
rtt = "40 ms"

[[flows]]
cc = "bbr"
rtt = "30 ms"
path = ["cell"]
start = "500 ms"
bytes = "2 MB"

[[flows]]
rtt = "20 ms"
traffic = { kind = "udp", preset = "voip-opus" }

[[probes]]
rtt = "30 ms"

[tcp]
initial_window = 4

[[changes]]
at = "2 s"
link = "access"
rate = "10 Mbit/s"

[[changes]]
at = "3 s"
link = "cell"
rate = "6 Mbit/s"
"""


@needs_chromium
@needs_page
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_a_file_with_more_than_the_controls_have_is_shown_without_them(width: int, tmp_path: Path) -> None:
    tab = Tab(PAGE, width)
    try:
        tab.until(READY)
        tab.evaluate(DROP % (json.dumps(BEYOND), '"hops.toml"'))
        tab.until("document.getElementById('lead').textContent === 'From hops.toml'")
        assert tab.evaluate("document.getElementById('settings').disabled && document.getElementById('share').disabled")
        said = tab.evaluate("document.getElementById('of-file').textContent")
        assert said.startswith(
            "The controls show the link cell and cannot be moved: the page has one link, and the file has 2."
        )
        tab.evaluate("knee.setSpeed(30); knee.state.playing = true")
        tab.until("Boolean(knee.state.ended)")
        expected = native(json.dumps(spec(from_toml(BEYOND))))["figures"]
        assert ordered(tab.evaluate("JSON.stringify(knee.state.ended)")) == expected
        # What is drawn of the queue is what the second link's rows say.
        assert tab.evaluate("Math.max(...knee.state.history.link.backlog)") > 10
        assert tab.evaluate("knee.state.history.link.t.length") == 200
        # Going back repeats it, and no address says it.
        tab.evaluate("knee.seek(1e9)")
        tab.until("!knee.state.ended && Math.abs(knee.state.clock - 1e9) < 1e8")
        assert tab.evaluate("location.hash") == ""
        assert tab.evaluate("knee.toml()") == BEYOND
        assert tab.evaluate("document.body.scrollWidth") <= width
        # Another experiment has its controls again.
        tab.evaluate("document.getElementById('experiment').value = '1'")
        tab.evaluate("document.getElementById('experiment').dispatchEvent(new Event('change'))")
        tab.until("!document.getElementById('settings').disabled && document.getElementById('of-file').hidden")
        assert tab.console() == []
    finally:
        tab.close()


@needs_chromium
@needs_page
def test_what_is_dropped_is_not_sent_anywhere(fresh: Tab) -> None:
    policy = fresh.evaluate("document.querySelector('meta[http-equiv]')?.content")
    assert "default-src 'none'" in policy or "connect-src 'none'" in policy
    fresh.evaluate(DROP % (json.dumps(BEYOND), '"hops.toml"'))
    fresh.until("document.getElementById('lead').textContent === 'From hops.toml'")
    fetched = fresh.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    assert all(one.startswith(("blob:", "data:")) for one in fetched)
