"""Writes the verdicts of a whole ``knee reproduce`` into a paper's data file: reproduce_expected.py FILE PAPER.

FILE is its ``reproduce.json``. Cells of tables and statements that hold in some draws become ``undecided``, those that
hold in all lose what was known of their difference, and those that differ without a text get one that says that no
cause is known. Prints each key whose text is new or went, so that somebody can say more, or look at what it said.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ITEMS = Path(__file__).resolve().parents[1] / "python" / "knee" / "papers" / "items"
#: The remark for cells that differ, of which nothing else is known, and the text of such a statement.
SPREAD = "The paper prints no spread of its five runs, and which part of its testbed moves this number is not known."
NO_CAUSE = "No run shows why."


def _list(name: str, keys: list[str]) -> str:
    return f"{name} = [\n" + "".join(f'    "{key}",\n' for key in keys) + "]\n"


def _listed(block: str, name: str) -> list[str]:
    found = re.search(rf"^{name} = \[(.*?)\]\n", block, re.M | re.S)
    return re.findall(r'"([^"]+)"', found[1]) if found else []


def _with_list(block: str, name: str, keys: list[str]) -> str:
    if not re.search(rf"^{name} = \[", block, re.M):
        return f"{block.rstrip()}\n{_list(name, keys)}\n" if keys else block
    return re.sub(rf"^{name} = \[.*?\]\n", lambda _: _list(name, keys), block, count=1, flags=re.M | re.S)


def _statement(block: str, verdict: str) -> str:
    """A block ``[[item]]`` with the verdict that it got."""
    block = re.sub(r"^undecided = true\n", "", block, flags=re.M)
    if verdict == "reproduced":
        return re.sub(r'^unknown = ".*"\n', "", block, flags=re.M)
    if verdict == "undecided":
        return re.sub(r"^(compare = )", r"undecided = true\n\1", block, flags=re.M)
    known = re.search(r"^(unknown|explanation|contradiction) = ", block, re.M)
    return block if known else f'{block.rstrip()}\nunknown = "{NO_CAUSE}"\n\n'


def rewritten(text: str, found: dict[str, str]) -> str:
    """The data file with these verdicts, by key."""
    blocks = re.split(r"^(?=\[\[)", text, flags=re.M)
    stated = {key[1] for block in blocks if (key := re.search(r'^key = "(.*)"', block, re.M))}
    cells = [key for key in found if key not in stated]
    remarked: set[str] = set()
    made = []
    for block in blocks:
        key = re.search(r'^key = "(.*)"', block, re.M)
        if block.startswith("[[table]]"):
            block = _with_list(block, "undecided", [key for key in cells if found[key] == "undecided"])
        elif block.startswith("[[table.remark]]"):
            kept = [key for key in _listed(block, "items") if found.get(key) in ("differs", "undecided")]
            remarked |= {*kept}
            block = _with_list(block, "items", kept) if kept or SPREAD in block else ""
        elif block.startswith("[[item]]") and key and key[1] in found:
            block = _statement(block, found[key[1]])
        made.append(block)
    rest = [key for key in cells if found[key] == "differs" and key not in remarked]
    spread = next((k for k, block in enumerate(made) if SPREAD in block), None)
    if spread is not None:
        made[spread] = _with_list(made[spread], "items", [*_listed(made[spread], "items"), *rest])
    elif rest:
        last = max(k for k, block in enumerate(made) if block.startswith("[[table"))
        made.insert(last + 1, f'[[table.remark]]\n{_list("items", rest)}unknown = "{NO_CAUSE}"\n\n')
    return "".join(made)


def main(file: Path, paper: str) -> None:
    """Rewrites the data file of a paper, and prints the keys whose text is new or went."""
    (rows,) = (each["rows"] for each in json.loads(file.read_bytes())["papers"] if each["key"] == paper)
    # A finding has no verdict of its own, but one that hangs on the draws is named.
    found = {row["key"]: row["verdict"] for row in rows if not row["finding"] or row["verdict"] == "undecided"}
    place = ITEMS / f"{paper}.toml"
    before = place.read_text(encoding="utf-8")
    after = rewritten(before, found)
    place.write_text(after, encoding="utf-8")
    for said, one, other in (("lost its text", before, after), ("has a text that says nothing", after, before)):
        for block in re.split(r"^(?=\[\[)", one, flags=re.M):
            key, text = (re.search(rf'^{name} = "(.*)"', block, re.M) for name in ("key", "unknown"))
            if key and text and text[0] not in other.partition(key[0])[2].partition("[[")[0]:
                print(f"{key[1]} {said}: {text[1]}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2])
