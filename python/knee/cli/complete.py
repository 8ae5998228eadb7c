"""Shell completion of names of scenarios, algorithms, queue disciplines, grounds and papers.

Each function returns the names that complete the text typed. They run at each press of Tab, so they import only what
they need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import typer

from knee.study.shipped import SEARCHES, SWEEPS

Completer = Callable[[str], list[str]]


def _from(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _of(module: str, names: Callable[[Any], Iterable[str]]) -> Completer:
    """Completes names that a module of knee's has, which is imported when they are asked for."""

    def complete(incomplete: str) -> list[str]:
        return _from(names(import_module(f"knee.{module}")), incomplete)

    return complete


# If none matches, the shell completes files.
scenarios = _of("scenario.paths", lambda paths: paths.shipped())
ccs = _of("scenario.registry", lambda registry: registry.flow_controls())
queues = _of("scenario.registry", lambda registry: registry.queues())
receivers = _of("scenario.registry", lambda registry: registry.of("receivers"))
traffic = _of("scenario.registry", lambda registry: registry.traffic())
#: Models of links, of their loss and of their delay.
links = _of(
    "scenario.registry", lambda registry: [name for part in ("links", "losses", "delays") for name in registry.of(part)]
)
grounds = _of("grounds", lambda grounds: grounds.GROUNDS)
#: Numbers of kernels that ``knee linux build`` was tried with, and of those that are built.
kernels = _of("kernel.apt", lambda apt: apt.TRIED)
built_kernels = _of("kernel.cache", lambda cache: dict.fromkeys(lab.number for lab in cache.built()))
papers = _of("papers.recipes", lambda recipes: recipes.NAMES)
#: Cases and groups of ``knee bench``.
cases = _of("bench.cases", lambda cases: [*cases.GROUPS, *cases.CASES])
#: Figures of a sweep.
figures = _of("figures.register", lambda register: register.RUN)
#: Recordings shipped with the program.
references = _of("study.fidelity.shipped", lambda shipped: [*shipped.shipped(), "traffic"])
#: Criteria of ``knee evaluate``, of all suites.
criteria = _of(
    "evaluate.criteria",
    lambda criteria: [criterion.key for suite in criteria.SUITES for criterion in criteria.load(suite).criterion],
)
suites = _of("evaluate.criteria", lambda criteria: criteria.SUITES)


def searches(incomplete: str) -> list[str]:
    """Shipped searches, which come before scenarios."""
    return [*_from(SEARCHES, incomplete), *scenarios(incomplete)]


def sweeps(incomplete: str) -> list[str]:
    """Shipped sweeps, which come before scenarios."""
    return [*_from(SWEEPS, incomplete), *scenarios(incomplete)]


def several_ccs(incomplete: str) -> list[str]:
    """Congestion controls in a list: ``cubic,re`` becomes ``cubic,reno``."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in ccs(last)]


def parts(incomplete: str) -> list[str]:
    """The lists of ``knee list``."""
    return _from(PARTS, incomplete)


def listed(context: typer.Context, incomplete: str) -> list[str]:
    """The entries of the list named before."""
    entries = PARTS.get(str(context.params.get("what")))
    return [] if entries is None else entries(incomplete)


#: The lists of ``knee list``, each with the function that completes its names.
PARTS: dict[str, Completer] = {
    "scenarios": scenarios,
    "cc": ccs,
    "queues": queues,
    "links": links,
    "receivers": receivers,
    "traffic": traffic,
    "sweeps": lambda incomplete: _from(SWEEPS, incomplete),
    "searches": lambda incomplete: _from(SEARCHES, incomplete),
}
