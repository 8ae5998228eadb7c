"""The definition of a sweep: a scenario, the keys that vary, and the points of the grid that they make.

A run of a sweep goes this way, and no other::

    file + options -> Definition -> Point (its values) -> Scenario -> specification -> core -> rows -> Parquet part

``sweepfile.py`` reads a :class:`Definition`; a :class:`Point` is worked out from its number whenever it is needed, so
that a million of them take no memory; ``work.py`` takes points to rows, wherever that happens; ``dataset.py`` writes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from knee import _core
from knee.errors import Refused, ScenarioError
from knee.own import Named, named_in
from knee.results.manifest import contents, digest
from knee.scenario import Plain, Scenario, expressions, from_dict, paths
from knee.scenario.loading import index_of, meet, put

if TYPE_CHECKING:
    from knee.study.sections import Plot

#: Variables of a sweep, which are no keys of the scenario.
VARIABLE = "var."
#: Tables of files with keys that vary, and the tables around them.
SECTIONS = tuple(
    f"{kind}{table}" for kind in ("sweep", "search") for table in (".over", ".derive", ".across", ".against", "")
)
#: Longest part of an error that names a point's values, characters.
_TOLD = 160


@dataclass(frozen=True)
class Group:
    """Keys that vary together: one axis, axes that are tied, or those that samples are taken of.

    Attributes:
        keys: the keys.
        rows: their values, a row for each step.
        span: where rows are added while it runs, as by a search, rows that stand for all that may come; they decide on
            the types of the columns.
        sampled: whether the rows are samples of ranges, or the choices of a search: one alone says little.
    """

    keys: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    span: Sequence[Sequence[Any]] = ()
    sampled: bool = False


@dataclass(frozen=True)
class Point:
    """A point of the grid with one seed: what one run is made of.

    Attributes:
        run: its number, from 1.
        values: what the varied keys and variables have, derived ones last.
        seed: the seed, unless it is among the values.
    """

    run: int
    values: Plain
    seed: int

    @property
    def changes(self) -> Plain:
        """The keys to set in the scenario, with their values: the seed and the varied ones without variables."""
        given = {key: value for key, value in self.values.items() if not key.startswith(VARIABLE)}
        return {"seed": self.seed} | given

    def __str__(self) -> str:
        """The values in words."""
        text = ", ".join(f"{key} = {value}" for key, value in self.values.items())
        return text if len(text) <= _TOLD else text[: _TOLD - 3] + "..."


@dataclass(frozen=True)
class Definition:
    """A sweep.

    Attributes:
        name: the scenario's default name.
        where: the file, as errors call it.
        base: the scenario's plain data.
        groups: what varies; the last varies fastest, but for the seeds of a point, which are together.
        derived: keys and their expressions, each of which may use those before.
        seeds: runs of each point, with seeds that count up from the scenario's.
        plots: the figures to draw at its end, by file name; they decide on no run.
        changes: the changes that the base has had, as of ``--set``, of which the file knows nothing.
    """

    name: str
    where: str
    base: Plain
    groups: tuple[Group, ...]
    derived: tuple[tuple[str, str], ...] = ()
    seeds: int = 1
    plots: Mapping[str, Plot] = field(default_factory=dict, compare=False)
    changes: Sequence[str] = field(default=(), compare=False)

    def __len__(self) -> int:
        """The number of runs."""
        return prod(len(group.rows) for group in self.groups) * self.seeds

    @property
    def keys(self) -> list[str]:
        """The keys and variables that vary, derived ones last."""
        return [*(key for group in self.groups for key in group.keys), *(key for key, _ in self.derived)]

    @cached_property
    def sources(self) -> dict[str, list[Group]]:
        """By key, the groups that decide on its value: its own, or those that its expression reads."""
        found = {key: [group] for group in self.groups for key in group.keys}
        for key, text in self.derived:
            read = [group for name in expressions.parse(text).keys for group in found.get(name, ())]
            found[key] = [group for i, group in enumerate(read) if group not in read[:i]]
        return found

    @cached_property
    def own(self) -> list[Named]:
        """The classes that runs use."""
        return list(named_in([self.base, *(group.span or group.rows for group in self.groups)]))

    @cached_property
    def _first_seed(self) -> int:
        seed = self.base.get("seed", 1)
        return seed if isinstance(seed, int) else 1

    @property
    def all_runs(self) -> range:
        """The numbers of all runs."""
        return range(1, len(self) + 1)

    def point(self, run: int) -> Point:
        """The point of a run.

        Raises:
            ScenarioError: a derived key cannot be worked out.
        """
        rest, k = divmod(run - 1, self.seeds)
        rows: list[Sequence[Any]] = []
        for group in reversed(self.groups):
            rest, at = divmod(rest, len(group.rows))
            rows.append(group.rows[at])
        values: Plain = {}
        for group, row in zip(self.groups, reversed(rows), strict=True):
            values.update(zip(group.keys, row, strict=True))
        point = Point(run, values, self._first_seed + k)
        if self.derived:
            self._derive(point)
        return point

    def points(self, runs: Sequence[int]) -> Iterator[Point]:
        """The points of some runs."""
        return (self.point(run) for run in runs)

    def _derive(self, point: Point) -> None:
        data = self.data(point)
        for key, text in self.derived:
            try:
                value = expressions.parse(text).value(lambda name: self._read(name, data, point.values))
                point.values[key] = value
                if not key.startswith(VARIABLE):
                    put(data, key, value)
            except Refused as refused:
                raise self._refused(point, refused, key) from None

    def _read(self, key: str, data: Plain, values: Mapping[str, Any]) -> Any:
        """The value of a key or variable of an expression."""
        if key in values:
            return values[key]
        if key.startswith(VARIABLE):
            there = [name for name in self.keys if name.startswith(VARIABLE)]
            accepted = f"there are: {', '.join(there)}" if there else "there are no variables"
            raise Refused(f"there is no variable {key}", accepted)
        try:
            return stated(data, key)
        except Refused as refused:
            raise Refused(f"{refused.found}, which its expression needs", refused.accepted) from None

    def data(self, point: Point) -> Plain:
        """The plain data of a point's scenario, not yet checked.

        Raises:
            ScenarioError: the scenario has no such key.
        """
        data = copy.deepcopy(dict(self.base))
        for key, value in point.changes.items():
            try:
                put(data, key, copy.deepcopy(value))
            except Refused as refused:
                raise self._refused(point, refused, key) from None
        return data

    def place(self, point: Point) -> str:
        """The name of a point's scenario in errors."""
        return f"{self.where} with {point}" if point.values else self.where

    def scenario(self, point: Point) -> Scenario:
        """The scenario of a point.

        Raises:
            ScenarioError: names the point, the key, what was found and what would be accepted.
        """
        with self.told_of(point):
            return from_dict(self.data(point), where=self.where, name=self.name)

    @contextmanager
    def told_of(self, point: Point) -> Iterator[None]:
        """Says of errors raised inside which point they are of, and where the file has the key or its axis."""
        try:
            yield
        except ScenarioError as error:
            raise self._refused(point, error) from None

    def _refused(self, point: Point, error: Refused | ScenarioError, axis: str = "") -> ScenarioError:
        """The error of a point, at ``axis`` or the axis that has its key, if there is one."""
        axis = axis or next((key for key in point.values if meet(key, error.key)), "")
        at = _core.placed(self.where, axis, SECTIONS)[1] if axis else getattr(error, "at", None)
        if not axis and any(meet(change.partition("=")[0], error.key) for change in self.changes):
            at = None
        told = str(point) if point.values else ""
        return ScenarioError(self.where, error.key or axis, error.found, error.accepted, at, point=told, sections=())

    @cached_property
    def _common(self) -> str:
        """A digest of the data that all runs share, as far as they decide on figures."""
        given = {key: value for key, value in self.base.items() if key not in ("name", "title")}
        own = sorted((str(name), name.content) for name in self.own)
        return digest(paths.renamed_files(given, self._contents), own)

    @cached_property
    def _contents(self) -> dict[str, str]:
        return contents([*paths.files_in(self.base), *self._files()])

    def _files(self) -> Iterator[str]:
        """The files that the values of varied keys name."""
        return (
            name
            for group in self.groups
            for i, key in enumerate(group.keys)
            for row in group.span or group.rows
            if isinstance(row[i], Mapping | list) or key.rpartition(".")[2] in paths.FILE_KEYS
            for name in paths.files_in(row[i], key)
        )

    def digest(self, point: Point, program: str) -> str:
        """The identity of a run (:mod:`knee.results.manifest`), by what the definition has of it.

        ``program`` is the program, and the builds of kernels where there are any
        (:func:`knee.study.sweeps.made_by`).
        """
        return digest(program, self._common, paths.renamed_files(point.changes, self._contents))

    def plain(self) -> Plain:
        """The definition as JSON has it; :meth:`read` gives it back, but for algorithms written in Python."""
        return {
            "name": self.name,
            "where": self.where,
            "base": self.base,
            "groups": [
                {"keys": group.keys, "rows": group.rows}
                | ({"span": group.span} if group.span else {})
                | ({"sampled": True} if group.sampled else {})
                for group in self.groups
            ],
            "derived": self.derived,
            "seeds": self.seeds,
            "own": sorted(self.own),
        }

    @classmethod
    def read(cls, plain: Plain) -> Definition:
        """The definition in what :meth:`plain` gave."""
        groups = tuple(
            Group(tuple(group["keys"]), group["rows"], group.get("span", ()), group.get("sampled", False))
            for group in plain["groups"]
        )
        derived = tuple((key, text) for key, text in plain["derived"])
        return cls(plain["name"], plain["where"], plain["base"], groups, derived, plain["seeds"])


def stated(data: Plain, key: str) -> Any:
    """The value at a key of a scenario's plain data.

    Raises:
        Refused: it does not say.
    """
    place: Any = data
    for part in key.split("."):
        if isinstance(place, list):
            place = place[index_of(place, part, key)]
        elif isinstance(place, dict) and part in place:
            place = place[part]
        else:
            raise Refused(f"the scenario does not say {key}", "write it in the scenario, or use another key")
    return place
