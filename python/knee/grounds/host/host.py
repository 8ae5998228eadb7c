"""The ground ``host``, as the runner, ``knee doctor`` and the command line use it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

from knee.errors import RunError
from knee.grounds import applications
from knee.grounds.ground import Ground, Measured, Request
from knee.grounds.host import inside, plan, refuse
from knee.grounds.host.figures import Seen
from knee.grounds.host.lab import lab, switch_program
from knee.kernel import modules
from knee.scenario import Scenario, from_dict
from knee.system import abilities, extras
from knee.system.missing import AS_ROOT, Missing, linux
from knee.system.text import JsonTable

#: What is lost without root.
ROOTLESS = (
    "Without root the switch and the sockets run with ordinary priority, so that packets leave later on a busy machine."
)


class Host(Ground):
    """The running kernel, in real time."""

    name = "host"
    about = "the running Linux kernel in network namespaces, in real time; as root also with real-time priority"
    captures = True
    logs = frozenset({"quic"})
    real_time = True

    def __init__(self, switch: Path | None = None) -> None:
        #: The switch: by default the one that is installed.
        self.switch = switch or switch_program()
        #: What else readers of the figures need to know.
        self.remarks: list[str] = []

    def missing(self) -> Sequence[Missing]:
        """What is missing: devices, namespaces, the switch."""
        lacks = linux()
        if lacks:
            return lacks
        if not abilities.is_root():
            lacks += [
                Missing(part.what, f"{part.mend}, or as root: {AS_ROOT} run ... --ground host")
                for part in inside.missing()
            ]
        if not Path("/dev/net/tun").exists():
            lacks.append(Missing("no /dev/net/tun", "sudo modprobe tun, or use a kernel with CONFIG_TUN"))
        if not Path("/proc/self/ns/net").exists():
            lacks.append(Missing("no network namespaces", "use a kernel with CONFIG_NET_NS"))
        if not os.access(self.switch, os.X_OK):
            lacks.append(Missing("no program knee-switch", "make setup, or a wheel for Linux"))
        return [*lacks, *extras.missing("pyroute2")]

    def trial(self) -> str:
        """Runs one flow for a tenth of a second."""
        flow = {"cc": modules.registry_name(refuse.available()[0]), "rtt": "10 ms"}
        told = from_dict({"duration": "200 ms", "link": {"rate": "10 Mbit/s"}, "flows": [flow]})
        seen = self.observe(told)
        if not seen.output["packets"]:
            raise RunError(f"The switch delivers no packets; {AS_ROOT} run hello --ground host --debug shows more.")
        late = seen.switch["late_p99_us"]
        controls = ", ".join(refuse.available())
        return (
            f"Linux {platform.release()} with {controls}; in a trial 99 % of departures were at most {late:.0f} us late"
        )

    def refuse(self, scenario: Scenario, where: str | None = None) -> None:
        """Rejects what the running kernel and the switch cannot do; without Linux, :meth:`missing` says all."""
        if not linux():
            refuse.check(scenario, where)

    def measure(self, scenario: Scenario, request: Request) -> Measured:
        """Runs a scenario in real time."""
        seen = self.observe(scenario, request)
        remarks = [*self.remarks, *_remarks(seen.switch, seen.quic)]
        if not abilities.is_root():
            remarks.insert(0, ROOTLESS)
        if request.qlog is not None and any(flow.transport == "tcp" for flow in seen.scenario.flows):
            remarks.append("TCP flows have no qlog files, because their senders are the kernel's.")
        return Measured(
            seen.scenario,
            seen.output,
            seen.wall_s,
            seen.tables(),
            about={"kernel": platform.release(), "switch": seen.switch} | ({"quic": seen.quic} if seen.quic else {}),
            also={"remarks": remarks},
        )

    def observe(self, scenario: Scenario, request: Request | None = None) -> Seen:
        """Runs a scenario; a request's folder is not used."""
        applications.require(scenario)
        task = plan.task(self.switch, scenario, request)
        progress = None if request is None else request.progress
        if task.rootless:
            begin = time.perf_counter()
            outcomes = inside.run(task, progress).outcomes
            return Seen(scenario, outcomes, time.perf_counter() - begin)
        with lab(task) as here:
            here.prepare()
            begin = time.perf_counter()
            outcomes = here.run(progress)
            wall_s = time.perf_counter() - begin
        return Seen(scenario, outcomes, wall_s)


def _remarks(switch: JsonTable, quic: JsonTable | None) -> list[str]:
    remarks = []
    if switch["behind"]:
        share = 100 * switch["behind"] / switch["departures"]
        remarks.append(
            f"The machine fell behind: {switch['behind']} of {switch['departures']} packets ({share:.2g} %) left the "
            f"switch more than 1 ms late, the latest {switch['late_max_us'] / 1e3:.1f} ms."
        )
    if switch["refused"]:
        remarks.append(f"The kernel refused {switch['refused']} packets of the switch; they count as received.")
    if quic and quic["behind"]:
        share = 100 * quic["behind"] / quic["departures"]
        remarks.append(
            f"The endpoints of QUIC flows fell behind: {quic['behind']} of {quic['departures']} times ({share:.2g} %) "
            f"they were more than 1 ms late, the latest {quic['late_max_us'] / 1e3:.1f} ms."
        )
    if quic and quic["refused"]:
        remarks.append(
            f"The kernel refused {quic['refused']} datagrams of QUIC flows; they count as lost, not as sent."
        )
    return remarks
