"""The last ACK of a transfer, the first burst, windows that open: Linux's rules, and times of Linux 6.1 (``uml``)."""

from __future__ import annotations

import pytest

import knee

FULL = 1448


def run(flow: dict, link: dict, **rest: object) -> dict:
    return knee.run({"link": link, "flows": [flow], **rest}).summary["flows"][0]


@pytest.mark.parametrize(("segments", "seconds"), [(0, 1.819), (1, 1.775), (2, 1.819)])
def test_the_last_ack_of_every_second_transfer_waits_for_the_timer(segments: int, seconds: float) -> None:
    # The receiver acknowledges each segment until its window has grown, then every second one: 5,724 steps of 2,920 B
    # from 64 KiB to 16 MiB, and the 16 quick ACKs of the first data. The reader waits for 512 KiB and hurries nothing.
    flow = {"cc": "cubic", "rtt": "20 ms", "bytes": f"{20_000_000 + segments * FULL} B"}
    took = run(flow, {"rate": "100 Mbit/s", "limit": "200 ms"}, duration="5 s")["completion_s"]
    assert took == pytest.approx(seconds, abs=0.003)


@pytest.mark.parametrize("segments", [300, 301, 302])
def test_the_ack_of_what_ends_a_write_does_not_wait(segments: int) -> None:
    # PSH marks the end of a write, and a reader that has read all of it acknowledges it. 56.2 ms on Linux 6.1.
    traffic = {"kind": "bursts", "burst": f"{segments * FULL} B", "period": "200 ms"}
    flow = {"cc": "reno", "rtt": "20 ms", "traffic": traffic}
    times = run(flow, {"rate": "100 Mbit/s"}, duration="10 s")["transfers"]
    assert times["completed"] == 50
    assert times["time_p50_ms"] == pytest.approx(56.2, rel=0.02)
    assert times["time_p95_ms"] < 70


@pytest.mark.parametrize(("at", "sent"), [("40.5 ms", 10), ("42.0 ms", 12), ("43.4 ms", 14)])
def test_the_burst_that_reaches_the_tenth_packet_is_paced(at: str, sent: int) -> None:
    # Linux 6.18 sends ten packets, then two each 1.41 to 1.44 ms: 2.885 times 20 packets per RTT are two each 1.39 ms.
    flow = {"cc": "bbr", "rtt": "40 ms"}
    got = run(flow, {"rate": "100 Mbit/s"}, duration=at, interval="0.1 ms", tcp={"initial_window": 20})
    assert got["sent_packets"] == sent


def test_a_sender_is_held_back_by_a_window_that_has_not_grown() -> None:
    # 64 KiB are 45 segments, and each one that arrives opens two more, whatever the first window may be.
    flow = {"cc": "reno", "rtt": "40 ms"}
    link = {"rate": "1 Gbit/s"}
    assert run(flow, link, duration="60 ms", tcp={"initial_window": 100})["sent_packets"] == 45
    open_at_once = {"initial_window": 100, "window_growth": "0 B"}
    assert run(flow, link, duration="60 ms", tcp=open_at_once)["sent_packets"] == 100


def test_the_retransmissions_of_a_burst_tell_of_the_path() -> None:
    # Packets after a burst's first ACK are not limited by the application, though all of it is written: BBR leaves
    # startup after three bursts, and later ones lose nothing. 15, 15, 15 and 0 of 46 packets on Linux 6.1, and 18.1 ms.
    traffic = {"kind": "bursts", "burst": "66000 B", "period": "0.79 s"}
    link = {"rate": "48.7 Mbit/s", "queue": "bfifo", "limit": "18000 B", "burst": "1600 B"}
    got = run({"cc": "bbr", "rtt": "7.2 ms", "traffic": traffic}, link, duration="12 s")
    assert got["lost_packets"] == 45
    assert got["transfers"]["time_p50_ms"] == pytest.approx(18.13, rel=0.03)


@pytest.mark.parametrize(("queue", "limit", "lost"), [("codel", 1000, 60), ("pfifo", 600, 3253)])
def test_a_window_that_grows_bounds_a_slow_start_that_is_faster(queue: str, limit: int, lost: int) -> None:
    # Hybla adds seven packets per ACK at 75.7 ms, and the receiver two: Linux 6.1 loses this many in 12 s.
    link = {"rate": "33.9 Mbit/s", "queue": queue, "limit": f"{limit} packets", "burst": "1600 B"}
    got = run({"cc": "hybla", "rtt": "75.7 ms"}, link, duration="12 s")
    assert got["lost_packets"] == pytest.approx(lost, rel=0.05)
