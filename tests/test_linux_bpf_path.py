"""Congestion controls as BPF over a shaped path: 100 Mbit/s, no delay but the queue's."""

from __future__ import annotations

import itertools
import os
import shutil

import pytest

from knee.kernel import bpf
from knee.kernel.bpf import build
from knee.system.missing import Missing
from shaped_path import shaped_path
from test_linux_bpf import loaded

pytestmark = pytest.mark.running_kernel

#: Payload of a packet of 1500 bytes with TCP's timestamps.
_MSS = 1448


@pytest.fixture(scope="module", autouse=True)
def kernel() -> None:
    lacking = build.missing()
    if shutil.which("tc") is None:
        lacking.append(Missing("no iproute2", "sudo apt-get install iproute2"))
    said = "; ".join(f"{part.what}: {part.mend}" for part in lacking)
    if said and os.environ.get("CI"):
        pytest.fail(said)
    if said:
        pytest.skip(said)


def test_bbr3_fills_the_link_without_filling_the_buffer() -> None:
    """Its window is twice the BDP and a few bursts (draft-ietf-ccwg-bbr-06, 5.6.4.2); CUBIC fills the buffer."""
    phases = set()

    def look() -> None:
        phases.update(
            connection.phase for each in bpf.loaded() if each.name == "bbr3" for connection in each.connections
        )

    with loaded("bbr3"), shaped_path("100mbit", "100ms") as path:
        seen = path.transfer("bbr3", 6, look)
    assert seen.rate_mbps >= 85
    assert seen.rtt_mean_ms() < 50
    # A probe for bandwidth is due every 2 to 3 s, or after 63 round trips.
    assert {"probe_bw_cruise", "probe_bw_up"} <= phases


def test_bbr3_leaves_probe_rtt_as_soon_as_it_may() -> None:
    """Half a BDP, or four packets, for 100 ms twice a second: what it costs is a fifth and what is to be refilled."""
    phases = []

    def look() -> None:
        phases.extend(
            (connection.phase, connection.cwnd)
            for each in bpf.loaded()
            if each.name == "bbr3"
            for connection in each.connections
        )

    settings = ("--set", "probe_rtt_interval=500ms", "--set", "probe_rtt_duration=100ms")
    with loaded("bbr3", *settings), shaped_path("100mbit", "100ms") as path:
        seen = path.transfer("bbr3", 6, look)
    visits = [phase for phase, stay in itertools.groupby(phases, lambda each: each[0]) if phase == "probe_rtt"]
    assert len(visits) >= 3, phases
    assert min(cwnd for phase, cwnd in phases if phase == "probe_rtt") == 4
    assert seen.rate_mbps >= 50


def test_bbr3_keeps_its_losses_in_bounds_where_the_buffer_is_less_than_it_would_fill() -> None:
    """A probe ends where it lost 2 % (5.5.10.2); what it has in flight by then may be lost too, between probes nothing.

    BBRv1, which knows no such bound, loses 14 % here.
    """
    with loaded("bbr3"), shaped_path("100mbit", "10ms") as path:
        seen = path.transfer("bbr3", 8)
    settled = [sample.lost for sample in seen.samples if sample.t_s > 1]
    sent = 7 * seen.rate_mbps * 1e6 / 8 / _MSS
    assert seen.rate_mbps >= 85
    assert seen.samples[-1].lost > 0
    assert settled[-1] - settled[0] < 0.05 * sent
