"""Grounds: the places where a scenario can run. Each is a module here and a line in :data:`GROUNDS`."""

from __future__ import annotations

from collections import UserDict
from pkgutil import resolve_name
from typing import Any, cast

from knee.errors import InputError, RunError
from knee.grounds.ground import Ground, Progress
from knee.scenario.units import near
from knee.system.missing import Missing

__all__ = ["GROUNDS", "Ground", "Missing", "Progress", "find", "ready"]


class _Grounds(UserDict[str, Any]):
    """Grounds by name, each imported on first use, since a run needs only one of them."""

    def __getitem__(self, name: str) -> Ground:
        known = self.data[name]
        if isinstance(known, str):
            known = self.data[name] = resolve_name(known)()
        return cast(Ground, known)


#: Every ground of this version by name.
GROUNDS = _Grounds(
    {
        "sim": "knee.grounds.sim:Sim",
        "uml": "knee.grounds.uml.ground:Uml",
        "host": "knee.grounds.host.host:Host",
    }
)


def find(name: str) -> Ground:
    """The ground of that name.

    Raises:
        InputError: there is no such ground.
    """
    if name not in GROUNDS:
        raise InputError(f'There is no ground "{name}"; {near(name, list(GROUNDS))}.')
    return GROUNDS[name]


def ready(name: str) -> Ground:
    """The ground of that name, which works on this machine.

    Raises:
        InputError: there is no such ground.
        RunError: it does not work here; the message says what is missing and how to get it.
    """
    ground = find(name)
    missing = ground.missing()
    if missing:
        raise RunError(f"The ground {name} does not work here: {'; '.join(map(str, missing))}.")
    return ground
