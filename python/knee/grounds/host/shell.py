"""A program behind a scenario's links: what ``knee shell`` runs, on the ground ``host``.

The program is one more flow of the scenario, the last one, with every packet that has no other flow's port. It has the
path, the base RTT and the congestion control of the scenario's first flow, or those of the flow whose place it takes.
All else is :mod:`knee.grounds.host.inside`.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from knee import grounds
from knee.errors import InputError
from knee.figures.rows import Tables
from knee.grounds.ground import Measured, Request
from knee.grounds.host import inside, plan, refuse
from knee.grounds.host.figures import Seen
from knee.grounds.host.host import Host
from knee.grounds.host.lab import Session
from knee.grounds.runner import prepare
from knee.kernel.bpf.build import require
from knee.own import kernel_name
from knee.results.result import Result
from knee.scenario import Scenario, from_dict, load
from knee.scenario.commands import PROGRAM_CC
from knee.system import abilities
from knee.system.text import JsonTable

#: The label of the program's flow where it takes no other's place.
LABEL = "program"
#: The share of packets that may leave the switch more than 1 ms late: the 99th percentile is at most 1 ms.
LATE = 0.01
#: Fewer late packets say nothing of it.
LEAST = 10
#: Figures of flows, links and probes, and columns of their series, that a late switch makes wrong.
_TIME = re.compile("rtt_|srtt_|owd_|queue_delay_|jitter_|mos$|datagrams$")
#: Keys of a flow that the program's one has too.
_TAKEN = ("rtt", "path", "direction", "cc", "ecn")


def with_program(scenario: Scenario, replace: str | None = None, where: str | None = None) -> Scenario:
    """The scenario with the program's flow at the end of its flows.

    Args:
        scenario: the scenario.
        replace: the label of the flow whose place it takes; None: it comes beside all.
        where: what errors call the scenario.

    Raises:
        InputError: there is no such flow.
    """
    plain = scenario.plain()
    flows: list[JsonTable] = plain["flows"]
    labels = [label for _, label in zip(_counted(scenario), scenario.labels, strict=False)]
    if replace is not None and replace not in labels:
        known = ", ".join(labels) or "none"
        raise InputError(f"{where or scenario.where} has no flow {replace!r}; expected one of its labels: {known}.")
    at = 0 if replace is None else _counted(scenario)[labels.index(replace)]
    if not flows:
        raise InputError(f"{where or scenario.where} has no flow; expected one, whose rtt and path the program gets.")
    like = flows[at]
    flow = {key: like[key] for key in _TAKEN if like.get(key) is not None}
    if like.get("transport", "tcp") != "tcp" or kernel_name(flow.get("cc", "")) not in refuse.available():
        flow["cc"] = "cubic"
        flow.pop("ecn", None)
    elif not isinstance(flow.get("ecn", False), bool):
        flow["ecn"] = True
    if replace is None:
        flow["direction"] = "forward"
    elif like["count"] > 1:
        like["count"] -= 1
    else:
        flows.pop(at)
    # A label of its own stays, since changes may name it.
    label = replace if replace is not None and replace == like.get("label") and like not in flows else LABEL
    return from_dict(plain | {"flows": [*flows, flow | {"label": label}]}, where=where or scenario.where)


def unlimited(scenario: Scenario, *, sends: bool) -> str | None:
    """A sentence where no link limits what the program sends towards the other side, or gets from there.

    Args:
        scenario: with the program's flow as its last one (:func:`with_program`).
        sends: whether the program is where the data of forward flows come from.
    """
    flow = scenario.flows[-1]
    crossed = [link for link in scenario.links if link.name in (flow.path or ())]
    if any(link.reverse is not None for link in crossed):
        return None
    names = " and ".join(link.name for link in crossed)
    what = "gets from the other side" if sends else "sends"
    return (
        f"{names} {'have' if len(crossed) > 1 else 'has'} no reverse direction, so nothing limits what the program "
        f'{what}, and fast transfers make this machine late; add reverse = {{ rate = "20 Mbit/s" }} to the link.'
    )


def _counted(scenario: Scenario) -> list[int]:
    """The group of each flow."""
    return [group for group, flow in enumerate(scenario.flows) for _ in range(flow.count)]


class Shell(Host):
    """The ground ``host`` with a program.

    Args:
        session: the program; its flow is the last one.
        live: is told, some times a second, how it goes.
        remark: is told once, while the program runs, that the switch is late.
    """

    def __init__(
        self,
        session: Session,
        live: Callable[[JsonTable], None] | None,
        remark: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__()
        self._session, self._live, self._remark = session, live, remark
        #: The program's exit code, once it has ended.
        self.code = 0

    def measure(self, scenario: Scenario, request: Request) -> Measured:
        """Runs the program; where the switch was late, without the times that are this machine's.

        The program's flow, which may send nothing for as long as it wants, is named so.
        """
        measured = super().measure(scenario, request)
        measured.output["flows"][self._session.flow]["transport"] = PROGRAM_CC
        return without_times(measured) if late(measured.about["switch"]) else measured

    def observe(self, scenario: Scenario, request: Request | None = None) -> Seen:
        """Runs the program until it ends, or the scenario does."""
        task = plan.task(self.switch, scenario, request)
        task.session = self._session
        for side in task.sides:
            for key in ("send", "receive"):
                side[key] = [socket for socket in side[key] if socket["flow"] != self._session.flow]
        begin = time.perf_counter()
        done = inside.run(task, self._tell)
        wall_s = time.perf_counter() - begin
        self.code, self.remarks = done.code, done.remarks
        return Seen(scenario.model_copy(update={"duration": done.elapsed}), done.outcomes, wall_s)

    def _tell(self, report: JsonTable) -> None:
        if self._live is not None:
            self._live(report)
        if self._remark is not None and late(report):
            self._remark(f"{_late_words(report)} so far; if it stays above 1 %, the result has no RTTs and delays.")
            self._remark = None


def late(switch: JsonTable) -> bool:
    """Whether more than a hundredth of the packets left the switch more than 1 ms late."""
    return bool(switch["behind"] >= LEAST and switch["behind"] > LATE * switch["departures"])


def _late_words(switch: JsonTable) -> str:
    return f"{switch['behind']} of {switch['departures']} packets left the switch more than 1 ms late"


def without_times(measured: Measured) -> Measured:
    """A run of a late switch without RTTs and delays, which are the machine's; what arrived and was lost stays."""
    output: Any = dict(measured.output)
    for key in ("flows", "links", "probes"):
        if key in output:
            rows = ({name: None if _TIME.match(name) else one for name, one in row.items()} for row in output[key])
            output[key] = list(rows)
    tables = Tables(**{name: measured.tables[name] for name in ("events", "completions")}) | {
        name: rows.with_columns(pl.lit(None, rows.schema[one]).alias(one) for one in rows.columns if _TIME.match(one))
        for name in ("samples", "links")
        for rows in [measured.tables[name]]
    }
    root = "" if abilities.is_root() else ", or run it as root, which has real-time priority"
    said = (
        f"This machine does not carry the scenario in real time: {_late_words(measured.about['switch'])}, and at most "
        "1 % may. So RTTs and delays are left out. Set a lower rate (--set link.rate=...), stop other "
        f"programs{root}."
    )
    also = {**measured.also, "remarks": [said, *measured.also.get("remarks", ())]}
    return dataclasses.replace(measured, output=output, tables=tables, series=None, also=also)


def run(
    source: str | Path | Scenario,
    command: Sequence[str],
    out: Path | None = None,
    *,
    changes: Sequence[str] = (),
    replace: str | None = None,
    server: Sequence[str] | None = None,
    sends: bool = False,
    pasta: bool = True,
    live: Callable[[JsonTable], None] | None = None,
    remark: Callable[[str], None] | None = None,
    asked: str | None = None,
    **options: Any,
) -> tuple[Result, int]:
    """Runs a program behind a scenario's links; gives the result and the program's exit code.

    Args:
        source: a scenario, its file or its name.
        command: the program and its arguments.
        out: the folder of the result.
        changes: changes to the scenario, as of ``--set``.
        replace: the label of the flow whose place the program takes.
        server: a program for the other side.
        sends: whether the program is where the data of forward flows come from, not where they go to.
        pasta: whether ``pasta`` leads outside, where it is installed.
        live: is told, some times a second, how it goes.
        remark: is told what to know of the scenario before it starts, and that the switch is late while it runs.
        asked: the command line, for the manifest.
        options: as of :func:`knee.grounds.runner.prepare`.

    Raises:
        InputError: the scenario or a program was refused.
        RunError: the ground does not work here.
    """
    where = str(source) if isinstance(source, str | Path) else source.name
    scenario = load(source, changes) if isinstance(source, str | Path) else source
    for words in (command, server):
        if words and shutil.which(words[0]) is None:
            raise InputError(f"There is no program {words[0]!r} to run behind the links; check its name, or PATH.")
    whole = with_program(scenario, replace, where)
    flow = whole.flows[-1]
    session = Session(
        command=list(command),
        server=list(server) if server else None,
        side=0 if sends else 1,
        flow=len(_counted(whole)) - 1,
        cc=kernel_name(flow.cc),
        ecn=bool(flow.ecn),
        user=(os.geteuid(), os.getegid()),
        pasta=shutil.which("pasta") if pasta else None,
    )
    ground = Shell(session, live, remark)
    if remark is not None and (said := unlimited(whole, sends=sends)) is not None:
        remark(said)
    require(inside.missing(), "knee shell does not work here")
    usual = grounds.GROUNDS["host"]
    grounds.GROUNDS["host"] = ground
    try:
        return prepare(whole, "host", out, where=where, command=asked, **options).run(), ground.code
    finally:
        grounds.GROUNDS["host"] = usual
