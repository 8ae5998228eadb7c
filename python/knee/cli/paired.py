"""``knee compare SWEEP --by KEY``: the variants of a sweep, network by network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from knee.cli.console import complain, out, write_json
from knee.cli.tables import number, table
from knee.errors import InputError
from knee.system import extras
from knee.system.text import JsonTable

if TYPE_CHECKING:
    from knee.figures.register import Entry
    from knee.figures.signed_ranks import Differences
    from knee.study.sweeps.paired import Paired

PAGE = "compare.html"


def write_page(folder: Path, text: str, quiet: bool) -> None:
    """Writes the page of a comparison into a folder, which is made, and says where it is."""
    from knee.system import files
    from knee.system.rights import make_folder

    try:
        make_folder(folder)
    except OSError as error:
        raise files.unwritable(folder, error) from None
    files.write(folder / PAGE, text)
    if not quiet:
        out().print(f"The page: {folder / PAGE}", soft_wrap=True)


def compare_paired(folders: Sequence[Path], key: str, folder: Path | None, as_json: bool) -> None:
    """Compares the values of an axis.

    Raises:
        InputError: there is no such axis, or more than one folder.
        FolderError: the folder has no sweep.
    """
    from knee.study.sweeps import open_sweep
    from knee.system import files

    if len(folders) > 1:
        raise InputError(f"--by compares the runs of one sweep, and {len(folders)} folders are given.")
    if folder is not None:
        files.check_output(folder / PAGE)
    sweep = open_sweep(folders[0])
    found = sweep.paired(key)
    if as_json:
        write_json(_plain(folders[0], found))
    else:
        _show(found)
    if len(found.runs) < found.networks:
        left = found.networks - len(found.runs)
        complain(f"{left} of {found.networks} networks lack a run of some value of {key}, and are left out.")
    if not extras.there("scipy"):
        complain('scipy is not installed, so there is no p; pip install "knee[search]" installs it.')
    if folder is not None:
        from knee.view.compare.paired import page

        write_page(folder, page(found, str(folders[0])), as_json)


def _plain(folder: Path, found: Paired) -> JsonTable:
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


def _show(found: Paired) -> None:
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
        probability(found.p),
        *(["-", "-"] if wins is None else map(str, wins)),
    ]


def probability(p: float | None) -> str:
    """A p as tables have it."""
    return "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
