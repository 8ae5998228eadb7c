"""The names by which :func:`gymnasium.make` finds the environments."""

from __future__ import annotations

import gymnasium


def register() -> None:
    """Registers ``knee/CongestionControl-v0``, alone and in a native vector."""
    gymnasium.register(
        "knee/CongestionControl-v0",
        entry_point="knee.gym.flows:CongestionControl",
        vector_entry_point="knee.gym.flows:VectorCongestionControl",
    )
