"""The criteria of a suite, as its file states them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from knee.errors import InputError
from knee.figures.register import RUN, Entry
from knee.scenario import Plain
from knee.scenario.loading import apply
from knee.scenario.units import near, shown

#: The files of the suites; the first is the default.
SUITES = {"rfc9743": "criteria.toml", "bbr": "bbr.toml"}
DEFAULT = next(iter(SUITES))
#: The congestion control of a criterion's scenario in whose place the algorithm under evaluation comes.
PLACE = "X"
As = Literal["value", "share", "harm"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Check(_Table):
    """A figure of a scenario, and what is asked of it.

    Attributes:
        figure: a figure of a run (``figures/register.csv``).
        of: the label of the flows that it is computed over; by default all.
        as_: the figure itself, its share of that of all flows, or the harm to these flows: the part of it that they
            lose compared with a run without the algorithm (Ware et al., HotNets 2019).
        at_most, at_least, no_worse: the threshold, in the register's unit; ``no_worse`` is a factor of the worst
            deployed algorithm's figure. One of the three.
        source: where the threshold comes from, or the argument for it.
        only: the scenarios that have this check; by default all of the criterion's.
    """

    figure: str
    of: str = ""
    as_: As = Field(default="value", alias="as")
    at_most: float | None = None
    at_least: float | None = None
    no_worse: float | None = Field(default=None, gt=1)
    source: str = Field(min_length=10)
    only: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _whole(self) -> Check:
        if self.figure not in RUN or not RUN[self.figure].better:
            raise ValueError(f"{self.figure} is no figure of a run that is better or worse")
        if sum(each is not None for each in (self.at_most, self.at_least, self.no_worse)) != 1:
            raise ValueError(f"{self.figure} needs one of at_most, at_least and no_worse")
        if self.as_ != "value" and not self.of:
            raise ValueError(f"{self.figure}: a share or harm needs the flows that it is of")
        return self

    @property
    def known(self) -> Entry:
        """The figure in the register."""
        return RUN[self.figure]

    @property
    def less(self) -> bool:
        """Whether less is better."""
        if self.no_worse is None:
            return self.at_most is not None
        return self.as_ == "harm" or (self.as_ == "value" and self.known.better == "less")

    @property
    def key(self) -> str:
        """The name of the check among those of its scenario."""
        parts = [self.figure, *([] if self.as_ == "value" else [self.as_]), *([self.of] if self.of else [])]
        return "-".join([*parts, *(["most"] if self.at_most is not None and self.as_ == "share" else [])])


class Case(_Table):
    """A scenario of a criterion.

    Attributes:
        name: its name within the criterion.
        about: what it is, in a few words.
        quick: whether ``--quick`` runs it.
        text: the scenario; by default the criterion's.
        set_: changes to it, as of ``--set``.
    """

    name: str
    about: str
    quick: bool = False
    text: str = ""
    set_: tuple[str, ...] = Field(default=(), alias="set")


class Criterion(_Table):
    """A criterion: a question of the suite's document, scenarios, and what is asked of their figures."""

    key: str
    title: str
    section: str
    question: str
    text: str
    scenario: tuple[Case, ...] = Field(min_length=1)
    check: tuple[Check, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _named(self) -> Criterion:
        names = {case.name for case in self.scenario}
        for check in self.check:
            if not set(check.only) <= names:
                raise ValueError(f"{self.key}: {check.figure}: only names {sorted(set(check.only) - names)}")
        return self

    def name(self, case: Case) -> str:
        """The name of a scenario among those of all criteria; one without a name is the only one of its criterion."""
        return f"{self.key}-{case.name}" if case.name else self.key

    def data(self, case: Case) -> Plain:
        """A scenario as plain data, with :data:`PLACE` where the algorithm comes."""
        title = f"{self.title}: {case.about}"
        return {"title": title, **apply(tomllib.loads(case.text or self.text), case.set_)}

    def checks(self, case: Case) -> list[Check]:
        """The checks of a scenario's figures."""
        return [check for check in self.check if not check.only or case.name in check.only]


class Untested(_Table):
    """A section of the suite's document that no criterion covers, and why."""

    section: str
    title: str
    why: str


class Criteria(_Table):
    """The file of a suite.

    Attributes:
        document: whose criteria they are.
        deployed: the deployed algorithms in whose company a verdict is reached by default.
        criterion: the criteria.
        untested: what no criterion covers.
    """

    document: str
    deployed: tuple[str, ...] = Field(min_length=1)
    criterion: tuple[Criterion, ...]
    untested: tuple[Untested, ...]


@cache
def load(suite: str = DEFAULT) -> Criteria:
    """The criteria of a suite, one of :data:`SUITES`."""
    text = resources.files(__package__).joinpath(SUITES[suite]).read_text(encoding="utf-8")
    return Criteria.model_validate(tomllib.loads(text))


def chosen(names: Sequence[str] | None, suite: str = DEFAULT) -> list[Criterion]:
    """The criteria of these names, in the file's order; by default all.

    Raises:
        InputError: there is no such suite or criterion.
    """
    if suite not in SUITES:
        raise InputError(f"--suite: there is no suite {shown(suite)}; {near(suite, list(SUITES))}.")
    known = {criterion.key: criterion for criterion in load(suite).criterion}
    for name in names or ():
        if name not in known:
            raise InputError(f"--only: there is no criterion {shown(name)}; {near(name, list(known))}.")
    return [criterion for key, criterion in known.items() if not names or key in names]
