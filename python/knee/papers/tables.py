"""Printed tables as data: each number of a CSV file is an item, described by its column in ``items/<paper>.toml``."""

from __future__ import annotations

import csv
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Column(BaseModel):
    """A quantity of a table: a column of the file, where each cell that is not empty is an item.

    Attributes:
        name: the column's name.
        quantity: the quantity as result files name it.
        says: what the paper says of a cell; ``{}`` is the number.
        of: what it is about: ``flow``, or ``all`` flows of the row's experiment together.
        compare, unit, tolerance, reason, negative, no_negative: as those of an item.
        tight: the tolerance of values below ``below``, where it differs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    quantity: str
    says: str
    of: Literal["flow", "all"] = "flow"
    unit: str = ""
    tolerance: float | str
    reason: str
    tight: float | str = ""
    below: float = 0.0
    tight_reason: str = ""
    negative: str = ""
    no_negative: str = ""


class Remark(BaseModel):
    """What is known of several items that differ, named by their keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    items: list[str]
    unknown: str


class Table(BaseModel):
    """A table: its file and columns.

    The file also has ``experiment``, ``id``, ``where``, ``key``, ``number``, ``flow`` and ``all``, and may have
    ``negative``, in place of the column's, and ``quick``, which is ``false`` for rows that the short form cannot judge.

    An item's key is ``KEY-COLUMN-NUMBER``, or ``KEY-COLUMN`` if it is about all flows; its quantity is named likewise,
    with underscores.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    column: list[Column]
    remark: list[Remark] = Field(default_factory=list)

    def items(self) -> list[dict[str, Any]]:
        """The items as plain data.

        Raises:
            ValueError: a remark names no item, or two remarks name the same one.
        """
        text = resources.files(__package__).joinpath("items", self.file).read_text(encoding="utf-8")
        rows = list(csv.DictReader(text.splitlines()))
        made = [_item(row, column) for column in self.column for row in rows if row[column.name]]
        known = {item["key"]: item for item in made}
        for remark in self.remark:
            for key in remark.items:
                if key not in known or "unknown" in known[key]:
                    raise ValueError(f"{self.file}: a remark on {key}, which is not there or has one already")
                known[key]["unknown"] = remark.unknown
        return made


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
        "says": f"{about}: {column.says.format(row[column.name])}",
        "computed": "_".join(parts).replace("-", "_"),
        "compare": "within",
        "value": value,
        "unit": column.unit,
        "tolerance": column.tight if tight else column.tolerance,
        "reason": column.tight_reason if tight else column.reason,
        "negative": row.get("negative") or column.negative,
        "no_negative": column.no_negative,
        "quick": row.get("quick") != "false",
    }
