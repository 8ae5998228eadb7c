"""How close the simulator is to a real kernel: the cases of a CSV file run here, set beside the kernel's own figures.

::

    from knee.study import fidelity

    report = fidelity.run(fidelity.read("linux.csv"))
    report.totals.held, report.totals.cases

Names are loaded when they are first used: listings read the recordings without what runs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knee.study.fidelity.cases import Case, KernelFlow, read
    from knee.study.fidelity.compare import CaseResult, FlowResult, Report, Totals
    from knee.study.fidelity.measure import run
    from knee.study.fidelity.translate import Skipped, scenario

__all__ = ["Case", "CaseResult", "FlowResult", "KernelFlow", "Report", "Skipped", "Totals", "read", "run", "scenario"]

_HOME = {
    **dict.fromkeys(["Case", "KernelFlow", "read"], "cases"),
    **dict.fromkeys(["CaseResult", "FlowResult", "Report", "Totals"], "compare"),
    "run": "measure",
    **dict.fromkeys(["Skipped", "scenario"], "translate"),
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
