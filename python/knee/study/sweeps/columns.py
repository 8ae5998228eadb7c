"""The varied keys of a sweep as typed columns, whose names end in their unit: ``link.rate_mbps``, ``flows.0.rtt_ms``.

A key whose values are not all numbers, switches or quantities of one kind is a column of text as it was given.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from knee.scenario.units import Quantity, quantity
from knee.study.sweeps.definition import Definition, Point

if TYPE_CHECKING:
    import polars as pl

#: Times of these keys are in seconds, all others in milliseconds.
_SECONDS = ("duration", "warmup", "start", "stop", "lasts", "stagger", "at")
#: Points whose derived values decide on a column's type.
_LOOKED_AT = 200


@dataclass(frozen=True)
class Column:
    """A column of a varied key.

    Attributes:
        key: the key or variable.
        name: the column's name.
        kind: ``time``, ``rate``, ``bytes``, ``packets``, ``number``, ``whole``, ``switch`` or ``text``.
        unit: the unit of its numbers, as axes of figures have it.
        scale: base units in one of that unit.
    """

    key: str
    name: str
    kind: str
    unit: str = ""
    scale: int = 1

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers."""
        return self.kind not in ("switch", "text")

    def typed(self, value: Any) -> Any:
        """A value of the key as the column has it; None for one of another kind."""
        match self.kind:
            case "text":
                return str(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            case "switch" | "whole":
                return value
            case "number":
                return float(value) if isinstance(value, int | float) else None
        found = quantity(value)
        if found is None or found.kind != self.kind:
            return None
        return float(found.amount / self.scale)

    def series(self, points: Sequence[Point]) -> pl.Series:
        """The values of the key at some points."""
        import polars as pl

        return pl.Series([self.typed(point.values[self.key]) for point in points], dtype=self.dtype(), strict=False)

    def dtype(self) -> type[pl.DataType]:
        """Its polars type."""
        import polars as pl

        return {"text": pl.String, "switch": pl.Boolean, "whole": pl.Int64}.get(self.kind, pl.Float64)


def columns(definition: Definition) -> list[Column]:
    """The columns of a sweep's keys, in their order; the axis ``seed`` is the column that all tables have anyway."""
    given: dict[str, list[Any]] = {}
    for group in definition.groups:
        for i, key in enumerate(group.keys):
            given[key] = [row[i] for row in group.span or group.rows]
    size = len(definition)
    looked = {1 + i * (size - 1) // max(min(size, _LOOKED_AT) - 1, 1) for i in range(min(size, _LOOKED_AT))}
    if definition.derived:
        points = list(definition.points(sorted(looked)))
        given |= {key: [point.values[key] for point in points] for key, _ in definition.derived}
    columns = [_column(key, values) for key, values in given.items() if key != "seed"]
    if any(group.span for group in definition.groups):
        # Points that come later may have other derived numbers than the whole ones so far.
        derived = {key for key, _ in definition.derived}
        columns = [
            replace(one, kind="number") if one.key in derived and one.kind == "whole" else one for one in columns
        ]
    return columns


def _column(key: str, values: list[Any]) -> Column:
    if all(isinstance(value, bool) for value in values):
        return Column(key, key, "switch")
    if any(isinstance(value, bool) for value in values):
        return Column(key, key, "text")
    if all(isinstance(value, int) for value in values):
        return Column(key, key, "whole")
    found = [quantity(value) for value in values]
    kinds = {each.kind if isinstance(each, Quantity) else None for each in found}
    if len(kinds) > 1 or None in kinds:
        return Column(key, key, "text")
    match kinds.pop():
        case "time" if key.rpartition(".")[2] in _SECONDS:
            return Column(key, f"{key}_s", "time", "s", 10**9)
        case "time":
            return Column(key, f"{key}_ms", "time", "ms", 10**6)
        case "rate":
            return Column(key, f"{key}_mbps", "rate", "Mbit/s", 10**6)
        case "bytes":
            return Column(key, f"{key}_bytes", "bytes", "B")
        case "packets":
            return Column(key, f"{key}_packets", "packets", "packets")
    # Text such as "5", which has no unit, is text.
    numbers = all(isinstance(value, int | float) for value in values)
    return Column(key, key, "number" if numbers else "text")
