"""Flows that never connect, or get nothing for a second, are named, and Jain's index says nothing of those."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

import knee
from knee.cli import app

#: A queue that marks what is ECN-capable and drops what is not, held above its threshold by twenty DCTCP flows.
MARKING = {
    "rate": "1 Gbit/s",
    "queue": "red",
    "limit": "4 MB",
    "queue_params": {"ecn": True, "min": "30280 B", "max": "31794 B", "weight_log": 0},
}
HOLDING = {"label": "old", "cc": "dctcp", "rtt": "100 us", "count": 20}
PATH = {"rate": "10 Mbit/s", "limit": "50 packets"}


def run(**scenario: Any) -> dict[str, Any]:
    return knee.run({"duration": "5 s", "link": PATH} | scenario).summary


def test_flows_that_never_connect_are_named_and_have_no_jains_index() -> None:
    # RFC 3168, 6.1.1: the SYN of an algorithm that does not need ECN has no codepoint.
    late = {"label": "late", "cc": "cubic", "ecn": True, "rtt": "100 us", "start": "1 s", "count": 2}
    summary = run(duration="3 s", link=MARKING, flows=[HOLDING, late])
    (remark,) = summary["remarks"]
    assert remark.startswith('"late 1", "late 2" never connected')
    assert summary["fairness"]["jain"] is None


def test_the_terminal_says_why_there_is_no_jains_index(tmp_path: Any) -> None:
    file = tmp_path / "dark.toml"
    flows = '[[flows]]\nlabel = "{}"\ncc = "cubic"\nrtt = "20 ms"\npath = ["{}", "shared"]\n'
    links = '[[links]]\nname = "{}"\nrate = "{} Mbit/s"\nloss = {}\n'
    text = (
        'duration = "3 s"\n'
        + links.format("a", 100, 0.0)
        + links.format("b", 100, 1.0)
        + links.format("shared", 10, 0.0)
    )
    file.write_text(text + flows.format("one", "a") + flows.format("two", "b"))
    done = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0
    assert '"two" never connected' in " ".join(done.output.split())
    assert "Jain's index 0.5" not in done.output


@pytest.mark.parametrize(
    "traffic",
    [{"cc": "cubic"}, {"traffic": {"kind": "udp", "rate": "1 Mbit/s", "packet_size": "1000 B"}}],
    ids=["tcp", "udp"],
)
def test_a_second_without_anything_is_named(traffic: dict[str, Any]) -> None:
    def changes(until: str) -> list[dict[str, Any]]:
        return [
            {"at": "2 s", "link": "bottleneck", "loss": 1.0},
            {"at": until, "link": "bottleneck", "loss": 0.0},
        ]

    flow = {"rtt": "20 ms"} | traffic
    (remark,) = run(flows=[flow], changes=changes("3500 ms"))["remarks"]
    assert remark.startswith('"flow 1" got nothing for ')
    assert not run(flows=[flow], changes=changes("2400 ms"))["remarks"]


@pytest.mark.parametrize(
    "flow",
    [
        # The first data is there after one and a half RTTs.
        {"rtt": "900 ms"},
        {"rtt": "2500 ms"},
        # What is not asked for is not missed.
        {"rtt": "20 ms", "start": "3 s"},
        {"rtt": "20 ms", "stop": "2 s"},
        {"rtt": "20 ms", "bytes": "100 kB"},
        {"rtt": "20 ms", "traffic": {"kind": "transfers", "size": "10 kB", "arrivals": "periodic", "per_second": 0.4}},
    ],
    ids=["long path", "longer path", "later", "stopped", "done", "idle"],
)
def test_a_flow_that_gets_what_it_wants_is_not_named(flow: dict[str, Any]) -> None:
    assert not run(flows=[{"cc": "cubic"} | flow])["remarks"]


def test_a_flow_whose_window_begins_after_its_last_packet_did_connect() -> None:
    """At 20 bit/s the packets of the handshake's window leave before the warm-up ends, and none after."""

    class InMegabits(knee.CongestionControl):
        pacing = True

        def on_ack(self, ack: Any, control: Any) -> None:
            control.pacing_rate = 20

    flow = {"cc": InMegabits, "rtt": "40 ms"}
    summary = run(duration="5 s", warmup="2 s", flows=[flow])
    assert summary["flows"][0]["sent_packets"] == 0
    gap, crawl, _ = summary["remarks"]
    assert gap.startswith('"flow 1" got nothing for 4.9 s')
    # 1448 bytes of payload are 11,584 bits.
    assert "paces at 20 bit/s, a full packet in 579 s; control.pacing_rate is in bit/s" in crawl
    assert "so that 20 Mbit/s is 20e6" in crawl
