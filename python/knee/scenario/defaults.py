"""Defaults that depend on other keys, filled into the plain data before it is read.

What is not of the form expected is left as it is: reading it gives the error that names it.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from knee.errors import Refused
from knee.scenario.commands import PROGRAM_CC
from knee.scenario.traffic import NO_CC, sends_datagrams

DEFAULT_LINK = "bottleneck"


def _as_plain(value: Any) -> Any:
    """Tables given as models, as plain data."""
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_none=True)
    return [_as_plain(item) for item in value] if isinstance(value, list) else value


def share_model(raw: Any) -> Any:
    """Plain data of a link; a reverse direction with the same model and no parameters has the link's."""
    if not isinstance(raw, dict):
        return raw
    reverse = _as_plain(raw.get("reverse"))
    if not isinstance(reverse, dict) or "model_params" in reverse or "model_params" not in raw:
        return raw
    if reverse.get("model", "wire") != raw.get("model", "wire"):
        return raw
    return {**raw, "reverse": {**reverse, "model_params": raw["model_params"]}}


def fill_defaults(raw: Any) -> Any:
    """Plain data of a scenario with paths, stops and labels filled in, and ``link`` as one of ``links``."""
    if not isinstance(raw, dict):
        return raw
    raw = {key: _as_plain(value) for key, value in raw.items()}
    if "link" in raw:
        if "links" in raw:
            raise Refused("link and links are both given", "expected one [link] or any number of [[links]]", key="link")
        raw["links"] = [raw.pop("link")]
    links, flows = raw.get("links"), raw.get("flows")
    if not isinstance(links, list) or not isinstance(flows, list):
        return raw
    names = [link.get("name", DEFAULT_LINK) for link in links if isinstance(link, dict)]
    filled, number = [], 1
    for flow in flows:
        if not isinstance(flow, dict):
            filled.append(flow)
            continue
        given = {key: value for key, value in flow.items() if value is not None}
        given.setdefault("path", list(names))
        if "program" in given:
            given.setdefault("cc", PROGRAM_CC)
        if sends_datagrams(given.get("traffic")):
            given.setdefault("transport", "udp")
            if given["transport"] != "quic":
                given.setdefault("cc", NO_CC)
        if "stop" not in given and "lasts" not in given and "duration" in raw:
            given["stop"] = raw["duration"]
        count = given.get("count", 1)
        # Identical flows are numbered where they are counted out (Scenario.labels); only a single one has its own name.
        if count == 1:
            given.setdefault("label", f"flow {number}")
        filled.append(given)
        number += count if isinstance(count, int) else 1
    probes = raw.get("probes")
    if isinstance(probes, list):
        raw["probes"] = [_probe(probe, i, len(probes), names, raw) for i, probe in enumerate(probes)]
    return {**raw, "flows": filled}


def _probe(probe: Any, number: int, count: int, links: list[str], raw: dict[str, Any]) -> Any:
    if not isinstance(probe, dict):
        return probe
    given = {key: value for key, value in probe.items() if value is not None}
    given.setdefault("path", list(links))
    given.setdefault("label", "probe" if count == 1 else f"probe {number + 1}")
    if "stop" not in given and "duration" in raw:
        given["stop"] = raw["duration"]
    return given
