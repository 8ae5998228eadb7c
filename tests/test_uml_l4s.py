"""L4S on Linux 7.2 in virtual time: dualpi2, accurate ECN and ECT(1), beside the simulator."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

import knee
from knee.grounds.uml import queues
from uml import NEWER, newer_kernel, scenario

pytestmark = pytest.mark.uml


@pytest.fixture(autouse=True)
def _kernel() -> None:
    newer_kernel()


#: A token bucket of about one packet, as htb's is.
LINK: dict[str, Any] = {"rate": "40 Mbit/s", "queue": "dualpi2", "burst": "1600 B"}


def both(flows: list[dict[str, Any]], duration: str = "15 s") -> tuple[knee.Result, knee.Result]:
    data = scenario(duration=duration, warmup="5 s", link=LINK, flows=[{"rtt": "20 ms"} | f for f in flows])
    data["run"] = {"kernel": NEWER}
    return knee.run(data, "sim"), knee.run(data, "uml")


def test_constants_of_dualpi2_are_those_of_the_kernels_headers() -> None:
    header = Path(newer_kernel().kernel).parent / "tree/include/uapi/linux/pkt_sched.h"
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    found = re.search(r"enum \{\s*TCA_DUALPI2_UNSPEC,(.*?)\}", text, re.DOTALL)
    assert found is not None
    names = ["TCA_DUALPI2_UNSPEC", *re.findall(r"TCA_DUALPI2_\w+", found[1])]
    for name, value in vars(queues).items():
        if name.startswith("TCA_DUALPI2_"):
            assert names[value] == name
        elif name.startswith("TC_DUALPI2_"):
            assert re.search(rf"\b{name} = {value}\b", text)


def test_the_manifest_says_which_kernel_it_was() -> None:
    _, uml = both([{"cc": "reno"}])
    assert uml.manifest["kernel"] == newer_kernel().release
    assert uml.manifest["kernel"].startswith(NEWER)


@pytest.mark.parametrize("ecn", [False, True, "accurate"])
def test_dualpi2_holds_a_classic_flow_at_its_target(ecn: object) -> None:
    # RFC 9332: the classic queue is steered to 15 ms, by drops, or by marks where the flow is ECN-capable.
    sim, uml = both([{"cc": "cubic", "ecn": ecn}])
    here, there = uml.summary["links"][0], sim.summary["links"][0]
    assert here["queue_delay_mean_ms"] == pytest.approx(there["queue_delay_mean_ms"], rel=0.1)
    assert uml.summary["flows"][0]["goodput_mbps"] == pytest.approx(sim.summary["flows"][0]["goodput_mbps"], abs=1)
    assert (here["drops"] > 0, here["marks"] > 0) == ((True, False) if ecn is False else (False, True))


def test_a_scalable_flow_with_ect1_has_the_low_latency_queue() -> None:
    sim, uml = both([{"cc": "dctcp", "ecn": "l4s"}])
    for result in (sim, uml):
        # The step is at 1 ms.
        assert result.summary["links"][0]["queue_delay_p99_ms"] < 2.0
        assert result.summary["links"][0]["drops"] == 0
    assert uml.summary["flows"][0]["goodput_mbps"] == pytest.approx(sim.summary["flows"][0]["goodput_mbps"], abs=1)
    # As often marked: DCTCP's alpha follows what accurate ECN feeds back.
    assert uml.summary["links"][0]["marks"] == pytest.approx(sim.summary["links"][0]["marks"], rel=0.35)


def test_with_ect0_the_scalable_flow_is_classic_traffic_and_takes_the_link() -> None:
    # In one queue it answers the marks of classic traffic in proportion, and CUBIC by a third.
    sim, uml = both([{"cc": "dctcp", "ecn": "accurate"}, {"cc": "cubic", "ecn": True}])
    for result in (sim, uml):
        dctcp, cubic = result.summary["flows"]
        assert dctcp["goodput_mbps"] > 3 * cubic["goodput_mbps"]
        assert dctcp["queue_delay_mean_ms"] > 5


def test_coupling_shares_the_link_and_keeps_the_low_latency_queue_short() -> None:
    # The phase in which the second flow meets the first one's sawtooth is chance, and moves a share by 1 Mbit/s: the
    # means of 12 starts. Four differed by 2.1 Mbit/s, 24 by 1.0, most of it the end of marks (lab/fidelity.md).
    goodput: dict[tuple[int, int], list[float]] = defaultdict(list)
    for k in range(12):
        flows = [{"cc": "dctcp", "ecn": "l4s"}, {"cc": "cubic", "ecn": True, "start": f"{1000 + 13 * k} ms"}]
        for ground, result in enumerate(both(flows, duration="30 s")):
            l4s, classic = result.summary["flows"]
            assert l4s["queue_delay_mean_ms"] < 1.5 < 8 < classic["queue_delay_mean_ms"]
            for i, flow in enumerate((l4s, classic)):
                goodput[ground, i].append(flow["goodput_mbps"])
    for i in range(2):
        # Five points of the link's rate, the bound of knee fidelity.
        assert mean(goodput[1, i]) == pytest.approx(mean(goodput[0, i]), abs=0.05 * 40)


def test_applications_with_l4s_have_the_low_latency_queue() -> None:
    """Connections that come and go, and probes: ECT(1) in each of their packets, as of a bulk flow."""
    traffic = {"kind": "transfers", "per_second": 4.0, "size": "100 kB"}
    flows = [{"cc": "dctcp", "ecn": "l4s", "traffic": traffic}, {"cc": "cubic", "ecn": True}]
    data = scenario(duration="8 s", link=LINK, flows=[{"rtt": "20 ms"} | flow for flow in flows])
    data |= {"run": {"kernel": NEWER}, "probes": [{"rtt": "20 ms", "ecn": ecn} for ecn in (True, "l4s")]}
    for result in (knee.run(data, "sim"), knee.run(data, "uml")):
        transfers, bulk = result.summary["flows"]
        assert transfers["queue_delay_mean_ms"] < 2.0 < 8 < bulk["queue_delay_mean_ms"]
        classic, l4s = result.summary["probes"]
        assert l4s["rtt_p50_ms"] < 22 < 28 < classic["rtt_p50_ms"]
