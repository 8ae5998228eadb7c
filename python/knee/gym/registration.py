"""The names by which :func:`gymnasium.make` finds the environments."""

from __future__ import annotations

import gymnasium

#: The class of each environment, and that of many side by side.
_CLASSES = {
    "knee/CongestionControl-v0": ("knee.gym.flows:CongestionControl", "knee.gym.flows:VectorCongestionControl"),
    "knee/Adversary-v0": ("knee.gym.adversaries:Adversary", "knee.gym.adversaries:VectorAdversary"),
    "knee/QueueManagement-v0": ("knee.gym.queues:QueueManagement", "knee.gym.queues:VectorQueueManagement"),
}


def register() -> None:
    """Registers all environments, alone and in native vectors."""
    for name, (alone, together) in _CLASSES.items():
        gymnasium.register(name, entry_point=alone, vector_entry_point=together)
