"""qlog files: what they contain, that it fits the drafts and the result's own figures, and who gets none."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import knee
from knee.errors import InputError, ScenarioError
from knee.grounds import qlog
from knee.scenario import from_dict
from qlog_schema import read

_LINK = {"rate": "10 Mbit/s", "limit": "40 kB"}
_FLOW = {"cc": "cubic", "rtt": "30 ms"}


def _told(*flows: dict[str, Any], duration: str = "4 s") -> dict[str, Any]:
    return {"duration": duration, "link": _LINK, "flows": [_FLOW | flow for flow in flows]}


def _run(folder: Path, told: dict[str, Any]) -> knee.Result:
    return knee.run(told, out=folder, report=False, qlog=True)


def _sizes(events: list[dict[str, Any]], name: str) -> int:
    return sum(event["data"]["raw"]["length"] for event in events if event["name"] == name)


def _acked(events: list[dict[str, Any]]) -> set[int]:
    frames = [frame for event in events for frame in event["data"].get("frames", ()) if frame["frame_type"] == "ack"]
    return {number for frame in frames for first, last in frame["acked_ranges"] for number in range(first, last + 1)}


@pytest.fixture(scope="module", params=["tcp", "quinn", "quic"])
def logged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Any]:
    """The result, the header and the events of a flow that loses packets: over TCP, over QUIC, and in quinn."""
    folder = tmp_path_factory.mktemp("qlog") / request.param
    tcp = request.param == "tcp"
    cc = "quinn:cubic" if request.param == "quinn" else "cubic"
    result = _run(folder, _told({"transport": "tcp" if tcp else "quic", "cc": cc}))
    return (result, *read(folder / "qlog" / "flow-1.sqlog"))


def test_a_file_says_whose_it_is(logged: tuple[Any, Any, Any]) -> None:
    result, header, _ = logged
    transport = result.summary["flows"][0]["transport"].upper()
    assert header.title == "flow 1"
    assert header.description.removeprefix("quinn:") == f"cubic over {transport}, ground sim"
    assert header.trace.common_fields.protocol_type == [transport]
    assert header.trace.vantage_point.type == "client"


def _types(events: list[dict[str, Any]], name: str) -> Counter[str]:
    return Counter(event["data"]["header"]["packet_type"] for event in events if event["name"] == name)


@pytest.mark.parametrize("quic", [{}, {"zero_rtt": True}, {"retry": True}], ids=["usual", "zero_rtt", "retry"])
@pytest.mark.parametrize("pulls", [False, True], ids=["upload", "download"])
def test_the_handshake_is_in_the_log(tmp_path: Path, quic: dict[str, Any], pulls: bool) -> None:
    """The client's Initial and Finished (RFC 9000, 7), and the server's flight and HANDSHAKE_DONE, by 400 bytes of
    certificates a datagram each."""
    page = {"kind": "requests", "objects": 1, "size": "40 kB", "number": 1, "connections": 1}
    _run(tmp_path / "r", _told({"transport": "quic"} | ({"traffic": page} if pulls else {})) | {"quic": quic})
    header, events = read(tmp_path / "r" / "qlog" / "flow-1.sqlog")
    assert header.trace.vantage_point.type == ("server" if pulls else "client")
    sent, came = _types(events, "transport:packet_sent"), _types(events, "transport:packet_received")
    client, server = (came, sent) if pulls else (sent, came)
    again = int("retry" in quic)
    assert (client["initial"], client["handshake"]) == (1 + again, 1)
    assert (server["initial"], server["handshake"], server["retry"]) == (1, 1, again)
    # Ten packets, the initial window, leave before the flight has come. Requests are not logged.
    assert client["0RTT"] == (10 if "zero_rtt" in quic and not pulls else 0)


def test_events_and_figures_agree(logged: tuple[Any, Any, Any]) -> None:
    result, _, events = logged
    (flow,) = result.summary["flows"]
    count = Counter(event["name"] for event in events)
    quic = flow["transport"] == "quic"
    # Two packets of a QUIC handshake may share a datagram.
    assert 0 <= count["transport:packet_sent"] - flow["sent_packets"] <= 3 * quic
    assert count["recovery:packet_lost"] == flow["lost_packets"] > 0
    sent = _sizes(events, "transport:packet_sent")
    # The link counts 14 bytes more of each packet, QUIC's packets have no headers of UDP and IP, and SYNs no event.
    on_link = flow["sent_packets"] * 14 + sent + 28 * quic * flow["sent_packets"]
    assert on_link * 8e-6 / 4 == pytest.approx(flow["sending_rate_mbps"], abs=0.01)
    numbers = [event["data"]["header"] for event in events if event["name"] == "transport:packet_sent"]
    assert len({(header["packet_type"], header["packet_number"]) for header in numbers}) == len(numbers)


def test_what_is_sent_is_acknowledged_or_lost_or_in_flight(logged: tuple[Any, Any, Any]) -> None:
    """Each transmission, but for one that was taken for lost and arrived after all."""
    _, _, events = logged

    def numbers(name: str) -> set[int]:
        headers = (event["data"]["header"] for event in events if event["name"] == name)
        return {header["packet_number"] for header in headers if header["packet_type"] == "1RTT"}

    sent, lost, acked = numbers("transport:packet_sent"), numbers("recovery:packet_lost"), _acked(events)
    assert lost <= sent
    assert acked <= sent
    assert not lost & acked
    metrics = [event["data"] for event in events if event["name"] == "recovery:metrics_updated"]
    last = next(one["bytes_in_flight"] for one in reversed(metrics) if "bytes_in_flight" in one)
    # A datagram or segment may have left after the last update.
    assert len(sent - lost - acked) == pytest.approx(last / 1448, abs=12)


def test_metrics_are_those_of_the_time_series(logged: tuple[Any, Any, Any]) -> None:
    result, _, events = logged
    metrics = [event["data"] for event in events if event["name"] == "recovery:metrics_updated"]
    rtts = [one["smoothed_rtt"] for one in metrics if "smoothed_rtt" in one]
    samples = result.samples
    assert min(rtts) >= 30
    assert rtts[-1] == pytest.approx(samples["srtt_ms"][-1], rel=1e-3)
    windows = [one["congestion_window"] for one in metrics if "congestion_window" in one]
    packet = 1448 if result.summary["flows"][0]["transport"] == "tcp" else 1452
    # quinn's window is no whole number of packets.
    assert windows[-1] // packet == samples["cwnd_packets"][-1]


def test_states_are_those_among_the_events(logged: tuple[Any, Any, Any]) -> None:
    result, _, events = logged
    states = [event for event in events if event["name"] == "recovery:congestion_state_updated"]
    seen = result.events.filter((result.events["flow"] == 1) & (result.events["event"] != "drop"))
    known = set(zip((seen["t_s"] * 1e3).round(6), seen["event"], strict=True))
    assert {(round(state["time"], 6), state["data"]["new"]) for state in states} <= known
    assert states[0]["data"].get("old") is None
    chain = [(state["data"].get("old"), state["data"]["new"]) for state in states]
    assert all(after[0] == before[1] for before, after in itertools.pairwise(chain))


@pytest.mark.parametrize("scenario", ["quic-vs-tcp", "quic-lola"])
def test_a_scenario_gives_the_same_bits_twice(tmp_path: Path, scenario: str) -> None:
    told = (
        knee.load(scenario).plain() | {"duration": "3 s"}
        if scenario == "quic-vs-tcp"
        else _told(
            {"cc": "lola", "transport": "quic"}, {"cc": "bbr"}, {"cc": "reno", "start": "1 s", "bytes": "100 kB"}
        )
    )
    digests = []
    for i in range(2):
        _run(tmp_path / str(i), told)
        files = sorted((tmp_path / str(i) / "qlog").iterdir())
        for file in files:
            read(file)
        digests.append([(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files])
    assert digests[0] == digests[1]
    assert [name for name, _ in digests[0]] == [f"flow-{i + 1}.sqlog" for i in range(len(told["flows"]))]


def test_an_encrypted_flow_has_the_same_log_but_for_acks(tmp_path: Path) -> None:
    """Sizes and times are the same with TLS; what an ACK says cannot be read, and is not guessed from ciphertext."""
    logs = []
    for tls in (False, True):
        _run(tmp_path / str(tls), _told({"cc": "quinn:cubic", "transport": "quic", "tls": tls}, duration="1 s"))
        logs.append(read(tmp_path / str(tls) / "qlog" / "flow-1.sqlog")[1])
    without, encrypted = logs
    assert not _acked(encrypted)
    for event in without:
        event["data"].pop("frames", None)
    assert encrypted == without


def test_flows_of_datagrams_alone_have_no_log(tmp_path: Path) -> None:
    flow = {"rtt": "20 ms", "traffic": {"kind": "udp", "preset": "voip-g711"}}
    told = {"duration": "1 s", "link": {"rate": "5 Mbit/s"}, "flows": [flow]}
    with pytest.raises(knee.ScenarioError, match="all flows are of others; expected a flow with a congestion control"):
        knee.run(told, out=tmp_path / "r", qlog=True)


def test_a_log_changes_nothing_else(tmp_path: Path) -> None:
    told = _told({}, {"transport": "quic"})
    without = knee.run(told, out=tmp_path / "without", report=False)
    logged = _run(tmp_path / "with", told)
    assert logged.samples.equals(without.samples)
    assert logged.events.equals(without.events)
    assert knee.Result.load(tmp_path / "with").summary["flows"] == without.summary["flows"]
    # With packets captured too.
    both = knee.run(_told({}), out=tmp_path / "both", report=False, qlog=True, pcap=True)
    assert both.summary["flows"][0]["sent_packets"] > 0
    assert (tmp_path / "both" / "packets.pcapng").stat().st_size > 0
    assert len(read(tmp_path / "both" / "qlog" / "flow-1.sqlog")[1]) > 1000


def test_a_retransmission_timeout_loses_all_that_is_in_flight(tmp_path: Path) -> None:
    """What is deemed lost is in the log as often as in the figures, each transmission once."""
    told = _told({"cc": "reno"}, duration="6 s") | {
        "changes": [{"at": "2 s", "link": "bottleneck", "loss": 0.9}, {"at": "3 s", "link": "bottleneck", "loss": 0.0}]
    }
    result = _run(tmp_path / "r", told)
    (flow,) = result.summary["flows"]
    assert flow["timeouts"] > 0
    _, events = read(tmp_path / "r" / "qlog" / "flow-1.sqlog")
    lost = [event["data"]["header"]["packet_number"] for event in events if event["name"] == "recovery:packet_lost"]
    assert len(lost) == len(set(lost))
    assert len(lost) == pytest.approx(flow["lost_packets"], abs=2)


# ---- who gets none ----


def test_without_a_folder_there_is_no_log() -> None:
    with pytest.raises(InputError, match="result folder"):
        knee.run(_told({}), qlog=True)


@pytest.mark.parametrize(("ground", "transport"), [("uml", "tcp"), ("host", "tcp")])
def test_senders_in_a_kernel_are_refused_by_name(tmp_path: Path, ground: str, transport: str) -> None:
    with pytest.raises(ScenarioError, match=rf"flows: --qlog cannot log these senders on ground {ground}.*ground sim"):
        qlog.check(from_dict(_told({"transport": transport})), ground, tmp_path / "r")


def test_too_many_flows_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="flows: --qlog opens a file for each of 501 flows"):
        _run(tmp_path / "r", _told({"count": 501}))
    assert list(tmp_path.iterdir()) == []


def test_a_run_with_large_files_is_warned_of(tmp_path: Path) -> None:
    small = from_dict(_told({}))
    assert qlog.check(small, "sim", tmp_path) is None
    large = from_dict(_told({}, duration="60 s") | {"link": {"rate": "10 Gbit/s"}})
    assert "may take 33 GiB" in str(qlog.check(large, "sim", tmp_path))
    short = from_dict(_told({"bytes": "1 MB"}, duration="60 s") | {"link": {"rate": "10 Gbit/s"}})
    assert qlog.check(short, "sim", tmp_path) is None


@pytest.mark.parametrize("transport", ["tcp", "quic"])
def test_the_estimate_is_an_upper_bound_that_is_not_far_away(tmp_path: Path, transport: str) -> None:
    told = _told({"transport": transport, "cc": "bbr"}, duration="10 s")
    _run(tmp_path / "r", told)
    size = (tmp_path / "r" / "qlog" / "flow-1.sqlog").stat().st_size
    assert 0.5 < size / qlog.estimate(from_dict(told), frozenset({"tcp", "quic"})) < 1


@pytest.mark.parametrize(
    "traffic",
    [
        {"kind": "transfers", "arrivals": "periodic", "per_second": 5.0, "size": "40 kB"},
        {"kind": "requests", "size": "40 kB", "objects": 3, "connections": 2, "number": 2},
        {"kind": "app_limited", "rate": "2 Mbit/s"},
        {"kind": "video", "segment": "1 s", "buffer": "4 s"},
    ],
    ids=lambda traffic: str(traffic["kind"]),
)
def test_connections_of_applications_are_groups(traffic: dict[str, Any], tmp_path: Path) -> None:
    result = _run(tmp_path / "out", _told({"traffic": traffic}))
    (flow,) = result.summary["flows"]
    _, events = read(tmp_path / "out" / "qlog" / "flow-1.sqlog")
    count = Counter(event["name"] for event in events)
    assert count["transport:packet_sent"] == flow["sent_packets"] > 100
    assert count["recovery:packet_lost"] == flow["lost_packets"]
    groups = {int(event["group_id"]) for event in events}
    assert groups == set(range(1, max(groups) + 1))
    assert len(groups) >= {"transfers": 20, "requests": 3}.get(traffic["kind"], 1)
    # Within a group, as for a flow: numbers of transmissions count up from 0.
    for group in groups:
        own = [event for event in events if event["group_id"] == str(group)]
        sent = [event["data"]["header"]["packet_number"] for event in own if event["name"] == "transport:packet_sent"]
        assert sent == list(range(len(sent)))
        assert _acked(own) <= set(sent)
