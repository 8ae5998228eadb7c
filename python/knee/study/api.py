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
from knee.scenario.requests import check_names
from knee.study import notebook
from knee.study.requests import MatrixKeys, Options, SearchKeys, SweepKeys
from knee.study.searches import Search, open_search
from knee.study.sweeps import Sweep, open_sweep
from knee.system.requests import parted, spelled_out

if TYPE_CHECKING:
    import polars as pl

    from knee.figures.forms import Summary
    from knee.results.result import Result

__all__ = ["compare", "matrix", "open_search", "open_sweep", "search", "sweep"]


class _OfSweep(SweepKeys, Options, total=False):
    pass


class _OfSearch(SearchKeys, Options, total=False):
    pass


class _OfMatrix(MatrixKeys, Options, total=False):
    pass


@spelled_out(_OfSweep)
def sweep(
    source: str | Path | Mapping[str, Any],
    over: Mapping[str, Any] | Sequence[str] = (),
    *,
    set: Changes = (),  # noqa: A002 - as on the command line
    vary: bool = False,
    out: str | Path | None = None,
    series: bool = False,
    save_runs: bool = False,
    page: bool = True,
    allow_code: bool = False,
    **asked: Unpack[_OfSweep],
) -> Sweep:
    """Runs a scenario over a grid, as ``knee sweep`` does, and gives the data set.

    Args:
        source: a sweep or scenario file, the name of a shipped scenario, or plain data.
        over: the axes, beside or in place of the file's: ``{"link.rate": ["5 Mbit/s", "10 Mbit/s"]}``.
        set: changes at every point: ``["link.rate=5 Mbit/s"]``.
        vary: whether links without jitter get one of less than the time of a packet, so that seeds differ.
        out: the folder of the data set; default: ``results/sweep-NAME``.
        series: whether to write the time series of all runs too.
        save_runs: whether to write a result folder for each run too.
        page: whether to write ``sweep.html`` and ``sweep.parquet``.
        allow_code: whether Python files of congestion controls and queues may be run, as of :func:`knee.run`.
        asked: these keys of ``[sweep]``, and the fields of :class:`knee.StudyOptions`, such as ``jobs=2``
            or ``dask="tcp://HOST:8786"``.

    Raises:
        InputError: something was refused; nothing has been written.
        RunError: the data set cannot be written, or workers have another program. A run that fails is a row with its
            error (:attr:`knee.study.sweeps.Sweep.failed`).
    """
    from knee.study import sweeps
    from knee.study.sweeps import sweepfile

    check_names("sweep", asked, _OfSweep)
    given, how = parted(SweepKeys, asked)
    with code_allowed(allow_code):
        definition = sweepfile.read(source, over, changes=changes_of(set), vary=vary, **given)
    out = out or Path("results") / f"sweep-{definition.base.get('name', definition.name)}"
    sweep = sweeps.run_sweep(definition, out, series=series, save_runs=save_runs, **_shown("sweep", how))
    if page:
        sweep.write_page()
    return sweep


@spelled_out(_OfSearch)
def search(
    source: str | Path | Mapping[str, Any],
    over: Mapping[str, Any] | Sequence[str] = (),
    *,
    set: Changes = (),  # noqa: A002 - as on the command line
    out: str | Path | None = None,
    page: bool = True,
    allow_code: bool = False,
    **asked: Unpack[_OfSearch],
) -> Search:
    """Finds the scenario that is worst or best for a figure, as ``knee search`` does.

    Args:
        source: a search or scenario file, the name of a shipped one, or plain data.
        over: the keys that are chosen and their bounds: ``{"link.rate": "loguniform(1 Mbit/s, 1 Gbit/s)"}``.
        set: changes to the scenario: ``["link.rate=5 Mbit/s"]``.
        out: the folder; default: ``results/search-NAME``.
        page: whether to write ``search.html`` and ``search.parquet``.
        allow_code: whether Python files of congestion controls and queues may be run, as of :func:`knee.run`.
        asked: these keys of ``[search]``, and the fields of :class:`knee.StudyOptions`, such as ``jobs=2``
            or ``dask="tcp://HOST:8786"``.

    Raises:
        InputError: something was refused; nothing has been written.
        RunError: the folder cannot be written, or workers have another program. A run that fails is recorded
            (:attr:`knee.study.searches.Search.failed`).
    """
    from knee.study import searches
    from knee.study.searches import searchfile

    check_names("search", asked, _OfSearch)
    given, how = parted(SearchKeys, asked)
    with code_allowed(allow_code):
        plan = searchfile.read(source, over, changes=changes_of(set), **given)
    out = out or Path("results") / f"search-{plan.base.get('name', plan.name)}"
    search = searches.run_search(plan, out, **_shown("search", how))
    if page:
        search.write_page()
    return search


@spelled_out(_OfMatrix)
def matrix(
    cc: Sequence[str | type[CongestionControl]] | None = None,
    *,
    out: str | Path = "results/matrix",
    allow_code: bool = False,
    **asked: Unpack[_OfMatrix],
) -> pl.DataFrame:
    """Runs every algorithm against every other, as ``knee matrix`` does, and gives the table.

    Args:
        cc: the algorithms: names, or classes written in Python; default: all that ``knee list cc`` shows.
        out: the folder of the page and the data set.
        allow_code: whether Python files of congestion controls and queues may be run, as of :func:`knee.run`.
        asked: these keys, and the fields of :class:`knee.StudyOptions`, such as ``jobs=2`` or
            ``dask="tcp://HOST:8786"``.

    Raises:
        InputError: something was refused; nothing has been written.
        RunError: runs failed, or the data set cannot be written.
    """
    from knee.study import matrices

    check_names("matrix", asked, _OfMatrix)
    given, how = parted(MatrixKeys, asked)
    with code_allowed(allow_code):
        plan = matrices.read(cc, **given)
    return matrices.run_matrix(plan, Path(out), **_shown("matrix", how))


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
