"""qlog files of a run: who gets them, and how large they become.

Each flow's sender has one, ``qlog/flow-N.sqlog``, as JSON text sequences (draft-ietf-quic-qlog-main-schema-05).
"""

from __future__ import annotations

from pathlib import Path

from knee import grounds
from knee.errors import InputError, ScenarioError
from knee.grounds import memory
from knee.scenario import Scenario, registry
from knee.scenario.spec import span

#: The folder of the files in a result folder.
FOLDER = "qlog"
#: Most flows: each has an open file.
MAX_FLOWS = 500
#: Bytes that a full packet takes in the file of its flow, with its ACK and the metrics that change: measured over TCP
#: and QUIC (docs/qlog.md).
PACKET_BYTES = 700
#: Files larger than this are worth a warning, bytes.
LARGE = 1_000_000_000
_PACKET = 1500


def check(scenario: Scenario, ground: str, out: str | Path | None, where: str | None = None) -> str | None:
    """Refuses qlog files that cannot be written.

    Returns:
        A warning if the files become large.

    Raises:
        InputError: there is no folder for them.
        ScenarioError: the ground cannot log any of the flows, a stack cannot log its own, or there are too many.
    """
    if out is None:
        raise InputError("qlog files are written to a result folder; name one with out.")
    name = where or scenario.where
    logged = grounds.find(ground).logs
    if not any(flow.transport in logged for flow in scenario.flows):
        able = [other for other, it in grounds.GROUNDS.items() if {flow.transport for flow in scenario.flows} & it.logs]
        if not able:
            found = "--qlog logs senders of TCP and QUIC, and all flows are of others"
            raise ScenarioError(name, "flows", found, "expected a flow with a congestion control, or no --qlog")
        found = f"--qlog cannot log these senders on ground {ground}, where they are a kernel's"
        raise ScenarioError(name, "flows", found, f"expected ground {' or '.join(able)}, or no --qlog")
    for i, flow in enumerate(scenario.flows):
        if (stack := registry.stack(flow.cc)) is not None:
            found = f"--qlog does not log connections of {stack}, which writes qlog in a form of its own"
            raise ScenarioError(name, f"flows[{i}].cc", found, "expected another congestion control, or no --qlog")
    count = sum(flow.count for flow in scenario.flows if flow.transport in logged)
    if count > MAX_FLOWS:
        found = f"--qlog opens a file for each of {count} flows"
        raise ScenarioError(name, "flows", found, f"expected at most {MAX_FLOWS} flows, or no --qlog")
    size = estimate(scenario, logged)
    if size < LARGE:
        return None
    return f"The qlog files of {name} may take {memory.shown(size)}; a shorter run or a lower rate takes less."


def estimate(scenario: Scenario, logged: frozenset[str]) -> int:
    """The most that the files of a run can take, bytes: all links full, or all transfers done."""
    links: dict[tuple[str, str], int] = {}
    transfers = 0
    for flow in (flow for flow in scenario.flows if flow.transport in logged):
        name, rate = scenario.slowest(flow)
        links[name, flow.direction] = rate
        for start, stop in (span(scenario, flow, i) for i in range(flow.count)):
            endless = rate * max(0, stop - start) // 8_000_000_000
            transfers += endless if flow.bytes is None else min(endless, flow.bytes)
    full = sum(links.values()) * scenario.duration // 8_000_000_000
    return min(full, transfers) // _PACKET * PACKET_BYTES
