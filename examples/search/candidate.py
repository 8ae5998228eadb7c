"""A congestion control with five parameters, for search.py to find values of."""

import knee


class Candidate(knee.CongestionControl):
    """Additive increase until the queueing delay is at a target; beyond, it gives way in proportion."""

    cc_params = {  # noqa: RUF012 - as those who write one do
        "target": knee.Param("20 ms", "1 ms", "200 ms", about="queueing delay from which on it gives way"),
        "growth": knee.Param(1.0, 0.1, 10.0, about="packets more per round trip"),
        "yielding": knee.Param(0.1, 0.0, 1.0, about="part of the window given up per round trip at twice the target"),
        "left": knee.Param(0.7, 0.2, 0.95, about="part of the window that a loss leaves"),
        "leave": knee.Param(1.0, 0.1, 4.0, about="queueing delay in targets at which slow start ends"),
    }

    def on_ack(self, ack, control):
        """Grows the window, or gives way."""
        queued = 0.0 if ack.rtt is None else ack.rtt - ack.min_rtt
        if control.in_slow_start:
            control.cwnd += ack.delivered
            if queued > self.leave * self.target:
                control.ssthresh = max(control.cwnd * self.left, 2)
                control.cwnd = control.ssthresh
        elif queued <= self.target:
            control.cwnd += self.growth * ack.delivered / control.cwnd
        else:
            excess = min(queued / self.target - 1, 1.0)
            control.cwnd = max(control.cwnd - self.yielding * excess * ack.delivered, 2)

    def on_loss(self, signal, now, control):
        """Leaves a part of the window."""
        control.ssthresh = max(control.cwnd * self.left, 2)
