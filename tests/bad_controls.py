"""Congestion controls that are bad on purpose, each in one way, and classes that cannot run."""

from __future__ import annotations

import knee


class _Renoish(knee.CongestionControl):
    """Reno with another growth per round trip, and another part that a loss leaves."""

    growth, left = 1.0, 0.5

    def on_ack(self, ack: knee.Ack, control: knee.Control) -> None:
        if control.in_slow_start:
            control.cwnd = min(control.cwnd + ack.delivered, control.ssthresh)
        else:
            control.cwnd += self.growth * ack.delivered / control.cwnd

    def on_loss(self, signal: str, now: float, control: knee.Control) -> None:
        control.ssthresh = max(control.cwnd * self.left, 2)


class Aggressive(_Renoish):
    """Eight Renos in one."""

    growth, left = 8.0, 15 / 16


class Timid(_Renoish):
    """A fiftieth of Reno's growth, and a tenth of the window left."""

    growth, left = 0.02, 0.1


class FavoursShortRtts(_Renoish):
    """Its growth per round trip falls with the square of the RTT beyond 50 ms, where it has no slow start either."""

    def on_ack(self, ack: knee.Ack, control: knee.Control) -> None:
        self.growth = min(0.05 / ack.min_rtt, 1) ** 2
        if self.growth < 1:
            control.cwnd += self.growth * ack.delivered / control.cwnd
        else:
            super().on_ack(ack, control)


class Deaf(_Renoish):
    """Takes no loss for a signal."""

    left = 1.0


class Unstable(knee.CongestionControl):
    """Doubles its window each round trip until it loses, and leaves a tenth."""

    def on_ack(self, ack: knee.Ack, control: knee.Control) -> None:
        control.cwnd += ack.delivered

    def on_loss(self, signal: str, now: float, control: knee.Control) -> None:
        control.ssthresh = max(control.cwnd / 10, 2)


class NoHooks(knee.CongestionControl):
    """Reno, since that is what the base class is."""


class Zero(knee.CongestionControl):
    """Wants a window of no packet."""

    def on_ack(self, ack: knee.Ack, control: knee.Control) -> None:
        control.cwnd = 0


class Endless(knee.CongestionControl):
    """Wants to send without end."""

    def on_ack(self, ack: knee.Ack, control: knee.Control) -> None:
        control.cwnd = 1e12


class Raises(knee.CongestionControl):
    """Fails where the RTT is long."""

    def on_measure(self, ack: knee.Ack, control: knee.Control) -> None:
        if ack.min_rtt > 0.1:
            raise ValueError("no idea what to do about a long RTT")


class Other:
    """No congestion control."""


class CountsAcks(_Renoish):
    """Reno as it was before RFC 3465: every ACK lets the window grow, whatever that acknowledges."""

    growing = True

    def on_measure(self, ack: knee.Ack, control: knee.Control) -> None:
        if self.growing and ack.cwnd_limited:
            control.cwnd += 1 if control.in_slow_start else 1 / control.cwnd

    def on_ack(self, ack: knee.Ack, control: knee.Control) -> None:
        pass

    def on_state(self, event: str, now: float, control: knee.Control) -> None:
        if event in ("open", "cwr", "recovery", "loss"):
            self.growing = event in ("open", "loss")
