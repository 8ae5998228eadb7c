"""The options of a run, as a request (:mod:`knee.system.requests`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from knee.scenario import Changes
from knee.scenario.units import near
from knee.system import requests as shared
from knee.system.requests import Key, documented


# fmt: off
@documented
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run; ``knee run`` has each as ``--NAME``, but for ``command``, the command line itself.

    ``set`` takes a list or a table of changes, ``max_memory`` bytes or text.
    """

    set: Annotated[Changes, shared.SET] = ()
    kernel: Annotated[str | None, shared.KERNEL] = None
    threads: Annotated[int | None, Key(
        shared.RUNNING, "Threads that work at a run of the simulator; default: 1. Results are the same for any number.",
        form=int, between=(1, 1024))] = None
    max_memory: Annotated[int | str | None, shared.MAX_MEMORY] = None
    report: Annotated[bool, Key(shared.OUTPUT, "Write report.html.", shared.TRUTH, default=True)] = True
    png: Annotated[bool, Key(shared.OUTPUT, "Also draw the figures as PNG files.", shared.TRUTH)] = False
    pcap: Annotated[bool, Key(
        shared.OUTPUT, "Also capture the packets at the senders, to packets.pcapng.", shared.TRUTH)] = False
    qlog: Annotated[bool, Key(
        shared.OUTPUT, "Also log what each sender does, to qlog/flow-N.sqlog.", shared.TRUTH)] = False
    check: Annotated[bool, Key(
        shared.OUTPUT, "Fail if a figure is physically impossible, such as a rate above a link's, or if a run with a "
        "Python class gives other figures the second time.", shared.TRUTH)] = False
    allow_programs: Annotated[bool, shared.ALLOW_PROGRAMS] = False
    allow_code: Annotated[bool, shared.ALLOW_CODE] = False
    command: str | None = None
    # fmt: on

    @property
    def changes(self) -> list[str]:
        """All changes to the scenario, as of ``--set``."""
        from knee.scenario.loading import changes_of

        run = {"kernel": self.kernel, "threads": self.threads}
        return [*changes_of(self.set), *(f"run.{key}={value}" for key, value in run.items() if value is not None)]


def check_names(function: str, asked: Mapping[str, Any], options: type, instead: Mapping[str, str] = {}) -> None:
    """Refuses keyword arguments that a function does not have.

    Args:
        function: what the error calls the function.
        asked: the keyword arguments.
        options: the ``TypedDict`` of those that there are.
        instead: by name, what the error says is accepted for some that there are not.

    Raises:
        TypeError: names the first, and the one that it resembles.
    """
    known = sorted(options.__annotations__)
    for name in asked:
        if name not in known:
            accepted = instead.get(name) or near(name, known)
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}; {accepted}.")


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
