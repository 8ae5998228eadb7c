"""``knee.run``: one run, or one for each of several seeds, as ``knee run --seeds`` makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Unpack, overload

from knee import grounds
from knee.errors import InputError
from knee.figures.same import same_figures
from knee.grounds import runner
from knee.grounds.runner import Prepared
from knee.results.result import Result
from knee.scenario import Plain, Scenario
from knee.scenario.requests import Options, RunOptions
from knee.scenario.units import is_whole, shown
from knee.study import batch, notebook
from knee.system import forked
from knee.system.requests import spelled_out

#: The largest seed of a scenario.
_MOST = 2**63 - 1


@overload
def run(
    scenario: str | Path | Scenario | Plain,
    ground: str | None = None,
    out: str | Path | None = None,
    *,
    seeds: None = None,
    jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
    **options: Unpack[Options],
) -> Result: ...


@overload
def run(
    scenario: str | Path | Scenario | Plain,
    ground: str | None = None,
    out: str | Path | None = None,
    *,
    seeds: int | Iterable[int],
    jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
    **options: Unpack[Options],
) -> list[Result]: ...


@spelled_out(RunOptions)
def run(
    scenario: str | Path | Scenario | Plain,
    ground: str | None = None,
    out: str | Path | None = None,
    *,
    seeds: int | Iterable[int] | None = None,
    jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
    **options: Unpack[Options],
) -> Result | list[Result]:
    """Runs a scenario and gives its result, or with ``seeds`` a list of results.

    Args:
        scenario: a file, the name of a shipped scenario, a scenario, or plain data as TOML gives it.
        ground: where to run it; by default what the scenario says, and else ``"sim"``.
        out: a folder to write the result to, whole or not at all; with ``seeds`` the folder that contains those of the
            results, ``NAME-seedN``.
        seeds: how many seeds, counting up from the scenario's; or a list of them. The runs go side by side, unless they
            are on a ground in real time or capture what is sent.
        jobs: how many runs at once; default: one per core.
        progress: called some 20 times a second with the fraction of simulated time that has passed; by default a
            notebook shows a bar.
        options: the fields of :class:`knee.RunOptions`, such as ``set=["link.rate=5 Mbit/s"]`` or ``png=True``.

    Where all seeds give the same figures, ``summary["remarks"]`` of each result says so and why; not its folder, which
    has one run.

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
    prepared = runner.prepare(scenario, ground, out, **options)
    progress = notebook.progress(prepared.scenario.name, progress)
    if seeds is None:
        return prepared.run(progress)
    runs = [
        prepared.placed(seed, None if out is None else Path(out) / f"{prepared.scenario.name}-seed{seed}")
        for seed in _numbers(seeds, prepared.scenario.seed)
    ]
    results = (
        batch.together(runs, Prepared.complete, workers=jobs, progress=progress)
        if side_by_side(runs)
        else [one.complete(progress) for one in runs]
    )
    same = same_figures([result.summary for result in results])
    for one, result in zip(runs, results, strict=True):
        if same is not None:
            result.summary["remarks"] = [*result.summary.get("remarks", ()), same]
        one.approve(result)
    return results


def side_by_side(runs: Sequence[Prepared]) -> bool:
    """Whether runs may go at once: not in real time, and not if they write packets or logs."""
    return not any(one.options.pcap or one.options.qlog or grounds.find(one.ground).real_time for one in runs)


def _numbers(seeds: int | Iterable[int], first: int) -> list[int]:
    """The seeds that are asked for.

    Raises:
        InputError: they are none, or two are the same.
    """
    if is_whole(seeds):
        if seeds < 1:
            raise InputError(f"seeds: {seeds} is out of range; expected 1 or more, or a list of seeds.")
        return list(range(first, first + int(seeds)))
    if isinstance(seeds, bool | str) or not isinstance(seeds, Iterable):
        raise InputError(f"seeds: {shown(seeds)} has the wrong type; expected how many, or a list of seeds.")
    numbers = list(seeds)
    if not numbers:
        raise InputError("seeds: the list is empty; expected one or more seeds.")
    for seed in numbers:
        if not is_whole(seed) or not 0 <= seed <= _MOST:
            raise InputError(f"seeds: {shown(seed)} is no seed; expected whole numbers from 0 to {_MOST}.")
        if numbers.count(seed) > 1:
            raise InputError(f"seeds: {seed} is there twice; name each seed once.")
    return [int(seed) for seed in numbers]
