"""Times the parts of a warm run in memory: python scripts/run_parts.py SCENARIO [CHANGE...].

It prints the least processor time of each, ms. A part that lies within another is not counted in that other.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import knee
from knee import _core
from knee.grounds import ground, memory, runner, sim

#: What is timed: the place of each function, its name there, and the part that it is.
_PARTS: list[tuple[Any, str, str]] = [
    (runner, "prepare", "the other checks before the run"),
    (runner, "_scenario", "the file read, the scenario checked"),
    (ground.Ground, "compile", "digests of files, the core's specification"),
    (memory, "check", "the memory that it needs"),
    (sim, "simulate", "to the core and back"),
    (_core, "simulate", "the core"),
    (sim, "measured", "columns for figures, remarks of the ground"),
    (ground.Measured, "summary", "the summary"),
    (ground.Measured, "result", "the manifest"),
]
#: Runs that are timed.
_RUNS = 200


class Clock:
    """The time of each part in a run, s, without what lies within."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._inner: list[float] = [0.0]

    def timed(self, part: str, run: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose time counts for a part."""

        def measured(*given: Any, **named: Any) -> Any:
            begin = time.process_time()
            self._inner.append(0.0)
            try:
                return run(*given, **named)
            finally:
                took = time.process_time() - begin
                self.spent[part] += took - self._inner.pop()
                self._inner[-1] += took

        return measured


def _main() -> None:
    name, *changes = sys.argv[1:]
    knee.run(name, set=changes)
    clock = Clock()
    for place, function, part in _PARTS:
        setattr(place, function, clock.timed(part, getattr(place, function)))
    run, all_runs = clock.timed("the rest", knee.run), []
    for _ in range(_RUNS):
        clock.spent.clear()
        packets = run(name, set=changes).summary["packets"]
        all_runs.append(dict(clock.spent))
    print(f"{min(sum(each.values()) for each in all_runs) * 1e3:6.2f} a run of {packets} packets")
    for part in [part for _, _, part in _PARTS] + ["the rest"]:
        print(f"{min(each.get(part, 0.0) for each in all_runs) * 1e3:6.2f} {part}")


if __name__ == "__main__":
    _main()
