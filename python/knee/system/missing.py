"""Something that this machine lacks, as grounds and kernel tools report it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Missing:
    """Something that a ground needs and this machine lacks.

    Attributes:
        what: what is missing, such as ``no program flex``.
        mend: how to get it, such as ``apt-get install flex``.
    """

    what: str
    mend: str
