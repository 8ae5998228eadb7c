"""The score of a congestion control: what it is, and why so.

A score is between 0 and 1, more is better. It has five parts, each between 0 and 1, each the mean over the networks
that it applies to. They ask what ``knee evaluate`` asks by the criteria of RFC 9743, as amounts instead of verdicts: a
search has to see that a change was for the better before a threshold is crossed.

throughput
    Goodput divided by the payload that the link carries; beside another flow, by half of that; at most 1. Beside
    another it is owed no more than half (RFC 9743, 5.2).
delay
    Base RTT divided by the 95th percentile of the RTT. With throughput it is Kleinrock's power (ICC 1979).
loss
    1 / (1 + loss / 2 %). 2 % is what BBRv3 takes for excessive; half of the part is left there. There is no cliff, so
    that less loss always counts.
fairness
    Jain's index of its flows, stretched so that 0 is one flow with all (RFC 9743, 5.1.4). The index itself is 1/n
    there.
harm
    1 up to a harm of half to a deployed flow, from there falling to 0, where nothing is left of that flow. Harm is the
    larger one of those to goodput and to delay (Ware et al., HotNets 2019): no more of it than by a flow of the
    victim's own kind, which takes half (RFC 9743, 5.2.1).

The score is their geometric mean, in which throughput counts twice. A product punishes what a sum forgives: an
algorithm that fills the link and starves all others is no half-good one. Throughput is what a flow is for, and the
other four are what it costs. Were all alike, a window that is ten packets for ever, which harms nobody and leaves 60 %
of the links idle, had nearly the score of CUBIC (0.79 and 0.81); so it has 0.71 and 0.83. That was the reason, and not
who comes first. A part below 1 % counts as 1 %, so that a search sees differences in the other four.

Random loss is no fault of a sender's, so *loss* leaves out those networks. Delay beside a flow that fills the buffer
is that flow's, so *delay* and *loss* leave out networks with others.

A score is a sample: other networks would give another one. Its standard error is a jackknife's, which leaves out one
network of a kind at a time. Two algorithms are compared on the same networks, by the jackknife of their difference, in
which the networks' own differences cancel; a difference below two standard errors is a tie.

A candidate that fails a stage goes no further. Its score is below :data:`FAILED`, and the more it did the higher: so a
search can climb from what does not run to what does, and whatever ran to its end is above.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knee.figures import metrics
from knee.figures.forms import Summary
from knee.score.networks import Network, mean_rate_mbps

#: The parts, in the order in which they are shown.
PARTS = ("throughput", "delay", "loss", "fairness", "harm")
#: The part of a packet on the wire that is payload: 1448 of 1514 bytes.
_PAYLOAD = 1448 / 1514
#: How often a part counts, where that is not once.
_WEIGHT = {"throughput": 2}
#: Least value of a part in the score.
_FLOOR = 0.01
#: Loss of which half of the part is left (BBRLossThresh, draft-ietf-ccwg-bbr).
_LOSS = 0.02
#: Standard errors beyond which two scores differ.
_DECIDED = 2
#: Harm that is an equal share's.
_FAIR = 0.5
#: What the score so far has to be for the next stage. A sender of one packet per round trip has 0.39.
GATES = (0.4, 0.5)
#: The scores of candidates that fail a stage are below this.
FAILED = 0.1


@dataclass(frozen=True)
class Judged:
    """A network with its parts.

    Attributes:
        network: the network.
        parts: those that apply to it.
        figures: what they come from, for people.
    """

    network: Network
    parts: dict[str, float]
    figures: dict[str, float]


def judged(network: Network, summary: Summary, without: Summary | None) -> Judged:
    """The parts of a run, of which ``without`` is the same without the candidate, where others are in it."""
    mine = [flow for flow in summary["flows"] if flow["label"].startswith("x")]
    others = [flow for flow in summary["flows"] if flow["label"] == "other"]
    goodputs = [float(flow["goodput_mbps"] or 0.0) for flow in mine]
    carries = mean_rate_mbps(network.data) * _PAYLOAD
    owed = carries / 2 if others else carries
    figures = {"goodput_mbps": sum(goodputs), "owed_mbps": owed}
    parts = {"throughput": min(sum(goodputs) / owed, 1.0)}
    if not others:
        stretch = [flow["base_rtt_ms"] / flow["rtt_p95_ms"] if flow["rtt_p95_ms"] else 0.0 for flow in mine]
        parts["delay"] = min(sum(stretch) / len(stretch), 1.0)
        waits = [flow["rtt_p95_ms"] or math.inf for flow in mine]
        figures |= {"rtt_p95_ms": max(waits), "base_rtt_ms": mine[0]["base_rtt_ms"]}
        if network.kind != "lossy":
            lost = metrics.loss(mine) or 0.0
            parts["loss"] = 1 / (1 + lost / _LOSS)
            figures["loss"] = lost
    if len(mine) > 1:
        square = sum(each * each for each in goodputs)
        jain = sum(goodputs) ** 2 / (len(mine) * square) if square else 0.0
        parts["fairness"] = max((len(mine) * jain - 1) / (len(mine) - 1), 0.0)
        figures["jain"] = jain
    if others:
        assert without is not None
        alone, beside = without["flows"][0], others[0]
        harms = [1 - (beside["goodput_mbps"] or 0.0) / alone["goodput_mbps"]]
        harms += [1 - alone["rtt_p95_ms"] / beside["rtt_p95_ms"] if beside["rtt_p95_ms"] else 1.0]
        harm = max(0.0, *harms)
        parts["harm"] = 1 - max(0.0, harm - _FAIR) / (1 - _FAIR)
        figures |= {"harm_to_goodput": harms[0], "harm_to_delay": harms[1]}
    return Judged(network, parts, figures)


def parts_of(done: Sequence[Judged]) -> dict[str, float]:
    """The parts over some networks; one that applies to none is absent."""
    values = {part: [each.parts[part] for each in done if part in each.parts] for part in PARTS}
    return {part: sum(found) / len(found) for part, found in values.items() if found}


def score_of(parts: Mapping[str, float]) -> float:
    """The score of parts; 0 of none."""
    if not parts:
        return 0.0
    weights = {part: _WEIGHT.get(part, 1) for part in parts}
    logarithms = sum(weights[part] * math.log(max(value, _FLOOR)) for part, value in parts.items())
    return math.exp(logarithms / sum(weights.values()))


def standard_error(done: Sequence[Judged], other: Sequence[Judged] | None = None) -> float | None:
    """The standard error of a score, or of the difference to another one on the same networks.

    Returns:
        The jackknife over the networks of each kind (Shao and Tu, 1995, 6.2); None where a kind has a single network.
    """

    def value(left_out: int) -> float:
        return sum(
            sign * score_of(parts_of([*some[:left_out], *some[left_out + 1 :]]))
            for sign, some in ((1, done), (-1, other or ()))
        )

    kinds: dict[str, list[float]] = {}
    for i, each in enumerate(done):
        kinds.setdefault(each.network.kind, []).append(value(i))
    if any(len(values) < 2 for values in kinds.values()) or not kinds:
        return None
    variance = 0.0
    for values in kinds.values():
        mean = sum(values) / len(values)
        variance += (len(values) - 1) / len(values) * sum((each - mean) ** 2 for each in values)
    return math.sqrt(variance)


@dataclass(frozen=True)
class Compared:
    """Two scores on the same networks.

    Attributes:
        difference: the first less the second.
        standard_error: of that.
        verdict: ``"better"`` or ``"worse"`` beyond two standard errors, else ``"tie"``.
    """

    difference: float
    standard_error: float
    verdict: str


def compared(one: Sequence[Judged], other: Sequence[Judged]) -> Compared | None:
    """How one algorithm compares to another; None where they did not run in the same networks, or in too few."""
    if [each.network for each in one] != [each.network for each in other]:
        return None
    error = standard_error(one, other)
    if error is None:
        return None
    difference = score_of(parts_of(one)) - score_of(parts_of(other))
    decided = "better" if difference > 0 else "worse"
    return Compared(difference, error, decided if abs(difference) > _DECIDED * error else "tie")


def failed_score(done: Sequence[Judged], networks: int) -> float:
    """The score of a candidate that ran only some of its networks."""
    return FAILED * (len(done) + score_of(parts_of(done))) / (networks + 1)
