"""The four maps of a matrix with their scales and colours, for the page and the picture."""

from __future__ import annotations

from dataclasses import dataclass

#: Families in drawing order.
FAMILIES = ("loss-based", "delay-based", "hybrid", "ECN-based")


@dataclass(frozen=True)
class Map:
    """A heat map.

    Attributes:
        column: the table's column.
        title: the heading.
        hint: what a cell means.
        low, high: the ends of the scale; values beyond them have the colours of the ends.
        log: whether the scale is logarithmic.
        colours: from low to high, evenly spaced.
        factor, unit: the value is multiplied by the factor and shown with the unit.
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
