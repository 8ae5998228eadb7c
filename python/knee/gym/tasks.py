"""The scenarios that episodes are drawn from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from knee.errors import InputError
from knee.own import policy_of
from knee.scenario import Changes, Flow, Scenario, from_dict, load
from knee.scenario.loading import changes_of
from knee.scenario.loading import tables as contents
from knee.scenario.spec import spec
from knee.scenario.units import format_time, is_number, shown
from knee.study.shipped import SWEEPS
from knee.study.sweeps import sweepfile

#: A sweep of networks to train on, and one of other networks to judge by.
TRAINING, HELD_OUT = (Path(__file__).parent / "networks" / f"{name}.toml" for name in ("training", "held-out"))
#: Most scenarios of an environment: they are all read before the first episode.
MOST = 10_000
#: The throughput that counts as a flow's fair share where no link of its path has a rate of its own, bit/s.
_FAIR_BPS = 10e6


#: Whether a reward counts for each second of an interval, or for each interval, however long.
PER = ("second", "step")


class Weights:
    """Weights of a reward, by name. Its subclasses are dataclasses."""

    #: One of :data:`PER`.
    per: str = "step"

    @classmethod
    def of(cls, weights: Mapping[str, Any]) -> Self:
        """From weights by name; the others keep their defaults.

        Raises:
            InputError: there is no such weight, or it is no finite number.
        """
        known = [each.name for each in fields(cls)]  # type: ignore[arg-type]
        for name, weight in weights.items():
            if name not in known:
                raise InputError(f"reward: there is no weight {shown(name)}; expected any of {', '.join(known)}.")
            if name == "per":
                if weight not in PER:
                    raise InputError(f'reward: per is {weight!r}; expected "second" or "step".')
            elif not is_number(weight) or not abs(weight) < 1e12:
                raise InputError(f"reward: {name} is {weight!r}; expected a finite number.")
        return cls(**weights)

    def core(self, all_bps: float) -> tuple[float, float, float, float]:
        """The weights of the core's four figures; ``all_bps`` is the throughput that counts as all of it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Reward(Weights):
    """The worth of a step: a sum of its figures, each times its weight, times the interval's length in s.

    So an episode's return does not depend on how many intervals it has: a queue makes round trips longer, and fewer.

    Attributes:
        share: for throughput as a part of the flow's fair share of the slowest link of its path.
        mbps: for each Mbit/s of throughput.
        rtt_s: for each second of the mean RTT.
        queueing_s: for each second of the mean RTT beyond the flow's least RTT.
        loss: for the share of packets lost, 0 to 1.
        per: ``"second"``, or ``"step"`` for the sum as it is.
    """

    share: float = 1.0
    mbps: float = 0.0
    rtt_s: float = 0.0
    queueing_s: float = -2.0
    loss: float = -2.0
    per: str = "second"

    def core(self, all_bps: float) -> tuple[float, float, float, float]:
        """For each bit/s of throughput, second of RTT, second of queueing delay, and for the share lost."""
        throughput = self.share / all_bps + self.mbps / 1e6
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

    def core(self, reward: Weights) -> tuple[str, int, tuple[float, float, float, float]]:
        """The form that the core reads."""
        return json.dumps(spec(self.scenario)), self.index, reward.core(self.fair_bps)

    def changed(self, conditions: Sequence[tuple[int, float, float, float]], **keys: Any) -> Scenario:
        """The scenario with other conditions of its link from some times on, and other keys.

        Args:
            conditions: when, ns; rate, bit/s; delay that is added to the RTT, ns; loss probability.
            keys: other keys of the scenario.

        Raises:
            InputError: the scenario takes no such changes.
        """
        of = self.scenario
        name, data = of.links[self.index].name, of.plain() | keys
        flows = [flow for flow in of.flows for _ in range(flow.count)]
        each = zip(of.labels, flows, strict=True)
        rtts = {label: flow.rtt for label, flow in each if flow.path is None or name in flow.path}
        for at, rate, delay, loss in conditions:
            when = {"at": format_time(at)}
            link = when | {"link": name, "rate": f"{rate:.0f} bit/s", "loss": loss}
            rest = [when | {"flow": label, "rtt": format_time(rtt + int(delay))} for label, rtt in rtts.items()]
            data["changes"] += [link, *rest]
        return self.read(data)

    def read(self, data: dict[str, Any]) -> Scenario:
        """The scenario with other data."""
        return from_dict(data, where=self.scenario.name, name=self.scenario.name)


def in_intervals(task: Task, interval: int) -> Task:
    """The task in whole intervals, ns: the scenario lasts some of them, and its time series have them.

    Raises:
        InputError: the conditions of its link cannot be steered, or it is over before the first interval.
    """
    of = task.scenario
    if [name for name in of.own if policy_of(name) is None]:
        raise InputError(f"{of.name}: environments run no classes of Python's; expected algorithms of knee list cc.")
    if of.probes:
        raise InputError(f"{of.name}: the RTT of probes does not change with the link's delay; leave [[probes]] out.")
    duration = of.duration // interval * interval
    if not duration:
        raise InputError(
            f"{of.name} is over before the first interval of {format_time(interval)}; expected a shorter interval."
        )
    told = {"interval": format_time(interval), "duration": format_time(duration)}
    made = replace(task, scenario=task.read(of.plain() | told))
    # A scenario that takes no such changes is refused now, not at the first episode.
    made.changed([(1, task.fair_bps, 0, 0.0)])
    return made


def scenarios(source: str | Path | Mapping[str, Any], changes: Changes = ()) -> list[Scenario]:
    """The scenarios of a sweep, or a scenario alone.

    Args:
        source: a file, with or without ``[sweep]``; the name of a shipped scenario or sweep; or plain data.
        changes: changes to the scenario, as of ``--set``.

    Raises:
        InputError: a scenario was refused, or there are too many.
    """
    changes = changes_of(changes)
    swept = "sweep" in (source if isinstance(source, Mapping) else contents(SWEEPS.get(str(source), source))[0])
    if not swept:
        if isinstance(source, Mapping):
            return [from_dict(dict(source), overrides=changes)]
        return [load(source, overrides=changes)]
    definition = sweepfile.read(source, changes=changes)
    if len(definition) > MOST:
        raise InputError(f"{definition.where} has {len(definition):,} points; an environment takes {MOST:,}.")
    return [definition.scenario(point) for point in definition.points(definition.all_runs)]


def flow_of(scenario: Scenario, label: str | None = None) -> Task:
    """A scenario and the flow of a label, by default the first, to steer.

    Raises:
        InputError: there is no such flow, or it cannot be steered.
    """
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


def link_of(scenario: Scenario, name: str | None = None) -> Task:
    """A scenario and the link of a name, by default the first, whose queue or conditions are steered.

    Raises:
        InputError: there is no such link, or it has no rate of its own.
    """
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
