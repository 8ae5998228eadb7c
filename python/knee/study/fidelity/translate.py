"""A case of a reference file as a scenario: the rig it was measured on, in the simulator's terms."""

from __future__ import annotations

import math
from typing import Any

from knee.errors import Refused
from knee.scenario import Plain, registry
from knee.scenario.registry import Entry
from knee.scenario.units import format_rate, format_time
from knee.study.fidelity.cases import Case, KernelFlow

#: htb's burst on the rig: the bottleneck is a token bucket, which sends a packet at once after a pause.
BURST = "1600 B"
#: An Ethernet header, as tc counts it.
OVERHEAD = "14 B"
#: HZ=100 in the rig's kernel: CUBIC and others that count jiffies see time in steps of this, and timers wait for it.
TICK = "10 ms"
#: The same as a frequency.
HZ = 100
#: Of the time series, ns; the windows of the figures are cut to it.
INTERVAL_NS = 20_000_000
#: Where the file names no discipline, the queue never fills: the LoLa paper's buffer.
UNNAMED = ("pfifo", "100 MB")

#: Shifts of each flow's start against that of the one before, ms, a run each. Two kernels never start flows at the
#: same phase; these fall at different phases of the 10 ms clock tick and of a short RTT, and the last two are one tick
#: later.
SHIFTS_MS = (0, 3, 7, 11, 13)

#: Authors' programs send packet by packet and acknowledge each. `[tcp]` is of all flows: with UDP Prague, which hardly
#: notices, ACKs are delayed as the kernel's flows beside it have them.
PROGRAM_TCP: dict[str, Any] = {"tso": False, "delayed_ack": "0 s", "window_growth": "100 GB"}
TCP_BESIDE: dict[str, dict[str, Any]] = {"prague": {"tso": False}}
#: Parameters of flows beside programs that come from the rig. Copa polls without waiting, which was made a wait of 50
#: us there, and Linux ends a wait up to 50 us late (timer slack): 75 us on average.
RIG_PARAMS = {"copa": {"timer": "75 us"}}
#: Bytes of a packet of theirs on the wire, Ethernet included, where they are not as long as the simulator's.
PACKETS = {"copa": 1482}
#: Of the simulator's packets, with tc's 14 bytes for Ethernet.
PACKET = 1514

#: Their control loops magnify microseconds (lab/fidelity.md has by how much), so the shifts are gone through so often.
PROGRAM_ROUNDS = 4

#: Disciplines that drop or mark only when they are full: no AQM.
AQM_FREE = {"pfifo", "bfifo", "pfifo_fast", "fq", "sfq"}
#: Congestion controls that draw random numbers: when to back off, in which phase to start. A test compares seeds.
RANDOMIZED = {"nv", "cdg", "bbr", "bbr3", "vivace"}
#: A faster link is not run over QUIC, bit/s.
QUIC_MOST = 1e9
#: Options of tc that say what the simulator does anyway: its bottleneck paces nobody, cake shapes only where told.
_NO_MATTER = {("fq", "nopacing"), ("cake", "unlimited"), ("cake", "besteffort")}


class Skipped(Exception):  # noqa: N818 - no error: a case that cannot be run here
    """Why a case is not run."""


def discipline(case: Case) -> str:
    """The name of a case's queue discipline."""
    return UNNAMED[0] if case.qdisc is None else case.qdisc.split(",")[0]


def form(flow: KernelFlow) -> str:
    """The form in which a flow's congestion control runs, the default; empty for an algorithm that has only one."""
    entry = registry.congestion_controls().get(flow.cc)
    return entry.params["form"].words[0] if entry is not None and "form" in entry.params else ""


def runs(case: Case) -> list[int]:
    """By how many ms each run of a case shifts its second flow; the third by twice as many, and so on.

    One flow through a plain queue has one run. Where chance has a part, through other flows, losses, an AQM or the
    algorithm's own dice, the mean of as many runs as there are shifts is compared, each with its own seed.
    """
    if any(flow.beside_program for flow in case.flows):
        return list(SHIFTS_MS) * PROGRAM_ROUNDS
    plain = len(case.flows) == 1 and not case.loss and discipline(case) in AQM_FREE
    return [0] if plain and case.flows[0].cc not in RANDOMIZED else list(SHIFTS_MS)


def scale(case: Case) -> float:
    """How many times as fast as recorded the link is, so that packets of another size take as long here as there."""
    sizes = {PACKETS.get(flow.cc, PACKET) if flow.beside_program else PACKET for flow in case.flows}
    if len(sizes) > 1:
        raise Skipped(f"packets of {' and '.join(str(size) for size in sorted(sizes))} bytes share a link")
    return PACKET / sizes.pop()


def scenario(case: Case, shift_ms: int = 0, seed: int = 1, kernel: str | None = None) -> Plain:
    """A case as plain data of a scenario.

    A flow's time counts from when it is connected, as the kernel's did: one base RTT after its start. The scenario
    lasts until the last flow has had its time.

    Raises:
        Skipped: where the simulator does not have what the case needs.
    """
    known = registry.congestion_controls()
    for flow in case.flows:
        if flow.cc not in known:
            raise Skipped(f"no congestion control {flow.cc}")
    program = any(flow.beside_program for flow in case.flows)
    paced = case.window_from_s is not None and not program
    tcp = next((TCP_BESIDE[flow.cc] for flow in case.flows if flow.cc in TCP_BESIDE), PROGRAM_TCP) if program else {}
    flows = [
        {
            "cc": flow.cc,
            "rtt": _ms(flow.base_rtt_ms),
            "start": _ms(flow.start_s * 1000 + shift_ms * (flow.number - 1)),
            "pacing": "on" if paced or flow.paced else "auto",
            "ecn": flow.ecn,
            **({"direction": "reverse"} if flow.reverse else {}),
            **({"bytes": f"{flow.transfer_bytes} B"} if flow.transfer_bytes else {}),
            **({"cc_params": RIG_PARAMS[flow.cc]} if flow.beside_program and flow.cc in RIG_PARAMS else {}),
        }
        for flow in case.flows
    ]
    longest_ms = max(flow.base_rtt_ms for flow in case.flows) + shift_ms * (len(flows) - 1)
    return {
        "name": case.name,
        "title": f"{case.name} of the reference",
        "duration": _ms(math.ceil(case.duration_s * 1000 + longest_ms)),
        "seed": seed,
        "interval": format_time(INTERVAL_NS),
        "run": {} if kernel is None else {"kernel": kernel},
        "tcp": {"tick": TICK} | tcp,
        "link": {
            "rate": format_rate(round(case.rate_bps * scale(case))),
            "overhead": OVERHEAD,
            "burst": BURST,
            "loss": case.loss,
            **_queue(case.qdisc),
            **_reverse(case),
        },
        "flows": flows,
        "changes": [
            {"at": _ms(when * 1000), "link": "bottleneck", "rate": format_rate(rate)} for when, rate in case.steps
        ],
    }


def over_quic(case: Case, told: Plain) -> Plain:
    """A case's scenario with its flows over QUIC, which paces every one and has no settings of TCP.

    Raises:
        Skipped: where QUIC's flows cannot do what the case's do.
    """
    flows = []
    for flow in told["flows"]:
        if registry.congestion_controls()[flow["cc"]].needs["ecn"] != "classic":
            raise Skipped(f"{flow['cc']} does not run over QUIC")
        if isinstance(flow["ecn"], str):
            raise Skipped(f'ecn = "{flow["ecn"]}" is not for QUIC')
        flows.append(flow | {"transport": "quic", "pacing": "auto"})
    if any(flow.beside_program for flow in case.flows):
        raise Skipped("its authors' program sends packets of its own, over neither TCP nor QUIC")
    if case.rate_bps > QUIC_MOST:
        raise Skipped(f"{format_rate(case.rate_bps)} take QUIC's endpoints hours of processor time")
    return {key: value for key, value in told.items() if key != "tcp"} | {"flows": flows}


def _ms(value: float) -> str:
    return format_time(round(value * 1e6))


def _reverse(case: Case) -> Plain:
    """The key of a link for its reverse direction."""
    if case.reverse_rate_bps is None:
        return {}
    return {"reverse": {"rate": format_rate(case.reverse_rate_bps), **_queue(case.reverse_qdisc)}}


def _queue(qdisc: str | None) -> Plain:
    """The keys of a link that describe the queue."""
    if qdisc is None:
        name, limit = UNNAMED
        return {"queue": name, "limit": limit}
    name, *options = qdisc.split(",")
    entry = registry.queues().get(name)
    if entry is None:
        raise Skipped(f"no queue discipline {name}")
    keys: Plain = {"queue": name}
    params: Plain = {"tick": TICK} if "tick" in entry.params else {}
    rest = iter(options)
    for option in rest:
        if option == "limit":
            unit = "B" if name == "bfifo" else "packets"
            keys["limit"] = f"{_value(name, option, next(rest, None))} {unit}"
        elif option not in entry.params and (name, option) in _NO_MATTER:
            continue
        else:
            params |= _param(entry, option, rest)
    return keys | {"queue_params": params}


def _value(name: str, option: str, value: str | None) -> str:
    if value is None:
        raise Skipped(f"{name}'s option {option} has no value")
    return value


def _param(entry: Entry, option: str, rest: Any) -> Plain:
    """An option of tc as the discipline's parameter of the same name; a switch may have ``no`` before it."""
    switch = entry.params.get(option.removeprefix("no"))
    if switch is not None and switch.kind == "bool":
        return {switch.name: option == switch.name}
    param = entry.params.get(option)
    if param is None:
        raise Skipped(f"no option {option} of the queue discipline {entry.name}")
    text = _value(entry.name, option, next(rest, None))
    try:
        value: Any = float(text) if param.kind == "ratio" else int(text) if param.kind == "count" else text
        if param.kind == "bytes" and text.isdigit():
            value = f"{text} B"
        param.parse(value)
    except (Refused, ValueError) as refused:
        raise Skipped(f"{entry.name}'s option {option} {text} is refused: {refused}") from None
    return {param.name: value}
