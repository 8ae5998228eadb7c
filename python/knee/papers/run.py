"""Runs papers, judges their items, and stores the verdicts next to the pages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from knee.judging.folder import claim, program, write_verdicts
from knee.papers import items, page
from knee.papers.items import Item, ItemVerdict, Quantities
from knee.papers.outcome import Done, JudgedItem, PaperRows, Row
from knee.papers.paper import Experiment, Paper, Results
from knee.results import tree
from knee.study import batch

#: The file that identifies a folder of reproductions and holds the verdicts.
MARK = "reproduce.json"
FORMAT = 1


def reproduce(
    papers: Sequence[Paper],
    out: Path,
    *,
    ground: str = "sim",
    short: bool = False,
    workers: int | None = None,
    again: bool = False,
    progress: Callable[[float], None] | None = None,
    command: str | None = None,
) -> list[PaperRows]:
    """Runs papers into ``out`` and writes their pages; returns the lines of all papers in ``out``.

    Existing results of the same program are reused, unless `again` asks for all runs.

    Raises:
        InputError: ``out`` contains something else, or there is no such ground.
        RunError: a run failed.
    """
    kept = _open(out, ground, short)
    jobs = [job for paper in papers for job in _jobs(paper, ground, short)]
    refusals: dict[str, str] = {}
    folders = batch.run(
        jobs,
        out / "runs",
        workers=workers,
        again=again,
        progress=progress,
        refused=None if ground == "sim" else lambda job, error: refusals.update({job.name: str(error)}),
        command=command,
    )
    where = dict(zip([job.name for job in jobs], folders, strict=True))
    for paper in papers:
        done = [_judge(experiment, paper, where, refusals, short) for experiment in paper.experiments]
        page.write_paper(paper, done, out / f"{paper.key}.html", ground=ground, short=short)
        kept[paper.key] = PaperRows(paper.key, paper.title, page.rows(done))
    from knee.papers.recipes import NAMES

    ordered = [kept[name] for name in NAMES if name in kept]
    page.write_summary(ordered, out / "report.html", ground=ground, short=short)
    _keep(out, ground, short, ordered)
    return ordered


def _name(paper: Paper, run: str, seed: int, seeds: int) -> str:
    return f"{paper.key}/{run}" + (f"-seed{seed}" if seeds > 1 else "")


def _jobs(paper: Paper, ground: str, short: bool) -> list[batch.Job]:
    jobs = []
    for name, run in paper.runs().items():
        scenarios = run.resolve(short)
        jobs += [batch.Job(_name(paper, name, s.seed, len(scenarios)), s, ground) for s in scenarios]
    return jobs


def _judge(
    experiment: Experiment, paper: Paper, where: dict[str, Path | None], refusals: dict[str, str], short: bool
) -> Done:
    folders: dict[str, list[Path]] = {}
    for run in experiment.runs:
        scenarios = run.resolve(short)
        for scenario in scenarios:
            name = _name(paper, run.name, scenario.seed, len(scenarios))
            folder = where[name]
            if folder is None and run.optional:
                continue
            if folder is None:
                return _not_run(experiment, paper, refusals[name])
            folders.setdefault(run.name, []).append(folder)
    results = Results(folders, short=short)
    quantities, draws = experiment.measure(results), experiment.draws(results)
    return Done(experiment, verdicts(paper, experiment, quantities, draws, short=short), results, quantities)


def _not_run(experiment: Experiment, paper: Paper, why: str) -> Done:
    judged = [
        JudgedItem(item, finding, ItemVerdict.NOT_RUN) for item, finding in _items(paper, experiment, short=False)
    ]
    return Done(experiment, judged, None, {}, why)


def _items(paper: Paper, experiment: Experiment, *, short: bool) -> list[tuple[Item, bool]]:
    known = items.load(paper.key)
    mine = [item for item in known.of(experiment.key) if item.quick or not short]
    return [(item, item in known.finding) for item in mine]


def verdicts(
    paper: Paper,
    experiment: Experiment,
    quantities: Quantities,
    draws: Sequence[Quantities] = (),
    *,
    short: bool = False,
) -> list[JudgedItem]:
    """The verdicts on an experiment's items, by each draw; the short form omits items that need the full length."""
    draws = draws or [quantities]
    judged = []
    for item, finding in _items(paper, experiment, short=short):
        judged.append(
            JudgedItem(
                item,
                finding,
                item.verdict(draws),
                quantities[item.computed],
                quantities[item.check.computed] if item.check else None,
                item.explained(draws),
                [each[item.computed] for each in draws] if len(draws) > 1 else (),
            )
        )
    return judged


def _layout() -> tree.Layout:
    """The files that a folder of reproductions may have; each run's own folder is checked as it is written."""
    from knee.papers.recipes import NAMES

    pages = "|".join(re.escape(name) for name in NAMES)
    return {
        rf"{re.escape(MARK)}|report\.html|({pages})\.html": tree.FILE,
        "runs": {pages: {".+": tree.RESULT}},
    }


def _open(out: Path, ground: str, short: bool) -> dict[str, PaperRows]:
    """Creates or reuses the folder, and returns its results of papers that were run the same way."""
    claim(out, MARK, _layout(), by="knee reproduce")
    try:
        data = json.loads((out / MARK).read_bytes()) if (out / MARK).is_file() else {}
    except ValueError:
        data = {}
    same = data.get("format") == FORMAT and (data.get("ground"), data.get("quick")) == (ground, short)
    if not data:
        _keep(out, ground, short, [])
    try:
        return {paper["key"]: _rows(paper) for paper in data["papers"]} if same else {}
    except (KeyError, TypeError):
        # An older version stored other columns, so run its papers again.
        return {}


def _rows(paper: dict[str, Any]) -> PaperRows:
    return PaperRows(paper["key"], paper["title"], [Row(**row) for row in paper["rows"]])


def _keep(out: Path, ground: str, short: bool, papers: Sequence[PaperRows]) -> None:
    write_verdicts(out / MARK, plain(ground, short, papers))


def plain(ground: str, short: bool, papers: Sequence[PaperRows]) -> dict[str, Any]:
    """The content of :data:`MARK` for these papers, as plain data."""
    return {
        "format": FORMAT,
        **program(),
        "ground": ground,
        "quick": short,
        "papers": [asdict(paper) for paper in papers],
    }
