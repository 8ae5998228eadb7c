"""The tables ``[sweep]`` and ``[search]`` of files, and the same keys given as options or arguments.

Each field's description says what it takes; error messages quote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, ValidationError

from knee.errors import Refused
from knee.scenario import Plain
from knee.scenario.fields import Table
from knee.scenario.rejection import refused
from knee.scenario.units import near, shown

#: Most samples: drawing as many takes a few seconds.
MOST_SAMPLES = 100_000
#: Most choices that a search tries, and most that are proposed together.
MOST_TRIALS, MOST_BATCH = 100_000, 1000

#: What ``knee plot`` draws of a sweep.
Kind = Literal["lines", "bar", "box", "ecdf", "heat", "pareto"]
#: The figure that is drawn by default, and by kind where it is another.
FIGURE, FIGURES = "queue_delay_mean_ms", {"pareto": "utilization"}
#: How samples are drawn, as scipy.stats.qmc does it.
Sampling = Literal["latin", "random", "sobol"]
#: How proposals are made: tree-structured Parzen estimators, at random, or by a genetic algorithm.
Sampler = Literal["tpe", "random", "nsga2"]


def _key(value: Any) -> Any:
    if not isinstance(value, str):
        raise Refused(f"{shown(value)} is not a key", 'expected such as "link.rate"')
    return value


def _keys(value: Any) -> Any:
    if not isinstance(value, list):
        raise Refused(f"{shown(value)} is not a list of keys", 'expected such as ["link.rate", "link.limit"]')
    return value


def _one_or_two(value: Any) -> Any:
    """One text stands for a list of it."""
    if not isinstance(value, str | list):
        raise Refused(f"{shown(value)} has the wrong type", "expected text in quotes, or a list of two")
    return [value] if isinstance(value, str) else value


def _sense(value: Any) -> Any:
    words = ["max", "min"]
    for word in value if isinstance(value, list) else [value]:
        if word not in words:
            raise Refused(f"{shown(word)} is not known", near(str(word), words))
    return value


Key = Annotated[str, BeforeValidator(_key)]
Keys = Annotated[list[Key], BeforeValidator(_keys)]


class Sweep(Table):
    """The table ``[sweep]``."""

    over: dict[str, Any] = Field({}, description="a table of keys with their values")
    zip: list[Keys] = Field([], description="a list of lists of keys")
    derive: dict[str, str] = Field({}, description="a table of keys with expressions")
    seeds: int = Field(1, ge=1, description="1 or more")
    samples: int | None = Field(None, ge=1, le=MOST_SAMPLES, description=f"1 to {MOST_SAMPLES}")
    sampling: Sampling = Field("latin", description="how samples are drawn")
    sampling_seed: int = Field(1, description="a whole number")


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


class Search(Table):
    """The table ``[search]``; None leaves what :class:`knee.study.searches.plan.Plan` has."""

    figure: Annotated[list[str], BeforeValidator(_one_or_two)] = Field([], description="the name of a figure, or two")
    goal: Annotated[list[str], BeforeValidator(_sense), BeforeValidator(_one_or_two)] = Field(
        [], description='"max" or "min", or a list of two'
    )
    exceeds: float | None = Field(None, description="a number")
    below: float | None = Field(None, description="a number")
    over: dict[str, Any] = Field({}, description="a table of keys with their bounds")
    zip: list[Keys] = Field([], description="a list of lists of keys")
    derive: dict[str, str] = Field({}, description="a table of keys with expressions")
    across: dict[str, Any] = Field({}, description="a table of keys with their values")
    summarize: Literal["mean", "worst"] | None = Field(None, description="the value across them")
    against: dict[str, Any] = Field({}, description="a table of keys with the values of the other variant")
    compare: Literal["ratio", "difference"] | None = Field(None, description="how to compare")
    seeds: int | None = Field(None, ge=1, le=1000, description="1 to 1000")
    trials: int | None = Field(None, ge=1, le=MOST_TRIALS, description=f"1 to {MOST_TRIALS}")
    batch: int | None = Field(None, ge=1, le=MOST_BATCH, description=f"1 to {MOST_BATCH}")
    search_seed: int | None = Field(None, ge=0, lt=2**32, description=f"0 to {2**32 - 1}")
    sampler: Sampler | None = Field(None, description="how choices are proposed")
    findings: int | None = Field(None, ge=0, le=100, description="0 to 100")
    shrink: bool | None = Field(None, description="true or false")
    tolerance: float | None = Field(None, ge=0, le=1, description="0 to 1")
    keep: list[Key] = Field([], description="a list of keys")
    free: list[Key] = Field([], description="a list of keys")


#: Keys that are tables of keys of the scenario.
_TABLES = ("over", "derive", "across", "against", "at")
_EXPECTED = {
    Sweep: "expected [sweep] with a table over",
    Search: "expected [search] with a table over",
    Plot: "expected tables [[plots]]",
}
Section = TypeVar("Section", Sweep, Search, Plot)


def checked(kind: type[Section], given: Any, before: str = "") -> Section:
    """A section, whose keys are those that are given.

    Args:
        kind: which section.
        given: its plain data.
        before: the name of the table in a file; empty for options and arguments.

    Raises:
        Refused: names the key, what was found and what would be accepted.
    """
    if not isinstance(given, Mapping):
        raise Refused(f"{shown(given)} is not a table", _EXPECTED[kind], key=before)
    plain = {
        key: flat(value) if key in _TABLES and isinstance(value, Mapping) else value for key, value in given.items()
    }
    try:
        return kind.model_validate(plain)
    except ValidationError as error:
        found = refused(error, kind)
        raise Refused(found.found, found.accepted, ".".join(part for part in (before, found.key) if part)) from None


def said(section: Section) -> Plain:
    """The keys that are given, with their values."""
    return {key: getattr(section, key) for key in type(section).model_fields if key in section.model_fields_set}


def flat(table: Mapping[str, Any], before: str = "") -> Plain:
    """Nested tables as one with dotted keys, since TOML takes ``link.rate = ...`` for a table in a table."""
    keys: Plain = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            keys |= flat(value, f"{before}{key}.")
        else:
            keys[f"{before}{key}"] = value
    return keys
