"""Scores from Python, by the contract of OpenEvolve, and for the command."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from knee.errors import InputError, input_errors
from knee.scenario.loading import apply
from knee.scenario.units import is_whole
from knee.score import cascade, kernels, networks
from knee.score.requests import Request
from knee.score.session import Limits
from knee.study.sections import taken
from knee.system.requests import spelled_out
from knee.system.text import JsonTable


@spelled_out(Request)
def evaluate(
    path: str | Path,
    *,
    values: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    confined: bool = True,
    progress: Callable[[float], None] | None = None,
    **asked: Unpack[Request],
) -> Any:
    """Scores a candidate by the contract of OpenEvolve's evaluators.

    Args:
        path: its file, whose only congestion control is judged, or ``FILE.py:CLASS``; or the name of a registered
            algorithm, or what is scored in a kernel.
        values: of its parameters (:class:`knee.Param`), beside those in ``set``.
        limits: what it may take.
        confined: False is ``unconfined=True``.
        progress: called with the fraction that is done.
        asked: these keys. ``held_out`` may be the seed itself.

    Returns:
        A :class:`Score`; within OpenEvolve, its ``EvaluationResult`` with the same metrics and artifacts.

    A candidate that fails has a score too, below 0.1, and says how in its artifacts.

    Raises:
        InputError: there is no such file or algorithm.
        RunError: this machine cannot confine candidates.
    """
    if is_whole(asked.get("held_out")):
        asked |= {"held_out": True, "seed": asked["held_out"]}
    given = read(asked)
    stages, jobs, name = given["stages"], given.get("jobs"), str(path)
    chosen = networks.drawn(given["seed"]) if given["held_out"] else networks.training()
    if given.get("ground") not in (None, "sim") or "kernel" in given or name.endswith(".c"):
        where, allowed = (given.get("ground"), given.get("kernel")), given.get("allow_code", False)
        scored = kernels.score(name, *where, chosen=chosen, stages=stages, allow_code=allowed, progress=progress)
    else:
        confined = confined and not given["unconfined"]
        values = _values(given["set"]) | dict(values or {})
        scored = cascade.score(
            path, values=values, chosen=chosen, stages=stages, jobs=jobs, limits=limits, confined=confined,
            progress=progress,
        )  # fmt: skip
    theirs = sys.modules.get("openevolve.evaluation_result")
    return scored if theirs is None else theirs.EvaluationResult(scored.metrics, scored.artifacts)


def read(asked: Request) -> Any:
    """What is asked for, with its defaults, and the seed that networks are drawn from.

    Raises:
        InputError: names the key, what was found and what would be accepted.
    """
    given = taken(Request, asked, "score")
    if "seed" in given and not given["held_out"]:
        raise InputError("--seed is what --held-out draws networks from; give --held-out too.")
    return given | ({"seed": given.get("seed", secrets.randbelow(1 << 31))} if given["held_out"] else {})


def _values(changes: Sequence[str]) -> JsonTable:
    """The parameters that changes set."""
    for change in changes:
        if not change.strip().startswith("cc_params."):
            raise InputError(f"--set {change}: that is no parameter of the class; expected cc_params.NAME=VALUE.")
    with input_errors("--set: "):
        return dict(apply({"cc_params": {}}, changes)["cc_params"])
