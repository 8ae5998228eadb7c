"""What goes between the engine and the process of a candidate: the events of a congestion control, and its answers.

A message begins with the number of its method (:data:`HOOKS`) and what is in force in ``control``; an answer is what
the method left there, or an error in JSON. Both are smaller than what a pipe takes at once.
"""

from __future__ import annotations

from struct import Struct

#: The methods by their number in a message.
HOOKS = ("on_measure", "on_ack", "on_loss", "on_state", "on_undo")
MEASURE, ACK, LOSS, STATE, UNDO = range(len(HOOKS))
#: The words of ``on_loss`` and ``on_state``, and the states of loss recovery, by their numbers.
SIGNALS = ("loss", "ecn", "timeout")
EVENTS = ("start", "open", "disorder", "cwr", "recovery", "loss", "timeout", "reduced", "restart")
STATES = ("open", "disorder", "cwr", "recovery", "loss")

#: The method; cwnd, ssthresh, pacing rate and whether there is one.
HEAD = Struct("=B3d?")
#: now, rtt, srtt, min_rtt, delivery rate; packets acked, delivered, lost, in flight; delivered in all; whether there is
#: an RTT and a rate; whether the window and the application limit; ECE; the state.
OF_ACK = Struct("=B3d?5d4IQ5?B")
#: The number of the signal or event, and now.
OF_EVENT = Struct("=B3d?Bd")
#: The window before the reduction.
OF_UNDO = Struct("=B3d?Q")
#: An answer: 0, then as the head has it.
ANSWER = Struct("=B3d?")
#: The first byte of an error, whose rest is JSON.
ERROR = b"!"
#: Largest answer, bytes: a pipe writes that much in one piece (PIPE_BUF).
MOST = 4096
#: Largest candidate, bytes.
MOST_SOURCE = 1 << 20
