"""Parameters that congestion controls and queues written in Python declare.

::

    class Glide(knee.CongestionControl):
        cc_params = {
            "target": knee.Param("5 ms", "1 ms", "100 ms", about="queueing delay to keep"),
            "gain": knee.Param(0.5, 0, 1, about="part of the window that a loss leaves"),
        }

        def on_loss(self, signal, now, control):
            control.ssthresh = max(control.cwnd * self.gain, 2)

A flow sets them as those of any algorithm, ``cc_params = { target = "8 ms" }``, and sweeps and searches vary them.
Those of a queue are its ``queue_params``. Methods read them as attributes: times in seconds, rates in bit/s, sizes in
bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from knee.errors import InputError, Refused
from knee.own import CongestionControl, Declared, Queue, params_of
from knee.scenario.units import MAX_BYTES, MAX_PACKETS, MAX_RATE, MAX_TIME, quantity, shown

if TYPE_CHECKING:
    from knee.scenario import registry

#: The largest value of each kind that has a unit, and of counts.
_MOST = {"time": MAX_TIME, "rate": MAX_RATE, "bytes": MAX_BYTES, "count": MAX_PACKETS}


_T = TypeVar("_T", CongestionControl, Queue)


class Param(Declared):
    """A parameter of a congestion control or a queue written in Python.

    Args:
        default: its value where a scenario does not set it. It also decides what is accepted: a time, a rate or a size
            (``"5 ms"``, ``"1 Mbit/s"``, ``"3000 B"``), a whole number, a number, True or False, or one of ``words``.
        least: the lowest value accepted; default: 0.
        greatest: the highest value accepted; default: the largest of its kind, 1 for numbers.
        about: what it does, one line.
        words: what it may be, where it is a choice.

    Raises:
        InputError: the default is of no known kind, or not within its own range.
    """

    def __init__(
        self,
        default: Any,
        least: Any = None,
        greatest: Any = None,
        *,
        about: str = "",
        words: tuple[str, ...] | list[str] = (),
    ) -> None:
        self.about, self.words = about, list(words)
        try:
            self.kind = self._kind(default)
            known = self._known("", (0, 1), 0)
            ends = [self._end(known, value) for value in (least, greatest)]
            low = 0 if ends[0] is None else ends[0]
            high = _MOST.get(self.kind, max(1.0, float(low))) if ends[1] is None else ends[1]
            self._range = (low, high)
            self.default = self._known("", self._range, 0).parse(default)
        except Refused as refused:
            raise InputError(f"knee.Param({shown(default)}): {refused.found}; {refused.accepted}.") from None
        if self.kind not in ("bool", "choice") and not low <= high:
            raise InputError(f"knee.Param({shown(default)}): the range {shown(least)} to {shown(greatest)} is empty.")

    def _kind(self, default: Any) -> str:
        if self.words:
            return "choice"
        if isinstance(default, bool):
            return "bool"
        if isinstance(default, int | float):
            return "count" if isinstance(default, int) else "ratio"
        found = quantity(default) if isinstance(default, str) else None
        if found is not None and found.kind in ("time", "rate", "bytes"):
            return str(found.kind)
        accepted = 'expected a quantity such as "5 ms", a number, True, False, or words=(...) for a choice'
        raise Refused("it is of no known kind", accepted)

    def _end(self, known: registry.Param, value: Any) -> Any:
        return None if value is None else known._parse(value)

    def _known(self, name: str, span: tuple[Any, Any], default: Any) -> registry.Param:
        from knee.scenario.registry import Param as Known

        return Known(name, self.kind, default, *span, "Python", self.about or "no description", self.words)

    def named(self, name: str) -> registry.Param:
        """The parameter as the registry has it."""
        return self._known(name, self._range, self.default)

    def seen(self, value: Any) -> Any:
        """A value in base units as methods read it: times in seconds."""
        return value / 1e9 if self.kind == "time" else value


def with_values(own: type[_T], values: dict[str, Any]) -> type[_T]:
    """The class with its parameters as attributes; a class that declares none is returned itself."""
    if not values:
        return own
    declared = params_of(own)
    attributes = {key: declared[key].seen(value) for key, value in values.items()}
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__doc__": own.__doc__}
    return type(own.__name__, (own,), names | attributes)


def name_with(name: str, values: dict[str, Any]) -> str:
    """What the core calls a class with these values."""
    return f"{name} {values}" if values else name
