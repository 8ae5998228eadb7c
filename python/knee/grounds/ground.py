"""What a ground is to the runner, the command line and ``knee doctor``, and how what it measures becomes a result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from knee.figures.forms import Output
from knee.results import named
from knee.results.manifest import Manifest, content, manifest
from knee.scenario import paths
from knee.system.missing import Missing

if TYPE_CHECKING:
    from knee.figures.forms import Summary
    from knee.figures.metrics import Samples
    from knee.figures.rows import Tables
    from knee.results.result import Result
    from knee.scenario import Scenario

#: Called some 20 times a second with the fraction of scenario time that has passed.
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Compiled:
    """A scenario that a ground accepts, with what its files contained when it was compiled (:meth:`Ground.compile`).

    A file that changes later changes nothing of it: its figures, its identity and the digests in its manifest are those
    of one content.

    Attributes:
        scenario: the scenario, a copy of its own, which keeps the specification that was built of it.
        ground: the name of the ground.
        files: the files that it names, with their digests.
    """

    scenario: Scenario
    ground: str
    files: named.Files

    @cached_property
    def content(self) -> str:
        """The identity of the run without the kernel (:func:`knee.results.manifest.content`)."""
        return content(self.scenario, self.ground, self.files.contents)

    def seeded(self, seed: int) -> Compiled:
        """The same with another seed; nothing is read again."""
        return self if seed == self.scenario.seed else replace(self, scenario=self.scenario.seeded(seed))


@dataclass(frozen=True)
class Request:
    """The files and the progress that a run is asked for, beside what was compiled.

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
        tables: as a result has them.
        series: the columns of time series that figures are computed from; by default those of ``samples``.
        about: what the manifest says beside what all do.
        also: what the summary says beside its figures, such as ``remarks``.
    """

    scenario: Scenario
    output: Output
    wall_s: float
    tables: Tables
    series: Samples | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    also: Mapping[str, Any] = field(default_factory=dict)

    def summary(self, ground: str) -> Summary:
        """``summary.json`` of a ground."""
        # Slow to import, and a rejected scenario needs none of it.
        from knee.figures.summary import measured

        return measured(self.scenario, ground, self.output, self.tables, self.wall_s, self.series, **self.also)

    def result(self, of: Compiled, started: str, command: str | None = None) -> Result:
        """The result of a run that began at ``started`` (ISO 8601)."""
        from knee.results.result import Result

        scenario, packets, files = self.scenario, self.output["packets"], of.files
        about = manifest(of.ground, scenario.seed, self.wall_s, packets, started, command) | cast(Manifest, self.about)
        if files.names:
            about["inputs"] = dict(files.digests)
        return Result(
            summary=self.summary(of.ground),
            manifest=about,
            resolved=paths.renamed_files(scenario.written, files.names),
            own=scenario.own,
            inputs=files.places,
            tables=self.tables,
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

    def compile(self, scenario: Scenario, where: str | None = None) -> Compiled:
        """Reads all that decides on the figures of a scenario, once; raises what :meth:`refuse` does."""
        # A copy, which was not asked before: files may have changed since the scenario was.
        own = scenario.model_copy()
        files = named.of(own)
        self.refuse(own, where)
        return Compiled(own, self.name, files)

    def run(self, compiled: Compiled, request: Request, command: str | None = None) -> Result:
        """Runs what :meth:`compile` gave; ``command`` is the command line of the run, for the manifest.

        Raises:
            RunError: the run failed.
        """
        started = time_now()
        return self.measure(compiled.scenario, request).result(compiled, started, command)

    @abstractmethod
    def measure(self, scenario: Scenario, request: Request) -> Measured:
        """Runs a scenario and gives what was measured; raises what :meth:`run` does."""


def time_now() -> str:
    """The time at which a run begins, as manifests have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
