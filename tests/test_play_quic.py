"""The page `play` opens scenario files with QUIC and all kinds of traffic, and its flows go over QUIC."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from browser import DESKTOP, PHONE, Tab, needs_chromium
from knee.scenario import from_toml, load
from knee.scenario.paths import shipped
from knee.scenario.spec import spec
from play_page import DROP, PAGE, READY, in_page, native, needs_page, ordered, suits


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    tab = Tab(PAGE, DESKTOP)
    tab.until(READY)
    tab.evaluate("knee.state.playing = false")
    yield tab
    tab.close()


@needs_chromium
@needs_page
def test_shipped_files_open_but_for_those_that_name_files(tab: Tab) -> None:
    """The page reads the file itself, and its figures are those of the native engine."""
    refused, ran = [], 0
    for name, path in shipped().items():
        text = path.read_text(encoding="utf-8")
        tab.evaluate(f"knee.openFile(new File([{json.dumps(text)}], {json.dumps(path.name)}))")
        said = tab.evaluate(
            "document.getElementById('banner').hidden ? '' : document.getElementById('banner').innerText"
        )
        if said:
            refused.append(name)
            assert "a page reads the scenario file alone; run it with knee run" in said
        elif suits(scenario := load(name)):
            ran += 1
            assert in_page(tab, f"{{ file: {json.dumps(text)} }}") == native(json.dumps(spec(scenario))), name
    tab.evaluate("knee.state.playing = false")
    assert refused == ["cellular-lte"]
    assert ran > 30


#: Pages and transfers over QUIC and TCP, calls over QUIC, and settings of its endpoints.
OVER_QUIC = """
duration = "6 s"
interval = "20 ms"

[quic]
max_streams = 20
max_ack_delay = "5 ms"

[link]
rate = "12 Mbit/s"
limit = "60 packets"
loss = 0.002
reverse = { rate = "4 Mbit/s" }

[[flows]]
label = "pages"
cc = "cubic"
rtt = "40 ms"
transport = "quic"
traffic = { kind = "requests", preset = "web-page", connections = 1, streams = 20, priority = { incremental = true } }

[[flows]]
cc = "bbr"
rtt = "30 ms"
transport = "quic"
bytes = "2 MB"
ecn = true

[[flows]]
cc = "reno"
rtt = "20 ms"
transport = "quic"
traffic = { kind = "rtc" }

[[flows]]
cc = "cubic"
rtt = "30 ms"
traffic = { kind = "transfers", load = "2 Mbit/s", size = { distribution = "lognormal", median = "9 kB", sigma = 1.3 } }

[[flows]]
cc = "cubic"
rtt = "30 ms"
traffic = { kind = "transfers", load = "8 Mbit/s", size = { distribution = "web-search" }, connection = "persistent" }
"""


@needs_chromium
@needs_page
def test_a_file_with_flows_over_quic_has_the_figures_of_knee_run(tab: Tab) -> None:
    expected = native(json.dumps(spec(from_toml(OVER_QUIC))))
    assert all(flow["received_bytes"] > 0 for flow in expected["figures"]["flows"])
    assert in_page(tab, f"{{ file: {json.dumps(OVER_QUIC)} }}") == expected


@needs_chromium
@needs_page
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_a_flow_goes_over_quic_where_that_is_chosen(width: int) -> None:
    tab = Tab(PAGE, width)
    try:
        tab.until(READY)
        tab.evaluate("location.hash = '#duration=4000000&flows=cubic,call&speed=1000'")
        tab.until("knee.state.scene.duration === 4e6 && Boolean(knee.state.ended)")
        choices = "[...document.querySelectorAll('#flows .transport')]"
        assert tab.evaluate(f"{choices}.map((pick) => [pick.selectedOptions[0].text, pick.disabled])") == [
            ["TCP", False],
            ["UDP", True],
        ]
        before = tab.evaluate("JSON.stringify(knee.state.ended)")
        tab.evaluate(f"{choices}[0].value = 'quic'; {choices}[0].dispatchEvent(new Event('change'))")
        tab.until(f"Boolean(knee.state.ended) && JSON.stringify(knee.state.ended) !== {json.dumps(before)}")
        assert tab.evaluate("document.getElementById('legend').textContent").startswith("1 CUBIC over QUIC")
        toml = tab.evaluate("knee.toml()")
        assert toml.count('transport = "quic"') == 1
        expected = native(json.dumps(spec(from_toml(toml))))["figures"]
        assert ordered(tab.evaluate("JSON.stringify(knee.state.ended)")) == expected
        # An opened file has it in its controls, and a new flow too.
        tab.evaluate(DROP % (json.dumps(toml), '"mine.toml"'))
        tab.until("document.getElementById('lead').textContent === 'From mine.toml'")
        assert not tab.evaluate("document.getElementById('settings').disabled")
        assert tab.evaluate("knee.state.scene.flows.map((flow) => flow.quic)") == [True, False]
        tab.evaluate("document.getElementById('new-transport').value = 'quic'; document.getElementById('add').click()")
        assert tab.evaluate("knee.state.scene.flows.map((flow) => flow.quic)") == [True, False, True]
        assert tab.evaluate("document.body.scrollWidth") <= width
        assert tab.console() == []
    finally:
        tab.close()
