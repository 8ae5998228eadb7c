"""Runs a scenario on a ground: :func:`prepare` checks it, once, and :meth:`Prepared.run` runs it."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knee import _core, grounds
from knee.errors import InputError, PhysicsError, ProgramError, ScenarioError
from knee.grounds import memory, programs
from knee.grounds import qlog as logs
from knee.grounds.identity import content, digest
from knee.own import code_allowed
from knee.results import named
from knee.results.owned import writing
from knee.scenario import Scenario, from_dict, load, marks
from knee.scenario.overrides import blamed
from knee.scenario.remarks import remarks
from knee.system import extras, files, forked

if TYPE_CHECKING:
    from knee.results.result import Result

#: Held while the figures of a result are drawn.
_drawing = threading.Lock()

#: Impossible figures that an error names.
MOST_BREACHES = 10
#: The file of the packets in a result folder.
CAPTURE = "packets.pcapng"


def check_capture(scenario: Scenario, ground: str, out: str | Path | None, where: str | None = None) -> None:
    """Refuses to write packets where nobody can.

    Raises:
        InputError: the ground does not see packets, or there is no folder for them.
        ScenarioError: a flow runs over QUIC.
    """
    if any(flow.transport == "quic" for flow in scenario.flows):
        found = "packets of QUIC flows are not captured"
        raise ScenarioError(
            where or scenario.name, "flows", found, 'expected transport = "tcp", or no --pcap; see --qlog'
        )
    if out is None:
        raise InputError("Packets are written to a result folder; name one with out.")
    if not grounds.find(ground).captures:
        able = ", ".join(name for name, other in grounds.GROUNDS.items() if other.captures)
        raise InputError(f"The ground {ground} does not write packets; these do: {able}.")


@dataclass(frozen=True)
class Prepared:
    """A run that was checked: neither its scenario nor what else is asked of it will be refused.

    Attributes:
        scenario: what to run.
        ground: the name of the ground, which works here.
        out: the folder of the result; None for none.
        report: whether the folder gets the report.
        png: whether it gets the figures as PNG files.
        capture: whether it gets the packets.
        qlog: whether it gets the senders' logs.
        remarks: what to know before it starts: of much memory, and of large files.
    """

    scenario: Scenario
    ground: str
    out: Path | None = None
    report: bool = True
    png: bool = False
    capture: bool = False
    qlog: bool = False
    remarks: tuple[str, ...] = ()

    def run(
        self, progress: Callable[[float], None] | None = None, command: str | None = None, *, check: bool = False
    ) -> Result:
        """Runs it; arguments and errors are those of :func:`run`."""
        out, undrawn = self.out, None
        place = writing(out) if out is not None else tempfile.TemporaryDirectory(prefix="knee-")
        with place as name:
            folder = Path(name)
            log_folder = folder / logs.FOLDER if self.qlog else None
            if log_folder is not None:
                log_folder.mkdir()
            packets = folder / CAPTURE if self.capture else None
            # As all is now: a run may change what its classes use, and somebody else the files.
            given = named.of(self.scenario)
            known = content(self.scenario, self.ground) if out is not None else ""
            try:
                result = grounds.find(self.ground).run(self.scenario, folder, progress, command, packets, log_folder)
            except _core.WriteError as unwritten:
                target = out or folder
                raise files.unwritable(target, unwritten, f"{unwritten.filename} in {target}") from unwritten
            result = given.into(result, self.scenario)
            import polars as pl

            from knee.figures import collisions, starved

            series = {name: result.samples[name].to_numpy() for name in starved.COLUMNS}
            found = [
                *marks.warnings(self.scenario, result.summary),
                *starved.warnings(self.scenario, result.summary, series),
            ]
            at_links = result.events.filter((pl.col("event") == collisions.EVENT) & pl.col("link").is_not_null())
            found += collisions.warnings(result.summary, at_links.select("link", "flow", "value").iter_rows())
            _remark(result, [*remarks(self.scenario), *found])
            if out is not None:
                build = result.manifest.get("kernel_build")
                result.manifest["identity"] = digest(known, build)
                # Runs may be side by side, but matplotlib draws one figure at a time.
                with _drawing:
                    undrawn = result.write_into(folder, report=self.report, png=self.png)
        if undrawn is not None and out is not None:
            from knee.results.result import no_report

            raise no_report(undrawn, out)
        if check:
            check_physics(result, out)
        failed = failed_programs(result.summary, out)
        if failed:
            error = ProgramError(" ".join(failed))
            error.result = result
            raise error
        return result


def prepare(
    source: str | Path | Scenario | dict[str, Any],
    ground: str | None = None,
    out: str | Path | None = None,
    *,
    changes: Sequence[str] = (),
    where: str | None = None,
    report: bool = True,
    png: bool = False,
    capture: bool = False,
    qlog: bool = False,
    max_memory: int | str | None = None,
    allow_programs: bool = False,
    allow_code: bool = False,
) -> Prepared:
    """Checks a run, once, before anything starts.

    Args:
        source: as of :func:`run`, and so are all that follow.
        ground: where to run it.
        out: the folder of the result.
        changes: changes to the scenario.
        where: what errors call the scenario; by default its file, or its name.
        report: whether the folder gets the report.
        png: whether it gets the figures.
        capture: whether it gets the packets.
        qlog: whether it gets the senders' logs.
        max_memory: what the run may need.
        allow_programs: whether flows may be programs.
        allow_code: whether Python files of congestion controls may be run.

    Raises:
        InputError: the scenario, the ground, the folder or the need of memory was refused.
        RunError: the ground does not work here.
    """
    if where is None and isinstance(source, str | Path):
        where = str(source)
    with code_allowed(allow_code):
        scenario = _scenario(source, changes, where)
    if isinstance(source, str | Path):
        named.check(Path(source), scenario)
    name = ground or scenario.run.ground
    here = grounds.find(name)
    try:
        here.refuse(scenario, where)
    except ScenarioError as error:
        raise blamed(error, changes, lambda: here.refuse(_scenario(source, (), where), where)) from None
    programs.check_allowed(scenario, allow_programs, where)
    warned = [memory.check(scenario, where, report=report and out is not None, most=max_memory)]
    if capture:
        check_capture(scenario, name, out, where)
    if qlog:
        warned.append(logs.check(scenario, name, out, where))
    grounds.ready(name)
    if png:
        extras.need("A figure as PNG", "matplotlib")
    target = None if out is None else Path(out)
    return Prepared(scenario, name, target, report, png, capture, qlog, tuple(each for each in warned if each))


def _scenario(source: str | Path | Scenario | dict[str, Any], changes: Sequence[str], where: str | None) -> Scenario:
    if isinstance(source, str | Path):
        return load(source, changes)
    if isinstance(source, Scenario) and not changes:
        return source
    if isinstance(source, Scenario):
        return from_dict(source.plain(), where=where or source.name, overrides=changes)
    return from_dict(source, where=where or "scenario", overrides=changes)


def run(
    scenario: str | Path | Scenario | dict[str, Any],
    ground: str | None = None,
    out: str | Path | None = None,
    *,
    changes: Sequence[str] = (),
    report: bool = True,
    png: bool = False,
    progress: Callable[[float], None] | None = None,
    command: str | None = None,
    capture: bool = False,
    qlog: bool = False,
    check: bool = False,
    max_memory: int | str | None = None,
    allow_programs: bool = False,
    allow_code: bool = False,
) -> Result:
    """Runs a scenario and gives its result.

    Args:
        scenario: a file, the name of a shipped scenario, a scenario, or plain data as TOML gives it.
        ground: where to run it; by default what the scenario says, and else ``"sim"``.
        out: a folder to write the result to, whole or not at all.
        changes: changes to the scenario, as of ``--set``: ``["link.rate=5 Mbit/s"]``.
        report: whether that folder gets the report.
        png: whether it gets the figures as PNG files.
        progress: called some 20 times a second with the fraction of simulated time that has passed.
        command: the command line that asks for the run, for the manifest.
        capture: whether the folder also gets the packets at the senders, as :data:`CAPTURE`.
        qlog: whether it gets what senders do, as qlog files in :data:`knee.grounds.qlog.FOLDER`.
        check: whether the figures are held against what the links can physically carry (:mod:`knee.figures.physics`).
        max_memory: what the run may need, bytes or text such as ``"8 GB"``; by default what the machine has available.
            The need is estimated before the run starts.
        allow_programs: whether flows may be programs, which run on this machine.
        allow_code: whether Python files of congestion controls (``cc = "mine.py:Mine"``) may be run on this machine.

    Raises:
        InputError: the scenario, the ground, the folder or the need of memory was refused; nothing has been written.
        RunError: the ground does not work here, the run was accepted and then failed, or this process was forked from
            one that had run something.
        ProgramError: a flow's program failed; the result has been written, and the error has it.
        PhysicsError: with ``check``, a figure is impossible; the result has been written.

    An exception in a congestion control written in Python comes through as it is, with a note that names the flow.
    """
    forked.check()
    prepared = prepare(
        scenario,
        ground,
        out,
        changes=changes,
        report=report,
        png=png,
        capture=capture,
        qlog=qlog,
        max_memory=max_memory,
        allow_programs=allow_programs,
        allow_code=allow_code,
    )
    return prepared.run(progress, command, check=check)


def _remark(result: Result, remarks: list[str]) -> None:
    """Adds remarks to a result's summary, where the terminal and the report take them from, and to its manifest."""
    if remarks:
        result.summary["remarks"] = [*remarks, *result.summary.get("remarks", ())]
        result.manifest["remarks"] = remarks


def failed_programs(summary: Mapping[str, Any], folder: Path | None) -> list[str]:
    """What is to be said of programs that failed in a run that went on without them; empty where none did."""
    failed = list(summary.get("failed_programs", ()))
    where = "" if folder is None else f" in {folder}"
    return [*failed, f"The figures of all other flows are in the result{where}."] if failed else []


def check_physics(result: Result, folder: Path | None) -> None:
    """Refuses a result with impossible figures.

    Raises:
        PhysicsError: it has some; names each flow or link, the figure, its value and its bound.
    """
    from knee.figures import physics

    found = physics.breaches(result)
    if found:
        where = "" if folder is None else f" in {folder}"
        told = ". ".join(str(breach) for breach in found[:MOST_BREACHES])
        rest = len(found) - MOST_BREACHES
        more = f" And {rest} more." if rest > 0 else ""
        raise PhysicsError(f"The result of {result.summary['name']}{where} has impossible figures. {told}.{more}")
