"""Environments that steer a flow's window or rate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from knee.errors import InputError, Refused
from knee.gym.environments import Single, Vector
from knee.gym.fleet import Steered
from knee.gym.tasks import TRAINING, Reward, flow_of, scenarios
from knee.own.policies import Settings
from knee.scenario import Changes

#: Aurora's interface: observation, action, interval and reward of PCC-RL's gym (Jay et al., ICML 2019). Throughput is
#: rewarded in packets of 1448 bytes of payload: 0.01 for each in a second.
AURORA: dict[str, Any] = {
    "lever": "rate",
    "interval": "0.5 rtt",
    "gain": 0.025,
    "features": "aurora",
    "history": 10,
    "reward": {
        "share": 0.0,
        "mbps": 0.01e6 / (8 * 1448),
        "rtt_s": -1.0,
        "queueing_s": 0.0,
        "loss": -2.0,
        "per": "step",
    },
}
#: The largest action. Aurora's has no bound of its own.
_MOST = {"knee": 1.0, "aurora": 1e12}
#: What ``info`` calls what an action comes to, by lever.
_APPLIED = {"window": "window_packets", "rate": "rate_bps"}
#: The figures of a step in ``info``.
FIGURES = ("length_s", "throughput_bps", "rtt_s", "queueing_s", "loss")


def _steered(
    scenario: str | Path | Mapping[str, Any],
    flow: str | None = None,
    set: Changes = (),  # noqa: A002 - as on the command line
    reward: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Steered:
    try:
        given = Settings(**settings)
    except Refused as refused:
        raise InputError(f"{refused.key}: {refused.found}; {refused.accepted}.") from None
    most = _MOST[given.features]
    return Steered(
        [flow_of(each, flow) for each in scenarios(scenario, set)],
        Reward.of(reward or {}),
        {"flow": given.core()},
        given.ranges * given.history,
        (-most, most),
        FIGURES,
        (_APPLIED[given.lever],),
    )


class CongestionControl(Single):
    """Steers the window or the rate of a flow, once per monitor interval.

    An action is one number, ``a``, from -1 to 1: the window or rate is multiplied by ``1 + gain * a``, or divided by
    ``1 - gain * a`` where ``a`` is negative. An observation has ``history`` intervals, oldest first. An episode is one
    run of a scenario, which is drawn anew for each: it is truncated at the scenario's end, and terminated where the
    flow's finite transfer is complete or the flow stops. An interval without an ACK or a timeout is extended.

    ``info`` has ``scenario``, the number of the sweep's point from 0; ``time_s``, the simulated time; and of the
    interval ``length_s``, ``throughput_bps`` of payload, ``rtt_s``, ``queueing_s`` and ``loss``. ``window_packets`` or
    ``rate_bps`` is in force from now on: at most four times what the flow ever delivered, and ten packets more.
    """

    def __init__(
        self,
        scenario: str | Path | Mapping[str, Any] = TRAINING,
        *,
        flow: str | None = None,
        set: Changes = (),  # noqa: A002 - as on the command line
        lever: str = "window",
        interval: str = "1 rtt",
        gain: float = 1.0,
        features: str = "knee",
        history: int = 1,
        reward: Mapping[str, Any] | None = None,
        render_mode: None = None,
    ) -> None:
        """Reads the scenarios.

        Args:
            scenario: a file, with or without ``[sweep]``; the name of a shipped scenario or sweep; or plain data.
            flow: the label of the flow that is steered, in place of its congestion control; by default the first.
            set: changes to the scenario, as of ``--set``.
            lever: ``"window"`` or ``"rate"``.
            interval: ``"1 rtt"``, 0.1 to 100 mean RTTs of the interval before, or ``"20 ms"``, 100 us to 10 s.
            gain: how far an action of 1 goes, 0.001 to 10.
            features: ``"knee"`` or ``"aurora"`` (docs/gym.md).
            history: intervals in an observation, 1 to 64.
            reward: weights in place of :class:`knee.gym.tasks.Reward`'s.
            render_mode: None; there is nothing to draw.

        Raises:
            InputError: names what was refused, and what is accepted.
        """
        settings = {"lever": lever, "interval": interval, "gain": gain, "features": features, "history": history}
        super().__init__(_steered(scenario, flow, set, reward, **settings), render_mode)


class Options(TypedDict, total=False):
    """The options of one environment as keyword arguments, for type checkers."""

    flow: str | None
    set: Changes
    lever: Literal["window", "rate"]
    interval: str
    gain: float
    features: Literal["knee", "aurora"]
    history: int
    reward: Mapping[str, Any] | None


class VectorCongestionControl(Vector):
    """Many :class:`CongestionControl` environments side by side, stepped by Rust threads.

    Environment ``i`` with the seed ``s`` is what :class:`CongestionControl` is with the seed ``s + i``. An environment
    whose episode is over begins another at the next step (``AutoresetMode.NEXT_STEP``), with a reward of 0. The
    interpreter is free for other threads meanwhile. ``info`` has arrays.

    With ``copy=False``, observations, rewards and figures are the arrays that the next step overwrites.
    """

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
        """As of :class:`knee.gym.environments.Vector`; ``options`` are those of :class:`CongestionControl`."""
        super().__init__(num_envs, scenario, threads=threads, copy=copy, render_mode=render_mode, **options)
