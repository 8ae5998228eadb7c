"""From what a ground measured to ``summary.json``: one way for all grounds, sweeps and clusters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from knee.figures import FORMAT, collisions, run, starved
from knee.figures.applications.figures import Tables, add
from knee.figures.metrics import Samples, fairness
from knee.figures.register import LINK
from knee.scenario import marks
from knee.scenario.commands import PROGRAM_CC
from knee.scenario.remarks import remarks as of_scenario
from knee.scenario.spec import span

if TYPE_CHECKING:
    from knee.scenario.model import Scenario


def measured(
    scenario: Scenario,
    ground: str,
    output: dict[str, Any],
    samples: Samples,
    shared: Iterable[tuple[str, int, float]],
    wall_s: float,
    tables: Tables | None = None,
    remarks: Sequence[str] = (),
    **also: Any,
) -> dict[str, Any]:
    """``summary.json`` with its figures and remarks, names and units as in the contract.

    Args:
        scenario: what ran.
        ground: where it ran.
        output: the figures of the ground, in the form of the core's.
        samples: the time series, with the columns :data:`knee.figures.starved.COLUMNS`.
        shared: its events :data:`knee.figures.collisions.EVENT` at links: the link, the flow, and the one whose queue
            it shares.
        wall_s: how long it took.
        tables: its other rows, where it has traffic or probes.
        remarks: the ground's own, which come last.
        also: what else it has to say.
    """
    labels = iter(scenario.labels)
    figures = iter(output["flows"])
    flows: list[dict[str, Any]] = []
    for flow in scenario.flows:
        for i in range(flow.count):
            about = {
                "flow": len(flows) + 1,
                "label": next(labels),
                # What adapts the rate of a video call is part of its traffic.
                "cc": getattr(flow.traffic, "controller", flow.cc),
                "transport": flow.transport if flow.program is None else PROGRAM_CC,
                "direction": flow.direction,
                "start_s": span(scenario, flow, i)[0] / 1e9,
                "base_rtt_ms": flow.rtt / 1e6,
            }
            if flow.bytes is not None:
                about["bytes"] = flow.bytes
            flows.append(about | {k: v for k, v in next(figures).items() if k != "common_throughput_mbps"})
    told = {
        "format": FORMAT,
        "name": scenario.name,
        "title": scenario.title,
        "ground": ground,
        "seed": scenario.seed,
        "duration_s": scenario.duration / 1e9,
        "wall_s": wall_s,
        "packets": output["packets"],
        "window_s": output["window_s"],
        "flows": flows,
        # A figure that the ground does not measure is null.
        "links": [dict.fromkeys(["link", *LINK]) | link for link in output["links"]],
        "fairness": fairness(scenario, output, samples),
    }
    if tables is not None:
        add(told, scenario, figures, tables)
    told |= {"run": run.figures(told)} | also
    series = {name: np.asarray(samples[name]) for name in starved.COLUMNS}
    every = [
        *of_scenario(scenario),
        *marks.warnings(scenario, told),
        *starved.warnings(scenario, told, series),
        *collisions.warnings(told, shared),
        *remarks,
    ]
    return told | {"remarks": every} if every else told
