"""``knee.Simulation``: a run in the simulator that is stepped, watched, changed as it goes, and copied.

A simulation is a scenario, which has all that was applied to it, and an engine that has come to some moment of it. So
its result is that of the scenario, and any simulation can be made again: run the scenario up to that moment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack

from knee import _core
from knee.errors import InputError, Refused, RunError
from knee.grounds import memory, runner
from knee.grounds.ground import Compiled, time_now
from knee.grounds.sim import Raw, Sim, ccs_of, core, measured, own_with_values
from knee.own import LIMIT_S, Named, code_allowed, described, policy_of
from knee.results.manifest import fingerprint
from knee.scenario import Changes, Plain, Scenario, from_dict
from knee.scenario.keys import ChangeKeys, FlowKeys
from knee.scenario.spec import has_own_endpoints, span, spec
from knee.scenario.units import format_time, is_number, parse_time, shown
from knee.system import forked

if TYPE_CHECKING:
    import polars as pl

    from knee.results.result import Result

#: Time of the scenario as text with a unit, or seconds.
Time = str | int | float


class Observation(NamedTuple):
    """Samples between two looks.

    Attributes:
        samples: a row per flow and interval, with the columns of ``samples.parquet``.
        links: a row per link and interval, with the columns of ``links.parquet``.
    """

    samples: pl.DataFrame
    links: pl.DataFrame


class CloneCost(NamedTuple):
    """The cost of a clone.

    Attributes:
        how: ``"copy"``: the engine is copied as it is. ``"replay"``: the scenario is simulated again from its start.
        why: why it has to be replayed; None for a copy.
    """

    how: str
    why: str | None


class Simulation:
    """A run in the simulator, which goes on as far as it is told.

    Stepped, cloned, pickled and restored, it gives the bits of :func:`knee.run` with :meth:`scenario`.

    ::

        sim = knee.Simulation("hello")
        sim.run_until("5 s")
        sim.apply(link="bottleneck", rate="5 Mbit/s")
        other = sim.clone()
        result = sim.result()

    One thread at a time uses a simulation. The interpreter is free for others while it goes on, unless classes written
    in Python take part.
    """

    def __init__(
        self,
        scenario: str | Path | Scenario | Plain,
        *,
        set: Changes = (),  # noqa: A002 - as on the command line
        allow_code: bool = False,
        max_memory: int | str | None = None,
    ) -> None:
        """Prepares a scenario; nothing has happened yet.

        Args:
            scenario: a file, the name of a shipped scenario, a scenario, or plain data as TOML gives it.
            set: changes to the scenario: ``["link.rate=5 Mbit/s"]``.
            allow_code: whether Python files of congestion controls and queues may be run, as of :func:`knee.run`.
            max_memory: what the run may need, as of :func:`knee.run`.

        Raises:
            InputError: the scenario, or the memory that it needs, was refused.
        """
        forked.check()
        prepared = runner.prepare(scenario, "sim", set=set, allow_code=allow_code, max_memory=max_memory)
        self._begin(prepared.compiled)

    def _begin(self, compiled: Compiled, now: int | None = None) -> None:
        """Makes the engine of a scenario, and lets it come to a time, ns, if there is one."""
        self._compiled, scenario = compiled, compiled.scenario
        self._started = time_now()
        # As they are now: a run may change what its classes use.
        self._described = [described(name) for name in scenario.own]
        self._engine, self._wall_s = _engine(scenario, now)
        self._now = now or 0
        self._result: Result | None = None

    @property
    def _scenario(self) -> Scenario:
        return self._compiled.scenario

    @property
    def now(self) -> float:
        """The simulated time up to which all has happened, s."""
        return self._now / 1e9

    def run_until(self, time: Time) -> None:
        """Lets all happen up to a time, and what is due at that time too.

        Args:
            time: text with a unit, such as ``"10 s"``, or a number of seconds; at most the scenario's duration.

        Raises:
            InputError: the time is before now, or beyond the end.
            RunError: the run failed; an exception of a class written in Python comes through.
        """
        until = _time(time)
        if until < self._now:
            raise InputError(
                f"run_until({time!r}): it is {format_time(self._now)} already, and time does not go back; clone the "
                "simulation before you go on, or begin another."
            )
        if until > self._scenario.duration:
            raise InputError(f"run_until({time!r}): the scenario ends at {format_time(self._scenario.duration)}.")
        if self._result is not None:
            return
        self._go(until)

    def _go(self, until: int) -> None:
        begin = perf_counter()
        with core(self._scenario, self._scenario.own):
            self._engine.run_until(until)
        self._wall_s += perf_counter() - begin
        self._now = until

    def observe(self) -> Observation:
        """The samples of flows and links since the last call, or since the start.

        A row appears at the end of each interval of the scenario.

        Raises:
            RunError: the run has failed, or its result was taken.
        """
        from knee.figures import rows

        self._check_open("observe")
        with core(self._scenario, ()):
            names = self._engine.link_names
            samples, links = self._engine.rows(from_start=False)
        sampled = rows.from_bytes(samples, rows.SAMPLE)
        return Observation(
            rows.samples(sampled, self._scenario.labels, ccs_of(self._scenario)),
            rows.links(rows.from_bytes(links, rows.LINK), names),
        )

    def apply(self, **change: Unpack[ChangeKeys]) -> None:
        """Applies a change of ``[[changes]]``, such as ``link="bottleneck", rate="5 Mbit/s"``.

        It happens at the nanosecond after now, unless ``at`` says a later time; before the first step, at 0.

        Args:
            change: the keys of a table of ``[[changes]]``; ``at`` may be left out.

        Raises:
            ScenarioError: a key or value was refused; the simulation is as it was.
            InputError: the time has passed, or the flow has ended.
        """
        self._check_open("apply")
        at = self._at(change.pop("at", None), "apply")
        if isinstance(change.get("flow"), str):
            self._check_runs(change["flow"], "apply")
        data = self._scenario.plain()
        data.setdefault("changes", []).append({**change, "at": format_time(at)})
        self._amend(self._read(data, "apply"))

    def stop_flow(self, flow: str, at: Time | None = None) -> None:
        """Lets a flow send nothing new from a time on.

        Args:
            flow: its label.
            at: when; by default the nanosecond after now.

        Raises:
            InputError: there is no such flow, it has ended, or the time has passed.
        """
        self._check_open("stop_flow")
        stop = self._at(at, "stop_flow")
        self._check_runs(flow, "stop_flow")
        self._amend(self._read(_stopped(self._scenario, self._scenario.plain(), flow, stop), "stop_flow"))

    def add_flow(self, **flow: Unpack[FlowKeys]) -> None:
        """Adds a flow, which starts at the nanosecond after now unless ``start`` says later.

        The scenario with this flow is simulated again up to now.

        Args:
            flow: the keys of a table of ``[[flows]]``.

        Raises:
            ScenarioError: a key or value was refused; the simulation is as it was.
            InputError: the start has passed, or with this flow something else would have happened up to now.
        """
        self._check_open("add_flow")
        start = self._at(flow.pop("start", None), "add_flow")
        data = self._scenario.plain()
        data["flows"].append({**flow, "start": format_time(start)})
        compiled = self._read(data, "add_flow")
        scenario = compiled.scenario
        engine, wall_s = _engine(scenario, self._now if self._has_begun() else None)
        # Numbers of flows, and the state kept of each, depend on how many there are.
        if engine.rows(from_start=True) != self._engine.rows(from_start=True):
            raise InputError(
                "add_flow: with this flow, figures up to now would have been others; declare it in the scenario, with "
                "the time at which it starts."
            )
        engine.mark_seen(*self._engine.seen)
        self._engine, self._compiled, self._wall_s = engine, compiled, self._wall_s + wall_s
        self._described = [described(name) for name in scenario.own]

    def clone(self) -> Self:
        """Another simulation that goes on from here by itself.

        :meth:`clone_cost` says whether it is copied or replayed.

        Raises:
            RunError: the run has failed, or its result was taken.
        """
        self._check_open("clone")
        with core(self._scenario, ()):
            begun, seen = self._has_begun(), self._engine.seen
            copied = self._engine.copied() if self.clone_cost().how == "copy" else None
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        if copied is None:
            copied, _ = _engine(self._scenario, self._now if begun else None)
            copied.mark_seen(*seen)
        other._engine = copied
        return other

    def clone_cost(self) -> CloneCost:
        """Whether :meth:`clone` copies the engine or simulates the scenario again, and why."""
        flows = [flow for flow in self._scenario.flows for _ in range(flow.count)]
        for flow, label in zip(flows, self._scenario.labels, strict=True):
            if flow.transport == "quic" and not has_own_endpoints(self._scenario, flow):
                return CloneCost("replay", f"{label} goes over QUIC, and connections of its stack cannot be copied")
            if isinstance(flow.cc, Named) and policy_of(flow.cc) is None:
                return CloneCost("replay", f"{label} runs the Python class {flow.cc}, and its objects are not copied")
        for key, end in self._scenario.queueing:
            if isinstance(end.queue, Named):
                return CloneCost("replay", f"{key} has the Python class {end.queue}, and its objects are not copied")
        return CloneCost("copy", None)

    def scenario(self) -> Scenario:
        """A scenario that repeats all that was applied: ``knee run`` gives the same bits."""
        return self._scenario

    def result(self) -> Result:
        """Runs to the end and gives the result that :func:`knee.run` gives for :meth:`scenario`.

        Raises:
            RunError: the run failed; an exception of a class written in Python comes through.
        """
        if self._result is None:
            self._go(self._scenario.duration)
            with core(self._scenario, ()):
                figures, tables = self._engine.finish()
            raw = Raw(json.loads(figures), tables, ccs_of(self._scenario), self._wall_s)
            self._result = measured(self._scenario, raw, self._described).result(self._compiled, self._started)
        return self._result

    def __repr__(self) -> str:
        """Its scenario and how far it has come."""
        of = f"{format_time(self._now)} of {format_time(self._scenario.duration)}"
        return f"<knee.Simulation of {self._scenario.name}, {of}>"

    def __getstate__(self) -> dict[str, Any]:
        """The scenario and the time, from which it is restored."""
        self._check_open("pickle")
        with core(self._scenario, ()):
            begun, seen = self._has_begun(), self._engine.seen
        return {
            "program": fingerprint(),
            "scenario": self._scenario,
            "now": self._now if begun else None,
            "seen": seen,
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Simulates the scenario again up to the time.

        Raises:
            RunError: another version of knee pickled it, which might give other bits.
        """
        if state.get("program") != fingerprint():
            raise RunError(
                "The simulation was pickled by another version of knee, which may have come to another state; keep "
                "scenario() instead, and run it again."
            )
        self._begin(Sim().compile(state["scenario"]), state["now"])
        self._engine.mark_seen(*state["seen"])

    def _check_open(self, what: str) -> None:
        if self._result is not None:
            raise RunError(
                f"{what}: the simulation of {self._scenario.name} has ended, and its result was taken; clone it before "
                "result(), or begin another with scenario()."
            )

    # How changes become the scenario's.

    def _has_begun(self) -> bool:
        return self._engine.changeable_from() > 0

    def _at(self, at: Time | None, what: str) -> int:
        """When something that is applied happens, ns."""
        with core(self._scenario, ()):
            least = self._engine.changeable_from()
        if at is None:
            return least
        asked = _time(at)
        if asked < least:
            raise InputError(
                f"{what}: {format_time(asked)} has passed; it is {format_time(self._now)}, and a change happens after "
                "that."
            )
        return asked

    def _check_runs(self, label: str, what: str) -> None:
        labels = self._scenario.labels
        if label not in labels:
            raise InputError(
                f"{what}: there is no flow {shown(label)}; there are {', '.join(map(shown, labels[:20]))}."
            )
        if self._engine.has_ended(labels.index(label)):
            raise InputError(f"{what}: {label} has ended, and nothing of it changes any more.")

    def _read(self, data: Plain, what: str) -> Compiled:
        # Its classes ran before.
        with code_allowed(True):
            scenario = from_dict(data, where=f"{what} on {self._scenario.name}", name=self._scenario.name)
        return Sim().compile(scenario)

    def _amend(self, compiled: Compiled) -> None:
        scenario = compiled.scenario
        specification = spec(scenario)
        with core(scenario, ()):
            amended = self._engine.amend(json.dumps(specification))
        if not amended:
            # An ACK's delay that becomes 0 makes time pass event by event, from the start.
            seen = self._engine.seen
            self._engine, wall_s = _engine(scenario, self._now)
            self._engine.mark_seen(*seen)
            self._wall_s += wall_s
        self._compiled = compiled


def _time(given: Time) -> int:
    """A time, ns."""
    if isinstance(given, str):
        try:
            return parse_time(given)
        except Refused as refused:
            raise InputError(f"The time {shown(given)} was refused: {refused.found}; {refused.accepted}.") from None
    if not is_number(given) or not 0 <= given < 1e9:
        raise InputError(f'The time {given!r} was refused; expected text such as "10 s", or seconds from 0 to 1e9.')
    return round(float(given) * 1e9)


def _engine(scenario: Scenario, now: int | None) -> tuple[_core.Engine, float]:
    """The engine of a scenario that has come to a time, ns, or has not begun; and how long that took, s."""
    specification, begin = json.dumps(spec(scenario)), perf_counter()
    controls, queues = own_with_values(scenario)
    with core(scenario, scenario.own):
        engine = _core.Engine(specification, controls, queues, memory.own_in_flight(scenario), LIMIT_S)
        if now is not None:
            engine.run_until(now)
    return engine, perf_counter() - begin


def _stopped(scenario: Scenario, data: Plain, label: str, stop: int) -> Plain:
    """Plain data of a scenario in which the flow of this label stops at a time, ns; a group becomes single flows."""
    number, flows = scenario.labels.index(label), []
    for flow, table in zip(scenario.flows, data["flows"], strict=True):
        if not 0 <= number < flow.count:
            flows.append(table)
            number -= flow.count
            continue
        first = len([1 for each in flows for _ in range(each.get("count", 1))])
        for i in range(flow.count):
            single = {key: value for key, value in table.items() if key not in {"count", "stagger"}}
            single |= {"label": scenario.labels[first + i], "start": format_time(span(scenario, flow, i)[0])}
            if i == number:
                single = {key: value for key, value in single.items() if key != "lasts"} | {"stop": format_time(stop)}
            flows.append(single)
        number = -1
    return data | {"flows": flows}
