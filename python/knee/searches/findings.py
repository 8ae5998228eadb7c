"""The findings of a search: which of its trials they are, and the files that show them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tomli_w import dumps

from knee import _core, files
from knee.searches.evaluate import Evaluator, Figures
from knee.searches.plan import Plan
from knee.searches.proposals import Proposal, distance
from knee.searches.shrink import shrink
from knee.sweeps.definition import Definition
from knee.sweeps.table import FIGURES

#: Two findings differ by at least this part of an axis, or in a name.
_APART = 0.15
#: Most trials whose scenarios are shrunk for one further finding; those that shrink to one that is there do not count.
_TRIED = 3
#: Folder of the files.
FOLDER = "findings"


@dataclass(frozen=True)
class Trial:
    """A choice that was tried.

    Attributes:
        number: from 1.
        proposal: the choice.
        values: the value of each goal; None if it has none.
    """

    number: int
    proposal: Proposal
    values: tuple[float, ...] | None


@dataclass(frozen=True)
class Finding:
    """What a search found.

    Attributes:
        file: the scenario that shows it, in the search's folder; for a family of networks, a sweep.
        trial: the trial that it comes from.
        run: the number of that trial's first run.
        found: the trial's values, one for each goal.
        values: those of the file's scenario.
        figures: the figures of the file's scenario, and those of the other variant if there is one.
        data: the file's plain data.
    """

    file: Path
    trial: int
    run: int
    found: tuple[float, ...]
    values: tuple[float, ...]
    data: dict[str, Any]
    figures: list[dict[str, float | None]] = field(default_factory=list)


def worst_first(plan: Plan, trials: Sequence[Trial]) -> list[Trial]:
    """The trials that count, those nearest to the goal first."""
    (goal,) = plan.goals
    known = [trial for trial in trials if trial.values is not None and goal.counts(trial.values[0])]
    return sorted(known, key=lambda trial: -goal.sign * _values(trial)[0])


def front(plan: Plan, trials: Sequence[Trial]) -> list[Trial]:
    """The trials that no other beats in both goals, in the order of the first."""
    first, second = plan.goals
    known = [trial for trial in trials if trial.values is not None]
    ordered = sorted(known, key=lambda t: (-first.sign * _values(t)[0], -second.sign * _values(t)[1], t.number))
    made: list[Trial] = []
    for trial in ordered:
        if not made or second.sign * _values(trial)[1] > second.sign * _values(made[-1])[1]:
            made.append(trial)
    return made


def _values(trial: Trial) -> tuple[float, ...]:
    assert trial.values is not None
    return trial.values


class Finder:
    """Chooses, shrinks and writes the findings of a search."""

    def __init__(
        self, plan: Plan, folder: Path, definition: Definition, evaluator: Evaluator, progress: Callable[[float], None]
    ) -> None:
        self._plan, self._folder, self._definition = plan, folder, definition
        self._evaluator, self._progress = evaluator, progress
        #: The median of the trials' values, which nobody would report.
        self._usual = 0.0

    def find(self, trials: Sequence[Trial]) -> list[Finding]:
        """The findings, whose files have been written.

        Raises:
            RunError: they cannot be written.
        """
        if len(self._plan.goals) == 2:
            return [self._as_found(i, trial) for i, trial in enumerate(front(self._plan, trials), 1)]
        known = [trial.values[0] for trial in trials if trial.values is not None]
        self._usual = median(known) if known else 0.0
        made: list[Finding] = []
        taken: list[Trial] = []
        tried = 0
        for trial in worst_first(self._plan, trials):
            if len(made) >= self._plan.findings:
                break
            if any(distance(self._plan, trial.proposal.places, one.proposal.places) < _APART for one in taken):
                continue
            taken.append(trial)
            if self._plan.across or not self._plan.shrink:
                made.append(self._as_found(len(made) + 1, trial))
                continue
            finding = self._shrunk(len(made) + 1, trial)
            tried += 1
            if all(finding.data != other.data for other in made):
                self._write(finding)
                made.append(finding)
            self._progress(len(made) / self._plan.findings)
            if tried >= _TRIED * self._plan.findings:
                break
        return made

    def _run(self, trial: Trial) -> int:
        return (trial.number - 1) * self._plan.runs_each + 1

    def _data(self, trial: Trial) -> dict[str, Any]:
        """The trial's scenario, as plain data without the other variant's values."""
        return _tidy(self._definition.data(self._definition.point(self._run(trial))))

    def _as_found(self, number: int, trial: Trial) -> Finding:
        values, data = _values(trial), self._data(trial)
        if self._plan.across:
            data = data | {"sweep": self._family()}
        made = Finding(self._file(number), trial.number, self._run(trial), values, values, data)
        if not self._plan.across:
            made.figures.extend(self._figures(data))
        self._write(made)
        return made

    def _family(self) -> dict[str, Any]:
        """The table ``[sweep]`` that runs a choice across the family."""
        over = {key: [row[i] for row in group.rows] for group in self._plan.across for i, key in enumerate(group.keys)}
        made: dict[str, Any] = {"over": over}
        if self._plan.against is not None:
            keys, rows = self._plan.against.keys, self._plan.against.rows
            over |= {key: [row[i] for row in rows] for i, key in enumerate(keys)}
            made |= {"zip": [list(keys)]} if len(keys) > 1 else {}
        return made | ({"seeds": self._plan.seeds} if self._plan.seeds > 1 else {})

    def _shrunk(self, number: int, trial: Trial) -> Finding:
        (goal,), (value,) = self._plan.goals, _values(trial)
        worst = value - self._plan.tolerance * (value - self._usual)

        def shows(scenarios: Sequence[dict[str, Any]]) -> list[bool]:
            inside = [data for data in scenarios if self._plan.within(data)]
            known = self._evaluator.run([(self._alone(data), range(1, self._runs + 1)) for data in inside])
            values = iter([self._plan.values(rows) for rows in known])
            made = [next(values) if self._plan.within(data) else None for data in scenarios]
            return [
                each is not None and goal.counts(each[0]) and goal.sign * each[0] >= goal.sign * worst for each in made
            ]

        against = self._plan.against.keys if self._plan.against is not None else ()
        data = shrink(self._data(trial), shows, [*self._plan.keep, *against])
        figures = self._figures(data)
        values = self._plan.values(self._rows(data))
        assert values is not None
        return Finding(self._file(number), trial.number, self._run(trial), (value,), values, data, figures)

    @property
    def _runs(self) -> int:
        return len(self._alone({}))

    def _alone(self, data: Mapping[str, Any]) -> Definition:
        return self._plan.alone(data)

    def _rows(self, data: Mapping[str, Any]) -> list[Figures | None]:
        (rows,) = self._evaluator.run([(self._alone(data), range(1, self._runs + 1))])
        return rows

    def _figures(self, data: Mapping[str, Any]) -> list[dict[str, float | None]]:
        """The figures of a scenario, mean over the seeds, and those of the other variant if there is one."""
        rows = [row for row in self._rows(data) if row is not None]
        made: list[dict[str, float | None]] = []
        for i in range(0, len(rows), self._plan.seeds):
            of_seeds = rows[i : i + self._plan.seeds]
            made.append({name: _mean([row[name] for row in of_seeds]) for name in FIGURES})
        return made

    def _file(self, number: int) -> Path:
        kind = "front" if len(self._plan.goals) == 2 else "finding"
        return Path(FOLDER) / f"{self._plan.name}-{kind}-{number}.toml"

    def _write(self, finding: Finding) -> None:
        path = self._folder / finding.file
        path.parent.mkdir(exist_ok=True)
        head = "".join(f"# {line}\n" for line in _head(self._plan, finding))
        files.write(path, f"{head}\n{dumps(_titled(self._plan, finding))}")


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) and known else None


def _tidy(data: dict[str, Any]) -> dict[str, Any]:
    """Plain data without what is said anyway: the seed 1, and the name, which becomes that of the file."""
    return {key: value for key, value in data.items() if key != "name" and (key, value) != ("seed", 1)}


def _titled(plan: Plan, finding: Finding) -> dict[str, Any]:
    """The file's data, with a title, in the order in which people write it."""
    title = f"{plan.title}: {finding.file.stem}"
    rest = {key: value for key, value in finding.data.items() if key != "title"}
    plain = {key: value for key, value in rest.items() if not isinstance(value, dict | list)}
    return {"title": title[:200], **plain, **rest}


def _head(plan: Plan, finding: Finding) -> list[str]:
    """The lines above the scenario: where it comes from, and what it shows."""
    shrunk = plan.shrink and not plan.across and len(plan.goals) == 1
    made = f"Found by knee search in trial {finding.trial}" + (", and shrunk." if shrunk else ".")
    lines = [
        made,
        f"knee run --from FOLDER {finding.run}, with the folder of the search, makes the trial's first run again.",
    ]
    command = "knee sweep" if plan.across else "knee run"
    seeds = f" --seeds {plan.seeds}" if plan.seeds > 1 and not plan.across else ""
    lines.append(f"With knee {_core.version()}, {command} FILE{seeds} gives:")
    for i, goal in enumerate(plan.goals):
        if plan.against is None and not plan.across:
            lines.append(f"  {goal.figure} = {finding.values[i]!r}: {plan.said(goal)}")
            continue
        lines.append(f"  {finding.values[i]!r}: {plan.said(goal)}")
        if plan.against is not None and finding.figures:
            changes = [f"{key}={value}" for key, value in zip(plan.against.keys, plan.against.rows[1], strict=True)]
            told = " ".join(f"--set '{change}'" for change in changes)
            own, other = (figures[goal.figure] for figures in finding.figures)
            lines += [f"  {goal.figure} = {own!r}", f"  {goal.figure} = {other!r} with {told}"]
    if shrunk and finding.found != finding.values:
        lines.append(f"In the trial, before it was shrunk: {', '.join(map(repr, finding.found))}")
    return lines
