"""The scenario model (docs/scenarios.md), all quantities as integers in base units (ns, bit/s, bytes).

Input has quantities as text (``"21 ms"``), and so has what :meth:`Scenario.plain` gives back. Each field's description
says what it takes; error messages quote it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    FieldSerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from knee.errors import Refused
from knee.own import CONTROL, QUEUE, Named, code_allowed, name_of, named_in
from knee.scenario import Changes, Core, Plain, commands, defaults, registry, units
from knee.scenario.check import check, check_capacity, check_flow, check_link
from knee.scenario.commands import PROGRAM_CC
from knee.scenario.defaults import DEFAULT_LINK, fill_defaults, share_with_reverse
from knee.scenario.fields import (
    Bytes,
    Dscp,
    Limit,
    Name,
    Probability,
    Rate,
    SomeBytes,
    SomeTime,
    Table,
    Text,
    Time,
    one_line,
    valid_name,
)
from knee.scenario.frozen import List, frozen
from knee.scenario.paths import files_in
from knee.scenario.registry import Value
from knee.scenario.traffic import NO_CC, Probe, Traffic

if TYPE_CHECKING:
    from knee.scenario.spec import Specification

FORMAT = 1
#: What a scenario works out once, on first use.
_DERIVED = ("specification", "written", "files", "own", "labels")
#: What a scenario remembers of the file that says the same: its name in errors.
_FILE = "file"
#: Fields without which a scenario is still that of its file.
_OUTSIDE = {"name", "title", "seed"}
#: The rate that a trace counts as, bit/s.
_TRACE = 1_000_000_000


def _kernel_number(asked: object) -> object:
    """A number such as "7.2"; the number 7.2 would do, but 6.1 and 6.10 are the same."""
    if not isinstance(asked, str) or not re.fullmatch(r"\d{1,3}\.\d{1,3}", asked):
        found = f"{units.shown(str(asked))} is not the number of a kernel"
        raise Refused(found, 'expected text with two numbers, such as "7.2"')
    return asked


def _folder_name(text: str) -> str:
    if "/" in valid_name(text) or text.startswith("."):
        raise Refused(
            f"{units.shown(text)} cannot name a folder", "expected a name without / and without a leading dot"
        )
    return text


def _command(text: str) -> str:
    commands.words(text)
    return text


def _absolute(text: str) -> str:
    if not one_line(text).startswith("/"):
        raise Refused(f"{units.shown(text)} is not a path from the root", 'expected a folder such as "/srv/programs"')
    return text


class Slot(Table):
    """Slots in which a link lets packets go together, as netem's ``slot`` does."""

    min: SomeTime = Field(description='the least time to the next slot, such as "800 us"')
    max: SomeTime | None = Field(None, description="the greatest time to it; default: min")
    packets: int | None = Field(None, ge=1, lt=2**64, description="the number of packets of a slot at most")
    bytes: SomeBytes | None = Field(None, description='bytes after which a slot takes no more, such as "64 kB"')

    @model_validator(mode="after")
    def _spans_time(self) -> Slot:
        if self.max is not None and self.max < self.min:
            found = f"{units.format_time(self.max)} is less than min, {units.format_time(self.min)}"
            raise Refused(found, "expected at least that", key="max")
        return self


#: The keys that name an entry of the registry: its kind, for errors, and the part of the registry.
ENTRIES = {
    "model": ("link model", "links"),
    "loss_model": ("loss model", "losses"),
    "delay_model": ("delay model", "delays"),
    "queue": ("queue discipline", "queues"),
    "cc": ("congestion control", "flows"),
    "receiver": ("receiver", "receivers"),
}
#: The keys that have an entry's own parameters: the key that names the entry.
PARAMS = {
    "model_params": "model",
    "loss_params": "loss_model",
    "delay_params": "delay_model",
    "queue_params": "queue",
    "cc_params": "cc",
    "receiver_params": "receiver",
}


#: The value of ``cc`` of flows that have no congestion control of knee's.
WITHOUT_CC = (PROGRAM_CC, NO_CC)


class _Chooses(Table):
    """A table with keys that name entries of the registry, and those entries' own parameters."""

    @field_validator(*ENTRIES, mode="wrap", check_fields=False)
    @classmethod
    def _is_known(cls, given: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> str:
        key = str(info.field_name)
        if key in ("cc", "queue"):
            given = name_of(given, CONTROL if key == "cc" else QUEUE)
        # The handler would make plain text of the name of a class.
        name: str = given if isinstance(given, Named) else handler(given)
        if key != "cc" or name not in WITHOUT_CC:
            what, part = ENTRIES[key]
            registry.find(what, name, registry.of(part))
        return name

    @field_validator(*PARAMS, check_fields=False)
    @classmethod
    def _are_declared(cls, given: dict[str, Value], info: ValidationInfo) -> dict[str, Value]:
        key = PARAMS[str(info.field_name)]
        if key not in info.data:
            # A name that was refused leaves nothing to check the parameters against.
            return {}
        name = info.data[key]
        if key == "cc" and name in WITHOUT_CC:
            if given:
                own = "a program takes its parameters in its command line"
                raise Refused(own if name == PROGRAM_CC else "datagrams have no congestion control", "leave it out")
            return {}
        if key == "queue" and name == "cake":
            if "nat" in given:
                found = "the hosts of a simulated network have addresses of their own, which nothing translates"
                raise Refused(found, "leave it out", key="nat")
            given = defaults.spelled_out(given)
        return registry.of(ENTRIES[key][1])[name].resolve(given)

    @field_serializer(*PARAMS, check_fields=False)
    def _plain_params(self, values: dict[str, Value], info: FieldSerializationInfo) -> dict[str, Value]:
        key = PARAMS[info.field_name]
        name = getattr(self, key)
        return {} if name in WITHOUT_CC else registry.of(ENTRIES[key][1])[name].plain(values)

    def chosen(self, key: str) -> Core:
        """The entry that a key such as ``loss_model`` names, with its parameters, in the core's form."""
        name = getattr(self, key)
        values = getattr(self, next(params for params, of in PARAMS.items() if of == key))
        return {"name": name, "params": registry.of(ENTRIES[key][1])[name].tagged(values)}


class _Queueing(_Chooses):
    """A capacity and the queue before it."""

    rate: Rate | None = Field(None, description='the rate, such as "100 Mbit/s"')
    trace: Text | None = Field(None, description="a file with a line per 1500-byte delivery opportunity, in ms")
    rate_trace: Text | None = Field(None, description="a CSV or Parquet file with rates by time")
    delay_trace: Text | None = Field(None, description="a CSV or Parquet file with extra delays by time")
    loss_trace: Text | None = Field(None, description="a CSV or Parquet file with loss probabilities by time")
    corrupt: Probability = Field(0.0, description="a probability that a packet is damaged, 0 to 1")
    slot: Slot | None = Field(None, description='a table such as { min = "800 us", packets = 32 }')
    trace_repeats: bool | None = Field(None, description="whether these three repeat: true or false")
    model: str = Field("wire", description="the name of a link model")
    model_params: dict[str, Any] = Field(
        {}, validate_default=True, description="a table of the link model's own parameters"
    )
    queue: str = Field("pfifo", description="the name of a queue discipline")
    limit: Limit | None = Field(None, description='a capacity such as "250 packets", "100 MB" or "80 ms"')
    queue_params: dict[str, Any] = Field(
        {}, validate_default=True, description="a table of the discipline's own parameters"
    )
    overhead: Bytes = Field(
        14,
        le=10_000,
        description='bytes counted on top of each IP packet, such as "14 B", or a keyword such as "docsis"',
    )
    linklayer: defaults.LinkLayer = Field("ethernet", description='"ethernet", "atm" or "ptm"')
    mpu: Bytes = Field(0, le=10_000, description='bytes that each packet takes at least, such as "64 B"')


class Reverse(_Queueing):
    """The reverse direction of a link."""

    _checked = model_validator(mode="after")(check_capacity)


class Link(_Queueing):
    """A link with its queue, in the data direction."""

    name: Name = Field(DEFAULT_LINK, description="the link's name")
    loss: Probability = Field(0.0, description="a probability, 0 to 1")
    loss_model: str = Field("random", description="the name of a loss model")
    loss_params: dict[str, Any] = Field(
        {}, validate_default=True, description="a table of the loss model's own parameters"
    )
    delay: Time = Field(0, description='propagation, part of the rtt of the flows that cross it, such as "5 ms"')
    jitter: Time = Field(0, description='the maximum random extra delay, such as "100 us"')
    delay_model: str = Field("uniform", description="the name of a distribution of the extra delay")
    delay_params: dict[str, Any] = Field(
        {}, validate_default=True, description="a table of the distribution's parameters"
    )
    delay_table: Text | None = Field(None, description="a file with a line per extra delay, in ms")
    reorder: bool = Field(False, description="whether the extra delay may reorder packets: true or false")
    channel: Name | None = Field(None, description='a name that Wi-Fi links on one channel share, such as "home"')
    burst: SomeBytes | None = Field(None, description='the size of a token bucket, such as "1600 B"')
    reverse: Reverse | None = Field(None, description='a table such as { rate = "10 Mbit/s", queue = "pfifo" }')

    _shared = model_validator(mode="before")(share_with_reverse)
    _checked = model_validator(mode="after")(check_link)


Command = Annotated[str, AfterValidator(_command)]


class Program(Table):
    """The two programs of a flow that brings its own transport."""

    send: Command = Field(description='a command line such as "iperf3 -c {address} -p {port} -t {duration}"')
    receive: Command = Field(description='a command line such as "iperf3 -s -p {port}"')
    rtt_pattern: Annotated[str, AfterValidator(commands.check_pattern)] | None = Field(
        None, description="a regular expression that finds an RTT in what the sender prints"
    )
    rtt_unit: Literal["us", "ms", "s"] = Field("ms", description='the unit of that RTT: "us", "ms" or "s"')
    wait: SomeTime = Field(50_000, description='how long a call waits that asks without waiting, such as "50 us"')
    root: Annotated[str, AfterValidator(_absolute)] = Field(
        "/", description="the folder that the programs see as /, read-only"
    )


#: How a flow uses ECN: ECT(0) or not, with accurate feedback, or with that and ECT(1).
Ecn = Literal[True, False, "accurate", "l4s"]
#: What an algorithm has at least, by its reaction to marks.
_LEAST_ECN: dict[str, Ecn] = {"classic": False, "per_packet": True, "scalable": "l4s"}


class Flow(_Chooses):
    """A flow, or ``count`` identical ones."""

    # First, since an error in it explains more than a missing cc.
    traffic: Traffic | None = Field(
        None, description='a table such as { kind = "transfers", ... }; default: an endless stream'
    )
    cc: str = Field(description="the name of a congestion control")
    cc_params: dict[str, Any] = Field(
        {}, validate_default=True, description="a table of the algorithm's own parameters"
    )
    program: Program | None = Field(
        None, description='a table such as { send = "...", receive = "..." }, instead of cc'
    )
    rtt: SomeTime = Field(description='the base round-trip time, such as "20 ms"')
    start: Time = Field(0, description='a start time such as "20 s"')
    stop: SomeTime | None = Field(None, description='a stop time such as "60 s"; default: the end')
    lasts: SomeTime | None = Field(None, description='a duration from its own start, instead of stop, such as "200 s"')
    bytes: SomeBytes | None = Field(None, description='the size of a finite transfer, such as "10 MB"')
    count: int = Field(1, ge=1, lt=2**64, description="a number of identical flows, 1 or more")
    stagger: Time = Field(0, description='the time between the starts of identical flows, such as "4 s"')
    transport: Literal["tcp", "quic", "udp"] = Field("tcp", description='"tcp" or "quic"')
    tls: bool = Field(False, description="whether QUIC's packets are encrypted: true or false")
    label: Name | None = Field(None, description="the flow's name in results")
    path: list[str] | None = Field(None, description="the names of the links it crosses, in order; default: all")
    direction: Literal["forward", "reverse"] = Field("forward", description='"forward" or "reverse"')
    tunnel: Name | None = Field(None, description='the name of a tunnel, such as "vpn"; default: none')
    dscp: Dscp = Field(0, description='a codepoint such as "EF", "CS1" or 46')
    pacing: Literal["auto", "on"] = Field("auto", description='"auto" or "on"')
    ecn: Ecn = Field(None, validate_default=True, description='true or false, "accurate" or "l4s"')
    receiver: str = Field(registry.HONEST, description="the name of a receiver")
    receiver_params: dict[str, Any] = Field(
        {}, validate_default=True, description="a table of the receiver's own parameters"
    )

    @field_validator("ecn", mode="before")
    @classmethod
    def _ecn_is_what_the_algorithm_needs(cls, asked: object, info: ValidationInfo) -> object:
        if asked is not None and not (isinstance(asked, bool) or asked in ("accurate", "l4s")):
            raise Refused(f"{units.shown(asked)} is not known", 'expected true, false, "accurate" or "l4s"')
        cc = info.data.get("cc", PROGRAM_CC)
        least = _LEAST_ECN[registry.flow_controls()[cc].needs["ecn"] if cc not in WITHOUT_CC else "classic"]
        if asked is None:
            return least
        if least and (asked is False or least == "l4s" != asked):
            enough = '"l4s"' if least == "l4s" else 'true, "accurate" or "l4s"'
            raise Refused(f"{cc} needs ECN", f"expected {enough}, or no such key")
        return asked

    _checked = model_validator(mode="after")(check_flow)


class Change(Table):
    """What changes at one moment of the run, on one link or one flow."""

    at: Time = Field(description='a time such as "30 s"')
    link: str | None = Field(None, description="the name of the link that changes")
    flow: str | None = Field(None, description="the label of the flow that changes")
    rate: Rate | None = Field(None, description='the link\'s new rate, such as "5 Gbit/s"')
    loss: Probability | None = Field(None, description="the link's new loss probability, 0 to 1")
    limit: Limit | None = Field(None, description='the queue\'s new capacity, such as "250 packets"')
    rtt: SomeTime | None = Field(None, description='the flow\'s new base round-trip time, such as "40 ms"')


class Tcp(Table):
    """Settings of the TCP endpoints, the same for all flows; the defaults are Linux's."""

    tick: Time = Field(4_000_000, description='the kernel\'s clock tick, such as "4 ms"; "0 s" is an ideal clock')
    initial_window: int = Field(10, ge=1, le=1000, description="a number of packets, 1 to 1000")
    rto_min: SomeTime = Field(200_000_000, description='the minimum retransmission timeout, such as "200 ms"')
    delayed_ack: Time = Field(40_000_000, description='the maximum delay of an ACK, such as "40 ms"')
    sack_delay: Time = Field(1_000_000, description='the maximum delay of compressed SACKs, such as "1 ms"')
    receive_offload: Time = Field(
        0, description='how long a receiver\'s host joins segments to one packet, such as "600 us"; "0 s": not at all'
    )
    tso: bool = Field(True, description="whether senders send segments in bursts: true or false")
    tso_rtt_log: int = Field(9, ge=0, le=31, description="0 to 31; 0 is Linux before 5.18")
    slow_start_after_idle: bool = Field(True, description="whether an idle or unused window shrinks: true or false")
    window_growth: Bytes = Field(
        16 * 1024 * 1024, description='the size up to which the window of a receiver grows, such as "16 MiB"'
    )
    receive_window: SomeBytes | None = Field(None, description='a size such as "6 MB"; default: no limit')
    trace_rtt: bool = Field(False, description="whether RTT figures are those of a packet trace: true or false")


class Quic(Table):
    """Settings of the QUIC endpoints, the same for all flows.

    A preset's values are in place of the defaults of keys that are not given; those are not written.
    """

    preset: Literal["quinn", "quiche", "neqo", "picoquic", "msquic", "ngtcp2", "chromium"] | None = Field(
        None, description='the stack whose defaults hold, such as "quinn"; default: RFC 9002\'s'
    )
    certificate: Bytes = Field(400, le=36_000, description='the size of the server\'s certificates, up to "36 kB"')
    zero_rtt: bool = Field(False, description="whether a client sends data behind its hello: true or false")
    retry: bool = Field(False, description="whether a server asks for a token first: true or false")
    idle_timeout: SomeTime | None = Field(
        None, ge=1_000_000, le=1_000_000 * 10**9, description='a time from "1 ms" on, such as "30 s"; default: none'
    )
    initial_window: int = Field(10, ge=2, le=1000, description="a number of packets, 2 to 1000")
    initial_rtt: SomeTime = Field(
        333_000_000, ge=1_000, le=60 * 10**9, description='the RTT before the first sample, such as "100 ms"'
    )
    packet_threshold: int = Field(
        3, ge=3, le=1_000_000, description="the packets by which a packet is reordered before it is lost, 3 to 1000000"
    )
    pacing: bool = Field(
        True, description="whether packets are paced where the algorithm does not ask for it: true or false"
    )
    gso: int = Field(1, ge=1, le=64, description="the packets that leave together where they are paced, 1 to 64")
    receive_window: SomeBytes | None = Field(None, description='a size such as "768 KiB"; default: no limit')
    stream_receive_window: SomeBytes | None = Field(None, description='a size such as "1250 kB"; default: no limit')
    max_streams: int = Field(
        100, ge=1, le=1_000_000, description="the streams that a client may have open at once, 1 to 1000000"
    )
    initial_mtu: Bytes = Field(1200, ge=1200, le=1472, description='"1200 B" to "1472 B" of UDP payload')
    max_mtu: Bytes = Field(1452, ge=1200, le=1472, description='"1200 B" to "1472 B" of UDP payload')
    max_ack_delay: Time = Field(
        25_000_000, ge=1_000_000, lt=2**14 * 10**6, description='the maximum delay of an ACK, "1 ms" to "16383 ms"'
    )
    ack_eliciting_threshold: int = Field(
        1, ge=0, lt=2**62, description="a number of packets, 0 to 4611686018427387903; 0 acknowledges each at once"
    )
    datagram_buffer: Bytes = Field(
        1024 * 1024, ge=2048, le=2**30, description='a size from "2 KiB" to "1 GiB", such as "1 MiB"'
    )

    @model_validator(mode="after")
    def _as_preset(self) -> Quic:
        for key, value in registry.quic_presets().get(self.preset or "", {}).items():
            if key not in self.model_fields_set:
                self.__dict__[key] = value
        return self

    @model_serializer(mode="wrap")
    def _without_preset(self, handler: SerializerFunctionWrapHandler) -> Plain:
        told = self.told
        return {key: value for key, value in handler(self).items() if key in told}

    @property
    def told(self) -> list[str]:
        """The keys that say what the preset does not."""
        preset = registry.quic_presets().get(self.preset or "", {})
        return [key for key in type(self).model_fields if key in self.model_fields_set or key not in preset]

    @model_validator(mode="after")
    def _starts_no_larger(self) -> Quic:
        if self.initial_mtu > self.max_mtu:
            found = f"{units.format_bytes(self.initial_mtu)} is more than max_mtu, {units.format_bytes(self.max_mtu)}"
            raise Refused(found, "expected at most that", key="initial_mtu")
        if self.zero_rtt and self.retry:
            # RFC 9000, 17.2.3.
            found = "with retry = true the server discards the data of each first flight"
            raise Refused(found, "expected one of the two, or none", key="zero_rtt")
        if self.gso > 1 and not self.pacing:
            raise Refused("packets are not paced", "expected pacing = true, or no such key", key="gso")
        return self


class Run(Table):
    """How the scenario is run."""

    ground: Literal["sim", "uml", "host"] = Field("sim", description='"sim", "uml" or "host"')
    kernel: Annotated[str, BeforeValidator(_kernel_number)] | None = Field(
        None, description='the number of a kernel of the ground uml, such as "7.2"; default: the one built last'
    )
    threads: int | None = Field(None, ge=1, le=1024, description="a number of threads, 1 to 1024; default: one")


class Scenario(Table):
    """One experiment, every default filled in."""

    #: Keys that stand for others in files.
    SHORT: ClassVar[tuple[str, ...]] = ("link",)

    name: Annotated[Name, AfterValidator(_folder_name)] = Field("scenario", description="a name for the results")
    title: Text = Field("", description="one line that describes the scenario")
    duration: SomeTime = Field(description='the simulated time, such as "60 s"')
    seed: int = Field(1, ge=0, lt=2**63, description="a whole number from 0 to 9223372036854775807")
    warmup: Time = Field(0, description='a time after each flow\'s start that figures leave out, such as "5 s"')
    interval: SomeTime = Field(100_000_000, description='the interval of the time series, such as "100 ms"')
    run: Run = Field(Run(), description='a table such as { ground = "sim" }')
    tcp: Tcp = Field(Tcp(), description="a table of TCP settings")
    quic: Quic = Field(Quic(), description="a table of QUIC settings")
    links: list[Link] = Field(description="a [link] table or several [[links]]")
    flows: list[Flow] = Field(description="one or more [[flows]]")
    probes: list[Probe] = Field([], description="[[probes]] that measure the path")
    changes: list[Change] = Field([], description="[[changes]] during the run")

    _filled = model_validator(mode="before")(fill_defaults)
    _checked = model_validator(mode="after")(check)

    def replace(self, set: Changes, *, allow_code: bool = False) -> Scenario:  # noqa: A002 - as on the command line
        """Another scenario: this one with changes, checked.

        Args:
            set: the changes, ``{"link.rate": "5 Mbit/s"}`` or ``["link.rate=5 Mbit/s"]``.
            allow_code: whether Python files that the changes name may be run here, as of :func:`knee.load`.

        Raises:
            ScenarioError: names the change, what was found and what would be accepted.
        """
        from knee.scenario import from_dict

        with code_allowed(allow_code):
            return from_dict(self.plain(), where=self.name, overrides=set)

    def plain(self) -> Plain:
        """The scenario as plain data with every default written out; loads again to the same scenario."""
        data = super().plain()
        # The short form stays short, so that what was said as link.rate can be said again.
        if [link.name for link in self.links] == [DEFAULT_LINK]:
            data = {("link" if k == "links" else k): (v[0] if k == "links" else v) for k, v in data.items()}
            del data["link"]["name"]
        return data

    @cached_property
    def written(self) -> Plain:
        """:meth:`plain`, worked out once; it does not change."""
        return cast(Plain, frozen(self.plain()))

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The names of the files that it names, each once."""
        return tuple(dict.fromkeys(files_in(self.written)))

    @cached_property
    def specification(self) -> Specification:
        """What the core runs (:func:`knee.scenario.spec.build`), worked out once; nobody changes it.

        Raises:
            Refused: the simulator does not do what is asked.
        """
        from knee.scenario.spec import build

        return build(self)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields replaced, which are not checked; its specification is its own."""
        copied = super().model_copy(update=update, deep=deep)
        for name in _DERIVED if set(update or ()) <= _OUTSIDE else (*_DERIVED, _FILE):
            copied.__dict__.pop(name, None)
        return copied

    def read_from(self, file: str) -> Self:
        """The scenario, which says what this file says: errors of a run name the key's place there."""
        self.__dict__[_FILE] = file
        return self

    @property
    def where(self) -> str:
        """The name in errors: the file that says the same, or else its own."""
        return str(self.__dict__.get(_FILE, self.name))

    def seeded(self, seed: int) -> Self:
        """A copy with another seed, with the specification that was built of this one."""
        copied = self.model_copy(update={"seed": seed})
        if "specification" in self.__dict__:
            copied.__dict__["specification"] = self.specification | {"seed": seed}
        return copied

    def __getstate__(self) -> dict[Any, Any]:
        """The fields, from which all else is worked out again."""
        state = super().__getstate__()
        fields = {name: value for name, value in state["__dict__"].items() if name not in (*_DERIVED, _FILE)}
        return state | {"__dict__": fields}

    @property
    def queueing(self) -> list[tuple[str, Link | Reverse]]:
        """Everything with a queue, by its key: each link, and its reverse direction if that queues."""
        short = [link.name for link in self.links] == [DEFAULT_LINK]
        keys = ["link" if short else f"links[{i}]" for i in range(len(self.links))]
        forward: list[tuple[str, Link | Reverse]] = list(zip(keys, self.links, strict=True))
        return forward + [
            (f"{key}.reverse", of.reverse) for key, of in zip(keys, self.links, strict=True) if of.reverse
        ]

    def slowest(self, flow: Flow) -> tuple[str, int]:
        """The link of a flow's path that has the lowest rate, and the highest that it has at any time, bit/s.

        A trace counts as 1 Gbit/s.
        """
        rates = []
        for link in self.links:
            if link.name in (flow.path or ()):
                way = link.reverse if flow.direction == "reverse" and link.reverse else link
                changed = [c.rate for c in self.changes if c.link == link.name and c.rate is not None]
                rates.append((max([way.rate or _TRACE, *changed]), link.name))
        rate, name = min(rates)
        return name, rate

    @cached_property
    def own(self) -> list[Named]:
        """The classes, files of weights and kernel modules that flows and queues name."""
        return List(named_in([*(flow.cc for flow in self.flows), *(end.queue for _, end in self.queueing)]))

    @cached_property
    def labels(self) -> list[str]:
        """The label of every single flow, in order."""
        labels: list[str] = []
        for flow in self.flows:
            base = f"{flow.label} " if flow.label is not None else "flow "
            first = 1 if flow.label is not None else len(labels) + 1
            single = flow.label if flow.count == 1 else None
            labels += [single] if single is not None else [f"{base}{first + i}" for i in range(flow.count)]
        return List(labels)
