"""Congestion controls written in Python.

Subclass :class:`CongestionControl` and use the class as ``cc`` of a flow, in a scenario given as a dict::

    class Gentle(knee.CongestionControl):
        def on_ack(self, ack, control):
            if control.in_slow_start:
                control.cwnd += ack.delivered
            else:
                control.cwnd += ack.delivered / control.cwnd

        def on_loss(self, signal, now, control):
            control.ssthresh = max(control.cwnd * 0.8, 2)

    knee.run({
        "duration": "20 s",
        "link": {"rate": "20 Mbit/s", "limit": "100 packets"},
        "flows": [{"cc": Gentle, "rtt": "20 ms"}, {"cc": "cubic", "rtt": "20 ms"}],
    })

Each flow gets its own instance. Methods change ``control`` in place: ``cwnd`` and ``ssthresh`` in packets, and
``pacing_rate`` in bit/s of payload (None for the sender's own rate, 1.2 times ``cwnd / srtt``). The sender does loss
recovery: it reduces the window to ``ssthresh`` in proportion to what is delivered.
"""

from __future__ import annotations

import hashlib
import inspect
from typing import Any, ClassVar

from knee._core import Ack, Control
from knee.errors import Refused

#: Prefix of the names that scenarios and results use for classes.
OWN = "python:"


class CongestionControl:
    """Base class of congestion controls written in Python. Without overrides it is Reno (RFC 5681)."""

    #: Whether the sender paces its packets.
    pacing: ClassVar[bool] = False
    #: Whether ``on_ack`` is called on every ACK and sets the window also during recovery, as BBR does.
    full_control: ClassVar[bool] = False

    def on_measure(self, ack: Ack, control: Control) -> None:
        """Called on every ACK, before loss detection."""

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grows the window on an ACK of new data outside of recovery."""
        if not ack.cwnd_limited:
            return
        if control.in_slow_start:
            control.cwnd = min(control.cwnd + ack.delivered, control.ssthresh)
        else:
            control.cwnd += ack.delivered / control.cwnd

    def on_loss(self, signal: str, now: float, control: Control) -> None:
        """Sets ``control.ssthresh`` after a congestion signal, at most one per round trip.

        Args:
            signal: "loss", "ecn" or "timeout".
            now: current time, s.
            control: ``cwnd`` is the window before the reduction.
        """
        control.ssthresh = max(control.cwnd / 2, 2.0)

    def on_state(self, event: str, now: float, control: Control) -> None:
        """Called on "start", "open", "disorder", "cwr", "recovery", "loss", "timeout", "reduced" and "restart"."""

    def on_undo(self, prior_cwnd: int, control: Control) -> None:
        """Sets ``control.cwnd`` after a reduction that proved wrong; by default at least to the previous window."""
        control.cwnd = max(control.cwnd, prior_cwnd)


#: The methods that the engine calls.
_HOOKS = ("on_measure", "on_ack", "on_loss", "on_state", "on_undo")

#: Classes used in scenarios, by their names there.
_classes: dict[str, type[CongestionControl]] = {}


def name_of(value: object) -> object:
    """The name of a class in scenarios, under which it is registered; any other value is returned unchanged."""
    if not isinstance(value, type):
        return value
    if not issubclass(value, CongestionControl):
        raise Refused(
            f"the class {value.__name__} is not a congestion control", "expected a subclass of knee.CongestionControl"
        )
    for hook in _HOOKS:
        method = getattr(value, hook)
        if inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method):
            kind = "async" if inspect.iscoroutinefunction(method) else "a generator"
            raise Refused(
                f"the method {hook} of the class {value.__name__} is {kind}, so calling it does nothing",
                "expected a method that is run when it is called, without async and yield",
            )
    name = OWN + value.__qualname__
    register(name, value)
    return name


def register(name: str, own: type[CongestionControl]) -> None:
    """Makes a class known by a name, as where a scenario that was made elsewhere uses it."""
    _classes[name] = own


def described(name: str, own: type[CongestionControl]) -> dict[str, Any]:
    """A class as manifests describe it: its module, file and source digest; None for what cannot be read."""
    try:
        source, file = inspect.getsource(own), inspect.getsourcefile(own)
    except (OSError, TypeError):
        source, file = None, None
    digest = None if source is None else hashlib.sha256(source.encode()).hexdigest()
    return {"name": name, "module": own.__module__, "class": own.__qualname__, "file": file, "source_sha256": digest}


def classes() -> dict[str, type[CongestionControl]]:
    """The classes used in scenarios so far, by name."""
    return dict(_classes)
