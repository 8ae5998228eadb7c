"""What is drawn of a matrix: four maps, their scales and colours, the same on the page and in the picture."""

from __future__ import annotations

from dataclasses import dataclass

#: Families in the order in which they are drawn.
FAMILIES = ("loss-based", "delay-based", "hybrid", "ECN-based")


@dataclass(frozen=True)
class Map:
    """A heat map.

    Attributes:
        column: of the table.
        title: its heading.
        hint: what a cell says.
        low, high: the values of the scale's ends; beyond them the colours stay.
        log: whether the scale is logarithmic.
        colours: from low to high, at equal distances.
        factor, unit: a value times the factor is shown with the unit.
    """

    column: str
    title: str
    hint: str
    low: float
    high: float
    colours: tuple[str, ...]
    log: bool = False
    factor: float = 1.0
    unit: str = ""


_SHARE = ("#B35806", "#F1A340", "#FEE0B6", "#F7F7F7", "#D8DAEB", "#998EC3", "#542788")
_MORE = ("#F7FBFF", "#C6DBEF", "#6BAED6", "#2171B5", "#08306B")
_WORSE = ("#FFF7EC", "#FDD49E", "#FC8D59", "#D7301F", "#7F0000")

MAPS = (
    Map("share", "Throughput share", "the row's share of the total throughput", 0.0, 1.0, _SHARE, factor=100, unit="%"),
    Map("jain", "Jain's index", "0.5: one flow has everything; 1: equal shares", 0.5, 1.0, _MORE),
    Map("rtt_inflation", "RTT inflation", "the row's mean RTT divided by its base RTT", 1.0, 3.0, _WORSE),
    Map(
        "loss",
        "Loss",
        "the row's lost packets divided by those it sent",
        1e-5,
        1e-1,
        _WORSE,
        log=True,
        factor=100,
        unit="%",
    ),
)
