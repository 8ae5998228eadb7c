"""The types of fields in scenario files: names, codepoints, and quantities in base units (ns, bit/s, bytes).

Codepoints are those of DSCP (RFC 2474), by name and number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
    WithJsonSchema,
)

from knee.errors import Refused
from knee.scenario import Plain, units
from knee.scenario.frozen import frozen, refuse
from knee.scenario.units import near, shown


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


def written(*kinds: units.Kind) -> WithJsonSchema:
    """How a quantity of one of these kinds is written, for the JSON schema of scenario files."""
    return WithJsonSchema({"type": "string", "pattern": units.pattern(*kinds)})


Text = Annotated[str, AfterValidator(one_line)]
Name = Annotated[str, AfterValidator(valid_name)]
_A_TIME = (PlainSerializer(units.format_time), written("time"))
_A_SIZE = (PlainSerializer(units.format_bytes), written("bytes"))
Time = Annotated[int, BeforeValidator(units.parse_time), *_A_TIME]
SomeTime = Annotated[int, BeforeValidator(partial(units.parse_time, zero=False)), *_A_TIME]
Rate = Annotated[int, BeforeValidator(units.parse_rate), PlainSerializer(units.format_rate), written("rate")]
Bytes = Annotated[int, BeforeValidator(units.parse_bytes), *_A_SIZE]
SomeBytes = Annotated[int, BeforeValidator(partial(units.parse_bytes, zero=False)), *_A_SIZE]
Limit = Annotated[
    InstanceOf[units.Limit],
    BeforeValidator(units.parse_limit),
    PlainSerializer(str),
    written("packets", "bytes", "time"),
]
Probability = Annotated[float, BeforeValidator(plain_number), Field(ge=0, le=1)]


class Table(BaseModel):
    """A table of a scenario file; neither it nor what it holds changes."""

    # Built once, as parts of Scenario, instead of each also for itself.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    def model_post_init(self, _: Any) -> None:
        """Freezes what it holds."""
        held = self.__dict__
        held.update({key: frozen(value) for key, value in held.items() if isinstance(value, list | dict)})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields replaced, which are not checked."""
        return super().model_copy(update={key: frozen(value) for key, value in (update or {}).items()}, deep=deep)

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> NoReturn:
            refuse(f"{name} = {value!r}")

        def __delattr__(self, name: str) -> NoReturn:
            refuse(f"del {name}")

    def plain(self) -> Plain:
        """The table as a scenario file writes it."""
        return self.model_dump(exclude_none=True)


#: By name: class selectors (RFC 2474), assured forwarding (RFC 2597), expedited forwarding (RFC 3246), voice admit
#: (RFC 5865), lower effort (RFC 8622), non-queue-building (RFC 9956).
CODEPOINTS = {
    **{f"CS{i}": 8 * i for i in range(8)},
    **{f"AF{i}{j}": 8 * i + 2 * j for i in range(1, 5) for j in range(1, 4)},
    "EF": 46,
    "VA": 44,
    "LE": 1,
    "NQB": 45,
}
_CODEPOINT = 'expected a name such as "EF", "AF41" or "CS1", or a number from 0 to 63'


def _parse_dscp(given: object) -> int:
    if isinstance(given, str):
        found = CODEPOINTS.get(given.upper())
        if found is None:
            raise Refused(f"{shown(given)} is no codepoint", f"{_CODEPOINT}; {near(given.upper(), [*CODEPOINTS])}")
        return found
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= 63:
        raise Refused(f"{shown(given)} is no codepoint", _CODEPOINT)
    return given


def _dscp_text(dscp: int) -> str | int:
    """Its name, or its number where it has none."""
    return next((name for name, number in CODEPOINTS.items() if number == dscp), dscp)


#: A codepoint, as a number.
Dscp = Annotated[
    int,
    BeforeValidator(_parse_dscp),
    PlainSerializer(_dscp_text),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0, "maximum": 63}, {"type": "string"}]}),
]
