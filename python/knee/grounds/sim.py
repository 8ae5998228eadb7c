"""The ground ``sim``: the packet simulator."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knee import _core
from knee.errors import KneeError, RunError, ScenarioError, blame, locate
from knee.figures.forms import Output
from knee.grounds import memory
from knee.grounds.ground import Ground, Measured, Progress, Request
from knee.own import IN_FILE, LIMIT_S, CongestionControl, Named, Queue, described, policy_of, where
from knee.scenario import Scenario, from_dict
from knee.scenario.declared import name_with, with_values
from knee.scenario.spec import span, spec
from knee.scenario.traffic import NO_CC
from knee.system import abilities
from knee.system.contained import contained

if TYPE_CHECKING:
    import numpy as np

#: Name of the file to which sample rows are written during the run.
_SPOOL = ".samples"


class Sim(Ground):
    """The packet simulator."""

    name = "sim"
    about = "the packet simulator; needs no privileges"
    captures = True
    logs = frozenset({"tcp", "quic"})

    def trial(self) -> str:
        """Simulates a tenth of a second of one flow."""
        flow = {"cc": "reno", "rtt": "10 ms"}
        specification = spec(from_dict({"duration": "100 ms", "link": {"rate": "10 Mbit/s"}, "flows": [flow]}))
        packets = json.loads(_core.simulate(json.dumps(specification))[0])["packets"]
        if not packets:
            raise RunError("The core delivers no packets; rebuild it with make setup.")
        return f"core {_core.version()} simulates ({packets} packets in a trial); needs no privileges"

    def refuse(self, scenario: Scenario, where: str | None = None) -> None:
        """Rejects what the simulator cannot do."""
        spec(scenario, where)

    def measure(self, scenario: Scenario, request: Request) -> Measured:
        """Simulates a scenario."""
        # Without a folder, and where a mapped file cannot be removed, rows stay in memory.
        spool = request.folder / _SPOOL if request.folder and abilities.REMOVES_OPEN_FILES else None
        # As they are now: a run may change what its classes use.
        own = [described(name) for name in scenario.own]
        raw = simulate(scenario, request.progress, spool=spool, capture=request.capture, qlog=request.qlog)
        return measured(scenario, raw, own, spool)


def measured(scenario: Scenario, raw: Raw, own: Sequence[dict[str, Any]] = (), spool: Path | None = None) -> Measured:
    """What a simulation measured.

    Args:
        scenario: what was simulated.
        raw: what the core gave for it.
        own: its classes as they were before it ran (:func:`knee.own.described`).
        spool: the file that sample rows were written to, which is removed.
    """
    # Slow to import, and a rejected scenario needs none of it.
    from knee.figures import rows
    from knee.figures.summary import SERIES

    samples = rows.from_bytes(raw.tables["samples"], rows.SAMPLE, spool)
    if spool is not None:
        spool.unlink(missing_ok=True)
    policies = [each for each in own if policy_of(each["name"]) is not None]
    kinds = {"python_classes": [each for each in own if each not in policies], "policies": policies}
    links, events = rows.from_bytes(raw.tables["links"], rows.LINK), rows.from_bytes(raw.tables["events"], rows.EVENT)
    return Measured(
        scenario,
        raw.output,
        raw.wall_s,
        rows.Tables.of(
            scenario,
            raw.tables,
            raw.link_names,
            samples=partial(rows.samples, samples, scenario.labels, raw.ccs),
            links=partial(rows.links, links, raw.link_names),
            events=partial(rows.events, events, raw.link_names, raw.output["event_names"], len(raw.ccs)),
        ),
        rows.series(samples, len(raw.ccs), SERIES),
        about={key: raw.output[key] for key in ("event_by_event", "threads")}
        | {kind: each for kind, each in kinds.items() if each},
        also={"remarks": remarks(scenario, raw)},
    )


@dataclass(frozen=True)
class Raw:
    """What the core gives for a scenario.

    Attributes:
        output: the figures, in the form of ``crates/knee-net/src/output.rs``.
        tables: rows as memory by their kind, for :func:`knee.figures.rows.from_bytes`.
        ccs: the congestion control of every flow; none of applications, whose connections have no common state.
        wall_s: how long the simulation took.
    """

    output: Output
    tables: dict[str, bytes]
    ccs: list[str]
    wall_s: float

    @property
    def link_names(self) -> list[str]:
        """The names of the links, reverse directions last."""
        return [link["link"] for link in self.output["links"]]

    def happened(self, event: str) -> np.ndarray[Any, Any]:
        """The rows of the events of this name."""
        from knee.figures import rows

        # Only events that happened have a name.
        names = self.output["event_names"]
        events = rows.from_bytes(self.tables["events"], rows.EVENT)
        return events[events["event"] == names.index(event)] if event in names else events[:0]


def ccs_of(scenario: Scenario) -> list[str]:
    """The congestion control of every flow; ``none`` of applications, whose connections have no common state."""
    return [flow.cc if flow.traffic is None else NO_CC for flow in scenario.flows for _ in range(flow.count)]


def simulate(
    scenario: Scenario,
    progress: Progress | None = None,
    *,
    spool: Path | None = None,
    capture: Path | None = None,
    qlog: Path | None = None,
) -> Raw:
    """Simulates a scenario, with the interpreter free for other threads.

    Args:
        scenario: the scenario.
        progress: called with the fraction of simulated time that has passed; what it raises cancels the run.
        spool: a file for sample rows; by default they stay in memory.
        capture: a file for the packets at the senders.
        qlog: an existing folder for the senders' qlog files.

    Raises:
        ScenarioError: the core refused it.
        RunError: the core failed, or a class left or broke what ran it; another exception of a class comes through,
            with a note that names the flow and the class.
        OSError: one of the files cannot be written.
    """
    specification = json.dumps(spec(scenario))
    controls, queues = own_with_values(scenario)
    begin = time.perf_counter()
    with core(scenario, scenario.own):
        figures, tables = _core.simulate(
            specification,
            None if spool is None else str(spool),
            progress,
            controls,
            None if capture is None else str(capture),
            None if qlog is None else str(qlog),
            memory.own_in_flight(scenario),
            scenario.run.threads or 1,
            LIMIT_S,
            queues,
        )
    wall_s = time.perf_counter() - begin
    return Raw(json.loads(figures), tables, ccs_of(scenario), wall_s)


@contextmanager
def core(scenario: Scenario, own: Sequence[object]) -> Iterator[None]:
    """Lets the core work at a scenario, whose classes are ``own``, within the block; its errors become ours.

    Raises:
        ScenarioError: the core refused it.
        RunError: the core failed, or a class left or broke what ran it; another exception of a class comes through,
            with a note that names the flow and the class.
    """
    try:
        with contained() if own else nullcontext():
            yield
    except _core.SpecError as error:
        raise ScenarioError(scenario.where, "", "the simulator refused it", str(error).rstrip(".")) from error
    except _core.EngineError as error:
        raise RunError(f"The run of {scenario.name} failed: {error}.") from error
    except BaseException as error:
        locate(error, where.of_error(error))
        # Some mean something else to whoever calls.
        blamed = blame(error)
        if blamed is not None and (not isinstance(error, Exception) or isinstance(error, KneeError | BrokenPipeError)):
            raise RunError(f"The run of {scenario.name} failed: {blamed}.") from error
        raise


#: Controllers whose figures differ from run to run.
RANDOM = {
    "quinn:bbr": "quinn's BBR draws random numbers from the system: another run of this scenario gives other figures.",
    "noq:bbr3": "noq's BBRv3 draws random numbers from the system: another run of this scenario gives other figures.",
}


#: The event of a flow over QUIC of which an end has closed its connection after an idle timeout.
IDLE_TIMEOUT = "idle_timeout"
#: At most this many connections that were closed are named.
_MAX_NAMED = 5


def remarks(scenario: Scenario, raw: Raw) -> list[str]:
    """Remarks on connections that were closed, and on what the scenario alone does not reproduce.

    That is Python classes, and controllers that draw lots.
    """
    random = [RANDOM[name] for name in sorted({flow.cc for flow in scenario.flows} & set(RANDOM))]
    own = [described(name) for name in scenario.own if policy_of(name) is None]
    return [*_closed(scenario, raw), *_own_remarks(own), *random]


def _closed(scenario: Scenario, raw: Raw) -> list[str]:
    """A sentence on the flows whose connections an idle timeout has closed while they had something to send."""
    happened = raw.happened(IDLE_TIMEOUT)
    if not len(happened):
        return []
    stops = [span(scenario, flow, k)[1] / 1e9 for flow in scenario.flows for k in range(flow.count)]
    closed: dict[int, float] = {}
    for row in happened:
        flow, at = int(row["flow"]), float(row["t_s"])
        if at < stops[flow] and raw.output["flows"][flow]["completion_s"] is None:
            closed.setdefault(flow, at)
    if not closed:
        return []
    named = [f'that of "{scenario.labels[flow]}" at {at:.1f} s' for flow, at in closed.items()][:_MAX_NAMED]
    more = f", and {len(closed) - _MAX_NAMED} more" if len(closed) > _MAX_NAMED else ""
    return [f"The idle timeout closed connections for good: {', '.join(named)}{more}."]


def _own_remarks(own: Sequence[dict[str, Any]]) -> list[str]:
    remarks = []
    kept = [one for one in own if IN_FILE.fullmatch(one["name"])]
    if kept:
        named = " and ".join(sorted({one["name"].rpartition(":")[0] for one in kept}))
        remarks.append(f"Classes of {named} ran, kept beside scenario.toml; --allow-code runs them again.")
    own = [one for one in own if one not in kept]
    if not own:
        return remarks
    classes = []
    for one in own:
        where = f"{one['module']}, {one['file']}" if one["file"] else str(one["module"])
        digest = f", SHA-256 of its source {one['source_sha256'][:16]}" if one["source_sha256"] else ", source unknown"
        classes.append(f"{one['class']} ({where}{digest})")
    plural = "es" if len(own) > 1 else ""
    said = f"The Python class{plural} {', '.join(classes)} ran; scenario.toml does not reproduce this result without "
    return [*remarks, said + ("them." if plural else "it.")]


def own_with_values(
    scenario: Scenario,
) -> tuple[list[tuple[str, type[CongestionControl]]], list[tuple[str, type[Queue]]]]:
    """The congestion controls and the queues in Python as the core takes them: once for each set of parameters."""
    controls: dict[str, type[CongestionControl]] = {}
    queues: dict[str, type[Queue]] = {}
    for flow in scenario.flows:
        if isinstance(flow.cc, Named) and issubclass(flow.cc.of, CongestionControl) and policy_of(flow.cc) is None:
            controls[name_with(flow.cc, flow.cc_params)] = with_values(flow.cc.of, flow.cc_params)
    for _, end in scenario.queueing:
        if isinstance(end.queue, Named) and issubclass(end.queue.of, Queue):
            queues[name_with(end.queue, end.queue_params)] = with_values(end.queue.of, end.queue_params)
    return [*controls.items()], [*queues.items()]
