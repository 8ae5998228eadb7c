"""Networks and differences in words."""

from __future__ import annotations

import statistics

from knee.scenario import Plain
from knee.study.fidelity.networks.compare import Difference, Network

_UNITS = {"goodput": "Mbit/s", "rtt": "ms", "completion": "ms"}


def network(data: Plain) -> str:
    """A network in a line: its flows, and its link."""
    link = data.get("link", {})
    parts = [", ".join(_flow(flow) for flow in data.get("flows", ()))]
    parts.append(
        " ".join(str(part) for part in (link.get("rate"), link.get("queue", "pfifo"), link.get("limit")) if part)
    )
    if link.get("loss"):
        parts.append(f"loss {100 * link['loss']:.3g} %")
    parts += [f"{change['rate']} at {change['at']}" for change in data.get("changes", ()) if "rate" in change]
    return "; ".join(parts)


def _flow(flow: Plain) -> str:
    words = [str(flow.get("cc", "flow")), str(flow.get("rtt", ""))]
    traffic = flow.get("traffic")
    if traffic is not None:
        given = [str(traffic[key]) for key in ("burst", "period", "size", "rate", "per_second") if key in traffic]
        words.append(f"{traffic['kind']} {' '.join(given)}".strip())
    if flow.get("bytes"):
        words.append(str(flow["bytes"]))
    words += [f"from {flow['start']}"] if flow.get("start", "0 s") != "0 s" else []
    return " ".join([*words, *(["ECN"] if flow.get("ecn") else [])])


def difference(of: Network, each: Difference, ground: str) -> str:
    """A difference in words: the figure, both values, and how large it is."""
    which = f" of flow {each.flow}" if len(of.sim[0].flows) > 1 else ""
    sim, other = statistics.fmean(each.sim), statistics.fmean(each.other)
    runs = f", means of {len(of.sim)} runs" if len(of.sim) > 1 else ""
    name = "RTT" if each.figure == "rtt" else each.figure
    return f"{name}{which} {sim:.4g} {_UNITS[each.figure]} on sim, {other:.4g} on {ground}{runs}"
