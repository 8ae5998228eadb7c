"""The ground ``uml``: a real Linux kernel as an ordinary process, in virtual time."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from knee.errors import RunError
from knee.grounds import applications, programs
from knee.grounds.ground import Ground, Measured, Request
from knee.grounds.uml import capture, confine, figures, process, refuse
from knee.grounds.uml.probe import Rows
from knee.grounds.uml.topology import Topology, program_process
from knee.grounds.uml.words import Words
from knee.kernel import cache, modules, tools
from knee.kernel.build import HZ, renew
from knee.kernel.given import built
from knee.own import KernelSource, described, kernel_name, kernel_source, named_in
from knee.scenario import Scenario, from_dict
from knee.scenario.units import format_time
from knee.system.missing import Missing, linux
from knee.system.text import JsonTable

#: The folder within that of a run that is the guest's root.
_ROOT = ".guest"


class Uml(Ground):
    """A real Linux kernel in virtual time."""

    name = "uml"
    about = "a real Linux kernel in virtual time; needs no privileges"
    captures = True

    def missing(self) -> Sequence[Missing]:
        """The tools that build, where there is no kernel yet; and the kernel."""
        if other := linux():
            return other
        if not tools.suits():
            # Of another processor the launcher's filter would kill every kernel, whoever built it.
            return tools.missing()
        try:
            built = cache.built()
        except RunError as refused:
            what, _, mend = str(refused).rstrip(".").rpartition("; ")
            return [Missing(what, mend)]
        if built:
            # Modules that are older than their sources are built again by the next run.
            return () if all(lab.sources == cache.sources_digest() for lab in built) else tools.missing()
        return [*tools.missing(), Missing("no kernel is built yet", "knee linux build, which takes a few minutes once")]

    def trial(self) -> str:
        """Boots it and lets one flow run for a tenth of a second."""
        lab = next(lab for hz in (HZ, *refuse.TICKS.values()) if (lab := cache.current(hz)) is not None)
        tick = next(tick for tick, hz in refuse.TICKS.items() if hz == lab.hz)
        flow = {"cc": "reno", "rtt": "10 ms"}
        tiny = {
            "duration": "100 ms",
            "tcp": {"tick": format_time(tick)},
            "link": {"rate": "10 Mbit/s"},
            "flows": [flow],
        }
        packets = self.measure(from_dict(tiny), Request()).output["packets"]
        if not packets:
            raise RunError("The kernel delivers no packets; knee linux build rebuilds it.")
        others = dict.fromkeys(other.release for other in cache.built() if other.number != lab.number)
        beside = f"; also built: {', '.join(others)}" if others else ""
        return f"Linux {lab.release} runs ({packets} packets in a trial){beside}; needs no privileges"

    def refuse(self, scenario: Scenario, where: str | None = None) -> None:
        """Refuses what a kernel in virtual time cannot do."""
        refuse.check(scenario, where)

    def build(self, scenario: Scenario) -> str | None:
        """The key of the kernel and modules; empty where they are not built, or older than their sources."""
        lab = cache.current(refuse.TICKS[scenario.tcp.tick], scenario.run.kernel)
        return lab.key if lab is not None and lab.sources == cache.sources_digest() else ""

    def measure(self, scenario: Scenario, request: Request) -> Measured:
        """Runs a scenario in a guest of its own."""
        if request.folder is None:
            with TemporaryDirectory(prefix="knee-") as folder:
                return self.measure(scenario, replace(request, folder=Path(folder)))
        hz = refuse.TICKS[scenario.tcp.tick]
        lab = cache.current(hz, scenario.run.kernel)
        if lab is None:
            raise RunError(_no_kernel(scenario))
        if lab.sources != cache.sources_digest():
            lab = renew(lab)
        topology = Topology(scenario, capture=request.capture is not None)
        applications.require(scenario)
        ran: JsonTable = {"kernel": lab.release, "kernel_build": lab.key}
        ran |= {"programs": _programs(topology)} if topology.programs else {}
        given = {flow.cc: source for flow in scenario.flows if (source := kernel_source(flow.cc)) is not None}
        if given:
            ran["kernel_sources"] = [described(name) for name in named_in(list(given))]
        root = request.folder / _ROOT
        root.mkdir()
        try:
            begin = time.perf_counter()
            count = len(topology.programs) * len(programs.ROLES)
            wanted = _modules(scenario) | {built(lab, source): "" for source in given.values()}
            process.prepare(root, lab, topology.plan.pack(), wanted, count, topology.tasks)
            held = confine.Confinement(tuple(sorted(topology.readable)), count) if count else None
            spun = process.run(lab, root, request.folder, topology.memory(), request.progress, held=held)
            wall_s = time.perf_counter() - begin
            rows = Rows(root / "rows")
            if request.capture is not None:
                labels = [*scenario.labels, *(str(probe.label) for probe in scenario.probes)]
                capture.write(request.capture, labels, rows.packets)
            seen = _seen(topology, root)
            said = Words(root / "programs", scenario, topology, rows) if count else None
            about_programs: JsonTable = said.told(spun) if said else {}
            if spun and any(rows.window_ns(end.number) is None for end in topology.ends):
                raise RunError(f"{' '.join(about_programs['failed_programs'])} Nothing had been measured by then.")
            about_programs |= {"duration_s": rows.ended_ns / 1e9} if spun else {}
        except RunError as error:
            silent = "".join(_unregistered(source, str(error)) for source in given.values())
            raise RunError(f"The run of {scenario.name} failed. {silent}{error}") from error
        finally:
            shutil.rmtree(root, ignore_errors=True)
        rtts = said.rtts if said else {}
        return Measured(
            scenario,
            figures.output(scenario, topology, rows, rtts, seen),
            wall_s,
            figures.tables(scenario, topology, rows, rtts, seen),
            about=ran,
            also=about_programs,
        )


def _no_kernel(scenario: Scenario) -> str:
    """The error of a scenario whose kernel is not built: says what builds it."""
    tick, number = format_time(scenario.tcp.tick), scenario.run.kernel
    command = f'knee linux build{"" if number is None else f" {number}"} --tick "{tick}"'
    named = "kernel" if number is None else f"Linux {number}"
    there = ", ".join(f"{lab.release} ({1000 // lab.hz} ms)" for lab in cache.built())
    return f"There is no {named} with a tick of {tick}; {command} builds it. Built: {there or 'none'}."


def _unregistered(source: type[KernelSource], error: str) -> str:
    """That a module does not register what its source names, where that is why a run failed."""
    if f"cannot set {source.registers}: " not in error and f"does not allow {source.registers} " not in error:
        return ""
    return f'{source.file} has .name = "{source.registers}" and did not register it. '


def _programs(topology: Topology) -> list[JsonTable]:
    """The programs that are flows, for the manifest."""
    entries = []
    for k, number in enumerate(topology.programs):
        program = topology.program(k)
        for role in programs.ROLES:
            found = programs.locate(program, role, topology.values(k))
            entries.append({"flow": number + 1} | programs.about(program, role, found))
    return entries


def _seen(topology: Topology, root: Path) -> dict[int, applications.Seen]:
    """What the ends of applications' flows put on record, by the number of the flow."""
    found = {}
    for number in topology.applications:
        k = topology.homes.index(number)
        here, there = (applications.read(process.given(root, program_process(k, role))) for role in (0, 1))
        found[number] = applications.Seen(topology.flows[number][0], source=there, destination=here)
    return found


def _modules(scenario: Scenario) -> dict[str | Path, str]:
    wanted: dict[str | Path, str] = {"knee_probe.ko": ""}
    queues = {part.queue for link in scenario.links for part in (link, link.reverse) if part is not None}
    if "cocoa" in queues:
        wanted["sch_cocoa.ko"] = ""
    for flow in scenario.flows:
        if flow.cc in modules.module_ccs():
            values = modules.parameters(flow.cc, flow.cc_params)
            wanted[f"tcp_{kernel_name(flow.cc)}.ko"] = " ".join(f"{name}={value}" for name, value in values.items())
    return wanted
