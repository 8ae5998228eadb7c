"""Runs networks in the simulator and on another ground, and judges where their figures differ.

A network is first run once on each ground. One with random loss, and one whose figures differ, is run several times on
both: with other seeds, and with each flow's start moved by some packets' time on the link. Then the means over these
runs are compared, and a difference that is no greater than twice its standard error counts as chance. A network that
still differs, by less than eight standard errors, is judged anew by three times as many further runs, and by these
alone: of two or more figures, one in ten is two standard errors off where nothing differs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

from knee.errors import InputError, Refused, ScenarioError
from knee.results.result import Result
from knee.scenario import Plain, Scenario, from_dict
from knee.scenario.loading import apply
from knee.scenario.units import format_time
from knee.study import batch
from knee.study.engine import part_of
from knee.study.fidelity.networks.draw import PACKET
from knee.study.requests import RUNS
from knee.system.text import JsonTable

#: How near figures have to be: goodput in parts of the link's rate, the mean RTT and the median completion in parts of
#: the other ground's.
BOUNDS = {"goodput": 0.02, "rtt": 0.03, "completion": 0.05}
#: Shorter times are as far apart as those of this length would be, ms.
_LEAST_MS = 1.0
#: A difference up to this many of its standard errors is chance.
ERRORS = 2.0
#: A difference above `_CERTAIN` of its standard errors needs no further runs; others get `_FURTHER` times as many.
_CERTAIN, _FURTHER = 8.0, 3
#: The seed of each further run is so much greater, beyond those of other networks.
_NEXT_SEED = 1_000_003
#: The parts of the work that are done after the first runs and after those that show chance, as progress shows them.
_FIRST, _SECOND = 0.5, 0.75

Figure = Literal["goodput", "rtt", "completion"]
Progress = Callable[[float], None] | None


@dataclass(frozen=True)
class Flow:
    """Figures of a flow in one run: Mbit/s, ms, and packets; None where there was nothing to measure."""

    goodput: float
    rtt: float | None
    completion: float | None
    lost: int | None


@dataclass(frozen=True)
class Run:
    """Figures of one run: its flows', the mean queueing delay in ms, and the drops."""

    flows: tuple[Flow, ...]
    queue: float | None
    drops: int | None


@dataclass(frozen=True)
class Difference:
    """A figure of a flow on both grounds.

    Attributes:
        figure: which one.
        flow: the flow's number, from 1.
        sim: the figure of each run of the simulator, Mbit/s or ms; 0 where there was nothing to measure.
        other: the same of the other ground.
        bound: by how much the means may differ.
    """

    figure: Figure
    flow: int
    sim: tuple[float, ...]
    other: tuple[float, ...]
    bound: float

    @property
    def apart(self) -> float:
        """The simulator's mean less the other ground's."""
        return statistics.fmean(self.sim) - statistics.fmean(self.other)

    @property
    def error(self) -> float:
        """The standard error of `apart`; 0 of single runs."""
        return math.sqrt(sum(statistics.variance(own) / len(own) for own in (self.sim, self.other) if len(own) > 1))

    @property
    def size(self) -> float:
        """How many times the bound the means differ by."""
        return abs(self.apart) / self.bound

    @property
    def holds(self) -> bool:
        """Whether the means are within the bound, or no farther apart than chance explains."""
        return abs(self.apart) <= max(self.bound, ERRORS * self.error)

    @property
    def certain(self) -> bool:
        """Whether the means are farther apart than more runs would explain."""
        return not self.holds and abs(self.apart) > _CERTAIN * self.error

    @property
    def sensitive(self) -> bool:
        """Whether the figure moves by the bound on one ground alone."""
        return any(max(own) - min(own) >= self.bound for own in (self.sim, self.other))


@dataclass(frozen=True)
class Network:
    """A network that was run on both grounds.

    Attributes:
        number: from 1, in the order in which they were drawn.
        data: the plain data of its scenario.
        scenario: the same, resolved.
        sim: its runs in the simulator.
        other: those on the other ground.
    """

    number: int
    data: Plain
    scenario: Scenario = field(repr=False)
    sim: tuple[Run, ...]
    other: tuple[Run, ...]

    @cached_property
    def differences(self) -> list[Difference]:
        """All figures of all flows."""
        rate = (self.scenario.links[0].rate or 0) / 1e6
        found = []
        for i in range(len(self.sim[0].flows)):
            for name, bound in BOUNDS.items():
                sim, other = (
                    tuple(getattr(run.flows[i], name) or 0.0 for run in runs) for runs in (self.sim, self.other)
                )
                if any(sim) or any(other):
                    scale = rate if name == "goodput" else max(statistics.fmean(other), _LEAST_MS)
                    found.append(Difference(cast(Figure, name), i + 1, sim, other, bound * scale))
        return found

    @property
    def worst(self) -> Difference:
        """The figure that differs most, those that do not hold first."""
        return max(self.differences, key=lambda each: (not each.holds, each.size))

    @property
    def agrees(self) -> bool:
        """Whether all figures hold."""
        return all(each.holds for each in self.differences)

    @property
    def sensitive(self) -> bool:
        """Whether a start, a seed or a lost packet moves a figure by its bound on one ground alone."""
        return any(each.sensitive for each in self.differences)

    def names(self, key: str) -> list[str]:
        """The groups that the network counts in, by :data:`KEYS`."""
        return KEYS[key](self.scenario)


def _traffic(scenario: Scenario) -> list[str]:
    kinds = (
        flow.traffic.kind if flow.traffic is not None else "bulk" if flow.bytes is None else "one transfer"
        for flow in scenario.flows
    )
    return list(dict.fromkeys(kinds))


#: What networks are counted by: a name of each, and the names under which a network counts.
KEYS: dict[str, Callable[[Scenario], list[str]]] = {
    "queue": lambda scenario: [scenario.links[0].queue],
    "cc": lambda scenario: list(dict.fromkeys(flow.cc for flow in scenario.flows)),
    "traffic": _traffic,
    "flows": lambda scenario: [str(sum(flow.count for flow in scenario.flows))],
    "loss": lambda scenario: [_loss(scenario)],
    "one flow": lambda scenario: [_loss(scenario)] if sum(flow.count for flow in scenario.flows) == 1 else [],
}


def _loss(scenario: Scenario) -> str:
    return "random loss" if lossy(scenario) else "no random loss"


def lossy(scenario: Scenario) -> bool:
    """Whether packets are lost at random."""
    return any(link.loss for link in scenario.links) or any(change.loss for change in scenario.changes)


@dataclass(frozen=True)
class Report:
    """Networks on both grounds.

    Attributes:
        ground: the ground beside the simulator.
        networks: those that were run, in the order of their numbers.
        skipped: the numbers of those that a ground refuses, each with why.
        failed: the same of those of which a run failed.
    """

    ground: str
    networks: Sequence[Network]
    skipped: Sequence[tuple[int, str]]
    failed: Sequence[tuple[int, str]]

    @property
    def agree(self) -> int:
        """How many agree."""
        return sum(network.agrees for network in self.networks)

    @property
    def by_size(self) -> list[Network]:
        """The networks that differ, the greatest difference first."""
        return sorted((each for each in self.networks if not each.agrees), key=lambda each: -each.worst.size)

    def counts(self, key: str) -> dict[str, tuple[int, int]]:
        """By name, how many networks agree and how many there are."""
        names = sorted({name for network in self.networks for name in network.names(key)})
        return {name: _count([each for each in self.networks if name in each.names(key)]) for name in names}

    def plain(self) -> JsonTable:
        """The report as plain data, for JSON."""
        return {
            "ground": self.ground,
            "networks": [plain(network) for network in self.networks],
            "skipped": [{"number": number, "why": why} for number, why in self.skipped],
            "failed": [{"number": number, "why": why} for number, why in self.failed],
            "agree": self.agree,
            "counts": {
                key: {name: {"agree": agree, "networks": all_} for name, (agree, all_) in self.counts(key).items()}
                for key in KEYS
            },
        }


#: The shares of networks that are wanted to agree: of one flow without random loss and with it, and of each queue and
#: algorithm of which there are some.
WANTED, WANTED_LOSSY, WANTED_EACH = 0.95, 0.9, 0.8
_SOME = 5


def below(report: Report) -> list[str]:
    """The goals that are not reached, in words; empty where all are."""
    wanted = [("one flow", "no random loss", WANTED), ("one flow", "random loss", WANTED_LOSSY)]
    wanted += [(key, name, WANTED_EACH) for key in ("queue", "cc") for name in report.counts(key)]
    found = []
    for key, name, share in wanted:
        agree, all_ = report.counts(key).get(name, (0, 0))
        if agree < share * all_ and (key == "one flow" or all_ >= _SOME):
            found.append(f"{'one flow, ' * (key == 'one flow')}{name}: {agree} of {all_} agree, not {share:.0%}")
    return found


def _count(networks: Sequence[Network]) -> tuple[int, int]:
    return sum(network.agrees for network in networks), len(networks)


def plain(network: Network) -> JsonTable:
    """A network as plain data, for JSON."""
    return {
        "number": network.number,
        "scenario": network.data,
        "agrees": network.agrees,
        "sensitive": network.sensitive,
        "runs": len(network.sim),
        "size": network.worst.size,
        "figures": [
            {
                "figure": each.figure,
                "flow": each.flow,
                "sim": statistics.fmean(each.sim),
                "other": statistics.fmean(each.other),
                "standard_error": each.error,
                "bound": each.bound,
                "holds": each.holds,
            }
            for each in network.differences
        ],
        "drops": {"sim": _drops(network.sim), "other": _drops(network.other)},
    }


def _drops(runs: Sequence[Run]) -> float | None:
    known = [run.drops for run in runs if run.drops is not None]
    return statistics.fmean(known) if known else None


def compare(
    networks: Sequence[Plain],
    ground: str = "uml",
    *,
    changes: Sequence[str] = (),
    runs: int = RUNS,
    jobs: int | None = None,
    progress: Progress = None,
) -> Report:
    """Runs networks on both grounds and compares them.

    Args:
        networks: plain data of scenarios.
        ground: the ground beside the simulator.
        changes: changes to each, such as ``link.queue=codel``.
        runs: how often those are run in which chance has a part, 2 or more.
        jobs: how many runs at once; default: one per core, and one on a ground in real time.
        progress: called now and then with the fraction of the work that is done.

    Raises:
        InputError: the changes suit no network.
        RunError: the ground does not work here.
    """
    return _Comparison(ground, runs, jobs).of(networks, changes, progress)


@dataclass
class _Comparison:
    """The runs of networks by number and ground, and why others have none."""

    ground: str
    runs: int
    jobs: int | None
    measured: dict[tuple[int, str], list[Run]] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    def of(self, networks: Sequence[Plain], changes: Sequence[str], progress: Progress) -> Report:
        data = dict(enumerate(networks, 1))
        scenarios = dict(self._resolved(data, changes))
        first = [
            (number, variant)
            for number, scenario in scenarios.items()
            for variant in range(self.runs if lossy(scenario) else 1)
        ]
        self._run(scenarios, data, first, part_of(progress, 0.0, _FIRST))
        compared = {each.number: each for each in self._networks(scenarios, data)}
        again = [
            (number, variant)
            for number, each in compared.items()
            if not each.agrees and len(each.sim) == 1
            for variant in range(1, self.runs)
        ]
        self._run(scenarios, data, again, part_of(progress, _FIRST, _SECOND))
        unsure = [
            each.number
            for each in self._networks(scenarios, data)
            if not each.agrees and not any(difference.certain for difference in each.differences)
        ]
        for number in unsure:
            del self.measured[number, "sim"], self.measured[number, "other"]
        further = range(self.runs, self.runs * (1 + _FURTHER))
        self._run(scenarios, data, [(number, i) for number in unsure for i in further], part_of(progress, _SECOND, 1.0))
        reports = (sorted(each.items()) for each in (self.skipped, self.failed))
        return Report(self.ground, list(self._networks(scenarios, data)), *reports)

    def _resolved(self, data: dict[int, Plain], changes: Sequence[str]) -> Iterator[tuple[int, Scenario]]:
        """Changes the data, and gives the scenarios of those that can be read; the first's error where none can."""
        errors = []
        for number, each in data.items():
            try:
                data[number] = _changed(each, changes, f"network {number}")
                yield number, from_dict(data[number], where=f"network {number}")
            except InputError as error:
                errors.append(error)
                self.skipped[number] = str(error)
        if errors and len(errors) == len(data):
            raise errors[0]

    def _run(
        self, scenarios: dict[int, Scenario], data: dict[int, Plain], wanted: list[tuple[int, int]], progress: Progress
    ) -> None:
        """Runs variants of networks on both grounds; the runs of one stay in order."""
        asked: list[batch.Job] = []
        of_job: dict[str, tuple[int, str]] = {}
        for number, variant in wanted:
            if number in self.skipped or number in self.failed:
                continue
            scenario = from_dict(moved(data[number], scenarios[number], variant), where=f"network {number}")
            for ground in ("sim", self.ground):
                job = batch.Job(f"{number}/{variant}/{ground}/{len(asked)}", scenario, ground)
                asked.append(job)
                of_job[job.name] = number, ground

        def refused(job: batch.Job, error: InputError) -> None:
            number, ground = of_job[job.name]
            self.skipped.setdefault(number, f"{ground}: {error}")

        def failed(job: batch.Job, error: Exception) -> None:
            number, ground = of_job[job.name]
            self.failed.setdefault(number, f"{ground}: {error}")

        measured = batch.results(asked, measure, workers=self.jobs, progress=progress, refused=refused, failed=failed)
        for i, (job, run) in enumerate(zip(asked, measured, strict=True)):
            if run is not None:
                number, ground = of_job[job.name]
                # The simulator may be compared with itself.
                side = "sim" if i % 2 == 0 else "other"
                self.measured.setdefault((number, side), []).append(run)

    def _networks(self, scenarios: dict[int, Scenario], data: dict[int, Plain]) -> Iterator[Network]:
        for number, scenario in scenarios.items():
            if number not in self.skipped and number not in self.failed:
                sim, other = (tuple(self.measured[number, side]) for side in ("sim", "other"))
                yield Network(number, data[number], scenario, sim, other)


def _changed(data: Plain, changes: Sequence[str], where: str) -> Plain:
    try:
        return apply(data, changes)
    except Refused as refused:
        raise ScenarioError(where, refused.key, refused.found, refused.accepted) from None


def moved(data: Plain, scenario: Scenario, variant: int) -> Plain:
    """A variant of a network: 0 is itself; further ones have another seed, and later starts, each flow's by more.

    The start moves by whole packets' times on the link, that of the last flow by at most a tenth of the run.
    """
    if not variant:
        return data
    packet = PACKET * 8 * 10**9 // (scenario.links[0].rate or 1)
    flows = []
    for i, flow in enumerate(data["flows"]):
        late = min(variant * (i + 1) * packet, scenario.duration // 10)
        flows.append(flow | {"start": format_time(scenario.flows[i].start + late)})
    return data | {"seed": scenario.seed + variant * _NEXT_SEED, "flows": flows}


def measure(_: Any, result: Result) -> Run:
    """The figures of a run."""
    link = result.summary["links"][0]
    end = result.summary["duration_s"]
    flows = tuple(
        Flow(flow["goodput_mbps"] or 0.0, flow["rtt_mean_ms"], completion_ms(flow, end), flow["lost_packets"])
        for flow in result.summary["flows"]
    )
    return Run(flows, link["queue_delay_mean_ms"], link["drops"])


def completion_ms(flow: Any, end_s: float) -> float | None:
    """The median time of a flow's messages; of one transfer its time, which is at least what was left for it."""
    for kind in ("transfers", "pages", "requests"):
        if flow.get(kind):
            return cast(float | None, flow[kind]["time_p50_ms"])
    if flow.get("bytes") is None:
        return None
    seconds = flow["completion_s"]
    return float(end_s - flow["start_s"] if seconds is None else seconds) * 1000
