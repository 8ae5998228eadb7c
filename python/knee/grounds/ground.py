"""What a ground is: the protocol that the runner, the command line and ``knee doctor`` use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from knee.missing import Missing

if TYPE_CHECKING:
    from knee.result import Result
    from knee.scenario import Scenario

#: Called some 20 times a second with the fraction of scenario time that has passed.
Progress = Callable[[float], None]


class Ground(Protocol):
    """Where scenarios run."""

    @property
    def name(self) -> str:
        """The name that ``--ground`` takes."""

    @property
    def about(self) -> str:
        """What it is, in one line."""

    @property
    def captures(self) -> bool:
        """Whether it can write the packets at the senders, as pcapng."""

    @property
    def real_time(self) -> bool:
        """Whether runs take as long as what they are about, and so the machine for themselves."""

    def missing(self) -> Sequence[Missing]:
        """What is not there on this machine; empty where the ground works. Quick: it starts nothing."""

    def trial(self) -> str:
        """Tries the ground where nothing is missing, and says in one line what works.

        Raises:
            RunError: where it does not work after all.
        """

    def refuse(self, scenario: Scenario, where: str | None = None) -> None:
        """Refuses what this ground cannot do, before anything starts.

        Args:
            scenario: the scenario.
            where: what errors call it; by default its name.

        Raises:
            ScenarioError: names the key, what was found there and what would do.
        """

    def run(
        self,
        scenario: Scenario,
        folder: Path,
        progress: Progress | None = None,
        command: str | None = None,
        capture: Path | None = None,
    ) -> Result:
        """Runs a scenario that was not refused.

        Args:
            scenario: the scenario.
            folder: an empty folder for what the run writes on the way; it leaves nothing there.
            progress: hears how far the run is.
            command: the command line that asks for the run, for the manifest.
            capture: a file for the packets at the senders, as pcapng; only where the ground ``captures``.

        Raises:
            RunError: where the run fails.
        """
