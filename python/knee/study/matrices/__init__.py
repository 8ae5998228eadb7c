"""``knee matrix``: every congestion control against every other, over one link.

Each run uses the shipped scenario ``matrix`` with two algorithms; the first of an ordered pair starts first.
``table.py`` has the columns of the table, ``page.py`` the page and ``picture.py`` the picture.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from knee.errors import InputError, RunError, input_errors
from knee.own import CONTROL, CongestionControl, Named, name_of, told_apart
from knee.scenario import Scenario, from_dict, registry
from knee.scenario.loading import tables
from knee.scenario.remarks import remarks as of_scenario
from knee.study.requests import Matrix, MatrixKeys
from knee.study.sections import taken
from knee.system import extras, files

if TYPE_CHECKING:
    import polars as pl

    from knee.study.requests import Options
    from knee.study.sweeps.definition import Definition

SCENARIO = "matrix"


def algorithms(names: Sequence[str | type[CongestionControl]] | None = None) -> list[str]:
    """The algorithms of a matrix, grouped by family in the registry's order; by default all.

    Raises:
        InputError: a name is unknown or given twice.
    """
    known = registry.congestion_controls()
    with input_errors("--cc: "):
        found = [name_of(each, CONTROL) for each in names or ()]
        given = [name if isinstance(name, str) else str(name) for name in found]
        own = [name for name in given if isinstance(name, Named)]
        other = told_apart(own)
        for name in given:
            registry.find("congestion control", name, known)
    twice = [name for name in given if given.count(name) > 1]
    if twice:
        raise InputError(f"--cc names {twice[0]} twice; name it once.")
    return [*(name for name in known if not given or name in given), *(other.get(name, name) for name in own)]


def pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Every ordered pair, including each algorithm with itself."""
    return [(first, second) for first in names for second in names]


def scenario(first: str, second: str, changes: Sequence[str] = ()) -> Scenario:
    """The scenario of an ordered pair.

    Raises:
        ScenarioError: a change is rejected.
        InputError: the changes leave more or fewer than two flows.
    """
    data, path = tables(SCENARIO)
    data["flows"] = [{**flow, "cc": cc} for flow, cc in zip(data["flows"], (first, second), strict=True)]
    pair = from_dict(data, where=str(path), name=SCENARIO, overrides=changes)
    if len(pair.labels) != 2:
        raise InputError(f"A matrix has two flows, and --set makes {len(pair.labels)}; leave their number unchanged.")
    return pair


@dataclass(frozen=True)
class Plan:
    """A matrix that was asked for: the algorithms, the changes to the scenario, and the runs of each pair."""

    names: Sequence[str]
    changes: Sequence[str]
    seeds: int

    @property
    def remarks(self) -> list[str]:
        """Remarks on the algorithms on this link, such as that its queue does not mark for one that needs it."""
        each = (remark for name in self.names for remark in of_scenario(scenario(name, name, self.changes)))
        return list(dict.fromkeys(each))

    @property
    def definition(self) -> Definition:
        """A sweep over the two algorithms."""
        from knee.study.sweeps import sweepfile

        axes = {"flows.0.cc": list(self.names), "flows.1.cc": list(self.names)}
        return sweepfile.read(SCENARIO, axes, changes=self.changes, seeds=self.seeds)


def read(cc: Any = None, **asked: Unpack[MatrixKeys]) -> Plan:
    """The matrix that is asked for.

    Raises:
        InputError: names the key, what was found and what would be accepted.
    """
    given = taken(Matrix, asked | {"cc": cc}, "matrix")
    queue = [f"link.queue={given['queue']}"] if "queue" in given else []
    return Plan(algorithms(given.get("cc")), [*given["set"], *queue], given["seeds"])


def run_matrix(plan: Plan, out: Path, **how: Unpack[Options]) -> pl.DataFrame:
    """Runs a matrix into ``out`` and returns its table, a row per ordered pair and seed.

    Finished runs are not made again (:func:`knee.study.sweeps.run_sweep`).
    ``out`` also gets ``matrix.parquet``, ``matrix.html`` and ``matrix.png``; ``how`` has the fields of
    :class:`knee.StudyOptions`.

    Raises:
        InputError: something was rejected; nothing has been written.
        RunError: runs failed; the results of the others are kept for the next call.
    """
    from knee.study import sweeps
    from knee.study.matrices import table
    from knee.view import drawing
    from knee.view.matrix import page, picture

    extras.need("The picture of a matrix", "matplotlib")
    names, first = plan.names, scenario(plan.names[0], plan.names[0], plan.changes)
    sweep = sweeps.run_sweep(plan.definition, out, **how)
    failed = sweep.failed
    if not failed.is_empty():
        row = failed.row(0, named=True)
        pair = f"{row['flows.0.cc']} and {row['flows.1.cc']}"
        raise RunError(f"{failed.height} of {len(sweep)} runs failed; the first, {pair}: {row['error']}")
    frame = table.from_sweep(sweep, str(first.links[0].queue))
    with files.replacing(out / "matrix.parquet") as beside:
        files.write_frame(beside, frame)
    files.write(out / "matrix.png", drawing.image(picture.chart(frame)))
    place = {pair: 1 + i * plan.seeds for i, pair in enumerate(pairs(names))}

    def where(one: str, other: str, _: str) -> page.PairRun:
        return page.PairRun(
            command=f"knee run --from {shlex.quote(str(out))} {place[one, other]}" if sweep.complete else ""
        )

    files.write(out / "matrix.html", page.page(frame, first, out, where, plan.remarks))
    return frame
