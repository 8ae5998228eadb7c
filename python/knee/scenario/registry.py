"""The registries of the core: congestion controls, queues, models of links, kinds of traffic, and their parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from knee import _core
from knee.errors import Refused, under
from knee.own import OWN, CongestionControl, KernelSource, Named, Policy, is_absent, params_of
from knee.scenario import Core
from knee.scenario.units import MEASURES, near, parse_count, pattern, shown

#: The receiver that acknowledges what has arrived, and nothing else.
HONEST = "honest"

#: A parameter's value in base units: ns, bit/s, bytes, a count, a number, a switch or a word.
Value = int | float | bool | str


@dataclass(frozen=True)
class Param:
    """The declaration of a parameter; ``default``, ``min`` and ``max`` are in base units.

    Attributes:
        required: whether it must be given, so that ``default`` is only an example.
    """

    name: str
    kind: str
    default: Value
    min: Value
    max: Value
    source: str
    about: str
    words: list[str] = field(default_factory=list)
    required: bool = False

    @property
    def accepted(self) -> str:
        """The accepted values, for an error message."""
        if self.kind == "choice":
            return f"expected one of {', '.join(self.words)}"
        if self.kind == "bool":
            return "expected true or false"
        bound = f" ({self.source})" if self.source.endswith(f": at most {self.text(self.max)}") else ""
        return f"expected {self.span}{bound}"

    @property
    def span(self) -> str:
        """The range as text, without the upper end if that exceeds any network."""
        measure = MEASURES.get("packets" if self.kind == "count" else self.kind)  # type: ignore[call-overload]
        if measure is not None and isinstance(self.max, int) and self.max >= measure.most:
            return f"{self.text(self.min)} or more"
        return f"{self.text(self.min)} to {self.text(self.max)}"

    def parse(self, value: object) -> Value:
        """Parses a value of a scenario file into base units.

        Raises:
            Refused: it has the wrong type or unit, or is out of range.
        """
        parsed = self._parse(value)
        # Booleans and words have no range; NaN fails the comparison.
        if self.kind not in ("bool", "choice") and not self.min <= parsed <= self.max:  # type: ignore[operator]
            raise Refused(f"{shown(value)} is out of range", self.accepted)
        return parsed

    def _parse(self, value: object) -> Value:
        match self.kind:
            case "time" | "rate" | "bytes":
                return MEASURES[self.kind].parse(value)
            case "count":
                return parse_count(value)
            case "bool" if isinstance(value, bool):
                return value
            case "ratio" if isinstance(value, int | float) and not isinstance(value, bool):
                if isinstance(value, int) and abs(value) > 2**53:
                    raise Refused(f"{shown(value)} is out of range", self.accepted)
                return float(value)
            case "choice" if isinstance(value, str):
                if value not in self.words:
                    raise Refused(f"{shown(value)} is unknown", near(value, list(self.words)))
                return value
        raise Refused(f"{shown(value)} has the wrong type", self.accepted)

    def plain(self, value: Value) -> Value:
        """The value as scenario files write it; ``parse`` returns the same value for it."""
        return MEASURES[self.kind].text(int(value)) if self.kind in MEASURES else value

    def text(self, value: Value) -> str:
        """The value as listings show it."""
        plain = self.plain(value)
        return str(plain).lower() if isinstance(plain, bool) else str(plain)


def accepted(param: Param) -> dict[str, Any]:
    """What a parameter takes, as a JSON schema."""
    match param.kind:
        case "time" | "rate" | "bytes":
            return {"type": "string", "pattern": pattern(param.kind)}
        case "choice":
            return {"enum": list(param.words)}
        case "bool":
            return {"type": "boolean"}
        case "count":
            return {"anyOf": [{"type": "integer", "minimum": param.min, "maximum": param.max}, {"type": "string"}]}
    return {"type": "number", "minimum": param.min, "maximum": param.max}


#: Pairs of thresholds of which the first may not exceed the second, by the name of their entry.
_ORDERED = {
    "lola": (("q_low", "q_target"),),
    "red": (("min", "max"),),
    "timely": (("t_low", "t_high"), ("min_rate", "max_rate")),
    "vegas": (("alpha", "beta"),),
}


@dataclass(frozen=True)
class Entry:
    """A congestion control, a queue discipline, a model of a link or a receiver.

    Attributes:
        family: of a congestion control; empty for all others.
        phases: names of a congestion control's phases, by number.
        needs: what a congestion control requires of the sender: ``pacing``, ``full_control``, ``ecn``; and a receiver
            of the scenario: ``receive_window``.
    """

    name: str
    about: str
    source: str
    params: dict[str, Param]
    family: str = ""
    phases: tuple[str, ...] = ()
    needs: dict[str, Any] = field(default_factory=dict)

    def resolve(self, given: dict[str, Value]) -> dict[str, Value]:
        """Values of all parameters in base units: those given, and defaults for the others."""
        if is_absent(self.name):
            # Read from a result, and never run.
            return dict(given)
        values = {name: param.default for name, param in self.params.items()}
        for name, value in given.items():
            param = self.params.get(name)
            if param is None and not self.params:
                raise Refused(f"{self.name} has no parameters", "leave it out", key=name)
            if param is None:
                raise Refused(f"{self.name} has no such parameter", near(name, list(self.params)), key=name)
            with under(name):
                values[name] = param.parse(value)
        for lower, upper in _ORDERED.get(self.name, ()):
            if values[lower] > values[upper]:  # type: ignore[operator]
                low, high = (self.params[name].text(values[name]) for name in (lower, upper))
                if upper in given:
                    raise Refused(f"{high} is below {lower}, which is {low}", f"expected {low} or more", key=upper)
                raise Refused(f"{low} is above {upper}, which is {high}", f"expected {high} or less", key=lower)
        if values.get("slow_start") == "careful_resume" and not values["saved_cwnd"]:
            found = 'slow_start = "careful_resume" has no window to resume'
            raise Refused(found, "expected the window of an earlier connection, in packets", key="saved_cwnd")
        return values

    def plain(self, values: dict[str, Value]) -> dict[str, Value]:
        """Resolved values as scenario files write them."""
        return {
            name: self.params[name].plain(value) if name in self.params else value for name, value in values.items()
        }

    def tagged(self, values: dict[str, Value]) -> dict[str, dict[str, Value]]:
        """Resolved values in the core's form, each tagged with its kind."""
        return {name: {self.params[name].kind: value} for name, value in values.items()}


@dataclass(frozen=True)
class Kind(Entry):
    """A kind of traffic.

    Attributes:
        datagrams: whether it goes in datagrams, not over connections.
        pulls: whether its application sits where the flow's data goes to.
        echoes: whether the other end sends each datagram back; such kinds are for probes, not for flows.
        sockets: whether it also runs over the sockets of a real kernel.
        tables: its keys that take more than a single value.
    """

    datagrams: bool = False
    pulls: bool = False
    echoes: bool = False
    sockets: bool = False
    tables: tuple[TableKey, ...] = ()


@dataclass(frozen=True)
class TableKey:
    """A key of a kind of traffic that takes a table, a list or a file.

    Attributes:
        name: the key.
        form: what it holds, a key of :data:`knee.scenario.traffic.FORMS`.
        about: one line on what it does.
        required: whether a scenario must give it.
    """

    name: str
    form: str
    about: str
    required: bool


def _entry(raw: dict[str, Any], make: type[Entry]) -> Entry:
    params = {param["name"]: Param(**param) for param in raw["params"]}
    tables = {"tables": tuple(TableKey(**table) for table in raw["tables"])} if "tables" in raw else {}
    return make(**{**raw, **tables, "params": params, "phases": tuple(raw.get("phases", ()))})


class _Entries(dict[str, Entry]):
    """Entries by name, in the order of listings. A class, which its name has with it, is found without an entry."""

    def __missing__(self, name: str) -> Entry:
        if isinstance(name, Named):
            return _own_entry(name)
        raise KeyError(name)


@cache
def _registry() -> dict[str, dict[str, Entry]]:
    parts: dict[str, dict[str, Entry]] = {
        part: _Entries({raw["name"]: _entry(raw, Kind if part == "traffic" else Entry) for raw in entries})
        for part, entries in json.loads(_core.registry()).items()
    }
    return parts | {"flows": _Entries(parts["cc"] | parts["quic"])}


def of(part: str) -> dict[str, Entry]:
    """The entries of a part of the registry by name, in the order of listings.

    Args:
        part: ``links``, how a link sends at its rate; ``losses``, how it loses packets before its queue; ``delays``,
            distributions of the extra delay behind it; ``queues``; ``receivers``, the honest one first; ``cc``;
            ``quic``; or ``flows``, both of these.
    """
    return _registry()[part]


@cache
def quic_presets() -> dict[str, dict[str, Any]]:
    """By name of a stack whose defaults the simulator's endpoints can have, keys of ``[quic]`` in base units."""
    return dict(json.loads(_core.quic_presets()))


#: QUIC stacks beside quinn (docs/quic.md).
STACKS = ("noq",)


def stack(name: str) -> str | None:
    """The stack beside quinn, one of STACKS, that a controller of this name is of."""
    return next((each for each in STACKS if name.startswith(f"{each}:")), None)


#: All congestion controls.
congestion_controls = partial(of, "cc")
#: The controllers that QUIC stacks bring themselves; only flows over QUIC can have them.
quic_controllers = partial(of, "quic")
#: All that a flow's ``cc`` can name: congestion controls, then the QUIC stacks' own controllers.
flow_controls = partial(of, "flows")
#: All queue disciplines.
queues = partial(of, "queues")


def phases(cc: str) -> tuple[str, ...]:
    """The phases of a flow's congestion control; a class in Python, which may be here by its name alone, has one."""
    known = flow_controls()
    return known[cc].phases if cc in known or isinstance(cc, Named) else _RUNNING


#: The phase of a class written in Python.
_RUNNING = ("running",)


def _own_entry(name: Named) -> Entry:
    own = name.of
    about = (own.__doc__ or "").partition("\n")[0]
    params = {key: param.named(key) for key, param in params_of(own).items()}
    if not issubclass(own, CongestionControl):
        return Entry(name, about, "Python", params)
    needs = {"pacing": own.pacing, "full_control": own.full_control, "ecn": "classic"}
    if issubclass(own, KernelSource):
        # Of a module only the window tells the phase, as of Reno.
        return Entry(name, about, "C", params, family="own", phases=of("cc")["reno"].phases, needs=needs)
    source = "a file of weights" if issubclass(own, Policy) else "Python"
    return Entry(name, about, source, params, family="own", phases=_RUNNING, needs=needs)


@cache
def traffic() -> dict[str, Kind]:
    """All kinds of traffic that a flow can carry, by name, in the order of listings."""
    return {name: entry for name, entry in of("traffic").items() if isinstance(entry, Kind) and not entry.echoes}


def traffic_load(spec: Core) -> int | None:
    """The mean rate that a flow's traffic, in the core's form, offers, bit/s; None where it takes what it gets."""
    return _core.traffic_load(json.dumps(spec))


def mean_size(spec: Core) -> float:
    """The mean of a distribution of sizes, in the core's form, bytes; those beyond its greatest count as that."""
    return _core.mean_size(json.dumps(spec))


def access_delay(name: str, values: dict[str, Value], rate: int) -> int:
    """How long a packet may wait at a link of this model although no other does, ns; ``rate`` in bit/s."""
    return _core.link_access(name, json.dumps(of("links")[name].tagged(values)), rate)


def find(kind: str, name: object, known: Mapping[str, Entry]) -> Entry:
    """The entry called ``name``.

    Raises:
        Refused: there is none; the error lists similar names.
    """
    if not isinstance(name, str):
        raise Refused(f"{shown(name)} is not a name", f"expected the name of a {kind} in quotes")
    entry = known[name] if isinstance(name, Named) and isinstance(known, _Entries) else known.get(name)
    if entry is None and name.startswith(OWN):
        found = f"{shown(name)} is a Python class, which a file cannot name"
        raise Refused(found, f"in Python, give knee.run the class {shown(name.removeprefix(OWN))} itself")
    if entry is None:
        raise Refused(f"no {kind} is called {shown(name)}", near(name, list(known)))
    return entry
