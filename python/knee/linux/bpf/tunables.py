"""Parameters as BPF programs and kernel modules take them: whole numbers in units of their own."""

from __future__ import annotations

from dataclasses import dataclass

from knee.registry import Param, Value


@dataclass(frozen=True)
class Units:
    """What 1 stands for in a program: for times in ns, for ratios as a fraction ``1 / ratio``."""

    time_ns: int = 1000
    ratio: int = 1024


#: By algorithm; the headers in ``linux/include`` say the same. A test holds the defaults against the registry's.
UNITS = {"lola": Units(), "daimd": Units(ratio=1_000_000), "bbr3": Units(ratio=1000)}


def number(name: str, param: Param, value: Value) -> int:
    """A value in base units as the program of algorithm ``name`` takes it."""
    units = UNITS.get(name, Units())
    match param.kind:
        case "time":
            return round(int(value) / units.time_ns)
        case "ratio":
            return round(float(value) * units.ratio)
        case "choice":
            return param.words.index(str(value))
    return int(value)


def value(param: Param, text: str) -> object:
    """What a scenario file would say for ``text`` of a command line."""
    if param.kind == "bool":
        return {"true": True, "false": False}.get(text, text)
    try:
        return int(text) if param.kind == "count" else float(text) if param.kind == "ratio" else text
    except ValueError:
        return text
