"""Parts that the experiments on findings share: figures of runs, and drawings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from knee.papers import drawing
from knee.papers.items import Value
from knee.papers.paper import Drawing, Results
from knee.view.chart import Chart, Panel

#: The quantity that is worst in a finding, and its figure in sweeps, by the word for it in the run's name.
_WORST = {
    "delay": ("delay", "queue_delay_p95_ms"),
    "buffer": ("buffer", "queue_delay_p95_ms"),
    "fairness": ("jain", "jain"),
    "use": ("use", "utilization"),
    "loss": ("loss", "loss"),
}


def measured(results: Results) -> dict[str, Value]:
    """The figure of each run by its name: of ``lola-worst-fairness-near`` Jain's index, as ``jain_near``."""
    made: dict[str, Value] = {}
    for run in results.runs:
        _, _, what, *changes = run.split("-")
        quantity, figure = _WORST[what]
        made["_".join([quantity, *changes])] = results[run].summary["run"][figure]
    return made


def panels(caption: str, rows: Sequence[tuple[str, str, Mapping[str, str]]]) -> Drawing:
    """A panel per row: its title, the column of the links' series or, of the flows', ``flow:NAME``, and the runs.

    A second line of the title stands above the panel. Each run is a line, by its name in the legend; of flows' columns
    the flows of the first run are lines.
    """

    def draw(results: Results) -> Chart:
        made = []
        for title, column, runs in rows:
            first = results[next(iter(runs))]
            lines = (
                drawing.flows(first, column.removeprefix("flow:"))
                if column.startswith("flow:")
                else drawing.by_run(results, runs, partial(drawing.of_link, column=column))
            )
            label, _, of = title.partition("\n")
            made.append(Panel(label, lines, title=of, x=drawing.time(first)))
        assert made[0].x is not None
        return drawing.figure(made[0].x, *made)

    return Drawing(caption, draw)
