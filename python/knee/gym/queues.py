"""Environments that steer the drop or mark probability of a link's queue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

from knee import _core
from knee.errors import InputError, Refused
from knee.gym.environments import Single, Vector
from knee.gym.fleet import Steered
from knee.gym.tasks import TRAINING, Reward, link_of, scenarios
from knee.scenario import Changes
from knee.scenario.units import parse_time, shown

#: The figures of a step in ``info``: ``waited_max_s`` is the longest wait of a packet, ``queueing_s`` the mean.
FIGURES = ("length_s", "throughput_bps", "waited_max_s", "queueing_s", "loss")
#: Shortest and longest interval, ns.
_INTERVALS = (100_000, 10_000_000_000)


def interval_ns(interval: str) -> int:
    """The time between two actions, ns.

    Raises:
        InputError: it is no time within 100 us to 10 s.
    """
    accepted = "expected 100 us to 10 s"
    try:
        found = parse_time(interval)
    except Refused as refused:
        raise InputError(f"interval: {refused.found}; {accepted}.") from None
    if not _INTERVALS[0] <= found <= _INTERVALS[1]:
        raise InputError(f"interval: {shown(interval)} is out of range; {accepted}.")
    return found


def _steered(
    scenario: str | Path | Mapping[str, Any],
    link: str | None = None,
    set: Changes = (),  # noqa: A002 - as on the command line
    interval: str = "20 ms",
    reward: Mapping[str, Any] | None = None,
) -> Steered:
    core = {"queue": {"interval_ns": interval_ns(interval)}}
    tasks = [link_of(each, link) for each in scenarios(scenario, set)]
    return Steered(tasks, Reward.of(reward or {}), core, _core.queue_features(), (0.0, 1.0), FIGURES, ("probability",))


class QueueManagement(Single):
    """Steers the probability with which a link's queue drops or marks packets that arrive.

    The queue is first in, first out, in place of the one that the file gives the link. An action is a probability, 0 to
    1: that of the next interval. ECN-capable packets are marked and others dropped. An observation has seven numbers
    (docs/gym.md). An episode is one run of a scenario, which is drawn anew for each, and is truncated at its end.

    ``info`` has ``scenario``, ``time_s``, and of the interval ``length_s``, ``throughput_bps`` of what left,
    ``waited_max_s`` and ``queueing_s``, the longest and the mean time that packets waited, and ``loss``, the share of
    arrivals that were dropped. ``probability`` is in force from now on.
    """

    def __init__(
        self,
        scenario: str | Path | Mapping[str, Any] = TRAINING,
        *,
        link: str | None = None,
        set: Changes = (),  # noqa: A002 - as on the command line
        interval: str = "20 ms",
        reward: Mapping[str, Any] | None = None,
        render_mode: None = None,
    ) -> None:
        """Reads the scenarios.

        Args:
            scenario: a file, with or without ``[sweep]``; the name of a shipped scenario or sweep; or plain data.
            link: the link, which has a rate of its own; by default the first.
            set: changes to the scenario, as of ``--set``.
            interval: the time between two actions, 100 us to 10 s.
            reward: weights in place of :class:`knee.gym.tasks.Reward`'s; ``share`` is of the link's rate, and
                ``rtt_s`` of the longest time that a packet waited.
            render_mode: None; there is nothing to draw.

        Raises:
            InputError: names what was refused, and what is accepted.
        """
        super().__init__(_steered(scenario, link, set, interval, reward), render_mode)


class Options(TypedDict, total=False):
    """The options of one environment as keyword arguments, for type checkers."""

    link: str | None
    set: Changes
    interval: str
    reward: Mapping[str, Any] | None


class VectorQueueManagement(Vector):
    """Many :class:`QueueManagement` environments side by side, stepped by Rust threads."""

    _read, _options = staticmethod(_steered), Options

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str | Path | Mapping[str, Any] = TRAINING,
        *,
        threads: int = 1,
        copy: bool = True,
        render_mode: None = None,
        **options: Unpack[Options],
    ) -> None:
        """As of :class:`knee.gym.environments.Vector`; ``options`` are those of :class:`QueueManagement`."""
        super().__init__(num_envs, scenario, threads=threads, copy=copy, render_mode=render_mode, **options)
