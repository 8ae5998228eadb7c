"""``knee sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knee.cli import complete
from knee.cli.console import Bar, complain, out
from knee.cli.options import Again, Dask, Derive, DryRun, Jobs
from knee.cli.tables import number, table
from knee.errors import InputError, RunError

if TYPE_CHECKING:
    from knee.sweeps import Sweep
    from knee.sweeps.definition import Definition

#: Points that the terminal shows, unless --rows says otherwise.
_ROWS = 30
#: The figures that it shows, besides the one that it sorts by; parts of one are shown in percent.
_SHOWN = ("goodput_mbps", "jain", "queue_delay_mean_ms", "utilization", "loss")
_HEADS = {
    "goodput_mbps": "goodput\nMbit/s",
    "least_goodput_mbps": "least\nMbit/s",
    "greatest_goodput_mbps": "greatest\nMbit/s",
    "first_share": "first\n%",
    "jain": "Jain",
    "jain_interval_mean": "Jain per\ninterval",
    "convergence_s": "fair\nafter s",
    "rtt_mean_ms": "RTT\nms",
    "rtt_p95_ms": "RTT\np95 ms",
    "queue_delay_mean_ms": "queued\nms",
    "queue_delay_p95_ms": "queued\np95 ms",
    "queue_delay_p99_ms": "queued\np99 ms",
    "utilization": "used\n%",
    "loss": "lost\n%",
    "timeouts": "RTOs",
    "latency_p50_ms": "latency\nms",
    "latency_p99_ms": "latency\np99 ms",
    "latency_increase_p50_ms": "latency\n+ ms",
    "latency_increase_p99_ms": "latency\n+ p99 ms",
    "rpm": "RPM",
    "transfer_p50_ms": "transfer\nms",
    "transfer_p99_ms": "transfer\np99 ms",
    "slowdown_p50": "slowed\ntimes",
    "slowdown_p99": "slowed\np99",
    "page_p50_ms": "page\nms",
    "page_p99_ms": "page\np99 ms",
    "owd_p99_ms": "one-way\np99 ms",
    "jitter_ms": "jitter\nms",
    "datagram_loss": "lost\ndgrams %",
    "mos": "MOS",
    "bitrate_mbps": "bitrate\nMbit/s",
    "stall_s": "stalled\ns",
    "drops": "dropped",
    "marks": "marked",
}
#: Keys that are longer are on two lines; longer words of values may break.
_LONG_KEY, _LONGEST_WORD = 8, 24
_PERCENT = ("utilization", "loss", "datagram_loss", "first_share")


def sweep(
    context: typer.Context,
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="FILE-or-NAME",
            help="A sweep or scenario file, or a name from knee list scenarios.",
            autocompletion=complete.scenarios,
        ),
    ],
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V1,V2,...",
            help="An axis: link.limit='50 packets,100 packets', link.rate='log(1 Mbit/s, 1 Gbit/s, 7)', "
            "flows.0.cc='bbr*,delay-based', or sampled: flows.0.rtt='uniform(5 ms, 50 ms)'.",
        ),
    ] = None,
    zips: Annotated[
        list[str] | None, typer.Option("--zip", metavar="KEY,KEY", help="Let axes go together, step by step.")
    ] = None,
    derive: Derive = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change the scenario at every point.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", min=1, help="Run each point with N seeds.")] = None,
    samples: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Take N samples of all sampled axes together.")
    ] = None,
    sampling: Annotated[
        str | None, typer.Option(metavar="HOW", help="How to sample: latin (a Latin hypercube), random or sobol.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for the page and the data; default: results/sweep-NAME."),
    ] = None,
    workers: Jobs = None,
    dask: Dask = None,
    series: Annotated[bool, typer.Option("--series", help="Also write the time series of all runs.")] = False,
    save_runs: Annotated[
        bool, typer.Option("--save-runs", help="Also write a result folder for each run, in DIR/runs.")
    ] = False,
    dry_run: DryRun = False,
    again: Again = False,
    sort: Annotated[
        str | None, typer.Option(metavar="FIGURE", help="Show the best points for a figure first, such as jain.")
    ] = None,
    rows: Annotated[int, typer.Option(metavar="N", min=0, help="Show N points.")] = _ROWS,
) -> None:
    """Run a grid of scenarios over any keys.

    Axes are in the file's table [sweep] or in --over. Writes a Parquet data set with one row per run, per flow and per
    link, sweep.parquet with one row per run, and sweep.html, which plots any figure over any axis. Finished runs are
    kept, so an interrupted command continues where it stopped. knee run --from DIR ROW makes a run again in full.
    """
    from knee import sweeps
    from knee.sweeps import sweepfile

    if sort is not None:
        _check_figure(sort)
    definition = sweepfile.read(
        scenario,
        over or (),
        zips=[[key.strip() for key in keys.split(",")] for keys in zips or ()],
        derive=derive or (),
        changes=changes or (),
        seeds=seeds,
        samples=samples,
        sampling=sampling,
    )
    name = str(definition.base.get("name", definition.name))
    folder = folder or Path("results") / f"sweep-{name}"
    if dry_run:
        _estimate(definition, workers)
        return
    with Bar(f"sweep of {name}", folder) as bar:
        made = sweeps.run(
            definition, folder, workers=workers, dask=dask, series=series, save_runs=save_runs, again=again,
            progress=bar, command=context.obj,
        )  # fmt: skip
        made.write_page()
    show(made, sort, rows)
    if made.aside is not None:
        complain(f"{folder} had runs of another sweep or another build of knee; they are in {made.aside} now.")
    out().print(f"The page: {folder / 'sweep.html'}", soft_wrap=True)
    check_failed(made)


def _check_figure(name: str) -> None:
    from knee.sweeps.table import FIGURES
    from knee.units import near

    if name not in FIGURES:
        raise InputError(f"--sort: there is no figure {name}; {near(name, list(FIGURES))}.")


def check_failed(made: Sweep) -> None:
    """Reports runs that failed.

    Raises:
        RunError: some did; says how many, and why the first did.
    """
    failed = made.failed
    if not failed.is_empty():
        first = failed.row(0, named=True)
        where = f"the column error of {made.folder / 'sweep.parquet'} has the reasons"
        said = f"{failed.height} of {len(made)} runs failed; {where}, that of run {first['run']}: {first['error']}"
        raise RunError(said)


def _estimate(definition: Definition, workers: int | None) -> None:
    """Prints how large a sweep is."""
    from knee.sweeps import sweepfile

    checked = sweepfile.check(definition)
    for group in definition.groups:
        out().print(f"{' with '.join(group.keys)}: {len(group.rows)}", soft_wrap=True)
    if definition.seeds > 1:
        out().print(f"seeds: {definition.seeds}")
    estimate(len(definition), checked.mean_work, workers)
    if not checked.whole:
        complain(f"{len(checked.work)} of {len(definition)} runs were checked; a refusal of another would be a row.")


def estimate(runs: int, mean_packets: float, workers: int | None) -> None:
    """Prints how long runs take, from their number and the mean number of packets of one."""
    import os

    from knee.bench import case

    packets = mean_packets * runs
    speed = case("reno2")["packets_per_s"]
    cores = workers or os.cpu_count() or 1
    hours = packets / (speed * cores) / 3600
    told = (
        f"{hours:.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes" if hours >= 1 / 60 else "a minute or less"
    )
    out().print(
        f"{number(runs)} runs, some {packets:.2g} packets: about {told} on {cores} "
        f"{'core' if cores == 1 else 'cores'}, where knee bench reno2 simulates {speed / 1e6:.1f} million packets/s.",
        soft_wrap=True,
    )


def show(made: Sweep, sort: str | None = None, rows: int = _ROWS) -> None:
    """Prints the points with their most important figures, means over the seeds."""
    import polars as pl

    from knee.sweeps.table import FIGURES, LESS

    keys = [key for key in made.definition.keys if key != "seed"]
    seeds = "seed" in made.definition.keys
    columns = [*_SHOWN, *([sort] if sort is not None and sort not in _SHOWN else [])]
    group = [column.name for column in made.columns] + (["seed"] if seeds else [])
    points = made.runs.filter(pl.col("error").is_null())
    named = {f"={name}": pl.col(name).mean() for name in columns}
    grouped = points.group_by(group, maintain_order=True) if group else points.group_by(pl.lit(1).alias("="))
    found = grouped.agg(pl.col("run").min().alias("=run"), **named).collect()
    if sort is not None:
        found = found.sort(f"={sort}", descending=sort not in LESS, nulls_last=True, maintain_order=True)
    heads = [*keys, *(["seed"] if seeds else [])]
    # A long key breaks before its last part.
    words = [".\n".join(head.rsplit(".", 1)) if len(head) > _LONG_KEY else head for head in heads]
    shown = table(None, ["run", *words, *(_HEADS[name] for name in columns)], text=1 + len(heads))
    widths = [max(map(len, word.split("\n"))) for word in words]
    for row in found.head(rows).iter_rows(named=True):
        point = made.definition.point(row["=run"])
        given = [*(point.values[key] for key in keys), *([point.values["seed"]] if seeds else [])]
        told = [str(value) for value in given]
        widths = [max(width, *map(len, text.split(" "))) for width, text in zip(widths, told, strict=True)]
        shown.add_row(str(row["=run"]), *told, *(_cell(name, row[f"={name}"]) for name in columns))
    for column, width in zip(shown.columns[1:], widths, strict=False):
        # Words wrap whole on a narrow terminal.
        column.min_width = min(width, _LONGEST_WORD)
    if rows:
        out().print(shown)
    if found.height > rows > 0:
        sorted_by = "" if sort is None else f" sorted by {FIGURES[sort][0].lower()}"
        out().print(f"... and {found.height - rows} more points{sorted_by}, all on the page.\n", soft_wrap=True)


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return number(100 * value if name in _PERCENT else value, 3 if name == "jain" else 2)
