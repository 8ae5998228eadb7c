"""Messages of rtnetlink that the guest of the ground ``uml`` passes to its kernel, as pyroute2 reads them."""

from __future__ import annotations

import re
import struct
import subprocess
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from pyroute2.netlink.rtnl.marshal import MarshalRtnl

from knee.grounds.uml import netlink, queues
from knee.scenario.model import Link
from knee.scenario.registry import queues as disciplines
from knee.scenario.units import parse_limit


def _read(message: bytes) -> Any:
    (read,) = MarshalRtnl().parse(message)
    return read


def _flags(read: Any) -> int:
    assert read["header"]["flags"] & 0x5 == 0x5  # NLM_F_REQUEST | NLM_F_ACK
    return int(read["header"]["flags"]) & ~0x5


NEW = netlink.NLM_F_CREATE | netlink.NLM_F_EXCL


def test_a_pair_of_devices() -> None:
    read = _read(netlink.veth((5, "k5"), (6, "k6"), 9, mtu=1400))
    assert (read["event"], _flags(read), read["index"]) == ("RTM_NEWLINK", NEW, 5)
    for device, name in ((read, "k5"), (read.get_nested("IFLA_LINKINFO", "IFLA_INFO_DATA", "VETH_INFO_PEER"), "k6")):
        assert device.get_attr("IFLA_IFNAME") == name
        assert device.get_attr("IFLA_MTU") == 1400
        assert device.get_attr("IFLA_ADDRESS") == "02:00:00:00:00:01"
        assert device["flags"] == device["change"] == netlink.IFF_NOARP
    assert read.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") == "veth"
    assert device["index"] == 6
    assert device.get_attr("IFLA_NET_NS_FD") == 9


def test_a_device_goes_up() -> None:
    read = _read(netlink.up(3))
    assert (read["event"], _flags(read), read["index"]) == ("RTM_NEWLINK", 0, 3)
    assert read["flags"] == read["change"] == netlink.IFF_UP


def test_routes() -> None:
    metrics = {netlink.RTAX_INITCWND: 4, netlink.RTAX_RTO_MIN: 300}
    read = _read(netlink.route(IPv4Network("10.1.0.0/16"), 7, 1007, metrics=metrics))
    assert (read["event"], _flags(read), read["dst_len"], read["family"]) == ("RTM_NEWROUTE", NEW, 16, 2)
    assert read.get_attr("RTA_DST") == "10.1.0.0"
    assert (read.get_attr("RTA_OIF"), read.get_attr("RTA_TABLE"), read["type"], read["scope"]) == (7, 1007, 1, 253)
    shown = read.get_attr("RTA_METRICS")
    assert (shown.get_attr("RTAX_INITCWND"), shown.get_attr("RTAX_RTO_MIN")) == (4, 300)
    own = _read(netlink.route(IPv4Network("10.129.0.0/16"), 1, netlink.RT_TABLE_LOCAL, local=True))
    assert (own["type"], own["scope"], own["table"], own.get_attr("RTA_TABLE")) == (2, 254, 255, 255)
    assert own.get_attr("RTA_METRICS") is None


def test_a_rule() -> None:
    read = _read(netlink.rule("k4", 1004))
    assert (read["event"], _flags(read), read["action"], read["family"]) == ("RTM_NEWRULE", NEW, 1, 2)
    assert (read.get_attr("FRA_IIFNAME"), read.get_attr("FRA_TABLE")) == ("k4", 1004)
    assert read.get_attr("FRA_PRIORITY") == 100


def _link(**keys: str) -> Link:
    return Link(rate="1 Mbit/s", **keys)  # type: ignore[arg-type]


#: PPPoE over LLC/SNAP on ATM: 40 bytes on top of the IP packet, of which Linux counts 14 by itself.
ADSL = "pppoe-llcsnap"


def test_a_link_is_a_wire_with_a_discipline_below() -> None:
    (root,) = queues.link(8, 100_000_001, _link())
    read = _read(root)
    assert (read["event"], read["index"], read["handle"], read["parent"]) == ("RTM_NEWQDISC", 8, 0x10000, 0xFFFFFFFF)
    assert (_flags(read), read.get_attr("TCA_KIND")) == (netlink.NLM_F_CREATE | netlink.NLM_F_REPLACE, "knee_wire")
    # Attributes of linux/probe/knee_probe.h: bit/s, bytes beyond a frame, and whether there are cells.
    assert root.endswith(struct.pack("=HHQ HHI HHI", 12, 1, 100_000_001, 8, 2, 0, 8, 3, 0))
    (change,) = queues.link(8, 10**6, _link(overhead=ADSL), change=True)
    assert (_flags(_read(change)), _read(change)["event"]) == (0, "RTM_NEWQDISC")
    assert change.endswith(struct.pack("=HHQ HHI HHI", 12, 1, 10**6, 8, 2, 26, 8, 3, 1))
    leaf = queues.leaf("pfifo", {}, parse_limit("250 packets"), 100_000_000).message(8)
    assert (_read(leaf)["handle"], _read(leaf)["parent"]) == (0x100000, 0x10001)
    assert _flags(_read(leaf)) == NEW


def test_a_link_with_a_burst_is_a_token_bucket() -> None:
    root, below = map(_read, queues.link(8, 100_000_000, _link(burst="1600 B")))
    assert (root["event"], root["index"], root["handle"], root["parent"]) == ("RTM_NEWQDISC", 8, 0x10000, 0xFFFFFFFF)
    assert _flags(root) == netlink.NLM_F_CREATE | netlink.NLM_F_REPLACE
    assert root.get_attr("TCA_KIND") == "htb"
    assert root.get_attr("TCA_OPTIONS").get_attr("TCA_HTB_INIT")["defcls"] == 1
    assert (below["event"], _flags(below), below["handle"], below["parent"]) == ("RTM_NEWTCLASS", NEW, 0x10001, 0x10000)
    assert below.get_attr("TCA_OPTIONS").get_attr("TCA_HTB_PARMS")["rate"] == 12_500_000
    assert below.get_attr("TCA_OPTIONS").get_attr("TCA_HTB_RATE64") == 12_500_000
    (change,) = queues.link(8, 1_000_000, _link(burst="1600 B", overhead=ADSL), change=True)
    assert _flags(_read(change)) == 0
    # struct tc_ratespec: linklayer and overhead before the rate; pyroute2 does not read the first.
    assert struct.pack("=BBHhHI", 0, 2, 26, 0, 0, 125_000) in change


def test_options_have_the_numbers_that_pyroute2_knows() -> None:
    """Of the disciplines that pyroute2 knows too, every option is where that looks for it."""
    params = disciplines()["codel"].resolve({"target": "7 ms", "interval": "90 ms", "ecn": True})
    read = _read(queues.leaf("codel", params, parse_limit("321 packets"), 10**8).message(2)).get_attr("TCA_OPTIONS")
    assert {name: read.get_attr(f"TCA_CODEL_{name}") for name in ("TARGET", "LIMIT", "INTERVAL", "ECN")} == {
        "TARGET": 7000,
        "LIMIT": 321,
        "INTERVAL": 90_000,
        "ECN": 1,
    }
    params = disciplines()["fq_codel"].resolve({"target": "6 ms", "flows": 64, "quantum": "300 B"})
    read = _read(queues.leaf("fq_codel", params, parse_limit("99 packets"), 10**8).message(2)).get_attr("TCA_OPTIONS")
    assert {name: read.get_attr(f"TCA_FQ_CODEL_{name}") for name in ("TARGET", "LIMIT", "FLOWS", "QUANTUM")} == {
        "TARGET": 6000,
        "LIMIT": 99,
        "FLOWS": 64,
        "QUANTUM": 300,
    }


#: Names in the kernel's enums that are not those of parameters.
_C_NAMES = {
    "fq_codel": {"drop_batch": "DROP_BATCH_SIZE"},
    "fq": {"limit": "PLIMIT", "flow_limit": "FLOW_PLIMIT", "refill_delay": "FLOW_REFILL_DELAY"},
    "cake": {"diffserv": "DIFFSERV_MODE", "linklayer": "ATM", "isolation": "FLOW_MODE", "interval": "RTT"}
    | {"memlimit": "MEMORY"},
}
_C_WORDS = {
    "isolation": ("FLOW_NONE", "FLOW_FLOWS", "FLOW_DUAL_SRC", "FLOW_DUAL_DST", "FLOW_TRIPLE"),
    "diffserv": ("DIFFSERV_DIFFSERV3", "DIFFSERV_DIFFSERV4", "DIFFSERV_DIFFSERV8", "DIFFSERV_BESTEFFORT"),
    "linklayer": ("ATM_NONE", "ATM_ATM", "ATM_PTM"),
    "ack_filter": ("ACK_NONE", "ACK_FILTER", "ACK_AGGRESSIVE"),
}


@pytest.mark.packages
def test_constants_are_those_of_the_kernel_headers(tmp_path: Path) -> None:
    ours = {name: value for name, value in vars(queues).items() if re.match(r"TCA?_", name)}
    for name, numbers in queues.ATTRIBUTES.items():
        names = {key: _C_NAMES.get(name, {}).get(key, key.upper()) for key in numbers}
        ours |= {f"TCA_{name.upper()}_{names[key]}": number for key, number in numbers.items()}
    for key, words in queues._WORDS.items():
        ours |= {f"CAKE_{name}": number for name, number in zip(_C_WORDS[key], words.values(), strict=True)}
    # Headers of Debian 12 are older than dualpi2: tests/test_uml_l4s.py looks into those of the kernel that has it.
    ours = {name: value for name, value in ours.items() if "DUALPI2" not in name}
    assert len(ours) > 70
    lines = "".join(f'printf("%d ", {name});' for name in ours)
    program = tmp_path / "constants.c"
    program.write_text(f"#include <linux/pkt_sched.h>\n#include <stdio.h>\nint main(void) {{ {lines} }}\n")
    subprocess.run(["cc", "-o", tmp_path / "constants", program], check=True)
    printed = subprocess.run([tmp_path / "constants"], check=True, capture_output=True, text=True).stdout
    assert dict(zip(ours, map(int, printed.split()), strict=True)) == ours
