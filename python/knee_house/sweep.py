"""How long sweeps take beside the engine alone, and on two Dask workers beside two threads.

The engine alone is what the same specifications take, ready as JSON, on as many threads as a sweep has workers, with
their figures and rows thrown away. All are measured in turn. Of threads and workers there is processor time too, which
does not depend on what else the machine does: with Dask that of the workers, the scheduler and the client together.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knee import _core
from knee.scenario.spec import spec
from knee.study import sweeps
from knee.study.sweeps import sweepfile
from knee.study.sweeps.definition import Definition
from knee.system.text import JsonTable

#: Dask's settings for workers and scheduler, as in docs/cluster.md: by default it samples what workers execute 100
#: times a second, and wakes each process up 50 times.
SETTINGS: dict[str, Any] = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "1s",
}
#: Rounds of all cases, one after the other.
RUNS = 3
#: Runs before those that count, on workers.
_WARM_UP_RUNS = 20
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


def measure(
    rounds: int, runs: Mapping[str, int] | None = None, *, names: Iterable[str] = CASES, dask: bool = False
) -> list[JsonTable]:
    """Measures the cases.

    Args:
        rounds: how often each; medians count.
        runs: the number of runs of a case, in place of its own.
        names: the cases.
        dask: whether to measure two Dask workers too.

    Returns:
        For each case ``name``, ``runs``, ``packets``, ``engine_s`` and ``sweep_s`` (wall times), ``ratio`` of the two,
        and ``overhead_ms`` (per run, of the wall time). With ``dask`` also ``threads_s`` of a sweep with two threads
        and ``dask_s`` of two workers with one thread each, both with their processor times ``threads_processor_s``
        and ``dask_processor_s``, and the workers' speed divided by the threads': ``dask_speed`` by wall time and
        ``dask_processor_speed`` by processor time. Medians of the rounds, also of the ratios.
    """
    made = []
    for name in names:
        _, duration, number = CASES[name]
        what = definition(duration, (runs or {}).get(name, number))
        told = [json.dumps(spec(what.scenario(point))) for point in what.points(range(1, len(what) + 1))]
        cores = os.cpu_count() or 1
        each: list[dict[str, float]] = []
        packets = 0
        for _ in range(rounds):
            engine_s, packets = _engine(told, cores)
            sweep_s = _sweep(what, jobs=cores)
            figures = {"engine_s": engine_s, "sweep_s": sweep_s, "ratio": sweep_s / engine_s}
            figures["overhead_ms"] = 1e3 * (sweep_s - engine_s) / len(what)
            each.append(figures | (_workers_beside_threads(what) if dask else {}))
        medians = {key: statistics.median(figures[key] for figures in each) for key in each[0]}
        made.append({"name": name, "runs": len(what), "packets": packets} | medians)
    return made


def _workers_beside_threads(what: Definition) -> dict[str, float]:
    """Wall and processor time of a sweep with two threads, and of one on two Dask workers with one thread each."""
    before = time.process_time()
    threads_s = _sweep(what, jobs=2)
    threads_processor_s = time.process_time() - before
    with _workers() as client:
        # So that workers have imported all that they need.
        _sweep(definition("10 ms", _WARM_UP_RUNS), dask=client)

        def processor_s() -> float:
            each: dict[str, float] = client.run(time.process_time)
            return time.process_time() + sum(each.values())

        before = processor_s()
        dask_s = _sweep(what, dask=client)
        dask_processor_s = processor_s() - before
    return {
        "threads_s": threads_s,
        "dask_s": dask_s,
        "threads_processor_s": threads_processor_s,
        "dask_processor_s": dask_processor_s,
        "dask_speed": threads_s / dask_s,
        "dask_processor_speed": threads_processor_s / dask_processor_s,
    }


@contextmanager
def _workers() -> Iterator[Any]:
    """A client of two Dask workers with one thread each, and of a scheduler in this process."""
    import dask
    from distributed import Client, LocalCluster

    connect: Callable[..., Any] = Client
    open_cluster: Callable[..., Any] = LocalCluster
    with dask.config.set(SETTINGS):
        cluster = open_cluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50)
        with cluster, connect(cluster, set_as_default=False) as client:
            yield client


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
        sweeps.run_sweep(what, Path(folder) / "sweep", **options)
        return time.perf_counter() - begin
