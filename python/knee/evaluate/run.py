"""Runs the scenarios of criteria with an algorithm and with deployed ones, judges, and writes the outcome."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, Unpack

from tomli_w import dumps

from knee.errors import InputError, KneeError, ProgramError, ScenarioError, in_a_line
from knee.evaluate import badge, explain, page, worst
from knee.evaluate.criteria import DEFAULT, PLACE, Case, Check, Criterion, load
from knee.evaluate.outcome import MARK, Evaluation, Found, JudgedFigure, Worst
from knee.evaluate.place import SIM, Place
from knee.evaluate.subject import Subject, absent
from knee.evaluate.verdict import CriterionVerdict, Values, judge, measure, sent_nothing, threshold
from knee.figures.forms import Summary
from knee.grounds import runner
from knee.judging.folder import claim, program, write_verdicts
from knee.results import tree
from knee.scenario import Plain, from_dict
from knee.study import batch
from knee.study.engine import part_of
from knee.system import files

#: The runs without the algorithm, among the folders of runs.
_ALONE = "without"
#: The file of the runs that a search for the worst networks made.
TRIED = "tried.json"
#: The part of the progress that the criteria's own scenarios are, where worst networks are searched for too.
_CRITERIA = 0.2
#: Runs of each scenario, by default and with ``--quick``.
SEEDS, QUICK_SEEDS = 3, 2
RUNS: tree.Layout = {r"[\w.-]+": {r"[\w.-]+": tree.RESULT}}
LAYOUT: tree.Layout = {
    r"evaluate\.(json|html)|badge\.svg|tried\.json": tree.FILE,
    "scenarios": {r"[\w.-]+\.toml": tree.FILE},
}


class RunsOptions(TypedDict, total=False):
    """Options of an evaluation that its runs are given, as of :func:`knee.study.batch.run`."""

    workers: int | None
    again: bool
    command: str | None
    max_memory: int | str | None
    allow_programs: bool
    qlog: bool


@dataclass(eq=False)
class _Runs:
    """The runs of an evaluation: summaries by scenario, algorithm and seed, and why there is none.

    Attributes:
        one: the algorithm.
        against: the deployed ones.
        place: where everything runs.
        scenarios: the folder of the scenarios with the algorithm.
        kept: the folder of the results.
        seeds: runs of each scenario.
        how: options of :func:`knee.study.batch.run`.
    """

    one: Subject
    against: Sequence[Subject]
    place: Place
    scenarios: Path
    kept: Path
    seeds: int
    how: RunsOptions
    folders: dict[tuple[str, str, int], Path] = field(default_factory=dict)
    refused: dict[tuple[str, str], str] = field(default_factory=dict)
    failed: dict[tuple[str, str], str] = field(default_factory=dict)
    #: What has been read.
    summaries: dict[tuple[str, str], list[Summary]] = field(default_factory=dict)

    def make(
        self, cases: Sequence[tuple[Criterion, Case]], document: str, progress: Callable[[float], None] | None = None
    ) -> None:
        """Writes the scenarios of some cases and runs them."""
        jobs: list[batch.Job] = []
        places: dict[str, tuple[str, str, int]] = {}
        for criterion, case in cases:
            name, data = criterion.name(case), self.place.adapted(criterion.data(case))
            whose: dict[str, Plain] = {}
            for other in (*self.against, self.one):
                try:
                    whose[other.folder] = other.placed(data)
                except ScenarioError as error:
                    self.refused[name, other.folder] = _why(error)
            if self.one.folder in whose:
                files.write(self.scenarios / f"{name}.toml", _file(document, criterion, case, self.one, data))
            if any(check.as_ == "harm" for check in criterion.checks(case)):
                whose[_ALONE] = absent(data)
            for who, made in whose.items():
                for seed in range(1, self.seeds + 1):
                    try:
                        scenario = from_dict({**made, "seed": seed}, where=f"scenarios/{name}.toml", name=name)
                    except ScenarioError as error:
                        self.refused[name, who] = _why(error)
                        break
                    jobs.append(batch.Job(f"{name}/{who}{self.place.suffix}-seed{seed}", scenario, self.place.ground))
                    places[jobs[-1].name] = (name, who, seed)

        def refused(job: batch.Job, error: InputError) -> None:
            self.refused[places[job.name][:2]] = _why(error)

        def failed(job: batch.Job, error: Exception) -> None:
            name, who, _ = places[job.name]
            if who != self.one.folder:
                raise error
            # A program's failure stays in its result, where it is read also when the run is not made again.
            if not isinstance(error, ProgramError):
                self.failed.setdefault((name, who), _why(error))

        folders = batch.run(jobs, self.kept, refused=refused, failed=failed, progress=progress, **self.how)
        there = zip(jobs, folders, strict=True)
        self.folders |= {places[job.name]: folder for job, folder in there if folder is not None}

    def unrepeated(self) -> list[str]:
        """Runs the smallest network with a class once more, and says whether its figures differ."""
        mine = [folder for (_, who, _), folder in self.folders.items() if who == self.one.folder]
        if self.place.ground != "sim" or not self.one.is_code or not mine:
            return []
        known = [json.loads((folder / "summary.json").read_bytes()) for folder in mine]
        i = min(range(len(mine)), key=lambda i: known[i]["packets"])
        scenario = mine[i] / "scenario.toml"
        differs = runner.prepare(scenario, "sim", allow_code=True).unrepeated(known[i])
        return [] if differs is None else [differs]

    def of(self, scenario: str, who: str) -> list[Summary]:
        """The summaries of a scenario with an algorithm, by seed; none where one was refused or failed."""
        if (scenario, who) in self.failed or (scenario, who) in self.refused:
            return []
        if (scenario, who) not in self.summaries:
            self.summaries[scenario, who] = [
                json.loads((folder / "summary.json").read_bytes())
                for (name, whose, _), folder in sorted(self.folders.items())
                if (name, whose) == (scenario, who)
            ]
        return self.summaries[scenario, who]

    def kernel(self) -> str | None:
        """The release of the kernel that ran; of several, since runs were kept from before, all."""
        told = (json.loads((folder / "manifest.json").read_bytes())["kernel"] for folder in self.folders.values())
        return ", ".join(sorted({kernel for kernel in told if kernel is not None})) or None


def evaluate(
    one: Subject,
    against: Sequence[Subject],
    criteria: Sequence[Criterion],
    out: Path,
    *,
    suite: str = DEFAULT,
    place: Place = SIM,
    runs: Path | None = None,
    quick: bool = False,
    seeds: int | None = None,
    budget: int | None = None,
    explained: bool = False,
    progress: Callable[[float], None] | None = None,
    **how: Unpack[RunsOptions],
) -> Evaluation:
    """Evaluates an algorithm into ``out``; finished runs of the same program are reused.

    ``out`` gets ``evaluate.json``, ``evaluate.html``, ``badge.svg``, the scenarios with the algorithm in them, and the
    results of all runs.

    Args:
        one: the algorithm.
        against: the deployed ones that it is compared with.
        criteria: what is asked; with ``quick`` only scenarios that are marked so.
        out: the folder.
        suite: the suite that the criteria are of.
        place: where everything runs.
        runs: where the results of the runs are kept, if not in ``out``; it has been checked.
        quick: run a part of the scenarios, with fewer seeds.
        seeds: runs of each scenario; default: 3, or 2 with ``quick``.
        budget: networks that each search for a worst one tries (:mod:`knee.evaluate.worst`); default: no search.
        explained: of the suite bbr, name the rules that it breaks (:mod:`knee.evaluate.explain`).
        progress: called with the fraction that is done.
        how: other options of :func:`knee.study.batch.run`.

    Raises:
        InputError: ``out`` has something else, or a run needs too much memory.
        RunError: a deployed algorithm failed.
    """
    if runs is None:
        claim(out, MARK, {**LAYOUT, "runs": RUNS}, "runs", "scenarios", by="knee evaluate")
    else:
        claim(out, MARK, LAYOUT, "scenarios", by="knee evaluate")
    count = seeds or (QUICK_SEEDS if quick else SEEDS)
    cases = [(criterion, case) for criterion in criteria for case in criterion.scenario if case.quick or not quick]
    part = 1.0 if budget is None else _CRITERIA
    ran = _Runs(one, against, place, out / "scenarios", runs or out / "runs", count, how)
    ran.make(cases, load(suite).document, part_of(progress, 0, part))
    found = [
        Found(criterion.key, criterion.title, criterion.section, criterion.question, judged)
        for criterion in criteria
        if (judged := _judged([each for each in cases if each[0] is criterion], ran))
    ]
    networks = [] if budget is None else _worst(criteria, out, budget, ran, part_of(progress, part, 1.0))
    untested = [{key: str(value) for key, value in each.model_dump().items()} for each in load(suite).untested]
    names = [other.name for other in against]
    where = (place.ground, ran.kernel() or place.kernel)
    by = (suite, load(suite).document)
    carriers = {PLACE: one.transport} | {other.name: other.transport for other in against}
    head = (one.name, one.flow, names, count, quick, found, untested, program())
    done = Evaluation(*head, *where, networks, *by, remarks=ran.unrepeated(), transports=carriers)
    if explained:
        done = replace(done, explained=explain.explain(done, one))
    write_verdicts(out / MARK, done.plain())
    files.write(out / "badge.svg", badge.svg(done))
    files.write(out / "evaluate.html", page.page(done))
    return done


def _worst(
    criteria: Sequence[Criterion], out: Path, budget: int, ran: _Runs, progress: Callable[[float], None] | None
) -> list[Worst]:
    """Searches for the worst network of each criterion, and runs it as the scenarios of criteria are run."""
    found = worst.find(
        ran.one, ran.against, criteria, out / TRIED, seeds=ran.seeds, budget=budget, progress=progress, **ran.how
    )
    cases = [(criterion, case) for criterion, _ in found for case in criterion.scenario]
    ran.make(cases, load().document)
    return [replace(each, checks=_judged([case], ran)) for (_, each), case in zip(found, cases, strict=True)]


def _why(error: Exception) -> str:
    """Why a run was refused or failed; the scenario is named beside it."""
    if isinstance(error, ScenarioError):
        return f"{error.key}: {error.found}; {error.accepted}."
    notes = ", ".join(getattr(error, "__notes__", []))
    return str(error) if isinstance(error, KneeError) else in_a_line(error) + (f", {notes}" if notes else "")


def _file(document: str, criterion: Criterion, case: Case, one: Subject, data: Plain) -> str:
    """The scenario's file, with the algorithm in it and a comment on what is asked."""
    name = criterion.name(case)
    places = [i for i, flow in enumerate(data["flows"]) if flow.get("cc") == PLACE]
    other = " ".join(f"--set flows.{i}.cc=cubic" for i in places)
    own = " --allow-programs" if one.is_program else " --allow-code" if one.is_code else ""
    lines = [
        f"{document}, section {criterion.section}: {criterion.question}",
        f"knee run {shlex.quote(name)}.toml{own} --seeds 3",
    ]
    if set(one.flow) <= {"cc"}:
        lines.append(f"knee run {shlex.quote(name)}.toml {other} --seeds 3")
    return "".join(f"# {line}\n" for line in lines) + "\n" + dumps(one.placed(data))


def _judged(cases: Sequence[tuple[Criterion, Case]], ran: _Runs) -> list[JudgedFigure]:
    return [_figure(criterion, case, check, ran) for criterion, case in cases for check in criterion.checks(case)]


def _figure(criterion: Criterion, case: Case, check: Check, runs: _Runs) -> JudgedFigure:
    name, one = criterion.name(case), runs.one
    labels = {flow["label"] for flow in criterion.data(case)["flows"] if flow.get("cc") == PLACE}

    def values(who: str) -> list[float | None]:
        without = runs.of(name, _ALONE)
        return [
            measure(check, summary, without[i] if without else None) for i, summary in enumerate(runs.of(name, who))
        ]

    others: Mapping[str, Values] = {other.name: found for other in runs.against if (found := values(other.folder))}
    verdict, reason, mine = CriterionVerdict.DOES_NOT_RUN, "", list[float | None]()
    if (name, one.folder) in runs.refused:
        verdict, reason = CriterionVerdict.NOT_APPLICABLE, runs.refused[name, one.folder]
    elif (name, one.folder) in runs.failed:
        reason = runs.failed[name, one.folder]
    elif told := [said for summary in runs.of(name, one.folder) for said in summary.get("failed_programs", ())]:
        reason = told[0]
    elif any(sent_nothing(summary, labels) for summary in runs.of(name, one.folder)):
        reason = "Its flows delivered nothing."
    elif one.is_program and not any(value is not None for value in values(one.folder)):
        said = f"{check.known.title}: of programs only packets are seen."
        verdict, reason = CriterionVerdict.NOT_APPLICABLE, said
    else:
        mine = values(one.folder)
        if others:
            verdict = judge(check, mine, others)
        else:
            verdict, reason = CriterionVerdict.NOT_APPLICABLE, "No deployed algorithm ran."
    bound = next(word for word in ("at_most", "at_least", "no_worse") if getattr(check, word) is not None)
    limit = threshold(check, others) if others or bound != "no_worse" else None
    return JudgedFigure(
        key=f"{criterion.key}/{case.name}/{check.key}",
        scenario=name,
        about=case.about,
        figure=check.figure,
        of=check.of,
        as_=check.as_,
        bound=bound,
        threshold=limit if limit is not None and abs(limit) != float("inf") else None,
        less=check.less,
        source=check.source,
        values=mine,
        deployed={who: list(found) for who, found in others.items()},
        verdict=verdict,
        reason=reason,
    )
