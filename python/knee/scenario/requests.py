"""The options of a run, as a request (:mod:`knee.system.requests`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

from knee.scenario import Changes
from knee.system.requests import Key, documented

#: The groups of options, as ``cli/options.py`` has them.
_INPUT, _RUNNING, _OUTPUT, _CODE = "Scenario", "Running", "Output", "Permissions"


# fmt: off
@documented
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run; ``knee run`` has each as ``--NAME``, but for ``command``, the command line itself.

    ``set`` takes a list or a table of changes, ``max_memory`` bytes or text.
    """

    set: Annotated[Changes, Key(
        _INPUT, "Change the scenario: link.rate='5 Gbit/s', flows.0.cc=reno.", "changes", "KEY=VALUE",
        form=list[str])] = ()
    kernel: Annotated[str | None, Key(
        _INPUT, "The kernel of the ground uml, such as 7.2; default: the one built last.", "text", "NUMBER", form=str,
    )] = None
    threads: Annotated[int | None, Key(
        _RUNNING, "Threads that work at a run of the simulator; default: 1. Results are the same for any number.",
        form=int, between=(1, 1024))] = None
    max_memory: Annotated[int | str | None, Key(
        _RUNNING, "Refuse a run that needs more memory, such as '8 GB'; default: the available memory.", "a size",
        "SIZE", form=str)] = None
    report: Annotated[bool, Key(_OUTPUT, "Write report.html.", "true or false", default=True)] = True
    png: Annotated[bool, Key(_OUTPUT, "Also draw the figures as PNG files.", "true or false")] = False
    pcap: Annotated[bool, Key(
        _OUTPUT, "Also capture the packets at the senders, to packets.pcapng.", "true or false")] = False
    qlog: Annotated[bool, Key(
        _OUTPUT, "Also log what each sender does, to qlog/flow-N.sqlog.", "true or false")] = False
    check: Annotated[bool, Key(
        _OUTPUT, "Fail if a figure is physically impossible, such as a rate above a link's, or if a run with a "
        "Python class gives other figures the second time.", "true or false")] = False
    allow_programs: Annotated[bool, Key(
        _CODE, "Let flows be programs, which run on this machine.", "true or false")] = False
    allow_code: Annotated[bool, Key(
        _CODE, 'Run files that cc and queue name: "mine.py:Mine", "tcp_mine.c".', "true or false")] = False
    command: str | None = None
    # fmt: on

    @property
    def changes(self) -> list[str]:
        """All changes to the scenario, as of ``--set``."""
        from knee.scenario.loading import changes_of

        run = {"kernel": self.kernel, "threads": self.threads}
        return [*changes_of(self.set), *(f"run.{key}={value}" for key, value in run.items() if value is not None)]


class Options(TypedDict, total=False):
    """The fields of :class:`RunOptions` as keyword arguments, for type checkers."""

    set: Changes
    kernel: str | None
    threads: int | None
    max_memory: int | str | None
    report: bool
    png: bool
    pcap: bool
    qlog: bool
    check: bool
    allow_programs: bool
    allow_code: bool
    command: str | None
