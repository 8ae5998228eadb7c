"""Runs of the ground ``host`` whose figures mean something: those in which the machine kept up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import knee

ATTEMPTS = 4
# Of the packets, how many may leave the switch more than 1 ms late.
LATE = 0.01


def in_time(scenario: dict[str, Any], out: Path | None = None, **options: Any) -> knee.Result:
    """Runs a scenario until the machine keeps up: at most 1 % of the packets left the switch more than 1 ms late.

    A shared machine may stand still for tens of milliseconds, which the figures of a run then show, and its manifest.
    Where it does so in each of four runs, the test is skipped with the best share seen: there is nothing to judge.
    """
    best = 1.0
    for number in range(ATTEMPTS):
        folder = out / str(number) if out is not None else None
        result = knee.run(scenario, "host", folder, report=False, **options)
        switch = result.manifest["switch"]
        best = min(best, switch["behind"] / switch["departures"])
        if best <= LATE:
            return result
    pytest.skip(f"this machine is too busy: in the best of {ATTEMPTS} runs {best:.1%} of the packets left late")
