"""Writes a lesson as a Jupyter notebook: its text, its scenario as a run, and each of its changes as another run.

The lesson's page is the only source. At the end of an item, `<!-- set: KEY=VALUE; KEY=VALUE -->` says what it changes.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import site_lessons

ROOT = Path(__file__).resolve().parent.parent
SET = re.compile(r" *<!-- set: (.+?) -->$", re.M)
#: What shows a column that the reader draws.
FIGURES = {"cwnd_packets": "cwnd", "srtt_ms": "rtt"}
SHOW = 'print({}.flows.select("label", "goodput_mbps", "rtt_mean_ms", "queue_delay_mean_ms"))'
NEEDS = "*This notebook needs Python with knee: the page on installation says how to get it.*"


def cells(text: str) -> list[tuple[str, str]]:
    """A lesson as kinds of cells, "markdown" or "code", with their text."""
    toml = site_lessons.scenario_of(text)
    assert toml is not None
    drawn = site_lessons.DRAW.search(text)
    figure = FIGURES[drawn[1]] if drawn else "overview"
    before, _, after = text.partition("## Run it")
    then, _, changes = after.partition("## Change one thing\n\n")
    before = site_lessons.DRAW.sub("Draw it on paper.", re.sub(r"<!-- pick: \d -->\n\n", "", before))
    run = f'lesson = tomllib.loads("""\n{toml}""")\nresult = knee.run(lesson)\n'
    made = [
        ("markdown", before + NEEDS),
        ("markdown", "## Run it"),
        ("code", f'import tomllib\n\nimport knee\n\n{run}{SHOW.format("result")}\nresult.plot("{figure}")'),
        ("markdown", then.partition("```toml")[2].partition("```\n")[2]),
        ("markdown", "## Change one thing"),
    ]
    items, _, rest = changes.partition("\n\n")
    for item in items.split("\n"):
        made.append(("markdown", SET.sub("", item)))
        if found := SET.search(item):
            values = json.dumps(found[1].split("; "), ensure_ascii=False)
            run = f"changed = knee.run(lesson, set={values})\n"
            made.append(("code", f'{run}{SHOW.format("changed")}\nresult.plot("{figure}", beside=changed)'))
    made.append(("markdown", rest.partition("\n\n[")[0]))
    return [(kind, _unlinked(text.strip()) if kind == "markdown" else text) for kind, text in made]


def _unlinked(text: str) -> str:
    """Markdown whose links to other pages are their text: a notebook may lie anywhere."""
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


def notebook(text: str) -> dict[str, Any]:
    """A lesson as a notebook, in format 4.5."""
    made: list[dict[str, Any]] = []
    for i, (kind, source) in enumerate(cells(text)):
        cell = {"cell_type": kind, "id": f"cell-{i}", "metadata": {}, "source": source.splitlines(keepends=True)}
        made.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write(folder: Path) -> list[str]:
    """Writes the notebooks of all lessons into a folder, and gives their names without `.ipynb`."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for page in sorted((ROOT / "docs" / "lessons").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if site_lessons.scenario_of(text) is not None:
            made = json.dumps(notebook(text), ensure_ascii=False, indent=1)
            (folder / f"{page.stem}.ipynb").write_text(made + "\n", encoding="utf-8")
            names.append(page.stem)
    return names


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python scripts/site_notebooks.py DIR: writes the lessons as notebooks into DIR")
    print("\n".join(f"{sys.argv[1]}/{name}.ipynb" for name in write(Path(sys.argv[1]))))
