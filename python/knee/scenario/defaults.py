"""Defaults of scenario files that depend on other keys, filled into the plain data before it is read.

So are the keywords of tc-cake(8) for ``overhead``; :func:`line_bytes` gives the bytes that packets take on a line, as
the core does. A line is ``ethernet`` (nothing that adds bytes), ``atm`` (cells of 53 bytes for 48) or ``ptm`` (65 bytes
for 64, counted as one more for each 64 begun).

Data of another form than expected stays as it is: reading it gives the error that names it.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from pydantic import BaseModel

from knee.errors import Refused, under
from knee.scenario import Plain
from knee.scenario.commands import PROGRAM_CC
from knee.scenario.traffic import NO_CC, sends_datagrams
from knee.scenario.units import format_bytes, near, shown

LinkLayer = Literal["ethernet", "atm", "ptm"]

#: The meaning of each keyword: bytes on top of an IP packet, its link layer, and the least bytes (tc-cake(8)).
KEYWORDS: dict[str, tuple[int, LinkLayer, int]] = {
    "raw": (14, "ethernet", 0),
    "conservative": (48, "atm", 0),
    "ethernet": (38, "ethernet", 84),
    "docsis": (18, "ethernet", 64),
    "ipoa-vcmux": (8, "atm", 0),
    "ipoa-llcsnap": (16, "atm", 0),
    "bridged-vcmux": (24, "atm", 0),
    "bridged-llcsnap": (32, "atm", 0),
    "pppoa-vcmux": (10, "atm", 0),
    "pppoa-llc": (14, "atm", 0),
    "pppoe-vcmux": (32, "atm", 0),
    "pppoe-llcsnap": (40, "atm", 0),
    "pppoe-ptm": (30, "ptm", 0),
    "bridged-ptm": (22, "ptm", 0),
}
#: A tag of 802.1Q, which follows another keyword, and its bytes.
VLAN, VLAN_BYTES = "ether-vlan", 4
#: The disciplines with a timer that counts the kernel's clock ticks.
WITH_TICK = ("pie", "fq_pie")
#: The keys that a keyword gives.
KEYS = ("overhead", "linklayer", "mpu")


class Framed(Protocol):
    """A direction of a link, or another object with these keys."""

    @property
    def overhead(self) -> int:
        """Bytes on top of an IP packet."""

    @property
    def linklayer(self) -> str:
        """The layer that carries packets."""

    @property
    def mpu(self) -> int:
        """Bytes that a packet takes at least."""


def line_bytes(framed: Framed, size: int) -> int:
    """Bytes that an IP packet of ``size`` bytes takes on the line."""
    taken = max(size + framed.overhead, framed.mpu)
    if framed.linklayer == "atm":
        return -(-taken // 48) * 53
    return taken + -(-taken // 64) if framed.linklayer == "ptm" else taken


def spelled_out(raw: Any) -> Any:
    """Plain data of a table with ``overhead``; a keyword there is replaced by the keys that it stands for.

    Raises:
        Refused: there is no such keyword, or another key contradicts it.
    """
    if not isinstance(raw, dict) or not isinstance(raw.get("overhead"), str):
        return raw
    words = raw["overhead"].split()
    if not words or words[0][0] in "0123456789.+-":
        return raw
    for word in words:
        if word not in KEYWORDS and word != VLAN:
            found = f"{shown(word)} is neither a size nor a keyword of tc-cake"
            raise Refused(found, near(word, [*KEYWORDS, VLAN]), key="overhead")
    bases = [word for word in words if word != VLAN]
    if len(bases) != 1:
        found = f"{shown(raw['overhead'])} names {len(bases)} kinds of lines"
        raise Refused(found, f'expected one, such as "pppoe-ptm", and perhaps "pppoe-ptm {VLAN}"', key="overhead")
    overhead, linklayer, mpu = KEYWORDS[bases[0]]
    implied = {"linklayer": linklayer, "mpu": format_bytes(mpu)}
    for key, value in implied.items():
        if raw.get(key, value) != value:
            accepted = (
                f"leave it out, or write the bytes of overhead as a size, such as {shown(format_bytes(overhead))}"
            )
            raise Refused(
                f"{shown(raw[key])} contradicts {shown(bases[0])}, which has {shown(value)}", accepted, key=key
            )
    return raw | implied | {"overhead": format_bytes(overhead + VLAN_BYTES * (len(words) - 1))}


DEFAULT_LINK = "bottleneck"


def _as_plain(value: Any) -> Any:
    """Tables given as models, as plain data."""
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_none=True)
    return [_as_plain(item) for item in value] if isinstance(value, list) else value


def share_with_reverse(raw: Any) -> Any:
    """Plain data of a link, spelled out; its reverse direction has what it leaves out of the link's framing and model.

    Parameters of the model are shared only where both directions have the same one.
    """
    raw = spelled_out(raw)
    reverse = _as_plain(raw.get("reverse")) if isinstance(raw, dict) else None
    if not isinstance(reverse, dict):
        return raw
    with under("reverse"):
        reverse = {key: raw[key] for key in KEYS if key in raw} | spelled_out(reverse)
    if "model_params" in raw and reverse.get("model", "wire") == raw.get("model", "wire"):
        reverse = {"model_params": raw["model_params"]} | reverse
    return raw | {"reverse": reverse}


def fill_defaults(raw: Any) -> Any:
    """Plain data of a scenario with paths, stops and labels filled in, and ``link`` as one of ``links``."""
    if not isinstance(raw, dict):
        return raw
    raw = {key: _as_plain(value) for key, value in raw.items()}
    if "link" in raw:
        if "links" in raw:
            raise Refused("link and links are both given", "expected one [link] or any number of [[links]]", key="link")
        raw["links"] = [raw.pop("link")]
    tcp = raw.get("tcp")
    if isinstance(tcp, dict) and tcp.get("tick") is not None and isinstance(raw.get("links"), list):
        raw["links"] = [_on_clock(link, tcp["tick"]) for link in raw["links"]]
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


def _on_clock(link: Any, tick: Any) -> Any:
    """A link whose queues with a timer have the kernel's clock tick, in both directions."""
    if not isinstance(link, dict):
        return link
    on_clock = dict(link)
    if isinstance(reverse := link.get("reverse"), dict):
        on_clock["reverse"] = _on_clock(reverse, tick)
    params = link.get("queue_params")
    if link.get("queue") in WITH_TICK and (params is None or isinstance(params, dict)):
        on_clock["queue_params"] = {"tick": tick} | (params or {})
    return on_clock


def _probe(probe: Any, number: int, count: int, links: list[str], raw: Plain) -> Any:
    if not isinstance(probe, dict):
        return probe
    given = {key: value for key, value in probe.items() if value is not None}
    given.setdefault("path", list(links))
    given.setdefault("label", "probe" if count == 1 else f"probe {number + 1}")
    if "stop" not in given and "duration" in raw:
        given["stop"] = raw["duration"]
    return given
