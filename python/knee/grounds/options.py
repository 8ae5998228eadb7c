"""The options of a run beside its scenario, ground and folder, under the names of the command line's options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run; ``knee run`` has each as ``--NAME``.

    Attributes:
        set: changes to the scenario: ``["link.rate=5 Mbit/s"]``.
        kernel: the kernel of the ground uml, such as ``"7.2"``; by default the one built last.
        threads: threads that work at a run of the simulator, 1 or more; results are the same for any number.
        max_memory: what the run may need, bytes or text such as ``"8 GB"``; by default what the machine has available.
            The need is estimated before the run starts.
        report: whether the result folder gets the report.
        png: whether it gets the figures as PNG files.
        pcap: whether it gets the packets at the senders, as ``packets.pcapng``.
        qlog: whether it gets what senders do, as qlog files.
        check: whether the figures are held against what the links can physically carry (:mod:`knee.figures.physics`).
        allow_programs: whether flows may be programs, which run on this machine.
        allow_code: whether Python files of congestion controls (``cc = "mine.py:Mine"``) may be run on this machine.
        command: the command line that asks for the run, for the manifest.
    """

    set: Sequence[str] = ()
    kernel: str | None = None
    threads: int | None = None
    max_memory: int | str | None = None
    report: bool = True
    png: bool = False
    pcap: bool = False
    qlog: bool = False
    check: bool = False
    allow_programs: bool = False
    allow_code: bool = False
    command: str | None = None

    @property
    def changes(self) -> list[str]:
        """All changes to the scenario, as of ``--set``."""
        run = {"kernel": self.kernel, "threads": self.threads}
        return [*self.set, *(f"run.{key}={value}" for key, value in run.items() if value is not None)]


class Options(TypedDict, total=False):
    """The fields of :class:`RunOptions` as keyword arguments, for type checkers."""

    set: Sequence[str]
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
