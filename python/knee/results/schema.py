"""The schema of ``manifest.json``, ``summary.json`` and the tables of a result, checked when one is loaded.

Additional keys are accepted, since later versions may add some. ``docs/scenarios.md`` documents the format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, field_validator

from knee.errors import FolderError, in_one_line, key_of
from knee.figures import FORMAT
from knee.figures.register import LINK
from knee.scenario.units import parse_time, shown
from knee.system import files

if TYPE_CHECKING:
    import polars as pl

#: Largest file that is read; the summary of a million flows has about 600 MB.
_MAX_JSON = 1 << 30

Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    # Built when the first result is read; runs that only write results do not need it.
    model_config = ConfigDict(extra="allow", strict=True, defer_build=True)


class FlowFigures(_Part):
    """The figures of a flow."""

    flow: Annotated[int, Field(ge=1)]
    label: str
    cc: str
    transport: str
    direction: str = "forward"
    start_s: Number
    base_rtt_ms: Number
    goodput_mbps: Number | None
    throughput_mbps: Number
    sending_rate_mbps: Number
    goodput_ratio: Number | None
    rtt_mean_ms: Number | None
    rtt_min_ms: Number | None
    rtt_p50_ms: Number | None
    rtt_p95_ms: Number | None
    rtt_p99_ms: Number | None
    rtt_max_ms: Number | None
    queue_delay_mean_ms: Number | None
    cwnd_mean_packets: Number | None
    sent_packets: Count
    lost_packets: Count
    retransmitted_packets: Count | None
    timeouts: Count | None
    completion_s: Number | None
    bytes: Count | None = None


class _Link(_Part):
    """The figures of a link that every result has."""

    link: str
    utilization: Number
    queue_delay_mean_ms: Number | None
    queue_delay_p95_ms: Number | None
    queue_delay_p99_ms: Number | None
    queue_delay_max_ms: Number | None
    drops: Count
    marks: Count


if TYPE_CHECKING:
    LinkFigures = _Link
else:
    _further: dict[str, Any] = {
        name: ((Count if figure.whole else Number) | None, None)
        for name, figure in LINK.items()
        if name not in _Link.model_fields
    }
    #: The figures of a link: those, and what else the register has.
    LinkFigures = create_model("LinkFigures", __base__=_Link, **_further)


class Fairness(_Part):
    """How fairly the flows share."""

    jain: Number | None
    jain_interval_mean: Number | None
    convergence_s: Number | None


class Summary(_Part):
    """``summary.json``."""

    format: Annotated[int, Field(ge=1, le=FORMAT)]
    name: str
    title: str = ""
    ground: str
    seed: Count
    duration_s: Number
    wall_s: Number
    packets: Count
    flows: Annotated[list[FlowFigures], Field(min_length=1)]
    links: Annotated[list[LinkFigures], Field(min_length=1)]
    fairness: Fairness
    run: dict[str, float | str | None]
    remarks: list[str] = []
    failed_programs: list[str] = []

    @field_validator("flows")
    @classmethod
    def _are_numbered(cls, flows: list[FlowFigures]) -> list[FlowFigures]:
        if [flow.flow for flow in flows] != list(range(1, len(flows) + 1)):
            raise ValueError("the flows are not numbered from 1 on")
        return flows

    @field_validator("links")
    @classmethod
    def _differ(cls, links: list[LinkFigures]) -> list[LinkFigures]:
        if len({link.link for link in links}) < len(links):
            raise ValueError("two links have one name")
        return links


class Manifest(_Part):
    """``manifest.json`` without the digests, which are verified before."""

    format: Annotated[int, Field(ge=1)]
    program: str
    version: str
    commit: str | None = None
    fingerprint: str | None = None
    command: str | None = None
    ground: str
    kernel: str | None = None
    seed: Count
    wall_s: Number
    packets: Count


#: The interval of a resolved scenario, which stands before its tables.
_INTERVAL = re.compile(r'^interval = "([^"]+)"$', re.MULTILINE)
#: The columns of each table that hold numbers, and those that hold words.
TABLES = {
    "samples": (
        "t_s flow goodput_mbps throughput_mbps sending_rate_mbps rtt_mean_ms rtt_min_ms rtt_max_ms srtt_ms "
        "cwnd_packets in_flight_packets pacing_rate_mbps lost_packets retransmitted_packets",
        "state",
    ),
    "links": (
        "t_s backlog_packets backlog_bytes queue_delay_mean_ms queue_delay_max_ms drops marks utilization",
        "link",
    ),
    "events": ("t_s flow value", "link event"),
    "completions": ("t_s flow started_s time_ms bytes value", "label what"),
    "delays": ("t_s flow probe sent received lost owd_mean_ms owd_max_ms rtt_mean_ms rtt_max_ms", "label"),
    "distributions": ("flow probe value_ms count cdf", "quantity label"),
}


def read_json(path: Path, form: type[_Part]) -> dict[str, Any]:
    """The content of a JSON file of a result, after checking it against its schema.

    Raises:
        FolderError: names the file, the key and the value found.
    """
    try:
        content = json.loads(files.read(path, _MAX_JSON), parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise damaged(path, f"it cannot be read ({reason})") from None
    try:
        form.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        found = "it is missing" if first["type"] == "missing" else f"{shown(first['input'])} is not allowed there"
        if first["type"] == "value_error":
            found = str(first["ctx"]["error"])
        if not first["loc"]:
            found = f"it contains {shown(content)} instead of a table"
        raise damaged(path, ": ".join(part for part in (in_one_line(key_of(first["loc"])), found) if part)) from None
    return dict(content)


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not a number")


def most_rows(name: str, summary: Mapping[str, Any], scenario_toml: str) -> int | None:
    """The most rows that a table of a result can have; None where only memory limits them."""
    parts = {"samples": "flows", "links": "links"}.get(name)
    found = _INTERVAL.search(scenario_toml)
    if parts is None or found is None:
        return None
    # One more where a run ends within an interval, and one for rounding.
    intervals: int = round(summary["duration_s"] * 1e9 / parse_time(found[1])) + 2
    return intervals * len(summary[parts])


def read_table(path: Path, most: int | None = None) -> pl.DataFrame:
    """A table of a result, of at most ``most`` rows.

    Raises:
        FolderError: it cannot be read, has too many rows, or lacks a column.
    """
    import polars as pl

    try:
        frame = files.read_frame(path, most=most)
    except OSError as error:
        raise damaged(path, f"it cannot be read ({error.strerror or error})") from None
    numbers, words = (columns.split() for columns in TABLES[path.stem])
    for name in [*numbers, *words]:
        if name not in frame.columns:
            raise damaged(path, f"there is no column {name}")
        if (name in numbers) != frame.schema[name].is_numeric() and frame.schema[name] != pl.Null:
            raise damaged(path, f"the column {name} holds {frame.schema[name]}")
    return frame


def damaged(path: Path, what: str) -> FolderError:
    """The error for a damaged file of a result."""
    return FolderError(f"{path.parent} is a damaged knee result: {path.name}: {what}; rerun its scenario.")
