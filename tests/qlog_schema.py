"""The rules of qlog that tests hold files against, written out from the drafts' definitions.

"main" is draft-ietf-quic-qlog-main-schema-05, "events" draft-ietf-quic-qlog-quic-events-04: the last ones of version
0.3. What the drafts allow and knee does not write is left out here, so that a new field fails until it has its rule.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

UInt64 = Annotated[int, Field(ge=0, lt=1 << 64)]
UInt16 = Annotated[int, Field(ge=0, lt=1 << 16)]
Ms = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class VantagePoint(_Model):
    """main, 3.3.2."""

    name: str | None = None
    type: Literal["client", "server", "network", "unknown"]


class CommonFields(_Model):
    """main, 3.4.7, with 3.4.1 and 3.4.4."""

    time_format: Literal["absolute", "delta", "relative"] = "absolute"
    reference_time: float
    protocol_type: Annotated[list[str], Field(min_length=1)]


class TraceSeq(_Model):
    """main, 6.2."""

    common_fields: CommonFields
    vantage_point: VantagePoint


class QlogFileSeq(_Model):
    """main, 6.2; the version is that of section 3."""

    qlog_format: Literal["JSON-SEQ"]
    qlog_version: Literal["0.3"]
    title: str
    description: str
    trace: TraceSeq


class PacketHeader(_Model):
    """events, A.7. Fields that only packets with long headers have are not written."""

    packet_type: Literal["initial", "handshake", "0RTT", "1RTT", "retry"]
    packet_number: UInt64 | None = None

    @model_validator(mode="after")
    def _numbered_unless_retry(self) -> PacketHeader:
        assert (self.packet_number is None) == (self.packet_type == "retry")
        return self


class RawInfo(_Model):
    """main, 5.1."""

    length: UInt64


class PingFrame(_Model):
    """events, A.11.2."""

    frame_type: Literal["ping"]


class AckFrame(_Model):
    """events, A.11.3."""

    frame_type: Literal["ack"]
    ack_delay: Annotated[float, Field(ge=0)] | None = None
    ect1: UInt64 | None = None
    ect0: UInt64 | None = None
    ce: UInt64 | None = None
    acked_ranges: Annotated[list[Annotated[list[UInt64], Field(min_length=1, max_length=2)]], Field(min_length=1)]

    @model_validator(mode="after")
    def _ascending(self) -> AckFrame:
        assert all(given[0] <= given[-1] for given in self.acked_ranges)
        return self


class StreamFrame(_Model):
    """events, A.11.9."""

    frame_type: Literal["stream"]
    stream_id: UInt64
    offset: UInt64
    length: UInt64


Frame = Annotated[AckFrame | PingFrame | StreamFrame, Field(discriminator="frame_type")]


class PacketSent(_Model):
    """events, 5.5."""

    header: PacketHeader
    raw: RawInfo
    frames: list[Frame] | None = None


class PacketReceived(_Model):
    """events, 5.6."""

    header: PacketHeader
    raw: RawInfo | None = None
    frames: list[Frame] | None = None


class PacketLost(_Model):
    """events, 7.5."""

    header: PacketHeader
    raw: RawInfo | None = None


class MetricsUpdated(_Model):
    """events, 7.2: RTTs in ms, windows in bytes, the pacing rate in bit/s, and at least one of them."""

    min_rtt: Ms | None = None
    smoothed_rtt: Ms | None = None
    latest_rtt: Ms | None = None
    rtt_variance: Ms | None = None
    pto_count: UInt16 | None = None
    congestion_window: UInt64 | None = None
    bytes_in_flight: UInt64 | None = None
    ssthresh: UInt64 | None = None
    packets_in_flight: UInt64 | None = None
    pacing_rate: UInt64 | None = None

    @model_validator(mode="after")
    def _any(self) -> MetricsUpdated:
        assert self.model_fields_set
        return self


class CongestionStateUpdated(_Model):
    """events, 7.3."""

    old: str | None = None
    new: str


class _Event(_Model):
    """main, 3.4, with 3.4.6."""

    time: Ms
    group_id: str | None = None


class _PacketSent(_Event):
    name: Literal["transport:packet_sent"]
    data: PacketSent


class _PacketReceived(_Event):
    name: Literal["transport:packet_received"]
    data: PacketReceived


class _PacketLost(_Event):
    name: Literal["recovery:packet_lost"]
    data: PacketLost


class _MetricsUpdated(_Event):
    name: Literal["recovery:metrics_updated"]
    data: MetricsUpdated


class _CongestionStateUpdated(_Event):
    name: Literal["recovery:congestion_state_updated"]
    data: CongestionStateUpdated


Event = _PacketSent | _PacketReceived | _PacketLost | _MetricsUpdated | _CongestionStateUpdated
_EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="name")])


def read(path: Path) -> tuple[QlogFileSeq, list[dict[str, Any]]]:
    """The header and the events of a file, held against the rules: RFC 7464's, each model's, and time's order."""
    data = path.read_bytes()
    # main, 3: readers look for these in the first 256 bytes.
    assert b'"qlog_version":"0.3"' in data[:256]
    assert b'"qlog_format":"JSON-SEQ"' in data[:256]
    assert data.startswith(b"\x1e")
    assert data.endswith(b"\n")
    records = data[1:].split(b"\x1e")
    assert all(record.endswith(b"}\n") and record.count(b"\n") == 1 for record in records)
    header = QlogFileSeq.model_validate_json(records[0])
    events = []
    for record in records[1:]:
        _EVENT.validate_json(record)
        events.append(json.loads(record))
    times = [event["time"] for event in events]
    # main, 3.4.1: in ascending order of time.
    assert times == sorted(times)
    return header, events
