"""The forms of ``summary.json``, and of the output of a ground."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

#: Figures of a flow, a link, a probe or the like by their names, of which the register has the units; and tables of
#: such figures, as ``transfers`` of a flow.
Figures = dict[str, Any]


class Fairness(TypedDict):
    """The fairness of all flows where they share one bottleneck, and of those at each bottleneck."""

    #: Numbers, or None where nothing was shared.
    jain: Any
    jain_interval_mean: Any
    convergence_s: Any
    links: list[Figures]


class Output(TypedDict):
    """The output of a ground, in the form of ``crates/knee-net/src/output.rs``; times in s."""

    packets: int
    window_s: Sequence[float] | None
    common_window_s: Sequence[float] | None
    flows: list[Figures]
    links: list[Figures]
    event_names: NotRequired[list[str]]
    event_by_event: NotRequired[str | None]
    threads: NotRequired[int]


class Summary(TypedDict):
    """``summary.json``; docs/figures.md says what each part holds."""

    format: int
    name: str
    title: str
    ground: str
    seed: int
    duration_s: float
    wall_s: float
    packets: int
    window_s: Sequence[float] | None
    flows: list[Figures]
    links: list[Figures]
    fairness: Fairness
    run: Figures
    remarks: NotRequired[list[str]]
    failed_programs: NotRequired[list[str]]
    probes: NotRequired[list[Figures]]
    latency_under_load: NotRequired[list[Figures]]
    responsiveness: NotRequired[Figures]
