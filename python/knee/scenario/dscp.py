"""Codepoints of packets (DSCP, RFC 2474), by name and number."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from knee.errors import Refused
from knee.scenario.units import near, shown

#: By name: class selectors (RFC 2474), assured forwarding (RFC 2597), expedited forwarding (RFC 3246), voice admit
#: (RFC 5865), lower effort (RFC 8622), non-queue-building (RFC 9956).
NAMES = {
    **{f"CS{i}": 8 * i for i in range(8)},
    **{f"AF{i}{j}": 8 * i + 2 * j for i in range(1, 5) for j in range(1, 4)},
    "EF": 46,
    "VA": 44,
    "LE": 1,
    "NQB": 45,
}
_ACCEPTED = 'expected a name such as "EF", "AF41" or "CS1", or a number from 0 to 63'


def _parse(given: object) -> int:
    if isinstance(given, str):
        found = NAMES.get(given.upper())
        if found is None:
            raise Refused(f"{shown(given)} is no codepoint", f"{_ACCEPTED}; {near(given.upper(), [*NAMES])}")
        return found
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= 63:
        raise Refused(f"{shown(given)} is no codepoint", _ACCEPTED)
    return given


def _text(dscp: int) -> str | int:
    """Its name, or its number where it has none."""
    return next((name for name, number in NAMES.items() if number == dscp), dscp)


#: A codepoint, as a number.
Dscp = Annotated[int, BeforeValidator(_parse), PlainSerializer(_text)]
