"""The plan of a search: a scenario, the keys that are chosen, and a figure to make large or small.

A search goes this way::

    file + options -> Plan -> proposals (Optuna) -> points of a sweep -> rows -> values -> findings -> shrunk scenarios

The points that are tried make a sweep whose first group of keys grows. So a search's folder is a sweep's too: ``knee
plot`` draws it, and ``knee run --from`` makes any of its runs again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, Literal

from knee.figures.register import RUN
from knee.scenario import Plain
from knee.scenario.units import quantity
from knee.study.requests import Search
from knee.study.searches.shrink import stays
from knee.study.sections import whole
from knee.study.sweeps.definition import VARIABLE, Definition, Group
from knee.study.sweeps.values import Sampled

#: Values between the ends of a range that stand for it when a search is checked.
_PARTS = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Goal:
    """A figure that is to be large or small.

    Attributes:
        figure: its name, of :data:`knee.figures.register.RUN`.
        sense: ``max`` or ``min``.
        threshold: what a finding exceeds, or is below of where the sense is ``min``; None for anything.
    """

    figure: str
    sense: Literal["max", "min"]
    threshold: float | None = None

    @property
    def sign(self) -> int:
        """1 where more is better for the search, else -1."""
        return 1 if self.sense == "max" else -1

    def counts(self, value: float) -> bool:
        """Whether a value is beyond the threshold."""
        return self.threshold is None or self.sign * value > self.sign * self.threshold

    def best(self, values: Sequence[float]) -> float:
        """The value nearest to the goal."""
        return max(values) if self.sense == "max" else min(values)

    def worst(self, values: Sequence[float]) -> float:
        """The value furthest from the goal."""
        return min(values) if self.sense == "max" else max(values)


@dataclass(frozen=True)
class Axis:
    """Keys whose values a search chooses together.

    Attributes:
        keys: the key, or several that are tied.
        rows: what may be chosen, a row for each step; empty where it is a range.
        span: the range.
    """

    keys: tuple[str, ...]
    rows: Sequence[Sequence[Any]] = ()
    span: Sampled | None = None

    @property
    def name(self) -> str:
        """The keys in words."""
        return " with ".join(self.keys)

    @property
    def ascending(self) -> bool:
        """Whether its steps are numbers that ascend, so that neighbours are alike."""
        found = [quantity(row[0]) for row in self.rows]
        amounts = [each.amount for each in found if each is not None]
        kinds = {each.kind for each in found if each is not None}
        return len(amounts) == len(self.rows) > 2 and len(kinds) == 1 and amounts == sorted(amounts)

    def row(self, at: float) -> list[Any]:
        """The values at a place: the part of the way through a range, or the number of a step."""
        return [self.span.at(at)] if self.span is not None else list(self.rows[int(at)])

    @property
    def ends(self) -> list[list[Any]]:
        """Rows that stand for all: the ends and the middle of a range, or every step."""
        return [self.row(part) for part in _PARTS] if self.span is not None else [list(row) for row in self.rows]

    def has(self, value: Any) -> bool:
        """Whether a value is within the bounds: between the ends, where they are numbers; else one of the values."""
        found = quantity(value)
        ends = [quantity(row[0]) for row in self.ends]
        known = [end.amount for end in ends if end is not None and found is not None and end.kind == found.kind]
        if found is not None and len(known) == len(ends):
            return min(known) <= found.amount <= max(known)
        return any(value == row[0] for row in self.ends)


def _pattern(key: str) -> str:
    """A key with ``*`` for each number of a flow or link."""
    return ".".join("*" if part.isdigit() else part for part in key.split("."))


def leaves_of(data: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """The patterns of all keys with their values."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from leaves_of(value, f"{before}.{key}" if before else key)
    elif isinstance(data, list):
        for value in data:
            yield from leaves_of(value, f"{before}.*")
    else:
        yield before, data


@dataclass(frozen=True)
class Plan:
    """A search.

    Attributes:
        name: the scenario's default name.
        where: the file, as errors call it.
        base: the scenario's plain data.
        goals: one, or two for a Pareto front.
        axes: what is chosen.
        derived: keys and their expressions.
        across: what every choice is run across: a family of networks; empty for one run.
        against: the keys of another variant, with the scenario's values and the other's; None for none.
        table: the table ``[search]`` that says all this, as JSON has it.
        changes: the changes that the base has had, as of ``--set``.
    """

    name: str
    where: str
    base: Plain
    goals: tuple[Goal, ...]
    axes: tuple[Axis, ...]
    derived: tuple[tuple[str, str], ...] = ()
    across: tuple[Group, ...] = ()
    against: Group | None = None
    table: Plain = field(default_factory=dict)
    changes: Sequence[str] = field(default=(), compare=False)

    @cached_property
    def asked(self) -> Search:
        """The table with its defaults."""
        return whole(Search, self.table)

    @property
    def title(self) -> str:
        """The scenario's title or name."""
        return str(self.base.get("title") or self.base.get("name", self.name))

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that are chosen."""
        return tuple(key for axis in self.axes for key in axis.keys)

    @property
    def kept(self) -> list[str]:
        """The keys that stay as they are when a finding is shrunk: what was searched, and how long it is measured."""
        searched = [*self.keys, *(key for key, _ in self.derived)]
        mine = ["duration", "warmup", *(key for key in searched if not key.startswith(VARIABLE))]
        against = self.against.keys if self.against is not None else ()
        return [*(key for key in mine if not stays(key, self.asked["free"])), *self.asked["keep"], *against]

    @property
    def size(self) -> int | None:
        """How many different choices there are; None where one of them is a range."""
        return None if any(axis.span for axis in self.axes) else prod(len(axis.rows) for axis in self.axes)

    @property
    def runs_each(self) -> int:
        """Runs of each choice."""
        return prod(len(group.rows) for group in self._further) * self.asked["seeds"]

    @property
    def _further(self) -> tuple[Group, ...]:
        return (*self.across, *((self.against,) if self.against is not None else ()))

    @cached_property
    def _span(self) -> list[list[Any]]:
        """Rows in which every key has all values that stand for it."""
        ends = [axis.ends for axis in self.axes]
        longest = max(map(len, ends))
        return [[value for rows in ends for value in rows[i % len(rows)]] for i in range(longest)]

    def definition(self, rows: Sequence[Sequence[Any]]) -> Definition:
        """The sweep over some choices, each of which has :attr:`runs_each` runs, one after the other."""
        groups = (Group(self.keys, rows, self._span, sampled=True), *self._further)
        return self._definition(self.base, groups, self.derived)

    def _definition(self, base: Plain, groups: tuple[Group, ...], derived: tuple[tuple[str, str], ...]) -> Definition:
        seeds = self.asked["seeds"]
        return Definition(self.name, self.where, base, groups, derived, seeds, changes=self.changes)

    def corners(self) -> Definition:
        """The grid that stands for the search when it is checked."""
        groups = tuple(Group(axis.keys, axis.ends) for axis in self.axes)
        return self._definition(self.base, (*groups, *self._further), self.derived)

    def alone(self, data: Plain) -> Definition:
        """The runs of one scenario in place of a choice, without the family of networks."""
        groups = (self.against,) if self.against is not None else ()
        return self._definition(data, groups, ())

    def as_stated(self) -> Definition:
        """The runs of the scenario as the file has it, across the same family and beside the same variant."""
        return self._definition(self.base, self._further, self.derived)

    def values(self, rows: Sequence[Mapping[str, Any] | None]) -> tuple[float, ...] | None:
        """The value of each goal.

        Args:
            rows: the figures of a choice's runs, or of a scenario's alone, in order; None for a run that failed.

        Returns:
            None if a run failed, or a figure is not defined.
        """
        if any(row is None for row in rows):
            return None
        values = [self._value(goal, [row[goal.figure] for row in rows if row is not None]) for goal in self.goals]
        known = [value for value in values if value is not None]
        return tuple(known) if len(known) == len(values) else None

    def _value(self, goal: Goal, figures: Sequence[float | None]) -> float | None:
        """A goal's value from its figure in each run: over the seeds, the variants and the networks, in this order."""
        known = [figure for figure in figures if figure is not None]
        if len(known) < len(figures):
            return None
        means = [
            sum(known[i : i + self.asked["seeds"]]) / self.asked["seeds"]
            for i in range(0, len(known), self.asked["seeds"])
        ]
        if self.against is not None:
            pairs = list(zip(means[::2], means[1::2], strict=True))
            if self.asked["compare"] == "difference":
                means = [own - other for own, other in pairs]
            elif any(other == 0 for _, other in pairs):
                return None
            else:
                means = [own / other for own, other in pairs]
        return goal.worst(means) if self.asked["summarize"] == "worst" else sum(means) / len(means)

    def within(self, data: Plain) -> bool:
        """Whether a simpler scenario is within the bounds: those of a key hold for that key of any flow or link.

        Keys that it does not say have their defaults, which are no choice of the search.
        """
        bounds: dict[str, list[Axis]] = {}
        for axis in self.axes:
            if len(axis.keys) == 1:
                bounds.setdefault(_pattern(axis.keys[0]), []).append(axis)
        return all(any(axis.has(value) for axis in bounds[key]) for key, value in leaves_of(data) if key in bounds)

    def said(self, goal: Goal) -> str:
        """A goal's value in words: the figure's title, and what it is compared with and taken over."""
        title, unit = RUN[goal.figure].title, RUN[goal.figure].unit
        if self.against is not None:
            other = ", ".join(f"{k} = {v}" for k, v in zip(self.against.keys, self.against.rows[1], strict=True))
            title += (
                f", divided by that with {other}" if self.asked["compare"] == "ratio" else f", minus that with {other}"
            )
        if self.across:
            title += (
                ", mean over the networks" if self.asked["summarize"] == "mean" else ", in the worst of the networks"
            )
        unit = "" if self.against is not None and self.asked["compare"] == "ratio" else unit
        return f"{title} ({unit})" if unit else title

    def identity(self) -> Plain:
        """The data that decide on proposals and values; another number of trials or findings is the same search."""
        return {
            "definition": self.definition(()).plain(),
            "classes": {name: name.content for name in self.definition(()).own},
            "goals": [[goal.figure, goal.sense] for goal in self.goals],
            "axes": [[axis.keys, axis.ends, axis.span is not None and axis.span.log] for axis in self.axes],
        } | {key: self.asked[key] for key in ("summarize", "compare", "batch", "search_seed", "sampler")}
