"""The simulator's core, written in Rust."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, final

__all__ = [
    "Ack",
    "Control",
    "Engine",
    "EngineError",
    "Fleet",
    "Network",
    "Packet",
    "Plan",
    "QueueContext",
    "SpecError",
    "WriteError",
    "conform",
    "conform_known",
    "features",
    "link_access",
    "mean_size",
    "network_features",
    "numbers",
    "placed",
    "queue_features",
    "quic_of_simulator",
    "quic_presets",
    "refusal",
    "registry",
    "simulate",
    "tables",
    "traffic_load",
    "version",
]

class SpecError(ValueError):
    """The simulator rejected its specification."""

class EngineError(RuntimeError):
    """The simulator stopped with an internal error."""

class WriteError(OSError):
    """The simulator could not write one of its files; ``filename`` says what is in it."""

@final
class Ack:
    """An ACK, as methods of :class:`knee.CongestionControl` see it. Times in s, all else in packets."""

    @property
    def now(self) -> float:
        """Current simulated time, s."""
    @property
    def rtt(self) -> float | None:
        """RTT sample of this ACK, s, above 0; None where it acknowledged only what was sent again."""
    @property
    def srtt(self) -> float:
        """Smoothed RTT, s (RFC 6298)."""
    @property
    def min_rtt(self) -> float:
        """Least RTT of the last 300 s, s."""
    @property
    def acked(self) -> int:
        """Packets acknowledged cumulatively by this ACK, 0 or more."""
    @property
    def delivered(self) -> int:
        """Packets acknowledged or SACKed for the first time, 0 or more."""
    @property
    def lost(self) -> int:
        """Packets deemed lost on this ACK, 0 or more."""
    @property
    def in_flight(self) -> int:
        """Packets in flight, 0 or more."""
    @property
    def cwnd_limited(self) -> bool:
        """True if the window limited sending lately."""
    @property
    def ece(self) -> bool:
        """True if the ACK echoes congestion experienced."""
    @property
    def delivery_rate(self) -> float | None:
        """Delivery rate of payload, bit/s; None where there is no valid sample."""
    @property
    def app_limited(self) -> bool:
        """True if the application limited sending when the sample's packets left."""
    @property
    def total_delivered(self) -> int:
        """Packets that this flow has delivered so far."""
    @property
    def state(self) -> str:
        """Loss recovery's state: "open", "disorder", "cwr", "recovery" or "loss"."""

@final
class Control:
    """The sender's window, threshold and pacing rate; methods of :class:`CongestionControl` change them in place."""

    cwnd: float
    """Congestion window, packets, 1 or more; its fraction is kept from call to call."""
    ssthresh: float
    """Slow-start threshold, packets, 1 or more; 2147483647 until the first reduction."""
    pacing_rate: float | None
    """Pacing rate, bit/s of payload; None for 1.2 times ``cwnd / srtt``."""
    @property
    def in_slow_start(self) -> bool:
        """True if the window is below the threshold."""

@final
class Packet:
    """A packet in a queue, as methods of :class:`knee.Queue` see it. Only the engine makes packets."""

    @property
    def size(self) -> int:
        """Bytes that it takes on the link, 1 or more: the IP packet and the link's overhead."""
    @property
    def flow(self) -> int:
        """Number of its flow, from 1, as in results."""
    @property
    def connection(self) -> int:
        """Its 5-tuple as a number: another one for each connection and direction, without further meaning."""
    @property
    def arrived(self) -> float:
        """When it arrived, simulated time, s."""
    @property
    def ecn(self) -> int:
        """ECN field of its IP header (RFC 3168, 5): 0 not ECN-capable, 1 ECT(1), 2 ECT(0), 3 CE."""
    @property
    def dscp(self) -> int:
        """Codepoint (RFC 2474), 0 to 63."""
    @property
    def is_ack(self) -> bool:
        """True if it goes against its flow's data: an ACK, or an answer to datagrams."""

@final
class QueueContext:
    """Input of each call of a :class:`knee.Queue`, and its outbox of drops and marks."""

    @property
    def now(self) -> float:
        """Current simulated time, s."""
    @property
    def rate(self) -> int:
        """The link's rate, bit/s; the mean one of a trace."""
    @property
    def packets(self) -> int:
        """Packets held, without one that arrives."""
    @property
    def bytes(self) -> int:
        """Bytes held, without a packet that arrives."""
    @property
    def frame(self) -> int:
        """Bytes of a full packet on the link: 1500 and the link's overhead."""
    @property
    def fits(self) -> bool:
        """True if the packets held are within the limit."""
    def has_room(self, packet: Packet) -> bool:
        """Returns whether the limit has room for this packet besides what is held."""
    def drop(self, packet: Packet) -> None:
        """Drops a packet that is held, or that arrives; the queue does not hold it from then on.

        Raises:
            ValueError: the queue does not hold it.
            RuntimeError: none of the queue's methods runs.
        """
    def mark(self, packet: Packet) -> bool:
        """Marks a packet CE, unless it is marked.

        Returns:
            False if it is not ECN-capable, and stays as it is.

        Raises:
            ValueError: the queue does not hold it.
            RuntimeError: none of the queue's methods runs.
        """
    def random(self) -> float:
        """Returns a random number, 0 to below 1, of a stream of the queue's own, which follows from the run's seed."""

@final
class Engine:
    """A running simulation. One thread at a time uses it; others get :class:`EngineError`."""

    def __new__(
        cls,
        spec_json: str,
        own: Sequence[tuple[str, type]] = ...,
        own_queues: Sequence[tuple[str, type]] = ...,
        own_in_flight: int = ...,
        own_limit_s: float = ...,
    ) -> Engine:
        """A specification at rest; arguments as of :func:`simulate`."""
    def run_until(self, time: int) -> None:
        """Lets all happen up to this time, ns, with the interpreter free for others unless classes of Python's run."""
    def changeable_from(self) -> int:
        """Returns the earliest time at which a change can happen, ns."""
    @property
    def link_names(self) -> list[str]:
        """The names of the links, reverse directions that queue last."""
    def has_ended(self, flow: int) -> bool:
        """Returns whether the flow at this index has stopped, or all that it had to send is acknowledged."""
    def amend(self, spec_json: str) -> bool:
        """Goes on by a specification with further changes and other times at which flows stop.

        Returns:
            False, with nothing changed, if only an engine from the start can.
        """
    def copied(self) -> Engine | None:
        """Returns an engine that goes on from here by itself; None where a part cannot be copied."""
    def rows(self, from_start: bool) -> tuple[bytes, bytes]:
        """Returns rows of samples and of links, since the last call, or all."""
    @property
    def seen(self) -> tuple[int, int]:
        """How many rows of samples and of links have been observed."""
    def mark_seen(self, samples: int, links: int) -> None:
        """Takes the first ``samples`` rows of samples and ``links`` rows of links for observed."""
    def finish(self) -> tuple[str, dict[str, bytes]]:
        """Returns figures in JSON and rows, as :func:`simulate` does; the engine is over then."""

@final
class Network:
    """A simulated network under a program; a port is the number of a path and whether it is the far end. Times in ns.

    Raises:
        SpecError: what was asked for cannot be.
    """

    def __new__(cls, spec_json: str, paths: int) -> Network:
        """The links, the paths of the first flows and the changes of a specification."""
    def background(self, flow: str) -> None:
        """Lets the simulator send what the specification says of a flow."""
    def flow(self, name: str) -> tuple[int, float, int, int]:
        """Returns bytes delivered, goodput (bit/s), packets sent and deemed lost of such a flow."""
    def send(self, now: int, path: int, far: bool, data: bytes, ecn: int, ip: bool) -> None:
        """Sends a datagram, or a whole IP packet."""
    def next(self) -> int | None:
        """Returns when something happens next."""
    def poll(self, now: int) -> list[tuple[int, int, bool, bytes, int, int, int, int]]:
        """Returns time, port, bytes, ECN field, codepoint, time of sending and of waiting of what has come out."""
    def drops(self) -> list[tuple[int, int, bool, int, int, str, int]]:
        """Returns time, sender, time of sending, link, reason and size of each drop."""
    @property
    def link_names(self) -> list[str]:
        """The names of the links, reverse directions that queue last."""
    def link(self, name: str) -> tuple[int, int, int, int, int, int, float, int, float]:
        """Returns mean, p95, p99 and maximum of queueing, drops, marks, utilization, bytes and throughput (bit/s)."""
    @staticmethod
    def address(path: int, far: bool) -> tuple[str, int]:
        """Returns host and UDP port of an end."""
    def capture(self, size: int) -> None:
        """Keeps so many bytes of each packet."""
    def pcap(self) -> bytes:
        """Returns the packets so far as a pcapng file."""

def version() -> str:
    """Version of the core."""

def registry() -> str:
    """JSON: ``{"cc": [...], "queues": [...], "links": [...], ...}``; times in ns, rates in bit/s, sizes in bytes."""

def quic_presets() -> str:
    """JSON: ``{"quinn": {"initial_window": 8, ...}, ...}``, keys of ``[quic]``; times in ns, sizes in bytes."""

def quic_of_simulator() -> list[str]:
    """Keys of ``[quic]`` that the simulator's endpoints alone have, and not those of QUIC stacks."""

def tables(text: str) -> dict[str, Any] | tuple[str, str, tuple[int, int]]:
    """The tables of a TOML file as plain data; or what was found, what is accepted, and line and column, from 1."""

def placed(file: str, key: str, sections: Sequence[str] | None) -> tuple[str, tuple[int, int] | None]:
    """A key that an error names, such as ``links[0].rate``, as a file writes it, and line and column there, from 1.

    The place is that of the table where the key is missing, and None if that is the file as a whole. With ``sections``
    the key is in the first of these tables that has it, or not the file's at all.
    """

def numbers(kind: str, file: str | PathLike[str]) -> list[Any] | tuple[str, str]:
    """The numbers in a file that a scenario names; or what was found and what is accepted, if it cannot be read.

    Args:
        kind: "trace" (times, ms), "table" (delays, ns), "file of times" (ns), "distribution of sizes" (bytes and
            probabilities) or "packet trace" (times, ns, and bytes).
        file: its path.
    """

def refusal(what: str, tables: str) -> tuple[str, str, str] | None:
    """The refusal of tables that do not fit together: key, what was found and what is accepted; None if they fit.

    Args:
        what: "side" for a direction of a link, "link", "flow", "quic" for a flow over QUIC, "endpoints" for those of
            all flows, "scenario", or of traffic "size", "arrivals", "transfers", "requests", "udp", "video",
            or "traffic" for a kind in the engine's form.
        tables: their keys in base units, JSON.
    """

def conform_known() -> list[tuple[str, str]]:
    """Names of the algorithms that have conformance vectors, and of knee's that implement them."""

def conform(
    algorithm: str,
    command: Sequence[str] | None = None,
    own: tuple[str, type] | None = None,
    flow: tuple[str, str] | None = None,
) -> str:
    """Plays the conformance vectors of an algorithm with knee's own, a program, a class or any other.

    Args:
        algorithm: a name of :func:`conform_known`.
        command: the program and its arguments.
        own: the name of a class and the class, a subclass of :class:`knee.CongestionControl`.
        flow: a name that a flow's ``cc`` may have, and its parameters in JSON, tagged with their kinds.

    Returns:
        The report in JSON.

    Raises:
        SpecError: if the algorithm has no vectors, or there is no such congestion control.
    """

def link_access(name: str, params: str, rate: int) -> int:
    """Returns how long a packet may wait at a link of this model and rate, in bit/s, without any queue, ns."""

def traffic_load(spec: str) -> int | None:
    """The rate that a flow's traffic offers on average, bit/s; None where it takes what it gets.

    Args:
        spec: its kind and its parameters in base units, JSON.
    """

def mean_size(spec: str) -> float:
    """The mean of a distribution of sizes, bytes; those beyond its greatest count as that.

    Args:
        spec: the distribution as a kind of traffic has it, JSON.
    """

def simulate(
    spec_json: str,
    spool: str | None = None,
    progress: Callable[[float], None] | None = None,
    own: Sequence[tuple[str, type]] = ...,
    capture: str | None = None,
    qlog: str | None = None,
    own_in_flight: int = ...,
    threads: int = 1,
    own_limit_s: float = ...,
    own_queues: Sequence[tuple[str, type]] = ...,
) -> tuple[str, dict[str, bytes]]:
    """Runs a specification to its end.

    Args:
        spec_json: the specification, JSON (``crates/knee-net/src/spec.rs``).
        spool: a file to which sample rows go in blocks, so that memory stays flat; None keeps them in memory.
        progress: called some 20 times a second with the fraction of simulated time that has passed.
        own: congestion controls written in Python, by the names that the specification uses.
        capture: a file to which the packets at the senders go, as pcapng.
        qlog: an existing folder, in which each flow's sender gets a qlog file.
        own_in_flight: packets that the flows of ``own`` may have in flight together; more is an error of one of them.
        threads: most threads that work at it; one where classes take part. The bits are the same for any number.
        own_limit_s: how long a method of these classes may take, s; one that takes longer ends the run.
        own_queues: queues written in Python, by the names that the specification uses.

    Returns:
        The figures (JSON), and rows as raw memory by their kind: ``samples``, ``links``, ``events``, ``completions``,
        ``delays`` and ``distributions``. With a spool, sample rows that are already in the file are not returned again.
    """

@final
class Fleet:
    """Steered simulations side by side (:mod:`knee.gym`)."""

    def __new__(
        cls,
        tasks: Sequence[tuple[str, int, tuple[float, float, float, float]]],
        settings: str,
        slots: int,
        threads: int,
        arrays: dict[str, Any],
    ) -> Fleet:
        """Slots for scenarios.

        Args:
            tasks: of each its specification (JSON), the index of the flow or link that is steered, and the worth of
                each bit/s of throughput, second of RTT, second of queueing delay, and of the share of packets lost.
            settings: how the flow observes and acts, the queue's interval, or an adversary's bounds (JSON).
            slots: how many episodes go on side by side, 1 or more.
            threads: how many threads work at them, 1 or more.
            arrays: numpy's, by name, a row for each slot: ``actions`` and ``next`` (scenario and seed of the next
                episode) are read; ``observations``, ``rewards``, ``terminated``, ``truncated``, ``began``, ``figures``,
                ``times`` and ``applied`` are written.

        Raises:
            SpecError: a specification or the settings were refused.
            ValueError: an array has another size or type.
        """

    def begin(self) -> None:
        """Begins an episode in each slot.

        Raises:
            SpecError: a specification was refused.
            EngineError: the engine failed, or another thread uses the fleet.
        """

    def step(self) -> None:
        """Takes the actions. A slot whose episode is over begins another instead.

        Raises:
            SpecError: a specification was refused.
            EngineError: the engine failed, or another thread uses the fleet.
        """

@final
class Plan:
    """A policy as flows follow it."""

    def __new__(cls, plan: str) -> Plan:
        """From JSON.

        Raises:
            SpecError: it was refused.
        """

    @property
    def size(self) -> int:
        """How many numbers an observation has."""

    def action(self, observation: Sequence[float]) -> float:
        """The action for an observation.

        Raises:
            ValueError: the observation has another number of values.
        """

def features(settings: str) -> list[tuple[str, float, float]]:
    """Name, least and greatest value of each number that an interval is described by; ``settings`` is JSON.

    Raises:
        SpecError: the settings were refused.
    """

def network_features() -> list[tuple[str, float, float]]:
    """Name, least and greatest value of each number that a link under an adversary is described by."""

def queue_features() -> list[tuple[str, float, float]]:
    """Name, least and greatest value of each number that a queue is described by."""
