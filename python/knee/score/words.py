"""What was worst, in sentences for a person or the next prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from knee.score.definition import PARTS, Judged, parts_of

#: How many networks are told.
_MOST = 4
#: A part that is above this is no matter.
_GOOD = 0.9


def worst_text(done: Sequence[Judged]) -> str:
    """The weakest part, and the networks in which parts were worst, with what happened there."""
    parts = parts_of(done)
    weakest = min(parts, key=lambda part: parts[part])
    found = sorted((each.parts[part], PARTS.index(part), i) for i, each in enumerate(done) for part in each.parts)
    worst = [(done[i], PARTS[part]) for value, part, i in found if value < _GOOD][:_MOST]
    lines = [f"The weakest part is {weakest}, {parts[weakest]:.2f} of 1 in the mean over its networks."]
    lines += [f"{part} {each.parts[part]:.2f} in {each.network.name} ({each.network.told}): {_happened(each, part)}."
              for each, part in worst]  # fmt: skip
    return "\n".join(lines)


def _happened(each: Judged, part: str) -> str:
    """What a part comes from, in a sentence."""
    has: Mapping[str, float] = each.figures
    if part == "throughput":
        got, owed = has["goodput_mbps"], has["owed_mbps"]
        what = "half of the link carries" if "harm_to_goodput" in has else "the link carries"
        return f"it got {got:.2f} Mbit/s where {what} {owed:.2f}"
    if part == "delay":
        if math.isinf(has["rtt_p95_ms"]):
            return "a flow has no RTT: it sent nothing whose answer came back"
        return f"the 95th percentile of the RTT is {has['rtt_p95_ms']:.0f} ms on a path of {has['base_rtt_ms']:.0f} ms"
    if part == "loss":
        return f"{100 * has['loss']:.2f} % of its packets were lost"
    if part == "fairness":
        return f"Jain's index of its flows is {has['jain']:.2f}"
    goodput, delay = has["harm_to_goodput"], has["harm_to_delay"]
    if goodput >= delay:
        return f"the other flow lost {100 * goodput:.0f} % of its goodput, where a fair share costs 50 %"
    return f"the other flow's RTT grew {1 / max(1 - delay, 1e-3):.1f}-fold, where twofold is accepted"


def failure_text(failed: Mapping[str, Any]) -> str:
    """How a candidate failed, with the lines of its file."""
    where = f" in {failed['network']} ({failed['is']})" if "network" in failed else ""
    kinds = {
        "load": "The file gives no congestion control",
        "raised": "It raised an exception",
        "forbidden": "It tried what a candidate may not",
        "time": "It took too long",
        "ended": "Its process ended",
        "answer": "What it left in control is not accepted",
        "low": "It goes no further",
    }
    lines = "".join(f"\n  {line}" for line in failed.get("lines", ()))
    return f"{kinds.get(failed['kind'], 'The run failed')}{where}: {failed['said']}.{lines}"
