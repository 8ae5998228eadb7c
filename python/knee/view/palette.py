"""Colours that colour-blind readers can distinguish; a flow has the same one in every figure.

Up to seven flows use the palette of Okabe and Ito without its yellow, which is faint on white, and its black, which is
for totals. More flows use a ramp of steadily rising lightness in the order of the flows, which shows the order of many
staggered starts. More than seven lines without an order differ in their dashes.
"""

from collections.abc import Sequence
from typing import Literal

Dash = Literal["solid", "dash", "dot"]
DASHES: tuple[Dash, ...] = ("solid", "dash", "dot")

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5230")
RAMP = ((61, 12, 94), (52, 84, 150), (28, 130, 140), (52, 168, 110), (150, 190, 40))
LINK_COLOURS = ("#334155", "#7E22CE", "#0F766E", "#8A6116")

INK = "#1F2933"
"""Totals, medians of all flows, axes."""
MUTED = "#6B7785"
"""Base RTT, changes, small print."""
ALARM = "#C2361E"
"""Drops and timeouts."""
ROUND_GREY = "#E6E8EB"
"""Rounds of fair flow balancing."""
GUARD_GREY = "#EEF1F5"
LONGEST_GREY = "#9AA5B1"
"""Guard intervals, and the longest interval in each."""
GREEN = "#1B7F4B"
"""Growth."""
GRID = "#EEF0F2"


def _ramp(position: float) -> str:
    """The ramp's colour at `position` in 0 to 1."""
    scaled = position * (len(RAMP) - 1)
    left = min(int(scaled), len(RAMP) - 2)
    part = scaled - left
    mixed = (round(a + (b - a) * part) for a, b in zip(RAMP[left], RAMP[left + 1], strict=True))
    return "#" + "".join(f"{channel:02X}" for channel in mixed)


def flow_colours(count: int) -> list[str]:
    """A colour for each of `count` flows."""
    if count <= len(OKABE_ITO):
        return list(OKABE_ITO[:count])
    return [_ramp(index / (count - 1)) for index in range(count)]


def line_styles() -> list[tuple[str, Dash]]:
    """Distinguishable line styles: every colour solid, then dashed, then dotted."""
    return [(colour, dash) for dash in DASHES for colour in OKABE_ITO]


MANY = (
    *OKABE_ITO,
    *("#332288", "#117733", "#AA4499", "#882255", "#999933", "#44AA99", "#DDCC77", "#CC6677", "#661100", "#6699CC"),
    *("#888888", "#000000", "#A6761D"),
)
"""Twenty colours for lines without an order: those above, Paul Tol's muted ones, and three more."""


def many_styles(markers: Sequence[str]) -> list[tuple[str, Dash, str]]:
    """Colour, dash and marker of sixty lines: twenty colours solid, dashed and dotted, with the markers in turn."""
    return [
        (colour, dash, markers[(i + k) % len(markers)])
        for k, dash in enumerate(DASHES)
        for i, colour in enumerate(MANY)
    ]


MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down")
"""Of points on a line, by the names that plotly has for them: a second way to tell lines apart."""


def pale(colour: str, part: float = 0.35) -> str:
    """The opaque colour that `colour` with that opacity gives on white."""
    channels = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (channel - 255) * part):02X}" for channel in channels)


def rgba(colour: str, opacity: float) -> str:
    """`#RRGGBB` with an opacity, in the notation of CSS."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"
