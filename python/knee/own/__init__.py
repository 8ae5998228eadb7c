"""Congestion controls and queues written in Python.

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

A scenario file names a class of a Python file: ``cc = "mine.py:Gentle"``. The file is run only where
:func:`code_allowed` says so. ``cc = "tcp_mine.c"`` names the C source of a kernel module, which
:class:`knee.own.controls.KernelSource` stands for, and
``cc = "policy:weights.json"`` a file of weights (:mod:`knee.own.policies`).

A class may declare parameters (:mod:`knee.scenario.declared`), which flows set in ``cc_params``.

A subclass of :class:`Queue` is a queue of links in the same ways, ``queue = "mine.py:Mine"`` with ``queue_params``.

A scenario holds the class itself (:class:`Named`): names are for people, and two classes may have the same one.

Each flow gets its own instance. Methods change ``control`` in place: ``cwnd`` and ``ssthresh`` in packets, and
``pacing_rate`` in bit/s of payload (None for the sender's own rate, 1.2 times ``cwnd / srtt``). The sender does loss
recovery: it reduces the window to ``ssthresh`` in proportion to what is delivered.

What a class prints goes to standard error. A method that raises or exits fails the run, and the error names the class.
So does one that has not returned within 10 s, and so do windows that together ask for more packets in flight than four
times what the links and buffers hold and 131,072 more.
"""

from __future__ import annotations

from knee._core import Control
from knee.own.controls import LIMIT_S, CongestionControl, Declared, KernelSource, Policy
from knee.own.files import IN_FILE, IN_POLICY, IN_SOURCE, code_allowed, name_of, naming
from knee.own.names import (
    CONTROL,
    OWN,
    QUEUE,
    Kind,
    Named,
    Own,
    absent,
    described,
    is_absent,
    kernel_name,
    kernel_source,
    named_in,
    params_of,
    policy_of,
    replaced,
    sources,
    told_apart,
)
from knee.own.queues import Queue

__all__ = [
    "CONTROL",
    "IN_FILE",
    "IN_POLICY",
    "IN_SOURCE",
    "LIMIT_S",
    "OWN",
    "QUEUE",
    "CongestionControl",
    "Control",
    "Declared",
    "KernelSource",
    "Kind",
    "Named",
    "Own",
    "Policy",
    "Queue",
    "absent",
    "code_allowed",
    "described",
    "is_absent",
    "kernel_name",
    "kernel_source",
    "name_of",
    "named_in",
    "naming",
    "params_of",
    "policy_of",
    "replaced",
    "sources",
    "told_apart",
]
