"""Write lab/rfcs.md and lab/rfcs-rest.md from lab/rfcs/*.toml and the quotations in crates/: python scripts/rfcs.py.

A quotation is a comment: `//= RFC 6298, 2.3`, then lines of `//#` with the RFC's words. Where the code departs from
them on purpose, the first line ends with `(departs: why)`.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "lab" / "rfcs.md"
REST = ROOT / "lab" / "rfcs-rest.md"
HEADER = re.compile(r"//= RFC (\d+), ([A-Z0-9.]+)(?: \(departs: (.+)\))?")
INTRODUCTION = """\
# RFCs

The simulator's TCP follows Linux, its own QUIC the RFCs. The table counts the sentences of each RFC; below is where
Linux, and so the code, departs from them. [The rest](rfcs-rest.md) has no line of code of its own. The code quotes each
sentence where it implements it: `git grep '//= RFC 6298'`.
"""
BEHIND = """\
# RFCs: the rest

Sentences of [the RFCs](rfcs.md) that are not implemented, or by no line of their own, with the reason. All
sentences on what a sender, a receiver or a queue does, and the central formulas, are in `lab/rfcs/`, one file for each
RFC. A quotation in the code is `//= RFC 6298, 2.3`, then the RFC's words behind `//#`; where the code departs from
them, it says why.

`python scripts/rfcs.py` writes both pages. `tests/test_rfcs.py` compares them, and every quotation, with `lab/rfcs/`.
"""


@dataclass(frozen=True)
class Quotation:
    """What a comment quotes, and where it stands."""

    place: str
    line: int
    rfc: int
    section: str
    words: str
    departs: str | None


@dataclass(frozen=True)
class Requirement:
    """A sentence or formula of an RFC; `not_implemented` says why no code quotes it."""

    section: str
    quote: str
    not_implemented: str | None

    def holds(self, quotation: Quotation) -> bool:
        """Whether that quotes this or a part of it."""
        return self.section == quotation.section and f" {quotation.words} " in f" {self.quote} "


@dataclass(frozen=True)
class Rfc:
    """An RFC, as far as it was read."""

    number: int
    title: str
    url: str
    requirements: tuple[Requirement, ...]


def normal(words: str) -> str:
    """The same with single spaces."""
    return " ".join(words.split())


def quotations_in(text: str, place: str) -> list[Quotation]:
    """The quotations of a source file; a line of one that cannot be read is an error."""
    found = []
    lines = [line.strip() for line in text.splitlines()]
    for number, (before, line) in enumerate(pairwise(["", *lines])):
        if line.startswith("//=") and not HEADER.fullmatch(line):
            raise ValueError(f"{place}:{number + 1}: expected '//= RFC NUMBER, SECTION', found {line!r}")
        if line.startswith("//#") and not before.startswith(("//=", "//#")):
            raise ValueError(f"{place}:{number + 1}: a quotation without its '//= RFC NUMBER, SECTION'")
        if header := HEADER.fullmatch(line):
            end = number + 1
            while end < len(lines) and lines[end].startswith("//#"):
                end += 1
            words = normal(" ".join(line[3:] for line in lines[number + 1 : end]))
            if not words:
                raise ValueError(f"{place}:{number + 1}: no words are quoted")
            found.append(Quotation(place, number + 1, int(header[1]), header[2], words, header[3]))
    return found


def quotations() -> list[Quotation]:
    """All quotations in the Rust sources."""
    return [
        quotation
        for path in sorted((ROOT / "crates").rglob("*.rs"))
        for quotation in quotations_in(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
    ]


def rfcs() -> list[Rfc]:
    """The RFCs in lab/rfcs/."""
    found = []
    for path in (ROOT / "lab" / "rfcs").glob("rfc*.toml"):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        requirements = tuple(
            Requirement(entry["section"], normal(entry["quote"]), entry.get("not_implemented"))
            for entry in table["requirement"]
        )
        found.append(Rfc(int(path.stem.removeprefix("rfc")), table["title"], table["url"], requirements))
    return sorted(found, key=lambda rfc: rfc.number)


def _item(text: str) -> str:
    return textwrap.fill(text, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _shortened(quote: str) -> str:
    """A sentence's beginning, by which a reader finds it in the section."""
    words = quote.split()
    return quote if len(words) <= 14 else " ".join([*words[:10], "…"])


def _quoting(rfc: Rfc, requirement: Requirement, quoted: list[Quotation]) -> list[Quotation]:
    return [one for one in quoted if one.rfc == rfc.number and requirement.holds(one)]


def _row(rfc: Rfc, quoted: list[Quotation]) -> str:
    quoting = [_quoting(rfc, requirement, quoted) for requirement in rfc.requirements]
    departs = sum(any(one.departs for one in found) for found in quoting)
    implemented = sum(bool(found) for found in quoting) - departs
    rest = sum(not found for found in quoting)
    return f"| [{rfc.number}]({rfc.url}) {rfc.title} | {implemented} | {departs} | {rest} |"


def _lists(known: list[Rfc], quoted: list[Quotation], departing: bool) -> list[str]:
    """The sentences from which the code departs, or those that it does not quote, each with the reason."""
    parts = []
    for rfc in known:
        items = []
        for requirement in rfc.requirements:
            reasons = (
                sorted({one.departs for one in _quoting(rfc, requirement, quoted) if one.departs})
                if departing
                else [requirement.not_implemented or ""]
            )
            said = "; ".join(filter(None, reasons))
            if said:
                quote = _shortened(requirement.quote) if departing else requirement.quote
                items.append(_item(f"- {requirement.section}: `{quote}` — {said}"))
        if items:
            parts += ["", f"## RFC {rfc.number}{': departures' if departing else ''}", "", *items]
    return parts


def pages() -> dict[Path, str]:
    """Both pages as they have to be."""
    known, quoted = rfcs(), quotations()
    table = ["| RFC | implemented | with a departure | the rest |", "|---|---:|---:|---:|"]
    table += [_row(rfc, quoted) for rfc in known]
    made = {
        PAGE: [INTRODUCTION, *table, *_lists(known, quoted, True)],
        REST: [BEHIND.rstrip("\n"), *_lists(known, quoted, False)],
    }
    return {path: "\n".join(parts) + "\n" for path, parts in made.items()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
