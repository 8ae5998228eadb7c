"""``knee.run``: one run, or one for each of several seeds, as ``knee run --seeds`` makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, overload

from knee.errors import InputError
from knee.figures.same import same_figures
from knee.grounds import runner
from knee.results.folder import check_target
from knee.results.result import Result
from knee.scenario import Scenario
from knee.scenario.units import shown
from knee.study import batch, notebook
from knee.system import forked

#: The largest seed of a scenario.
_MOST = 2**63 - 1


@overload
def run(
    scenario: str | Path | Scenario | dict[str, Any],
    ground: str | None = None,
    out: str | Path | None = None,
    *,
    seeds: None = None,
    changes: Sequence[str] = (),
    workers: int | None = None,
    report: bool = True,
    png: bool = False,
    progress: Callable[[float], None] | None = None,
    command: str | None = None,
    capture: bool = False,
    qlog: bool = False,
    check: bool = False,
    max_memory: int | str | None = None,
    allow_programs: bool = False,
    allow_code: bool = False,
) -> Result: ...


@overload
def run(
    scenario: str | Path | Scenario | dict[str, Any],
    ground: str | None = None,
    out: str | Path | None = None,
    *,
    seeds: int | Iterable[int],
    changes: Sequence[str] = (),
    workers: int | None = None,
    report: bool = True,
    png: bool = False,
    progress: Callable[[float], None] | None = None,
    command: str | None = None,
    capture: bool = False,
    qlog: bool = False,
    check: bool = False,
    max_memory: int | str | None = None,
    allow_programs: bool = False,
    allow_code: bool = False,
) -> list[Result]: ...


def run(
    scenario: str | Path | Scenario | dict[str, Any],
    ground: str | None = None,
    out: str | Path | None = None,
    *,
    seeds: int | Iterable[int] | None = None,
    changes: Sequence[str] = (),
    workers: int | None = None,
    report: bool = True,
    png: bool = False,
    progress: Callable[[float], None] | None = None,
    command: str | None = None,
    capture: bool = False,
    qlog: bool = False,
    check: bool = False,
    max_memory: int | str | None = None,
    allow_programs: bool = False,
    allow_code: bool = False,
) -> Result | list[Result]:
    """Runs a scenario and gives its result, or with ``seeds`` a list of results.

    Args:
        scenario: a file, the name of a shipped scenario, a scenario, or plain data as TOML gives it.
        ground: where to run it; by default what the scenario says, and else ``"sim"``.
        out: a folder to write the result to, whole or not at all; with ``seeds`` the folder that contains those of the
            results, ``NAME-seedN``.
        seeds: how many seeds, counting up from the scenario's; or a list of them. The runs go side by side, unless they
            are on a ground in real time or capture what is sent.
        changes: changes to the scenario, as of ``--set``: ``["link.rate=5 Mbit/s"]``.
        workers: how many runs at once; default: one per core.
        report: whether that folder gets the report.
        png: whether it gets the figures as PNG files.
        progress: called some 20 times a second with the fraction of simulated time that has passed; by default a
            notebook shows a bar.
        command: the command line that asks for the run, for the manifest.
        capture: whether the folder also gets the packets at the senders, as ``packets.pcapng``.
        qlog: whether it gets what senders do, as qlog files.
        check: whether the figures are held against what the links can physically carry (:mod:`knee.figures.physics`).
        max_memory: what the run may need, bytes or text such as ``"8 GB"``; by default what the machine has available.
            The need is estimated before the run starts.
        allow_programs: whether flows may be programs, which run on this machine.
        allow_code: whether Python files of congestion controls (``cc = "mine.py:Mine"``) may be run on this machine.

    Where all seeds give the same figures, ``summary["remarks"]`` of each result says so and why.

    Raises:
        InputError: the scenario, the ground, the folder, the seeds or the need of memory was refused; nothing has been
            written.
        RunError: the ground does not work here, the run was accepted and then failed, or this process was forked from
            one that had run something.
        ProgramError: a flow's program failed; the result has been written, and the error has it.
        PhysicsError: with ``check``, a figure is impossible; the result has been written.

    An exception in a congestion control written in Python comes through as it is, with a note that names the flow.
    """
    forked.check()
    # A folder of results is needed to check what is written to it; its name is known once the scenario is.
    prepared = runner.prepare(
        scenario, ground, out, changes=changes, report=report, png=png, capture=capture, qlog=qlog,
        max_memory=max_memory, allow_programs=allow_programs, allow_code=allow_code,
    )  # fmt: skip
    progress = notebook.progress(prepared.scenario.name, progress)
    if seeds is None:
        return prepared.run(progress, command, check=check)
    jobs = [
        batch.Job(f"{prepared.scenario.name}-seed{seed}", prepared.scenario.model_copy(update={"seed": seed}), ground)
        for seed in _numbers(seeds, prepared.scenario.seed)
    ]
    folders = None if out is None else [Path(out) / job.name for job in jobs]
    for folder in folders or ():
        check_target(folder)
    if capture or qlog:
        assert folders is not None
        return [
            runner.Prepared(
                job.scenario, prepared.ground, folder, report, png, capture, qlog, prepared.remarks
            ).run(progress, command, check=check)
            for job, folder in zip(jobs, folders, strict=True)
        ]  # fmt: skip
    made = batch.each(
        jobs, lambda job, result: result, folders=folders, workers=workers, progress=progress, command=command,
        max_memory=max_memory, allow_programs=allow_programs,
    )  # fmt: skip
    results = [result for result in made if result is not None]
    same = same_figures([result.summary for result in results])
    for result in results if same is not None else ():
        result.summary["remarks"] = [*result.summary.get("remarks", ()), same]
    places: Sequence[Path | None] = [None] * len(results) if folders is None else folders
    for result, where in zip(results, places, strict=True):
        if where is not None and (report or png or same is not None):
            # Drawing is for one thread.
            result.save(where, report=report, png=png)
        if check:
            runner.check_physics(result, where)
    return results


def _numbers(seeds: int | Iterable[int], first: int) -> list[int]:
    """The seeds that are asked for.

    Raises:
        InputError: they are none, or two are the same.
    """
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if seeds < 1:
            raise InputError(f"seeds: {seeds} is out of range; expected 1 or more, or a list of seeds.")
        return list(range(first, first + seeds))
    if isinstance(seeds, bool | str) or not isinstance(seeds, Iterable):
        raise InputError(f"seeds: {shown(seeds)} has the wrong type; expected how many, or a list of seeds.")
    numbers = list(seeds)
    if not numbers:
        raise InputError("seeds: the list is empty; expected one or more seeds.")
    for seed in numbers:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= _MOST:
            raise InputError(f"seeds: {shown(seed)} is no seed; expected whole numbers from 0 to {_MOST}.")
        if numbers.count(seed) > 1:
            raise InputError(f"seeds: {seed} is there twice; name each seed once.")
    return numbers
