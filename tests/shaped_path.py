"""A sender, a router with a token bucket and a receiver, each in a network namespace of the running kernel."""

from __future__ import annotations

import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyroute2 import netns

from knee.results.owned import owning

_TCP_CONGESTION = 13
_PORT = 5001
_SAMPLING_S = 0.02


@dataclass(frozen=True)
class Info:
    """What the kernel says of a connection (TCP_INFO) at ``t_s``; windows in packets."""

    t_s: float
    rtt_ms: float
    ssthresh: int
    cwnd: int
    lost: int


@dataclass(frozen=True)
class Transfer:
    """A transfer's payload rate and its samples."""

    rate_mbps: float
    samples: list[Info]

    def rtt_mean_ms(self) -> float:
        return sum(sample.rtt_ms for sample in self.samples) / len(self.samples)


@dataclass(frozen=True)
class ShapedPath:
    """The namespaces at both ends, by name, and the receiver's address."""

    sender: str
    receiver: str
    address: str

    def transfer(self, cc: str, seconds: float, each: Callable[[], None] = lambda: None) -> Transfer:
        """Sends for some time; calls ``each`` with every sample."""
        listener = _within(self.receiver, lambda: socket.create_server((self.address, _PORT)))
        sender = _within(self.sender, socket.socket)
        try:
            sender.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, cc.encode())
            sender.connect((self.address, _PORT))
            receiver, _ = listener.accept()
        except BaseException:
            sender.close()
            raise
        finally:
            listener.close()
        stop = threading.Event()
        received = 0

        def send() -> None:
            while not stop.is_set():
                sender.sendall(bytes(1 << 15))

        def receive() -> None:
            nonlocal received
            while data := receiver.recv(1 << 20):
                received += len(data)

        threads = [threading.Thread(target=send), threading.Thread(target=receive)]
        for thread in threads:
            thread.start()
        samples = []
        try:
            start = time.monotonic()
            while (now := time.monotonic() - start) < seconds:
                samples.append(_info(sender, now))
                each()
                time.sleep(_SAMPLING_S)
            rate = received * 8e-6 / now
        finally:
            stop.set()
            threads[0].join()
            sender.close()
            threads[1].join()
            receiver.close()
        return Transfer(rate, samples)


@contextmanager
def shaped_path(rate: str, buffer: str) -> Iterator[ShapedPath]:
    """A path without delay of its own; ``buffer`` is the queue's limit as time at the rate."""
    # On record as those of runs are: what a killed test leaves goes with the next run or knee doctor --clean.
    with owning(("snd", "rtr", "rcv")) as owned:
        sender, router, receiver = owned.namespaces
        for name in owned.namespaces:
            netns.create(name)
        for end, near, far, net in ((sender, "out", "in", 1), (receiver, "in", "out", 2)):
            _ip(f"link add {near} netns {end} type veth peer name {far} netns {router}")
            _ip(f"-n {end} addr add 10.9.{net}.2/24 dev {near}")
            _ip(f"-n {router} addr add 10.9.{net}.1/24 dev {far}")
            _ip(f"-n {end} link set {near} up")
            _ip(f"-n {router} link set {far} up")
            _ip(f"-n {end} route add default via 10.9.{net}.1")
        _run(f"ip netns exec {router} sysctl -qw net.ipv4.ip_forward=1")
        _run(f"tc -n {router} qdisc add dev out root tbf rate {rate} burst 20kb latency {buffer}")
        yield ShapedPath(sender, receiver, "10.9.2.2")


def _info(connection: socket.socket, now: float) -> Info:
    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
    rtt, ssthresh, cwnd, lost = (struct.unpack_from("=I", told, at)[0] for at in (68, 76, 80, 100))
    return Info(now, rtt / 1000, ssthresh, cwnd, lost)


def _within(name: str, make: Callable[[], socket.socket]) -> socket.socket:
    """A socket belongs to the namespace in which it was made; a thread of its own goes there and ends."""
    made: list[socket.socket] = []

    def there() -> None:
        netns.setns(name)
        made.append(make())

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    return made[0]


def _ip(arguments: str) -> None:
    _run(f"ip {arguments}")


def _run(command: str) -> None:
    subprocess.run(command.split(), check=True, capture_output=True)
