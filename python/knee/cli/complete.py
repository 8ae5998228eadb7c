"""Shell completion of names of scenarios, algorithms, queue disciplines, grounds and papers.

Each function returns the names that complete the text typed. They run at each press of Tab, so they import only what
they need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import typer

from knee.study.shipped import SEARCHES, SWEEPS


def scenarios(incomplete: str) -> list[str]:
    """Shipped scenarios; if none matches, the shell completes files."""
    from knee.scenario.paths import shipped

    return _from(shipped(), incomplete)


def searches(incomplete: str) -> list[str]:
    """Shipped searches, which come before scenarios."""
    return [*_from(SEARCHES, incomplete), *scenarios(incomplete)]


def sweeps(incomplete: str) -> list[str]:
    """Shipped sweeps, which come before scenarios."""
    return [*_from(SWEEPS, incomplete), *scenarios(incomplete)]


def ccs(incomplete: str) -> list[str]:
    """Congestion controls."""
    from knee.scenario import registry

    return _from(registry.flow_controls(), incomplete)


def queues(incomplete: str) -> list[str]:
    """Queue disciplines."""
    from knee.scenario import registry

    return _from(registry.queues(), incomplete)


def links(incomplete: str) -> list[str]:
    """Models of links, of their loss and of their delay."""
    from knee.scenario import registry

    return _from([name for part in ("links", "losses", "delays") for name in registry.of(part)], incomplete)


def receivers(incomplete: str) -> list[str]:
    """Receivers."""
    from knee.scenario import registry

    return _from(registry.of("receivers"), incomplete)


def traffic(incomplete: str) -> list[str]:
    """Kinds of traffic."""
    from knee.scenario import registry

    return _from(registry.traffic(), incomplete)


def several_ccs(incomplete: str) -> list[str]:
    """Congestion controls in a list: ``cubic,re`` becomes ``cubic,reno``."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in ccs(last)]


def grounds(incomplete: str) -> list[str]:
    """Grounds."""
    from knee.grounds import GROUNDS

    return _from(GROUNDS, incomplete)


def kernels(incomplete: str) -> list[str]:
    """Numbers of kernels that ``knee linux build`` was tried with."""
    from knee.kernel.apt import TRIED

    return _from(TRIED, incomplete)


def built_kernels(incomplete: str) -> list[str]:
    """Numbers of kernels that are built."""
    from knee.kernel.cache import built

    return _from(dict.fromkeys(lab.number for lab in built()), incomplete)


def parts(incomplete: str) -> list[str]:
    """The lists of ``knee list``."""
    return _from(PARTS, incomplete)


def listed(context: typer.Context, incomplete: str) -> list[str]:
    """The entries of the list named before."""
    entries = PARTS.get(str(context.params.get("what")))
    return [] if entries is None else entries(incomplete)


def papers(incomplete: str) -> list[str]:
    """Papers of ``knee reproduce``."""
    from knee.papers.recipes import NAMES

    return _from(NAMES, incomplete)


def cases(incomplete: str) -> list[str]:
    """Cases and groups of ``knee bench``."""
    from knee.bench.cases import CASES, GROUPS

    return _from([*GROUPS, *CASES], incomplete)


def figures(incomplete: str) -> list[str]:
    """Figures of a sweep."""
    from knee.figures.register import RUN

    return _from(RUN, incomplete)


def references(incomplete: str) -> list[str]:
    """Recordings shipped with the program."""
    from knee.cli.fidelity_traffic import NAME
    from knee.study.fidelity.shipped import shipped

    return _from([*shipped(), NAME], incomplete)


#: The lists of ``knee list``, each with the function that completes its names.
PARTS: dict[str, Callable[[str], list[str]]] = {
    "scenarios": scenarios,
    "cc": ccs,
    "queues": queues,
    "links": links,
    "receivers": receivers,
    "traffic": traffic,
    "sweeps": lambda incomplete: _from(SWEEPS, incomplete),
    "searches": lambda incomplete: _from(SEARCHES, incomplete),
}


def _from(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def criteria(incomplete: str) -> list[str]:
    """Criteria of ``knee evaluate``, of all suites."""
    from knee.evaluate.criteria import SUITES, load

    return _from([criterion.key for suite in SUITES for criterion in load(suite).criterion], incomplete)


def suites(incomplete: str) -> list[str]:
    """Suites of ``knee evaluate``."""
    from knee.evaluate.criteria import SUITES

    return _from(SUITES, incomplete)
