"""The short form of every experiment: its figures are drawn, and its verdicts are those of the papers.

Experiments that share most of their runs are one test, so that several workers do not run the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from knee.papers import drawing
from knee.papers.items import Verdict
from knee.papers.paper import Experiment, Paper, Results, Run
from knee.papers.recipes import NAMES, paper
from knee.papers.run import verdicts
from knee.results.result import Result
from knee.study import batch
from knee.study.estimate import packets


def _work(runs: Iterable[Run]) -> float:
    return sum(packets(scenario) for run in runs for scenario in run.resolve(short=True))


def _groups(one: Paper) -> list[list[Experiment]]:
    """Experiments that share most of their work with an earlier one, together with it; all others alone.

    So no test of a paper runs everything in one process.
    """
    groups: list[list[Experiment]] = []
    for experiment in one.experiments:
        if experiment.awaits:
            continue
        for group in groups:
            names = {run.name for other in group for run in other.runs}
            shared = [run for run in experiment.runs if run.name in names]
            if shared and _work(shared) > _work(experiment.runs) / 2:
                group.append(experiment)
                break
        else:
            groups.append([experiment])
    return groups


CASES = [
    pytest.param(name, group, id=f"{name}-{'-'.join(experiment.key for experiment in group)}")
    for name in NAMES
    for group in _groups(paper(name))
]


@pytest.mark.parametrize(("name", "experiments"), CASES)
def test_verdicts_of_the_short_form(name: str, experiments: list[Experiment]) -> None:
    runs = {run.name: run.resolve(short=True) for experiment in experiments for run in experiment.runs}
    jobs = {run: [batch.Job(f"{run}/{s.seed}", s) for s in scenarios] for run, scenarios in runs.items()}
    made = iter(_run([job for each in jobs.values() for job in each]))
    places = {run: [next(made) for _ in each] for run, each in jobs.items() if each}
    for experiment in experiments:
        results = Results({run.name: places[run.name] for run in experiment.runs if run.name in places}, short=True)
        quantities = experiment.measure(results)
        for judged in verdicts(paper(name), experiment, quantities, experiment.draws(results), short=True):
            told = f"{judged.item.key}: {judged.found} {list(judged.draws)}"
            # The short form has few of the draws: an undecided item may hold in all of them, or in none.
            if judged.item.expected is Verdict.UNDECIDED:
                continue
            if judged.item.contradiction:
                assert judged.verdict is Verdict.CONTRADICTORY, told
            elif judged.item.differs:
                assert judged.verdict is Verdict.DIFFERS, f"{told} is said to differ, but is reproduced"
                assert judged.explained == bool(judged.item.explanation), f"{told}: the check gives {judged.checked}"
            else:
                assert judged.verdict is Verdict.REPRODUCED, told
        _check_negatives(name, experiment, results)
        for made in experiment.drawings:
            assert drawing.png(made, results).startswith(b"\x89PNG")
        if experiment.tables is not None:
            assert all(len(row) == len(t.head) for t in experiment.tables(results, quantities) for row in t.rows)
        if experiment.conclusion is not None:
            assert experiment.conclusion(quantities)


def _run(jobs: Sequence[batch.Job]) -> list[Result]:
    """The results, which are judged from memory: sealing and reading a folder takes longer than most of these runs."""
    return [made for made in batch.results(jobs, lambda _, result: result, workers=1) if made is not None]


def _check_negatives(name: str, experiment: Experiment, results: Results) -> None:
    """Every item that is reproduced fails with another algorithm, another queue, or the mechanism switched off.

    Experiments that share runs share the changed ones, too.
    """
    for key, negative in experiment.negatives.items():
        changed = negative.runs(experiment)
        jobs = [batch.Job(f"{run}~{key}", scenario) for run, scenario in changed.items()]
        quantities = experiment.measure(negative.results(results, dict(zip(changed, _run(jobs), strict=True))))
        # Items that the short form does not judge are to fail as well.
        for judged in verdicts(paper(name), experiment, quantities):
            if judged.item.negative == key and judged.item.expected is Verdict.REPRODUCED:
                told = f"{judged.item.key} also passes with {negative.says}: {judged.found}"
                assert judged.verdict is Verdict.DIFFERS, told
