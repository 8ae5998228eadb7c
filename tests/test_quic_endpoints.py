"""The simulator's QUIC endpoints: beside quinn and TCP, their figures, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import knee
from knee.errors import ScenarioError
from knee.grounds.host import refuse
from knee.scenario import from_dict, registry

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import quic_tcp

_LINK = {"rate": "20 Mbit/s", "limit": "100 kB"}
_FLOW: dict[str, Any] = {"cc": "cubic", "rtt": "40 ms", "transport": "quic"}


def _told(*flows: dict[str, Any], quic: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    made = {"duration": "10 s", "link": _LINK, "flows": [_FLOW | flow for flow in flows], "quic": quic or {}}
    return made | changes


@pytest.mark.parametrize("cc", ["dctcp", "prague"])
def test_an_algorithm_that_counts_marks_has_over_quic_what_it_has_over_tcp(cc: str) -> None:
    """ACKs of QUIC tell how many packets were marked (RFC 9000, 19.3.2)."""
    queue = {"queue": "codel", "queue_params": {"ce_threshold": "1 ms"}} if cc == "dctcp" else {"queue": "dualpi2"}
    link = {"rate": "50 Mbit/s", "limit": "1000 packets"} | queue
    seen = []
    for transport in ("quic", "tcp"):
        flow = {"cc": cc, "rtt": "20 ms", "transport": transport}
        result = knee.run({"duration": "10 s", "warmup": "2 s", "link": link, "flows": [flow]})
        assert result.summary["links"][0]["marks"] > 100
        (figures,) = result.summary["flows"]
        assert figures["lost_packets"] == 0
        seen.append(figures)
    quic, tcp = seen
    assert quic["goodput_mbps"] == pytest.approx(tcp["goodput_mbps"], rel=0.05)
    assert quic["rtt_mean_ms"] == pytest.approx(tcp["rtt_mean_ms"], rel=0.1)


def test_pages_take_as_long_as_in_quinn() -> None:
    """Six connections for each, with certificates of few bytes; loss by chance would need many seeds."""
    flow = _FLOW | {"traffic": {"kind": "requests", "preset": "web-page"}}
    made = {"duration": "60 s", "link": _LINK}
    own, quinn = (
        knee.run(made | {"flows": [flow | {"cc": cc}]}).summary["flows"][0]["pages"] for cc in ("reno", "quinn:reno")
    )
    assert own["time_mean_ms"] == pytest.approx(quinn["time_mean_ms"], rel=0.05)


def test_a_clone_of_a_simulation_is_a_copy() -> None:
    live = knee.Simulation(_told({}, {"cc": "bbr"}, {"traffic": {"kind": "rtc"}}, duration="2 s"))
    live.run_until("1 s")
    assert live.clone_cost().how == "copy"
    clone = live.clone()
    assert live.result().samples.equals(clone.result().samples)


def test_a_stacks_own_controllers_and_a_python_class_run_beside() -> None:
    class Fixed(knee.CongestionControl):
        def on_ack(self, ack: Any, control: Any) -> None:
            control.cwnd = 20

    told = _told({"cc": "quinn:reno"}, {"cc": Fixed}, {"transport": "tcp"})
    flows = knee.run(told).summary["flows"]
    assert all(flow["goodput_mbps"] > 1 for flow in flows)


@pytest.mark.parametrize(("certificate", "round_trips"), [("400 B", 2), ("3 kB", 2), ("3.8 kB", 3), ("30 kB", 3)])
def test_a_large_certificate_costs_a_round_trip(certificate: str, round_trips: int) -> None:
    """RFC 9000, 8.1. quinn behind 100 ms took 102 ms with certificates of up to 2.6 kB, and 203 ms from 3.8 kB on."""
    link = {"rate": "1 Gbit/s", "limit": "1 MB"}
    told = _told({"bytes": "1 B", "rtt": "100 ms"}, quic={"certificate": certificate}, link=link)
    (flow,) = knee.run(told).summary["flows"]
    assert flow["completion_s"] * 1e3 == pytest.approx(100 * round_trips, abs=1)


@pytest.mark.parametrize("cc", ["reno", "cubic", "vegas", "westwood", "bic", "veno"])
def test_tcp_and_quic_differ_by_headers_alone_where_all_else_is_equal(cc: str) -> None:
    """No loss, no reordering, a window that fills a third of the link, an ACK for every second packet, no pacing: the
    same packets leave at the same times, but for sizes and the handshake's."""
    link = {"rate": "1 Gbit/s", "limit": "10 MB"}
    made = {"duration": "5 s", "warmup": "1 s", "link": link}
    flow = {"cc": cc, "rtt": "40 ms"}
    window = 60
    quic = {"pacing": False, "receive_window": f"{window * (1452 - 33)} B"}
    tcp = quic_tcp.LIKE_QUIC | {"receive_window": f"{window * 1448} B"}
    (own,) = knee.run(made | {"flows": [flow | {"transport": "quic"}], "quic": quic}).summary["flows"]
    (other,) = knee.run(made | {"flows": [flow], "tcp": tcp}).summary["flows"]
    packets = own["goodput_mbps"] / (1452 - 33), other["goodput_mbps"] / 1448
    assert packets[0] == pytest.approx(packets[1], rel=0.005)
    assert own["rtt_p50_ms"] == pytest.approx(other["rtt_p50_ms"], rel=0.005)


@pytest.mark.parametrize("every", [1, 2, 10])
def test_acks_are_as_rare_as_is_asked_for(every: int) -> None:
    """On the link back an ACK has 14 bytes of Ethernet, 28 of IP and UDP, 27 around its frame, and that has 6 to 13.
    Nothing is lost, since the window is that of the receiver."""
    link = _LINK | {"reverse": {"rate": "20 Mbit/s", "limit": "100 kB"}}
    told = _told({}, quic={"ack_eliciting_threshold": every - 1, "receive_window": "100 kB"}, link=link)
    result = knee.run(told)
    (flow,) = result.summary["flows"]
    back = next(link for link in result.summary["links"] if link["link"].endswith("(reverse)"))
    acks = flow["sent_packets"] / every
    assert 75 <= back["utilization"] * 20e6 * 10 / 8 / acks <= 82.5


@pytest.mark.parametrize(
    ("told", "key"),
    [
        (_told({"ecn": "l4s"}), r"flows\[0\]\.ecn"),
        (_told({}, quic={"initial_mtu": "1300 B"}), r"quic\.initial_mtu: .* max_mtu from the start"),
        (_told({}, quic={"max_ack_delay": "525 ms"}), r"quic\.max_ack_delay: 525 ms .* at most 524 ms"),
        (_told({}, quic={"ack_eliciting_threshold": 10_000}), r"quic\.ack_eliciting_threshold: 10000 .* 9999"),
        (_told({"cc": "quinn:reno"}, quic={"certificate": "3 kB"}), r"quic\.certificate: all QUIC flows have the"),
        (_told({}, quic={"pacing": False}, run={"ground": "host"}), r"quic\.pacing: all QUIC flows have the"),
        (_told({}, quic={"packet_threshold": 2}), r"quic\.packet_threshold"),
        (_told({}, quic={"certificate": "40 kB"}), r"quic\.certificate"),
        (_told({}, quic={"receive_window": "3 GB"}), r"quic\.receive_window: 3 GB"),
        (_told({}, quic={"preset": "curl"}), r'quic\.preset: "curl" .*: quinn, quiche'),
        (
            _told({"cc": "quinn:reno"}, quic={"preset": "quinn"}),
            r"quic\.preset: all QUIC flows have the endpoints of a QUIC stack",
        ),
        (_told({}, quic={"initial_window": 0}), r"quic\.initial_window"),
        (_told({}, quic={"initial_window": 1}), r"quic\.initial_window"),
        (_told({}, quic={"receive_window": "0 B"}), r"quic\.receive_window"),
        (_told({}, quic={"stream_receive_window": "1 kB"}), r"quic\.stream_receive_window: 1 kB .* at least 1452 B"),
        (
            _told({}, quic={"preset": "msquic", "receive_window": "1460 B"}),
            r"quic\.receive_window: 1460 B .* at least 1472 B",
        ),
        (_told({}, quic={"max_mtu": "1500 B"}), r"quic\.max_mtu"),
        (_told({}, quic={"idle_timeout": "0 s"}), r"quic\.idle_timeout"),
        (_told({}, quic={"idle_timeout": "10 us"}), r"quic\.idle_timeout"),
    ],
)
def test_what_these_endpoints_do_not_have_is_refused_by_key(told: dict[str, Any], key: str) -> None:
    with pytest.raises(ScenarioError, match=key):
        knee.run(told)


_PAGE: dict[str, Any] = {
    "kind": "requests",
    "size": "37 kB",
    "objects": 71,
    "streams": 100,
    "together": True,
    "number": 1,
    "priority": [{"urgency": 1}, {"urgency": 5, "incremental": True}],
}


def _page(change: dict[str, Any], **told: Any) -> dict[str, Any]:
    traffic = {key: value for key, value in (_PAGE | change).items() if value is not None}
    return _told({"traffic": traffic}, **told)


def test_a_page_of_71_streams_takes_the_time_that_it_takes_over_quinn() -> None:
    """quinn takes 1290 ms with 71 streams; the link alone takes 1051 ms for the bytes of the objects."""
    flow = knee.run(_page({})).summary["flows"][0]
    assert flow["pages"]["time_max_ms"] == pytest.approx(1290, rel=0.03)
    assert flow["requests"]["completed"] == 71
    one = {"streams": 1, "priority": None, "together": False}
    assert knee.run(_page(one)).summary["flows"][0]["pages"]["time_max_ms"] == pytest.approx(4322, rel=0.01)


def test_the_urgent_half_of_a_page_comes_in_half_the_time() -> None:
    """36 of 71 objects are of urgency 1. Together, the others come once these have."""
    times = knee.run(_page({})).summary["flows"][0]["requests"]
    assert times["time_p50_ms"] == pytest.approx(1268 / 2, rel=0.1)
    shared = knee.run(_page({"priority": {"incremental": True}})).summary["flows"][0]["requests"]
    assert shared["time_p50_ms"] > 0.95 * shared["time_max_ms"]


def test_a_page_is_written_to_its_scenario_and_read_again() -> None:
    scenario = from_dict(_page({"priority": {"urgency": 2}}))
    assert from_dict(scenario.model_dump()) == scenario
    written = scenario.flows[0].traffic.model_dump()["priority"]  # type: ignore[union-attr]
    assert written == [{"urgency": 2, "incremental": False}]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (_page({"streams": 101}), r"traffic\.streams: 101 is more than max_streams of \[quic\], 100; .* at most 100"),
        (_page({}, quic={"max_streams": 99}), r"traffic\.streams: 100 is more than max_streams .* at most 99"),
        (_told({}, quic={"max_streams": 99}), r"quic\.max_streams: no connection has several streams; .* no such key"),
        (_page({"streams": 0}), r"traffic\.streams: 0 is out of range"),
        (_page({"streams": 1}), r"traffic\.together: one connection asks for one object at a time"),
        (_page({"streams": 1, "together": False}), r"traffic\.priority: .* expected streams of 2 or more"),
        (_page({"priority": []}), r"traffic\.priority: it is empty"),
        (_page({"priority": "u=1, i"}), r"traffic\.priority: \"u=1, i\" is not a priority; expected a table such as"),
        (_page({"priority": {"urgency": 8}}), r"traffic\.priority\[0\]\.urgency: 8 is out of range; .* 0 to 7"),
        (_page({"priority": {"u": 1}}), r"traffic\.priority\[0\]\.u: unknown key; there are: urgency, incremental"),
    ],
)
def test_streams_and_priorities_that_mean_nothing_are_refused_by_key(told: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        knee.run(told)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"transport": "tcp"}, 'a connection of TCP has one stream; expected transport = "quic", or no such key'),
        ({"cc": "quinn:cubic"}, "connections of the QUIC stack quinn have one stream here; .* no such key"),
        ({"cc": "noq:cubic"}, "connections of the QUIC stack noq have one stream here; .* no such key"),
    ],
)
def test_flows_whose_connections_have_one_stream_refuse_more(change: dict[str, Any], said: str) -> None:
    told = _page({})
    told["flows"][0] |= change
    with pytest.raises(ScenarioError, match=rf"flows\[0\]\.traffic\.streams: {said}"):
        knee.run(told)


@pytest.mark.parametrize("preset", ["quinn", "quiche", "neqo", "picoquic", "msquic", "ngtcp2", "chromium"])
def test_a_preset_holds_where_a_key_is_not_given(preset: str) -> None:
    """Another key than the preset's counts, also RFC 9002's; and a scenario that is written loads again to the same."""
    told = _told({}, quic={"preset": preset})
    scenario = from_dict(told)
    values = registry.quic_presets()[preset]
    assert {key: getattr(scenario.quic, key) for key in values} == values
    again = from_dict(scenario.plain())
    assert again == scenario
    assert again.specification == scenario.specification
    (flow,) = knee.run(told).summary["flows"]
    (usual,) = knee.run(_told({})).summary["flows"]
    assert flow["goodput_mbps"] > 15
    assert flow["sent_packets"] != usual["sent_packets"]
    given = from_dict(_told({}, quic={"preset": preset, "initial_rtt": "333 ms", "packet_threshold": 3}))
    assert given.plain()["quic"]["initial_rtt"] == "333 ms"
    assert (given.quic.initial_rtt, given.quic.packet_threshold) == (333_000_000, 3)
    assert from_dict(given.plain()).specification == given.specification


def test_each_key_of_a_preset_can_be_given() -> None:
    """All keys as without a preset: what is left of ngtcp2's is how it paces and how many packets are in flight."""
    rfc = {
        "initial_window": 10,
        "initial_rtt": "333 ms",
        "packet_threshold": 3,
        "pacing": False,
        "max_mtu": "1452 B",
        "max_ack_delay": "25 ms",
        "ack_eliciting_threshold": 1,
    }
    assert rfc.keys() == registry.quic_presets()["ngtcp2"].keys()
    with_preset = knee.run(_told({}, quic=rfc | {"preset": "ngtcp2"})).summary["flows"]
    assert with_preset == knee.run(_told({}, quic=rfc)).summary["flows"]


def test_acks_of_chromium_are_rare() -> None:
    """From the 100th packet on every tenth is acknowledged, as `test_acks_are_as_rare_as_is_asked_for` counts them."""
    link = _LINK | {"reverse": {"rate": "20 Mbit/s", "limit": "100 kB"}}
    used = {}
    for preset in ("chromium", "neqo"):
        told = _told({}, quic={"preset": preset, "receive_window": "100 kB"}, link=link)
        back = next(link for link in knee.run(told).summary["links"] if link["link"].endswith("(reverse)"))
        used[preset] = back["utilization"]
    assert used["chromium"] == pytest.approx(used["neqo"] / 5, rel=0.1)


def test_datagrams_fit_the_packets_of_a_preset() -> None:
    """Chromium's have 1,250 bytes."""
    flow = {"traffic": {"kind": "udp", "rate": "1 Mbit/s", "packet_size": "1300 B"}}
    with pytest.raises(ScenarioError, match=r"traffic\.packet_size"):
        knee.run(_told(flow, quic={"preset": "chromium"}))
    assert knee.run(_told(flow, quic={"preset": "quinn"})).summary["flows"][0]["goodput_mbps"] > 0.9


@pytest.mark.parametrize(
    ("flow", "quic", "said"),
    [
        ({"cc": "dctcp"}, {}, r"flows\[0\]\.cc: dctcp counts CE marks"),
        ({}, {"certificate": "3 kB"}, r"quic\.certificate: all QUIC flows have the endpoints of a QUIC stack"),
        ({}, {"preset": "quiche"}, r"quic\.preset: "),
        ({}, {"max_ack_delay": "100 ms"}, r"quic\.max_ack_delay: 100 ms is longer than the RTT"),
    ],
)
def test_the_running_kernel_refuses_what_quinn_lacks(flow: dict[str, str], quic: dict[str, str], said: str) -> None:
    """Whether the scenario names that ground, or whoever runs it."""
    for told in (_told(flow, quic=quic), _told(flow, quic=quic, run={"ground": "host"})):
        with pytest.raises(ScenarioError, match=said):
            refuse.check(from_dict(told))
