"""``knee compare``: results, files of other programs, or the variants of a sweep, network by network."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knee.cli import options
from knee.cli.console import complain, out, write_json
from knee.cli.options import option
from knee.cli.tables import number, table
from knee.errors import InputError
from knee.system import extras, files
from knee.system.rights import make_folder
from knee.system.text import JsonTable

if TYPE_CHECKING:
    from knee.figures.register import Entry
    from knee.figures.signed_ranks import Differences
    from knee.results.result import Result
    from knee.study.sweeps.paired import Paired

PAGE = "compare.html"


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
        _compare_paired(folders, by, folder, as_json)
        return
    from knee.results.folder import check_result
    from knee.results.measured import is_measurement

    if any(map(is_measurement, folders)):
        _compare_measured(folders, folder, as_json)
        return
    if len(folders) < 2:
        if (folders[0] / "sweep.json").is_file():
            raise InputError(f"{folders[0]} is a sweep; name what to compare, as in --by flows.0.cc.")
        check_result(folders[0])
        raise InputError("There is only one result; name two or more folders to compare.")
    from knee.figures.compared import beside
    from knee.results.result import Result

    if folder is not None:
        files.check_output(folder / PAGE)
    results = [Result.load(each) for each in folders]
    values = beside([result.summary for result in results])
    if as_json:
        write_json([_plain(*each) for each in zip(folders, results, values, strict=True)])
    else:
        _show(folders, results, values)
    if folder is not None:
        from knee.view.compare.page import page

        _write_page(folder, page(results, [str(each) for each in folders]), as_json)


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


def _compare_measured(paths: Sequence[Path], folder: Path | None, as_json: bool) -> None:
    """Shows results and measurements side by side.

    Raises:
        FolderError: one is neither.
        InputError: there is only one.
    """
    from knee.view.compare import measured

    tracks = [measured.track(path) for path in paths]
    if len(paths) < 2:
        raise InputError(f"There is only {paths[0]}; name two or more results or measurements to compare.")
    if folder is not None:
        files.check_output(folder / PAGE)
    each = [measured.figures(one) for one in tracks]
    if as_json:
        tracked = zip(paths, tracks, each, strict=True)
        write_json([{"path": str(p), "format": one.source, "figures": figures} for p, one, figures in tracked])
    else:
        short = [path.name for path in paths]
        names = short if len(set(short)) == len(short) else list(map(str, paths))
        rows = table("Results and measurements side by side", ["figure", *names])
        rows.add_row("from", *(one.source for one in tracks))
        for name in each[0]:
            rows.add_row(name, *(number(figures[name], 3) for figures in each))
        out().print(rows)
    if folder is not None:
        _write_page(folder, measured.page(tracks), as_json)


def _write_page(folder: Path, text: str, quiet: bool) -> None:
    """Writes the page of a comparison into a folder, which is made, and says where it is."""
    try:
        make_folder(folder)
    except OSError as error:
        raise files.unwritable(folder, error) from None
    files.write(folder / PAGE, text)
    if not quiet:
        out().print(f"The page: {folder / PAGE}", soft_wrap=True)


def _compare_paired(folders: Sequence[Path], key: str, folder: Path | None, as_json: bool) -> None:
    """Compares the values of an axis.

    Raises:
        InputError: there is no such axis, or more than one folder.
        FolderError: the folder has no sweep.
    """
    from knee.study.sweeps import open_sweep

    if len(folders) > 1:
        raise InputError(f"--by compares the runs of one sweep, and {len(folders)} folders are given.")
    if folder is not None:
        files.check_output(folder / PAGE)
    sweep = open_sweep(folders[0])
    found = sweep.paired(key)
    if as_json:
        write_json(_paired_plain(folders[0], found))
    else:
        _show_paired(found)
    if len(found.runs) < found.networks:
        left = found.networks - len(found.runs)
        complain(f"{left} of {found.networks} networks lack a run of some value of {key}, and are left out.")
    if not extras.there("scipy"):
        complain('scipy is not installed, so there is no p; pip install "knee[search]" installs it.')
    if folder is not None:
        from knee.view.compare.paired import page

        _write_page(folder, page(found, str(folders[0])), as_json)


def _paired_plain(folder: Path, found: Paired) -> JsonTable:
    first, *others = found.variants
    return {
        "folder": str(folder),
        "by": found.key,
        "networks": len(found.runs),
        "seeds": found.seeds,
        "first": first.name,
        "comparisons": [
            {
                "other": other.name,
                "figures": {
                    figure.name: _numbers(figure, differences)
                    for figure in found.known
                    if (differences := found.differences(figure.name, other)) is not None
                },
            }
            for other in others
        ],
    }


def _numbers(figure: Entry, found: Differences) -> JsonTable:
    wins = found.wins(figure)
    return {
        "networks": found.pairs,
        "median_first": found.medians[0],
        "median_other": found.medians[1],
        "difference": found.shift,
        "difference_low": found.low,
        "difference_high": found.high,
        "effect": found.effect,
        "p": found.p,
        "higher": found.more,
        "lower": found.less,
        "same": found.same,
        "wins": None if wins is None else wins[0],
        "losses": None if wins is None else wins[1],
    }


def _show_paired(found: Paired) -> None:
    """Prints a table for each variant but the first, with the figures that the terminal shows."""
    figures = [one for one in found.known if {"terminal", "terminal-where-any"} & set(one.shown)]
    for other in found.others:
        first = found.variants[0]
        rows = table(
            f"{other.name} against {first.name} in {len(found.runs)} networks, by {found.key}",
            ["figure", "median\nfirst", "median\nother", "difference", "95 %\ninterval", "effect", "p", "wins",
             "losses"],
        )  # fmt: skip
        rows.padding = (0, 1) if out().width >= 100 else (0, 0)
        for figure in figures:
            differences = found.differences(figure.name, other)
            if differences is not None:
                rows.add_row(figure.key, *_cells(figure, differences))
        out().print(rows)
    seeds = f" Figures are means over {found.seeds} seeds." if found.seeds > 1 else ""
    out().print(
        f"First: {found.variants[0].name}. The difference is other minus first, the Hodges-Lehmann estimate; effect is "
        f"the rank-biserial correlation, -1 to 1; p is Wilcoxon's.{seeds}\n",
        soft_wrap=True,
    )


def _cells(figure: Entry, found: Differences) -> list[str]:
    places = figure.decimals or 0

    def shown(value: float | None) -> str:
        return number(figure.amount(value), places)

    wins = found.wins(figure)
    return [
        *map(shown, found.medians),
        shown(found.shift),
        "-" if found.low is None else f"{shown(found.low)}\nto {shown(found.high)}",
        number(found.effect, 2),
        _probability(found.p),
        *(["-", "-"] if wins is None else map(str, wins)),
    ]


def _probability(p: float | None) -> str:
    """A p as tables have it."""
    return "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
