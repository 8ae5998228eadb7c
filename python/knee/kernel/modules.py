"""Congestion controls of the kernels that ``knee linux build`` builds, and parameters in kernel units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from knee.errors import Refused
from knee.kernel.cache import CONFIG, SOURCES
from knee.own import kernel_name
from knee.scenario.registry import Param, Value, congestion_controls

#: Linux's names of configuration options that differ from the algorithm's own name.
_NAMES = {"hstcp": "highspeed"}
#: What a ratio of one is in the fixed-point arithmetic of ``linux/include``.
_ONE = {"lola": 1 << 10, "lola-wild": 1 << 10, "daimd": 10**6, "bbr3": 1000}
#: Parameters that only the simulator has, by the start of their names: BBRv3's kernel and response to accurate ECN, and
#: LoLa's forms, of which the module has "paper".
_SIMULATED = {
    "bbr3": ("kernel", "ecn_", "startup_full_ecn_cnt"),
    "lola": ("form",),
}
#: The greatest value of a parameter, which has 32 bits.
_MAX = 2**32 - 1


def registry_name(name: str) -> str:
    """The registry's name of a congestion control of ``linux/modules`` or ``linux/bpf``."""
    return next((cc for cc in congestion_controls() if kernel_name(cc) == name), name)


@cache
def module_ccs() -> tuple[str, ...]:
    """The congestion controls that are modules of this project, by their names in the registry."""
    files = (SOURCES / "modules").glob("tcp_*.c")
    return tuple(sorted(registry_name(path.stem.removeprefix("tcp_")) for path in files))


@cache
def kernel_ccs() -> tuple[str, ...]:
    """Linux's congestion controls that are built in, by their names in the registry and in its order."""
    options = re.findall(r"^CONFIG_TCP_CONG_(\w+)=y$", CONFIG.read_text(encoding="utf-8"), re.MULTILINE)
    # Reno has no option; ADVANCED only makes the others selectable.
    built = {"reno"} | {_NAMES.get(option.lower(), option.lower()) for option in options} - {"advanced"}
    return tuple(name for name in congestion_controls() if name in built)


def declared(cc: str) -> dict[str, Param]:
    """The parameters that ``tcp_CC.ko`` or ``CC.bpf.o`` has, by name; ``cc`` as the registry or Linux calls it."""
    cc = registry_name(cc)
    return {
        name: param
        for name, param in congestion_controls()[cc].params.items()
        if not name.startswith(_SIMULATED.get(cc, ()))
    }


def parameters(cc: str, given: Mapping[str, Value]) -> dict[str, int]:
    """Parameters of ``tcp_CC.ko`` or ``CC.bpf.o`` as integers: times in us, ratios in fixed point, choices by number.

    Args:
        cc: a congestion control of ``linux/modules`` or ``linux/bpf``, as the registry or Linux calls it.
        given: values in base units, by name.

    Raises:
        Refused: the kernel's integers cannot express a value, or only the simulator has the parameter.
    """
    cc = registry_name(cc)
    known = declared(cc)
    numbers: dict[str, int] = {}
    for name, value in given.items():
        if name.startswith(_SIMULATED.get(cc, ())):
            param = congestion_controls()[cc].params[name]
            if value != param.default:
                accepted = f"leave it at {param.text(param.default)}"
                raise Refused("only the simulator has this parameter", accepted, key=f"cc_params.{name}")
            continue
        param = known[name]
        # What the integer 1 means, in base units.
        unit = 1000 if param.kind == "time" else 1 / _ONE[cc] if param.kind == "ratio" else 1
        if param.kind == "time" and int(value) % unit:
            found = f"{param.text(value)} is no whole number of microseconds"
            raise Refused(found, "the kernel takes whole microseconds", key=f"cc_params.{name}")
        number = param.words.index(str(value)) if param.kind == "choice" else round(float(value) / unit)
        if number > _MAX:
            found = f"{param.text(value)} does not fit into the kernel's 32 bits"
            raise Refused(found, f"expected at most {param.text(_MAX * unit)}", key=f"cc_params.{name}")
        numbers[name] = number
    return numbers


def settings(cc: str, numbers: Mapping[str, int]) -> dict[str, str]:
    """The parameters that are not at their defaults among those that the kernel has, as scenario files write them."""
    cc = registry_name(cc)
    changed: dict[str, str] = {}
    for name, param in declared(cc).items():
        if numbers[name] == parameters(cc, {name: param.default})[name]:
            continue
        number = numbers[name]
        if param.kind == "choice":
            changed[name] = param.words[number]
        elif param.kind == "bool":
            changed[name] = "true" if number else "false"
        elif param.kind == "ratio":
            changed[name] = param.text(number / _ONE[cc])
        else:
            changed[name] = param.text(number * 1000 if param.kind == "time" else number)
    return changed
