"""``knee sweep``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knee.cli import complete, options
from knee.cli.console import Bar, complain, out, write_json
from knee.cli.options import option
from knee.cli.tables import number, table
from knee.errors import InputError, RunError
from knee.study.requests import StudyOptions
from knee.study.requests import Sweep as Request
from knee.system.requests import parted
from knee.system.text import JsonTable, decapitalised

if TYPE_CHECKING:
    from rich.table import Table

    from knee.study.sweeps import Sweep
    from knee.study.sweeps.definition import Definition

#: Points that the terminal shows, unless --rows says otherwise.
_ROWS = 30
#: Different remarks on runs that it shows.
_REMARKS = 5
#: Figures of a run that are those of one of its links.
_OF_LINKS = ("queue_delay_mean_ms", "utilization")
#: Keys that are longer are on two lines; longer words of values may break.
_LONG_KEY, _LONGEST_WORD = 8, 24


@options.takes(Request, StudyOptions)
def sweep(
    context: typer.Context,
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="FILE-or-NAME",
            help="A sweep or scenario file, or a name from knee list sweeps or scenarios.",
            autocompletion=complete.sweeps,
        ),
    ],
    changes: options.Set = None,
    vary: Annotated[
        bool,
        option(
            options.INPUT,
            "--vary",
            help="Give links without jitter one of less than the time of a packet, so that seeds differ.",
        ),
    ] = False,
    dry_run: options.DryRun = False,
    folder: Annotated[
        Path | None, options.out("Folder for the page and the data; default: results/sweep-NAME.")
    ] = None,
    as_json: Annotated[bool, options.json("Print only JSON: the figures of all points, means over seeds.")] = False,
    series: Annotated[bool, option(options.OUTPUT, "--series", help="Also write the time series of all runs.")] = False,
    save_runs: Annotated[
        bool, option(options.OUTPUT, "--save-runs", help="Also write a result folder for each run, in DIR/runs.")
    ] = False,
    sort: Annotated[
        str | None,
        option(
            options.OUTPUT,
            "--sort",
            metavar="FIGURE",
            help="Show the best points for a figure first, such as jain.",
            autocompletion=complete.figures,
        ),
    ] = None,
    rows: Annotated[int, option(options.OUTPUT, "--rows", metavar="N", min=0, help="Show N points.")] = _ROWS,
    allow_code: options.AllowCode = False,
    **asked: Any,
) -> None:
    """Run a grid of scenarios over any keys.

    Axes are in the file's table [sweep] or in --over. Writes a Parquet data set with one row per run, per flow and per
    link, sweep.parquet with one row per run, and sweep.html, which plots any figure over any axis. Finished runs are
    kept, so an interrupted command continues where it stopped. knee run --from DIR ROW makes a run again in full.
    """
    from knee.own import code_allowed
    from knee.study import sweeps
    from knee.study.sweeps import sweepfile

    if sort is not None:
        _check_figure(sort)
    given, how = parted(Request, asked)
    with code_allowed(allow_code):
        definition = sweepfile.read(scenario, changes=changes or (), vary=vary, **given)
    name = str(definition.base.get("name", definition.name))
    folder = folder or Path("results") / f"sweep-{name}"
    if dry_run:
        estimated(definition, how.get("jobs"))
        return
    with Bar(f"sweep of {name}", folder) as bar:
        sweep = sweeps.run_sweep(
            definition, folder, series=series, save_runs=save_runs, progress=bar, command=context.obj, **how
        )
        sweep.write_page()
    if as_json:
        write_json(plain(sweep, sort))
    else:
        show(sweep, sort, rows)
    from knee.study.sweeps.points import remarks, same_seeds

    same = same_seeds(sweep)
    if definition.seeds > 1 and not as_json and same is None:
        out().print(f"Means over {definition.seeds} seeds; the page has confidence intervals.\n", soft_wrap=True)
    for remark in remarks(sweep, _REMARKS):
        complain(remark)
    if same is not None:
        mend = "" if vary else "; --vary gives each link a jitter of less than the time of a packet"
        complain(f"{same}{mend}.")
    if sweep.aside is not None:
        complain(f"{folder} had runs of another sweep or another build of knee; they are in {sweep.aside} now.")
    if not as_json:
        out().print(f"The page: {folder / 'sweep.html'}", soft_wrap=True)
        for name in definition.plots:
            out().print(f"The plot: {folder / name}", soft_wrap=True)
    check_failed(sweep)


def _check_figure(name: str) -> None:
    from knee.figures.register import RUN
    from knee.scenario.units import near

    if name not in RUN:
        raise InputError(f"--sort: there is no figure {name}; {near(name, list(RUN))}.")


def check_failed(sweep: Sweep) -> None:
    """Reports runs that failed.

    Raises:
        RunError: some did; says how many, and why the first did.
    """
    failed = sweep.failed
    if not failed.is_empty():
        first = failed.row(0, named=True)
        where = f"the column error of {sweep.folder / 'sweep.parquet'} has the reasons"
        said = f"{failed.height} of {len(sweep)} runs failed; {where}, that of run {first['run']}: {first['error']}"
        raise RunError(said)


def estimated(definition: Definition, jobs: int | None) -> None:
    """Prints how large a sweep is."""
    from knee.study.sweeps import sweepfile

    checked = sweepfile.check(definition)
    for group in definition.groups:
        out().print(f"{' with '.join(group.keys)}: {len(group.rows)}", soft_wrap=True)
    if definition.seeds > 1:
        out().print(f"seeds: {definition.seeds}")
    estimate(len(definition), checked.mean_work, jobs)
    if not checked.whole:
        checked_runs = f"{len(checked.work)} of {len(definition)} runs were checked"
        complain(f"{checked_runs}; if another one is refused, its row has the error.")


def estimate(runs: int, mean_packets: float, jobs: int | None) -> None:
    """Prints how long runs take, from their number and the mean number of packets of one."""
    import os

    from knee.bench.cases import case

    packets = mean_packets * runs
    speed = case("reno2")["packets_per_s"]
    cores = jobs or os.cpu_count() or 1
    hours = packets / (speed * cores) / 3600
    duration = (
        f"{hours:.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes" if hours >= 1 / 60 else "a minute or less"
    )
    out().print(
        f"{number(runs)} runs, some {packets:.2g} packets: about {duration} on {cores} "
        f"{'core' if cores == 1 else 'cores'}, where knee bench reno2 simulates {speed / 1e6:.1f} million packets/s.",
        soft_wrap=True,
    )


def plain(sweep: Sweep, sort: str | None = None) -> JsonTable:
    """A sweep as JSON has it: the values and figures of all points, figures as means over the seeds."""
    from knee.figures.register import RUN
    from knee.study.sweeps.points import averaged

    points = averaged(sweep, sweep.runs.collect())
    if sort is not None:
        points = points.sort(sort, descending=RUN[sort].better != "less", nulls_last=True, maintain_order=True)
    figures = points.select("run", "seeds", *RUN)
    return {
        "folder": str(sweep.folder),
        "runs": len(sweep),
        "failed": sweep.failed.height,
        "points": [
            {
                "run": row["run"],
                "seeds": row["seeds"],
                "values": sweep.definition.point(row["run"]).values,
                "figures": {name: row[name] for name in RUN},
            }
            for row in figures.iter_rows(named=True)
        ],
    }


def show(sweep: Sweep, sort: str | None = None, rows: int = _ROWS) -> None:
    """Prints the points with their most important figures, means over the seeds."""
    import polars as pl

    from knee.figures.register import RUN, names, where

    keys = [key for key in sweep.definition.keys if key != "seed"]
    seeds = "seed" in sweep.definition.keys
    traffic = names(where(RUN, "terminal-where-any"))
    known = sweep.runs.select(pl.col(traffic).is_not_null().any()).collect().row(0, named=True)
    figures = [*names(where(RUN, "terminal")), *(name for name, there in known.items() if there)]
    figures += [sort] if sort is not None and sort not in figures else []
    columns = [_Shown(name, name, RUN[name].head) for name in figures]
    ways: dict[str, str] = {}
    if known["reverse_goodput_mbps"]:
        ways = _ways(sweep)
        columns = [each for shown in columns for each in _by_way(shown, ways)]
    group = [column.name for column in sweep.columns] + (["seed"] if seeds else [])
    points = sweep.runs.filter(pl.col("error").is_null())
    for way, link in ways.items():
        mine = sweep.links.filter(pl.col("link").cast(pl.String) == link)
        points = points.join(
            mine.select("run", *(pl.col(name).alias(f"{name} {way}") for name in _OF_LINKS)), on="run", how="left"
        )
    named = {f"={shown.column}": pl.col(shown.column).mean() for shown in columns}
    named |= {"=sort": pl.col(sort).mean()} if sort is not None else {}
    grouped = points.group_by(group, maintain_order=True) if group else points.group_by(pl.lit(1).alias("="))
    found = grouped.agg(pl.col("run").min().alias("=run"), **named).collect()
    if sort is not None:
        found = found.sort("=sort", descending=RUN[sort].better != "less", nulls_last=True, maintain_order=True)
    shown_by_key: dict[str, list[str]] = {key: [] for key in ([*keys, "seed"] if seeds else keys)}
    shown_rows = list(found.head(rows).iter_rows(named=True))
    for row in shown_rows:
        point = sweep.definition.point(row["=run"])
        for key, texts in shown_by_key.items():
            texts.append(_text(point.values[key]))
    # A key with one value only says nothing about a point.
    several = {key for group in sweep.definition.groups if len(group.rows) > 1 for key in group.keys}
    derived = {key for key, _ in sweep.definition.derived}
    fixed = {key: texts[0] for key, texts in shown_by_key.items() if texts and key not in several | derived}
    cells = [[str(row["=run"]), *(_cell(each.name, row[f"={each.column}"]) for each in columns)] for row in shown_rows]
    varied = {key: texts for key, texts in shown_by_key.items() if key not in fixed}
    without = {key: texts for key, texts in varied.items() if key not in derived}
    console = out()
    # The first that fits: figures are never cut off.
    layouts = [(varied, 3, False), (varied, 1, False), (without, 1, False), (without, 1, True)]
    heads = [each.head for each in columns]
    tables = [_points_table(given, heads, cells, gap, narrow) for given, gap, narrow in layouts]
    shown = next((one for one, width in tables if width <= console.width), None)
    if shown is None:
        shown = tables[-1][0]
        for column in shown.columns[1 : 1 + len(without)]:
            column.min_width = 1
    if rows:
        if fixed:
            at = ", ".join(f"{key} = {text}" for key, text in fixed.items())
            console.print(f"At {at}:", soft_wrap=True)
        console.print(shown)
        if known["reverse_goodput_mbps"]:
            links = "; ".join(f"{way}: {link}" for way, link in ways.items())
            which = (
                f"{links[:1].upper()}{links[1:]}."
                if links
                else "Queueing delay and utilization are the highest of all links."
            )
            console.print(f"{which} Jain's index is the lowest of the links that limit flows.\n", soft_wrap=True)
    if found.height > rows > 0:
        sorted_by = "" if sort is None else f" sorted by {decapitalised(RUN[sort].title)}"
        out().print(f"... and {found.height - rows} more points{sorted_by}, all on the page.\n", soft_wrap=True)


def _points_table(
    keys: dict[str, list[str]], heads: Sequence[str], cells: Sequence[Sequence[str]], gap: int, narrow: bool
) -> tuple[Table, int]:
    """The table of points, and how many columns of a terminal it needs at least.

    Args:
        keys: the values of each key.
        heads: the heads of the figures.
        cells: the run's number and the figures of each point.
        gap: blanks between columns, 3 or 1.
        narrow: whether keys break at every dot.
    """
    words = [_broken(key, narrow) for key in keys]
    grid = table(None, ["run", *words, *heads], text=1 + len(keys))
    if gap == 1:
        grid.padding = (0, 0)
    numbers = ["run", *heads]
    least = [max(map(len, [*numbers[i].split("\n"), *(row[i] for row in cells)])) for i in range(len(numbers))]
    grid.columns[0].min_width = least[0]
    for column, word, texts in zip(grid.columns[1:], words, keys.values(), strict=False):
        # Words wrap whole on a narrow terminal.
        longest = max((len(part) for text in texts for part in text.split(" ")), default=0)
        column.min_width = max(*map(len, word.split("\n")), min(longest, _LONGEST_WORD))
        least.append(column.min_width)
    for row, given in zip(cells, zip(*keys.values(), strict=True) if keys else [()] * len(cells), strict=True):
        grid.add_row(row[0], *given, *row[1:])
    return grid, sum(least) + gap * len(least)


@dataclass(frozen=True)
class _Shown:
    """A column of figures: where its values are, which figure it is, and its head."""

    column: str
    name: str
    head: str


def _ways(sweep: Sweep) -> dict[str, str]:
    """By direction its link, where all runs have only one in each; else nothing."""
    import polars as pl

    links = sweep.links.select(pl.col("link").cast(pl.String).unique(maintain_order=True)).collect()["link"].to_list()
    there = {"reverse" if link.endswith(" (reverse)") else "forward": link for link in sorted(links)}
    return {way: there[way] for way in ("forward", "reverse")} if len(links) == len(there) == 2 else {}


def _by_way(shown: _Shown, ways: Mapping[str, str]) -> list[_Shown]:
    """A column as it is where flows go in both directions: one for each link, if the figure is one of links."""
    if shown.name == "goodput_mbps":
        return [replace(shown, head="\n".join(["forward", shown.head.split("\n")[-1]]))]
    if shown.name not in _OF_LINKS or not ways:
        return [shown]
    return [_Shown(f"{shown.name} {way}", shown.name, f"{way}\n{shown.head}") for way in ways]


def _broken(key: str, narrow: bool) -> str:
    """A key over two lines where it is long, or a line for each of its parts."""
    if narrow:
        return key.replace(".", ".\n")
    return ".\n".join(key.rsplit(".", 1)) if len(key) > _LONG_KEY else key


def _text(value: Any) -> str:
    """A value of a key as a scenario file has it."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {_quoted(one)}' for key, one in value.items())}}}"
    return (
        f"[{', '.join(map(_quoted, value))}]"
        if isinstance(value, list)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else _text(value)


def _cell(name: str, value: float | None) -> str:
    from knee.figures.register import RUN

    return number(RUN[name].amount(value), RUN[name].decimals or 0)
