"""``knee compare``."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knee.cli import options
from knee.cli.console import out, write_json
from knee.cli.options import option
from knee.cli.paired import PAGE, compare_paired, write_page
from knee.cli.tables import number, table
from knee.errors import InputError
from knee.system.text import JsonTable

if TYPE_CHECKING:
    from knee.results.result import Result


def compare(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR",
            help="Result folders of knee run, files of iperf3 (JSON) or Flent, or with --by one folder of knee sweep.",
        ),
    ],
    by: Annotated[
        str | None,
        option(
            options.FIGURE,
            "--by",
            metavar="KEY",
            help="Of a sweep: compare the values of this axis, such as flows.0.cc, network by network.",
        ),
    ] = None,
    folder: Annotated[Path | None, options.out(f"Also write {PAGE} there: what differs, and all series.")] = None,
    as_json: options.Json = False,
) -> None:
    """Show the figures of results side by side.

    Results that differ only in their seeds are runs of one variant. Where a variant has several, the table has their
    means; the page compares variants, each difference with its 95 % confidence interval.

    With --by, the runs of a sweep are paired by network: all that they have in common but that axis. The table has
    medians, differences with their 95 % intervals, effect sizes, Wilcoxon's p, and in how many networks each is better.
    """
    if by is not None:
        compare_paired(folders, by, folder, as_json)
        return
    from knee.results.folder import check_result
    from knee.results.measured import is_measurement

    if any(map(is_measurement, folders)):
        from knee.cli.measured import compare_measured

        compare_measured(folders, folder, as_json)
        return
    if len(folders) < 2:
        if (folders[0] / "sweep.json").is_file():
            raise InputError(f"{folders[0]} is a sweep; name what to compare, as in --by flows.0.cc.")
        check_result(folders[0])
        raise InputError("There is only one result; name two or more folders to compare.")
    from knee.figures.compared import figures
    from knee.results.result import Result
    from knee.system import files

    if folder is not None:
        files.check_output(folder / PAGE)
    results = [Result.load(each) for each in folders]
    values = [figures(result.summary) for result in results]
    if as_json:
        write_json([_plain(*each) for each in zip(folders, results, values, strict=True)])
    else:
        _show(folders, results, values)
    if folder is not None:
        from knee.view.compare.page import page

        write_page(folder, page(results, [str(each) for each in folders]), as_json)


def _algorithms(result: Result) -> list[str]:
    return list(dict.fromkeys(flow["cc"] for flow in result.summary["flows"]))


def _plain(folder: Path, result: Result, values: dict[str, float | int | None]) -> JsonTable:
    named = {key: result.summary[key] for key in ("name", "ground", "seed")}
    return {"folder": str(folder), **named, "algorithms": _algorithms(result), "figures": values}


def _show(folders: list[Path], results: list[Result], values: list[dict[str, float | int | None]]) -> None:
    """Prints the figures: a column for each variant, as on the page."""
    from knee.view.compare.variants import variants

    _, compared, _ = variants(results, [str(folder) for folder in folders])
    at = {id(result): i for i, result in enumerate(results)}
    groups = [[at[id(result)] for result in variant.results] for variant in compared]
    several = any(len(group) > 1 for group in groups)
    # Without further seeds, the columns have the names that were given.
    heads = [
        variant.name if several else str(folders[group[0]]) for variant, group in zip(compared, groups, strict=True)
    ]
    rows = table("Results side by side", ["figure", *heads])
    said: list[tuple[str, Callable[[Result], str]]] = [
        *((key, lambda result, key=key: str(result.summary[key])) for key in ("name", "ground", "seed")),
        ("algorithms", lambda result: ", ".join(_algorithms(result))),
    ]
    for key, word in said:
        rows.add_row(key, *(", ".join(dict.fromkeys(word(results[i]) for i in group)) for group in groups))
    for figure in dict.fromkeys(name for run in values for name in run):
        rows.add_row(figure, *(_mean([values[i].get(figure) for i in group]) for group in groups))
    out().print(rows)
    if several:
        out().print(
            "Means over the seeds of each variant; --json has every result, and --out writes the page.\n",
            soft_wrap=True,
        )


def _mean(values: list[float | int | None]) -> str:
    """The figure of a run, or the mean of those that have it."""
    known = [value for value in values if value is not None]
    if len(values) == 1 or not known:
        return number(values[0], 3)
    return number(float(statistics.fmean(known)), 3)
