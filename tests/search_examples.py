"""A small search that several tests make."""

from __future__ import annotations

from typing import Any

from knee.study import searches
from knee.study.searches import searchfile
from knee.study.searches.plan import Plan

#: The queue is longest at the lowest rate that the search may choose.
BASE: dict[str, Any] = {
    "name": "small",
    "duration": "1 s",
    "link": {"rate": "10 Mbit/s", "limit": "100 packets", "jitter": "100 us"},
    "flows": [{"cc": "reno", "rtt": "20 ms"}, {"cc": "cubic", "rtt": "30 ms", "start": "100 ms"}],
    "search": {
        "figure": "queue_delay_mean_ms",
        "goal": "max",
        "trials": 18,
        "batch": 5,
        "findings": 2,
        "over": {
            "link.rate": "loguniform(2 Mbit/s, 50 Mbit/s)",
            "flows.0.rtt": ["5 ms", "10 ms", "20 ms", "40 ms"],
            "flows.1.cc": ["cubic", "reno", "lola"],
        },
    },
}


def of(changes: dict[str, Any] | None = None, **search: Any) -> Plan:
    """The plan of :data:`BASE` with other keys."""
    return searchfile.read(BASE | (changes or {}) | {"search": BASE["search"] | search})


def told(made: searches.Search) -> tuple[Any, ...]:
    """What must be the same each time: the trials, the findings and their files."""
    texts = [(made.folder / each.file).read_text() for each in made.findings]
    return made.trials.to_dicts(), [(each.data, each.found, each.values) for each in made.findings], texts
