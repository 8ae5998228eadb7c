"""What this machine lacks; apart from the grounds and from the kernel's tools, since both say it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Missing:
    """Something that a ground needs and this machine lacks.

    Attributes:
        what: what is not there, such as ``no program flex``.
        mend: how to get it, such as ``apt-get install flex``.
    """

    what: str
    mend: str
