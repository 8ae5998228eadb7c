"""Our congestion controls as kernel modules and as BPF: their parameters in the kernel's units."""

from __future__ import annotations

from collections.abc import Mapping

from knee.errors import Refused
from knee.registry import Value, congestion_controls

#: Those that are kernel modules.
MODULE_CCS = ("lola", "daimd")
#: One in the fixed-point numbers of those that have ratios.
_ONE = {"lola": 1 << 10, "daimd": 10**6, "bbr3": 1000}
#: The largest number a module parameter holds.
_MOST = 2**32 - 1


def parameters(cc: str, given: Mapping[str, Value]) -> dict[str, int]:
    """Parameters of ``tcp_CC.ko`` or ``CC.bpf.o`` for values in base units.

    Raises:
        Refused: a value that the module's units cannot express.
    """
    declared = congestion_controls()[cc].params
    found: dict[str, int] = {}
    for name, value in given.items():
        param = declared[name]
        match param.kind:
            case "time":
                if int(value) % 1000:
                    text = f"{param.text(value)} is no whole number of microseconds"
                    raise Refused(text, "the kernel takes whole microseconds", key=f"cc_params.{name}")
                number = int(value) // 1000
            case "ratio":
                number = round(float(value) * _ONE[cc])
            case "choice":
                number = param.words.index(str(value))
            case _:
                number = int(value)
        if number > _MOST:
            raise Refused(
                f"{param.text(value)} is more than the module accepts", param.accepted, key=f"cc_params.{name}"
            )
        found[name] = number
    return found
