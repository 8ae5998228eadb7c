"""The sockets of one side of a run: a separate program in its own network namespace.

It uses only the standard library, so that it starts at once. It enters a new namespace and prints ``isolated``; reads
its task as a line of JSON, makes its sockets, drops all privileges and prints ``ready``; reads the start time on the
monotonic clock, in ns; sends and receives; and finally prints a line of JSON and rows of :data:`ROW`. If its standard
input closes early, the parent has ended, and so does this program.

It is in Python, not in Rust like the switch, because the socket options that it needs (TCP_INFO, SO_MAX_PACING_RATE,
TCP_NOTSENT_LOWAT) have no safe interface there. It wakes up rarely: a sender when little unsent data is left, a
receiver for half a megabyte, which it discards unread.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

#: Options missing in the module socket (include/uapi/asm-generic/socket.h, linux/tcp.h).
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE, _SO_MAX_PACING_RATE = 32, 33, 47
_TCP_CC_INFO = 26
_CLONE_NEWNET = 0x4000_0000
_PR_SET_NO_NEW_PRIVS = 38
#: Of capset (include/uapi/linux/capability.h): version 3, this process.
_CAP_HEADER = struct.pack("Ii", 0x2008_0522, 0)
#: The greatest rate but one: what paces is then the algorithm's own rate, and not nothing at all.
_PACED = (1 << 64) - 2
_CHUNK = 512 * 1024
#: How much later than the other side a side on a busy machine learns of an end.
_MOMENT_MS = 1000
#: A row: time in ns, flow, state of loss recovery, phase, window and packets in flight, smoothed RTT in us, timeouts,
#: pacing rate in bytes a second.
ROW = struct.Struct("<QIHHIIIIQ")
#: An unknown phase.
NO_PHASE = 0xFFFF
#: Timeouts of a kernel that does not count them (before Linux 6.7).
NO_COUNT = 0xFFFF_FFFF
#: Offsets in struct tcp_info; the counter of timeouts exists since Linux 6.7.
_INFO = struct.Struct("<xB22xIIII28xI4xII20xQ")
_TIMEOUTS_AT = 240
_CWR, _RECOVERY, _LOSS = 2, 3, 4
_EVENTS = {_CWR: "cwr", _RECOVERY: "recovery"}


@dataclass
class Flow:
    """A flow whose sender or receiver is on this side."""

    told: dict[str, Any]
    socket: socket.socket
    left: int = 0
    #: State of loss recovery, phase and timeouts at the last sample.
    state: int = 0
    phase: int = -1
    timeouts: int = 0
    #: Integral of the window over time, packets times ns, and its end.
    area: int = 0
    until: int = 0
    cwnd: int = 0
    started: bool = False
    established: bool = False
    #: Where its congestion control publishes its state.
    key: int | None = None
    #: The integral and the time at the begin and the end of the figures.
    marks: list[tuple[int, int, int]] = field(default_factory=list)


def _isolate() -> None:
    """Enters a new network namespace; os.unshare exists only since Python 3.12."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "no network namespace can be made")


def _drop(user: int) -> None:
    c = ctypes.CDLL(None, use_errno=True)
    if c.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "privileges cannot be given up for good")
    if user == os.geteuid():
        # In an ordinary user's namespace there is no other user: only the capabilities go.
        if c.capset(_CAP_HEADER, bytes(24)):
            raise OSError(ctypes.get_errno(), "capabilities cannot be given up")
        return
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


class Shown:
    """The map in which the connections of a congestion control loaded as BPF publish their state, by socket.

    Once opened, it can be read without privileges.
    """

    def __init__(self, told: dict[str, Any]) -> None:
        self._bpf = ctypes.CDLL("libbpf.so.1", use_errno=True)
        self._map = self._bpf.bpf_obj_get(told["pin"].encode())
        if self._map < 0:
            raise OSError(ctypes.get_errno(), f"{told['pin']} cannot be read")
        self._layout = told["layout"]
        self._value = ctypes.create_string_buffer(max(offset + size for offset, size in self._layout.values()))

    def find(self, connection: socket.socket) -> int | None:
        """The key of a connection; None if it does not exist, or exists in several namespaces of the machine."""
        ports = (connection.getsockname()[1], socket.htons(connection.getpeername()[1]))
        key, found = ctypes.c_uint64(), []
        at = None
        while self._bpf.bpf_map_get_next_key(self._map, at, ctypes.byref(key)) == 0:
            at = ctypes.byref(ctypes.c_uint64(key.value))
            if self.read(key.value, "local_port") == ports[0] and self.read(key.value, "remote_port") == ports[1]:
                found.append(key.value)
        return found[0] if len(found) == 1 else None

    def read(self, key: int, name: str) -> int | None:
        """One member of a connection's entry."""
        if self._bpf.bpf_map_lookup_elem(self._map, ctypes.byref(ctypes.c_uint64(key)), self._value):
            return None
        offset, size = self._layout[name]
        return int.from_bytes(self._value.raw[offset : offset + size], sys.byteorder)


def _socket() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    # Reset at exit, or the kernel would keep the namespace and retransmit for minutes.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return sock


class Side:
    """The sockets of one side."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.poller = select.epoll()
        self.shown = {flow["cc"]: Shown(flow["shown"]) for flow in told["send"] if flow["shown"]}
        self.senders = [self._sender(flow) for flow in told["send"]]
        self.receivers = [self._receiver(flow) for flow in told["receive"]]
        self.by_fd = {flow.socket.fileno(): flow for flow in self.receivers}
        self.sending: dict[int, Flow] = {}
        self.rows: list[bytes] = []
        self.events: list[tuple[int, int, str, float]] = []
        self.start = 0
        self.zeros = memoryview(bytes(_CHUNK))
        self.sink = bytearray(_CHUNK)
        for flow in self.receivers:
            self.poller.register(flow.socket, select.EPOLLIN)

    def _buffer(self, sock: socket.socket, which: int, told: dict[str, Any]) -> None:
        # Without root the sysctls of the namespace say how large buffers grow.
        if not self.told["rootless"]:
            sock.setsockopt(socket.SOL_SOCKET, which, told["buffer"])

    def _sender(self, told: dict[str, Any]) -> Flow:
        sock = _socket()
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, told["cc"].encode())
        except OSError as error:
            raise OSError(f"the kernel does not allow {told['cc']} on a socket ({error.strerror})") from None
        self._buffer(sock, _SO_SNDBUFFORCE, told)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, told["unsent"])
        if told["paced"]:
            sock.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("<Q", _PACED))
        return Flow(told, sock, left=told["bytes"] if told["bytes"] is not None else 1 << 62)

    def _receiver(self, told: dict[str, Any]) -> Flow:
        sock = _socket()
        self._buffer(sock, _SO_RCVBUFFORCE, told)
        if told["clamp"]:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, told["clamp"])
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _CHUNK)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("0.0.0.0", told["port"]))
        sock.listen(1)
        return Flow(told, sock)

    # What happens when.

    def run(self, start: int) -> None:
        """Sends and receives until the run ends."""
        self.start = start
        told = self.told
        end, interval, poll = told["duration"], told["interval"], told["poll"]
        plan = [(flow.told["start"], 0, flow) for flow in self.senders]
        plan += [(flow.told["stop"], 1, flow) for flow in self.senders]
        plan += [(flow.told["start"] + told["warmup"], 2, flow) for flow in self.senders]
        plan.sort(key=lambda step: step[:2])
        next_poll = next_sample = interval
        if self.senders:
            next_poll = min(poll, interval)
        control = sys.stdin.fileno()
        self.poller.register(control, select.EPOLLIN | select.EPOLLHUP)
        while True:
            now = time.monotonic_ns() - start
            while plan and plan[0][0] <= now:
                _, what, flow = plan.pop(0)
                (self._open, self._stop, self._mark)[what](flow, now)
            if self.senders and now >= min(next_poll, next_sample):
                sample = now >= next_sample
                self._look(now, next_sample if sample else None)
                next_poll = now - now % poll + poll
                next_sample += interval if sample else 0
            if now >= end:
                break
            due = min([end, *([plan[0][0]] if plan else []), *([next_poll, next_sample] if self.senders else [])])
            wait = max(0, start + due - time.monotonic_ns()) / 1e9
            for fd, events in self.poller.poll(wait):
                if fd != control:
                    try:
                        self._ready(fd, events)
                    except ConnectionResetError:
                        # The other side resets at its exit, and may be told of an end a moment earlier.
                        late = time.monotonic_ns() - start + _MOMENT_MS * 1_000_000 >= end
                        if not late and not select.select([control], [], [], _MOMENT_MS / 1e3)[0]:
                            raise
                elif not (line := os.read(control, 100)):
                    sys.exit(1)
                else:
                    # An earlier end.
                    end = min(end, int(line) - start)
        for flow in self.senders:
            self._mark(flow, end)

    def _open(self, flow: Flow, now: int) -> None:
        flow.started, flow.until = True, now
        self.sending[flow.socket.fileno()] = flow
        with contextlib.suppress(BlockingIOError):
            flow.socket.connect((flow.told["address"], flow.told["port"]))
        self.poller.register(flow.socket, select.EPOLLOUT | select.EPOLLET)

    def _stop(self, flow: Flow, now: int) -> None:
        self._mark(flow, now)
        flow.left = 0

    def _mark(self, flow: Flow, now: int) -> None:
        if flow.started:
            self._advance(flow, now)
        flow.marks.append((now, flow.area, flow.timeouts))

    def _ready(self, fd: int, events: int) -> None:
        flow = self.sending.get(fd)
        if flow is not None:
            self._send(flow, events)
            return
        flow = self.by_fd[fd]
        if fd == flow.socket.fileno() and not flow.started:
            accepted, _ = flow.socket.accept()
            accepted.setblocking(False)
            self.poller.unregister(flow.socket)
            flow.socket.close()
            flow.socket, flow.started = accepted, True
            self.by_fd[accepted.fileno()] = flow
            self.poller.register(accepted, select.EPOLLIN)
            self._clamp(flow)
            return
        try:
            # With MSG_TRUNC the kernel discards the data.
            if not flow.socket.recv_into(self.sink, _CHUNK, socket.MSG_TRUNC):
                self.poller.unregister(flow.socket)
        except BlockingIOError:
            pass
        self._clamp(flow)

    def _clamp(self, flow: Flow) -> None:
        # From Linux 6.11 on a kernel forgets it where it learns how much of a packet's memory are data
        # (tcp_measure_rcv_mss).
        clamp = flow.told["clamp"]
        if clamp and flow.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP) != clamp:
            flow.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, clamp)

    def _send(self, flow: Flow, events: int) -> None:
        if events & (select.EPOLLERR | select.EPOLLHUP):
            error = flow.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, f"the connection of flow {flow.told['flow'] + 1} broke: {os.strerror(error)}")
        flow.established = True
        try:
            while flow.left > 0:
                flow.left -= flow.socket.send(self.zeros[: min(_CHUNK, flow.left)])
        except BlockingIOError:
            pass

    # What the kernel says.

    def _advance(self, flow: Flow, now: int) -> None:
        flow.area += flow.cwnd * max(0, now - flow.until)
        flow.until = max(flow.until, now)

    def _look(self, now: int, sample: int | None) -> None:
        for flow in self.senders:
            if not flow.started or not flow.established:
                continue
            info = flow.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
            state, unacked, sacked, lost, retrans, srtt, ssthresh, cwnd, pacing = _INFO.unpack_from(info)
            timeouts = NO_COUNT
            if len(info) >= _TIMEOUTS_AT + 2:
                (timeouts,) = struct.unpack_from("<H", info, _TIMEOUTS_AT)
            self._advance(flow, now)
            flow.cwnd = cwnd
            phase = self._phase(flow, cwnd, ssthresh)
            self._changes(flow, now, state, phase, timeouts, cwnd)
            if sample is not None:
                in_flight = max(0, unacked - sacked - lost + retrans)
                number = flow.told["flow"]
                self.rows.append(ROW.pack(sample, number, state, phase, cwnd, in_flight, srtt, timeouts, pacing))

    def _phase(self, flow: Flow, cwnd: int, ssthresh: int) -> int:
        kind = flow.told["phases"]
        if kind == "window":
            return int(cwnd >= ssthresh)
        if kind == "bpf":
            shown = self.shown[flow.told["cc"]]
            flow.key = flow.key or shown.find(flow.socket)
            phase = shown.read(flow.key, "phase") if flow.key else None
            return NO_PHASE if phase is None else phase
        if kind != "bbr":
            return NO_PHASE
        info = flow.socket.getsockopt(socket.IPPROTO_TCP, _TCP_CC_INFO, 64)
        if len(info) < 20:
            return NO_PHASE
        # Gains in 1/256: only probe_rtt has a window gain of 1, only probe_bw one of 2 (net/ipv4/tcp_bbr.c).
        pacing_gain, cwnd_gain = struct.unpack_from("<II", info, 12)
        return {256: 3, 512: 2}.get(cwnd_gain, int(pacing_gain < 256))

    def _changes(self, flow: Flow, now: int, state: int, phase: int, timeouts: int, cwnd: int) -> None:
        number = flow.told["flow"]
        if phase not in (flow.phase, NO_PHASE):
            self.events.append((now, number, flow.told["phase_names"][phase], float(cwnd)))
        if state != flow.state and state in _EVENTS:
            self.events.append((now, number, _EVENTS[state], float(cwnd)))
        counted = timeouts if timeouts != NO_COUNT else flow.timeouts + int(state == _LOSS != flow.state)
        if counted > flow.timeouts:
            self.events.append((now, number, "timeout", float(cwnd)))
        flow.phase, flow.state, flow.timeouts = phase, state, counted


def _told(side: Side) -> dict[str, Any]:
    marks = {flow.told["flow"]: flow.marks for flow in side.senders}
    return {"marks": marks, "events": side.events, "rows": len(side.rows)}


def main(stdin: BinaryIO, stdout: BinaryIO) -> None:
    """The program."""
    _isolate()
    stdout.write(b"isolated\n")
    stdout.flush()
    told = json.loads(stdin.readline())
    for name, value in told["sysctls"].items():
        Path("/proc/sys", name).write_text(str(value))
    # Highest priority among ordinary processes, since a late sender distorts the results.
    if not told["rootless"]:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    side = Side(told)
    _drop(told["user"])
    stdout.write(b"ready\n")
    stdout.flush()
    side.run(int(stdin.readline()))
    stdout.write(json.dumps(_told(side)).encode() + b"\n")
    stdout.write(b"".join(side.rows))
    stdout.flush()


if __name__ == "__main__":
    try:
        main(sys.stdin.buffer, sys.stdout.buffer)
    except (OSError, ValueError) as error:
        sys.exit(f"traffic: {error}")
