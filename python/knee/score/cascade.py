"""Scores a candidate: stage by stage, each with more networks than the one before."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from knee.errors import InputError, RunError
from knee.figures.same import unrepeated
from knee.own import IN_FILE
from knee.scenario import registry
from knee.scenario.units import near, shown
from knee.score import definition
from knee.score.definition import GATES, Judged
from knee.score.messages import MOST_SOURCE
from knee.score.networks import STAGES, Network
from knee.score.session import Limits
from knee.score.words import failure_text, worst_text
from knee.score.workers import Answer, Order, Workers, workers
from knee.system.text import JsonTable

#: Files of candidates.
_FILE = re.compile(r"[^\n]*\.py")


@dataclass(frozen=True)
class Score:
    """A score.

    Attributes:
        metrics: ``combined_score``; the parts of :mod:`knee.score.definition`; ``stages`` that were passed and
            ``networks`` that ran; after the last stage also the ``standard_error`` of the score. All are numbers.
        artifacts: text for a person or the next prompt: ``worst``, what was worst; where the candidate failed
            ``failure``, how, with its lines, and ``printed``, what it printed then; ``unrepeated``, where a second run
            of a network gave other figures.
        judged: the networks that ran, with their parts and figures.
        failed: how it failed: its ``kind`` (:class:`knee.score.session.FailedError`), what is ``said``, and the
            ``network``; None where it did not.
    """

    metrics: dict[str, float]
    artifacts: dict[str, str]
    judged: list[Judged] = field(default_factory=list)
    failed: JsonTable | None = None

    @property
    def combined_score(self) -> float:
        """The score: 0 to 1, more is better."""
        return self.metrics["combined_score"]

    def plain(self) -> JsonTable:
        """All of it as JSON has it."""
        told = [
            {"network": each.network.name, "is": each.network.told, "parts": each.parts, "figures": each.figures}
            for each in self.judged
        ]
        return {"metrics": self.metrics, "artifacts": self.artifacts, "failed": self.failed, "networks": told}


def score(
    path: str | Path,
    *,
    chosen: Sequence[Network],
    values: Mapping[str, Any] | None = None,
    stages: int = len(STAGES),
    jobs: int | None = None,
    limits: Limits | None = None,
    confined: bool = True,
    progress: Callable[[float], None] | None = None,
) -> Score:
    """Scores a candidate on some networks; arguments and errors are those of :func:`knee.score.evaluate`."""
    there = workers(jobs)
    wanted = [network for network in chosen if network.stage < stages]
    allowed = limits or Limits()
    order = _order(path, dict(values or {}), allowed, confined, there)
    if "failed" in order:
        return _scored([], len(wanted), 0, order["failed"])
    runs = _Runs(there, order, progress, len(wanted), allowed.whole_s)
    scored = cascade(wanted, stages, runs)
    if (differs := runs.unrepeated()) is not None:
        scored.artifacts["unrepeated"] = differs
    return scored


def _order(path: str | Path, values: dict[str, Any], limits: Limits, confined: bool, there: Workers) -> JsonTable:
    """What a worker needs to know of a candidate, or of a registered algorithm; or how its file ``failed``."""
    name = str(path)
    known = [*registry.congestion_controls()]
    if _FILE.fullmatch(name) is None and IN_FILE.fullmatch(name) is None:
        if name in registry.quic_controllers():
            found = f"{name} is a controller of a QUIC stack, and scores are of flows over TCP"
            raise InputError(f"{found}; knee evaluate {name} compares it with others over QUIC.")
        if name not in known:
            accepted = f"expected FILE.py:CLASS or an algorithm; {near(name, known)}"
            raise InputError(f"{shown(name)} is neither a Python file nor a congestion control; {accepted}.")
        if values:
            raise InputError(f"{name}: parameters are set of candidates alone; expected none.")
        return {"cc": name}
    file, cls = (name, None) if _FILE.fullmatch(name) else IN_FILE.fullmatch(name).group("file", "name")  # type: ignore[union-attr]
    if sys.platform == "win32":
        raise RunError("Candidates run in processes that are forked, which Windows has not; use Linux, also under WSL.")
    candidate = {"source": _read(Path(file)), "class": cls, "values": values}
    order = {"candidate": candidate, "limits": asdict(limits), "confined": confined}
    answer = there.do(order)
    if "failed" in answer and answer["failed"]["kind"] == "confine":
        raise RunError(
            f"This machine cannot confine candidates ({answer['failed']['said']}): that needs Linux 5.13 or later "
            "with Landlock and seccomp, on x86-64 or ARM. --unconfined (confined=False in Python) runs them with "
            "all rights of this user, if you trust whoever wrote them."
        )
    return {**order, **answer}


def _read(path: Path) -> str:
    try:
        if path.stat().st_size <= MOST_SOURCE:
            return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); expected a Python file.") from None
    except ValueError:
        raise InputError(f"{path} is not UTF-8; expected a Python file.") from None
    raise InputError(f"{path} has more than {MOST_SOURCE} bytes; expected a Python file.")


class _Runs:
    """Runs networks with a candidate."""

    def __init__(
        self, there: Workers, order: JsonTable, progress: Callable[[float], None] | None, whole: int, limit_s: float
    ) -> None:
        self._workers, self._order, self._progress, self._whole = there, order, progress, whole
        self._done, self._limit_s = 0, limit_s
        self._until = time.monotonic() + limit_s
        self._first: tuple[Order, Answer] | None = None

    def __call__(self, some: Sequence[Network]) -> list[tuple[Answer, Answer]]:
        """The answers for some networks, each with that for the network without the candidate."""
        orders = [each for network in some for each in self._pair(network)]
        with ThreadPoolExecutor(self._workers.count, thread_name_prefix="knee") as threads:
            answers = threads.map(self._do, orders)
            given = []
            for network in some:
                given.append((next(answers), next(answers) if _others(network) else {}))
                self._done += 1
                if self._progress is not None:
                    self._progress(self._done / self._whole)
        return given

    def unrepeated(self) -> str | None:
        """Runs the first network once more, and says whether the figures of a candidate differ; None if not."""
        if self._first is None or "candidate" not in self._order or time.monotonic() >= self._until:
            return None
        order, answer = self._first
        again = self._workers.do(order)
        return unrepeated(answer["summary"], again["summary"]) if "summary" in again else None

    def _do(self, order: Order) -> Answer:
        if time.monotonic() < self._until:
            answer = self._workers.do(order)
            if self._first is None and "summary" in answer and "candidate" in order:
                self._first = order, answer
            return answer
        said = f"the networks before it have taken more than {self._limit_s:g} s"
        return {"failed": {"kind": "time", "said": said, "lines": []}}

    def _pair(self, network: Network) -> Iterator[Order]:
        yield {**self._order, "network": network.data}
        if _others(network):
            yield {"cc": "", "network": network.data}


def _others(network: Network) -> bool:
    return any(flow["label"] == "other" for flow in network.data["flows"])


def cascade(
    wanted: Sequence[Network], stages: int, run: Callable[[Sequence[Network]], list[tuple[Answer, Answer]]]
) -> Score:
    """Goes from stage to stage, as far as the candidate comes."""
    done: list[Judged] = []
    for stage in range(stages):
        some = [network for network in wanted if network.stage == stage]
        failed: JsonTable | None = None
        for network, (answer, without) in zip(some, run(some), strict=True):
            if "failed" in answer:
                failed = failed or {**answer["failed"], "network": network.name, "is": network.told}
            else:
                done.append(definition.judged(network, answer["summary"], without.get("summary")))
        so_far = definition.score_of(definition.parts_of(done))
        if failed is None and stage + 1 < stages and so_far < GATES[stage]:
            said = f"its score after stage {stage + 1} is {so_far:.3f}; the next stage takes {GATES[stage]} or more"
            failed = {"kind": "low", "said": said, "lines": []}
        if failed is not None:
            return _scored(done, len(wanted), stage, failed)
    return _scored(done, len(wanted), stages, None)


def _scored(done: list[Judged], wanted: int, stages: int, failed: JsonTable | None) -> Score:
    parts = definition.parts_of(done)
    combined = definition.score_of(parts) if failed is None else definition.failed_score(done, wanted)
    metrics = {"combined_score": combined, **parts, "stages": float(stages), "networks": float(len(done))}
    if failed is None and (error := definition.standard_error(done)) is not None:
        metrics["standard_error"] = error
    artifacts = {"worst": worst_text(done)} if done else {}
    if failed is not None:
        artifacts["failure"] = failure_text(failed)
        if failed.get("printed"):
            artifacts["printed"] = failed["printed"]
    return Score(metrics, artifacts, done, failed)
