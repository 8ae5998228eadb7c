"""The keys of tables of a scenario file as keyword arguments, for type checkers.

``tests/test_types.py`` holds them against the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from knee.own import CongestionControl


class ChangeKeys(TypedDict, total=False):
    """A table of ``[[changes]]``."""

    at: str | float
    link: str
    flow: str
    rate: str
    loss: float
    limit: str
    rtt: str


class FlowKeys(TypedDict, total=False):
    """A table of ``[[flows]]``."""

    traffic: Mapping[str, Any]
    cc: str | type[CongestionControl]
    cc_params: Mapping[str, Any]
    program: Mapping[str, Any]
    rtt: str
    start: str | float
    stop: str
    lasts: str
    bytes: str
    count: int
    stagger: str
    transport: Literal["tcp", "quic", "udp"]
    tls: bool
    label: str
    path: Sequence[str]
    direction: Literal["forward", "reverse"]
    tunnel: str
    dscp: str | int
    pacing: Literal["auto", "on"]
    ecn: bool | Literal["accurate", "l4s"]
    receiver: str
    receiver_params: Mapping[str, Any]
