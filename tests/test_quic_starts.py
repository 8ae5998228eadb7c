"""How connections of QUIC begin and end: 0-RTT, Retry, and what is lost on the way, worked by hand.

The receiver is right behind the link, and the RTT of 100 ms lies behind it.
"""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest

import knee
from knee.errors import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path

_LINK = {"name": "link", "rate": "1 Gbit/s", "limit": "1 MB"}
_FLOW: dict[str, Any] = {"cc": "reno", "rtt": "100 ms", "transport": "quic"}


def _run(quic: dict[str, Any], flow: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    made = {"duration": "20 s", "link": _LINK, "flows": [_FLOW | (flow or {})], "quic": quic}
    (figures,) = knee.run(made | changes).summary["flows"]
    return dict(figures)


def _completion(quic: dict[str, Any], size: str = "1 B", **changes: Any) -> float:
    """How long a transfer takes, ms."""
    return float(_run(quic, {"bytes": size}, **changes)["completion_s"]) * 1e3


@pytest.mark.parametrize(
    ("quic", "round_trips"),
    [
        ({}, 2),
        ({"zero_rtt": True}, 1),
        ({"retry": True}, 3),
        # A flight of nine datagrams waits for the client's address: with Retry it is known.
        ({"certificate": "9 kB"}, 3),
        ({"certificate": "9 kB", "retry": True}, 3),
        # A session that is resumed has no certificate (RFC 8446, 2.2).
        ({"certificate": "9 kB", "zero_rtt": True}, 1),
    ],
)
def test_zero_rtt_saves_a_round_trip_and_retry_costs_one(quic: dict[str, Any], round_trips: int) -> None:
    """RFC 9001, 4.6; RFC 9000, 8.1 and 8.1.2."""
    assert _completion(quic) == pytest.approx(100 * round_trips, abs=1)


def test_an_answer_leaves_behind_the_flight() -> None:
    """A page of one object asks with 0-RTT, and its answer comes a round trip later; the limit lets three times the
    hello and the request leave, which the flight takes 1,200 bytes of."""
    page = {"objects": 1, "size": "1 kB", "connections": 1, "request": "100 B"}
    traffic = {"kind": "requests", "arrivals": "periodic", "per_second": 1, "number": 1} | page
    took = [
        _run(quic, {"traffic": traffic})["pages"]["time_mean_ms"] for quic in ({}, {"zero_rtt": True}, {"retry": True})
    ]
    assert took == pytest.approx([200, 100, 300], abs=1)


def test_datagrams_of_zero_rtt_arrive_earlier() -> None:
    traffic = {"kind": "udp", "rate": "1 Mbit/s", "packet_size": "1000 B"}
    usual, early = (_run(quic, {"traffic": traffic}, duration="1 s") for quic in ({}, {"zero_rtt": True}))
    # A packet each 8 ms: 100 ms earlier are 12 or 13 more.
    assert early["sent_packets"] - usual["sent_packets"] in (12, 13)


def test_a_lost_hello_takes_data_of_zero_rtt_with_it() -> None:
    """All that leaves at 0 is lost. The hello's probe timeout is 333 + 4 * 166.5 = 999 ms (RFC 9002, 6.2.2), and lets
    the data leave again with it (6.2.4): the data has no timer of its own before the handshake is over (6.2.1)."""
    changes = [{"at": "1 ms", "link": "link", "loss": 0.0}]
    took = _completion({"zero_rtt": True}, link=_LINK | {"loss": 1.0}, changes=changes)
    assert took == pytest.approx(999 + 100, abs=1)


def test_a_lost_flight_is_sent_again(tmp_path: Path) -> None:
    """The flight and the ACK behind it are lost. The hello leaves again after 999 ms, with the data. The server's
    flight is there at 1,099 ms, and its ACK waits for another packet for 25 ms."""
    trace = tmp_path / "first.csv"
    trace.write_text("time_s,loss\n0,1\n0.01,0\n20,0\n", encoding="utf-8")
    reverse = {"rate": "1 Gbit/s", "limit": "1 MB", "loss_trace": str(trace), "trace_repeats": False}
    took = _completion({"zero_rtt": True}, link=_LINK | {"reverse": reverse})
    assert took == pytest.approx(999 + 100 + 25, abs=1)


def test_whatever_is_lost_transfers_end(tmp_path: Path) -> None:
    """A tenth of all packets is lost both ways, over 60 seeds each."""
    trace, took = tmp_path / "tenth.csv", {}
    trace.write_text("time_s,loss\n0,0.1\n60,0.1\n", encoding="utf-8")
    for name, quic in (("usual", {}), ("early", {"zero_rtt": True}), ("retry", {"retry": True})):
        link = _LINK | {"loss": 0.1, "reverse": {"rate": "1 Gbit/s", "limit": "1 MB", "loss_trace": str(trace)}}
        seen = [
            _completion(quic | {"certificate": "3 kB"}, "8 kB", link=link, seed=seed, duration="120 s")
            for seed in range(1, 61)
        ]
        took[name] = mean(seen)
        assert min(seen) >= {"usual": 200, "early": 100, "retry": 300}[name]
    assert took["early"] < took["usual"] < took["retry"]


def test_zero_rtt_and_retry_exclude_each_other() -> None:
    """RFC 9000, 17.2.3: the server is likely to discard what comes before the Retry packet."""
    with pytest.raises(ScenarioError, match=r"quic\.zero_rtt: with retry = true .* expected one of the two, or none"):
        _run({"zero_rtt": True, "retry": True})


def test_a_remark_names_settings_that_other_stacks_do_not_have() -> None:
    told = {"duration": "1 s", "link": _LINK, "flows": [_FLOW, _FLOW | {"cc": "quinn:reno"}]}
    result = knee.run(told | {"quic": {"zero_rtt": True, "gso": 2, "max_ack_delay": "20 ms"}})
    said = "quic.zero_rtt and quic.gso have no effect on flows under quinn:reno, which a QUIC stack carries."
    assert said in result.summary["remarks"]
    result = knee.run(told | {"quic": {"max_ack_delay": "20 ms"}})
    assert not any("no effect" in remark for remark in result.summary["remarks"])


@pytest.mark.parametrize("key", ["zero_rtt", "retry"])
def test_other_stacks_refuse_them(key: str) -> None:
    with pytest.raises(ScenarioError, match=rf"quic\.{key}: all QUIC flows have the endpoints of a QUIC stack"):
        _run({key: True}, {"cc": "quinn:reno"})


_PAGE = {"kind": "requests", "objects": 1, "size": "1 kB", "connections": 1, "request": "100 B"}
#: A page every 4 s, all on one connection.
_PAGES: dict[str, Any] = _PAGE | {"arrivals": "periodic", "per_second": 0.25, "connection": "persistent"}
#: Nothing comes through from 2 to 8 s.
_OUTAGE = [{"at": "2 s", "link": "link", "loss": 1.0}, {"at": "8 s", "link": "link", "loss": 0.0}]


@pytest.mark.parametrize(
    ("quic", "longest"),
    [
        ({}, 100),
        # RFC 9000, 10.1: the page before was over 4 s less 200 ms ago, and the ACK of its last packet came 25 ms later.
        ({"idle_timeout": "3.7 s"}, 200),
        ({"idle_timeout": "3.9 s"}, 100),
        # At least three PTOs: 3 * (100 + 4 * 50 + 25) = 975 ms after the first sample, less as the variation falls.
        ({"idle_timeout": "1 ms"}, 200),
        ({"idle_timeout": "1 ms", "zero_rtt": True}, 100),
    ],
)
def test_a_page_after_the_idle_timeout_takes_a_new_connection(quic: dict[str, Any], longest: float) -> None:
    flow = _run(quic, {"traffic": _PAGES})
    assert flow["pages"]["completed"] == 5
    # The first page opens the connection.
    assert flow["pages"]["time_p50_ms"] == pytest.approx(longest, abs=1)
    # Each connection has a handshake of a round trip, with 0-RTT too, though the request does not wait for it.
    is_closed = quic.get("idle_timeout") in ("1 ms", "3.7 s")
    assert flow["handshakes"]["completed"] == (5 if is_closed else 1)
    assert flow["handshakes"]["time_max_ms"] == pytest.approx(100, abs=1)


def test_an_idle_timeout_lasts_three_probe_timeouts() -> None:
    """Nothing comes through from 2 s on: SRTT is 100 ms and its variation small, so three PTOs are 3 * 126 ms at least.
    A probe leaves after one and after three of them; the third would after seven."""
    changes = _OUTAGE[:1]
    few = _run({"idle_timeout": "1 ms", "receive_window": "100 kB"}, changes=changes)
    more = _run({"idle_timeout": "1 s", "receive_window": "100 kB"}, changes=changes)
    lasting = _run({"receive_window": "100 kB"}, changes=changes)
    assert few["sent_packets"] < more["sent_packets"] < lasting["sent_packets"]
    # Two probes are two packets each (RFC 9002, 6.2.4).
    assert more["sent_packets"] - few["sent_packets"] in (2, 4)


def test_a_transfer_that_times_out_does_not_end() -> None:
    """6 s without a packet. With a longer timeout it goes on after."""
    link = _LINK | {"rate": "10 Mbit/s"}
    for timeout, ends in (("1 s", False), ("20 s", True)):
        flow = _run({"idle_timeout": timeout}, {"bytes": "10 MB"}, link=link, changes=_OUTAGE)
        assert (flow["completion_s"] is not None) == ends
    usual = _run({}, {"bytes": "10 MB"}, link=link, changes=_OUTAGE)
    assert flow["completion_s"] == usual["completion_s"]


def test_an_idle_timeout_is_told_if_it_cuts_something_off() -> None:
    """The 1 MB that waits at 2 s takes 0.8 s to arrive, so the last ACK comes at 2.9 s. With an RTT of 0.9 s three
    probe timeouts are 2.8 s. A transfer that is complete is closed too, and nobody misses it."""
    link = _LINK | {"rate": "10 Mbit/s"}
    flows = [_FLOW | {"label": "cut"}, _FLOW | {"label": "complete", "bytes": "10 kB"}]
    told = {"duration": "20 s", "link": link, "flows": flows, "quic": {"idle_timeout": "1 s"}, "changes": _OUTAGE}
    result = knee.run(told)
    assert [remark for remark in result.summary["remarks"] if "idle timeout" in remark] == [
        'The idle timeout closed connections for good: that of "cut" at 5.7 s.'
    ]
    closed = result.events.filter(result.events["event"] == "idle_timeout").sort("flow", "t_s")
    assert [round(at, 1) for at in closed["t_s"]] == [5.7, 1.2]


def test_a_call_whose_connection_was_closed_loses_the_rest() -> None:
    """A datagram each 20 ms from 150 ms on: those that leave after 2 s do not come, and the call is not worth much."""
    call = {"traffic": {"kind": "udp", "preset": "voip-g711"}}
    datagrams = _run({"idle_timeout": "1 s"}, call, changes=_OUTAGE)["datagrams"]
    assert datagrams["sent"] == datagrams["received"] + datagrams["lost"]
    assert datagrams["received"] == pytest.approx((2 - 0.15) / 0.02, abs=4)
    assert datagrams["mos"] < 2


@pytest.mark.parametrize("kind", ["requests", "transfers", "bursts", "video"])
def test_an_application_asks_again_on_another_connection(kind: str) -> None:
    """What the outage interrupts is complete after it, as without the timeout."""
    traffic: dict[str, Any] = {
        "requests": _PAGES | {"per_second": 1},
        "transfers": {
            "kind": "transfers",
            "arrivals": "periodic",
            "per_second": 1,
            "size": "10 kB",
            "connection": "persistent",
        },
        "bursts": {"kind": "bursts", "period": "1 s", "burst": "10 kB"},
        "video": {"kind": "video"},
    }[kind]
    link = _LINK | {"rate": "10 Mbit/s"}
    for quic in ({}, {"idle_timeout": "1 s"}):
        flow = _run(quic, {"traffic": traffic}, link=link, changes=_OUTAGE, duration="40 s")
        if kind == "video":
            assert flow["video"]["segments"] > 40
        else:
            assert flow["pages" if kind == "requests" else "transfers"]["completed"] == 40


@pytest.mark.parametrize("streams", [1, 20])
def test_what_was_asked_for_is_asked_for_again_after_an_idle_timeout(streams: int) -> None:
    """The link loses all for longer than the connection waits, and three pages come all the same."""
    traffic = {"kind": "requests", "size": "37 kB", "objects": 71, "connection": "persistent", "number": 3}
    told = {
        "duration": "40 s",
        "link": {"rate": "20 Mbit/s", "limit": "100 packets"},
        "quic": {"idle_timeout": "1 s"},
        "flows": [{"cc": "reno", "rtt": "40 ms", "transport": "quic", "traffic": traffic | {"streams": streams}}],
        "changes": [
            {"at": "300 ms", "link": "bottleneck", "loss": 1.0},
            {"at": "5 s", "link": "bottleneck", "loss": 0.0},
        ],
    }
    (flow,) = knee.run(told, check=True).summary["flows"]
    assert (flow["pages"]["completed"], flow["requests"]["completed"]) == (3, 213)
    assert flow["pages"]["time_max_ms"] > 4_000
