"""cocoa as a BPF queue discipline: its options by interface and its statistics, both in maps that the loader reads."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from knee.errors import InputError, Refused, RunError
from knee.kernel.bpf import build, loader
from knee.kernel.options import attributes, parameters
from knee.scenario.registry import Param, Value
from knee.system import rights
from knee.system.missing import AS_ROOT

#: The program, and the kind of queue discipline that the kernel has by it.
NAME, KIND = "cocoa", "cocoa_bpf"
#: Options that only the module has: a BPF discipline cannot write to packets.
_ONLY_MODULE = ("ce_threshold",)


def declared() -> dict[str, Param]:
    """The options, by name."""
    return {name: param for name, param in parameters().items() if name not in _ONLY_MODULE}


def options(given: Mapping[str, Value]) -> dict[str, int]:
    """Converts values in base units to the program's integers.

    Raises:
        Refused: it has no such option, or a value cannot be expressed.
    """
    for name in given:
        if name in _ONLY_MODULE:
            raise Refused(f"{KIND} cannot mark packets", "only the module cocoa has it", key=name)
    return {name.removeprefix("TCA_COCOA_").lower(): number for name, number in attributes(given)}


def require_loaded() -> None:
    """Raises an error unless ``knee linux load`` has loaded the program."""
    if NAME not in rights.folders(loader.PINS):
        raise RunError(f"{KIND} is not loaded; {AS_ROOT} linux load {NAME} does it.")


def set_options(index: int, numbers: Mapping[str, int], *, replace: bool) -> None:
    """Sets options of an interface of this network namespace; with ``replace``, all others to the defaults.

    Raises:
        RunError: the program is not loaded, or the kernel refuses it.
    """
    require_loaded()
    changes = [f"--set={name}={number}" for name, number in numbers.items()]
    anew = ["--replace"] if replace else []
    _call(["options", *_places(), str(index), *anew, *changes], f"options of {KIND} were not set")


def shown() -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """The disciplines and the flows of all network namespaces, as the program has them."""
    require_loaded()
    found = json.loads(_call(["show", *_places()], f"{KIND} shows nothing"))
    return found["qdiscs"], found["flows"]


def is_on(discipline: Mapping[str, int], index: int) -> bool:
    """Whether a discipline is on the interface with that index in this network namespace."""
    return (discipline["netns"], discipline["ifindex"]) == (_namespace(), index)


def users() -> list[str]:
    """The interfaces that have a discipline, for people."""
    names = []
    for each in shown()[0]:
        name = f"interface {each['ifindex']} of another network namespace"
        if each["netns"] == _namespace():
            # It may have been removed just now.
            with suppress(OSError):
                name = socket.if_indextoname(each["ifindex"])
        names.append(name)
    return sorted({*names})


def require_unused() -> None:
    """Raises an error if an interface has a discipline.

    The kernel would keep the program for it, with options and statistics that nobody could reach.
    """
    if used := users():
        raise InputError(
            f"{KIND} is on {', '.join(used)}; replace it there first, as with tc qdisc del dev {used[0]} root."
        )


def _places() -> list[str]:
    return [str(loader.PINS / NAME)]


def _namespace() -> int:
    return Path("/proc/self/ns/net").stat().st_ino


def _call(arguments: list[str], failed: str) -> str:
    return loader.call(build.loader(), arguments, failed)
