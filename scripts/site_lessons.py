"""Makes a lesson's comments into what the reader uses: a choice, a drawing, the experiment in the simulator.

A lesson is Markdown with one scenario in it, which is the experiment: the address of the page `play` comes from it.

- `<!-- play -->` stands where the experiment runs;
- `<!-- pick: 2 -->` before a numbered list says which entry is right;
- `<!-- draw: COLUMN FROM TO TOP -->` asks for a column of `samples` over time;
- `<!-- set: KEY=VALUE -->` is for `site_notebooks.py`.
"""

from __future__ import annotations

import json
import re
from html import escape

import polars as pl

import knee
from knee.scenario import Scenario, from_toml
from knee.scenario.spec import spec

PICK = re.compile(r"^<!-- pick: (\d) -->\n\n((?:\d\. .*\n)+)", re.M)
DRAW = re.compile(r"^<!-- draw: (\w+) (\d+) (\d+) (\d+) -->$", re.M)
SCENARIO = re.compile(r"^```toml\n(.*?)^```", re.M | re.S)
#: Points of a measured line.
POINTS = 300
#: How long an experiment takes to watch, s.
WATCHED = 30
UNITS = {"cwnd_packets": "packets", "srtt_ms": "ms"}


def scenario_of(text: str) -> str | None:
    """The scenario file in a lesson."""
    found = SCENARIO.search(text)
    return None if found is None else found[1]


def address_of(scenario: Scenario) -> str:
    """The part of `play`'s address that says a scenario of one wire."""
    told = spec(scenario)
    (link,) = told["links"]
    flows = []
    for flow in told["flows"]:
        stop = "" if flow["stop"] == told["duration"] else flow["stop"] // 1000
        cc = "call" if flow.get("traffic", {}).get("kind") == "rtc" else flow["cc"]
        flows.append(f"{cc}:{flow['start'] // 1000}:{stop}:{flow['rtt'] // 1000}")
    parts = {
        "rate": link["capacity"]["rate"],
        "rtt": told["flows"][0]["rtt"] // 1000,
        "buffer": link["limit"]["packets"],
        "queue": link["queue"],
        "duration": told["duration"] // 1000,
        "interval": told["interval"] // 1000,
        "speed": round(told["duration"] / 1e9 / WATCHED, 2),
        "flows": ",".join(_shortest(flow, told["flows"][0]["rtt"] // 1000) for flow in flows),
    }
    return "&".join(f"{key}={value}" for key, value in parts.items())


def _shortest(flow: str, rtt: int) -> str:
    """A flow without what is the same for all: its RTT, and a start at 0."""
    return re.sub(r"^(\w+):0$", r"\1", flow.removesuffix(f":{rtt}").rstrip(":"))


def prepared(text: str) -> str:
    """A lesson's Markdown with its comments made into HTML; text without a scenario is returned unchanged."""
    toml = scenario_of(text)
    if toml is None:
        return text
    scenario = from_toml(toml)
    text = text.replace("<!-- play -->", f"<!-- play: {address_of(scenario)} -->")
    text = PICK.sub(lambda found: _choice(int(found[1]), found[2]), text)
    return DRAW.sub(lambda found: _drawing(scenario, found[1], *map(int, found.groups()[1:])), text)


def _choice(right: int, options: str) -> str:
    labels = "".join(
        f'<label><input type="radio" name="prediction" value="{i}"> {escape(option.partition(". ")[2])}</label>'
        for i, option in enumerate(options.splitlines(), start=1)
    )
    return (
        f'<form class="predict pick" data-right="{right}">{labels}<p class="answer" role="status" hidden></p></form>\n'
    )


def _drawing(scenario: Scenario, column: str, start: int, end: int, top: int) -> str:
    rows = knee.run(scenario, report=False).samples.filter(pl.col("t_s").is_between(start, end)).drop_nulls(column)
    step = max(1, len(rows) // POINTS)
    points = [[round(t, 2), round(value, 1)] for t, value in rows.select("t_s", column).gather_every(step).iter_rows()]
    told = {"from": start, "to": end, "top": top, "unit": UNITS[column], "measured": json.dumps(points)}
    data = " ".join(f'data-{key}="{escape(str(value))}"' for key, value in told.items())
    return (
        f'<div class="predict draw" {data}><canvas role="img" aria-label="Draw {UNITS[column]} over time"></canvas>'
        '<p><button type="button">Show the measured line</button> '
        '<span class="answer" role="status" hidden></span></p></div>'
    )
