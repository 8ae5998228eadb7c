"""An evaluation that is asked for (``requests.py``), checked once, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from knee.errors import InputError
from knee.evaluate import criteria, field, place, run, subject
from knee.evaluate.criteria import DEFAULT, Criterion
from knee.evaluate.field import Field
from knee.evaluate.outcome import Evaluation
from knee.evaluate.place import SIM, Place
from knee.evaluate.requests import Request
from knee.evaluate.subject import Subject
from knee.evaluate.worst import BUDGET, QUICK_BUDGET
from knee.own import code_allowed
from knee.study.sections import taken
from knee.system import extras
from knee.system.requests import spelled_out


@dataclass(frozen=True)
class Plan:
    """An evaluation that was checked.

    Attributes:
        one: the algorithm; None for all, each as it is.
        against: the deployed ones.
        criteria: what is asked of it.
        place: where everything runs.
        seeds: runs of each scenario.
        given: the request, with its defaults.
    """

    one: Subject | None
    against: list[Subject]
    criteria: list[Criterion]
    place: Place
    seeds: int
    given: Mapping[str, Any]

    @property
    def out(self) -> Path:
        """The folder where none is named."""
        of = "" if self.given["suite"] == DEFAULT else f"-{self.given['suite']}"
        quick = "-quick" if self.given["quick"] else ""
        return Path("results") / f"evaluate-{self.one.folder if self.one else 'all'}{of}{self.place.suffix}{quick}"

    def run(
        self, out: Path, progress: Callable[[float], None] | None = None, command: str | None = None
    ) -> Evaluation | Field:
        """Runs it into a folder; raises what :func:`knee.evaluate.run.evaluate` does."""
        asked = self.given
        how: dict[str, Any] = {
            "suite": asked["suite"], "place": self.place, "quick": asked["quick"], "seeds": self.seeds,
            "workers": asked.get("jobs"), "again": asked.get("again", False) or asked["qlog"], "qlog": asked["qlog"],
            "max_memory": asked.get("max_memory"), "allow_programs": asked.get("allow_programs", False),
            "progress": progress, "command": command,
        }  # fmt: skip
        with code_allowed(asked.get("allow_code", False)):
            if self.one is None:
                return field.evaluate_all(subject.registered(self.place), self.against, self.criteria, out, **how)
            budget = asked.get("budget", QUICK_BUDGET if asked["quick"] else BUDGET) if asked["worst"] else None
            how |= {"budget": budget, "explained": asked["explain"]}
            return run.evaluate(self.one, self.against, self.criteria, out, **how)


def read(cc: str | None, asked: Request) -> Plan:
    """The evaluation that is asked for, of an algorithm, or of all where ``cc`` is None.

    Raises:
        InputError: something was refused; says what, and what is accepted.
        RunError: the ground does not work here.
    """
    given = taken(Request, asked, "evaluate")
    suite, worst, explain = given["suite"], given["worst"], given["explain"]
    if "budget" in given and not worst:
        raise InputError("--budget is that of a search for worst networks; give --worst too.")
    if worst and suite != DEFAULT:
        raise InputError("--worst searches around the criteria of RFC 9743; leave --suite or --worst away.")
    if explain and suite != "bbr":
        raise InputError("--explain plays the conformance vectors of BBR; give --suite bbr too.")
    if cc is None:
        if given["set"]:
            raise InputError("--all evaluates every algorithm as it is; leave X, --set and --baseline away.")
        if explain:
            raise InputError("--explain is about one algorithm; leave --all away, and name it.")
        if worst:
            raise InputError("--worst searches for the networks of one algorithm; leave --all away, and name it.")
    chosen = criteria.chosen(given["only"], suite)
    here = place.chosen(given.get("ground"), given.get("kernel"))
    if worst:
        if here != SIM:
            raise InputError(
                f"--worst searches in the simulator, and this evaluation is on {here.ground}; leave one away."
            )
        extras.need("knee evaluate --worst", "optuna")
    with code_allowed(given.get("allow_code", False)):
        programs = given.get("allow_programs", False)
        one = None if cc is None else subject.subject(cc, given["set"], here, allow_programs=programs)
        others = subject.deployed(given.get("against", here.deployed(suite)), here, one)
    seeds = given.get("seeds", run.QUICK_SEEDS if given["quick"] else run.SEEDS)
    return Plan(one, others, chosen, here, seeds, given)


@spelled_out(Request)
def evaluate(
    cc: str, *, out: str | Path | None = None, progress: Callable[[float], None] | None = None, **asked: Unpack[Request]
) -> Evaluation:
    """Evaluates a congestion control by the criteria of RFC 9743, as ``knee evaluate`` does.

    Args:
        cc: an algorithm of ``knee list cc``, ``mine.py:Mine``, ``tcp_mine.c``, ``gcc``, ``scream``, or a TOML file.
        out: the folder; default: ``results/evaluate-CC``.
        progress: called with the fraction that is done.
        asked: these keys.

    Raises:
        InputError: something was refused; nothing has been written.
        RunError: the ground does not work here, or a deployed algorithm failed.
    """
    plan = read(cc, asked)
    done = plan.run(Path(out or plan.out), progress)
    assert isinstance(done, Evaluation), "there is one algorithm"
    return done
