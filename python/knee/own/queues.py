"""The base class of queues that a scenario names by a class or a file."""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar, Self

from knee._core import Packet, QueueContext


class Queue:
    """Base class of queue disciplines written in Python. Without overrides it is first in, first out, as ``pfifo``.

    Each direction of a link has its own instance. The methods are those of a queue in Rust (CONTRIBUTING.md). The
    engine keeps the books: packets in = packets out + dropped + held, and what is held is within the link's limit, 1000
    packets where a scenario gives none. A class that loses a packet, gives one twice or one that never came, holds more
    than the limit, raises, or returns something else ends the run; the error names the link and the class. Runs with
    such a queue go event by event, on one thread.

    Attributes:
        queue_params: the parameters, by name (:class:`knee.Param`), which methods read as attributes.
        packets: the packets that are held, oldest first; a class that has its own store leaves it empty.
    """

    queue_params: ClassVar[dict[str, Any]] = {}

    packets: deque[Packet]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """An empty queue, also where a class has an ``__init__`` of its own."""
        made = super().__new__(cls)
        made.packets = deque()
        return made

    def enqueue(self, packet: Packet, cx: QueueContext) -> None:
        """Keeps a packet that arrives, or drops it or others by ``cx.drop``.

        Args:
            packet: the packet.
            cx: ``cx.has_room(packet)`` tells whether the limit has room for it.
        """
        if cx.has_room(packet):
            self.packets.append(packet)
        else:
            cx.drop(packet)

    def dequeue(self, cx: QueueContext) -> Packet | None:
        """The next packet to send, which is not held from then on; None where none may leave now.

        Args:
            cx: ``cx.now - packet.arrived`` is how long a packet has waited; ``cx.mark(packet)`` marks it.
        """
        return self.packets.popleft() if self.packets else None

    def next_wake(self, cx: QueueContext) -> float | None:
        """When to ask again, s, after ``dequeue`` gave none of the packets held; then it has to give one.

        Args:
            cx: the time is to be after ``cx.now``.
        """
        return None

    def resize(self, cx: QueueContext) -> None:
        """Drops what no longer fits, after a change of the link's limit or rate; by default the newest packets.

        Args:
            cx: ``cx.fits`` tells whether what is held is within the limit.
        """
        while not cx.fits:
            if not self.packets:
                raise NotImplementedError("the link's limit is smaller now, and resize does not drop what is beyond it")
            cx.drop(self.packets.pop())


#: The methods that the engine calls.
HOOKS = ("enqueue", "dequeue", "next_wake", "resize")
