"""Which flows the figures draw: all if there are few, else a choice of the reader's, or quantiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from knee.view.chart import Choices
from knee.view.numbers import count_word
from knee.view.palette import Dash, flow_colours, line_styles

MAX_LINES = 18
"""More flows than this are not all drawn as lines."""
MAX_PICKED = 7
"""So many flows are drawn where they are picked by a rank."""
QUANTILES = "quantiles"


@dataclass(frozen=True)
class Flow:
    """A flow as the figures show it.

    Attributes:
        finite: whether it sends a given number of bytes.
        completion_s: how long that took, s; None if it did not finish.
        choices: the choices that show it; few flows are always shown.
    """

    number: int
    label: str
    cc: str
    start_s: float
    base_rtt_ms: float | None
    direction: str = "forward"
    goodput_mbps: float = 0.0
    finite: bool = False
    completion_s: float | None = None
    colour: str = ""
    dash: Dash = "solid"
    choices: Choices = ()


def choose(flows: Sequence[Flow]) -> tuple[list[Flow], dict[str, str]]:
    """The flows with colours and choices, and the title of each choice, the default first.

    If there are no choices, all flows are drawn.
    """
    if len(flows) <= MAX_LINES:
        # A ramp shows the order of many starts of one kind; flows of several kinds are told apart by colour and dash.
        kinds = {(flow.cc, flow.direction, flow.finite) for flow in flows}
        ramp: list[tuple[str, Dash]] = [(colour, "solid") for colour in flow_colours(len(flows))]
        several = len(kinds) > 1 or len({flow.start_s for flow in flows}) == 1
        styles = line_styles() if several and len(flows) <= len(line_styles()) else ramp
        pairs = zip(flows, styles, strict=False)
        return [replace(flow, colour=colour, dash=dash) for flow, (colour, dash) in pairs], {}
    titles: dict[str, str] = {}
    picked: dict[str, list[Flow]] = {}
    endless = [flow for flow in flows if not flow.finite]
    if 0 < len(endless) <= MAX_LINES:
        titles["endless"] = f"{count_word(len(endless))} without an end".capitalize()
        picked["endless"] = endless
    titles[QUANTILES] = "Quantiles over all flows"
    done = [flow for flow in flows if flow.completion_s is not None]
    ranks: list[tuple[str, str, Sequence[Flow], Callable[[Flow], float]]] = [
        ("first", "first to start", flows, lambda flow: flow.start_s),
        ("longest", "that took longest", done, lambda flow: -(flow.completion_s or 0.0)),
        ("least", "with the lowest goodput", flows, lambda flow: flow.goodput_mbps),
        ("greatest", "with the highest goodput", flows, lambda flow: -flow.goodput_mbps),
    ]
    for key, title, among, rank in ranks:
        if among:
            picked[key] = sorted(among, key=rank)[:MAX_PICKED]
            titles[key] = f"{count_word(len(picked[key])).capitalize()} {title}"
    return _styled(flows, picked), titles


def _styled(flows: Sequence[Flow], picked: dict[str, list[Flow]]) -> list[Flow]:
    """Gives each flow one style for all choices, and different ones to flows of the same choice."""
    shown_by: dict[int, list[str]] = {}
    for key, members in picked.items():
        for flow in members:
            shown_by.setdefault(flow.number, []).append(key)
    styles = line_styles()
    taken: dict[str, set[tuple[str, Dash]]] = {key: set() for key in picked}
    styled = {flow.number: flow for flow in flows}
    for number, keys in shown_by.items():
        free = [style for style in styles if not any(style in taken[key] for key in keys)]
        colour, dash = (free or styles)[0]
        for key in keys:
            taken[key].add((colour, dash))
        styled[number] = replace(styled[number], colour=colour, dash=dash, choices=tuple(keys))
    return list(styled.values())
