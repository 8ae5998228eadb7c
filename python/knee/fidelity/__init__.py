"""How close the simulator is to a real kernel: the cases of a CSV file run here, set beside the kernel's own figures.

::

    from knee import fidelity

    report = fidelity.run(fidelity.read("linux.csv"))
    report.totals.held, report.totals.cases
"""

from __future__ import annotations

from knee.fidelity.cases import Case, KernelFlow, read
from knee.fidelity.compare import CaseResult, FlowResult, Report, Totals
from knee.fidelity.measure import run
from knee.fidelity.translate import Skipped, scenario

__all__ = [
    "Case",
    "CaseResult",
    "FlowResult",
    "KernelFlow",
    "Report",
    "Skipped",
    "Totals",
    "read",
    "run",
    "scenario",
]
