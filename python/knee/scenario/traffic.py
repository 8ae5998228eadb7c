"""What a flow carries instead of an endless stream: the tables ``traffic`` of flows, and probes.

Each kind is a model, made from what the core's registry declares. Four kinds have models of their own, since their keys
include presets and quantities that the core derives others from. :mod:`knee.scenario.offered` turns models into
specifications of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    WithJsonSchema,
    create_model,
    model_serializer,
    model_validator,
)

from knee.errors import Refused
from knee.scenario import registry, units
from knee.scenario.check import refuse
from knee.scenario.fields import Bytes, Dscp, Name, Rate, SomeBytes, SomeTime, Table, Text, Time, plain_number

#: The value of ``cc`` of a flow that has none, since it sends datagrams.
NO_CC = "none"
#: Sizes of datagrams as IP packets, bytes: the headers of IPv4 and UDP with 8 bytes for a number, and Ethernet's MTU.
LEAST_PACKET, LARGEST_PACKET = 36, 1500
#: The least time between two probes, ns.
LEAST_INTERVAL = 100_000
#: Most transfers or pages per second.
MOST_PER_SECOND = 1e7
#: Largest message, bytes; longest time, a year, and shortest segment, ns.
LARGEST_MESSAGE, LONGEST, _SHORTEST = 10**15, 365 * 86_400 * 10**9, 10**6


def _within(most: int, show: Callable[[int], str], least: int = 0) -> AfterValidator:
    """Refuses amounts that the engine does not take."""

    def check(amount: int) -> int:
        if amount > most:
            raise Refused(f"{show(amount)} is too large", f"expected at most {show(most)}")
        if amount < least:
            raise Refused(f"{show(amount)} is too small", f"expected at least {show(least)}")
        return amount

    return AfterValidator(check)


PerSecond = Annotated[float, BeforeValidator(plain_number), Field(gt=0, le=MOST_PER_SECOND)]
Message = Annotated[SomeBytes, _within(LARGEST_MESSAGE, units.format_bytes)]
Span = Annotated[Time, _within(LONGEST, units.format_time)]
SomeSpan = Annotated[SomeTime, _within(LONGEST, units.format_time)]
Number = Annotated[int, Field(ge=1, le=2**53)]
Packet = Annotated[SomeBytes, Field(ge=LEAST_PACKET, le=LARGEST_PACKET)]
Connection = Literal["new", "persistent"]

_SIZE = 'expected a size such as "30 kB", or a table such as { distribution = "web-search" }'


class Size(Table):
    """The size of messages: one for all, or a distribution."""

    bytes: Message | None = Field(None, description='a size such as "30 kB"')
    distribution: Literal["lognormal", "pareto", "web-search", "data-mining"] | None = Field(
        None, description='"lognormal", "pareto", "web-search" or "data-mining"'
    )
    median: Message | None = Field(None, description='the median, such as "10 kB"')
    sigma: Annotated[float, BeforeValidator(plain_number), Field(gt=0, le=5)] | None = Field(
        None, description="the standard deviation of the logarithm, above 0 and at most 5"
    )
    min: Message | None = Field(None, description='the smallest size, such as "1 kB"')
    shape: Annotated[float, BeforeValidator(plain_number), Field(gt=0, le=100)] | None = Field(
        None, description="the exponent of the tail, above 0 and at most 100"
    )
    max: Message | None = Field(None, description='the largest size, such as "100 MB"')
    file: Text | None = Field(None, description="a file with a size in bytes and a cumulative probability per line")

    @model_validator(mode="before")
    @classmethod
    def _one_for_all(cls, given: Any) -> Any:
        if isinstance(given, str):
            return {"bytes": units.format_bytes(units.parse_bytes(given, zero=False))}
        if not isinstance(given, dict | Size):
            raise Refused(f"{units.shown(given)} is not a size", _SIZE)
        if isinstance(given, dict) and given.get("distribution") == "lognormal":
            # The largest that a transfer of a heavy tail may have without deciding the run alone.
            return {"max": "1 GB"} | given
        return given

    @model_validator(mode="after")
    def _keys_of_its_shape(self) -> Size:
        refuse("size", dict(self))
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, dump: Any) -> Any:
        plain = {key: value for key, value in dump(self).items() if value is not None}
        return plain.get("bytes", plain)


class _Arriving(Table):
    """When transfers or pages start."""

    arrivals: Literal["poisson", "periodic"] | None = Field(None, description='"poisson" or "periodic"')
    per_second: PerSecond | None = Field(None, description="a number per second, such as 50.0")
    times: Text | None = Field(None, description="a file with a time in seconds per line, ascending")

    def _check_arrivals(self, what: str = "arrivals") -> None:
        refuse(what, {key: getattr(self, key, None) for key in ("arrivals", "per_second", "times", "load")})


def _with_arrivals(given: Any, rates: Sequence[str]) -> Any:
    """Arrivals are Poisson where a rate is given and nothing else is said."""
    if isinstance(given, dict) and any(given.get(key) is not None for key in rates):
        return {"arrivals": "poisson"} | given
    return given


class Transfers(_Arriving):
    """Connections that come and go, or messages on one that stays."""

    kind: Literal["transfers"]
    load: Rate | None = Field(None, description='the offered payload, such as "40 Mbit/s"')
    size: Size = Field(description='a size such as "30 kB", or a table such as { distribution = "web-search" }')
    connection: Connection = Field("new", description='"new" or "persistent"')
    number: Number | None = Field(None, description="a number of transfers, 1 or more")

    @model_validator(mode="before")
    @classmethod
    def _poisson(cls, given: Any) -> Any:
        return _with_arrivals(given, ("per_second", "load"))

    @model_validator(mode="after")
    def _check(self) -> Transfers:
        self._check_arrivals("transfers")
        return self


class Starts(_Arriving):
    """Times at which something starts, as a table of its own."""

    @model_validator(mode="before")
    @classmethod
    def _poisson(cls, given: Any) -> Any:
        return _with_arrivals(given, ("per_second",))

    @model_validator(mode="after")
    def _check(self) -> Starts:
        self._check_arrivals()
        return self


class Think(Table):
    """A time between pages: always the same, or the mean of an exponential distribution."""

    time: Span | None = None
    mean: SomeSpan | None = Field(None, description='a mean time such as "1 s"')

    @model_validator(mode="before")
    @classmethod
    def _always_the_same(cls, given: Any) -> Any:
        if isinstance(given, Think) or (isinstance(given, dict) and list(given) == ["mean"]):
            return given
        if isinstance(given, dict):
            raise Refused("it is a table", 'expected a time such as "1 s", or a table { mean = "1 s" }')
        return {"time": units.format_time(units.parse_time(given))}

    @model_serializer
    def _as_written(self) -> Any:
        return units.format_time(self.time) if self.time is not None else {"mean": units.format_time(self.mean or 0)}


class Objects(Table):
    """A number of objects per page: always the same, or the mean of a geometric distribution."""

    number: Annotated[int, Field(ge=1, le=10_000)] | None = None
    mean: Annotated[float, BeforeValidator(plain_number), Field(ge=1, le=10_000)] | None = Field(
        None, description="a mean from 1 to 10000"
    )

    @model_validator(mode="before")
    @classmethod
    def _always_the_same(cls, given: Any) -> Any:
        if isinstance(given, Objects) or (isinstance(given, dict) and list(given) == ["mean"]):
            return given
        if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= 10_000:
            accepted = "expected a whole number from 1 to 10000, or a table { mean = 70.0 }"
            raise Refused(f"{units.shown(given)} is not a number of objects", accepted)
        return {"number": given}

    @model_serializer
    def _as_written(self) -> Any:
        return self.number if self.number is not None else {"mean": self.mean}


class Pages(_Arriving):
    """Times at which users ask: a time after the last answer, or arrivals."""

    think: Think | None = None

    @model_validator(mode="before")
    @classmethod
    def _poisson(cls, given: Any) -> Any:
        return _with_arrivals(given, ("per_second",))

    @model_validator(mode="after")
    def _check(self) -> Pages:
        if self.think is None:
            self._check_arrivals()
        elif self.arrivals or self.per_second or self.times:
            raise Refused("pages start at given times", "expected one of think, per_second and times", key="think")
        return self


class Priority(Table):
    """The priority of an answer among those of its connection (RFC 9218, section 4)."""

    urgency: int = Field(3, ge=0, le=7, description="an urgency, 0 to 7; 0 goes first")
    incremental: bool = Field(
        False, description="whether parts of it are of use, so that it shares with others of its urgency: true or false"
    )


def _listed(given: Any) -> Any:
    """One priority is that of all answers."""
    accepted = "expected a table such as { urgency = 3, incremental = false }, or a list of such"
    if isinstance(given, list) and not given:
        raise Refused("it is empty", accepted)
    if not isinstance(given, list | dict | Priority | None):
        raise Refused(f"{units.shown(given)} is not a priority", accepted)
    return [given] if isinstance(given, dict | Priority) else given


Priorities = Annotated[list[Priority], BeforeValidator(_listed, json_schema_input_type=Priority | list[Priority])]

#: Requests of the kinds that people have. A page is like the median desktop page of the Web Almanac 2024, which has 71
#: requests and 2.65 MB: a lognormal of median 12 kB and sigma 1.5 has a mean of 37 kB. Browsers open six connections.
REQUESTS: dict[str, dict[str, Any]] = {
    "web-page": {
        "request": "500 B",
        "size": {"distribution": "lognormal", "median": "12 kB", "sigma": 1.5, "max": "2 MB"},
        "objects": 71,
        "connections": 6,
        "connection": "new",
        "tls": "1.3",
        "service": "10 ms",
        "think": "1 s",
    },
    "rpc": {
        "request": "200 B",
        "size": "1 kB",
        "objects": 1,
        "connections": 1,
        "connection": "persistent",
        "tls": "none",
        "service": "0 s",
        "think": "10 ms",
    },
}


#: Bytes of certificates with TLS over TCP: the server's first answer has 4000 B then.
USUAL_CERTIFICATE = 3_682


class Requests(_Arriving):
    """Requests and answers; the one who asks sits where the flow's data goes to."""

    kind: Literal["requests"]
    preset: Literal["web-page", "rpc"] | None = Field(None, description='"web-page" or "rpc"')
    request: Message = Field(500, description='the size of a request, such as "500 B"')
    size: Size = Field(description='the size of an answer, such as "30 kB", or a table such as { file = "FILE" }')
    objects: Objects = Field(
        1,
        validate_default=True,
        description="a number of answers per page, 1 to 10000, or a table such as { mean = 70.0 }",
    )
    connections: int = Field(1, ge=1, le=1000, description="a number of connections per page, 1 to 1000")
    streams: int = Field(
        1, ge=1, le=10_000, description="a number of requests at once on a connection over QUIC, 1 to 10000"
    )
    priority: Priorities | None = Field(
        None,
        description="a table such as { urgency = 3, incremental = false }, or a list of such, one by object in turn",
    )
    connection: Connection = Field("new", description='"new" or "persistent"')
    tls: Literal["1.3", "1.2", "none"] = Field("1.3", description='"1.3", "1.2" or "none"')
    certificate: Bytes = Field(
        USUAL_CERTIFICATE, le=36_000, description='the size of the server\'s certificates, up to "36 kB"'
    )
    service: Span = Field(0, description='how long the server takes for an answer, such as "10 ms"')
    think: Think | None = Field(
        None, description='the time between pages, such as "1 s", or a table such as { mean = "1 s" }'
    )
    together: bool = Field(False, description="whether all objects are asked for at once: true or false")
    number: Number | None = Field(None, description="a number of pages, 1 or more")

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        preset = REQUESTS.get(str(given.get("preset")), {})
        whole = preset | given
        if any(whole.get(key) is not None for key in ("per_second", "times")):
            if given.get("think") is not None:
                raise Refused("pages start at given times", "expected one of think, per_second and times", key="think")
            whole.pop("think", None)
            return _with_arrivals(whole, ("per_second",))
        return {"think": "0 s"} | whole

    @model_validator(mode="after")
    def _check(self) -> Requests:
        if self.think is None:
            self._check_arrivals()
        keys = {key: getattr(self, key) for key in ("together", "connections", "streams", "tls", "certificate")}
        given = {"thinks": self.think is not None, "has_arrivals": self.arrivals is not None}
        given |= {"is_one_object": self.objects.number == 1, "has_priority": self.priority is not None}
        refuse("requests", keys | given)
        return self


#: Netflix's fixed ladder (Aaron et al., "Per-Title Encode Optimization", Netflix Technology Blog, 2015).
LADDER = [235_000, 375_000, 560_000, 750_000, 1_050_000, 1_750_000, 2_350_000, 3_000_000, 4_300_000, 5_800_000]


class Video(Table):
    """Adaptive streaming over one connection; the player sits where the flow's data goes to."""

    kind: Literal["video"]
    ladder: list[Rate] = Field(
        [units.format_rate(rate) for rate in LADDER],
        validate_default=True,
        description='a list of bitrates, ascending, such as ["1 Mbit/s", "3 Mbit/s"]',
    )
    segment: Annotated[SomeTime, _within(LONGEST, units.format_time, _SHORTEST)] = Field(
        4_000_000_000, description='the duration of a segment, such as "4 s"'
    )
    buffer: SomeSpan = Field(240_000_000_000, description='what the player holds at most, such as "240 s"')
    algorithm: Literal["bba", "rate"] = Field("bba", description='"bba" or "rate"')
    length: SomeSpan | None = Field(None, description='the duration of the video, such as "10 min"; default: endless')

    @model_validator(mode="after")
    def _check(self) -> Video:
        refuse("video", dict(self))
        return self


#: Datagrams of the kinds that people have, as IP packets with 40 bytes of IP, UDP and RTP headers. G.711: 160 bytes of
#: voice every 20 ms (RFC 3551, 4.5.14). Opus: 24 kbit/s, between what RFC 7587, 3.1.1 names for wideband and for full
#: band speech, 60 bytes every 20 ms. A game whose client reports to the server 60 times a second, 100 bytes each.
UDP: dict[str, dict[str, Any]] = {
    "voip-g711": {"rate": "80 kbit/s", "packet_size": "200 B"},
    "voip-opus": {"rate": "40 kbit/s", "packet_size": "100 B"},
    "game-60hz": {"rate": "61.44 kbit/s", "packet_size": "128 B"},
}
#: Presets whose quality is that of a call.
CODECS = ("voip-g711", "voip-opus")


class Udp(Table):
    """Datagrams at constant intervals, with pauses, or as recorded."""

    kind: Literal["udp"]
    preset: Literal["voip-g711", "voip-opus", "game-60hz"] | None = Field(
        None, description='"voip-g711", "voip-opus" or "game-60hz"'
    )
    rate: Rate | None = Field(None, description='the rate of IP packets while it sends, such as "80 kbit/s"')
    packet_size: Packet | None = Field(None, description='the size of an IP packet, "36 B" to "1500 B"')
    on: SomeTime | None = Field(None, description='the mean time of talking, such as "1 s"')
    off: SomeTime | None = Field(None, description='the mean time of silence, such as "1.5 s"')
    pauses: Literal["exponential", "constant"] | None = Field(
        None, description='how long on and off are each time: "exponential" or "constant"'
    )
    trace: Text | None = Field(None, description="a file with seconds and bytes of an IP packet per line")
    repeat: bool | None = Field(None, description="whether the trace repeats: true or false")

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if given.get("trace") is not None:
            return {"repeat": False} | given
        return UDP.get(str(given.get("preset")), {}) | given

    @model_validator(mode="after")
    def _check(self) -> Udp:
        refuse("udp", dict(self))
        return self


class Declared(Table):
    """A kind whose keys are those that the core's registry declares."""

    kind: str

    @model_validator(mode="after")
    def _agree(self) -> Declared:
        # Tables may name files, which are read when the run is set up.
        if not registry.traffic()[self.kind].tables:
            refuse("traffic", values(self))
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle looks classes up by their names, which models made below do not have in this module.
        return _restored, (self.kind, dict(self.__dict__))


def _restored(kind: str, fields: dict[str, Any]) -> BaseModel:
    return KINDS[kind].model_construct(**fields)


def values(traffic: Declared) -> dict[str, Any]:
    """The kind and its parameters in the core's form, without tables."""
    return {"kind": traffic.kind} | {name: getattr(traffic, name) for name in registry.traffic()[traffic.kind].params}


#: What tables hold, by their form in the registry.
FORMS: dict[str, Any] = {
    "arrivals": Starts,
    "pages": Pages,
    "size": Size,
    "count": Objects,
    "rates": list[Rate],
    "packets": Text,
    "priorities": Priorities,
}
#: Types of parameters in base units.
_TYPES = {"time": int, "rate": int, "bytes": int, "count": int, "ratio": float, "bool": bool, "choice": str}


def model_of(entry: registry.Kind) -> type[BaseModel]:
    """The model of a kind with these parameters."""
    fields: dict[str, Any] = {name: _field(param) for name, param in entry.params.items()}
    for key in entry.tables:
        form = FORMS[key.form]
        fields[key.name] = (
            (form, Field(description=key.about)) if key.required else (form | None, Field(None, description=key.about))
        )
    kind: Any = Literal[entry.name]
    return create_model(entry.name, __base__=Declared, __doc__=entry.about, kind=(kind, ...), **fields)


def _field(param: registry.Param) -> tuple[Any, Any]:
    base: Any = _TYPES[param.kind]
    schema = WithJsonSchema(registry.accepted(param))
    taken: Any = Annotated[base, BeforeValidator(param.parse), PlainSerializer(param.plain), schema]
    if param.required:
        return taken, Field(description=f"{param.about}, such as {units.shown(param.plain(param.default))}")
    return taken, Field(param.default, description=f"{param.about}, {param.accepted.removeprefix('expected ')}")


#: Models of kinds whose keys are more than those that the core declares.
MODELS: dict[str, type[BaseModel]] = {"transfers": Transfers, "requests": Requests, "video": Video, "udp": Udp}
#: The models by their names in ``kind``.
KINDS: Mapping[str, type[BaseModel]] = {
    name: MODELS.get(name) or model_of(entry) for name, entry in registry.traffic().items()
}
#: Kinds that go in datagrams, without congestion control or with one of their own.
DATAGRAMS = tuple(name for name, entry in registry.traffic().items() if entry.datagrams)

if TYPE_CHECKING:
    Traffic = Transfers | Requests | Video | Udp | Declared
else:
    Traffic = Annotated[reduce(or_, KINDS.values()), Field(discriminator="kind")]


def sends_datagrams(traffic: object) -> bool:
    """Whether a flow's traffic, as a model or as plain data, goes in datagrams."""
    kind = traffic.get("kind") if isinstance(traffic, dict) else getattr(traffic, "kind", None)
    return kind in DATAGRAMS


def _interval(value: Any) -> int:
    interval = units.parse_time(value, zero=False)
    if interval < LEAST_INTERVAL:
        found = f"{units.format_time(interval)} is too short"
        raise Refused(found, f"expected {units.format_time(LEAST_INTERVAL)} or more")
    return interval


def _no_number(value: object) -> object:
    """Refuses 0 and 1, which Python takes for false and true."""
    if units.is_number(value):
        raise Refused(f"{units.shown(value)} is not known", units.near(str(value), ["false", "true", "l4s"]))
    return value


class Probe(Table):
    """Small datagrams that the other end sends back at once."""

    interval: Annotated[SomeTime, BeforeValidator(lambda value: units.format_time(_interval(value)))] = Field(
        10_000_000, description='the time between two, "100 us" or more'
    )
    size: Packet = Field(64, description='the size of an IP packet, "36 B" to "1500 B"')
    rtt: SomeTime = Field(description='the base round-trip time, such as "20 ms"')
    start: Time = Field(0, description='a start time such as "5 s"')
    stop: SomeTime | None = Field(None, description='a stop time such as "60 s"; default: the end')
    path: list[str] | None = Field(None, description="the names of the links it crosses, in order; default: all")
    direction: Literal["forward", "reverse"] = Field("forward", description='"forward" or "reverse"')
    tunnel: Name | None = Field(None, description='the name of a tunnel, such as "vpn"; default: none')
    dscp: Dscp = Field(0, description='a codepoint such as "EF", "CS1" or 46')
    ecn: Annotated[Literal[False, True, "l4s"], BeforeValidator(_no_number)] = Field(
        False, description='false, true or "l4s"'
    )
    label: Name | None = Field(None, description="the probe's name in results")
