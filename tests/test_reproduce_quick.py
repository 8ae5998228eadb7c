"""The short form of every experiment: its figures are drawn, and its verdicts are those of the papers.

Experiments that share most of their runs are one test, so that several workers do not run the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from knee.papers import items
from knee.papers.items import ItemVerdict, Quantities
from knee.papers.paper import Experiment, Paper, Results, Run
from knee.papers.recipes import NAMES, paper
from knee.papers.run import verdicts
from knee.results.result import Result
from knee.study import batch
from knee.study.estimate import packets
from knee.view.chart import Chart
from knee.view.pages import spec


def _work(runs: Iterable[Run]) -> float:
    return sum(packets(scenario) for run in runs for scenario in run.resolve(short=True))


def _groups(one: Paper) -> list[list[Experiment]]:
    """Experiments that share most of their work with an earlier one, together with it; all others alone.

    So no test of a paper runs everything in one process.
    """
    groups: list[list[Experiment]] = []
    for experiment in one.experiments:
        for group in groups:
            names = {run.name for other in group for run in other.runs}
            shared = [run for run in experiment.runs if run.name in names]
            if shared and _work(shared) > _work(experiment.runs) / 2:
                group.append(experiment)
                break
        else:
            groups.append([experiment])
    return groups


#: Cases that take more than three seconds of processor time: `make test-system` runs them. LoLa's Fig. 4a and 4b take
#: longer, and stay in `make test`.
LONG = {
    "bbr-cubic-bbr",
    "bbr-cubic-bbr3",
    "delay-aimd-fig7",
    "delay-aimd-gamma",
    "delay-aimd-table1",
    "imc2021-core",
    "imc2021-edge",
    "imc2021-intermediate",
    "incast-buffers",
    "incast-fig18",
    "incast-fig19",
    "incast-timeouts",
    "interactions-buffer",
    "interactions-far",
    "interactions-flows",
    "interactions-isolation",
    "interactions-measurement",
    "interactions-table1",
    "interactions-table2-quic",
    "interactions-table3",
    "lola-fig4c",
    "lola-fig4d",
    "lola-fig6",
    "lola-networks",
    "pam2025-cells-bbr-bbr3-cubic-cubic-ecn",
    "quic-stack",
    "shares-model",
    "shares-starvation",
    "shares-testbed-20",
    "shares-testbed-40-equilibrium",
    "wild-drawn",
    "wild-networks",
}

CASES = [
    pytest.param(name, group, id=key, marks=[pytest.mark.long] if key in LONG else [])
    for name in NAMES
    for group in _groups(paper(name))
    for key in [f"{name}-{'-'.join(experiment.key for experiment in group)}"]
]


def test_long_cases_are_cases() -> None:
    assert {case.id for case in CASES} > LONG


@pytest.mark.parametrize(("name", "experiments"), CASES)
def test_verdicts_of_the_short_form(name: str, experiments: list[Experiment]) -> None:
    runs = {run.name: run.resolve(short=True) for experiment in experiments for run in experiment.runs}
    jobs = {run: [batch.Job(f"{run}/{s.seed}", s) for s in scenarios] for run, scenarios in runs.items()}
    made = iter(_run([job for each in jobs.values() for job in each]))
    places = {run: [next(made) for _ in each] for run, each in jobs.items() if each}
    for experiment in experiments:
        results = Results({run.name: places[run.name] for run in experiment.runs if run.name in places}, short=True)
        quantities = experiment.measure(results)
        _check_found_is_the_runs(name, experiment, results, quantities)
        for judged in verdicts(paper(name), experiment, quantities, experiment.draws(results), short=True):
            told = f"{judged.item.key}: {judged.found} {list(judged.draws)}"
            # The short form has few of the draws: an undecided item may hold in all of them, or in none.
            if judged.item.expected is ItemVerdict.UNDECIDED:
                continue
            if judged.item.contradiction:
                assert judged.verdict is ItemVerdict.CONTRADICTORY, told
            elif judged.item.differs:
                assert judged.verdict is ItemVerdict.DIFFERS, f"{told} is said to differ, but is reproduced"
                assert judged.explained == bool(judged.item.explanation), f"{told}: the check gives {judged.checked}"
            else:
                assert judged.verdict is ItemVerdict.REPRODUCED, told
        _check_negatives(name, experiment, results)
        for made in experiment.drawings:
            _check_figure(made.draw(results))
        if experiment.tables is not None:
            assert all(len(row) == len(t.head) for t in experiment.tables(results, quantities) for row in t.rows)
        if experiment.conclusion is not None:
            assert experiment.conclusion(quantities)


def _check_found_is_the_runs(name: str, experiment: Experiment, results: Results, quantities: Quantities) -> None:
    """With every printed number far from the runs, an item's quantity is what it was: it follows the runs alone."""
    known = items.load(name)
    moved = [item.model_copy(update={"value": 10 * abs(item.value) + 1000}) for item in known.item]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(items, "load", lambda _: known.model_copy(update={"item": moved}))
        again = experiment.measure(results)
    for item in (item for item in known.item if item.experiment == experiment.key):
        before, after = (found[item.computed] for found in (quantities, again))
        # NaN is equal to itself here.
        assert before is after or before == after or before != before, f"{item.key} follows its own printed number"


def _check_figure(chart: Chart) -> None:
    """A page can draw it: each panel shows something within the ends of its axis, above 0 where that is logarithmic."""
    json.dumps(spec(chart), allow_nan=False)
    for panel in chart.panels:
        axis = panel.x or chart.x
        assert axis.low < axis.high, panel.label
        points = [(one.x, one.y) for one in [*panel.lines, *panel.marks]]
        assert all(len(x) == len(y) for x, y in points), panel.label
        seen = [y[(x >= axis.low) & (x <= axis.high) & np.isfinite(y)] for x, y in points]
        shown = [y for y in seen if (y > 0).any() or (len(y) and not panel.log)]
        assert shown or any(one.spans for one in panel.spans) or panel.heats, panel.label


def _run(jobs: Sequence[batch.Job]) -> list[Result]:
    """The results, which are judged from memory: sealing and reading a folder takes longer than most of these runs."""
    return [made for made in batch.results(jobs, lambda _, result: result, workers=1) if made is not None]


def _check_negatives(name: str, experiment: Experiment, results: Results) -> None:
    """Every item that is reproduced fails with another algorithm, another queue, or the mechanism switched off.

    Experiments that share runs share the changed ones, too.
    """
    for key, negative in experiment.negatives.items():
        changed = experiment.changed(negative)
        jobs = [batch.Job(f"{run}~{key}", scenario) for run, scenario in changed.items()]
        quantities = experiment.measure(results.changed(negative, dict(zip(changed, _run(jobs), strict=True))))
        # Items that the short form does not judge are to fail as well.
        for judged in verdicts(paper(name), experiment, quantities):
            if judged.item.negative == key and judged.item.expected is ItemVerdict.REPRODUCED:
                told = f"{judged.item.key} also passes with {negative.says}: {judged.found}"
                assert judged.verdict is ItemVerdict.DIFFERS, told
