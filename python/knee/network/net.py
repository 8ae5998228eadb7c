"""``knee.Network``: a simulated network for tests of other programs, which send their own bytes through it.

A network has no clock, sockets or threads of its own: a program sends at a time, asks when something is due, and takes
what has come out. :meth:`Network.run` does that for programs of asyncio. The same file, seed and calls give the same
bytes at the same times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from knee import _core
from knee.errors import InputError
from knee.network.loop import run
from knee.network.packets import Delivered, Dropped, End, FlowFigures, LinkFigures
from knee.scenario import Changes, Plain, Scenario, from_dict
from knee.scenario.loading import apply, changes_of, tables
from knee.scenario.spec import spec
from knee.scenario.traffic import sends_datagrams
from knee.scenario.units import near, shown
from knee.system.files import write

T = TypeVar("T")
#: Within the longest duration that there is.
ENDLESS = "27000 h"


class Network:
    """The links of a scenario, with their queues and models, for packets of a program's own.

    Each flow of the scenario is a path with two ends. What :func:`knee.run` would send there is sent only where
    :meth:`background` says so. One thread at a time uses a network.

    ::

        net = knee.Network("lte.toml")
        near, far = net.ends()
        net.send(0.0, near, b"ping")
        while (now := net.next()) is not None:
            for packet in net.poll(now):
                assert (packet.end, packet.data) == (far, b"ping")
        assert net.link("downlink").queueing_p95 < 0.02
    """

    def __init__(self, scenario: str | Path | Scenario | Plain, *, set: Changes = ()) -> None:  # noqa: A002
        """Builds the links; nothing has been sent.

        Args:
            scenario: a file, the name of a shipped scenario, a scenario, or plain data as TOML gives it.
            set: changes to the scenario: ``["link.rate=5 Mbit/s"]``.

        Raises:
            InputError: the scenario was refused, or has queues written in Python.
        """
        self._scenario, where, self._silent = _read(scenario, set)
        for link in self._scenario.links:
            if link.queue in self._scenario.own:
                raise InputError(
                    f"links.{link.name}.queue: {shown(link.queue)} is written in Python, and a network takes knee's "
                    "own queues; knee list names them."
                )
        data = json.dumps(spec(self._scenario, None if set else where))
        self._core = _asked(lambda: _core.Network(data, len(self._scenario.labels)))
        self._links = self._core.link_names
        ends = (End(path, far) for path in range(len(self._scenario.labels)) for far in (False, True))
        self._ends = {_core.Network.address(*end): end for end in ends}
        self._now = 0

    def __repr__(self) -> str:
        return f"<knee.Network {self._scenario.name!r} at {self.now:.9g} s>"

    @property
    def flows(self) -> list[str]:
        """Names of the flows, whose paths these are."""
        return list(self._scenario.labels)

    @property
    def seed(self) -> int:
        """Seed of all random numbers, which a failing test prints."""
        return self._scenario.seed

    @property
    def now(self) -> float:
        """The latest time told, s."""
        return self._now / 1e9

    def background(self, flow: str) -> None:
        """Lets the simulator send what the scenario says of a flow, as :func:`knee.run` does.

        Its path has no ends for the program then.

        Args:
            flow: its name.

        Raises:
            InputError: no flow has this name, the scenario does not say what it sends, its algorithm is written in
                Python, or something was sent or time has passed.
        """
        path = self._path(flow)
        if path in self._silent:
            raise InputError(
                f'the flow {shown(flow)} sends nothing of its own; say what, for example with cc = "cubic" in the '
                "scenario."
            )
        if [group.cc for group in self._scenario.flows for _ in range(group.count)][path] in self._scenario.own:
            raise InputError(
                f"the algorithm of {shown(flow)} is written in Python, and flows in the background take knee's own; "
                "knee list names them."
            )
        _asked(lambda: self._core.background(flow))

    def flow(self, name: str) -> FlowFigures:
        """Returns the figures of a flow that the simulator sends, from its start to the latest time told.

        Raises:
            InputError: no flow has this name, or it is the program's.
        """
        self._path(name)
        return FlowFigures(*_asked(lambda: self._core.flow(name)))

    def ends(self, flow: str | None = None) -> tuple[End, End]:
        """Returns the near and the far end of a flow's path.

        Args:
            flow: its name; by default that of the first.

        Raises:
            InputError: no flow has this name.
        """
        path = 0 if flow is None else self._path(flow)
        return End(path, far=False), End(path, far=True)

    def address(self, end: End) -> tuple[str, int]:
        """Returns the host and the UDP port that stand for an end, in captures and for programs of asyncio."""
        return _core.Network.address(*self._known(end))

    def end_at(self, host: str, port: int) -> End | None:
        """Returns the end with this address; None if there is none."""
        return self._ends.get((host.removeprefix("::ffff:"), port))

    def send(self, now: float, end: End, data: bytes, *, ecn: int = 0) -> None:
        """Sends a datagram from one end of a path to the other, with 28 bytes of IP's and UDP's headers more.

        Args:
            now: the time, s; never less than one told before.
            end: where it is sent from.
            data: 0 to 1472 bytes.
            ecn: the two bits of its ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.

        Raises:
            InputError: the time went back, the end does not exist, the packet is too large, or nobody takes what
                comes out.
        """
        if ecn not in range(4):
            raise InputError(f"ecn={ecn!r}: expected 0 (Not-ECT), 1 (ECT(1)), 2 (ECT(0)) or 3 (CE).")
        self._send(now, end, data, ecn, ip=False)

    def send_ip(self, now: float, end: End, packet: bytes) -> None:
        """Sends a whole packet of IPv4 or IPv6 of up to 1500 bytes, with the codepoint and ECN field that it has.

        It goes to the other end, whatever its addresses are.

        Raises:
            InputError: as of :meth:`send`, or these bytes are no IP packet.
        """
        self._send(now, end, packet, 0, ip=True)

    def _send(self, now: float, end: End, data: bytes, ecn: int, *, ip: bool) -> None:
        at, (path, far) = self._time(now), self._known(end)
        _asked(lambda: self._core.send(at, path, far, bytes(data), ecn, ip))
        self._now = at

    def next(self) -> float | None:
        """Returns when something happens next, s; None: nothing does until something is sent."""
        due = self._core.next()
        return None if due is None else due / 1e9

    def poll(self, now: float) -> list[Delivered]:
        """Lets time pass; returns what has come out since the last call, in that order.

        Args:
            now: the time up to which events are handled, inclusive, s.

        Raises:
            InputError: the time went back.
        """
        at = self._time(now)
        rows = _asked(lambda: self._core.poll(at))
        self._now = at
        return [
            Delivered(time / 1e9, End(path, far), data, ecn, dscp, sent / 1e9, queued / 1e9)
            for time, path, far, data, ecn, dscp, sent, queued in rows
        ]

    @property
    def drops(self) -> list[Dropped]:
        """Drops of all links so far, in the order of time."""
        return [
            Dropped(time / 1e9, End(path, far), sent / 1e9, self._links[link], reason, size)
            for time, path, far, sent, link, reason, size in self._core.drops()
        ]

    def link(self, name: str | None = None) -> LinkFigures:
        """Returns the figures of a link up to the latest time told.

        Args:
            name: the link's; a reverse direction that queues is ``NAME (reverse)``. By default the first.

        Raises:
            InputError: no link has this name.
        """
        mean, p95, p99, most, drops, marks, utilization, size, throughput = _asked(
            lambda: self._core.link(self._links[0] if name is None else name)
        )
        waited = (mean / 1e9, p95 / 1e9, p99 / 1e9, most / 1e9)
        return LinkFigures(*waited, drops, marks, utilization, size, throughput)

    def capture(self, size: int) -> None:
        """Keeps the first ``size`` bytes of each packet from now on, 0 or more; at first 96. 0 keeps no packet."""
        if size < 0:
            raise InputError(f"capture({size}): expected 0 bytes or more.")
        self._core.capture(size)

    def write_pcap(self, file: str | Path) -> None:
        """Writes the packets so far as pcapng: an interface for each end, and one for what each path has lost.

        Raises:
            FolderError: the file cannot be written.
        """
        write(Path(file), self._core.pcap())

    def run(self, program: Coroutine[Any, Any, T]) -> T:
        """Runs a program of asyncio over the network, in virtual time.

        Its sockets are ``loop.create_datagram_endpoint``, as aioquic uses it: a far end has its :meth:`address`, and
        one who sends there gets the near end of that path. ``asyncio.sleep`` and timers take no real time.

        Returns:
            What the program returns; exceptions of its come through.

        Raises:
            InputError: the network refused what was sent, or the program asks for what there is not.
            RunError: the program waits while nothing is due.
        """
        return run(self, program)

    def _path(self, flow: str) -> int:
        labels = self._scenario.labels
        if flow not in labels:
            raise InputError(f"no flow is named {shown(flow)}; {near(flow, labels)}.")
        return labels.index(flow)

    def _time(self, now: float) -> int:
        if not isinstance(now, int | float) or not 0 <= now < 1e8:
            raise InputError(f"now={now!r}: expected seconds from 0 to 1e8.")
        return round(now * 1e9)

    def _known(self, end: End) -> End:
        count = len(self._scenario.labels)
        if not (isinstance(end, tuple) and len(end) == 2 and end[0] in range(count)):
            raise InputError(f"there is no end {end!r}; ends() gives those of each of the {count} flows.")
        return End(*end)


def _read(source: str | Path | Scenario | Plain, changes: Changes) -> tuple[Scenario, str, frozenset[int]]:
    """The scenario, with what a network does not need filled in: how long it takes, and what sends.

    Returns:
        It, what errors call it, and the paths of which it does not say what sends.
    """
    if isinstance(source, Scenario | dict):
        data = source.plain() if isinstance(source, Scenario) else source
        where = name = source.name if isinstance(source, Scenario) else "scenario"
    else:
        data, path = tables(source)
        where, name = str(path), path.stem
    if not isinstance(flows := data.get("flows"), list):
        return from_dict(data, where=where, name=name, overrides=changes), where, frozenset()
    # There are no rows of time series.
    endless = {} if "duration" in data else {"duration": ENDLESS, "interval": ENDLESS}
    filled = {**endless, **data, "flows": [{"cc": "reno"} | flow if _is_silent(flow) else flow for flow in flows]}
    scenario = from_dict(filled, where=where, name=name, overrides=changes)
    given = apply(data, changes_of(changes))["flows"]
    silent = [_is_silent(flow) for flow, group in zip(given, scenario.flows, strict=True) for _ in range(group.count)]
    return scenario, where, frozenset(path for path, is_silent in enumerate(silent) if is_silent)


def _is_silent(flow: Any) -> bool:
    return isinstance(flow, dict) and not {"cc", "program"} & set(flow) and not sends_datagrams(flow.get("traffic"))


def _asked(what: Callable[[], T]) -> T:
    """What the core gives; what it refuses is an error of the input."""
    try:
        return what()
    except _core.SpecError as error:
        raise InputError(str(error)) from None
