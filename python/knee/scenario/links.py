"""Checks of what a link's models, loss and delay have to do with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knee.errors import Refused
from knee.scenario import timed
from knee.scenario.units import format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from knee.scenario.model import Link, _Queueing

#: Models whose propagation delay changes by itself.
_MOVING = ("leo",)
#: Parameters that both directions of a link share, by model: they describe the air, or the sky.
_SHARED = {
    "wifi": ("contenders", "contender_airtime", "slot", "sifs", "aifsn", "cw_min", "cw_max", "ack"),
    "leo": ("period", "first", "outage", "delay_spread", "capacity", "burst_gap", "burst_length", "burst_loss"),
}


def check_link(link: Link) -> None:
    """Rejects a link whose models contradict its other keys.

    Raises:
        Refused: names the key, the value found and what is accepted.
    """
    if link.burst is not None and link.model != "wire":
        raise Refused(f"the link model {link.model} is no token bucket", "leave burst out", key="burst")
    if link.burst is not None and link.reverse is not None and link.reverse.model != "wire":
        found = f"burst holds for both directions, and the reverse one has the model {link.reverse.model}"
        raise Refused(found, "leave burst out", key="burst")
    if link.channel is not None and link.model != "wifi":
        found = f"the link model {link.model} has no channel that others send on"
        raise Refused(found, 'leave it out, or expected model = "wifi"', key="channel")
    if link.slot is not None and link.reorder:
        raise Refused("the packets of a slot leave in order", "leave one of slot and reorder out", key="slot")
    _check_loss(link)
    _check_delay(link)
    _check_shared(link)


def check_channels(links: Sequence[Link]) -> None:
    """Rejects links on one channel that say different things of it.

    Raises:
        Refused: names the key, the value found and what is accepted.
    """
    first: dict[str, Link] = {}
    for i, link in enumerate(links):
        if link.channel is None:
            continue
        other = first.setdefault(link.channel, link)
        for name in _SHARED["wifi"]:
            if link.model_params[name] != other.model_params[name]:
                found = f"it differs from that of the link {other.name}, which is on the same channel, {link.channel}"
                key = f"links[{i}].model_params.{name}"
                raise Refused(found, "expected the same value, or another channel", key=key)


def check_recorded(side: _Queueing) -> None:
    """Rejects a direction whose recordings contradict its other keys.

    Raises:
        Refused: names the key, the value found and what is accepted.
    """
    named = [key for key in timed.KEYS if getattr(side, key) is not None]
    if side.trace_repeats is not None and not named:
        found = "a trace of opportunities always repeats" if side.trace is not None else "there is no recording"
        raise Refused(found, f"leave it out, or expected one of {', '.join(timed.KEYS)}", key="trace_repeats")
    if side.delay_trace is not None and side.model in _MOVING:
        found = f"the link model {side.model} has a delay of its own"
        raise Refused(found, "leave one of the two out", key="delay_trace")


def _check_loss(link: Link) -> None:
    if link.loss_trace is not None and (link.loss or link.loss_model != "random"):
        other = "loss" if link.loss else "loss_model"
        raise Refused(f"{other} is given beside a recording of losses", "leave one of the two out", key="loss_trace")
    if link.loss_model == "random":
        return
    if link.loss:
        found = f"{link.loss} is given beside the loss model {link.loss_model}, which has probabilities of its own"
        raise Refused(found, 'leave it out, or loss_model = "random"', key="loss")
    if not link.loss_params["p"] and not link.loss_params["loss_good"]:
        raise Refused("p and loss_good are 0: nothing is ever lost", "expected p above 0", key="loss_params.p")


def _check_delay(link: Link) -> None:
    if link.delay_model != "uniform" and link.jitter:
        found = f"{format_time(link.jitter)} is given beside the delay model {link.delay_model}"
        raise Refused(found, 'leave it out, or delay_model = "uniform"', key="jitter")
    if link.delay_model == "table" and link.delay_table is None:
        raise Refused("the delay model table has no table", 'expected delay_table = "FILE"', key="delay_table")
    if link.delay_model != "table" and link.delay_table is not None:
        found = f"the delay model {link.delay_model} reads no table"
        raise Refused(found, 'leave it out, or delay_model = "table"', key="delay_table")


def _check_shared(link: Link) -> None:
    """Both directions of a link are on one channel, or in one constellation."""
    if link.reverse is None or link.reverse.model != link.model:
        return
    for name in _SHARED.get(link.model, ()):
        if link.reverse.model_params[name] != link.model_params[name]:
            found = "it differs from the link's own, which both directions share"
            raise Refused(found, "leave it out, or expected the same value", key=f"reverse.model_params.{name}")
