"""Queues written in Python, some of which the registry has in Rust too."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, ClassVar

import knee

#: Python's floats hold simulated times to the nanosecond.
_NS = 1e9


class Fifo(knee.Queue):
    """First in, first out, in a store of its own."""

    def __init__(self) -> None:
        self.store: deque[knee.Packet] = deque()

    def enqueue(self, packet: knee.Packet, cx: knee.QueueContext) -> None:
        if cx.has_room(packet):
            self.store.append(packet)
        else:
            cx.drop(packet)

    def dequeue(self, cx: knee.QueueContext) -> knee.Packet | None:
        return self.store.popleft() if self.store else None

    def resize(self, cx: knee.QueueContext) -> None:
        while not cx.fits:
            cx.drop(self.store.pop())


class CoDel(knee.Queue):
    """CoDel in Linux's arithmetic: times in units of 1024 ns, 1/sqrt(count) in 16 bits (codel_law.rs)."""

    queue_params: ClassVar[dict[str, Any]] = {
        "target": knee.Param("5 ms", "2 us", "10 s", about="acceptable standing delay"),
        "interval": knee.Param("100 ms", "2 us", "100 s", about="how long it may stand above the target"),
        "ecn": knee.Param(False, about="mark ECN-capable packets rather than drop them"),
    }
    target: float
    interval: float
    ecn: bool

    def __init__(self) -> None:
        self.count = self.last_count = self.drop_next = self.inv_sqrt = 0
        self.dropping = False
        self.above_until: int | None = None

    def dequeue(self, cx: knee.QueueContext) -> knee.Packet | None:
        now, interval = units(cx.now), units(self.interval)
        packet = self.pop()
        bad = self.is_bad(packet, cx, now)
        if self.dropping:
            self.dropping = bad
            while self.dropping and now >= self.drop_next:
                self.count += 1
                self.step()
                marked, packet = self.drop_or_mark(packet, cx)
                if marked or self.is_bad(packet, cx, now):
                    self.drop_next += self.spacing(interval)
                else:
                    self.dropping = False
                if marked:
                    break
        elif bad:
            marked, packet = self.drop_or_mark(packet, cx)
            if not marked:
                self.is_bad(packet, cx, now)
            self.enter(now, interval)
        return packet

    def pop(self) -> knee.Packet | None:
        return self.packets.popleft() if self.packets else None

    def is_bad(self, packet: knee.Packet | None, cx: knee.QueueContext, now: int) -> bool:
        # A packet out of the store is on the books until it has left.
        left = cx.bytes - (packet.size if packet else 0)
        if packet is None or now - units(packet.arrived) < units(self.target) or left <= cx.frame:
            self.above_until = None
        elif self.above_until is None:
            self.above_until = now + units(self.interval)
        else:
            return now > self.above_until
        return False

    def drop_or_mark(self, packet: knee.Packet | None, cx: knee.QueueContext) -> tuple[bool, knee.Packet | None]:
        if packet is None:
            return False, None
        if self.ecn and cx.mark(packet):
            return True, packet
        cx.drop(packet)
        return False, self.pop()

    def enter(self, now: int, interval: int) -> None:
        drops = self.count - self.last_count
        if drops > 1 and now < self.drop_next + 16 * interval:
            self.count = drops
            self.step()
        else:
            self.count, self.inv_sqrt = 1, 0xFFFF
        self.dropping, self.last_count = True, self.count
        self.drop_next = now + self.spacing(interval)

    def step(self) -> None:
        x = self.inv_sqrt << 16
        rest = ((3 << 32) - self.count * (x * x >> 32)) >> 2
        self.inv_sqrt = (rest * x >> 31 >> 16) & 0xFFFF

    def spacing(self, interval: int) -> int:
        return interval * (self.inv_sqrt << 16) >> 32


def units(seconds: float) -> int:
    """A time in CoDel's units."""
    return round(seconds * _NS) >> 10


class Pie(knee.Queue):
    """PIE (RFC 8033, 4), without its burst allowance: the drop probability follows the delay, at each arrival."""

    queue_params: ClassVar[dict[str, Any]] = {
        "target": knee.Param("15 ms"),
        "alpha": knee.Param(0.125, 0, 10),
        "beta": knee.Param(1.25, 0, 10),
    }
    target: float
    alpha: float
    beta: float

    def __init__(self) -> None:
        self.probability = self.before = self.updated = 0.0

    def enqueue(self, packet: knee.Packet, cx: knee.QueueContext) -> None:
        if cx.now - self.updated >= 0.015:
            delay = 8 * cx.bytes / cx.rate
            scale = 1 if self.probability >= 0.1 else 2 ** -min(11, math.ceil(-math.log2(self.probability * 10 + 1e-4)))
            change = self.alpha * (delay - self.target) + self.beta * (delay - self.before)
            self.probability = min(max(self.probability + scale * change, 0.0), 1.0)
            self.before, self.updated = delay, cx.now
        hit = cx.bytes > 2 * cx.frame and cx.random() < self.probability
        if not cx.has_room(packet) or (hit and not cx.mark(packet)):
            cx.drop(packet)
        else:
            self.packets.append(packet)


class Drr(knee.Queue):
    """Deficit round robin (Shreedhar and Varghese, 1995): a queue for each connection, the longest one loses."""

    queue_params: ClassVar[dict[str, Any]] = {"quantum": knee.Param(1514, 1, 100000)}
    quantum: int

    def __init__(self) -> None:
        self.flows: dict[int, deque[knee.Packet]] = {}
        self.round: deque[int] = deque()
        self.deficit: dict[int, int] = {}

    def enqueue(self, packet: knee.Packet, cx: knee.QueueContext) -> None:
        while not cx.has_room(packet) and self.flows:
            self.drop_longest(cx)
        if not cx.has_room(packet):
            cx.drop(packet)
            return
        key = packet.connection
        if key not in self.flows:
            self.flows[key], self.deficit[key] = deque(), 0
            self.round.append(key)
        self.flows[key].append(packet)

    def dequeue(self, cx: knee.QueueContext) -> knee.Packet | None:
        while self.round:
            key = self.round[0]
            if self.flows[key][0].size <= self.deficit[key]:
                packet = self.flows[key].popleft()
                self.deficit[key] -= packet.size
                self.forget(key)
                return packet
            self.deficit[key] += self.quantum
            self.round.rotate(-1)
        return None

    def resize(self, cx: knee.QueueContext) -> None:
        while not cx.fits:
            self.drop_longest(cx)

    def drop_longest(self, cx: knee.QueueContext) -> None:
        key = max(self.flows, key=lambda key: len(self.flows[key]))
        cx.drop(self.flows[key].pop())
        self.forget(key)

    def forget(self, key: int) -> None:
        if not self.flows[key]:
            del self.flows[key], self.deficit[key]
            self.round.remove(key)


class Shaper(knee.Queue):
    """Lets a packet go at most every 2 ms, whatever the link can carry."""

    def __init__(self) -> None:
        self.next = 0.0

    def dequeue(self, cx: knee.QueueContext) -> knee.Packet | None:
        if not self.packets or cx.now < self.next:
            return None
        self.next = cx.now + 0.002
        return self.packets.popleft()

    def next_wake(self, cx: knee.QueueContext) -> float | None:
        return self.next


class Lifo(knee.Queue):
    """The newest packet first."""

    def dequeue(self, cx: knee.QueueContext) -> knee.Packet | None:
        return self.packets.pop() if self.packets else None
