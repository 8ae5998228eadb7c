"""Shows the items of LoLa's paper in each of its forms: python scripts/lola_forms.py DIR.

Runs `knee reproduce lola` in each form into folders of DIR, and prints the items whose figure or verdict differs as
Markdown. Runs that are there are not run again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from knee.papers import run as papers
from knee.papers.outcome import Row
from knee.papers.paper import Paper, Run
from knee.papers.recipes.lola import PAPER
from knee.scenario import Scenario

#: The forms; the first is the default.
_FORMS = ("paper", "printed", "program")


@dataclass(frozen=True)
class _Changed(Run):
    """A run whose LoLa flows have some parameters too."""

    params: Mapping[str, Any] = field(default_factory=dict)

    def resolve(self, short: bool) -> list[Scenario]:
        return [self._switched(scenario) for scenario in super().resolve(short)]

    def _switched(self, scenario: Scenario) -> Scenario:
        flows = [
            flow.model_copy(update={"cc_params": {**flow.cc_params, **self.params}}) if flow.cc == "lola" else flow
            for flow in scenario.flows
        ]
        return scenario.model_copy(update={"flows": flows})


def _switched(params: Mapping[str, Any]) -> Paper:
    experiments = [
        replace(each, runs=[_Changed(**{**vars(run), "params": params}) for run in each.runs])
        for each in PAPER.experiments
    ]
    return replace(PAPER, experiments=experiments)


def _rows(folder: Path, params: Mapping[str, Any]) -> dict[str, Row]:
    (found,) = papers.reproduce([_switched(params)], folder)
    return {row.key: row for row in found.rows}


def main(folder: Path) -> None:
    """Runs what is not there yet, then prints the table."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = {form: _rows(folder / form, {"form": form}) for form in _FORMS}
    shipped = columns[_FORMS[0]]
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
