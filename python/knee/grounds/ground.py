"""The protocol of a ground, which the runner, the command line and ``knee doctor`` use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from knee.system.missing import Missing

if TYPE_CHECKING:
    from knee.results.result import Result
    from knee.scenario import Scenario

#: Called some 20 times a second with the fraction of scenario time that has passed.
Progress = Callable[[float], None]


class Ground(Protocol):
    """Where scenarios run."""

    #: What ``--ground`` takes.
    name: str
    #: One line that describes it.
    about: str
    #: Whether it can capture the packets at the senders, as pcapng.
    captures: bool
    #: The transports of flows whose senders it can log, as qlog.
    logs: frozenset[str]
    #: Whether it runs in real time; such runs need the machine for themselves.
    real_time: bool

    def missing(self) -> Sequence[Missing]:
        """What this machine lacks; empty if the ground works here. Quick: it starts nothing."""

    def trial(self) -> str:
        """Tries the ground if nothing is missing, and returns one line on what works.

        Raises:
            RunError: it does not work after all.
        """

    def refuse(self, scenario: Scenario, where: str | None = None) -> None:
        """Rejects a scenario that this ground cannot run, before anything starts.

        Args:
            scenario: the scenario.
            where: the scenario's name in errors; by default its own.

        Raises:
            ScenarioError: names the key, the value found and what is accepted.
        """

    def build(self, scenario: Scenario) -> str | None:
        """Which build of a kernel and its modules would run the scenario, as ``kernel_build`` in the manifest has it.

        None where there is none. A result of another build is not what a run would give now.
        """

    def run(
        self,
        scenario: Scenario,
        folder: Path,
        progress: Progress | None = None,
        command: str | None = None,
        capture: Path | None = None,
        qlog: Path | None = None,
    ) -> Result:
        """Runs a scenario that :meth:`refuse` accepted.

        Args:
            scenario: the scenario.
            folder: an empty folder for temporary files; empty again afterwards.
            progress: called with the fraction of scenario time that has passed.
            command: the command line of the run, for the manifest.
            capture: a file for the packets at the senders, as pcapng; only if the ground ``captures``.
            qlog: an existing folder for the senders' qlog files; only if the ground ``logs`` any of the flows.

        Raises:
            RunError: the run failed.
        """
