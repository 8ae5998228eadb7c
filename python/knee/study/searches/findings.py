"""The findings of a search: which of its trials they are, and the files that show them again."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tomli_w import dumps

from knee import _core
from knee.errors import KneeError
from knee.figures.register import RUN
from knee.own import IN_FILE, IN_SOURCE, OWN
from knee.scenario import Plain
from knee.scenario.spec import span
from knee.study.searches.evaluate import Evaluator, Figures
from knee.study.searches.plan import Plan, leaves_of
from knee.study.searches.proposals import Proposal, distance
from knee.study.searches.shrink import shrink
from knee.study.sweeps.definition import Definition
from knee.study.sweeps.place import FINDINGS
from knee.system import files
from knee.system.rights import make_folder

#: Two findings differ by at least this part of an axis, or in a name.
_APART = 0.15
#: Most trials whose scenarios are shrunk for one further finding; those that shrink to one that is there do not count.
_TRIED = 3
#: A finding is not shrunk to where less than this is measured: full packets delivered, and round trips of the longest.
MEASURED_PACKETS, MEASURED_ROUND_TRIPS = 1000, 10
#: Payload of a full packet, bytes.
_PAYLOAD = 1448
#: How far equal values may be apart by rounding.
_ROUNDING = 1e-9


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
    """A finding of a search.

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
    data: Plain
    figures: list[dict[str, float | None]] = field(default_factory=list)

    def how(self, folder: Path, plan: Plan) -> str:
        """The way to run the file again, as a command, or in Python where it needs a class."""
        path, own = folder / self.file, _own(self.data)
        if not own:
            return f"{'knee sweep' if plan.across else 'knee run'} {shlex.quote(str(path))}{_allowing(self.data)}"
        call = f"knee.{'sweep' if plan.across else 'run'}({str(path)!r})"
        return f"In a Python program that has used the class {own[0]}: {call}"


def _own(data: Plain) -> list[str]:
    """The classes written in Python that a scenario's plain data, or the axes of its sweep, name."""
    leaves = [value for _, value in leaves_of(data)]
    return list(
        dict.fromkeys(value.removeprefix(OWN) for value in leaves if isinstance(value, str) and value.startswith(OWN))
    )


def _named_files(data: Plain) -> bool:
    """Whether a scenario's plain data, or the axes of its sweep, name code in a file."""
    named = [
        value for key, value in leaves_of(data) if {"cc", "queue"} & set(key.split(".")) and isinstance(value, str)
    ]
    return any(pattern.fullmatch(value) for value in named for pattern in (IN_FILE, IN_SOURCE))


def _allowing(data: Plain) -> str:
    """The option that a command needs to run code in files; empty where there is none."""
    return " --allow-code" if _named_files(data) else ""


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
    front: list[Trial] = []
    for trial in ordered:
        if not front or second.sign * _values(trial)[1] > second.sign * _values(front[-1])[1]:
            front.append(trial)
    return front


def _values(trial: Trial) -> tuple[float, ...]:
    assert trial.values is not None
    return trial.values


@dataclass(eq=False)
class Finder:
    """Chooses, shrinks and writes the findings of a search."""

    plan: Plan
    folder: Path
    definition: Definition
    evaluator: Evaluator
    progress: Callable[[float], None] | None
    #: The median of the trials' values, which nobody would report.
    usual: float = 0.0

    def find(self, trials: Sequence[Trial]) -> list[Finding]:
        """The findings, whose files have been written.

        Raises:
            RunError: they cannot be written.
        """
        if len(self.plan.goals) == 2:
            return [self._as_found(i, trial) for i, trial in enumerate(front(self.plan, trials), 1)]
        known = [trial.values[0] for trial in trials if trial.values is not None]
        self.usual = median(known) if known else 0.0
        findings: list[Finding] = []
        taken: list[Trial] = []
        tried = 0
        for trial in worst_first(self.plan, trials):
            if len(findings) >= self.plan.asked["findings"]:
                break
            if any(distance(self.plan, trial.proposal.places, one.proposal.places) < _APART for one in taken):
                continue
            taken.append(trial)
            if self.plan.across or not self.plan.asked["shrink"]:
                findings.append(self._as_found(len(findings) + 1, trial))
                continue
            finding = self._shrunk(len(findings) + 1, trial)
            tried += 1
            if all(finding.data != other.data for other in findings):
                self._write(finding)
                findings.append(finding)
            if self.progress is not None:
                self.progress(len(findings) / self.plan.asked["findings"])
            if tried >= _TRIED * self.plan.asked["findings"]:
                break
        return findings

    def _run(self, trial: Trial) -> int:
        return (trial.number - 1) * self.plan.runs_each + 1

    def _data(self, trial: Trial) -> Plain:
        """The trial's scenario, as plain data without the other variant's values."""
        return _tidy(self.definition.data(self.definition.point(self._run(trial))))

    def _as_found(self, number: int, trial: Trial) -> Finding:
        values, data = _values(trial), self._data(trial)
        if self.plan.across:
            data = data | {"sweep": self._family()}
        finding = Finding(self._file(number), trial.number, self._run(trial), values, values, data)
        if not self.plan.across:
            finding.figures.extend(self._figures(data))
        self._write(finding)
        return finding

    def _family(self) -> Plain:
        """The table ``[sweep]`` that runs a choice across the family."""
        over = {key: [row[i] for row in group.rows] for group in self.plan.across for i, key in enumerate(group.keys)}
        table: Plain = {"over": over}
        if self.plan.against is not None:
            keys, rows = self.plan.against.keys, self.plan.against.rows
            over |= {key: [row[i] for row in rows] for i, key in enumerate(keys)}
            table |= {"zip": [list(keys)]} if len(keys) > 1 else {}
        return table | ({"seeds": self.plan.asked["seeds"]} if self.plan.asked["seeds"] > 1 else {})

    def _shrunk(self, number: int, trial: Trial) -> Finding:
        (goal,), (value,) = self.plan.goals, _values(trial)
        near = self.plan.asked["tolerance"] * abs(value - self.usual) + _ROUNDING * abs(value)

        def shows(scenarios: Sequence[Plain]) -> list[bool]:
            windows = [self._window_s(data) if self.plan.within(data) else None for data in scenarios]
            inside = [data for data, window_s in zip(scenarios, windows, strict=True) if window_s is not None]
            known = iter(self._figures_of(inside))
            verdicts = []
            for window_s in windows:
                rows = next(known) if window_s is not None else [None]
                values = self.plan.values(rows)
                verdicts.append(
                    values is not None
                    and goal.counts(values[0])
                    and abs(values[0] - value) <= near
                    and all(row is not None and _packets(row, window_s) >= MEASURED_PACKETS for row in rows)
                )
            return verdicts

        data = shrink(self._data(trial), shows, self.plan.kept)
        figures = self._figures(data)
        values = self.plan.values(*self._figures_of([data]))
        assert values is not None
        return Finding(self._file(number), trial.number, self._run(trial), (value,), values, data, figures)

    def _window_s(self, data: Plain) -> float | None:
        """How long a scenario is measured, s; None where it is refused, or that is less than some round trips."""
        definition = self.plan.alone(data)
        try:
            scenario = definition.scenario(definition.point(1))
        except KneeError:
            return None
        first = min(span(scenario, flow, 0)[0] for flow in scenario.flows)
        window = scenario.duration - scenario.warmup - first
        rtt = max(flow.rtt for flow in scenario.flows)
        return window / 1e9 if window >= MEASURED_ROUND_TRIPS * rtt else None

    def _figures_of(self, scenarios: Sequence[Plain]) -> list[list[Figures | None]]:
        alone = [self.plan.alone(data) for data in scenarios]
        return self.evaluator.figures_of([(definition, definition.all_runs) for definition in alone])

    def _figures(self, data: Plain) -> list[dict[str, float | None]]:
        """The figures of a scenario, mean over the seeds, and those of the other variant if there is one."""
        (known,) = self._figures_of([data])
        rows = [row for row in known if row is not None]
        means: list[dict[str, float | None]] = []
        for i in range(0, len(rows), self.plan.asked["seeds"]):
            of_seeds = rows[i : i + self.plan.asked["seeds"]]
            means.append({name: _mean([row[name] for row in of_seeds]) for name in RUN})
        return means

    def _file(self, number: int) -> Path:
        kind = "front" if len(self.plan.goals) == 2 else "finding"
        return Path(FINDINGS) / f"{self.plan.name}-{kind}-{number}.toml"

    def _write(self, finding: Finding) -> None:
        path = self.folder / finding.file
        make_folder(path.parent)
        head = "".join(f"# {line}\n" for line in _head(self.plan, finding))
        files.write(path, f"{head}\n{dumps(_titled(self.plan, finding))}")


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) and known else None


def _tidy(data: Plain) -> Plain:
    """Plain data without what is said anyway: the seed 1, and the name, which becomes that of the file."""
    return {key: value for key, value in data.items() if key != "name" and (key, value) != ("seed", 1)}


def _packets(figures: Figures, window_s: float | None) -> float:
    """The full packets whose payload was delivered while it was measured."""
    goodput = figures["goodput_mbps"]
    return 0.0 if goodput is None or window_s is None else goodput * 1e6 * window_s / (8 * _PAYLOAD)


def _titled(plan: Plan, finding: Finding) -> Plain:
    """The file's data, with a title that says what runs, in the order in which people write it."""
    rest = {key: value for key, value in finding.data.items() if key != "title"}
    plain = {key: value for key, value in rest.items() if not isinstance(value, dict | list)}
    return {"title": _title(plan, finding)[:200], **plain, **rest}


def _title(plan: Plan, finding: Finding) -> str:
    """Flows, link and figures of a finding."""
    flows: dict[str, int] = {}
    for flow in finding.data.get("flows", ()):
        name = str(flow.get("cc", flow.get("traffic", {}).get("kind", "flow"))).removeprefix(OWN)
        flows[name] = flows.get(name, 0) + flow.get("count", 1)
    rtts = list(dict.fromkeys(str(flow["rtt"]) for flow in finding.data.get("flows", ()) if "rtt" in flow))
    link = finding.data.get("link", {})
    over = [str(link[key]) for key in ("rate", "model") if key in link]
    over += [f"{link.get('queue', 'pfifo')} of {link['limit']}"] if "limit" in link else [str(link.get("queue", ""))]
    parts = [" and ".join(f"{count} {name}" for name, count in flows.items())]
    parts += [" ".join(part for part in over if part)] if link else [f"{len(finding.data.get('links', ()))} links"]
    parts += [f"RTT {' and '.join(rtts[:3])}{' ...' if len(rtts) > 3 else ''}"] if rtts else []
    values = zip(plan.goals, finding.values, strict=True)
    figures = ", ".join(f"{goal.figure} {value:.4g}{_compared(plan)}" for goal, value in values)
    return f"{', '.join(parts)}: {figures}"


def _compared(plan: Plan) -> str:
    """The variant that a value is compared with, in words."""
    if plan.against is None:
        return ""
    other = ", ".join(f"{k} = {v}" for k, v in zip(plan.against.keys, plan.against.rows[1], strict=True))
    return f" times that with {other}" if plan.asked["compare"] == "ratio" else f" more than with {other}"


def _head(plan: Plan, finding: Finding) -> list[str]:
    """The lines above the scenario: where it comes from, and what it shows."""
    shrunk = plan.asked["shrink"] and not plan.across and len(plan.goals) == 1
    origin = f"Found by knee search of {plan.name} in trial {finding.trial}" + (", and shrunk." if shrunk else ".")
    lines = [origin]
    if not _own(finding.data) and not _named_files(finding.data):
        what = "with the folder of the search, makes the trial's first run again"
        lines.append(f"knee run --from FOLDER {finding.run}, {what}.")
    classes = _own(finding.data)
    command = "knee sweep" if plan.across else "knee run"
    seeds = f" --seeds {plan.asked['seeds']}" if plan.asked["seeds"] > 1 and not plan.across else ""
    call = f"knee.{command[5:]}('FILE') in a Python program that has used the class {classes[0]}" if classes else ""
    lines.append(f"With knee {_core.version()}, {call or f'{command} FILE{seeds}{_allowing(finding.data)}'} gives:")
    for i, goal in enumerate(plan.goals):
        if plan.against is None and not plan.across:
            lines.append(f"  {goal.figure} = {finding.values[i]!r}: {plan.said(goal)}")
            continue
        lines.append(f"  {finding.values[i]!r}: {plan.said(goal)}")
        if plan.against is not None and finding.figures:
            changes = [f"{key}={value}" for key, value in zip(plan.against.keys, plan.against.rows[1], strict=True)]
            variant = " ".join(f"--set '{change}'" for change in changes)
            own, other = (figures[goal.figure] for figures in finding.figures)
            lines += [f"  {goal.figure} = {own!r}", f"  {goal.figure} = {other!r} with {variant}"]
    if shrunk and finding.found != finding.values:
        lines.append(f"In the trial, before it was shrunk: {', '.join(map(repr, finding.found))}")
    return lines
