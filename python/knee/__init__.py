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
    from knee import gym as gym
    from knee import score as score
    from knee._core import Ack, Control, Packet, QueueContext
    from knee.errors import FolderError, InputError, KneeError, PhysicsError, ProgramError, RunError, ScenarioError
    from knee.figures import physics
    from knee.grounds.simulation import Observation, Simulation
    from knee.network import Network
    from knee.own import CongestionControl, Queue
    from knee.results.result import Result
    from knee.scenario import Scenario, load
    from knee.scenario.declared import Param
    from knee.scenario.requests import RunOptions
    from knee.study import batch, fidelity
    from knee.study.api import compare, matrix, open_search, open_sweep, search, sweep
    from knee.study.opening import open  # noqa: A004 - always called knee.open
    from knee.study.requests import StudyOptions
    from knee.study.searches import Search
    from knee.study.seeds import run
    from knee.study.sweeps import Sweep
    from knee.view.figure import Figure

    __version__: str

__all__ = [
    "Ack",
    "CongestionControl",
    "Control",
    "Figure",
    "FolderError",
    "InputError",
    "KneeError",
    "Network",
    "Observation",
    "Packet",
    "Param",
    "PhysicsError",
    "ProgramError",
    "Queue",
    "QueueContext",
    "Result",
    "RunError",
    "RunOptions",
    "Scenario",
    "ScenarioError",
    "Search",
    "Simulation",
    "StudyOptions",
    "Sweep",
    "__version__",
    "batch",
    "compare",
    "fidelity",
    "load",
    "matrix",
    "open",
    "open_search",
    "open_sweep",
    "physics",
    "run",
    "search",
    "sweep",
]

_HOME = {
    **dict.fromkeys([name for name in __all__ if name.endswith("Error")], "knee.errors"),
    "Ack": "knee._core",
    "CongestionControl": "knee.own",
    "Control": "knee._core",
    "Network": "knee.network",
    "Packet": "knee._core",
    "Queue": "knee.own",
    "QueueContext": "knee._core",
    "Figure": "knee.view.figure",
    "Param": "knee.scenario.declared",
    "Result": "knee.results.result",
    "RunOptions": "knee.scenario.requests",
    **dict.fromkeys(["Observation", "Simulation"], "knee.grounds.simulation"),
    "Search": "knee.study.searches",
    "StudyOptions": "knee.study.requests",
    "Sweep": "knee.study.sweeps",
    "run": "knee.study.seeds",
    "Scenario": "knee.scenario",
    "load": "knee.scenario",
    **dict.fromkeys(["compare", "matrix", "open_search", "open_sweep", "search", "sweep"], "knee.study.api"),
    "open": "knee.study.opening",
}


#: Modules that the documentation names as the package's own; gym needs an extra, and says so.
_MODULES = {
    "batch": "knee.study.batch",
    "fidelity": "knee.study.fidelity",
    "gym": "knee.gym",
    "physics": "knee.figures.physics",
    "score": "knee.score",
}


# Type checkers would take any name for one that is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return import_module("knee._core").version()
        if name in _HOME:
            value = getattr(import_module(_HOME[name]), name)
            globals()[name] = value
            return value
        if name in _MODULES:
            return import_module(_MODULES[name])
        raise AttributeError(f"module 'knee' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
