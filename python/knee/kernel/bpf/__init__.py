"""Congestion controls and cocoa as BPF: compiles them, loads them into the running kernel, shows and unloads them.

A loaded algorithm is a folder in :data:`PINS`. It stays after the command has ended, until ``unload`` or a restart. Its
settings and the previous default are in :data:`RECORDS`, which a restart also empties. A command that changes either
holds a lock, which the loader inherits. If an incomplete algorithm is found while nobody holds the lock, a killed
command left it. Pins without a record are those of the units of the package knee-bpf: they are shown, and left alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

from knee.errors import InputError, Refused, RunError
from knee.kernel import modules, options
from knee.kernel.bpf import build, defaults, qdisc
from knee.kernel.bpf.loader import BPFFS, PINS, RECORDS, call
from knee.own import kernel_name
from knee.results.owned import locked
from knee.scenario import registry
from knee.scenario.registry import Param
from knee.scenario.units import near
from knee.system import abilities, rights

#: The files of a loaded algorithm in the two; nothing else is ever removed there.
_PINNED = ("link", "defaults", "connections", "qdiscs", "flows", "options", "version")
_RECORDED = ("record.json",)
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@dataclass(frozen=True)
class Connection:
    """What a connection shows of itself; times in us, the window in packets, data in bytes.

    Attributes:
        phase: the algorithm's, by name.
        rounds: LoLa's rounds, backoffs or round trips, as the algorithm counts.
        updated: the kernel's monotonic clock in us at its last word.
    """

    local_port: int
    remote: str
    remote_port: int
    phase: str
    cwnd: int
    rtt_now: int
    rtt_min: int
    q_delay: int
    q_data: int
    rounds: int
    updated: int


@dataclass(frozen=True)
class Loaded:
    """An algorithm in the running kernel.

    Attributes:
        settings: what was set when it was loaded, as given.
        default: whether new connections take it unless they ask for another.
        namespaces: number of other network namespaces where they do.
        connections: those that have it.
    """

    name: str
    settings: dict[str, str]
    default: bool
    namespaces: int
    connections: list[Connection]


@dataclass(frozen=True)
class Discipline:
    """A queue discipline in the running kernel.

    Attributes:
        kind: what ``tc`` calls it.
        settings: the defaults of its options that were set when it was loaded, as given.
        devices: those that have it.
    """

    name: str
    kind: str
    settings: dict[str, str]
    devices: list[str]


def load(
    name: str, settings: dict[str, str], *, default: bool = False, remark: Callable[[str], None] | None = None
) -> None:
    """Loads an algorithm into the running kernel.

    Args:
        name: one of ``build.algorithms()`` or ``build.disciplines()``, or what the registry calls it.
        settings: values of its parameters by name, as scenario files write them.
        default: whether new connections take it from now on.
        remark: called with a sentence before something takes long.

    Raises:
        InputError: there is no such algorithm or parameter, or a value is out of range; nothing is loaded.
        RunError: something is missing here, or the kernel refuses it; with the verifier's reason. Nothing is loaded.
    """
    name, names = kernel_name(name), [*build.algorithms(), *build.disciplines()]
    if name not in names:
        raise InputError(f"No BPF version of {name} exists; {near(name, names)}.")
    if default and name in build.disciplines():
        raise InputError(f"--default: {name} is a queue discipline; sysctl net.core.default_qdisc chooses the default.")
    numbers = _numbers(name, settings)
    lacking = build.missing() + build.kernel_of_storage(name)
    lacking += build.kernel_of_disciplines() if name in build.disciplines() else []
    build.require(lacking, f"{name} cannot be loaded here")
    _records()
    # Compile before taking the lock.
    if remark is not None and not build.is_built(name):
        remark(f"compiles {name} and its loader, once, which takes about a minute ...")
    build.program(name)
    build.loader()
    with _locked() as lock:
        _sweep()
        _load(name, settings, numbers, default, lock)


def _load(name: str, settings: dict[str, str], numbers: dict[str, int], default: bool, lock: int) -> None:
    if (PINS / name).exists():
        raise InputError(f"{name} is already loaded; knee linux unload {name} removes it.")
    if name in _AVAILABLE.read_text().split():
        raise InputError(
            f"This kernel already includes {name}, so there is nothing to load; connections can select it."
        )
    _mount()
    with rights.private(PINS, make=0o700):
        pass
    record = RECORDS / name
    record.mkdir(mode=0o755)
    try:
        note = {"settings": settings, "before": defaults.DEFAULT.read_text().strip() if default else None}
        (record / "record.json").write_text(json.dumps(note))
        changes = [f"--set={key}={value}" for key, value in numbers.items()]
        arguments = ["load", str(build.program(name)), str(PINS / name), *changes]
        call(build.loader(), arguments, f"{name} was not loaded (compiled by {build.compiler()})", lock)
    except BaseException:
        shutil.rmtree(record, ignore_errors=True)
        raise
    if default:
        defaults.DEFAULT.write_text(name)


def unload(name: str) -> int:
    """Unloads an algorithm and restores the default that it replaced, in all network namespaces that can be found.

    Returns:
        Number of connections that use it; they keep it until they end.

    Raises:
        InputError: it is not loaded.
    """
    name = kernel_name(name)
    build.require(build.privileges(), f"{name} cannot be unloaded")
    with _locked():
        return _unload(name)


def _unload(name: str) -> int:
    if name not in rights.folders(PINS):
        names = [*(each.name for each in loaded()), *(each.name for each in disciplines())]
        raise InputError(f"{name} is not loaded; {', '.join(names) or 'nothing'} is.")
    if not _is_recorded(name):
        raise InputError(
            f"{name} was not loaded by knee linux load; sudo systemctl stop knee-bpf@{name} unloads it, or "
            f"sudo knee-bpf unload {PINS / name}."
        )
    if name in build.disciplines():
        qdisc.require_unused()
        _forget(name)
        return 0
    connections = _connections(name)
    _restore_default(name)
    _forget(name)
    return len(connections)


def _restore_default(name: str) -> None:
    before = _record(name).get("before")
    if not before:
        return
    defaults.restore(name, before)
    for other in rights.folders(RECORDS):
        # It replaced this one as the default, so what this one replaced is what it has to restore.
        if (note := _record(other)).get("before") == name:
            (RECORDS / other / "record.json").write_text(json.dumps(note | {"before": before}))


def _forget(name: str) -> None:
    """Removes the pins and the record."""
    # Does the same as the loader's unload command, and works without the loader.
    rights.remove(PINS, name, _PINNED)
    rights.remove(RECORDS, name, _RECORDED)


def sweep() -> list[str]:
    """Removes what a killed ``load`` or ``unload`` left incomplete, and returns the names; loaded algorithms stay.

    Raises:
        RunError: that needs root.
    """
    if not RECORDS.exists():
        return []
    build.require(build.privileges(), "What a killed command left cannot be seen")
    with _locked():
        return _sweep()


def _sweep() -> list[str]:
    known = (*build.algorithms(), *build.disciplines())
    pinned = rights.folders(PINS)
    halves = [name for name in rights.folders(RECORDS) if name in known and not (name in pinned and _whole(name))]
    for name in halves:
        _restore_default(name)
        _forget(name)
    return halves


def _whole(name: str) -> bool:
    # The maps are pinned after the link.
    last = "version" if name in build.disciplines() else "connections"
    return _is_recorded(name) and all((PINS / name / part).exists() for part in ("link", last))


def _is_recorded(name: str) -> bool:
    """Whether ``knee linux load`` loaded it, and not the loader alone."""
    return (_records() / name / "record.json").exists()


def _records() -> Path:
    """:data:`RECORDS`; root believes none that another user could have written."""
    if abilities.is_root():
        for folder in (RECORDS.parent, RECORDS):
            with suppress(FileNotFoundError), rights.private(folder):
                pass
    return RECORDS


@contextmanager
def _locked() -> Iterator[int]:
    """Waits until no other command loads or unloads; yields the lock, which a child may inherit."""
    for folder in (RECORDS.parent, RECORDS):
        with rights.private(folder, make=0o755):
            pass
    with locked(RECORDS) as lock:
        yield lock


def loaded() -> list[Loaded]:
    """The loaded congestion controls and the connections that use them."""
    build.require(build.privileges(), "What is loaded cannot be seen")
    now = defaults.DEFAULT.read_text().strip()
    names = [name for name in _registered() if name not in build.disciplines()]
    others = defaults.others()
    return [Loaded(name, _settings(name), name == now, others[name], _connections(name)) for name in names]


def disciplines() -> list[Discipline]:
    """The loaded queue disciplines and the devices that have them."""
    build.require(build.privileges(), "What is loaded cannot be seen")
    names = [name for name in _registered() if name in build.disciplines()]
    return [Discipline(name, qdisc.KIND, _record(name).get("settings", {}), qdisc.users()) for name in names]


def _registered() -> list[str]:
    _records()
    known = (*build.algorithms(), *build.disciplines())
    return [name for name in rights.folders(PINS) if name in known and (PINS / name / "link").exists()]


def remaining() -> dict[str, int]:
    """Number of network namespaces whose default is an algorithm that is no longer loaded, by its name."""
    build.require(build.privileges(), "Network namespaces cannot be looked at")
    known = {*rights.folders(PINS), *_AVAILABLE.read_text().split()}
    found = defaults.others() + Counter([defaults.DEFAULT.read_text().strip()])
    return {name: count for name, count in found.items() if name in build.algorithms() and name not in known}


def values(name: str) -> dict[str, registry.Value]:
    """All parameter values of a loaded algorithm, or its defaults if it is not loaded."""
    name = kernel_name(name)
    params = modules.declared(name)
    given = {key: params[key].parse(_value(params[key], text)) for key, text in _settings(name).items()}
    return {key: param.default for key, param in params.items()} | given


def _settings(name: str) -> dict[str, str]:
    """What was set when an algorithm was loaded: as given, or as the kernel has it where nothing is on record."""
    if _is_recorded(name) or not abilities.is_root() or name not in _registered():
        return dict(_record(name).get("settings", {}))
    if name in build.disciplines():
        return {}
    numbers = json.loads(call(build.loader(), ["values", str(PINS / name)], f"the settings of {name} cannot be read"))
    return modules.settings(name, numbers)


def shown(name: str) -> dict[str, Any] | None:
    """The map in which the connections of a loaded algorithm publish their state, for frequent readers.

    Returns:
        ``pin``, the path of the map, and ``layout``, the offset and size in bytes of each member of its values; None
        if the algorithm is not loaded.
    """
    name = kernel_name(name)
    pin = PINS / name / "connections"
    if name not in rights.folders(PINS) or not pin.exists():
        return None
    layout = call(build.loader(), ["layout", str(PINS / name)], f"what {name} shows cannot be read")
    return {"pin": str(pin), "layout": json.loads(layout)}


def _numbers(name: str, settings: dict[str, str]) -> dict[str, int]:
    if name in build.disciplines():
        return _numbers_of_discipline(settings)
    params = modules.declared(name)
    numbers: dict[str, int] = {}
    for key, text in settings.items():
        param = params.get(key)
        if param is None and key in registry.congestion_controls()[modules.registry_name(name)].params:
            raise InputError(f"--set {key}: only the simulator's {name} has it, not the one in the kernel.")
        if param is None:
            raise InputError(f"--set {key}: {name} has no such parameter; {near(key, list(params))}.")
        try:
            numbers |= modules.parameters(name, {key: param.parse(_value(param, text))})
        except Refused as refused:
            raise InputError(f"--set {key}={text}: {refused}.") from None
    return numbers


def _numbers_of_discipline(settings: dict[str, str]) -> dict[str, int]:
    known = options.parameters()
    try:
        given = {key: _value(known[key], text) if key in known else text for key, text in settings.items()}
        return qdisc.options(options.parse(given))
    except Refused as refused:
        raise InputError(f"--set {refused.key}: {refused}.") from None


def _value(param: Param, text: str) -> object:
    """The value that a scenario file would have for ``text`` of a command line."""
    if param.kind == "bool":
        return {"true": True, "false": False}.get(text, text)
    try:
        return int(text) if param.kind == "count" else float(text) if param.kind == "ratio" else text
    except ValueError:
        return text


def _record(name: str) -> dict[str, Any]:
    try:
        return dict(json.loads((_records() / name / "record.json").read_text()))
    except (OSError, ValueError):
        return {}


def _connections(name: str) -> list[Connection]:
    phases = registry.congestion_controls()[modules.registry_name(name)].phases
    shown = call(build.loader(), ["show", str(PINS / name)], f"{name} shows nothing")
    connections = []
    for entry in json.loads(shown):
        words = [entry[f"remote_{i}"].to_bytes(4, sys.byteorder) for i in range(4)]
        address = IPv6Address(b"".join(words))
        connections.append(
            Connection(
                local_port=entry["local_port"],
                remote=str(address.ipv4_mapped or address),
                remote_port=int.from_bytes(entry["remote_port"].to_bytes(2, sys.byteorder), "big"),
                phase=phases[entry["phase"]] if entry["phase"] < len(phases) else "",
                **{key: entry[key] for key in ("cwnd", "rtt_now", "rtt_min", "q_delay", "q_data", "rounds", "updated")},
            )
        )
    return sorted(connections, key=lambda each: (each.local_port, each.remote, each.remote_port))


def _mount() -> None:
    """Mounts the BPF file system for pins, for root only, unless the machine already has."""
    if os.path.ismount(BPFFS):
        return
    done = subprocess.run(
        ["mount", "-t", "bpf", "-o", "mode=0700", "bpf", str(BPFFS)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RunError(f"The BPF file system cannot be mounted at {BPFFS}: {done.stderr.strip()}.")
