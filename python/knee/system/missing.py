"""Something that this machine lacks, as grounds and kernel tools report it."""

from __future__ import annotations

from dataclasses import dataclass

from knee.system import abilities


@dataclass(frozen=True)
class Missing:
    """Something that a ground needs and this machine lacks.

    Attributes:
        what: what is missing, such as ``no program flex``.
        mend: how to get it, such as ``apt-get install flex``.
    """

    what: str
    mend: str

    def __str__(self) -> str:
        return f"{self.what}: {self.mend}"


#: How root runs this program: ``sudo`` does not look in the user's environment.
AS_ROOT = 'sudo "$(command -v knee)"'


def linux() -> list[Missing]:
    """What a ground that runs Linux's kernel or its programs lacks on another system."""
    name = abilities.system()
    return [] if name == "Linux" else [Missing(f"this is {name}", "this ground needs Linux")]
