"""Policies: how they observe and act, and files with their weights.

A policy multiplies a flow's window or rate by a factor once per monitor interval (``crates/knee-cc/src/policy``). A
file in JSON has its weights::

    {
      "lever": "window", "interval": "1 rtt", "gain": 1.0, "features": "knee", "history": 1,
      "layers": [{"weights": [[0.1, ...], ...], "bias": [0.0, ...]}, {"weights": [[...]], "bias": [0.0]}]
    }

``cc = "policy:weights.json"`` of a flow names it. It is data, so it needs no permission to run.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

from knee import _core
from knee.errors import Refused

#: A length of an interval: a number of RTTs, or a time.
_INTERVAL = re.compile(r"\s*(?P<number>\d{1,9}(\.\d{0,9})?)\s*(?P<unit>rtt|us|ms|s)\s*")
_NANOSECONDS = {"us": 1e3, "ms": 1e6, "s": 1e9}
_WORDS = {"lever": ("window", "rate"), "features": ("knee", "aurora")}


@dataclass(frozen=True)
class Settings:
    """How a policy observes and acts.

    Attributes:
        lever: ``"window"`` or ``"rate"``: what an action multiplies.
        interval: length of a monitor interval: ``"1 rtt"``, 0.1 to 100 mean RTTs of the one before, or ``"20 ms"``,
            100 us to 10 s.
        gain: how far an action of 1 goes: the window or rate is multiplied by 1 + gain; 0.001 to 10.
        features: ``"knee"``, eight numbers an interval, or ``"aurora"``, three.
        history: how many intervals an observation has, oldest first; 1 to 64.

    Raises:
        Refused: names the key, what was found and what is accepted.
    """

    lever: str = "window"
    interval: str = "1 rtt"
    gain: float = 1.0
    features: str = "knee"
    history: int = 1

    def __post_init__(self) -> None:
        for key, words in _WORDS.items():
            if getattr(self, key) not in words:
                raise Refused(f"{getattr(self, key)!r} is unknown", f"expected one of {', '.join(words)}", key=key)
        numbers = {"gain": (Real, float, "a number"), "history": (Integral, int, "a whole number")}
        for key, (kind, python, number) in numbers.items():
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, kind) or not 0 <= float(value) < 1e9:
                raise Refused(f"it is {value!r}", f"expected {number} above 0", key=key)
            # A number of numpy's becomes one of Python's.
            object.__setattr__(self, key, python(value))
        try:
            _core.features(json.dumps(self.core()))
        except _core.SpecError as error:
            # "`gain` is 0; expected 0.001 to 10"
            key, found, accepted = re.fullmatch(r"`(\w+)` is (.*); (.*)", str(error)).groups()  # type: ignore[union-attr]
            raise Refused(f"it is {found}", accepted, key=key) from None

    def core(self) -> dict[str, Any]:
        """The form that the core reads."""
        values = {"lever": self.lever, "gain": float(self.gain), "features": self.features, "history": self.history}
        return values | {"interval": _interval(self.interval)}

    @property
    def ranges(self) -> list[tuple[str, float, float]]:
        """Name, least and greatest value of each number that an interval is described by."""
        return _core.features(json.dumps(self.core()))


def _interval(text: object) -> dict[str, float]:
    found = _INTERVAL.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise Refused(f"it is {text!r}", 'expected mean RTTs, as "1 rtt", or a time, as "20 ms"', key="interval")
    number = float(found["number"])
    unit = found["unit"]
    return {"rtts": number} if unit == "rtt" else {"time": round(number * _NANOSECONDS[unit])}


def plan(text: str, file: str) -> dict[str, Any]:
    """The policy that a file's text says, as the core reads it.

    Raises:
        Refused: it is no policy; names the file and the key.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise Refused(f'"{file}" is not JSON ({error})', "expected weights as docs/gym.md shows them") from None
    known = [each.name for each in fields(Settings)]
    if not isinstance(data, dict) or not isinstance(data.get("layers"), list):
        raise Refused(f'"{file}" has no list layers', "expected weights as docs/gym.md shows them")
    other = sorted(set(data) - {*known, "layers"})
    if other:
        raise Refused(f'"{file}" has the key {other[0]!r}', f"expected layers, and any of {', '.join(known)}")
    try:
        made = {"settings": Settings(**{key: data[key] for key in known if key in data}).core()}
    except Refused as refused:
        raise Refused(f'"{file}": {refused.key}: {refused.found}', refused.accepted) from None
    made["layers"] = data["layers"]
    try:
        _core.Plan(json.dumps(made))
    except (_core.SpecError, ValueError) as error:
        found, _, accepted = str(error).partition("; ")
        raise Refused(f'"{file}": {found}', accepted or "expected layers with weights and bias") from None
    return made
