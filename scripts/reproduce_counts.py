"""Keeps what a whole ``knee reproduce`` gave, and writes its counts into docs/reproduce.md and README.md.

``reproduce_counts.py results/reproduce/reproduce.json`` adds the papers of that file to docs/reproduce-run.json, with
the date, the version and the verdict of each item, and writes the counts anew; without a file it only writes these.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from knee.papers import items
from knee.papers.outcome import STATEMENTS

DOCS = Path(__file__).resolve().parents[1] / "docs"
RECORD = DOCS / "reproduce-run.json"
GUIDE = DOCS / "reproduce.md"
README = DOCS.parent / "README.md"
#: The papers of README's line, as it calls them.
NAMED = {"lola": "LoLa", "cocoa": "cocoa", "delay-aimd": "delay-based AIMD", "interactions": "Interactions"}
LINE = re.compile(r"LoLa \d+ of .* in every draw")
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


def by_column(paper: str, found: dict[str, str]) -> dict[str, Counter[str]]:
    """The counts of a paper: of each column of its printed tables, where it has several; else of all together."""
    columns = {item.key: item.column or STATEMENTS for item in items.load(paper).item}
    if len({*columns.values()} - {STATEMENTS}) < 2:
        return {paper: Counter(found.values())}
    names = sorted({*columns.values()}, key=lambda name: (name == STATEMENTS, list(columns.values()).index(name)))
    return {
        f"{paper}: {name}": Counter(verdict for key, verdict in found.items() if columns.get(key) == name)
        for name in names
    }


def table(record: dict[str, Any]) -> str:
    """The counts of each paper that has items, by the columns of its tables, and when it was run."""
    lines = ["| " + " | ".join([*HEAD, "run"]) + " |", "|---|" + "---:|" * len(HEAD)]
    total: Counter[str] = Counter()
    for paper, run in record.items():
        when = f"{run['date']}, {run['version']}" if run["date"] else ""
        for name, counts in by_column(paper, run["verdicts"]).items():
            if not counts:
                continue
            total += counts
            cells = [name, str(counts.total()), *(str(counts[word]) for word in WORDS), when]
            lines.append("| " + " | ".join(cells) + " |")
    lines.append("| " + " | ".join(["all", str(total.total()), *(str(total[word]) for word in WORDS), ""]) + " |")
    return "\n".join(lines) + "\n"


def line(record: dict[str, Any]) -> str:
    """README's counts."""
    parts = []
    for paper, name in NAMED.items():
        each = [
            f"{column.removeprefix(f'{paper}: ')} {counts['reproduced']} of {counts.total()}"
            for column, counts in by_column(paper, record[paper]["verdicts"]).items()
        ]
        parts.append(each[0].replace(paper, name, 1) if len(each) == 1 else f"{name} {', '.join(each)}")
    return f"{'; '.join(parts)} in every draw"


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
    README.write_text(LINE.sub(line(record), README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
