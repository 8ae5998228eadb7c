"""The plan and the rows: what goes to a guest and what comes back; needs no kernel."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from knee.errors import RunError
from knee.grounds.uml import plan, probe, queues
from knee.grounds.uml.topology import Topology
from knee.kernel.cache import SOURCES
from knee.scenario import from_dict
from knee.scenario.model import Link
from knee.scenario.registry import queues as disciplines
from knee.scenario.units import Limit
from uml import scenario


def test_a_receivers_window_grows_as_far_as_in_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    # Until it has grown each packet is acknowledged, which changes RTTs by some percent (lab/fidelity.md). The kernel
    # doubles SO_RCVBUF, and half of that is the window.
    started: list[plan.FlowStart] = []
    pack = plan.FlowStart.pack
    monkeypatch.setattr(plan.FlowStart, "pack", lambda self: started.append(self) or pack(self))
    for rate in ("20 Mbit/s", "10 Gbit/s"):
        Topology(
            from_dict(scenario(link={"rate": rate, "limit": "10 packets"}, flows=[{"cc": "reno", "rtt": "40 ms"}]))
        )
    short, long = started
    assert (short.send_buffer, short.receive_buffer) == (64 << 20, 16 << 20)
    # Never what limits: a bandwidth-delay product of 50 MB.
    assert long.receive_buffer == long.send_buffer > 4 * 50_000_000


def decoded(message: bytes) -> Any:
    """What another netlink library reads in a message."""
    read = tcmsg(message)
    read.decode()
    return read


def defaults(name: str, **changed: Any) -> dict[str, Any]:
    return disciplines()[name].resolve(changed)


def options(name: str, limit: Limit | None = None, **changed: Any) -> Any:
    leaf = queues.leaf(name, defaults(name, **changed), limit, 100_000_000)
    return decoded(leaf.message(7)).get_attr("TCA_OPTIONS")


def test_codel_and_fq_codel_are_told_what_the_scenario_says() -> None:
    told = options("codel", Limit("packets", 250), target="7 ms")
    assert told.get_attr("TCA_CODEL_TARGET") == 7000
    assert told.get_attr("TCA_CODEL_LIMIT") == 250
    assert told.get_attr("TCA_CODEL_INTERVAL") == 100_000
    told = options("fq_codel", ecn=False, flows=64)
    assert (told.get_attr("TCA_FQ_CODEL_ECN"), told.get_attr("TCA_FQ_CODEL_FLOWS")) == (0, 64)
    assert told.get_attr("TCA_FQ_CODEL_QUANTUM") == 1514
    assert told.get_attr("TCA_FQ_CODEL_LIMIT") is None


def by_number(name: str, limit: Limit | None = None, **changed: Any) -> dict[int, int]:
    """Attributes of a discipline's options that pyroute2 does not know."""
    packed = queues.leaf(name, defaults(name, **changed), limit, 100_000_000).options
    assert packed is not None
    found, at = {}, 0
    while at < len(packed):
        size, kind = struct.unpack_from("=HH", packed, at)
        found[kind] = int.from_bytes(packed[at + 4 : at + size], "little")
        at += -(-size // 4) * 4
    return found


def test_cake_is_told_what_the_scenario_says() -> None:
    # An Ethernet header, no cells, no filter and three tins are what Linux's cake has without being told.
    usual = by_number("cake")
    numbers = queues.ATTRIBUTES["cake"]
    kinds = [numbers[key] for key in ("diffserv", "linklayer", "overhead", "mpu", "ack_filter")]
    assert [usual[kind] for kind in kinds] == [0, 0, 14, 0, 0]
    told = by_number(
        "cake", overhead="40 B", linklayer="atm", mpu="64 B", ack_filter="ack-filter-aggressive", diffserv="diffserv8"
    )
    assert [told[kind] for kind in kinds] == [2, 1, 40, 64, 2]


def test_pie_and_fq_pie_are_told_what_the_scenario_says() -> None:
    # Linux's own defaults (pie_params_init, fq_pie_init): 15 and 15 ms, 2 and 20 in 1/16 Hz; 1024 flows, a full frame,
    # 32 MiB, 10 %, and all switches off. Without a limit Linux has its own.
    usual = [by_number("pie").get(kind) for kind in range(1, 9)]
    assert usual == [15_000, None, 15_000, 2, 20, 0, 0, 0]
    usual = [by_number("fq_pie").get(kind) for kind in range(1, 13)]
    assert usual == [None, 1024, 15_000, 15_000, 2, 20, 1514, 32 << 20, 10, 0, 0, 0]
    told = by_number("fq_pie", Limit("packets", 250), ecn=True, ecn_prob=40, quantum="300 B", dq_rate_estimator=True)
    numbers = queues.ATTRIBUTES["fq_pie"]
    assert (told[numbers["limit"]], told[numbers["quantum"]]) == (250, 300)
    assert (told[numbers["ecn"]], told[numbers["ecn_prob"]]) == (1, 40)
    assert (told[numbers["bytemode"]], told[numbers["dq_rate_estimator"]]) == (0, 1)


def test_dualpi2_is_told_what_the_scenario_says() -> None:
    def told(limit: Limit | None = None, **changed: Any) -> dict[int, int]:
        return by_number("dualpi2", limit, **changed)

    usual = told()
    # Linux's own defaults (dualpi2_reset_default): 15 and 16 ms, 41/256 and 819/256 Hz, 1 ms, k = 2, 10 %, ECT(1).
    assert [usual.get(kind) for kind in range(1, 15)] == [
        *(None, None, 15_000, 16_000, 41, 819),
        *(None, 1000, 0, 2, 1, 0, 10, queues.TC_DUALPI2_ECN_MASK_L4S_ECT),
    ]
    changed = told(Limit("packets", 250), any_ect=True, coupling_factor=1, min_qlen_step=1, drop_overload=False)
    assert changed[queues.TCA_DUALPI2_LIMIT] == 250
    assert changed[queues.TCA_DUALPI2_ECN_MASK] == queues.TC_DUALPI2_ECN_MASK_ANY_ECT
    assert (changed[queues.TCA_DUALPI2_COUPLING], changed[queues.TCA_DUALPI2_MIN_QLEN_STEP]) == (1, 1)
    assert changed[queues.TCA_DUALPI2_DROP_OVERLOAD] == 0


@pytest.mark.parametrize(
    ("cc", "ecn", "ask", "answer", "ect1", "same"),
    [
        ("cubic", False, 0, 2, False, False),
        ("cubic", True, 1, 2, False, False),
        ("cubic", "accurate", 3, 5, False, False),
        # Classic feedback of each packet's mark needs DCTCP at the receiver too; accurate ECN does not.
        ("dctcp", True, 1, 2, False, True),
        ("dctcp", "accurate", 3, 5, False, False),
        ("dctcp", "l4s", 3, 5, True, False),
    ],
)
def test_a_flow_asks_for_the_ecn_that_the_scenario_says(
    cc: str, ecn: object, ask: int, answer: int, ect1: bool, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Linux, Documentation/networking/ip-sysctl.rst, tcp_ecn: 1 asks for classic ECN, 3 for accurate; 2 and 5 answer.
    started: list[plan.FlowStart] = []
    pack = plan.FlowStart.pack
    monkeypatch.setattr(plan.FlowStart, "pack", lambda self: started.append(self) or pack(self))
    packed = Topology(from_dict(scenario(flows=[{"cc": cc, "rtt": "20 ms", "ecn": ecn}]))).plan.pack()
    flow = started[0]
    assert (flow.ecn, flow.ecn_otherwise, flow.ect1, flow.same_at_receiver) == (ask, answer, ect1, same)
    assert (b"net/ipv4/tcp_ecn\x005\x00" in packed) == (answer == 5)


def test_a_fifo_counts_what_its_limit_counts() -> None:
    for limit, kind, amount in (
        (Limit("packets", 330), "pfifo", 330),
        (Limit("bytes", 90_000), "bfifo", 90_000),
        # 80 ms of 100 Mbit/s.
        (Limit("time", 80_000_000), "bfifo", 1_000_000),
        (None, "pfifo", 1000),
    ):
        leaf = queues.leaf("pfifo", {}, limit, 100_000_000)
        assert leaf.kind == kind
        assert leaf.options == struct.pack("=I", amount)


def test_htb_has_the_rate_and_the_bucket() -> None:
    bucket = Link(rate="100 Mbit/s", burst="1600 B")  # type: ignore[arg-type]
    parms = decoded(queues.link(7, 100_000_000, bucket)[1]).get_attr("TCA_OPTIONS").get_attr("TCA_HTB_PARMS")
    assert parms["rate"] == parms["ceil"] == 12_500_000
    # 1600 bytes at 100 Mbit/s are 128 us, in ticks of 64 ns.
    assert parms["buffer"] == parms["cbuffer"] == 2000
    assert parms["quantum"] == 1514


def test_records_and_headers_are_as_long_as_the_c_says() -> None:
    header = (SOURCES / "guest/plan.h").read_text()
    for name, record in (("plan_header", plan._HEADER), ("plan_record", plan._RECORD), ("plan_flow", plan._FLOW)):
        body = re.search(rf"struct {name} \{{(.*?)\n\}};", header, re.DOTALL)
        assert body is not None
        size = 0
        for kind, names in re.findall(r"^\t(uint64_t|uint32_t|char) ([^;]+);", body[1], re.MULTILINE):
            each = {"uint64_t": 8, "uint32_t": 4, "char": 1}[kind]
            for one in names.split(","):
                count = re.search(r"\[(\d+)\]", one)
                size += each * (int(count[1]) if count else 1)
        assert size == record.size


def test_a_plan_has_its_records_in_order_and_its_own_length() -> None:
    told = scenario(
        flows=[{"cc": "reno", "rtt": "20 ms", "start": "2 s"}, {"cc": "reno", "rtt": "20 ms"}],
        changes=[{"at": "1 s", "link": "bottleneck", "rate": "5 Mbit/s"}],
    )
    packed = Topology(from_dict(told)).plan.pack()
    assert struct.unpack_from("=QQ", packed) == (plan.MAGIC, len(packed))
    at, times, run = plan._HEADER.size, [], 0
    while at < len(packed):
        time, _, _, size, setup = plan._RECORD.unpack_from(packed, at)
        assert not setup or not run, "a record of the set-up after the start"
        run += not setup
        times.append(time)
        at += plan._RECORD.size + -(-size // 8) * 8
    assert at == len(packed)
    assert times == sorted(times)


def test_the_seed_says_the_random_numbers_and_nothing_else() -> None:
    one, same, other = (Topology(from_dict(scenario(seed=seed))).plan.pack() for seed in (1, 1, 2))
    assert one == same
    # From the phase of the start to the words of the seed; the records are the same.
    assert one[40:80] != other[40:80]
    assert one[80:] == other[80:]


def test_a_label_stays_out_of_the_plan() -> None:
    label = "$(touch /tmp/x); `reboot`"
    packed = Topology(
        from_dict(scenario(title=label, flows=[{"cc": "reno", "rtt": "20 ms", "label": label}]))
    ).plan.pack()
    assert b"touch" not in packed
    assert b"reboot" not in packed


@given(
    st.lists(st.integers(1, 10**7), min_size=1, max_size=300),
    st.floats(0, 1),
)
def test_quantiles_are_within_a_bucket_of_the_exact_ones(values: list[int], p: float) -> None:
    bits = probe.RTT_BITS
    counts = np.zeros(27 << bits, dtype="<u4")
    for value in values:
        octave = max(value.bit_length() - bits - 1, 0)
        counts[(octave << bits) + (value >> octave)] += 1
    first = int(np.flatnonzero(counts)[0])
    found = probe.quantile(p, first, counts[first:], bits, min(values), max(values))
    exact = sorted(values)[int(p * (len(values) - 1))]
    assert found is not None
    # A bucket is 1 us wide at least.
    assert abs(found - exact) <= max(1, exact / 2**bits)


def test_rows_that_are_not_whole_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(bytes(100))
    for name in ("rows", "none"):
        with pytest.raises(RunError, match="no complete rows"):
            probe.Rows(tmp_path / name)
