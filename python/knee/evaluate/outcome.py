"""The results of an evaluation, as plain data: ``evaluate.json``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from knee.errors import InputError
from knee.evaluate.criteria import DEFAULT, PLACE
from knee.evaluate.rules import Explanation
from knee.evaluate.verdict import CriterionVerdict, worst
from knee.figures.register import RUN, Entry
from knee.scenario import Plain
from knee.scenario.units import shown
from knee.system import files
from knee.system.text import JsonTable

#: The file that identifies the folder of an evaluation.
MARK = "evaluate.json"
FORMAT = 1
#: What a criterion is.
_ABOUT = ("key", "title", "section", "question")
#: Largest such file that is read, bytes.
_MOST = 32 << 20


@dataclass(frozen=True)
class JudgedFigure:
    """The verdict on a figure of a scenario.

    Attributes:
        key: the criterion, the scenario and the check, ``bufferbloat/one-flow/utilization``.
        scenario: the scenario's file without ``.toml``.
        about: what the scenario is.
        figure, of, as_: those of the check.
        bound: ``at_most``, ``at_least`` or ``no_worse``.
        threshold: what that is in numbers, None where no deployed algorithm has the figure.
        less: whether less is better.
        source: where the threshold comes from.
        values: the figure of each seed.
        deployed: the same of each deployed algorithm.
        verdict: the verdict.
        reason: why it does not run or does not apply.
    """

    key: str
    scenario: str
    about: str
    figure: str
    of: str
    as_: str
    bound: str
    threshold: float | None
    less: bool
    source: str
    values: list[float | None]
    deployed: dict[str, list[float | None]]
    verdict: CriterionVerdict
    reason: str = ""

    @property
    def known(self) -> Entry:
        """The figure in the register."""
        return RUN[self.figure]


@dataclass(frozen=True)
class Found:
    """The verdict on a criterion."""

    key: str
    title: str
    section: str
    question: str
    checks: list[JudgedFigure]

    @property
    def verdict(self) -> CriterionVerdict:
        """The worst of its figures'."""
        return worst([check.verdict for check in self.checks])


@dataclass(frozen=True)
class Worst:
    """The worst network that a search found (:mod:`knee.evaluate.worst`); no verdict.

    Attributes:
        criterion: the key of the criterion whose figures it is about.
        about: what the networks are.
        source: why these ranges.
        tried: how many networks were tried, that of the criterion included.
        behind: the part by which the figure is worse than the laxer of its threshold and the worst deployed algorithm's
            (:func:`knee.evaluate.verdict.behind`); None where no network has it.
        own: the same in the network that the search started from.
        changed: the keys in which the network differs from that one, what it has, and what this one has.
        check: the key of the check whose figure that is.
        checks: the figures there.
    """

    criterion: str
    about: str
    source: str
    tried: int
    behind: float | None
    own: float | None
    changed: list[tuple[str, Any, Any]]
    check: str
    checks: list[JudgedFigure]

    @property
    def judged(self) -> JudgedFigure:
        """The figure that is worst."""
        return next(check for check in self.checks if check.key == self.check)

    @property
    def scenario(self) -> str:
        """The scenario's file without ``.toml``."""
        return self.judged.scenario


@dataclass(frozen=True)
class Evaluation:
    """An evaluation: whose, how, and what was found.

    Attributes:
        name: the algorithm.
        flow: the keys of its flows.
        against: the deployed algorithms.
        seeds: runs of each scenario.
        quick: whether only the quick scenarios ran.
        criteria: what was found.
        untested: sections of the suite's document that no criterion covers: ``section``, ``title``, ``why``.
        made: the program that made it: ``program``, ``version``, ``commit``.
        ground: where all runs were.
        kernel: the release of the kernel that ran; None in the simulator.
        worst: the worst networks, where they were searched for.
        suite: the suite that the criteria are of.
        document: whose criteria they are.
        remarks: what to know of the runs: that a class gives other figures the second time.
        transports: what carries the flows of each deployed algorithm, and, by the name :data:`PLACE`, the algorithm's:
            ``tcp``, ``quic``, ``datagrams``, or ``program``.
        explained: the rules that it breaks, where they were asked for; None in what :func:`read` gives.
    """

    name: str
    flow: Plain
    against: list[str]
    seeds: int
    quick: bool
    criteria: list[Found]
    untested: list[dict[str, str]] = field(default_factory=list)
    made: dict[str, str | None] = field(default_factory=dict)
    ground: str = "sim"
    kernel: str | None = None
    worst: list[Worst] = field(default_factory=list)
    suite: str = DEFAULT
    document: str = "RFC 9743"
    remarks: list[str] = field(default_factory=list)
    transports: dict[str, str] = field(default_factory=dict)
    explained: Explanation | None = None

    @property
    def place(self) -> str:
        """Where all runs were, in words."""
        return "the simulator" if self.ground == "sim" else f"Linux {self.kernel} in virtual time"

    def count(self, verdict: CriterionVerdict) -> int:
        """Criteria with a verdict."""
        return sum(found.verdict is verdict for found in self.criteria)

    def plain(self) -> JsonTable:
        """As JSON has it."""
        told: JsonTable = {"format": FORMAT, **self.made, "ground": self.ground, "kernel": self.kernel, "cc": self.name}
        told |= {
            key: getattr(self, key) for key in ("flow", "against", "transports", "suite", "document", "seeds", "quick")
        }
        told["totals"] = {verdict.value: self.count(verdict) for verdict in CriterionVerdict}
        told["criteria"] = [
            {
                **{key: getattr(found, key) for key in _ABOUT},
                "verdict": found.verdict.value,
                "checks": [_plain(check) for check in found.checks],
            }
            for found in self.criteria
        ]
        told["untested"] = self.untested
        if self.remarks:
            told["remarks"] = self.remarks
        if self.explained is not None:
            told["explained"] = asdict(self.explained)
        if self.worst:
            told["worst"] = [
                {**asdict(each), "scenario": each.scenario, "checks": [_plain(check) for check in each.checks]}
                for each in self.worst
            ]
        return told


def carrier(flow: Plain) -> str:
    """The transport of a flow: ``tcp``, ``quic``, ``datagrams`` (video), or ``program``, which has its own."""
    if "program" in flow:
        return "program"
    return "datagrams" if "traffic" in flow else str(flow.get("transport", "tcp"))


def _plain(check: JudgedFigure) -> JsonTable:
    data = {("as" if key == "as_" else key): value for key, value in asdict(check).items()}
    return {**data, "verdict": check.verdict.value}


def read(path: Path) -> Evaluation:
    """An evaluation that was written before; of a folder, the one in it.

    Raises:
        InputError: it cannot be read, or is none of this format.
    """
    path = path / MARK if path.is_dir() else path
    try:
        data = json.loads(files.read(path, _MOST))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}); expected an {MARK}.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no {MARK} ({error}); expected what knee evaluate wrote.") from None
    if not isinstance(data, dict) or "criteria" not in data:
        raise InputError(f"{path} has no criteria; expected an {MARK} that knee evaluate wrote.")
    if data.get("format") != FORMAT:
        raise InputError(f"{path}: format is {data.get('format')!r}; this version reads {FORMAT}.")
    try:
        return _of(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = type(error).__name__
        raise InputError(f"{path} is damaged ({what}: {error}); run the evaluation again.") from None


def _of(data: Plain) -> Evaluation:
    # Files from before there were grounds and suites have the defaults, which all evaluations were then; before
    # `transports` the deployed ones ran over TCP, whatever X did.
    given = ("ground", "kernel", "suite", "document", "remarks")
    told = {key: data[key] for key in given if key in data}
    told |= {key: data[key] for key in ("flow", "against", "seeds", "quick", "untested")}
    told["transports"] = data.get("transports") or {
        PLACE: carrier(told["flow"]),
        **{name: "quic" if ":" in name else "tcp" for name in told["against"]},
    }
    made = {key: data.get(key) for key in ("program", "version", "commit")}
    criteria = [
        Found(**{key: found[key] for key in _ABOUT}, checks=[_judged(check) for check in found["checks"]])
        for found in data["criteria"]
    ]
    worst = [_worst(each) for each in data.get("worst", ())]
    return Evaluation(data["cc"], criteria=criteria, made=made, worst=worst, **told)


def _judged(data: Plain) -> JudgedFigure:
    RUN[data["figure"]]
    for name, values in {"values": data["values"], **data["deployed"]}.items():
        for value in values:
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise TypeError(f"{data['key']}: {name} has {shown(value)}, which is no number")
    told = {("as_" if key == "as" else key): value for key, value in data.items()}
    return JudgedFigure(**{**told, "verdict": CriterionVerdict(data["verdict"])})


def _worst(data: Plain) -> Worst:
    told = {key: value for key, value in data.items() if key != "scenario"}
    changed = [(key, before, after) for key, before, after in data["changed"]]
    return Worst(**{**told, "changed": changed, "checks": [_judged(check) for check in data["checks"]]})
