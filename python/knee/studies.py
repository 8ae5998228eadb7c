"""Many runs from Python: :func:`sweep`, :func:`matrix` and :func:`compare`, with the options of the commands.

::

    import knee

    made = knee.sweep("hello", {"link.rate": "log(10 Mbit/s, 1 Gbit/s, 5)", "flows.0.cc": ["cubic", Mine]}, seeds=3)
    made.runs.filter(pl.col("jain") < 0.5).collect()
    made.run(17).report("worst.html")

Axes may have classes that are congestion controls (:class:`knee.CongestionControl`) among their values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knee.errors import InputError
from knee.own import CongestionControl
from knee.sweeps import Sweep, open_sweep

if TYPE_CHECKING:
    import polars as pl

    from knee.result import Result

__all__ = ["compare", "matrix", "open_sweep", "sweep"]


def sweep(
    source: str | Path | Mapping[str, Any],
    over: Mapping[str, Any] | Sequence[str] = (),
    *,
    zip: Sequence[Sequence[str]] = (),  # noqa: A002 - as in the file
    derive: Mapping[str, str] | Sequence[str] = (),
    changes: Sequence[str] = (),
    seeds: int | None = None,
    samples: int | None = None,
    sampling: str | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    dask: Any = None,
    series: bool = False,
    save_runs: bool = False,
    again: bool = False,
    page: bool = True,
    progress: Callable[[float], None] | None = None,
    max_memory: int | str | None = None,
) -> Sweep:
    """Runs a scenario over a grid, as ``knee sweep`` does, and gives the data set.

    Args:
        source: a sweep or scenario file, the name of a shipped scenario, or plain data.
        over: the axes, beside or in place of the file's: ``{"link.rate": ["5 Mbit/s", "10 Mbit/s"]}``.
        zip: lists of keys that go together, step by step.
        derive: keys and the expressions that give them.
        changes: changes at every point, as of ``--set``.
        seeds: runs of each point; default: the file's, or 1.
        samples: number of samples of all sampled axes together.
        sampling: ``latin``, ``random`` or ``sobol``.
        out: the folder of the data set; default: ``results/sweep-NAME``.
        workers: how many runs at once in this process; default: one per core.
        executor: any ``concurrent.futures.Executor`` to do the runs instead.
        dask: the address of a Dask scheduler, or a ``distributed.Client``, to do the runs instead.
        series: whether to write the time series of all runs too.
        save_runs: whether to write a result folder for each run too.
        again: whether to start anew and drop the runs that are in ``out``.
        page: whether to write ``sweep.html`` and ``sweep.parquet``.
        progress: called now and then with the fraction that is done.
        max_memory: what a run may need, as of :func:`knee.run`.

    Raises:
        InputError: something was refused; nothing has been written.
        RunError: the data set cannot be written, or workers have another program. A run that fails is a row with its
            error (:attr:`knee.sweeps.Sweep.failed`).
    """
    from knee import sweeps
    from knee.sweeps import sweepfile

    definition = sweepfile.read(
        source, over, zips=zip, derive=derive, changes=changes, seeds=seeds, samples=samples, sampling=sampling
    )
    made = sweeps.run(
        definition,
        out or Path("results") / f"sweep-{definition.base.get('name', definition.name)}",
        workers=workers,
        executor=executor,
        dask=dask,
        series=series,
        save_runs=save_runs,
        again=again,
        progress=progress,
        max_memory=max_memory,
    )
    if page:
        made.write_page()
    return made


def matrix(
    cc: Sequence[str | type[CongestionControl]] | None = None,
    *,
    queue: str | None = None,
    changes: Sequence[str] = (),
    seeds: int = 1,
    out: str | Path = "results/matrix",
    workers: int | None = None,
    executor: Executor | None = None,
    dask: Any = None,
    again: bool = False,
    progress: Callable[[float], None] | None = None,
) -> pl.DataFrame:
    """Runs every algorithm against every other, as ``knee matrix`` does, and gives the table.

    Args:
        cc: the algorithms: names, or classes written in Python; default: all that ``knee list cc`` shows.
        queue: the queue discipline; default: pfifo.
        changes: changes to the scenario ``matrix``, as of ``--set``.
        seeds: runs of each pair.
        out: the folder of the page and the data set.
        workers: how many runs at once in this process; default: one per core.
        executor: any ``concurrent.futures.Executor`` to do the runs instead.
        dask: the address of a Dask scheduler, or a ``distributed.Client``, to do the runs instead.
        again: whether to start anew and drop the runs that are in ``out``.
        progress: called now and then with the fraction that is done.

    Raises:
        InputError: something was refused; nothing has been written.
        RunError: runs failed, or the data set cannot be written.
    """
    from knee import matrices

    asked = [*changes, *([] if queue is None else [f"link.queue={queue}"])]
    return matrices.run(
        matrices.algorithms(cc),
        Path(out),
        changes=asked,
        seeds=seeds,
        workers=workers,
        executor=executor,
        dask=dask,
        again=again,
        progress=progress,
    )


def compare(*results: str | Path | Result) -> pl.DataFrame:
    """The figures of results side by side, as ``knee compare`` shows them.

    Args:
        results: results, or their folders; two or more.

    Returns:
        A row per figure: ``figure``, then a column per result, named after its folder or scenario, numbered where names
        are alike.

    Raises:
        InputError: there is only one, or a folder is no result.
    """
    import polars as pl

    from knee.cli.tables import figures
    from knee.result import Result

    if len(results) < 2:
        raise InputError("There is only one result; give two or more to compare.")
    names: list[str] = []
    each: list[dict[str, float | int | None]] = []
    for result in results:
        loaded = result if isinstance(result, Result) else Result.load(result)
        name = loaded.summary["name"] if isinstance(result, Result) else str(result)
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
        each.append(figures(loaded.summary))
    told = list(dict.fromkeys(figure for run in each for figure in run))
    columns = {
        name: pl.Series([run.get(figure) for figure in told], dtype=pl.Float64, strict=False)
        for name, run in zip(names, each, strict=True)
    }
    return pl.DataFrame({"figure": told, **columns})
