"""Random scenarios with every feature obey the laws of :mod:`scenario_laws`, and memory does not grow.

::

    make soak N=10000                                      # or: python tests/soak.py 10000
    python tests/soak.py --first 4711 1 --keep failures    # one that failed, again

A scenario that fails is written to the folder of ``--keep`` as a file that ``knee run`` takes. Those that led to a mend
lie in ``tests/regressions``, which ``test_physics.py`` runs.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from typing import Any

from tomli_w import dumps

import knee
from knee.results.result import Result
from knee.scenario import from_dict
from random_scenarios import scenario
from scenario_laws import broken

#: Memory is compared between here and the end: what is loaded and cached once is there by then.
WARM = 500
#: A run that takes longer than this, in s of the thread's own time, works more than so short a scenario may ask for.
MOST_WORK_S = 30.0


class TooMuchWorkError(Exception):
    """A short scenario that keeps the simulator busy."""


def run(data: dict[str, Any]) -> Result:
    """Runs a scenario; too long a run ends with :class:`TooMuchWorkError`."""
    begin = time.process_time()

    def look(_: float) -> None:
        if time.process_time() - begin > MOST_WORK_S:
            raise TooMuchWorkError(f"more than {MOST_WORK_S:.0f} s of work")

    return knee.run(data, progress=look)


def trouble(data: dict[str, Any]) -> list[str]:
    """The laws that a scenario breaks; nothing where all is well."""
    try:
        return broken(data, run)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def memory_mib() -> float:
    """Memory that this process holds now, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> int:
    """Runs the soak; 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=1000, help="how many scenarios")
    parser.add_argument("--first", type=int, default=1, help="the number of the first")
    parser.add_argument("--keep", type=Path, default=Path("soak-failures"), help="where those that fail are written")
    told = parser.parse_args()
    begin, failed, warm = time.process_time(), 0, memory_mib()
    for done in range(1, told.count + 1):
        data = scenario(told.first + done - 1)
        for what in (found := trouble(data)):
            print(f"{data['name']}: {what}", flush=True)
        if found:
            failed += 1
            told.keep.mkdir(parents=True, exist_ok=True)
            (told.keep / f"{data['name']}.toml").write_text(dumps(from_dict(data).plain()), encoding="utf-8")
        if done == WARM:
            warm = memory_mib()
        if done % 100 == 0:
            took = time.process_time() - begin
            print(
                f"{done} scenarios, {failed} failed, {took:.0f} s of processor time, {memory_mib():.0f} MiB", flush=True
            )
    took = time.process_time() - begin
    print(
        f"{told.count} scenarios, {failed} failed, {took:.0f} s of processor time; "
        f"memory {warm:.0f} MiB after {min(WARM, told.count)}, {memory_mib():.0f} MiB at the end"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
