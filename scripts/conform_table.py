"""Writes the table of lab/conformance.md: the vectors that an implementation departs from, and why.

``conform_table.py`` plays knee's, quinn's and noq's. Reasons are in ``conform_table.toml``; a departure without one
ends the script.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from knee import _core
from knee.judging.vectors import WORDS

PAGE = Path(__file__).parents[1] / "lab" / "conformance.md"
REASONS = Path(__file__).with_suffix(".toml")
#: The mark in the page after which the tables stand.
MARK = "<!-- written by scripts/conform_table.py -->\n"
#: Who is played, by algorithm; knee's own first.
WHO = {
    "bbr": ("bbr3", "noq:bbr3"),
    "cubic": ("cubic", "quinn:cubic", "noq:cubic"),
    "newreno": ("reno", "quinn:reno", "noq:reno"),
}
#: Verdicts that are no difference of the implementation's own.
_FOLLOWING = ("after", "not-reached")


def played(algorithm: str, who: str) -> list[dict[str, Any]]:
    """The vectors of an algorithm with an implementation."""
    own = who == WHO[algorithm][0]
    return list(json.loads(_core.conform(algorithm, None, None, None if own else (who, "{}")))["vectors"])


def reason(vector: str, who: str, reasons: list[dict[str, Any]]) -> str:
    """Why an implementation departs from a vector."""
    found = [each["why"] for each in reasons if each["vector"] == vector and who in each["of"]]
    return str(found[0]) if found else ""


def tables() -> tuple[str, list[str]]:
    """The tables, and the departures that have no reason."""
    reasons = tomllib.loads(REASONS.read_text())["reason"]
    lines, missing = [], []
    for algorithm, names in WHO.items():
        reports = {who: played(algorithm, who) for who in names}
        counts = (
            f"`{who}` passes {sum(one['verdict'] == 'pass' for one in report)} of {len(report)}"
            for who, report in reports.items()
        )
        lines += [f"\n## `{algorithm}`\n", f"{', '.join(counts)}.\n"]
        rows = []
        for i, one in enumerate(reports[names[0]]):
            verdicts = {who: report[i] for who, report in reports.items()}
            if all(each["verdict"] == "pass" for each in verdicts.values()):
                continue
            why: list[str] = []
            for who, each in verdicts.items():
                said = reason(one["vector"], who, reasons)
                if said and said not in why:
                    why.append(said)
                if each["verdict"] == "after":
                    before = f"as `{each['vector_before']}`"
                    why += [before] if before not in why else []
                elif each["verdict"] != "pass" and not said:
                    missing.append(f"{one['vector']} with {who}")
            cells = [f"`{one['vector']}`", one["level"], *(WORDS[each["verdict"]] for each in verdicts.values())]
            rows.append(f"| {' | '.join([*cells, '; '.join(why)])} |")
        if rows:
            heads = ["vector", "level", *(f"`{who}`" for who in names), "why"]
            lines += [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *rows]
    return "\n".join(lines) + "\n", missing


def main() -> None:
    """Writes the tables into the page."""
    head = PAGE.read_text().partition(MARK)[0]
    made, missing = tables()
    if missing:
        sys.exit("Without a reason:\n" + "\n".join(missing))
    PAGE.write_text(head + MARK + made)


if __name__ == "__main__":
    main()
