"""Policies in Python: the arithmetic of ``cc = "policy:weights.json"``, and files with weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from knee import _core
from knee.errors import InputError, input_errors
from knee.own.policies import Settings, plan


class Policy:
    """A small neural network that steers a flow, with the arithmetic of ``cc = "policy:weights.json"``.

    ::

        policy = knee.gym.Policy("weights.json")
        action = policy(observation)
    """

    def __init__(self, path: str | Path) -> None:
        """Reads a file of weights.

        Raises:
            InputError: it is no policy.
        """
        try:
            with input_errors():
                self._plan = _core.Plan(json.dumps(plan(Path(path).read_text(encoding="utf-8"), str(path))))
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}); expected a file of weights.") from None

    def __call__(self, observation: ArrayLike) -> np.ndarray:
        """The action for an observation, within -1 and 1: an array of one number.

        Args:
            observation: as many numbers as the observation space has.

        Raises:
            InputError: it has another number of values.
        """
        try:
            action = self._plan.action(np.asarray(observation, np.float32).ravel().tolist())
        except ValueError as error:
            raise InputError(f"The policy was not asked: {error}.") from None
        return np.array([action], np.float64)

    @staticmethod
    def save(path: str | Path, layers: Sequence[tuple[ArrayLike, ArrayLike]], **settings: object) -> None:
        """Writes a file of weights.

        Args:
            path: the file.
            layers: weights (one row for each number that a layer gives) and bias of each layer, first to last. The
                numbers between layers go through tanh; the last layer gives one, the action.
            settings: ``lever``, ``interval``, ``gain``, ``features`` and ``history``, as of the environment.

        Raises:
            InputError: the weights do not fit each other or the observation, or a setting was refused.
        """
        given = [{"weights": np.asarray(w, float).tolist(), "bias": np.asarray(b, float).tolist()} for w, b in layers]
        with input_errors():
            text = json.dumps(asdict(Settings(**settings)) | {"layers": given})  # type: ignore[arg-type]
            plan(text, str(path))
        Path(path).write_text(text + "\n", encoding="utf-8")
