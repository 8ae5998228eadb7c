"""An event loop of asyncio whose clock is virtual and whose datagrams go through a simulated network."""

from __future__ import annotations

import asyncio
import errno
import os
import selectors
import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from knee.errors import InputError, KneeError, RunError
from knee.network.packets import Delivered, End

if TYPE_CHECKING:
    from knee.network.net import Network

T = TypeVar("T")
#: How long a program may wait for a packet without a timer, s: beside flows of the simulator something is always due.
PATIENCE = 3600.0
#: Wildcard addresses.
ANYWHERE = ("", "0.0.0.0", "::", None)


def run(net: Network, program: Coroutine[Any, Any, T]) -> T:
    """Runs a program over a network to its end; see :meth:`knee.Network.run`."""
    with asyncio.Runner(loop_factory=lambda: Loop(net)) as runner:
        return runner.run(program)


class Clock(selectors.DefaultSelector):
    """Lets virtual time pass where a loop would wait."""

    def __init__(self, net: Network) -> None:
        super().__init__()
        self.net = net
        self.now = net.now
        #: When it last got a packet or had a timer.
        self._active = net.now
        self.arrive: Callable[[Delivered], None] = lambda _: None
        #: What the network has refused meanwhile.
        self.failure: KneeError | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Returns events of the system at once; else lets time pass to the next event or the end of ``timeout``, s."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        due = [] if timeout is None else [self.now + timeout]
        if (packet := self.net.next()) is not None:
            due.append(max(packet, self.now))
        if not due or self.now - self._active > PATIENCE:
            raise RunError(
                f"the program waits since {self._active:.9g} s, and no packet and no timer is due for it; it may wait "
                "for a packet that was dropped, or that nobody sends."
            )
        self.now = min(due)
        came = self.net.poll(self.now)
        if came or timeout is not None:
            self._active = self.now
        for delivered in came:
            self.arrive(delivered)
        return ready


class Loop(asyncio.SelectorEventLoop):
    """A loop over a network."""

    def __init__(self, net: Network) -> None:
        self._clock = Clock(net)
        super().__init__(self._clock)
        # Timers are due to the nanosecond.
        self._clock_resolution = 1e-9
        self.net = net
        self._bound: dict[End, Transport] = {}
        #: Who takes what comes to far ends that are nobody's own.
        self._server: Transport | None = None
        self._clock.arrive = self._arrive

    def time(self) -> float:
        """Returns the virtual time, s."""
        return self._clock.now

    def _arrive(self, delivered: Delivered) -> None:
        transport = self._bound.get(delivered.end, self._server if delivered.end.far else None)
        if transport is not None:
            self.call_soon(transport.receive, delivered)

    async def create_datagram_endpoint(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.DatagramProtocol],
        local_addr: tuple[Any, ...] | None = None,
        remote_addr: tuple[Any, ...] | None = None,
        *,
        sock: socket.socket | None = None,
        **_: Any,
    ) -> tuple[Transport, asyncio.DatagramProtocol]:
        """Opens a socket: at an end's address, at all far ends, or at the near end of the path that it sends over."""
        if sock is not None:
            sock.close()
        protocol = protocol_factory()
        transport = Transport(self, protocol, remote_addr)
        local = local_addr or ("", 0)
        if local[0] not in ANYWHERE:
            self._bind(transport, self._end_at(local))
        elif local[1]:
            self._serve(transport, local[1])
        elif remote_addr is not None:
            self._bind(transport, self._end_at(remote_addr).other())
        protocol.connection_made(transport)
        return transport, protocol

    def _end_at(self, address: tuple[Any, ...]) -> End:
        host, port, *_ = address
        end = self.net.end_at(str(host), port)
        if end is None:
            known = self.net.address(self.net.ends()[1])
            raise self.refused(
                f"no end of the network has the address {host}:{port}; net.address(end) gives each, such as "
                f"{known[0]}:{known[1]}."
            )
        return end

    def _bind(self, transport: Transport, end: End) -> None:
        if end in self._bound:
            flow, (host, port) = self.net.flows[end.path], self.net.address(end)
            raise self.refused(
                f"the end of {flow!r} at {host}:{port} has a socket already; a path takes one at each end, so give the "
                "scenario another [[flows]]."
            )
        self._bound[end] = transport
        transport.end = end

    def _serve(self, transport: Transport, port: int) -> None:
        expected = self.net.address(self.net.ends()[1])[1]
        if port != expected or self._server is not None:
            has = "has a server already" if port == expected else "is not that of far ends"
            raise self.refused(f"port {port} {has}; a server for all of them takes port {expected}, once.")
        self._server = transport

    def send(self, transport: Transport, data: bytes, address: tuple[Any, ...]) -> None:
        """Sends a datagram of a socket; what the network refuses ends the run."""
        to = self._end_at(address)
        if transport.end is None and transport is not self._server:
            self._bind(transport, to.other())
        sender = transport.end or to.other()
        if sender.other() != to:
            raise self.refused(f"a packet from {sender} cannot go to {to}: a path has two ends.")
        transport.names[to] = address
        try:
            self.net.send(self._clock.now, sender, data)
        except InputError as error:
            self._clock.failure = error

    def refused(self, text: str) -> InputError:
        """An error that ends the run, whoever catches it."""
        self._clock.failure = InputError(text)
        return self._clock.failure

    def release(self, transport: Transport) -> None:
        """A socket is closed."""
        self._bound = {end: other for end, other in self._bound.items() if other is not transport}
        if self._server is transport:
            self._server = None

    async def getaddrinfo(self, host: Any, port: Any, **asked: Any) -> list[Any]:
        """Returns the address itself: there are no names."""
        numeric = asked.pop("flags", 0) | socket.AI_NUMERICHOST
        return socket.getaddrinfo(host, port, **asked, flags=numeric)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Runs the function here, in no virtual time."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    async def create_connection(self, *_: Any, **__: Any) -> Any:
        """There is no TCP."""
        raise self.refused("a network carries datagrams: TCP of the system would go around it, in real time.")

    create_server = create_connection


class Transport(asyncio.DatagramTransport):
    """A socket of UDP in the network."""

    def __init__(self, loop: Loop, protocol: asyncio.DatagramProtocol, remote: tuple[Any, ...] | None) -> None:
        super().__init__()
        self._loop, self._protocol, self._remote = loop, protocol, remote
        self._closed = False
        self.end: End | None = None
        #: How the program writes the addresses of others, which it gets back.
        self.names: dict[End, tuple[Any, ...]] = {}

    def sendto(self, data: Any, addr: Any = None) -> None:
        """Sends a datagram."""
        to = addr or self._remote
        if to is None:
            raise OSError(errno.EDESTADDRREQ, os.strerror(errno.EDESTADDRREQ))
        if not self._closed:
            self._loop.send(self, bytes(data), to)

    def receive(self, delivered: Delivered) -> None:
        """A datagram has come."""
        sender = delivered.end.other()
        if not self._closed:
            net = self._loop.net
            self._protocol.datagram_received(delivered.data, self.names.get(sender) or net.address(sender))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Returns the socket's own address as ``sockname`` and the other's as ``peername``."""
        if name == "sockname" and self.end is not None:
            return self._loop.net.address(self.end)
        return self._remote or default if name == "peername" else default

    def is_closing(self) -> bool:
        """Returns whether it is closed."""
        return self._closed

    def close(self) -> None:
        """Closes the socket."""
        if not self._closed:
            self._closed = True
            self._loop.release(self)
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close
