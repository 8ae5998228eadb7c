"""Base classes of congestion controls that a scenario names by a class or a file."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Self

from knee._core import Ack, Control

#: How long a method may take, s. It takes microseconds, or seconds where it loads a model first; what is not back then
#: never comes back. Looks are counted, 20 in a second, so that the limit is longer on a machine that is busy or sleeps.
LIMIT_S = 10.0


#: The seed of the next instance's random numbers.
_seed: ContextVar[int] = ContextVar("seed", default=0)


class Declared:
    """What a class declares as a parameter: :class:`knee.Param`."""


class CongestionControl:
    """Base class of congestion controls written in Python. Without overrides it is Reno (RFC 5681).

    Each flow has its own instance. Methods change ``control`` in place and return nothing: ``cwnd`` and ``ssthresh`` in
    packets, ``pacing_rate`` in bit/s of payload. Times are in seconds of simulated time. The sender does loss recovery:
    it reduces the window to ``ssthresh`` in proportion to what is delivered (RFC 6937). An exception of a method ends
    the run and comes through, with a note that names the flow; so does the error of a method that returns something.

    Attributes:
        cc_params: the parameters, by name (:class:`knee.Param`), which methods read as attributes.
        pacing: whether the sender paces its packets, at ``pacing_rate`` or else at 1.2 times ``cwnd / srtt``.
        full_control: whether ``on_ack`` is called on every ACK and sets the window also during recovery, as BBR does.
            Then nothing else reduces the window after a loss: ``on_loss`` or ``on_ack`` has to. After a timeout the
            sender begins again from 1 packet all the same.
    """

    cc_params: ClassVar[dict[str, Any]] = {}
    _seed: int

    pacing: ClassVar[bool] = False
    full_control: ClassVar[bool] = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """An instance, which draws the same random numbers for the same flow and seed."""
        made = super().__new__(cls)
        made._seed = _seed.get()
        return made

    @cached_property
    def random(self) -> Random:
        """Random numbers of this flow's own, which the scenario's seed decides: ``self.random.uniform(0, 1)``."""
        return Random(self._seed)

    def on_measure(self, ack: Ack, control: Control) -> None:
        """Takes what an ACK measures. Called on every ACK, before loss detection and ``on_ack``.

        Args:
            ack: the ACK; ``ack.rtt`` is None where it gave no sample.
            control: as before the ACK; the window is better set in ``on_ack``.
        """

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grows the window on an ACK of new data outside of recovery; with ``full_control`` on every ACK.

        Args:
            ack: the ACK.
            control: what it sets: ``cwnd`` of 1 packet or more, whose fraction is kept, and ``pacing_rate``.
        """
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
            control: ``cwnd`` is the window before the reduction; ``ssthresh`` is to be 1 packet or more. A new ``cwnd``
                without a new ``ssthresh`` is taken for both; two that differ fail the run. With ``full_control`` both
                are taken as they are.
        """
        control.ssthresh = max(control.cwnd / 2, 2.0)

    def on_state(self, event: str, now: float, control: Control) -> None:
        """Takes note of a change of the sender's state.

        Args:
            event: "start" of the connection; "open", "disorder", "cwr", "recovery" or "loss", the state that loss
                recovery enters; "timeout"; "reduced", the end of a reduction; "restart" after idle time.
            now: current time, s.
            control: as it is after the change.
        """

    def on_undo(self, prior_cwnd: int, control: Control) -> None:
        """Sets the window after a reduction that proved wrong (RFC 4015); by default to at least the former one.

        Args:
            prior_cwnd: the window before the reduction, packets.
            control: ``cwnd`` is the reduced window.
        """
        control.cwnd = max(control.cwnd, prior_cwnd)


def seeded(own: type[CongestionControl], seed: int) -> CongestionControl:
    """An instance of a class whose random numbers a seed decides."""
    token = _seed.set(seed)
    try:
        return own()
    finally:
        _seed.reset(token)


#: The methods that the engine calls.
HOOKS = ("on_measure", "on_ack", "on_loss", "on_state", "on_undo")


class Policy(CongestionControl):
    """Stands where a scenario names a file of weights (:mod:`knee.own.policies`)."""

    pacing = True
    full_control = True

    #: Where the file is, its text, and the policy as the core reads it.
    path: ClassVar[Path]
    text: ClassVar[str]
    plan: ClassVar[dict[str, Any]]


class KernelSource(CongestionControl):
    """Stands where a scenario names the C source of a kernel module, which runs in the guest of the ground ``uml``."""

    #: Where the file is, its name, its text, what the module is called, and the congestion control that it registers.
    path: ClassVar[Path]
    file: ClassVar[str]
    text: ClassVar[str]
    module: ClassVar[str]
    registers: ClassVar[str]
