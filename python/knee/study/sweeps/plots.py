"""The figures that a sweep file declares in ``[[plots]]``, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knee.errors import Refused
from knee.figures.register import RUN
from knee.scenario.units import near, shown
from knee.study.sections import Plot, checked
from knee.study.sweeps.columns import columns
from knee.study.sweeps.definition import Definition
from knee.study.sweeps.place import FIGURE, TAKEN
from knee.system import extras


def read(given: Any) -> dict[str, Plot]:
    """The tables ``[[plots]]`` of a sweep file, by the names of their files.

    Raises:
        Refused: a key or a file name is not accepted.
        RunError: matplotlib is not installed.
    """
    if not isinstance(given, list):
        raise Refused(f"{shown(given)} is not a list of tables", "expected tables [[plots]]", key="plots")
    plots: dict[str, Plot] = {}
    for i, table in enumerate(given):
        plot = checked(Plot, table, f"plots[{i}]")
        name = plot.file or f"{plot.kind}-{plot.figure}.png"
        if not FIGURE.fullmatch(name) or name in TAKEN:
            accepted = "expected a name in the sweep's folder, such as delay.pdf, with .pdf, .svg, .png or .html"
            raise Refused(f"{shown(name)} cannot be the file", accepted, key=f"plots[{i}].file")
        if name in plots:
            raise Refused(f"two plots are named {name}", "give each a file of its own", key=f"plots[{i}].file")
        plots[name] = plot
    if any(not name.endswith(".html") for name in plots):
        extras.need("A plot", "matplotlib")
    return plots


def check(definition: Definition) -> None:
    """Rejects plots of figures that do not exist or of keys that the sweep does not vary.

    Raises:
        Refused: names the plot's key.
    """
    for i, plot in enumerate(definition.plots.values()):
        figures: dict[str, str | None] = {"y": plot.figure}
        keys: dict[str, str | None] = {"group": plot.group, "panels": plot.panels} | {
            f"at.{key}": key for key in plot.at
        }
        (figures if plot.kind == "pareto" else keys)["x"] = plot.x
        _check_names(figures, list(RUN), "there is no figure", f"plots[{i}]")
        _check_names(keys, definition.keys, "the sweep does not vary", f"plots[{i}]")
        _check_values(plot, definition, f"plots[{i}]")


def _check_names(given: Mapping[str, str | None], there: list[str], wrong: str, place: str) -> None:
    for field, name in given.items():
        if name is not None and name not in there:
            raise Refused(f"{wrong} {shown(name)}", near(name, there), key=f"{place}.{field}")


def _check_values(plot: Plot, definition: Definition, place: str) -> None:
    """Rejects a value at which a key is to be held, and which the sweep does not give it."""
    varied = {column.key: column for column in columns(definition)}
    for group in definition.groups:
        for i, key in enumerate(group.keys):
            column = varied.get(key)
            if key not in plot.at or column is None or group.sampled:
                continue
            given = [row[i] for row in group.rows]
            if column.typed(plot.at[key]) not in [column.typed(value) for value in given]:
                found = f"the sweep does not give it {shown(plot.at[key])}"
                raise Refused(found, f"there are: {', '.join(map(str, given[:20]))}", key=f"{place}.at.{key}")
