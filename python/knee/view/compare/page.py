"""The page of a comparison: what differs, then figures with their differences, then all series over each other."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from knee import _core
from knee.figures import compared
from knee.figures.register import Entry
from knee.figures.student import quantile_of_t
from knee.results.result import Result
from knee.view import pages
from knee.view.compare.charts import MOST_RUNS, charts
from knee.view.compare.variants import Difference, Variant, difference, known, variants
from knee.view.numbers import NONE, decimals_for, fixed, number
from knee.view.pages.table import Cell, Head, Row, Table


def page(results: Sequence[Result], folders: Sequence[str]) -> str:
    """The page, as HTML; `folders` are the names of the results."""
    keys, made, values = variants(results, folders)
    over_time, distributions, boxes = charts(made)
    copies = len(results) - sum(len(variant.results) for variant in made)
    several = any(len(variant.results) > 1 for variant in made)
    same = [figure for figure in known(made) if _same(made, figure)]
    return pages.page(
        "view/compare/compare.html",
        scripts=pages.CHARTS,
        styles=("view/compare/compare.css",),
        title=f"{' and '.join(v.name for v in made)}" if len(made) <= 3 else f"{len(made)} variants compared",
        facts=[
            f"{len(results)} results",
            f"{copies} of them copies, which count once" if copies else "",
            f"{len(made)} variants" if len(made) > 1 else "",
            f"knee {_core.version()}",
        ],
        differing=_differing(keys, made, values),
        figures=_figures(made, [figure for figure in known(made) if figure not in same]),
        same=_figures(made[:1], same) if same else None,
        several=several,
        thinned=len(results) > MOST_RUNS,
        boxes=[pages.prepared(chart) for chart in boxes],
        series=[pages.prepared(chart) for chart in over_time],
        distributions=[pages.prepared(chart) for chart in distributions],
        every=_every(results, folders),
    )


def _differing(keys: Sequence[str], made: Sequence[Variant], values: Sequence[dict[str, str]]) -> Table:
    rows = [Row(Head(key), [Cell(value[key], kind="words") for value in values]) for key in keys]
    return Table([Head("key"), *(Head(variant.name) for variant in made)], rows)


def _same(made: Sequence[Variant], figure: Entry) -> bool:
    """Whether several variants have a figure to the last digit."""
    return len(made) > 1 and len({tuple(variant.values(figure.name)) for variant in made}) == 1


def _figures(made: Sequence[Variant], shown: Sequence[Entry]) -> Table:
    """Figures of each variant: mean and interval, and the difference from the first variant."""
    rows = []
    for figure in shown:
        scale = 100.0 if figure.quantity == "part" else 1.0
        every = [scale * value for variant in made for value in variant.values(figure.name)]
        decimals = decimals_for(every)
        cells = [_cell(figure, variant, scale, decimals) for variant in made]
        for i, variant in enumerate(made[1:], 1):
            found = difference(made[0], variant, figure.name)
            if found is not None:
                note = _note(found, scale, decimals)
                cells[i] = Cell(cells[i].text, cells[i].key, cells[i].exact, found.verdict(figure), note)
        rows.append(Row(Head(figure.title, "%" if figure.quantity == "part" else figure.unit), cells))
    return Table([Head("figure"), *(Head(variant.name) for variant in made)], rows)


def _cell(figure: Entry, variant: Variant, scale: float, decimals: int) -> Cell:
    values = [scale * value for value in variant.values(figure.name)]
    if not values:
        return Cell(NONE, figure.name, "")
    mean = statistics.fmean(values)
    text = fixed(mean, decimals)
    if len(values) > 1:
        half = quantile_of_t(len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
        text += f" ± {fixed(half, decimals)}"
    return Cell(text, figure.name, str(mean / scale))


def _note(found: Difference, scale: float, decimals: int) -> str:
    if found.amount == 0:
        return "the same"
    sign = "+" if found.amount > 0 else "−"
    spread = "" if found.half is None else f" ± {fixed(scale * found.half, decimals)}"
    part = "" if found.part is None else f", {sign}{number(100 * abs(found.part), 2)} %"
    return f"{sign}{fixed(abs(scale * found.amount), decimals)}{spread}{part}"


def _every(results: Sequence[Result], folders: Sequence[str]) -> Table:
    """All figures of all results, as the terminal shows them."""
    each = compared.beside([result.summary for result in results])
    rows = []
    for name in dict.fromkeys(name for one in each for name in one):
        values = [one.get(name) for one in each]
        decimals = 0 if all(isinstance(value, int) or value is None for value in values) else decimals_for(values)
        cells = [Cell(fixed(value, decimals), name, "" if value is None else str(value)) for value in values]
        rows.append(Row(Head(name), cells))
    return Table([Head("figure"), *(Head(folder) for folder in folders)], rows)
