"""``knee evaluate --worst``: the network, within bounds, in which an algorithm is furthest behind the deployed ones.

``worst.toml`` says where a search looks. It starts from a scenario of a criterion; :mod:`knee.study.searches.proposals`
proposes others, :mod:`knee.study.batch` runs the algorithm and each deployed one in them with the seeds of the
evaluation, and :func:`knee.evaluate.verdict.behind` says how far behind it is. What was found is brought back towards
the start, key by key, where it stays about as bad: the keys that are left are what it takes.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from tomli_w import dumps

from knee.errors import InputError, KneeError, Refused, RunError, ScenarioError, in_a_line
from knee.evaluate.criteria import PLACE, Case, Check, Criterion, load
from knee.evaluate.outcome import Worst
from knee.evaluate.place import SIM
from knee.evaluate.subject import Subject, absent
from knee.evaluate.verdict import Parts, behind, combined, parts, sent_nothing
from knee.results.manifest import digest, fingerprint, identity
from knee.results.result import Result
from knee.scenario import Plain, from_dict
from knee.scenario.loading import put
from knee.study import batch
from knee.study.engine import part_of
from knee.study.searches.plan import Axis, Goal, Plan
from knee.study.searches.shrink import Move, simplified
from knee.study.sweeps.definition import stated
from knee.system import files

#: Networks that each search tries, by default and with ``--quick``.
BUDGET, QUICK_BUDGET = 40, 10
#: Networks that are proposed before the figures of others are known.
_BATCH = 10
#: How far what was found may fall back towards the start when it is made simpler, as a part of the way.
_TOLERANCE = 0.1
#: What scenarios have that do not say it.
_UNSAID = {"count": 1, "jitter": "0 s", "loss": 0.0}
#: Largest file of runs that were made, bytes.
_MOST = 256 << 20


class Networks(BaseModel):
    """Where a search looks.

    Attributes:
        criterion: the criterion whose figures it is about.
        name: its name among those of the criterion; by default it is the only one.
        scenario: the scenario of the criterion that it starts from.
        text, about: the scenario that it starts from where that is none of the criterion's, and what it is.
        over: the keys that vary, with their values.
        check: what is asked; by default what the criterion asks of the scenario.
        slight: figures, with values up to which they are no matter, whatever the deployed algorithms have.
        source: why these networks.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    criterion: str
    name: str = ""
    scenario: str = ""
    text: str = ""
    about: str = ""
    over: dict[str, tuple[Any, ...]] = Field(min_length=1)
    check: tuple[Check, ...] = ()
    slight: dict[str, float] = Field(default_factory=dict)
    source: str = Field(min_length=10)

    @model_validator(mode="after")
    def _whole(self) -> Networks:
        if bool(self.scenario) == bool(self.text) or bool(self.text) != bool(self.about):
            raise ValueError(f"{self.criterion}: expected either scenario, or text and about")
        if self.text and not self.check:
            raise ValueError(f"{self.criterion}: {self.name} needs checks of its own")
        if any(len(values) < 2 for values in self.over.values()):
            raise ValueError(f"{self.criterion}: each key needs two values or more")
        return self

    @property
    def key(self) -> str:
        """Its name among all searches, and that of its scenario's file."""
        return f"worst-{self.criterion}{f'-{self.name}' if self.name else ''}"

    def start(self, criterion: Criterion) -> Plain:
        """The scenario that it starts from, as plain data."""
        if self.text:
            return {"title": f"{criterion.title}: {self.about}", **tomllib.loads(self.text)}
        return criterion.data(self._case(criterion))

    def told(self, criterion: Criterion) -> str:
        """Its networks, in words."""
        return self.about or f"like {self._case(criterion).about}"

    def checks(self, criterion: Criterion) -> list[Check]:
        """The checks of the figures on its networks."""
        return list(self.check or criterion.checks(self._case(criterion)))

    def _case(self, criterion: Criterion) -> Case:
        return next(case for case in criterion.scenario if case.name == self.scenario)

    def alone(self, criterion: Criterion, data: Plain) -> Criterion:
        """The criterion with one of the networks as its only scenario, whose name is :attr:`key`."""
        checks = [check.model_copy(update={"only": ()}) for check in self.checks(criterion)]
        case = Case(name="", about=self.told(criterion), text=dumps(data))
        # The title is in the text.
        return criterion.model_copy(update={"key": self.key, "scenario": (case,), "check": tuple(checks)})

    def axes(self) -> list[Axis]:
        """The axes of the networks that are proposed."""
        return [Axis((key,), [[value] for value in values]) for key, values in self.over.items()]


@cache
def searches() -> tuple[Networks, ...]:
    """All searches, in the order of the criteria."""
    text = resources.files(__package__).joinpath("worst.toml").read_text(encoding="utf-8")
    made = tuple(Networks.model_validate(each) for each in tomllib.loads(text)["networks"])
    order = [criterion.key for criterion in load().criterion]
    return tuple(sorted(made, key=lambda networks: order.index(networks.criterion)))


class Runs:
    """Runs networks, each once, and keeps what the checks need of each run in a file."""

    def __init__(self, path: Path, *, again: bool = False, **options: Any) -> None:
        """Takes what an interrupted search left in the file; ``options`` as of :func:`knee.study.batch.results`."""
        self._path, self._options = path, options
        self._known: dict[str, Any] = {} if again else _read(path)

    def outcomes(
        self,
        wanted: Sequence[Plain],
        checks: Sequence[Check],
        labels: set[str],
        progress: Callable[[float], None] | None,
    ) -> list[Plain]:
        """Runs scenarios for the checks. Returns ``parts`` and ``silent`` of each; or why not: ``refused``, ``failed``.

        Args:
            wanted: scenarios as plain data.
            checks: the checks.
            labels: the flows that deliver something, unless they are silent.
            progress: called with the part of the runs that are done.
        """
        asked = json.dumps([[check.figure, check.of, check.as_] for check in checks])
        keys: list[str | None] = []
        jobs: dict[str, batch.Job] = {}
        for data in wanted:
            try:
                scenario = from_dict(data, name="network")
            except ScenarioError:
                keys.append(None)
                continue
            key = digest(identity(scenario, SIM.ground, None), asked)
            keys.append(key)
            if key not in self._known:
                jobs[key] = batch.Job(key, scenario, SIM.ground)
        if jobs:
            self._run(list(jobs.values()), checks, labels, progress)
        return [{"refused": True} if key is None else self._known[key] for key in keys]

    def _run(
        self,
        jobs: Sequence[batch.Job],
        checks: Sequence[Check],
        labels: set[str],
        progress: Callable[[float], None] | None,
    ) -> None:
        def use(job: batch.Job, result: Result) -> Plain:
            made = [parts(check, result.summary) for check in checks]
            return {"parts": made, "silent": sent_nothing(result.summary, labels)}

        def refused(job: batch.Job, error: InputError) -> None:
            self._known[job.name] = {"refused": str(error)}

        def failed(job: batch.Job, error: Exception) -> None:
            self._known[job.name] = {"failed": str(error) if isinstance(error, KneeError) else in_a_line(error)}

        made = batch.results(jobs, use, refused=refused, failed=failed, progress=progress, **self._options)
        self._known |= {job.name: each for job, each in zip(jobs, made, strict=True) if each is not None}
        told = {"fingerprint": fingerprint("evaluate"), "runs": self._known}
        files.write(self._path, json.dumps(told, allow_nan=False) + "\n")


def _read(path: Path) -> Plain:
    try:
        read = json.loads(files.read(path, _MOST))
    except (OSError, ValueError):
        # It only saves runs.
        return {}
    # Those of another program are of no use.
    same = isinstance(read, dict) and read.get("fingerprint") == fingerprint("evaluate")
    return dict(read["runs"]) if same else {}


@dataclass(eq=False)
class _Search:
    """A search while it is made."""

    networks: Networks
    criterion: Criterion
    one: Subject
    against: Sequence[Subject]
    seeds: int
    runs: Runs

    def changed(self, row: Plain) -> Plain:
        """The scenario with some values in place of the start's."""
        data = self.networks.start(self.criterion)
        for key, value in row.items():
            put(data, key, value)
        return data

    def measure(
        self, rows: Sequence[Plain], progress: Callable[[float], None] | None = None
    ) -> list[tuple[float, Check] | None]:
        """How far behind the algorithm is in some networks, and in which check; None where nothing is to compare."""
        checks = self.networks.checks(self.criterion)
        harm = any(check.as_ == "harm" for check in checks)
        networks: list[Plain] = []
        for row in rows:
            data = self.changed(row)
            try:
                networks += [other.placed(data) for other in (self.one, *self.against)]
            except ScenarioError:
                return [None] * len(rows)
            networks += [absent(data)] if harm else []
        wanted = [{**data, "seed": seed} for data in networks for seed in range(1, self.seeds + 1)]
        labels = {flow["label"] for flow in self.changed({})["flows"] if flow.get("cc") == PLACE}
        told, count = self.runs.outcomes(wanted, checks, labels, progress), len(self.against)
        runs = iter([told[i : i + self.seeds] for i in range(0, len(told), self.seeds)])
        return [self._value(checks, next(runs), list(islice(runs, count)), next(runs) if harm else None) for _ in rows]

    def _value(
        self,
        checks: Sequence[Check],
        mine: Sequence[Plain],
        deployed: Sequence[Sequence[Plain]],
        alone: Sequence[Plain] | None,
    ) -> tuple[float, Check] | None:
        """The check in which the algorithm is furthest behind."""
        for each in deployed:
            if told := next((run["failed"] for run in each if "failed" in run), None):
                raise RunError(told)
        others = [each for each in deployed if not any("refused" in run for run in each)]
        if any("refused" in run for run in mine) or not others:
            return None
        if alone is not None and not all("parts" in run for run in alone):
            return None
        if any("failed" in run or run["silent"] for run in mine):
            return 1.0, checks[0]
        made: list[tuple[float, Check]] = []
        for i, check in enumerate(checks):

            def values(runs: Sequence[Plain], i: int = i, check: Check = check) -> list[float | None]:
                without: Sequence[Parts | None] = (
                    [None] * len(runs) if alone is None else [tuple(run["parts"][i]) for run in alone]
                )
                return [
                    combined(check, tuple(run["parts"][i]), other) for run, other in zip(runs, without, strict=True)
                ]

            named = {str(k): values(runs) for k, runs in enumerate(others)}
            value = behind(check, values(mine), named, self.networks.slight.get(check.figure, 0.0))
            if value is not None:
                made.append((value, check))
        return max(made, key=lambda each: each[0], default=None)

    def find(self, budget: int, progress: Callable[[float], None] | None) -> tuple[Criterion, Worst]:
        """Tries networks, the start among them, and makes the worst one simpler; its figures are not judged yet."""
        from knee.study.searches.proposals import Proposals

        # Of the goal only its sense counts: values are those of :func:`behind`.
        goal = Goal(self.networks.checks(self.criterion)[0].figure, "max")
        axes, table = tuple(self.networks.axes()), {"batch": _BATCH}
        plan = Plan(self.networks.key, self.networks.key, {}, (goal,), axes, table=table)
        start = self.networks.start(self.criterion)
        own = {key: _own(start, key) for key in self.networks.over}
        (at_start,) = self.measure([{}])
        tried: list[tuple[float, Plain]] = [(at_start[0] if at_start else -math.inf, {})]

        def values(rows: list[list[Any]], before: int) -> list[tuple[float] | None]:
            partly = part_of(progress, (1 + before) / budget, (1 + before + len(rows)) / budget)
            found = self.measure([dict(zip(plan.keys, row, strict=True)) for row in rows], partly)
            return [None if each is None else (each[0],) for each in found]

        for proposal, behind_by in Proposals(plan).tried(budget - 1, values):
            row = dict(zip(plan.keys, proposal.row, strict=True))
            tried.append((-math.inf if behind_by is None else behind_by[0], row))
        worst, row = max(tried, key=lambda each: each[0])
        row = self._simpler(worst, {key: of for key, of in row.items() if of != own[key]}, at_start)
        (value,) = self.measure([row])
        check = value[1] if value else self.networks.checks(self.criterion)[0]
        changed = [(key, own[key], of) for key, of in row.items()]
        found, before = (None if each is None else each[0] for each in (value, at_start))
        alone = self.networks.alone(self.criterion, self.changed(row))
        about = (self.criterion.key, alone.scenario[0].about, self.networks.source)
        return alone, Worst(*about, len(tried), found, before, changed, f"{alone.key}//{check.key}", [])

    def _simpler(self, value: float, row: Plain, at_start: tuple[float, Check] | None) -> Plain:
        """The values without those that make little difference."""
        floor = max(at_start[0], 0.0) if at_start else 0.0
        least = value - _TOLERANCE * max(value - floor, 0.0)

        def without(key: str) -> Move:
            return lambda row: {other: of for other, of in row.items() if other != key}

        def shows(rows: Sequence[Plain]) -> list[bool]:
            return [found is not None and found[0] >= least for found in self.measure(rows)]

        return simplified(row, [without(key) for key in row], shows)


def _own(data: Plain, key: str) -> Any:
    """The start's value at a key, or the default where it does not say."""
    try:
        return stated(data, key.replace("*", "0"))
    except Refused:
        return _UNSAID.get(key.rpartition(".")[2])


def find(
    one: Subject,
    against: Sequence[Subject],
    criteria: Sequence[Criterion],
    path: Path,
    *,
    seeds: int,
    budget: int,
    again: bool = False,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> list[tuple[Criterion, Worst]]:
    """The worst networks of criteria, in the simulator, each also as the only scenario of its criterion.

    Args:
        one: the algorithm.
        against: the deployed ones that it is compared with.
        criteria: whose networks.
        path: the file of what is known of runs, which an interrupted search goes on with.
        seeds: runs of each.
        budget: networks that each search tries.
        again: make all runs anew.
        progress: called with the fraction that is done.
        options: those of :func:`knee.study.batch.results`.

    Raises:
        InputError: a run needs too much memory.
        RunError: a deployed algorithm failed.
    """
    runs = Runs(path, again=again, **options)
    asked = [(criterion, each) for criterion in criteria for each in searches() if each.criterion == criterion.key]
    found = []
    for i, (criterion, networks) in enumerate(asked):
        partly = part_of(progress, i / len(asked), (i + 1) / len(asked))
        found.append(_Search(networks, criterion, one, against, seeds, runs).find(budget, partly))
    return found
