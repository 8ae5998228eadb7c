"""Printed tables as data: each number of a CSV file is an item, described by its column in ``items/<paper>.toml``."""

from __future__ import annotations

import csv
from importlib import resources
from itertools import groupby
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from knee.papers.laws import LAWS


class Column(BaseModel):
    """A quantity of a table: a column of the file, where each cell that is not empty is an item.

    Attributes:
        name: the column's name.
        quantity: the quantity as result files name it.
        says: what the paper says of a cell; ``{}`` is the number.
        of: what it is about: ``flow``, or ``all`` flows of the row's experiment together.
        sum_of: the column of which it is the sum over all flows of the row's experiment; the file then has no such
            column.
        compare, unit, tolerance, reason, negative, no_negative: as those of an item.
        negatives: by experiment, the negative in place of ``negative``.
        tight: the tolerance of values below ``below``, where it differs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    quantity: str
    says: str
    of: Literal["flow", "all"] = "flow"
    sum_of: str = ""
    unit: str = ""
    tolerance: float | str
    reason: str
    tight: float | str = ""
    below: float = 0.0
    tight_reason: str = ""
    negative: str = ""
    negatives: dict[str, str] = Field(default_factory=dict)
    no_negative: str = ""


class Remark(BaseModel):
    """The knowledge about several items that differ, named by their keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    items: list[str]
    unknown: str


class Table(BaseModel):
    """A table: its file and columns.

    The file also has ``experiment``, ``id``, ``where``, ``key``, ``number``, ``flow`` and ``all``, and may have
    ``negative``, in place of the column's, and ``quick``, which is ``false`` for rows that the short form cannot judge.

    An item's key is ``KEY-COLUMN-NUMBER``, or ``KEY-COLUMN`` if it is about all flows; its quantity is named likewise,
    with underscores.

    Attributes:
        laws: the laws of ``laws.py`` that its numbers must obey.
        calibrates: the keys of items to which runs are scaled: they are findings, which no total counts.
        undecided: the keys of items that hold in some draws only.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    column: list[Column]
    laws: list[str] = Field(default_factory=list)
    calibrates: list[str] = Field(default_factory=list)
    undecided: list[str] = Field(default_factory=list)
    remark: list[Remark] = Field(default_factory=list)

    def items(self) -> list[dict[str, Any]]:
        """The items as plain data, those that calibrate included.

        Raises:
            ValueError: a remark, ``undecided`` or ``calibrates`` names no item, or two remarks name the same one.
        """
        rows = read(self.file)
        for column in (column for column in self.column if column.sum_of):
            for first, *others in _groups(rows):
                first[column.name] = f"{sum(float(row[column.sum_of]) for row in (first, *others)):.2f}"
                for row in others:
                    row[column.name] = ""
        made = [_item(row, column) for column in self.column for row in rows if row[column.name]]
        known = {item["key"]: item for item in made}
        for law in self.laws:
            for group in _groups(rows):
                for name, broken, arithmetic in LAWS[law](group):
                    known[f"{broken['key']}-{name}-{broken['number']}"]["contradiction"] = arithmetic
        if wrong := {*self.undecided, *self.calibrates} - set(known):
            raise ValueError(f"{self.file}: no item is named {sorted(wrong)[0]}, which undecided or calibrates lists")
        for key in self.undecided:
            known[key]["undecided"] = True
        for remark in self.remark:
            for key in remark.items:
                if key not in known or "unknown" in known[key]:
                    raise ValueError(f"{self.file}: a remark on {key}, which is not there or has one already")
                known[key]["unknown"] = remark.unknown
        return made


def read(file: str) -> list[dict[str, str]]:
    """The rows of a table's file."""
    text = resources.files(__package__).joinpath("items", file).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _groups(rows: list[dict[str, str]]) -> list[list[dict[str, str]]]:
    """Rows of the same experiment of the paper, which stand together."""
    return [list(group) for _, group in groupby(rows, key=lambda row: row["key"])]


def _item(row: dict[str, str], column: Column) -> dict[str, Any]:
    parts = [row["key"], column.name, *([row["number"]] if column.of == "flow" else [])]
    value = float(row[column.name])
    tight = abs(value) < column.below
    about = row["flow"] if column.of == "flow" else row["all"]
    return {
        "key": "-".join(parts),
        "experiment": row["experiment"],
        "id": row["id"],
        "where": row["where"],
        "flow": about,
        "quantity": column.quantity,
        "column": column.name,
        "says": f"{about}: {column.says.format(row[column.name])}",
        "computed": "_".join(parts).replace("-", "_"),
        "compare": "within",
        "value": value,
        "unit": column.unit,
        "tolerance": column.tight if tight else column.tolerance,
        "reason": column.tight_reason if tight else column.reason,
        "negative": row.get("negative") or column.negatives.get(row["experiment"], column.negative),
        "no_negative": column.no_negative,
        "quick": row.get("quick") != "false",
    }
