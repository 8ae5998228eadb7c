"""A household behind cocoa, DualPI2, CAKE, fq_codel and a FIFO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knee.papers.items import Quantities
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.l4s.common import DUALPI2, FQ_CODEL, mean_of
from knee.results.result import Result

_DOWN_MBPS, _UP_MBPS = 40, 10
_PAGES = 20
#: Each queue discipline with its settings, and whether it marks L4S traffic and other ECN traffic.
_QUEUES: dict[str, tuple[Mapping[str, Any], bool, bool]] = {
    "pfifo": ({"queue": "pfifo"}, False, False),
    "cocoa": ({"queue": "cocoa"}, False, False),
    "cake": ({"queue": "cake"}, False, True),
    "fq_codel": (FQ_CODEL, True, True),
    "dualpi2": (DUALPI2, True, True),
}
#: The long flows, in the order of the scenario: near, far and L4S downloads, then the uploads.
_LONG = ("near", "far", "low", "up", "low_up")
_NAMES = ("near, 15 ms", "far, 80 ms", "low delay, 20 ms", "upload, 30 ms", "low delay up, 20 ms")


def _run(queue: str) -> Run:
    discipline, l4s, ecn = _QUEUES[queue]
    classic: dict[str, Any] = {"cc": "cubic", "ecn": ecn}
    low: dict[str, Any] = {"cc": "prague"} if l4s else classic
    limit = {"limit": "200 kB"}, {"limit": "50 kB"}
    down, up = limit if queue == "pfifo" else ({}, {})
    access = {
        "name": "access",
        "rate": f"{_DOWN_MBPS} Mbit/s",
        **discipline,
        **down,
        "reverse": {"rate": f"{_UP_MBPS} Mbit/s", **discipline, **up},
    }
    flows = [
        {**classic, "rtt": "15 ms"},
        {**classic, "rtt": "80 ms"},
        {**low, "rtt": "20 ms"},
        {**classic, "rtt": "30 ms", "direction": "reverse"},
        {**low, "rtt": "20 ms", "direction": "reverse"},
        {**classic, "rtt": "30 ms", "bytes": "300 kB", "start": "10 s", "count": _PAGES, "stagger": "2300 ms"},
    ]
    named = [{**flow, "label": name} for flow, name in zip(flows, (*_NAMES, "page"), strict=True)]
    scenario = {"title": f"A household behind {queue}", "duration": "60 s", "warmup": "10 s"}
    return Run(f"home-{queue}", scenario | {"links": [access], "flows": named}, seeds=3, quick_seeds=1)


def _page_ms(result: Result) -> float:
    times = [flow["completion_s"] for flow in result.summary["flows"][len(_LONG) :]]
    done = [1000 * float(time) for time in times if time is not None]
    return sum(done) / len(done)


def _measure(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for queue in _QUEUES:
        name = f"home-{queue}"
        made[f"{queue}_page_ms"] = results.mean(name, _page_ms)
        made[f"{queue}_used"] = results.mean(name, lambda r: 100 * float(r.summary["links"][0]["utilization"]))
        for i, key in enumerate(_LONG):
            made[f"{queue}_{key}"] = mean_of(results, name, i, "goodput_mbps")
            made[f"{queue}_{key}_ms"] = mean_of(results, name, i, "queue_delay_mean_ms")
        rates = [made[f"{queue}_{key}"] for key in _LONG[:3]]
        made[f"{queue}_apart"] = max(rates) / min(rates)
    return made


def _tables(_: Results, made: Quantities) -> list[Table]:
    def rows(suffix: str, *more: str) -> list[list[str]]:
        columns = [*(f"{key}{suffix}" for key in _LONG), *more]
        return [[queue, *(f"{made[f'{queue}_{column}']:.1f}" for column in columns)] for queue in _QUEUES]

    return [
        Table(
            "Goodput, Mbit/s, and how much of the downlink is used.", ["queue", *_NAMES, "used, %"], rows("", "used")
        ),
        Table(
            "Mean queueing delay, and how long a page of 300 kB takes, ms.",
            ["queue", *_NAMES, "page"],
            rows("_ms", "page_ms"),
        ),
    ]


HOUSEHOLD = Experiment(
    key="household",
    runs=[_run(queue) for queue in _QUEUES],
    measure=_measure,
    tables=_tables,
)
