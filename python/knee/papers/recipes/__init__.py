"""The papers: a module each, loaded by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from knee.errors import InputError
from knee.scenario.units import near

if TYPE_CHECKING:
    from knee.papers.paper import Paper

#: In the order of the report.
NAMES = (
    "lola",
    "cocoa",
    "delay-aimd",
    "interactions",
    "fast",
    "timely",
    "compound",
    "bbr3",
    "quic",
    "l4s",
    "pam2025",
    "imc2021",
    "shares",
    "links",
    "search",
)


def paper(name: str) -> Paper:
    """The paper of that key.

    Raises:
        InputError: there is none.
    """
    if name not in NAMES:
        raise InputError(f'There is no paper "{name}"; {near(name, list(NAMES))}.')
    found: Paper = import_module(f"{__name__}.{name.replace('-', '_')}").PAPER
    return found
