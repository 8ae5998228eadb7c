"""Bytes that packets take on a line: the keywords of tc-cake(8) for ``overhead``, and the sum that the core does too.

What carries packets is ``ethernet`` (nothing that adds bytes), ``atm`` (cells of 53 bytes for 48) or ``ptm`` (65 bytes
for 64, counted as one more for each 64 begun).
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from knee.errors import Refused
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
#: The keys that a keyword gives.
KEYS = ("overhead", "linklayer", "mpu")


class Framed(Protocol):
    """What has these keys."""

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
    told = {"linklayer": linklayer, "mpu": format_bytes(mpu)}
    for key, value in told.items():
        if raw.get(key, value) != value:
            accepted = (
                f"leave it out, or write the bytes of overhead as a size, such as {shown(format_bytes(overhead))}"
            )
            raise Refused(
                f"{shown(raw[key])} contradicts {shown(bases[0])}, which has {shown(value)}", accepted, key=key
            )
    return raw | told | {"overhead": format_bytes(overhead + VLAN_BYTES * (len(words) - 1))}


def shared(raw: Any) -> Any:
    """Plain data of a link, spelled out; what its reverse direction does not say of these keys is the link's own."""
    raw = spelled_out(raw)
    if not isinstance(raw, dict) or not isinstance(raw.get("reverse"), dict):
        return raw
    try:
        reverse = spelled_out(raw["reverse"])
    except Refused as refused:
        raise Refused(refused.found, refused.accepted, key=f"reverse.{refused.key}") from None
    own = {key: raw[key] for key in KEYS if key in raw}
    return raw | {"reverse": own | reverse}
