"""The types of fields in scenario files: names, and quantities as integers in base units (ns, bit/s, bytes)."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf, PlainSerializer

from knee.errors import Refused
from knee.scenario import units


def one_line(text: str) -> str:
    """Refuses what is not one line of printable text."""
    if not text.isprintable() or len(text) > 200:
        raise Refused(f"{units.shown(text)} is not a line of text", "expected at most 200 printable characters")
    return text


def valid_name(text: str) -> str:
    """Refuses what cannot name a part of a scenario."""
    one_line(text)
    if not text.strip() or text != text.strip() or len(text) > 100:
        raise Refused(
            f"{units.shown(text)} is not a valid name", "expected 1 to 100 characters without spaces at the ends"
        )
    return text


def plain_number(value: Any) -> Any:
    """Refuses a whole number that a float cannot hold."""
    if isinstance(value, int) and abs(value) > 2**53:
        raise Refused(f"{units.shown(value)} is out of range", "expected a plain number such as 0.01")
    return value


Text = Annotated[str, AfterValidator(one_line)]
Name = Annotated[str, AfterValidator(valid_name)]
Time = Annotated[int, BeforeValidator(units.parse_time), PlainSerializer(units.format_time)]
SomeTime = Annotated[int, BeforeValidator(partial(units.parse_time, zero=False)), PlainSerializer(units.format_time)]
Rate = Annotated[int, BeforeValidator(units.parse_rate), PlainSerializer(units.format_rate)]
Bytes = Annotated[int, BeforeValidator(units.parse_bytes), PlainSerializer(units.format_bytes)]
SomeBytes = Annotated[int, BeforeValidator(partial(units.parse_bytes, zero=False)), PlainSerializer(units.format_bytes)]
Limit = Annotated[InstanceOf[units.Limit], BeforeValidator(units.parse_limit), PlainSerializer(str)]
Probability = Annotated[float, BeforeValidator(plain_number), Field(ge=0, le=1)]


class Table(BaseModel):
    """A table of a scenario file."""

    # Built once, as parts of Scenario, instead of each also for itself.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    def plain(self) -> dict[str, Any]:
        """The table as a scenario file writes it."""
        return self.model_dump(exclude_none=True)
