"""Scenarios: TOML files, checked, with every default filled in.

Names are imported on first use, since listing the shipped scenarios does not need the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knee.scenario.loading import from_dict, from_toml, load
    from knee.scenario.model import Change, Flow, Link, Reverse, Run, Scenario, Tcp

__all__ = ["Change", "Flow", "Link", "Reverse", "Run", "Scenario", "Tcp", "from_dict", "from_toml", "load"]

#: Plain data of a scenario, a sweep or a search, as TOML gives it: keys with text, numbers, lists and tables.
Plain = dict[str, Any]
#: Changes to a scenario, as of ``--set``: ``["link.rate=5 Mbit/s"]``, or ``{"link.rate": "5 Mbit/s"}``.
Changes = Sequence[str] | Mapping[str, Any]
#: Data in the form that the core takes, as of ``crates/knee-net/src/spec.rs``.
Core = dict[str, Any]

_FUNCTIONS = {"from_dict", "from_toml", "load"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'knee.scenario' has no attribute {name!r}")
    home = "knee.scenario.loading" if name in _FUNCTIONS else "knee.scenario.model"
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
