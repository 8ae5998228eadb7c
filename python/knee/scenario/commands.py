"""The command lines of flows that are programs: how they are written, and what is filled in."""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Mapping

from knee.errors import Refused
from knee.scenario.units import near, shown

#: The value of ``cc`` of a flow that is a program.
PROGRAM_CC = "program"
#: What is filled into a command line: the receiver's address and port, and how long the flow lasts, in s and in ms.
FIELDS = ("address", "port", "duration", "duration_ms")
_EXAMPLE = 'expected a command line such as "iperf3 -c {address} -p {port} -t {duration}"'
#: The longest command line, characters.
_LONGEST = 4000


def words(command: str) -> list[str]:
    """The words of a command line, quoted as for a shell; nothing else of a shell is understood.

    Raises:
        Refused: it has none, or a quote is open, or braces hold something else than :data:`FIELDS`.
    """
    if not command.isprintable() or len(command) > _LONGEST:
        raise Refused("it is not one line of text", _EXAMPLE)
    try:
        found = shlex.split(command)
    except ValueError as error:
        raise Refused(f"{shown(command)} cannot be split into words ({error})", _EXAMPLE) from None
    if not found or not found[0]:
        raise Refused("there is no program in it", _EXAMPLE)
    for word in found:
        fill(word, dict.fromkeys(FIELDS, ""))
    return found


def fill(word: str, values: Mapping[str, str]) -> str:
    """A word with ``{address}`` and the other :data:`FIELDS` filled in; ``{{`` and ``}}`` are braces.

    Raises:
        Refused: other braces.
    """
    braces = "{{ and }} are the braces themselves"
    try:
        parts = list(string.Formatter().parse(word))
    except ValueError:
        raise Refused(f"{shown(word)} has an open brace", braces) from None
    text = ""
    for literal, name, form, conversion in parts:
        text += literal
        if name is None:
            continue
        if name not in values or form or conversion:
            raise Refused(f"{shown('{' + name + '}')} is not filled in", f"{near(name, list(values))}; {braces}")
        text += values[name]
    return text


def tells_duration(command: str) -> bool:
    """Whether a program is told how long its flow lasts."""
    names = {name for word in words(command) for _, name, _, _ in string.Formatter().parse(word)}
    return bool(names & {"duration", "duration_ms"})


def check_pattern(pattern: str) -> str:
    """A pattern that finds an RTT in a line.

    Raises:
        Refused: it is no regular expression, or has not exactly one group.
    """
    accepted = "expected a regular expression with one group, the number, such as 'rtt ([0-9.]+) ms'"
    try:
        groups = re.compile(pattern).groups
    except (re.error, RecursionError, OverflowError) as error:
        raise Refused(f"{shown(pattern)} is not a regular expression ({error})", accepted) from None
    if groups != 1:
        raise Refused(f"{shown(pattern)} has {groups} groups", accepted)
    return pattern
