"""How long sweeps take beside the engine alone: ``knee bench sweep``.

The engine alone is what the same specifications take, ready as JSON, on as many threads as a sweep has workers, with
their figures and rows thrown away. Both are measured in turn.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from knee import _core, sweeps
from knee.scenario.spec import spec
from knee.sweeps import sweepfile
from knee.sweeps.definition import Definition

#: Rounds of all cases, one after the other.
RUNS = 3
_FLOWS = [{"cc": "cubic", "rtt": "20 ms", "count": 2}]
_LINK = {"rate": "100 Mbit/s", "limit": "330 packets"}
#: The cases: what they are, the simulated time of a run, and the number of runs.
CASES = {
    "long": ("runs of 2 CUBIC flows, 100 Mbit/s, 60 s", "60 s", 1000),
    "short": ("runs of 10 ms", "10 ms", 1000),
}


def definition(duration: str, runs: int) -> Definition:
    """A sweep over seeds."""
    base = {"name": "bench", "duration": duration, "link": _LINK, "flows": _FLOWS}
    return sweepfile.read(base, {"seed": range(1, runs + 1)})


def measure(rounds: int, runs: Mapping[str, int] | None = None, *, dask: bool = False) -> list[dict[str, Any]]:
    """Measures the cases.

    Args:
        rounds: how often each; medians count.
        runs: the number of runs of a case, in place of its own.
        dask: whether to measure two Dask workers too.

    Returns:
        For each case ``name``, ``runs``, ``packets``, ``engine_s`` and ``sweep_s`` (wall times), ``ratio`` of the two,
        ``overhead_ms`` (per run, of the wall time), and, with ``dask``, ``dask_s`` of two workers with one thread each
        and ``embedded_s`` of a sweep with two threads.
    """
    made = []
    for name, (_, duration, number) in CASES.items():
        what = definition(duration, (runs or {}).get(name, number))
        told = [json.dumps(spec(what.scenario(point))) for point in what.points(range(1, len(what) + 1))]
        cores = os.cpu_count() or 1
        walls: dict[str, list[float]] = {}
        packets = 0
        with ExitStack() as stack:
            client = _workers(stack) if dask else None
            for _ in range(rounds):
                seconds, packets = _engine(told, cores)
                walls.setdefault("engine_s", []).append(seconds)
                walls.setdefault("sweep_s", []).append(_sweep(what, workers=cores))
                if client is not None:
                    walls.setdefault("embedded_s", []).append(_sweep(what, workers=2))
                    walls.setdefault("dask_s", []).append(_sweep(what, dask=client))
        ratio = statistics.median(s / e for s, e in zip(walls["sweep_s"], walls["engine_s"], strict=True))
        beyond = statistics.median(s - e for s, e in zip(walls["sweep_s"], walls["engine_s"], strict=True))
        figures = {key: statistics.median(each) for key, each in walls.items()}
        about = {"name": name, "runs": len(what), "packets": packets}
        made.append(about | figures | {"ratio": ratio, "overhead_ms": 1e3 * beyond / len(what)})
    return made


def _workers(stack: ExitStack) -> Any:
    """A client of two Dask workers with one thread each."""
    from distributed import Client, LocalCluster

    open_cluster: Callable[..., Any] = LocalCluster
    cluster = open_cluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50)
    stack.enter_context(cluster)
    connect: Callable[..., Any] = Client
    return stack.enter_context(connect(cluster, set_as_default=False))


def _engine(specs: list[str], threads: int) -> tuple[float, int]:
    """Wall time of the core alone, and the packets that it delivered."""

    def one(told: str) -> str:
        return _core.simulate(told)[0]

    begin = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        figures = list(pool.map(one, specs))
    wall_s = time.perf_counter() - begin
    return wall_s, sum(int(json.loads(each)["packets"]) for each in figures)


def _sweep(what: Definition, **options: Any) -> float:
    """Wall time of a sweep, from its definition to its last row."""
    with tempfile.TemporaryDirectory(prefix="knee-") as folder:
        begin = time.perf_counter()
        sweeps.run(what, Path(folder) / "sweep", **options)
        return time.perf_counter() - begin
