"""The papers' numbers and claims, item by item: the data files ``items/<paper>.toml``, and the verdict on each.

An item sets one published number or claim beside one computed quantity. How far the two may lie apart stands in the
data, with its reason, and nowhere in the code. A table of numbers is a CSV file, ``[[table]]`` in ``tables.py``.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from knee.judging.verdict import Verdict

#: A computed quantity; None if it does not exist, like the time of a convergence that never happened.
Value = float | bool | None
Quantities = Mapping[str, Value]


class ItemVerdict(Verdict):
    """The verdict on an item."""

    REPRODUCED = "reproduced", "yes"
    #: It holds in some draws of what the paper leaves to chance, and not in others.
    UNDECIDED = "undecided", "idle"
    #: The paper's own numbers contradict it.
    CONTRADICTORY = "contradictory", "idle"
    DIFFERS = "differs", "no"
    NOT_RUN = "not run", "idle"


def _tolerance(given: object) -> object:
    """``"10 %"`` as (0.1, relative), a plain number as (that, absolute)."""
    if isinstance(given, str):
        number, percent, rest = given.partition("%")
        if not percent or rest.strip():
            raise ValueError(f'"{given}" is not a tolerance; expected a number in the unit of the value, or "10 %"')
        return (float(number) / 100, True)
    return (given, False)


class Comparison(BaseModel):
    """How a computed quantity is compared with a value.

    Attributes:
        computed: the name of the quantity, of those its experiment computes.
        compare: ``within``: no further from the value than the tolerance. ``at least``, ``at most``: a bound, missed by
            no more than the tolerance. ``ratio``: neither is more than ``tolerance`` times the other. ``claim``: a yes.
        value: the paper's; for a claim 1.
        tolerance: a number in the unit of the value, or text such as ``"10 %"`` of the value.
        reason: why that tolerance; needed where there is one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    computed: str
    compare: Literal["within", "at least", "at most", "ratio", "claim"]
    value: float = 1.0
    unit: str = ""
    tolerance: Annotated[tuple[float, bool], BeforeValidator(_tolerance)] = (0.0, False)
    reason: str = ""

    @model_validator(mode="after")
    def _reasoned(self) -> Comparison:
        if self.tolerance[0] < 0 or not math.isfinite(self.tolerance[0]):
            raise ValueError(f"{self.computed}: a tolerance is a number from 0")
        if self.tolerance[0] > 0 and not self.reason:
            raise ValueError(f"{self.computed}: a tolerance needs a reason")
        if self.compare == "ratio" and (self.tolerance[1] or self.tolerance[0] < 1):
            raise ValueError(f"{self.computed}: the tolerance of a ratio is a factor from 1")
        return self

    @property
    def room(self) -> float:
        """The tolerance in the unit of the value."""
        size, relative = self.tolerance
        return size * abs(self.value) if relative else size

    def holds(self, found: Value) -> bool:
        """Whether ``found`` passes the comparison."""
        if found is None or (isinstance(found, float) and math.isnan(found)):
            return False
        if self.compare == "claim":
            return bool(found)
        if self.compare == "within":
            return abs(found - self.value) <= self.room
        if self.compare == "at least":
            return found >= self.value - self.room
        if self.compare == "at most":
            return found <= self.value + self.room
        return found * self.value > 0 and max(found / self.value, self.value / found) <= self.tolerance[0]


class CauseCheck(BaseModel):
    """A run that changes nothing but the presumed cause of a difference.

    It explains the difference if its quantity passes the item's own comparison, with the item's own tolerance.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: str
    computed: str


class Item(Comparison):
    """One published number or claim.

    Attributes:
        key: names the item, unlike all others of the paper.
        experiment: the key of the experiment that computes its quantity.
        id, where, scenario, flow, quantity, printed: as in the table of published results; ``printed`` is the value as
            text, given where it is not just the number.
        column: the column of a printed table that it comes from; counts are by these.
        says: what the paper says, in our words.
        explanation, check: why it differs, where it does, and the run that shows it.
        unknown: for an item that differs without a cause that a run shows: what was found out about it.
        undecided: whether it holds in some draws only; then ``unknown`` is what is known of it.
        contradiction: the law that the printed number breaks together with others of its table, with the arithmetic.
        negative: the experiment's change of its runs (:class:`Negative`) with which it fails.
        no_negative: why no other algorithm or queue could tell the item apart, where there is no ``negative``.
        quick: whether the short form (``--quick``) judges it too; where not, ``reason`` says why.
    """

    key: str
    experiment: str
    says: str
    id: str = ""
    where: str = ""
    scenario: str = ""
    flow: str = ""
    quantity: str = ""
    column: str = ""
    printed: str | None = None
    explanation: str = ""
    check: CauseCheck | None = None
    unknown: str = ""
    undecided: bool = False
    contradiction: str = ""
    negative: str = ""
    no_negative: str = ""
    quick: bool = True

    @field_validator("key")
    @classmethod
    def _plain_key(cls, key: str) -> str:
        if not key.replace("-", "").replace("_", "").isalnum():
            raise ValueError(f'"{key}" is not a key; expected letters, digits and dashes')
        return key

    @model_validator(mode="after")
    def _consistent(self) -> Item:
        if bool(self.explanation) != (self.check is not None):
            raise ValueError(f"{self.key}: an explanation needs a check, and a check an explanation")
        if self.explanation and self.unknown:
            raise ValueError(f"{self.key}: a cause is either explained or unknown")
        if self.negative and self.no_negative:
            raise ValueError(f"{self.key}: an item with a negative needs no reason for having none")
        return self

    @property
    def differs(self) -> bool:
        """Whether the data say that the item differs."""
        return self.expected is ItemVerdict.DIFFERS

    @property
    def expected(self) -> ItemVerdict:
        """The verdict that the data say it gets."""
        if self.contradiction:
            return ItemVerdict.CONTRADICTORY
        if self.undecided:
            return ItemVerdict.UNDECIDED
        return ItemVerdict.DIFFERS if self.explanation or self.unknown else ItemVerdict.REPRODUCED

    def verdict(self, draws: Sequence[Quantities]) -> ItemVerdict:
        """The verdict for the quantities of each draw."""
        if self.contradiction:
            return ItemVerdict.CONTRADICTORY
        held = [self.holds(quantities[self.computed]) for quantities in draws]
        if all(held):
            return ItemVerdict.REPRODUCED
        return ItemVerdict.UNDECIDED if any(held) else ItemVerdict.DIFFERS

    def explained(self, draws: Sequence[Quantities]) -> bool:
        """Whether a run that changes the presumed cause alone passes the item's own comparison, in every draw."""
        return self.check is not None and all(self.holds(quantities[self.check.computed]) for quantities in draws)


class PaperText(BaseModel):
    """The head of a paper's page: its title, source and address, and what was run of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    source: str
    address: str = ""
    about: str


@dataclass(frozen=True)
class Negative:
    """A change of an experiment's runs with which its items must fail: another algorithm, another queue, no mechanism.

    The experiment's quantities are computed again, by the same ``measure``, from the changed runs.

    Attributes:
        says: what is changed.
        changes: additional overrides of the runs, each made once, in the short form.
        only: the names of the runs that are changed; all if empty.
        swap: results that stand in for those of other runs, by the names of both; they need no runs of their own.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    says: str
    changes: Sequence[str] = ()
    only: Sequence[str] = ()
    swap: Mapping[str, str] = field(default_factory=dict)


class ExperimentText(BaseModel):
    """The text of an experiment.

    Attributes:
        title: its heading, with the figure's number.
        about: what is run and what to look at, in one or two paragraphs.
        conclusion: the answer to a question that the paper leaves open, with quantities as :func:`filled` takes them.
        negatives: changes of its runs with which its items must fail, by the names that items use.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    about: str
    conclusion: str = ""
    negatives: dict[str, Negative] = Field(default_factory=dict)


class Items(BaseModel):
    """A paper's data file: its text, items, and findings on open questions, which get no verdict.

    Attributes:
        paper, experiment: the text of the paper, and that of its experiments by their keys.
        proposes: the congestion control or queue discipline of the registry that the paper introduces; empty if it
            compares existing ones.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    proposes: str = ""
    paper: PaperText
    experiment: dict[str, ExperimentText]

    item: list[Item] = Field(default_factory=list)
    finding: list[Item] = Field(default_factory=list)

    @model_validator(mode="after")
    def _keys_differ(self) -> Items:
        keys = [item.key for item in [*self.item, *self.finding]]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise ValueError(f"two items are named {sorted(twice)[0]}")
        return self

    def of(self, experiment: str) -> list[Item]:
        """The items and findings of an experiment."""
        return [item for item in [*self.item, *self.finding] if item.experiment == experiment]


def filled(text: str, quantities: Quantities) -> str:
    """A text with quantities in the place of their names and formats, as in ``{delay:.1f}`` and ``{share:.0%}``."""

    def quantity(found: re.Match[str]) -> str:
        return format(float(quantities[found[1]] or 0), found[2]).replace("%", " %")

    return re.sub(r"\{([^:{}]+):([^{}]+)\}", quantity, text)


def published(paper: str, experiment: str = "") -> dict[str, float]:
    """The values of a paper's items, or of one experiment's, by the quantities that they are compared with."""
    return {item.computed: item.value for item in load(paper).item if experiment in ("", item.experiment)}


def load(paper: str) -> Items:
    """Loads the items of a paper by its key."""
    from knee.papers.tables import Table

    text = resources.files(__package__).joinpath("items", f"{paper}.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    tables = [Table.model_validate(table) for table in data.pop("table", [])]
    fitted = {key for table in tables for key in table.calibrates}
    cells = [cell for table in tables for cell in table.items()]
    for kind in ("item", "finding"):
        printed = [cell for cell in cells if (cell["key"] in fitted) is (kind == "finding")]
        data[kind] = [*printed, *data.get(kind, [])]
    return Items.model_validate(data)
