"""Flows of applications on a real kernel: the tasks of their two ends, and what the ends put on record.

The program ``knee-endpoint`` (``crates/knee-endpoint``) is each end; ``src/task.rs`` and ``src/record.rs`` there have
what is here. Probes are flows, after those of the scenario.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from knee.errors import Refused, RunError
from knee.figures.rows import COMPLETION
from knee.own import kernel_name
from knee.scenario import offered, registry
from knee.scenario.model import Flow, Scenario
from knee.scenario.spec import span
from knee.scenario.traffic import NO_CC, Probe, sends_datagrams
from knee.system.text import JsonTable

Array = np.ndarray[Any, np.dtype[Any]]

#: Keys that probes have in common with flows.
_OF_PROBES = ("rtt", "start", "stop", "path", "direction", "ecn", "label")
#: The ECN field of datagrams (RFC 3168).
_ECT_1, _ECT_0 = 1, 2
#: Bytes of a datagram of UDP that are not its payload.
UDP_HEADERS = 28

DATAGRAM = np.dtype([("at_ns", "<u8"), ("number", "<u4"), ("bytes", "<u2"), ("ce", "<u2")])
PROGRESS = np.dtype([("at_ns", "<u8"), ("bytes", "<u8")])
_TABLES = {"completions": COMPLETION, "sent": DATAGRAM, "arrived": DATAGRAM, "progress": PROGRESS}


def program() -> Path:
    """The path at which ``make setup`` installs the program of the ends."""
    return Path(sys.prefix) / "bin" / "knee-endpoint"


def require(scenario: Scenario) -> None:
    """Checks that the program of the ends is there, if a scenario has applications or probes.

    Raises:
        RunError: it is not; says how to get it.
    """
    if any(flow.traffic is not None for flow, _ in flows(scenario)) and not program().is_file():
        found = f"The run of {scenario.name} failed: no program knee-endpoint"
        raise RunError(f"{found}; make setup installs it, or a wheel for Linux.")


def flows(scenario: Scenario) -> list[tuple[Flow, int]]:
    """All flows, each with its number within its group; probes last."""
    counted = [(flow, i) for flow in scenario.flows for i in range(flow.count)]
    return counted + [(_as_flow(probe), 0) for probe in scenario.probes]


def _as_flow(probe: Probe) -> Flow:
    fields: JsonTable = {key: getattr(probe, key) for key in _OF_PROBES}
    fields |= {
        "cc": NO_CC,
        "cc_params": {},
        "transport": "udp",
        "tls": False,
        "pacing": "auto",
        "count": 1,
        "stagger": 0,
    }
    return Flow.model_construct(**fields, bytes=None, program=None, traffic=probe)  # type: ignore[arg-type]


def window_ns(scenario: Scenario, number: int) -> tuple[int, int]:
    """From when to when the figures of a flow are taken, ns."""
    start, stop = span(scenario, *flows(scenario)[number])
    return start + scenario.warmup, stop


def pulls(flow: Flow) -> bool:
    """Whether the application sits where the flow's data goes to."""
    traffic = flow.traffic
    return traffic is not None and not isinstance(traffic, Probe) and registry.traffic()[traffic.kind].pulls


def uses_datagrams(flow: Flow) -> bool:
    """Whether a flow goes in datagrams."""
    return isinstance(flow.traffic, Probe) or sends_datagrams(flow.traffic)


def refuse(flow: Flow) -> None:
    """Refuses traffic that sockets do not carry.

    Raises:
        Refused: names the key, the kind and what would do.
    """
    assert flow.traffic is not None
    kind = flow.traffic.kind
    if not registry.traffic()[kind].sockets:
        carried = ", ".join(name for name, entry in registry.traffic().items() if entry.sockets)
        accepted = f'expected ground "sim", or one of {carried}'
        raise Refused(f"sockets do not carry traffic of kind {kind} yet", accepted, key="traffic.kind")


def tasks(scenario: Scenario, number: int, where: JsonTable) -> tuple[JsonTable, JsonTable]:
    """The tasks of the two ends of a flow: where its data comes from, and where it goes to.

    Args:
        scenario: the scenario.
        number: the index of the flow.
        where: ``control``, ``address`` and ``port`` of the server, and what else both are told.
    """
    flow, i = flows(scenario)[number]
    start, stop = span(scenario, flow, i)
    every = [(first + scenario.warmup, last) for first, last in (span(scenario, *other) for other in flows(scenario))]
    marks = {edge for edges in every for edge in edges if 0 < edge < scenario.duration}
    traffic = offered.probe_spec(flow.traffic) if isinstance(flow.traffic, Probe) else offered.spec(flow)
    both = {
        "flow": number,
        "traffic": traffic,
        "seed": scenario.seed,
        "cc": kernel_name(flow.cc),
        "ecn": _ECT_1 if flow.ecn == "l4s" else _ECT_0 if flow.ecn else 0,
        "start": start,
        "stop": stop,
        "duration": scenario.duration,
        "interval": scenario.interval,
        "marks": sorted(marks),
    } | where
    client, server = both | {"role": "client"}, both | {"role": "server"}
    return (server, client) if pulls(flow) else (client, server)


@dataclass(frozen=True)
class End:
    """What one end of a flow put on record.

    Attributes:
        completions: what the application completed.
        sent, arrived: datagrams.
        progress: payload of connections that had arrived, at the ends of intervals and at marks.
    """

    completions: Array
    sent: Array
    arrived: Array
    progress: Array


def read(given: bytes) -> End:
    """What an end gave: a line of JSON, and the rows that it counts.

    Raises:
        RunError: it is not whole.
    """
    line, _, raw = given.partition(b"\n")
    try:
        return end(json.loads(line), raw)
    except ValueError:
        raise RunError("The end of an application did not say what it saw.") from None


def end(counts: JsonTable, raw: bytes) -> End:
    """What an end gave: how many rows there are of each kind, and the rows.

    Raises:
        RunError: it is not whole.
    """
    try:
        at, parts = 0, {}
        for name, dtype in _TABLES.items():
            parts[name] = np.frombuffer(raw, dtype=dtype, count=counts[name], offset=at)
            at += dtype.itemsize * counts[name]
    except (ValueError, KeyError):
        raise RunError("The end of an application did not say what it saw.") from None
    return End(**parts)


@dataclass(frozen=True)
class Seen:
    """What both ends of a flow put on record: where its data comes from, and where it goes to."""

    flow: Flow
    source: End
    destination: End

    @property
    def client(self) -> End:
        """The end at which the application ran."""
        return self.destination if pulls(self.flow) else self.source

    def arrived_bytes(self, at_ns: Sequence[int] | Array) -> Array:
        """The payload of connections that had arrived at these times, of which each is an interval's end or a mark."""
        rows = self.destination.progress
        found = np.searchsorted(rows["at_ns"], np.asarray(at_ns, dtype=np.uint64), side="right")
        return np.append(np.uint64(0), rows["bytes"])[found].astype(np.int64)
