"""The tables ``[sweep]``, ``[search]`` and ``[[plots]]`` of files, and the same keys given as options or arguments.

The keys of the first two are those of requests (``requests.py``). Errors quote what a key takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar, cast

from pydantic import BaseModel, Field, ValidationError, create_model

from knee.errors import Refused, scenario_errors
from knee.scenario import Plain
from knee.scenario.fields import Table
from knee.scenario.frozen import frozen
from knee.scenario.rejection import refused
from knee.scenario.units import native, shown
from knee.study.requests import KeyName as Key
from knee.study.requests import Kind, Search, Sweep
from knee.system.requests import defaults, keys

#: The figure that is drawn by default, and by kind where it is another.
FIGURE, FIGURES = "queue_delay_mean_ms", {"pareto": "utilization"}


class Plot(Table):
    """A table of ``[[plots]]``: a figure that a sweep draws at its end, as ``knee plot`` does."""

    kind: Kind = Field("lines", description="how to draw it")
    x: Key | None = Field(None, description="a key of the sweep; of a pareto plot a figure")
    y: Key | None = Field(None, description="the name of a figure")
    group: Key | None = Field(None, description="a key of the sweep")
    panels: Key | None = Field(None, description="a key of the sweep")
    at: dict[str, Any] = Field({}, description="a table of keys with their values")
    width: Literal["column", "page"] = Field("page", description="3.5 or 7 inches")
    file: str | None = Field(None, description="a file name that ends in .pdf, .svg, .png or .html")

    @property
    def figure(self) -> str:
        """The figure up; by default that of ``knee plot``."""
        return self.y or FIGURES.get(self.kind, FIGURE)


#: Keys that are tables of keys of the scenario.
_TABLES = ("over", "derive", "across", "against", "at")
_EXPECTED = {
    Sweep: "expected [sweep] with a table over",
    Search: "expected [search] with a table over",
}
_Section = TypeVar("_Section", Sweep, Search)
_Model = TypeVar("_Model", bound=BaseModel)


@cache
def _model(kind: Any) -> type[BaseModel]:
    """The model of a request's table."""
    fields: dict[str, Any] = {}
    for name, (form, key) in keys(kind).items():
        least, most = key.between
        fields[name] = (form, Field(None, ge=least, le=most, description=key.takes))
    # No Table, whose methods have the names of keys.
    return create_model(kind.__name__, __config__=Table.model_config, **fields)


def asked(kind: Any, given: Any, before: str = "") -> Plain:
    """The keys of a request that are given, as a file has them; errors are those of :func:`checked`."""
    section = checked(_model(kind), given, before, _EXPECTED.get(kind, ""))
    return {key: getattr(section, key) for key in type(section).model_fields if key in section.model_fields_set}


def taken(kind: Any, given: Mapping[str, Any], where: str) -> Plain:
    """The keys of a request that a program or a command line gives, checked, with its defaults.

    Raises:
        ScenarioError: names the request, the key, what was found and what would be accepted.
    """
    with scenario_errors(where):
        return defaults(kind) | asked(kind, {key: value for key, value in given.items() if value is not None})


def whole(kind: type[_Section], given: Mapping[str, Any]) -> _Section:
    """A request that is given so far, with its defaults; it does not change."""
    return cast(_Section, frozen(defaults(kind) | dict(given)))


def checked(kind: type[_Model], given: Any, before: str = "", expected: str = "expected tables [[plots]]") -> _Model:
    """A table of a model, whose keys are those that are given.

    Args:
        kind: the model.
        given: its plain data.
        before: the name of the table in a file; empty for options and arguments.
        expected: what errors say is accepted where it is no table.

    Raises:
        Refused: names the key, what was found and what would be accepted.
    """
    if not isinstance(given, Mapping):
        raise Refused(f"{shown(given)} is not a table", expected, key=before)
    plain = {
        key: flat(value) if key in _TABLES and isinstance(value, Mapping) else native(value)
        for key, value in given.items()
    }
    try:
        return kind.model_validate(plain)
    except ValidationError as error:
        found = refused(error, kind)
        raise Refused(found.found, found.accepted, ".".join(part for part in (before, found.key) if part)) from None


def flat(table: Mapping[str, Any], before: str = "") -> Plain:
    """Nested tables as one with dotted keys, since TOML takes ``link.rate = ...`` for a table in a table."""
    keys: Plain = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            keys |= flat(value, f"{before}{key}.")
        else:
            keys[f"{before}{key}"] = value
    return keys
