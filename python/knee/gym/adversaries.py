"""Environments that steer a link's rate, delay and loss against the algorithms that use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

from knee import _core
from knee.errors import InputError, Refused
from knee.gym.environments import Single, Vector
from knee.gym.fleet import Steered
from knee.gym.queues import interval_ns
from knee.gym.tasks import TRAINING, Weights, in_intervals, link_of, scenarios
from knee.scenario import Changes, Scenario
from knee.scenario.units import parse_time

#: The figures of a step in ``info``.
FIGURES = ("length_s", "throughput_bps", "unused", "queueing_s", "loss")
#: The longest delay that can be added, s.
_LONGEST_S = 10.0
#: Bounds on a rate, over the one in the file.
_FACTORS = (1e-3, 1e3)


@dataclass(frozen=True)
class Harm(Weights):
    """The reward of an adversary: a sum of a step's figures, each times its weight.

    Attributes:
        unused: for the part of the link's capacity that nothing used.
        queueing_s: for each second that packets waited, on average.
        loss: for the loss probability in force.
    """

    unused: float = 1.0
    queueing_s: float = 0.0
    loss: float = 0.0

    def core(self, all_bps: float) -> tuple[float, float, float, float]:
        """For each bit/s of throughput, the part unused, each second of waiting, and the loss probability."""
        return 0.0, float(self.unused), float(self.queueing_s), float(self.loss)


def _span(name: str, given: Any, least: float, greatest: float, unit: str, read: Any = float) -> tuple[float, float]:
    """Two ends of a range, in base units."""
    accepted = f"expected two ends from {least:g} to {greatest:g}{unit}, the lower one first"
    try:
        low, high = (read(end) for end in given)
    except Refused as refused:
        raise InputError(f"{name}: {refused.found}; {accepted}.") from None
    except (TypeError, ValueError):
        raise InputError(f"{name} is {given!r}; {accepted}.") from None
    if not least <= low <= high <= greatest:
        raise InputError(f"{name} is {given!r}; {accepted}.")
    return low, high


def _seconds(text: Any) -> float:
    return parse_time(text) / 1e9


def _steered(
    scenario: str | Path | Mapping[str, Any],
    link: str | None = None,
    set: Changes = (),  # noqa: A002 - as on the command line
    interval: str = "100 ms",
    rate: tuple[float, float] = (0.5, 2.0),
    delay: tuple[str, str] = ("0 ms", "20 ms"),
    loss: tuple[float, float] = (0.0, 0.01),
    reward: Mapping[str, Any] | None = None,
) -> Steered:
    every = interval_ns(interval)
    low, high = _span("delay", delay, 0, _LONGEST_S, " s", _seconds)
    bounds = {
        "interval_ns": every,
        "rate": _span("rate", rate, *_FACTORS, " times the link's rate"),
        "delay_ns": (round(low * 1e9), round(high * 1e9)),
        "loss": _span("loss", loss, 0, 1, ""),
    }
    return Steered(
        [in_intervals(link_of(each, link), every) for each in scenarios(scenario, set)],
        Harm.of(reward or {}),
        {"network": bounds},
        _core.network_features(),
        (0.0, 1.0),
        FIGURES,
        ("rate_bps", "delay_ns", "loss"),
        numbers=3,
        repeats=True,
    )


def _found(steered: Steered, told: tuple[int, int, list[tuple[int, Sequence[float]]]]) -> Scenario:
    """The scenario of an episode, with its changes."""
    number, seed, done = told
    return steered.tasks[number].changed([(at, rate, delay, loss) for at, (rate, delay, loss) in done], seed=seed)


class Adversary(Single):
    """Steers a link's rate, delay and loss against the algorithms of a scenario's flows, which stay as they are.

    An action has three numbers, 0 to 1: where the rate, the delay that is added to the RTT, and the loss probability
    of the next interval are within their bounds. An observation has seven numbers (docs/gym.md). An episode is one run
    of a scenario, which is drawn anew for each, and is truncated at its end. :meth:`scenario` gives it as a scenario
    that ``knee run`` repeats.

    ``info`` has ``scenario``, ``time_s``, and of the interval ``length_s``, ``throughput_bps`` of what left,
    ``unused``, the part of the capacity that nothing used, ``queueing_s``, the mean time that packets waited, and
    ``loss``, the probability in force. So are ``rate_bps`` and ``delay_ns``, what is added to the RTT.
    """

    def __init__(
        self,
        scenario: str | Path | Mapping[str, Any] = TRAINING,
        *,
        link: str | None = None,
        set: Changes = (),  # noqa: A002 - as on the command line
        interval: str = "100 ms",
        rate: tuple[float, float] = (0.5, 2.0),
        delay: tuple[str, str] = ("0 ms", "20 ms"),
        loss: tuple[float, float] = (0.0, 0.01),
        reward: Mapping[str, Any] | None = None,
        render_mode: None = None,
    ) -> None:
        """Reads the scenarios.

        Args:
            scenario: a file, with or without ``[sweep]``; the name of a shipped scenario or sweep; or plain data.
            link: the link, which has a rate of its own; by default the first.
            set: changes to the scenario, as of ``--set``, such as ``["flows.0.cc=bbr3"]``.
            interval: the time between two actions, 100 us to 10 s; also the interval of the scenario's time series.
            rate: least and greatest rate, 0.001 to 1000 times the link's.
            delay: least and greatest delay that is added to the RTT of the flows that cross the link, up to 10 s.
            loss: least and greatest loss probability, 0 to 1.
            reward: weights in place of :class:`knee.gym.adversaries.Harm`'s.
            render_mode: None; there is nothing to draw.

        Raises:
            InputError: names what was refused, and what is accepted.
        """
        super().__init__(_steered(scenario, link, set, interval, rate, delay, loss, reward), render_mode)

    def scenario(self) -> Scenario:
        """The episode so far as a scenario, with all that was done to the link under ``[[changes]]``.

        ``knee run`` gives the same bits. ``tomli_w.dumps(env.scenario().plain())`` is its file.

        Raises:
            InputError: no episode has begun.
        """
        return _found(self._steered, self._fleet.applied(0))


class Options(TypedDict, total=False):
    """The options of one environment as keyword arguments, for type checkers."""

    link: str | None
    set: Changes
    interval: str
    rate: tuple[float, float]
    delay: tuple[str, str]
    loss: tuple[float, float]
    reward: Mapping[str, Any] | None


class VectorAdversary(Vector):
    """Many :class:`Adversary` environments side by side, stepped by Rust threads."""

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
        """As of :class:`knee.gym.environments.Vector`; ``options`` are those of :class:`Adversary`."""
        super().__init__(num_envs, scenario, threads=threads, copy=copy, render_mode=render_mode, **options)

    def scenario(self, slot: int) -> Scenario:
        """The episode of an environment so far, as of :meth:`Adversary.scenario`.

        Args:
            slot: the number of the environment, 0 to ``num_envs - 1``. One whose episode is over still has it.

        Raises:
            InputError: there is no such environment, or no episode has begun.
        """
        return _found(self._steered, self._fleet.applied(slot))
