"""Grounds: where a scenario can run. A ground is a file here and a line in :data:`GROUNDS`."""

from __future__ import annotations

from knee.errors import InputError, RunError
from knee.grounds.ground import Ground, Missing, Progress
from knee.grounds.host import Host
from knee.grounds.sim import Sim
from knee.grounds.uml.ground import Uml
from knee.units import near

__all__ = ["GROUNDS", "Ground", "Missing", "Progress", "find", "ready"]

#: Every ground of this version, by name.
GROUNDS: dict[str, Ground] = {ground.name: ground for ground in (Sim(), Uml(), Host())}


def find(name: str) -> Ground:
    """The ground of that name.

    Raises:
        InputError: where this version has none.
    """
    ground = GROUNDS.get(name)
    if ground is None:
        raise InputError(f'This version has no ground "{name}"; {near(name, list(GROUNDS))}.')
    return ground


def ready(name: str) -> Ground:
    """The ground of that name, which works on this machine.

    Raises:
        InputError: where this version has none.
        RunError: where something is missing here; it says what, and how to get it.
    """
    ground = find(name)
    missing = ground.missing()
    if missing:
        what = "; ".join(f"{part.what}: {part.mend}" for part in missing)
        raise RunError(f"The ground {name} does not work here: {what}.")
    return ground
