"""Changes to a scenario from the command line: ``link.rate=5 Gbit/s``, ``flows.0.cc=reno``."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Sequence
from typing import Any

from knee.errors import Refused
from knee.units import near, shown


def apply(data: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of plain ``data`` with each ``key=value`` put in its place."""
    if not overrides:
        return data
    data = copy.deepcopy(data)
    for override in overrides:
        key, equals, value = override.partition("=")
        key = key.strip()
        if not equals or not key:
            raise Refused(
                f"{shown(override)} is no change", "key=value such as link.rate=5 Gbit/s will do", key="--set"
            )
        _put(data, key, _value(value.strip()))
    return data


def _value(text: str) -> Any:
    """The value as TOML has it; what is not TOML is text."""
    if "\n" in text:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _put(data: dict[str, Any], key: str, value: Any) -> None:
    parts = [part for part in re.split(r"[.\[\]]+", key) if part]
    if not parts:
        raise Refused(f"{shown(key)} is no key", "a key such as link.rate or flows.0.cc will do", key="--set")
    place: Any = data
    for i, part in enumerate(parts):
        here = ".".join(parts[: i + 1])
        last = i == len(parts) - 1
        if isinstance(place, list):
            if not part.isascii() or not part.isdigit() or len(part) > 9 or int(part) >= len(place):
                accepted = f"0 to {len(place) - 1} will do" if place else "the list is empty"
                raise Refused(f"there is no number {shown(part)} in the list", accepted, key=here)
            index = int(part)
            if last:
                place[index] = value
            else:
                place = place[index]
        elif isinstance(place, dict):
            if last:
                place[part] = value
            else:
                place = place.setdefault(part, {})
        else:
            raise Refused(f"{shown(place)} holds no keys", near(here, list(data)), key=here)
