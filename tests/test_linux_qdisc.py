"""cocoa over netlink: Python against the kernel's header, and what people write against both."""

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from knee.cli import main
from knee.errors import Refused
from knee.kernel import cocoa
from knee.kernel.options import attributes, parameters, parse, values
from knee.scenario.registry import queues

LINUX = Path(__file__).parent.parent / "linux"
HEADER = (LINUX / "include/uapi/knee_pkt_sched.h").read_text()

#: Formats of struct by types of C, and types of pyroute2 by those in the header's comments.
FORMATS = {"__u64": "Q", "__u32": "I", "__s32": "i"}
NLA = {"u64": "uint64", "u32": "uint32", "u8": "uint8"}


def _fields(name: str) -> tuple[tuple[str, str], ...]:
    body = re.search(rf"struct {name} \{{(.*?)\n\}};", HEADER, re.DOTALL)
    assert body is not None
    found = re.findall(r"^\t(__\w+) (\w+);", body[1], re.MULTILINE)
    return tuple((field, FORMATS[kind]) for kind, field in found)


def test_attributes_have_the_numbers_and_types_of_the_kernels_header() -> None:
    body = re.search(r"enum \{(.*?)\};", HEADER, re.DOTALL)
    assert body is not None
    names = re.findall(r"\b(TCA_COCOA_\w+),(?:\t+/\* (\w+):)?", body[1])
    assert [name for name, _ in names] == [name for name, _ in cocoa.ATTRIBUTES]
    typed = {name: NLA[kind] for name, kind in names if kind}
    assert typed == {name: kind for name, kind in cocoa.ATTRIBUTES if name in typed}
    # All but the two that carry nothing.
    assert len(typed) == len(names) - 2


@pytest.mark.parametrize(
    ("name", "mine"), [("tc_cocoa_qd_stats", cocoa.QDISC_STATS), ("tc_cocoa_cl_stats", cocoa.FLOW_STATS)]
)
def test_statistics_have_the_fields_of_the_kernels_header(name: str, mine: tuple[tuple[str, str], ...]) -> None:
    assert _fields(name) == mine
    # No holes: the kernel aligns each field as native structures are.
    formats = "".join(kind for _, kind in mine)
    assert struct.calcsize("=" + formats) == struct.calcsize("@" + formats)


def test_every_parameter_of_the_simulators_cocoa_has_an_attribute() -> None:
    known = {name for name, _ in cocoa.ATTRIBUTES}
    assert {f"TCA_COCOA_{name.upper()}" for name in parameters()} == known - {"TCA_COCOA_UNSPEC", "TCA_COCOA_PAD"}


def test_the_kernels_defaults_are_those_of_the_registry() -> None:
    """What ``cocoa_init`` sets, in netlink's units; a device of 1514-byte frames."""
    source = (Path(__file__).parent.parent / "linux/modules/sch_cocoa.c").read_text()
    for line in (
        "sch->limit = 10000;",
        "q->memory_limit = 32 << 20;",
        "q->flows.mask = 1023;",
        "q->quantum = 2 * mtu;",
        "q->initial_quantum = 10 * mtu;",
        "q->refill_delay = 40 * NSEC_PER_MSEC;",
        "q->low_rate_threshold = 550000 / 8;",
        "q->params.multiplier = KNEE_COCOA_ONE * 5 / 4;",
        "q->params.max_increase = KNEE_COCOA_ONE * 2;",
        "q->params.max_guard = NSEC_PER_SEC;",
        "q->params.base_rtt = 100 * NSEC_PER_MSEC;",
        "q->params.initial_buffer = 100;",
    ):
        assert line in source
    defaults = dict(attributes({name: param.default for name, param in parameters().items()}))
    assert defaults == {
        "TCA_COCOA_LIMIT": 10_000,
        "TCA_COCOA_MEMORY_LIMIT": 32 << 20,
        "TCA_COCOA_ORPHAN_MASK": 1023,
        "TCA_COCOA_QUANTUM": 2 * 1514,
        "TCA_COCOA_INITIAL_QUANTUM": 10 * 1514,
        "TCA_COCOA_REFILL_DELAY": 40_000,
        "TCA_COCOA_FLOW_MAX_RATE": 0,
        "TCA_COCOA_LOW_RATE_THRESHOLD": 550_000 // 8,
        "TCA_COCOA_CE_THRESHOLD": 0,
        "TCA_COCOA_MULTIPLIER": 5 << 14,
        "TCA_COCOA_MAX_INCREASE": 2 << 16,
        "TCA_COCOA_MAX_GUARD_INTERVAL": 10**6,
        "TCA_COCOA_MAX_GUARD_RTTS": 0,
        "TCA_COCOA_BASE_RTT": 100_000,
        "TCA_COCOA_FLOW_LIMIT": 100,
        "TCA_COCOA_LEARN_INITIAL": 0,
    }


@given(st.data())
def test_what_is_set_is_what_is_shown(data: st.DataObject) -> None:
    """Whole microseconds and bytes, and factors of 1/65536, come back as they went in."""
    steps = {"time": 1000, "rate": 8}
    given_values = {}
    for name, param in parameters().items():
        if param.kind == "bool":
            given_values[name] = data.draw(st.booleans())
        elif param.kind == "ratio":
            least, most = (int(float(end) * 65536) for end in (param.min, param.max))
            given_values[name] = data.draw(st.integers(least, most)) / 65536
        else:
            step = steps.get(param.kind, 1)
            given_values[name] = data.draw(st.integers(-(-int(param.min) // step), int(param.max) // step)) * step
    assert values(dict(attributes(given_values))) == given_values


def test_a_value_that_the_kernel_cannot_express_is_refused() -> None:
    with pytest.raises(Refused, match="not a whole number of microseconds"):
        attributes(parse({"base_rtt": "1500 ns"}))
    # The kernel would make 65,000 turns for a packet of 64 KiB.
    with pytest.raises(Refused, match="expected 256 B"):
        attributes({"quantum": 1})
    with pytest.raises(Refused, match="not a whole number of bytes per second"):
        attributes(parse({"flow_max_rate": "12 bit/s"}))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "lo", "fq"], "fq: knee linux qdisc handles cocoa and cocoa_bpf only; use tc"),
        (["add", "no-such-device", "cocoa"], "no device is named no-such-device"),
        (["add", "lo", "cocoa", "--multiplier", "500"], "--multiplier: 500.0 is out of range; expected 0.0 to 100.0"),
        (["add", "lo", "cocoa", "--multiplier"], "--multiplier has no value"),
        (
            ["add", "lo", "cocoa", "--multiplyer", "2"],
            "--multiplyer: cocoa has no such option; did you mean multiplier?",
        ),
        (["add", "lo", "cocoa", "multiplier", "2"], "multiplier is not an option of cocoa; options start with --"),
        (["change", "lo", "cocoa", "--base-rtt", "100"], '--base-rtt: "100" has no unit'),
        (["change", "lo", "cocoa", "--learn-initial", "maybe"], "--learn-initial:"),
        (["change", "lo", "cocoa", "--base-rtt", "1 ns"], "--base-rtt: 1 ns is not a whole number of microseconds"),
        (["show", "no-such-device"], "no device is named no-such-device"),
    ],
)
def test_what_is_wrong_is_refused_with_what_would_do(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["linux", "qdisc", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_machine_without_cocoa_has_none_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["linux", "qdisc", "show", "lo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_the_options_are_all_in_the_registry() -> None:
    assert set(parameters()) - set(queues()["cocoa"].params) == {"limit", "memory_limit"}


def test_options_are_marked_as_nested() -> None:
    """The kernel parses them strictly, which refuses attributes without NLA_F_NESTED; it marks its own alike."""
    cocoa.enter()
    message = tcmsg()
    message["attrs"] = [
        ("TCA_KIND", "cocoa"),
        ("TCA_OPTIONS", cocoa.get_parameters({"attributes": [("TCA_COCOA_LIMIT", 7)]})),
    ]
    message.encode()
    (place,) = (
        at for at in range(0, len(message.data), 4) if message.data[at + 2 : at + 4] == struct.pack("=H", 0x8002)
    )
    assert struct.unpack("=H", message.data[place : place + 2]) == (12,)
    again = tcmsg(message.data)
    again.decode()
    assert again.get_attr("TCA_OPTIONS").get_attr("TCA_COCOA_LIMIT") == 7


def _members(structure: dict[str, Any]) -> list[tuple[str, str]]:
    return [(member["name"].replace("-", "_"), member["type"]) for member in structure["members"]]


def test_the_netlink_specification_has_the_structures_of_the_kernels_header() -> None:
    """ynl chooses a structure by the kind of queue discipline alone: one stands for disciplines and for classes."""
    yaml = pytest.importorskip("yaml")
    spec = yaml.safe_load((LINUX / "upstream/netlink/tc-cocoa.yaml").read_text())
    structures = {each["name"]: each for each in spec["definitions"] if each["type"] == "struct"}
    types = {"Q": "u64", "I": "u32", "i": "s32"}
    for name in ("qd", "cl"):
        fields = _fields(f"tc_cocoa_{name}_stats")
        assert _members(structures[f"tc-cocoa-{name}-stats"]) == [(field, types[kind]) for field, kind in fields]
    both = structures["tc-cocoa-xstats"]
    assert _members(both) == [("type", "u32"), ("reserved", "pad"), ("qdisc", "binary"), ("flow", "binary")]
    assert [member.get("struct") for member in both["members"][2:]] == ["tc-cocoa-qd-stats", "tc-cocoa-cl-stats"]
    assert {"value": "cocoa", "fixed-header": both["name"]} in spec["sub-messages"][1]["formats"]


def test_statistics_of_disciplines_and_of_flows_have_one_structure() -> None:
    """As in the header: the type, which says which part is filled in, and both parts behind it."""
    body = re.search(r"struct tc_cocoa_xstats \{(.*?)\n\};", HEADER, re.DOTALL)
    assert body is not None
    members = re.findall(r"^\t(?:struct )?(\w+) (\w+);", body[1], re.MULTILINE)
    assert members == [
        ("__u32", "type"),
        ("__u32", "reserved"),
        ("tc_cocoa_qd_stats", "qdisc"),
        ("tc_cocoa_cl_stats", "flow"),
    ]
    assert (
        ("type", "I"),
        ("reserved", "I"),
        *_fields("tc_cocoa_qd_stats"),
        *((cocoa.OF_FLOW + name, kind) for name, kind in _fields("tc_cocoa_cl_stats")),
    ) == cocoa.XSTATS
    formats = "".join(kind for _, kind in cocoa.XSTATS)
    assert struct.calcsize("=" + formats) == struct.calcsize("@" + formats)
