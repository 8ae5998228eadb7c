"""A matrix as a self-contained HTML page, and as a part of another page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl
from markupsafe import Markup
from tomli_w import dumps

from knee import _core
from knee.scenario import Scenario
from knee.study.matrices.table import means
from knee.view import pages
from knee.view.matrix.figures import FAMILIES, MAPS
from knee.view.numbers import number
from knee.view.pages import rounded

#: The scripts and styles of a page with a matrix.
SCRIPTS = ("view/matrix/matrix.js",)
STYLES = ("view/matrix/matrix.css",)
#: The figures shown for a pair.
_SAID = (
    *(shown.column for shown in MAPS),
    "first_goodput_mbps",
    "second_goodput_mbps",
    "first_rtt_mean_ms",
    "second_rtt_mean_ms",
    "second_loss",
    "utilization",
)


@dataclass(frozen=True)
class PairRun:
    """Where a pair's first seed is.

    Attributes:
        folder: of its result, relative to the page; empty where there is none.
        command: what makes it again; by default a run of the folder's scenario, and nothing without a folder.
    """

    folder: str = ""
    command: str = ""


#: Gives the place of a pair for the two algorithms and the queue.
Where = Callable[[str, str, str], PairRun]


def page(frame: pl.DataFrame, scenario: Scenario, folder: Path, where: Where, remarks: Sequence[str] = ()) -> str:
    """The page, which will be in ``folder``, with remarks at its top and the scenario of one pair at its end."""
    seeds = frame["seed"].n_unique()
    algorithms = frame["first"].n_unique()
    facts = [
        f"{algorithms} algorithms",
        f"{algorithms**2} ordered pairs",
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}",
        f"{scenario.duration / 1e9:g} s each",
        f"queue {scenario.links[0].queue}",
        f"knee {_core.version()}",
    ]
    return pages.page(
        "view/matrix/matrix.html",
        scripts=SCRIPTS,
        styles=STYLES,
        title="Every algorithm against every other",
        facts=facts,
        headline=_headline(frame),
        remarks=remarks,
        data=_data(frame, folder, where),
        scenario=dumps(scenario.plain()),
    )


def fragment(frame: pl.DataFrame, folder: Path, where: Where) -> Markup:
    """The maps with their filter, for a page in ``folder`` with `SCRIPTS` and `STYLES`; a page may have several."""
    return Markup(pages.render("view/matrix/fragment.html", data=_data(frame, folder, where)))


def _headline(frame: pl.DataFrame) -> str:
    """How many pairs share fairly, and the least fair pair."""
    mean = _by_fairness(frame)
    if mean.is_empty():
        return "Each algorithm against itself."
    fair = mean.filter(pl.col("jain") >= 0.9).height
    worst = mean.row(0, named=True)
    share = number(100 * worst["share"], 2)
    return (
        f"{fair} of {mean.height} pairs of different algorithms share the link with a Jain's index of 0.9 or more. "
        f"Least fair: {worst['first']} with {share} % against {worst['second']}."
    )


def _by_fairness(frame: pl.DataFrame) -> pl.DataFrame:
    """The pairs of different algorithms, least fair first."""
    return means(frame).filter(pl.col("first") != pl.col("second")).drop_nulls("jain").sort("jain", maintain_order=True)


def _data(frame: pl.DataFrame, folder: Path, where: Where) -> dict[str, object]:
    mean = means(frame)
    names = list(dict.fromkeys(mean["first"]))
    families = dict(zip(mean["first"], mean["first_family"], strict=True))
    order = {family: i for i, family in enumerate(FAMILIES)}
    names.sort(key=lambda name: order.get(families[name], len(order)))
    cells, runs = {}, {}
    for queue in dict.fromkeys(mean["queue"]):
        rows = {(row["first"], row["second"]): row for row in mean.filter(pl.col("queue") == queue).to_dicts()}
        cells[queue] = {
            figure: [[rounded(rows[a, b][figure], 4) if (a, b) in rows else None for b in names] for a in names]
            for figure in _SAID
        }
        runs[queue] = [[_run(folder, where(a, b, queue), a, b) for b in names] for a in names]
    unfair = _by_fairness(frame).filter(pl.col("queue") == frame["queue"][0]).head(1).to_dicts()
    return {
        "start": [names.index(unfair[0][which]) if unfair else 0 for which in ("first", "second")],
        "names": names,
        "families": [families[name] for name in names],
        "maps": [asdict(shown) for shown in MAPS],
        "cells": cells,
        "runs": runs,
    }


def _run(folder: Path, place: PairRun, first: str, second: str) -> dict[str, str | bool]:
    """A pair's result as the script takes it: its folder, whether that has a report, and what makes one."""
    report = bool(place.folder) and (folder / place.folder / "report.html").is_file()
    command = place.command
    if place.folder and not command:
        command = f"knee run {place.folder}/scenario.toml --out {first}--{second}"
    return {"folder": place.folder, "report": report, "command": command}
