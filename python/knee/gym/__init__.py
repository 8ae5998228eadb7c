"""Gymnasium environments over the simulator.

::

    import gymnasium
    import knee.gym

    env = gymnasium.make("knee/CongestionControl-v0", scenario="mine.toml")
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())

:class:`CongestionControl` steers a flow, :class:`QueueManagement` a queue and :class:`Adversary` the conditions of a
link; :class:`VectorCongestionControl`, :class:`VectorQueueManagement` and :class:`VectorAdversary` are many of them
side by side.
``pip install "knee[gym]"`` installs gymnasium.
"""

from __future__ import annotations

from knee.system import extras

extras.need("knee.gym", "gymnasium")

# Behind the check, which says what to install.
import gymnasium  # noqa: E402

from knee.gym.adversaries import Adversary, VectorAdversary  # noqa: E402
from knee.gym.flows import AURORA, CongestionControl, VectorCongestionControl  # noqa: E402
from knee.gym.policy import Policy  # noqa: E402
from knee.gym.queues import QueueManagement, VectorQueueManagement  # noqa: E402
from knee.gym.tasks import HELD_OUT, TRAINING  # noqa: E402

__all__ = [
    "AURORA",
    "HELD_OUT",
    "TRAINING",
    "Adversary",
    "CongestionControl",
    "Policy",
    "QueueManagement",
    "VectorAdversary",
    "VectorCongestionControl",
    "VectorQueueManagement",
]

for _name, _home in (("CongestionControl", "flows"), ("Adversary", "adversaries"), ("QueueManagement", "queues")):
    gymnasium.register(
        f"knee/{_name}-v0",
        entry_point=f"knee.gym.{_home}:{_name}",
        vector_entry_point=f"knee.gym.{_home}:Vector{_name}",
    )
