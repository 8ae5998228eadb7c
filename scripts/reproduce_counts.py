"""Keeps what a whole ``knee reproduce`` gave, and writes its counts into docs/reproduce.md.

``reproduce_counts.py results/reproduce/reproduce.json`` adds the papers of that file to docs/reproduce-run.json, with
the date, the version and the verdict of each item, and writes the table anew; without a file it only writes the table.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
RECORD = DOCS / "reproduce-run.json"
GUIDE = DOCS / "reproduce.md"
BEGIN, END = "<!-- counts -->\n", "<!-- end -->"
HEAD = [
    "paper",
    "items",
    "reproduced",
    "undecided",
    "contradicted by the paper",
    "differ, explained",
    "differ, cause unknown",
]
WORDS = ("reproduced", "undecided", "contradictory", "explained", "differs")


def verdicts(paper: dict[str, Any]) -> dict[str, str]:
    """Of each item of a paper's rows, where ``explained`` is a difference whose cause a run shows."""
    return {
        row["key"]: "explained" if row["verdict"] == "differs" and row["explained"] else row["verdict"]
        for row in paper["rows"]
        if not row["finding"]
    }


def table(record: dict[str, Any]) -> str:
    """The counts of each paper that has items, and when it was run."""
    lines = ["| " + " | ".join([*HEAD, "run"]) + " |", "|---|" + "---:|" * len(HEAD)]
    total: Counter[str] = Counter()
    for paper, run in record.items():
        counts = Counter(run["verdicts"].values())
        if not counts:
            continue
        total += counts
        when = f"{run['date']}, {run['version']}" if run["date"] else ""
        cells = [paper, str(counts.total()), *(str(counts[word]) for word in WORDS), when]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("| " + " | ".join(["all", str(total.total()), *(str(total[word]) for word in WORDS), ""]) + " |")
    return "\n".join(lines) + "\n"


def main(files: list[Path]) -> None:
    """Adds the files' papers, and writes the table."""
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    for file in files:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["quick"] or data["ground"] != "sim":
            sys.exit(
                f"{file} is of the short form, or of another ground; run knee reproduce without --quick and --ground."
            )
        date = datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()
        for paper in data["papers"]:
            record[paper["key"]] = {"date": date, "version": data["version"], "verdicts": verdicts(paper)}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    before, _, rest = GUIDE.read_text(encoding="utf-8").partition(BEGIN)
    GUIDE.write_text(before + BEGIN + table(record) + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
