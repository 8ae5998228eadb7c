"""Many runs from Python: :func:`sweep`, :func:`search`, :func:`matrix` and :func:`compare`, as the commands make them.

::

    import knee

    made = knee.sweep("hello", {"link.rate": "log(10 Mbit/s, 1 Gbit/s, 5)", "flows.0.cc": ["cubic", Mine]}, seeds=3)
    made.runs.filter(pl.col("jain") < 0.5).collect()
    made.run(17).report("worst.html")

Axes may have classes that are congestion controls (:class:`knee.CongestionControl`) among their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from knee.errors import InputError
from knee.own import CongestionControl, code_allowed
from knee.scenario import Changes
from knee.scenario.loading import changes_of
from knee.study import notebook
from knee.study.engine import Options
from knee.study.searches import Search, open_search
from knee.study.sweeps import Sweep, open_sweep

if TYPE_CHECKING:
    import polars as pl

    from knee.figures.forms import Summary
    from knee.results.result import Result

__all__ = ["compare", "matrix", "open_search", "open_sweep", "search", "sweep"]


def sweep(
    source: str | Path | Mapping[str, Any],
    over: Mapping[str, Any] | Sequence[str] = (),
    *,
    zip: Sequence[Sequence[str]] = (),  # noqa: A002 - as in the file
    derive: Mapping[str, str] | Sequence[str] = (),
    set: Changes = (),  # noqa: A002 - as on the command line
    seeds: int | None = None,
    samples: int | None = None,
    sampling: str | None = None,
    sampling_seed: int | None = None,
    vary: bool = False,
    out: str | Path | None = None,
    series: bool = False,
    save_runs: bool = False,
    page: bool = True,
    allow_code: bool = False,
    **how: Unpack[Options],
) -> Sweep:
    """Runs a scenario over a grid, as ``knee sweep`` does, and gives the data set.

    Args:
        source: a sweep or scenario file, the name of a shipped scenario, or plain data.
        over: the axes, beside or in place of the file's: ``{"link.rate": ["5 Mbit/s", "10 Mbit/s"]}``.
        zip: lists of keys that go together, step by step.
        derive: keys and the expressions that give them.
        set: changes at every point: ``["link.rate=5 Mbit/s"]``.
        seeds: runs of each point; default: the file's, or 1.
        samples: number of samples of all sampled axes together.
        sampling: ``latin``, ``random`` or ``sobol``.
        sampling_seed: seed of the samples; default: 1.
        vary: whether links without jitter get one of less than the time of a packet, so that seeds differ.
        out: the folder of the data set; default: ``results/sweep-NAME``.
        series: whether to write the time series of all runs too.
        save_runs: whether to write a result folder for each run too.
        page: whether to write ``sweep.html`` and ``sweep.parquet``.
        allow_code: whether Python files of congestion controls and queues may be run, as of :func:`knee.run`.
        how: the fields of :class:`knee.study.engine.StudyOptions`, such as ``jobs=2`` or ``dask="tcp://HOST:8786"``.

    Raises:
        InputError: something was refused; nothing has been written.
        RunError: the data set cannot be written, or workers have another program. A run that fails is a row with its
            error (:attr:`knee.study.sweeps.Sweep.failed`).
    """
    from knee.study import sweeps
    from knee.study.sweeps import sweepfile

    with code_allowed(allow_code):
        definition = sweepfile.read(
            source, over, zips=zip, derive=derive, changes=changes_of(set), seeds=seeds, samples=samples,
            sampling=sampling, sampling_seed=sampling_seed, vary=vary,
        )  # fmt: skip
    sweep = sweeps.run_sweep(
        definition,
        out or Path("results") / f"sweep-{definition.base.get('name', definition.name)}",
        series=series,
        save_runs=save_runs,
        **_shown("sweep", how),
    )
    if page:
        sweep.write_page()
    return sweep


def search(
    source: str | Path | Mapping[str, Any],
    over: Mapping[str, Any] | Sequence[str] = (),
    *,
    figure: str | list[str] | None = None,
    goal: str | list[str] | None = None,
    exceeds: float | None = None,
    below: float | None = None,
    against: Mapping[str, Any] | Sequence[str] = (),
    compare: str | None = None,
    across: Mapping[str, Any] | Sequence[str] = (),
    summarize: str | None = None,
    zip: Sequence[Sequence[str]] = (),  # noqa: A002 - as in the file
    derive: Mapping[str, str] | Sequence[str] = (),
    set: Changes = (),  # noqa: A002 - as on the command line
    trials: int | None = None,
    seeds: int | None = None,
    search_seed: int | None = None,
    batch: int | None = None,
    sampler: str | None = None,
    findings: int | None = None,
    shrink: bool | None = None,
    tolerance: float | None = None,
    keep: Sequence[str] | None = None,
    free: Sequence[str] | None = None,
    out: str | Path | None = None,
    page: bool = True,
    allow_code: bool = False,
    **how: Unpack[Options],
) -> Search:
    """Finds the scenario that is worst or best for a figure, as ``knee search`` does.

    Args:
        source: a search or scenario file, the name of a shipped one, or plain data.
        over: the keys that are chosen and their bounds: ``{"link.rate": "loguniform(1 Mbit/s, 1 Gbit/s)"}``.
        figure: the figure, of those that a sweep has; or two, for a Pareto front.
        goal: ``max`` or ``min``, for each figure.
        exceeds: a finding exceeds this, in the figure's unit; with the goal ``max``.
        below: a finding is below this; with the goal ``min``.
        against: keys of another variant of each scenario, whose figure the value is compared with.
        compare: ``ratio`` or ``difference``.
        across: keys and values that each choice is run across.
        summarize: the value across them: ``mean`` or ``worst``.
        zip: lists of keys that are chosen together.
        derive: keys and the expressions that give them.
        set: changes to the scenario: ``["link.rate=5 Mbit/s"]``.
        trials: choices that are tried; default: the file's, or 100.
        seeds: runs of each, whose mean counts.
        search_seed: seed of the search.
        batch: choices that are proposed together; the result depends on it, and not on the number of workers.
        sampler: ``tpe``, ``nsga2`` or ``random``.
        findings: scenarios that are wanted; default: the file's, or 3.
        shrink: whether to make them as simple as can be.
        tolerance: how far back a finding may fall then, as a part of the way from the trials' median to its value;
            default: the file's, or 0.2.
        keep: further keys that are left alone then, beside ``duration``, ``warmup`` and what is searched.
        free: keys of these that may change all the same.
        out: the folder; default: ``results/search-NAME``.
        page: whether to write ``search.html`` and ``search.parquet``.
        allow_code: whether Python files of congestion controls and queues may be run, as of :func:`knee.run`.
        how: the fields of :class:`knee.study.engine.StudyOptions`, such as ``jobs=2`` or ``dask="tcp://HOST:8786"``.

    Raises:
        InputError: something was refused; nothing has been written.
        RunError: the folder cannot be written, or workers have another program. A run that fails is recorded
            (:attr:`knee.study.searches.Search.failed`).
    """
    from knee.study import searches
    from knee.study.searches import searchfile

    with code_allowed(allow_code):
        plan = searchfile.read(
            source, over, changes=changes_of(set), zips=zip, derive=derive, across=across, against=against,
            figure=figure, goal=goal, exceeds=exceeds, below=below, compare=compare, summarize=summarize, trials=trials,
            seeds=seeds, search_seed=search_seed, batch=batch, sampler=sampler, findings=findings, shrink=shrink,
            tolerance=tolerance, keep=None if keep is None else list(keep), free=None if free is None else list(free),
        )  # fmt: skip
    search = searches.run_search(
        plan, out or Path("results") / f"search-{plan.base.get('name', plan.name)}", **_shown("search", how)
    )
    if page:
        search.write_page()
    return search


def matrix(
    cc: Sequence[str | type[CongestionControl]] | None = None,
    *,
    queue: str | None = None,
    set: Changes = (),  # noqa: A002 - as on the command line
    seeds: int = 1,
    out: str | Path = "results/matrix",
    allow_code: bool = False,
    **how: Unpack[Options],
) -> pl.DataFrame:
    """Runs every algorithm against every other, as ``knee matrix`` does, and gives the table.

    Args:
        cc: the algorithms: names, or classes written in Python; default: all that ``knee list cc`` shows.
        queue: the queue discipline; default: pfifo.
        set: changes to the scenario ``matrix``: ``["link.rate=5 Mbit/s"]``.
        seeds: runs of each pair.
        out: the folder of the page and the data set.
        allow_code: whether Python files of congestion controls and queues may be run, as of :func:`knee.run`.
        how: the fields of :class:`knee.study.engine.StudyOptions`, such as ``jobs=2`` or ``dask="tcp://HOST:8786"``.

    Raises:
        InputError: something was refused; nothing has been written.
        RunError: runs failed, or the data set cannot be written.
    """
    from knee.study import matrices

    asked = [*changes_of(set), *([] if queue is None else [f"link.queue={queue}"])]
    with code_allowed(allow_code):
        names = matrices.algorithms(cc)
    return matrices.run_matrix(names, Path(out), changes=asked, seeds=seeds, **_shown("matrix", how))


def _shown(name: str, how: Options) -> Options:
    """The same, with a bar in a notebook."""
    return how | {"progress": notebook.progress(name, how.get("progress"))}


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

    from knee.figures.compared import beside
    from knee.results.result import Result

    if len(results) < 2:
        raise InputError("There is only one result; give two or more to compare.")
    names: list[str] = []
    summaries: list[Summary] = []
    for result in results:
        loaded = result if isinstance(result, Result) else Result.load(result)
        name = loaded.summary["name"] if isinstance(result, Result) else str(result)
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
        summaries.append(loaded.summary)
    each = beside(summaries)
    names_of_figures = list(dict.fromkeys(figure for run in each for figure in run))
    columns = {
        name: pl.Series([run.get(figure) for figure in names_of_figures], dtype=pl.Float64, strict=False)
        for name, run in zip(names, each, strict=True)
    }
    return pl.DataFrame({"figure": names_of_figures, **columns})
