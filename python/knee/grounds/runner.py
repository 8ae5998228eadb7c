"""Runs a scenario on a ground: :func:`prepare` checks it, once, and :meth:`Prepared.run` runs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from knee import _core, grounds
from knee.errors import InputError, PhysicsError, ProgramError, ScenarioError
from knee.figures.forms import Summary
from knee.grounds import memory, programs
from knee.grounds import qlog as logs
from knee.grounds.ground import Compiled, Request
from knee.own import code_allowed, policy_of
from knee.results import named
from knee.results.folder import check_target
from knee.results.manifest import digest
from knee.results.owned import writing
from knee.scenario import Plain, Scenario, from_dict, load
from knee.scenario.loading import blamed
from knee.scenario.requests import Options, RunOptions, check_names
from knee.scenario.units import shown
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
            where or scenario.where, "flows", found, 'expected transport = "tcp", or no --pcap; see --qlog'
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
        compiled: what to run, and the name of the ground, which works here.
        out: the folder of the result; None for none.
        options: what else is asked.
        remarks: what to know before it starts: of much memory, and of large files.
    """

    compiled: Compiled
    out: Path | None
    options: RunOptions
    remarks: tuple[str, ...] = ()

    @property
    def scenario(self) -> Scenario:
        """The scenario, with the run's seed."""
        return self.compiled.scenario

    @property
    def ground(self) -> str:
        """The name of the ground."""
        return self.compiled.ground

    def placed(self, seed: int, out: Path | None) -> Prepared:
        """The same run with a seed, into a folder.

        Raises:
            FolderError: something is there that a result does not replace.
        """
        if out is not None:
            check_target(out)
        return replace(self, compiled=self.compiled.seeded(seed), out=out)

    def run(self, progress: Callable[[float], None] | None = None) -> Result:
        """Runs it; errors are those of :func:`run`."""
        result = self.complete(progress)
        self.approve(result)
        return result

    def approve(self, result: Result) -> None:
        """Raises what is to be said of its result.

        Raises:
            PhysicsError: with ``check``, a figure is impossible.
            ProgramError: a flow's program failed.
        """
        impossible = self.impossible(result)
        if impossible is not None:
            raise impossible
        failed = failed_programs(result.summary, self.out)
        if failed:
            error = ProgramError(" ".join(failed))
            error.result = result
            raise error

    def impossible(self, result: Result) -> PhysicsError | None:
        """With ``check``, the error for a result with impossible figures, which names them; None where none is.

        Where classes of users took part, also that for figures that another run does not give.
        """
        if not self.options.check:
            return None
        from knee.figures import physics

        found = physics.breaches(result)
        if not found:
            differs = self.unrepeated(result.summary)
            return None if differs is None else PhysicsError(differs)
        where = "" if self.out is None else f" in {self.out}"
        said = ". ".join(str(breach) for breach in found[:MOST_BREACHES])
        rest = len(found) - MOST_BREACHES
        more = f" And {rest} more." if rest > 0 else ""
        return PhysicsError(f"The result of {result.summary['name']}{where} has impossible figures. {said}.{more}")

    def unrepeated(self, summary: Summary) -> str | None:
        """Runs it once more if classes of users take part, and says whether its figures differ; None if not."""
        from knee.figures.same import unrepeated

        if self.ground != "sim" or all(policy_of(name) is not None for name in self.scenario.own):
            return None
        once = replace(self.options, check=False, report=False, png=False, pcap=False, qlog=False)
        return unrepeated(summary, replace(self, out=None, options=once).complete().summary)

    def complete(self, progress: Callable[[float], None] | None = None) -> Result:
        """Runs it and writes its folder, whatever :meth:`approve` will say of the result."""
        out, options, undrawn = self.out, self.options, None
        with nullcontext() if out is None else writing(out) as folder:
            log_folder = folder / logs.FOLDER if folder and options.qlog else None
            if log_folder is not None:
                log_folder.mkdir()
            packets = folder / CAPTURE if folder and options.pcap else None
            # Before the run, which may change what its classes use.
            known = "" if out is None else self.compiled.content
            request = Request(folder, progress, packets, log_folder)
            try:
                result = grounds.find(self.ground).run(self.compiled, request, options.command)
            except _core.WriteError as unwritten:
                assert out is not None, "only a folder is written to"
                raise files.unwritable(out, unwritten, f"{unwritten.filename} in {out}") from unwritten
            if result.summary["remarks"]:
                result.manifest["remarks"] = result.summary["remarks"]
            if folder is not None:
                build = result.manifest.get("kernel_build")
                result.manifest["identity"] = digest(known, build)
                # Runs may be side by side, but matplotlib draws one figure at a time.
                with _drawing:
                    undrawn = result.write_into(folder, report=options.report, png=options.png)
        if undrawn is not None and out is not None:
            from knee.results.result import no_report

            raise no_report(undrawn, out)
        return result


def prepare(
    source: str | Path | Scenario | Plain,
    ground: str | None = None,
    out: str | Path | None = None,
    *,
    where: str | None = None,
    **asked: Unpack[Options],
) -> Prepared:
    """Checks a run and compiles it, once, before anything starts.

    Args:
        source: as of :func:`run`.
        ground: where to run it.
        out: the folder of the result.
        where: what errors call the scenario; by default its file, or its name.
        asked: the fields of :class:`~knee.grounds.runner.RunOptions`.

    Raises:
        InputError: the scenario, the ground, the folder or the need of memory was refused.
        RunError: the ground does not work here.
        TypeError: no option has this name.
    """
    check_names("run", asked, Options, {"seed": 'expected set=["seed=3"], or seeds=[3] for a list of results'})
    options = RunOptions(**asked)
    changes = options.changes
    if where is None and isinstance(source, str | Path | Scenario):
        where = source.where if isinstance(source, Scenario) else str(source)
    with code_allowed(options.allow_code):
        scenario = _scenario(source, changes, where)
    if isinstance(source, str | Path):
        named.check(Path(source), scenario)
    name = ground or scenario.run.ground
    here = grounds.find(name)
    try:
        compiled = here.compile(scenario, where)
    except ScenarioError as error:
        raise blamed(error, changes, lambda: here.refuse(_scenario(source, (), where), where)) from None
    if options.kernel is not None and name != "uml":
        raise InputError(f"--kernel chooses a kernel of the ground uml, and this run is on {name}.")
    if options.threads is not None and name != "sim":
        raise InputError(f"--threads is for runs of the simulator, and this run is on {name}.")
    programs.check_allowed(scenario, options.allow_programs, where)
    drawn = options.report and out is not None
    warned = [memory.check(scenario, where, report=drawn, most=options.max_memory)]
    if options.pcap:
        check_capture(scenario, name, out, where)
    if options.qlog:
        warned.append(logs.check(scenario, name, out, where))
    grounds.ready(name)
    if options.png:
        extras.need("A figure as PNG", "matplotlib")
    return Prepared(compiled, None if out is None else Path(out), options, tuple(each for each in warned if each))


def _scenario(source: str | Path | Scenario | Plain, changes: Sequence[str], where: str | None) -> Scenario:
    if isinstance(source, str | Path):
        return load(source, changes)
    if isinstance(source, Scenario) and not changes:
        return source
    if isinstance(source, Scenario):
        return from_dict(source.plain(), where=where or source.where, overrides=changes)
    if not isinstance(source, dict):
        raise InputError(
            f"The scenario {shown(source)} has the type {type(source).__name__}; expected a file, the name of a "
            "shipped scenario, a scenario, or a dict."
        )
    return from_dict(source, where=where or "scenario", overrides=changes)


def run(
    scenario: str | Path | Scenario | Plain,
    ground: str | None = None,
    out: str | Path | None = None,
    *,
    progress: Callable[[float], None] | None = None,
    **asked: Unpack[Options],
) -> Result:
    """Runs a scenario and gives its result, as :func:`knee.run` does."""
    forked.check()
    return prepare(scenario, ground, out, **asked).run(progress)


def failed_programs(summary: Summary, folder: Path | None) -> list[str]:
    """What is to be said of programs that failed in a run that went on without them; empty where none did."""
    failed = list(summary.get("failed_programs", ()))
    where = "" if folder is None else f" in {folder}"
    return [*failed, f"The figures of all other flows are in the result{where}."] if failed else []
