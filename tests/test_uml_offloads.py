"""cocoa where the sender's device leaves segmentation to later (GSO): buffers and limits count packets of the link.

The ground switches offloads off; here they stay as the kernel has them.
"""

from __future__ import annotations

import struct
import subprocess
from typing import Any

import polars as pl
import pytest

import knee
from knee.errors import RunError
from knee.grounds.uml import netlink, plan, queues, topology
from knee.kernel import cocoa
from knee.scenario.model import Link
from uml import kernel, scenario

pytestmark = pytest.mark.uml

#: rtnetlink's message that removes a queue discipline.
RTM_DELQDISC = 37
#: A full frame, bytes, and the time that one takes on the link, ms.
_FRAME, _TIME_MS = queues.FRAME, queues.FRAME * 8 / 100e3


@pytest.fixture(autouse=True)
def _kernel() -> None:
    kernel()


@pytest.fixture
def offloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices keep their offloads."""
    first = plan.Plan.first

    def kept(self: plan.Plan, kind: int, index: int, *payload: plan.Member) -> None:
        if kind != plan.OFFLOADS:
            first(self, kind, index, *payload)

    monkeypatch.setattr(plan.Plan, "first", kept)


def run(**link: Any) -> knee.Result:
    """One CUBIC flow on 100 Mbit/s, whose packets TCP makes ten segments long."""
    link = {"rate": "100 Mbit/s"} | link
    return knee.run(scenario(duration="8 s", link=link, flows=[{"cc": "cubic", "rtt": "20 ms"}]), "uml")


def backlog(result: knee.Result) -> tuple[int, int]:
    """Most packets and most bytes that were queued at the end of an interval."""
    most = result.links.select(pl.col("backlog_packets", "backlog_bytes").max())
    return most["backlog_packets"][0], most["backlog_bytes"][0]


@pytest.mark.usefixtures("offloads")
def test_a_fifo_counts_an_offloaded_packet_as_one() -> None:
    """So that the tests below test what they say: such packets do arrive at the queue."""
    result = run(queue="pfifo", limit="100 packets")
    packets, size = backlog(result)
    assert packets <= 100
    assert size > 4 * 100 * _FRAME
    assert result.summary["links"][0]["queue_delay_max_ms"] > 4 * 100 * _TIME_MS


def test_cocoa_decides_the_same_with_offloads_and_without(request: pytest.FixtureRequest) -> None:
    """Segments of a packet arrive at one time either way. (The probe's events are of what arrives, not of segments.)"""
    plain = run(queue="cocoa")
    request.getfixturevalue("offloads")
    offloaded = run(queue="cocoa")
    packets, size = backlog(offloaded)
    # It begins with a buffer of 100 packets and never needs as many.
    assert 50 < packets <= 100
    assert size <= packets * _FRAME
    assert offloaded.summary["links"][0]["queue_delay_max_ms"] <= 101 * _TIME_MS
    assert offloaded.links.equals(plain.links)
    assert offloaded.samples.drop("rtt_mean_ms").equals(plain.samples.drop("rtt_mean_ms"))
    assert offloaded.summary["links"][0]["drops"] == offloaded.summary["flows"][0]["lost_packets"] > 10


@pytest.mark.usefixtures("offloads")
def test_cocoas_limit_counts_segments() -> None:
    result = run(queue="cocoa", limit="40 packets")
    packets, size = backlog(result)
    assert 20 < packets <= 40
    assert size <= packets * _FRAME
    assert result.summary["links"][0]["queue_delay_max_ms"] <= 41 * _TIME_MS
    assert result.summary["links"][0]["drops"] == result.summary["flows"][0]["lost_packets"] > 10


@pytest.mark.usefixtures("offloads")
def test_cocoas_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet takes more memory than it has bytes."""
    build, limit = queues._BUILDERS["cocoa"], 100_000
    number = [name for name, _ in cocoa.ATTRIBUTES].index("TCA_COCOA_MEMORY_LIMIT")
    monkeypatch.setitem(queues._BUILDERS, "cocoa", lambda *told: (build(*told) or b"") + netlink.u32(number, limit))
    result = run(queue="cocoa")
    packets, size = backlog(result)
    assert packets > 10
    assert size < limit
    assert result.summary["links"][0]["drops"] == result.summary["flows"][0]["lost_packets"] > 10


@pytest.mark.usefixtures("offloads")
def test_cocoa_is_removed_under_load_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the sender's device below htb, with packets in it; any warning of the kernel's ends the run.

    One is that flows remain when their cache is destroyed, which the kernel sees in caches of one user only. A packet
    that is not freed would count against its socket for ever.
    """
    popen, devices = subprocess.Popen, topology.Topology._devices
    monkeypatch.setattr(
        "knee.grounds.uml.process.subprocess.Popen",
        lambda command, **others: popen([*command, "slab_nomerge"], **others),
    )

    def with_cocoa(self: topology.Topology) -> None:
        devices(self)
        at = self._at[topology.SENDER]
        self.plan.setting(plan.FIRST_NAMESPACE, "kernel/panic_on_warn", 1)
        bucket = Link(rate="50 Mbit/s", burst="1600 B")  # type: ignore[arg-type]
        link, below = queues.link(at, 50_000_000, bucket), netlink.qdisc(at, queues.LEAF, queues.CLASS, "cocoa")
        self.plan.tell(topology.SENDER, *link, below)
        root = struct.pack("=B3xiIII", 0, at, 0, netlink.TC_H_ROOT, 0)
        self.plan.at(2_000_000_000, plan.NETLINK, topology.SENDER, netlink._message(RTM_DELQDISC, 0, root))
        self.plan.at(2_000_000_000, plan.UNLOAD, 0, b"sch_cocoa\0")

    monkeypatch.setattr(topology.Topology, "_devices", with_cocoa)
    monkeypatch.setattr("knee.grounds.uml.ground._modules", lambda _: {"knee_probe.ko": "", "sch_cocoa.ko": ""})
    flows = [{"cc": "cubic", "rtt": "20 ms", "bytes": "10 MB", "count": 4}]
    result = knee.run(scenario(duration="8 s", link={"rate": "100 Mbit/s", "limit": "400 packets"}, flows=flows), "uml")
    rates = result.samples.group_by("t_s").agg(pl.col("throughput_mbps").sum())
    before = rates.filter(pl.col("t_s").is_between(1, 2))["throughput_mbps"].mean()
    after = rates.filter(pl.col("t_s").is_between(2.5, 3.5))["throughput_mbps"].mean()
    assert before == pytest.approx(50, rel=0.05)
    assert after == pytest.approx(100, rel=0.1)
    assert all(flow["completion_s"] is not None for flow in result.summary["flows"])


def test_cocoa_cannot_be_removed_while_a_device_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    events = topology.Topology._events

    def with_removal(self: topology.Topology) -> None:
        events(self)
        self.plan.at(1_000_000_000, plan.UNLOAD, 0, b"sch_cocoa\0")

    monkeypatch.setattr(topology.Topology, "_events", with_removal)
    with pytest.raises(RunError, match="sch_cocoa cannot be removed"):
        run(queue="cocoa")
