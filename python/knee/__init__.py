"""knee: a laboratory for low-delay networking.

One scenario file, several grounds, one kind of result::

    import knee

    result = knee.run("hello")
    result.summary["fairness"]["jain"]
    result.samples.filter(pl.col("flow") == 1)

Names are imported on first use, so ``import knee`` alone is quick and needs little memory.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knee.errors import FolderError, InputError, KneeError, RunError, ScenarioError
    from knee.own import CongestionControl
    from knee.result import Result
    from knee.runner import run
    from knee.scenario import Scenario, load
    from knee.studies import compare, matrix, open_search, open_sweep, search, sweep

__all__ = [
    "CongestionControl",
    "FolderError",
    "InputError",
    "KneeError",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "__version__",
    "compare",
    "load",
    "matrix",
    "open_search",
    "open_sweep",
    "run",
    "search",
    "sweep",
]

_HOME = {
    **dict.fromkeys(["FolderError", "InputError", "KneeError", "RunError", "ScenarioError"], "knee.errors"),
    "CongestionControl": "knee.own",
    "Result": "knee.result",
    "run": "knee.runner",
    "Scenario": "knee.scenario",
    "load": "knee.scenario",
    **dict.fromkeys(["compare", "matrix", "open_search", "open_sweep", "search", "sweep"], "knee.studies"),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("knee._core").version()
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'knee' has no attribute {name!r}")
