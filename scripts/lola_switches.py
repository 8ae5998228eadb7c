"""What each departure from LoLa's printed text does to the items of its paper: python scripts/lola_switches.py DIR.

Runs `knee reproduce lola` as it is and with each switch as printed, into folders of DIR, and prints the items whose
figure or verdict differs as Markdown. Runs that are there already are not run again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from knee.papers import run as papers
from knee.papers.outcome import Row
from knee.papers.paper import Paper, Run
from knee.papers.recipes.lola import PAPER
from knee.scenario import Scenario

#: The parameters that depart from the text; the last column has them all as printed.
_SWITCHES = ("round_lead", "hold_greatest", "balancing_ends")
_COLUMNS = {"as shipped": (), **{f"{name} off": (name,) for name in _SWITCHES}, "all off": _SWITCHES}


@dataclass(frozen=True)
class _Printed(Run):
    """A run whose LoLa flows have some switches off."""

    off: tuple[str, ...] = ()

    def resolve(self, short: bool) -> list[Scenario]:
        return [self._switched(scenario) for scenario in super().resolve(short)]

    def _switched(self, scenario: Scenario) -> Scenario:
        off = dict.fromkeys(self.off, False)
        flows = [
            flow.model_copy(update={"cc_params": {**flow.cc_params, **off}}) if flow.cc == "lola" else flow
            for flow in scenario.flows
        ]
        return scenario.model_copy(update={"flows": flows})


def _switched(off: tuple[str, ...]) -> Paper:
    experiments = [
        replace(each, runs=[_Printed(**{**vars(run), "off": off}) for run in each.runs]) for each in PAPER.experiments
    ]
    return replace(PAPER, experiments=experiments)


def _rows(folder: Path, off: tuple[str, ...]) -> dict[str, Row]:
    (found,) = papers.reproduce([_switched(off)], folder)
    return {row.key: row for row in found.rows}


def main(folder: Path) -> None:
    """Runs what is not there yet, then prints the table."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = {title: _rows(folder / (title.replace(" ", "-")), off) for title, off in _COLUMNS.items()}
    shipped = columns["as shipped"]
    print(f"| item | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for key, row in shipped.items():
        cells = [column[key] for column in columns.values()]
        if len({(cell.found, cell.verdict) for cell in cells}) > 1:
            print(f"| {row.where}: {row.says} | {' | '.join(f'{cell.found} {cell.verdict}' for cell in cells)} |")
    counts = [sum(row.verdict == "reproduced" for row in column.values()) for column in columns.values()]
    print(f"| reproduced, of {len(shipped)} | {' | '.join(str(count) for count in counts)} |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
