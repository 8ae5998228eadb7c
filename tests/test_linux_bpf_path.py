"""Congestion controls as BPF over a shaped path: 100 Mbit/s, no delay but the queue's."""

from __future__ import annotations

import itertools
import os
import shutil

import pytest
from shaped_path import shaped_path
from test_linux_bpf import loaded

from knee.grounds.ground import Missing
from knee.linux.bpf import build

pytestmark = pytest.mark.xdist_group("kernel")


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


def test_after_a_loss_the_window_grows_again() -> None:
    """H-TCP adds a packet per round trip at least (Leith and Shorten 2004), as long as the window is what limits."""
    with loaded("htcp"), shaped_path("100mbit", "20ms") as path:
        samples = path.transfer("htcp", 3).samples
    # While losses are repaired the window comes down to the threshold; then it grows until the next loss.
    grown = []
    for ssthresh, stretch in itertools.groupby(samples, lambda sample: sample.ssthresh):
        after = list(itertools.dropwhile(lambda cwnd: cwnd > ssthresh, (sample.cwnd for sample in stretch)))
        grown.append(max(after, default=ssthresh) - ssthresh)
    assert samples[-1].lost > 0
    assert max(grown) >= 10, grown
