"""The scenarios that episodes are drawn from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from knee.errors import InputError
from knee.scenario import Flow, Scenario, from_dict, load
from knee.scenario.loading import tables as contents
from knee.scenario.spec import spec
from knee.scenario.units import shown
from knee.study.shipped import SWEEPS
from knee.study.sweeps import sweepfile

#: A sweep of networks to train on, and one of other networks to judge by.
TRAINING, HELD_OUT = (Path(__file__).parent / "networks" / f"{name}.toml" for name in ("training", "held-out"))
#: Most scenarios of an environment: they are all read before the first episode.
MOST = 10_000
#: The throughput that counts as a flow's fair share where no link of its path has a rate of its own, bit/s.
_FAIR_BPS = 10e6


@dataclass(frozen=True)
class Reward:
    """What a step is worth: a sum of its figures, each times its weight.

    Attributes:
        share: for throughput as a part of the flow's fair share of the slowest link of its path.
        mbps: for each Mbit/s of throughput.
        rtt_s: for each second of the mean RTT.
        queueing_s: for each second of the mean RTT beyond the flow's least RTT.
        loss: for the share of packets lost, 0 to 1.
    """

    share: float = 1.0
    mbps: float = 0.0
    rtt_s: float = 0.0
    queueing_s: float = -2.0
    loss: float = -2.0

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> Reward:
        """From weights by name; the others keep their defaults.

        Raises:
            InputError: there is no such weight, or it is no finite number.
        """
        known = [each.name for each in fields(cls)]
        for name, weight in weights.items():
            if name not in known:
                raise InputError(f"reward: there is no weight {shown(name)}; expected any of {', '.join(known)}.")
            number = isinstance(weight, int | float) and not isinstance(weight, bool)
            if not number or not abs(weight) < 1e12:
                raise InputError(f"reward: {name} is {weight!r}; expected a finite number.")
        return cls(**weights)

    def core(self, fair_bps: float) -> tuple[float, float, float, float]:
        """For each bit/s of throughput, second of RTT, second of queueing delay, and for the share lost."""
        throughput = self.share / fair_bps + self.mbps / 1e6
        return throughput, float(self.rtt_s), float(self.queueing_s), float(self.loss)


@dataclass(frozen=True)
class Task:
    """A scenario and the part of it that is steered.

    Attributes:
        scenario: the scenario.
        index: the number of the flow or link that is steered, from 0.
        fair_bps: the throughput that counts as all of it.
    """

    scenario: Scenario
    index: int
    fair_bps: float

    def core(self, reward: Reward) -> tuple[str, int, tuple[float, float, float, float]]:
        """The form that the core reads."""
        return json.dumps(spec(self.scenario)), self.index, reward.core(self.fair_bps)


def flows(
    scenario: str | Path | Mapping[str, Any], label: str | None = None, changes: Sequence[str] = ()
) -> list[Task]:
    """The scenarios of a sweep, or a scenario alone, with the flow that is steered.

    Args:
        scenario: a file, with or without ``[sweep]``; the name of a shipped scenario or sweep; or plain data.
        label: the label of the flow; by default the first.
        changes: changes to the scenario, as of ``--set``.

    Raises:
        InputError: a scenario, or the flow, was refused.
    """
    return [_flow(each, label) for each in _scenarios(scenario, changes)]


def queues(
    scenario: str | Path | Mapping[str, Any], name: str | None = None, changes: Sequence[str] = ()
) -> list[Task]:
    """The scenarios of a sweep, or a scenario alone, with the link whose queue is steered.

    Args:
        scenario: as of :func:`flows`.
        name: the name of the link; by default the first.
        changes: changes to the scenario, as of ``--set``.

    Raises:
        InputError: a scenario, or the link, was refused.
    """
    return [_queue(each, name) for each in _scenarios(scenario, changes)]


def _scenarios(source: str | Path | Mapping[str, Any], changes: Sequence[str]) -> list[Scenario]:
    swept = "sweep" in (source if isinstance(source, Mapping) else contents(SWEEPS.get(str(source), source))[0])
    if not swept:
        if isinstance(source, Mapping):
            return [from_dict(dict(source), overrides=changes)]
        return [load(source, overrides=changes)]
    definition = sweepfile.read(source, changes=changes)
    if len(definition) > MOST:
        raise InputError(f"{definition.where} has {len(definition):,} points; an environment takes {MOST:,}.")
    return [definition.scenario(point) for point in definition.points(range(1, len(definition) + 1))]


def _flow(scenario: Scenario, label: str | None) -> Task:
    labels = scenario.labels
    if label is not None and label not in labels:
        known = ", ".join(map(shown, labels[:20]))
        raise InputError(f"{scenario.name} has no flow {shown(label)}; expected one of {known}.")
    index = 0 if label is None else labels.index(label)
    flows: list[Flow] = [flow for flow in scenario.flows for _ in range(flow.count)]
    flow = flows[index]
    if flow.traffic is not None or flow.program is not None or flow.transport != "tcp":
        raise InputError(
            f"{scenario.name}: {labels[index]} cannot be steered, since it has traffic of its own or goes over "
            f"{flow.transport}; expected a flow over tcp without traffic or program."
        )
    links = {link.name: link for link in scenario.links}
    rates = {name: rate for name in flow.path or links if (rate := links[name].rate)}
    if not rates:
        return Task(scenario, index, _FAIR_BPS)
    slowest = min(rates, key=lambda name: rates[name])
    beside = [other for other in flows if other.traffic is None and slowest in (other.path or links)]
    return Task(scenario, index, rates[slowest] / len(beside))


def _queue(scenario: Scenario, name: str | None) -> Task:
    links = [link.name for link in scenario.links]
    if name is not None and name not in links:
        raise InputError(f"{scenario.name} has no link {shown(name)}; expected one of {', '.join(map(shown, links))}.")
    index = 0 if name is None else links.index(name)
    rate = scenario.links[index].rate
    if rate is None:
        raise InputError(
            f"{scenario.name}: the queue of {links[index]} cannot be steered, since the link's rate is recorded; "
            "expected a link with a rate."
        )
    return Task(scenario, index, float(rate))
