"""The algorithm under evaluation, and those it is compared with: what a flow of each is."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from knee.errors import InputError, ScenarioError, input_errors
from knee.evaluate.criteria import PLACE
from knee.evaluate.outcome import carrier
from knee.evaluate.place import SIM, Place
from knee.grounds import programs
from knee.own import IN_FILE, IN_SOURCE, kernel_source, name_of, policy_of
from knee.scenario import Plain, from_dict, registry
from knee.scenario.loading import apply, tables
from knee.scenario.units import shown

#: The keys of a flow that ``--set`` may change.
_KEYS = ("cc_params", "transport", "pacing", "ecn", "tls", "program", "traffic")
#: The keys of X's flows that the deployed ones' have too, with their defaults: they are of endpoints, not algorithms.
_ENDPOINT = {"transport": "tcp", "tls": False, "pacing": "auto", "ecn": False}
#: The receive window of QUIC flows: what ``knee-evaluate`` gives all flows. Several times what any path and buffer of
#: the criteria hold, so that it limits none but an algorithm that sends all at once, as quinn's BBR behind a policer.
_QUIC_WINDOW = "64 MiB"
#: Real-time video by its controller's name. The encoder's highest rate is above that of most links, as a bulk
#: sender's is.
VIDEO = {name: {"kind": "rtc", "controller": name, "max_rate": "100 Mbit/s"} for name in ("gcc", "scream")}
#: How the name of a file ends that has the keys of a flow.
_FILE = ".toml"
#: What of a name may be in a file's.
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Subject:
    """An algorithm, a pair of programs, or real-time video, as it comes in the place of :data:`PLACE`.

    Attributes:
        name: what tables call it.
        flow: the keys of its flows: ``cc``, ``program`` or ``traffic``, what a file or ``--set`` gave, and the
            transport of a QUIC stack's own controller.
        changed: whether ``--set`` gave something.
    """

    name: str
    flow: Plain
    changed: bool = False

    @property
    def folder(self) -> str:
        """A folder's name for its runs, which depends on its parameters."""
        plain = _PLAIN.sub("-", self.name.rpartition("/")[2]).strip("-.")[:60] or "own"
        if not self.changed:
            return plain
        return f"{plain}-{hashlib.sha256(json.dumps(self.flow, sort_keys=True).encode()).hexdigest()[:8]}"

    @property
    def is_program(self) -> bool:
        """Whether its flows are programs, of which only packets are seen."""
        return "program" in self.flow

    @property
    def transport(self) -> str:
        """The transport of its flows (:func:`knee.evaluate.outcome.carrier`)."""
        return carrier(self.flow)

    @property
    def is_code(self) -> bool:
        """Whether it is a class or the source of a module in a file."""
        return any(pattern.fullmatch(str(self.flow.get("cc"))) for pattern in (IN_FILE, IN_SOURCE))

    @property
    def is_video(self) -> bool:
        """Whether its flows are real-time video in datagrams."""
        return "traffic" in self.flow

    def placed(self, data: Plain) -> Plain:
        """A criterion's scenario with this algorithm in its place.

        Raises:
            ScenarioError: it is video, where the criterion asks for something else that is carried.
        """
        made = copy.deepcopy(data)
        for i, flow in enumerate(made["flows"]):
            if flow.get("cc") != PLACE:
                continue
            other = next((key for key in ("traffic", "bytes") if key in flow and self.is_video), None)
            if other is not None:
                found = f"{self.name} is real-time video, which carries nothing else"
                raise ScenarioError("", f"flows[{i}].{other}", found, "expected a congestion control")
            made["flows"][i] = {**flow, **copy.deepcopy(self.flow)}
            if "cc" not in self.flow:
                del made["flows"][i]["cc"]
        if self.transport == "quic":
            made["quic"] = {"receive_window": _QUIC_WINDOW, **made.get("quic", {})}
        return made


def absent(data: Plain) -> Plain:
    """A criterion's scenario without the algorithm: what the others are worth alone."""
    flows = [flow for flow in data["flows"] if flow.get("cc") != PLACE]
    return {**copy.deepcopy(data), "flows": copy.deepcopy(flows)}


def subject(name: str, changes: Sequence[str] = (), place: Place = SIM, *, allow_programs: bool = False) -> Subject:
    """An algorithm by name or file, with changes: ``mine.py:Mine``, ``tcp_mine.c``, or a flow in a TOML file.

    Args:
        name: the name, class or file; the C source of a kernel module is compiled. A stack's own controllers, such as
            ``quinn:bbr``, run over QUIC. ``gcc`` and ``scream`` are real-time video.
        changes: keys of its flows, as ``cc_params.q_target=10 ms``.
        place: where it is to run.
        allow_programs: whether it may be programs, which run on this machine.

    Raises:
        InputError: there is no such algorithm or flow, it cannot run there, a change is not one, a file or program may
            not be run, or a source does not compile.
    """
    video = {"traffic": dict(VIDEO[name])} if name in VIDEO else None
    flow: Plain = _flow_in(Path(name)) if name.endswith(_FILE) else video or {"cc": name}
    if flow.get("cc") in registry.quic_controllers():
        flow.setdefault("transport", "quic")
    for change in changes:
        key = change.partition("=")[0].strip()
        if key.partition(".")[0] not in _KEYS:
            keys = ", ".join(_KEYS)
            raise InputError(f"--set {change}: {key} is no key of X's flows that may be set; expected one of {keys}.")
    with input_errors("--set: "):
        flow = apply(flow, list(changes))
    with input_errors(f"{name}: "):
        named = Path(name).name if name.endswith(_FILE) else str(name_of(name))
    _accepted(name, flow, place, allow_programs)
    if (file := IN_FILE.fullmatch(str(flow.get("cc")))) is not None:
        # A scenario that is written elsewhere finds the file by its whole path.
        flow["cc"] = f"{Path(file['file']).resolve()}:{file['name']}"
    elif (policy := policy_of(name_of(flow.get("cc")))) is not None:
        flow["cc"] = f"policy:{policy.path}"
    elif IN_SOURCE.fullmatch(str(flow.get("cc"))) is not None:
        source = kernel_source(name_of(flow["cc"]))
        assert source is not None
        flow["cc"] = str(source.path)
        place.compile(source)
    settings = ", ".join(sorted(change.strip().removeprefix("cc_params.") for change in changes))
    return Subject(f"{named} ({settings})" if settings else named, flow, bool(changes))


def _flow_in(path: Path) -> Plain:
    """The keys of a flow in a TOML file: what it is, while the criteria say where and when it runs.

    Raises:
        InputError: it cannot be read, or has other keys.
    """
    kinds = ("program", "traffic")
    rest = ", ".join(key for key in _KEYS if key not in kinds)
    keys = f"expected the keys of one flow: cc, program or traffic, {rest}"
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; {keys}.")
    flow, _ = tables(path)
    other = next((key for key in flow if key not in ("cc", *_KEYS)), None)
    if other is not None:
        found = "it is a scenario, and the criteria have their own" if "flows" in flow else "the criteria set that"
        raise InputError(f"{path}: {other}: {found}; {keys}.")
    if not {"cc", *kinds} & set(flow):
        raise InputError(f"{path}: it has neither cc nor program nor traffic; {keys}.")
    return flow


def _accepted(name: str, flow: Plain, place: Place, allow_programs: bool) -> None:
    """Rejects what no scenario would take there."""
    traffic = flow.get("traffic")
    if traffic is not None and not (isinstance(traffic, dict) and traffic.get("kind") == "rtc"):
        raise InputError(f'{name}: traffic: the criteria set what is carried; expected kind = "rtc", or no traffic.')
    try:
        scenario = from_dict(place.adapted(_alone(flow)), where=name)
        place.refuse(scenario, name)
        programs.check_allowed(scenario, allow_programs, name)
    except ScenarioError as error:
        key = error.key.replace("flows[0].", "").replace("flows[0]", "flow")
        found = f"{name}: {error.found}" if key == "cc" else f"{name}: {key}: {error.found}"
        raise InputError(f"{found}; {error.accepted}.") from None


def _alone(flow: Plain) -> Plain:
    """The flow in a scenario."""
    return {"duration": "1 s", "link": {"rate": "10 Mbit/s"}, "flows": [{"rtt": "20 ms", **flow}]}


def registered(place: Place = SIM) -> list[Subject]:
    """All that ``knee list cc`` has and runs there but the QUIC stack's own, some of which take hours; and video."""
    found = []
    for name in (*registry.congestion_controls(), *VIDEO):
        try:
            found.append(subject(name, place=place))
        except InputError:
            # Of those, each runs in the simulator.
            if place == SIM:
                raise
    return found


def deployed(names: Sequence[str], place: Place = SIM, one: Subject | None = None) -> list[Subject]:
    """The algorithms of ``--against``, over X's transport and with the settings of its endpoints.

    A QUIC stack's own controllers keep to QUIC, and beside a program or video the deployed ones run over TCP.

    Args:
        names: the algorithms.
        place: where they run.
        one: X; by default one over TCP, with the defaults.

    Raises:
        InputError: there is none, one is unknown or does not run there, or as X does, or one is named twice.
    """
    names = [name.strip() for name in names if name.strip()]
    if not names:
        raise InputError("--against names no algorithm; expected some such as cubic,bbr3,reno.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"--against names {twice} twice; name it once.")
    file = next((name for name in names if name.endswith(_FILE)), None)
    if file is not None:
        raise InputError(f"--against: {file} is a file; expected names of algorithms, such as cubic,bbr3,reno.")
    try:
        return [_like(one, subject(name, place=place), place) for name in names]
    except InputError as error:
        raise InputError(f"--against: {error}") from None


def _like(one: Subject | None, other: Subject, place: Place) -> Subject:
    """A deployed algorithm whose endpoints are X's."""
    if one is None or one.transport not in ("tcp", "quic") or other.is_video:
        return other
    keys = {key: one.flow[key] for key in _ENDPOINT if key in one.flow}
    if from_dict(place.adapted(_alone(other.flow))).flows[0].ecn:
        # It needs ECN of its kind.
        keys.pop("ecn", None)
    elif keys.get("ecn") == "l4s":
        # ECT(1) is a promise of the algorithm's (RFC 9331, 4.1).
        keys["ecn"] = "accurate"
    if other.transport == "quic" != one.transport:
        keys = {key: keys[key] for key in keys if key == "ecn"}
    changed = {key: value for key, value in keys.items() if other.flow.get(key, _ENDPOINT[key]) != value}
    if not changed:
        return other
    flow = {**other.flow, **changed}
    try:
        _accepted(other.name, flow, place, allow_programs=False)
    except InputError as error:
        told = ", ".join(f"{key} = {shown(value)}" for key, value in changed.items())
        raise InputError(f"{error} The deployed ones run as X does, with {told}.") from None
    return replace(other, flow=flow, changed=True)
