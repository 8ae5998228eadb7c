"""Applications and probes over sockets of a real kernel in virtual time: the simulator's figures, the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee.errors import ScenarioError
from knee.figures import physics
from knee.grounds import applications
from test_uml_runs import bits
from uml import kernel, scenario

pytestmark = pytest.mark.uml

#: A token bucket on both grounds.
LINK = {"rate": "20 Mbit/s", "burst": "1600 B", "limit": "100 packets"}
BULK = {"cc": "cubic", "rtt": "20 ms", "label": "bulk"}


@pytest.fixture(autouse=True)
def _kernel() -> None:
    kernel()
    assert applications.program().is_file(), "make setup installs the program of the ends"


def both(**changed: Any) -> tuple[knee.Result, knee.Result]:
    """A scenario on the kernel and in the simulator."""
    data = scenario(**changed)
    there, here = knee.run(data, "uml"), knee.run(data, "sim")
    assert not physics.breaches(there)
    return there, here


def times(result: knee.Result, what: str) -> pl.DataFrame:
    return result.completions.filter(pl.col("what") == what).select("started_s", "bytes", "time_ms")


def test_transfers_are_the_simulators_and_take_as_long() -> None:
    """Arrivals and sizes are drawn from the same seed. What neither does alike is chance of less than a packet."""
    size = {"distribution": "lognormal", "median": "30 kB", "sigma": 1.0, "max": "1 MB"}
    flow = {"cc": "cubic", "rtt": "20 ms", "traffic": {"kind": "transfers", "per_second": 8.0, "size": size}}
    there, here = (times(result, "transfer") for result in both(flows=[flow], seed=4))
    assert len(there) == len(here) > 20
    assert there["bytes"].to_list() == here["bytes"].to_list()
    assert (there["started_s"] - here["started_s"]).abs().max() < 1e-5  # type: ignore[operator]
    assert there["time_ms"].mean() == pytest.approx(here["time_ms"].mean(), rel=0.1)
    # Within the bounds of the issue, all of them but a few.
    near = ((there["time_ms"] / here["time_ms"]) - 1).abs() <= 0.1
    assert near.mean() >= 0.9  # type: ignore[operator]


@pytest.mark.parametrize("cc", ["cubic", "bbr", "lola"])
def test_a_flow_has_the_rtts_and_windows_of_all_its_connections(cc: str) -> None:
    """A connection's first packets find the queue of the one before it, on both grounds alike."""
    flow = {"cc": cc, "rtt": "20 ms", "traffic": {"kind": "transfers", "per_second": 8.0, "size": "40 kB"}}
    there, here = (result.summary["flows"][0] for result in both(flows=[flow], seed=4, link=LINK))
    for name in ("mean", "min", "p50", "p95"):
        assert there[f"rtt_{name}_ms"] == pytest.approx(here[f"rtt_{name}_ms"], rel=0.03)
    assert there["cwnd_mean_packets"] == pytest.approx(here["cwnd_mean_packets"], rel=0.1)
    assert [there[name] for name in ("lost_packets", "timeouts")] == [0, 0]


def test_what_connections_lose_they_send_again() -> None:
    """What the queue drops is sent again, also by connections that are gone; a server's are watched as a client's."""
    traffic = {"kind": "requests", "think": "100 ms", "size": "200 kB"}
    flow = {"cc": "cubic", "rtt": "20 ms", "label": "rpc", "traffic": traffic}
    link = {"rate": "20 Mbit/s", "limit": "20 packets"}
    for result in both(flows=[flow | {"count": 4}], link=link):
        dropped = result.summary["links"][0]["drops"]
        resent = sum(of["retransmitted_packets"] for of in result.summary["flows"])
        assert dropped > 100
        # Some are sent again for nothing, as probes for a lost tail are; the last drops are not sent again yet.
        known = result.links.filter(pl.col("t_s") < 3.85)["drops"].sum()
        # A few were of handshakes.
        assert known - 5 <= resent <= 1.1 * dropped
        assert sum(of["lost_packets"] for of in result.summary["flows"]) == pytest.approx(resent, rel=0.05)
        assert result.samples["retransmitted_packets"].sum() == resent


def test_a_message_of_any_size_takes_two_round_trips(tmp_path: Path) -> None:
    """A byte: the handshake, then the byte and its ACK."""
    arrivals = tmp_path / "times"
    arrivals.write_text("0.5\n1.5\n")
    traffic = {"kind": "transfers", "times": str(arrivals), "size": "1 B"}
    result = knee.run(scenario(flows=[{"cc": "reno", "rtt": "30 ms", "traffic": traffic}]), "uml")
    assert result.completions["bytes"].to_list() == [1, 1]
    assert result.completions["time_ms"].to_list() == pytest.approx([60.0, 60.0], abs=0.2)
    assert result.summary["flows"][0]["delivered_bytes"] == 2


def test_requests_are_answered_after_their_service_time() -> None:
    traffic = {"kind": "requests", "preset": "rpc", "size": "10 kB", "service": "5 ms", "think": "50 ms"}
    flow = {"cc": "cubic", "rtt": "20 ms", "label": "rpc", "traffic": traffic}
    there, here = (times(result, "request") for result in both(flows=[flow]))
    assert len(there) > 30
    assert abs(len(there) - len(here)) <= 1
    assert there["time_ms"].min() >= 25.0  # type: ignore[operator]
    assert there["time_ms"].mean() == pytest.approx(here["time_ms"].mean(), rel=0.05)


@pytest.mark.parametrize("waits", [False, True])
def test_bursts_are_handed_over_at_the_simulators_times(waits: bool) -> None:
    """The jitter is drawn from the same seed. Bursts that wait come after those before, which take as long."""
    traffic = {"kind": "bursts", "period": "200 ms", "burst": "100 kB", "jitter": "50 ms", "waits": waits}
    flow = {"cc": "cubic", "rtt": "20 ms", "traffic": traffic}
    there, here = (times(result, "transfer") for result in both(flows=[flow], link=LINK))
    assert len(there) == len(here) >= 8
    most = 0.05 if waits else 1e-3
    assert (there["started_s"] - here["started_s"]).abs().max() < most  # type: ignore[operator]
    assert there["time_ms"].mean() == pytest.approx(here["time_ms"].mean(), rel=0.1)


def test_probes_and_calls_feel_the_queue_of_a_download() -> None:
    voice = {"rtt": "20 ms", "label": "voice", "traffic": {"kind": "udp", "preset": "voip-g711"}}
    probe = {"interval": "20 ms", "rtt": "20 ms", "label": "echo"}
    there, here = both(flows=[BULK, voice], probes=[probe], warmup="1 s")
    for result in (there, here):
        call, echo = result.summary["flows"][1]["datagrams"], result.summary["probes"][0]
        assert (call["sent"], echo["sent"]) == (150, 150)
        assert call["owd_p50_ms"] > 20.0
        assert echo["rtt_p50_ms"] > 30.0
    for name in ("mean", "p50", "p95"):
        mine, its = (result.summary["flows"][1]["datagrams"][f"owd_{name}_ms"] for result in (there, here))
        assert mine == pytest.approx(its, abs=2.0)
        mine, its = (result.summary["probes"][0][f"rtt_{name}_ms"] for result in (there, here))
        assert mine == pytest.approx(its, abs=2.0)


def test_an_idle_path_takes_the_base_rtt() -> None:
    quiet = {"cc": "cubic", "rtt": "20 ms", "start": "1.95 s", "bytes": "1 kB"}
    result = knee.run(scenario(flows=[quiet], probes=[{"interval": "100 ms", "rtt": "20 ms"}], duration="2 s"), "uml")
    echo = result.summary["probes"][0]
    # A datagram of 64 bytes takes 78 on the link, 31.2 us at 20 Mbit/s; a way in one direction is half the base RTT.
    assert echo["rtt_min_ms"] == pytest.approx(20.0312, abs=0.005)
    assert echo["owd_max_ms"] == pytest.approx(10.0312, abs=0.005)
    assert (echo["lost"], echo["jitter_ms"]) == (0, pytest.approx(0.0, abs=0.01))


def test_the_same_seed_gives_the_same_bits() -> None:
    flow = {"cc": "cubic", "rtt": "20 ms", "traffic": {"kind": "transfers", "per_second": 5.0, "size": "50 kB"}}
    data = scenario(flows=[flow, BULK], probes=[{"interval": "50 ms", "rtt": "20 ms"}], duration="2 s")
    first, second = (knee.run(data, "uml") for _ in range(2))
    assert bits(first) == bits(second)
    assert first.completions.equals(second.completions)
    assert first.delays.equals(second.delays)


@pytest.mark.parametrize("kind", [{"kind": "rtc"}, {"kind": "video"}])
def test_what_sockets_do_not_carry_is_refused_by_name(kind: dict[str, Any]) -> None:
    flow = {"rtt": "20 ms", "traffic": kind} | ({} if kind["kind"] == "rtc" else {"cc": "cubic"})
    with pytest.raises(ScenarioError, match=f"traffic.kind.*{kind['kind']}.*ground uml"):
        knee.run(scenario(flows=[flow]), "uml")
