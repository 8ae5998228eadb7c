"""What a ground is to the runner, the command line and ``knee doctor``, and how what it measures becomes a result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from tomli_w import dumps

from knee.figures.forms import Output
from knee.system.missing import Missing

if TYPE_CHECKING:
    import polars as pl

    from knee.figures.forms import Summary
    from knee.figures.rows import Tables
    from knee.results.result import Result
    from knee.scenario import Scenario

#: Called some 20 times a second with the fraction of scenario time that has passed.
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Request:
    """What is asked of a run beside its scenario.

    Attributes:
        folder: an empty folder for temporary files, empty again afterwards; None where the result has no folder.
        progress: called with the fraction of scenario time that has passed.
        capture: a file for the packets at the senders, as pcapng; only if the ground ``captures``.
        qlog: an existing folder for the senders' qlog files; only if the ground ``logs`` any of the flows.
    """

    folder: Path | None = None
    progress: Progress | None = None
    capture: Path | None = None
    qlog: Path | None = None


@dataclass(frozen=True)
class Measured:
    """What a ground measured.

    Attributes:
        scenario: what ran; a program that ends may have ended it early.
        output: the figures, in the form of the simulator's.
        wall_s: how long it took, s.
        samples, links, events, tables: as a result has them.
        about: what the manifest says beside what all do.
        also: what the summary says beside its figures, such as ``remarks``.
    """

    scenario: Scenario
    output: Output
    wall_s: float
    samples: pl.DataFrame
    links: pl.DataFrame
    events: pl.DataFrame
    tables: Tables
    about: Mapping[str, Any] = field(default_factory=dict)
    also: Mapping[str, Any] = field(default_factory=dict)

    def summary(self, ground: str) -> Summary:
        """``summary.json`` of a ground."""
        # Slow to import, and a rejected scenario needs none of it.
        from knee.figures.summary import collisions, measured

        return measured(
            self.scenario,
            ground,
            self.output,
            self.samples,
            collisions(self.events),
            self.wall_s,
            self.tables,
            **self.also,
        )

    def result(self, ground: str, started: str, command: str | None = None) -> Result:
        """The result of a run on a ground that began at ``started`` (ISO 8601)."""
        from knee.results.manifest import Manifest, manifest
        from knee.results.result import Result

        scenario, packets = self.scenario, self.output["packets"]
        about = manifest(ground, scenario.seed, self.wall_s, packets, started, command) | cast(Manifest, self.about)
        return Result(
            summary=self.summary(ground),
            manifest=about,
            scenario_toml=dumps(scenario.written),
            own=scenario.own,
            samples=self.samples,
            links=self.links,
            tables=self.tables,
            events=self.events,
        )


class Ground(ABC):
    """Where scenarios run."""

    #: What ``--ground`` takes.
    name: ClassVar[str]
    #: One line that describes it.
    about: ClassVar[str]
    #: Whether it can capture the packets at the senders, as pcapng.
    captures: ClassVar[bool] = False
    #: The transports of flows whose senders it can log, as qlog.
    logs: ClassVar[frozenset[str]] = frozenset()
    #: Whether it runs in real time; such runs need the machine for themselves.
    real_time: ClassVar[bool] = False

    def missing(self) -> Sequence[Missing]:
        """What this machine lacks; empty if the ground works here. Quick: it starts nothing."""
        return ()

    @abstractmethod
    def trial(self) -> str:
        """Tries the ground if nothing is missing, and returns one line on what works.

        Raises:
            RunError: it does not work after all.
        """

    @abstractmethod
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
        return None

    def run(self, scenario: Scenario, request: Request, command: str | None = None) -> Result:
        """Runs a scenario that :meth:`refuse` accepted; ``command`` is the command line of the run, for the manifest.

        Raises:
            RunError: the run failed.
        """
        started = time_now()
        return self.measure(scenario, request).result(self.name, started, command)

    @abstractmethod
    def measure(self, scenario: Scenario, request: Request) -> Measured:
        """Runs a scenario and gives what was measured; raises what :meth:`run` does."""


def time_now() -> str:
    """The time at which a run begins, as manifests have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
