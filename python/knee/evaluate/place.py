"""Where an evaluation runs: the ground, the kernel of ``uml``, and what the scenarios of criteria are there."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from knee import grounds
from knee.errors import InputError, RunError
from knee.evaluate import criteria
from knee.kernel import cache, given
from knee.kernel.build import HZ
from knee.own import KernelSource
from knee.scenario import Plain, Scenario
from knee.scenario.units import parse_time

#: The grounds.
_GROUNDS = ("sim", "uml")
#: A jitter up to this, ns, that keeps the order of packets is no matter of a criterion: it makes the seeds of a
#: simulation differ (``criteria.toml``). A kernel's seeds differ by themselves.
_DITHER_NS = 1_000_000


@dataclass(frozen=True)
class Place:
    """Where an evaluation runs.

    Attributes:
        ground: the name of the ground.
        kernel: the number of the kernel of ``uml``, such as 6.1.
    """

    ground: str = "sim"
    kernel: str | None = None

    @property
    def suffix(self) -> str:
        """The end of folders' names, by which those of two grounds differ; empty for ``sim``."""
        return "" if self.ground == "sim" else f"-{self.ground}-{self.kernel}"

    def deployed(self, suite: str) -> list[str]:
        """The deployed algorithms of a suite, with BBR in the version that the ground has."""
        names = criteria.load(suite).deployed
        return [*dict.fromkeys("bbr" if self.ground == "uml" and name == "bbr3" else name for name in names)]

    def adapted(self, data: Plain) -> Plain:
        """A criterion's scenario as it runs here: with the ground in it, and in a kernel without the small jitter."""
        if self.ground == "sim":
            return data
        made = copy.deepcopy(data)
        link = made["link"]
        if "jitter" in link and not link.get("reorder") and parse_time(link["jitter"]) <= _DITHER_NS:
            del link["jitter"]
        return {**made, "run": {"ground": self.ground, "kernel": self.kernel}}

    def refuse(self, scenario: Scenario, where: str) -> None:
        """Rejects a scenario that does not run here, as a ground does (:class:`knee.grounds.Ground`)."""
        grounds.find(self.ground).refuse(scenario, where)

    def compile(self, source: type[KernelSource]) -> None:
        """Builds a module for the kernel here, as its first run would.

        Raises:
            InputError: it does not compile.
        """
        lab = cache.current(HZ, self.kernel)
        assert lab is not None
        try:
            given.built(lab, source)
        except given.CompileError as error:
            raise InputError(str(error)) from None


#: The default.
SIM = Place()


def chosen(ground: str | None, kernel: str | None) -> Place:
    """The place that ``--ground`` and ``--kernel`` name, which works on this machine.

    Raises:
        InputError: there is no such ground, or nothing is evaluated on it.
        RunError: it does not work here, or the kernel is not built.
    """
    name = ground or "sim"
    grounds.find(name)
    if name not in _GROUNDS:
        found = f"--ground {name}: a run there takes as long as its scenario, an evaluation many hours"
        raise InputError(f"{found}; expected {' or '.join(_GROUNDS)}.")
    if name != "uml":
        if kernel is not None:
            raise InputError(f"--kernel chooses a kernel of the ground uml, and this evaluation is on {name}.")
        return Place(name)
    grounds.ready(name)
    lab = cache.current(HZ, kernel)
    if lab is None:
        there = ", ".join(lab.release for lab in cache.built() if lab.hz == HZ)
        what, build = (f"Linux {kernel}", f" {kernel}") if kernel else ("kernel", "")
        raise RunError(f"There is no {what} with a tick of {1000 // HZ} ms; knee linux build{build} builds it. "
                       f"Built: {there or 'none'}.")  # fmt: skip
    return Place(name, lab.number)
