"""The algorithm under evaluation, and those it is compared with: what a flow of each is."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from knee.errors import InputError, Refused, ScenarioError
from knee.evaluate.criteria import PLACE
from knee.own import IN_FILE, name_of
from knee.scenario import from_dict, registry
from knee.scenario.overrides import apply

#: The deployed algorithms in whose company a verdict is reached by default: Linux's two of long standing, and BBRv3.
DEPLOYED = ("cubic", "bbr3", "reno")
#: The keys of a flow that ``--set`` may change.
_KEYS = ("cc_params", "transport", "pacing", "ecn", "tls")
#: What of a name may be in a file's.
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Subject:
    """An algorithm, as it comes in the place of :data:`PLACE`.

    Attributes:
        name: what tables call it.
        flow: the keys of its flows: ``cc`` and what ``--set`` gave, and the transport of a QUIC stack's own controller.
        changed: whether ``--set`` gave something.
    """

    name: str
    flow: dict[str, Any]
    changed: bool = False

    @property
    def folder(self) -> str:
        """A folder's name for its runs, which depends on its parameters."""
        plain = _PLAIN.sub("-", self.name.rpartition("/")[2]).strip("-.")[:60] or "own"
        if not self.changed:
            return plain
        return f"{plain}-{hashlib.sha256(json.dumps(self.flow, sort_keys=True).encode()).hexdigest()[:8]}"

    def placed(self, data: dict[str, Any]) -> dict[str, Any]:
        """A criterion's scenario with this algorithm in its place."""
        made = copy.deepcopy(data)
        made["flows"] = [{**flow, **self.flow} if flow.get("cc") == PLACE else flow for flow in made["flows"]]
        return made


def absent(data: dict[str, Any]) -> dict[str, Any]:
    """A criterion's scenario without the algorithm: what the others are worth alone."""
    flows = [flow for flow in data["flows"] if flow.get("cc") != PLACE]
    return {**copy.deepcopy(data), "flows": copy.deepcopy(flows)}


def subject(cc: str, changes: Sequence[str] = ()) -> Subject:
    """An algorithm by name, or a class of a Python file as ``mine.py:Mine``, with changes to its flows.

    Args:
        cc: the name; the stack's own controllers, such as ``quinn:bbr``, run over QUIC.
        changes: keys of its flows, as ``cc_params.q_target=10 ms``.

    Raises:
        InputError: there is no such algorithm, a change is not one, or a file may not be run.
    """
    flow: dict[str, Any] = {"cc": cc, **({"transport": "quic"} if cc.startswith("quinn:") else {})}
    for change in changes:
        key = change.partition("=")[0].strip()
        if key.partition(".")[0] not in _KEYS:
            keys = ", ".join(_KEYS)
            raise InputError(f"--set {change}: {key} is no key of X's flows that may be set; expected one of {keys}.")
    try:
        flow = apply(flow, list(changes))
    except Refused as refused:
        raise InputError(f"--set: {refused.found}; {refused.accepted}.") from None
    try:
        named = str(name_of(cc))
    except Refused as refused:
        raise InputError(f"{cc}: {refused.found}; {refused.accepted}.") from None
    _accepted(cc, flow)
    if (file := IN_FILE.fullmatch(cc)) is not None:
        # A scenario that is written elsewhere finds the file by its whole path.
        from pathlib import Path

        flow["cc"] = f"{Path(file['file']).resolve()}:{file['name']}"
    settings = ", ".join(sorted(change.strip().removeprefix("cc_params.") for change in changes))
    return Subject(f"{named} ({settings})" if settings else named, flow, bool(changes))


def _accepted(cc: str, flow: dict[str, Any]) -> None:
    """Rejects what no scenario would take."""
    plain = {"duration": "1 s", "link": {"rate": "10 Mbit/s"}, "flows": [{"rtt": "20 ms", **flow}]}
    try:
        from_dict(plain, where=cc)
    except ScenarioError as error:
        key = error.key.replace("flows[0].", "").replace("flows[0]", "flow")
        found = f"{cc}: {error.found}" if key == "cc" else f"{cc}: {key}: {error.found}"
        raise InputError(f"{found}; {error.accepted}.") from None


def registered() -> list[Subject]:
    """All algorithms of ``knee list cc`` but the QUIC stack's own, some of which take hours."""
    return [subject(name) for name in registry.congestion_controls()]


def deployed(names: Sequence[str]) -> list[Subject]:
    """The algorithms of ``--against``.

    Raises:
        InputError: there is none, one is unknown, or one is named twice.
    """
    names = [name.strip() for name in names if name.strip()]
    if not names:
        raise InputError("--against names no algorithm; expected some such as cubic,bbr3,reno.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"--against names {twice} twice; name it once.")
    return [subject(name) for name in names]
