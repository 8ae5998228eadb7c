"""Writes the table of docs/evaluate.md from the folder of an evaluation of all algorithms.

knee evaluate --all --out FOLDER
python scripts/field_table.py FOLDER
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from knee.evaluate.field import FIELD_MARK
from knee.evaluate.verdict import CriterionVerdict

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "evaluate.md"
PLACE = re.compile(r"(<!-- field -->\n).*(<!-- end -->)", re.S)


def main(folder: Path) -> None:
    """Rewrites what is between the marks."""
    found = json.loads((folder / FIELD_MARK).read_text(encoding="utf-8"))
    lines = ["| algorithm | passes | must be looked at | fails | criteria that it fails |", "|---|---:|---:|---:|---|"]
    worst = (CriterionVerdict.WORSE, CriterionVerdict.DOES_NOT_RUN)
    for each in found["algorithms"]:
        failed = [key for key, verdict in each["verdicts"].items() if verdict in worst]
        counts = [each["totals"][CriterionVerdict.PASSES], each["totals"][CriterionVerdict.LOOK], len(failed)]
        cells = [f"`{each['cc']}`", *map(str, counts), ", ".join(failed)]
        lines.append(f"| {' | '.join(cells)} |")
    table = "\n".join([*lines, ""])
    text = DOCUMENT.read_text(encoding="utf-8")
    if len(PLACE.findall(text)) != 1:
        raise SystemExit(f"{DOCUMENT} has no table marked field, or several; expected one.")
    DOCUMENT.write_text(PLACE.sub(lambda found: found[1] + table + found[2], text), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
