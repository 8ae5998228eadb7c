"""Colours that colour-blind readers can distinguish; a flow has the same one in every figure.

Up to seven flows use the palette of Okabe and Ito without its yellow, which is faint on white, and its black, which is
for totals. More flows use a ramp of steadily rising lightness in the order of the flows, which shows the order of many
staggered starts. More than seven lines without an order differ in their dashes.
"""

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

THEMES = {
    "light": {
        "ink": INK, "muted": "#5B6672", "grid": GRID, "paper": "#FFFFFF", "alarm": ALARM, "good": GREEN,
        "shade": ROUND_GREY, "guard": GUARD_GREY, "longest": LONGEST_GREY, "line": "#E3E7EB", "rule": "#C6CCD3",
        "soft": "#F3F5F7", "accent": "#0062A3", "yes": "#14713F", "no": "#B3330F", "warn": "#D55E00",
    },
    "dark": {
        "ink": "#E4E8EC", "muted": "#A3ADB8", "grid": "#262E36", "paper": "#12171C", "alarm": "#FF7A5C",
        "good": "#58C78B", "shade": "#242C34", "guard": "#1B2229", "longest": "#6B7785", "line": "#2C343C",
        "rule": "#46505A", "soft": "#1C2228", "accent": "#6CB6EC", "yes": "#58C78B", "no": "#FF8F6E", "warn": "#F0883E",
    },
}  # fmt: skip
"""The colours of pages by name, on light and on dark paper; charts use them as well."""
NAMES = {
    INK: "ink", MUTED: "muted", GRID: "grid", ALARM: "alarm", GREEN: "good", ROUND_GREY: "shade", GUARD_GREY: "guard",
    LONGEST_GREY: "longest",
}  # fmt: skip
"""Colours above that have another value on dark paper, by their name there."""


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


Symbol = Literal["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star"]
MARKERS: tuple[Symbol, ...] = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down")
"""Of points on a line: a second way to tell lines apart."""


def many_styles() -> list[tuple[str, Dash, Symbol]]:
    """Colour, dash and marker of sixty lines: twenty colours solid, dashed and dotted, with the markers in turn."""
    return [
        (colour, dash, MARKERS[(i + k) % len(MARKERS)])
        for k, dash in enumerate(DASHES)
        for i, colour in enumerate(MANY)
    ]


def pale(colour: str, part: float = 0.35) -> str:
    """The opaque colour that `colour` with that opacity gives on white."""
    channels = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (channel - 255) * part):02X}" for channel in channels)


VIRIDIS = ("#440154", "#472D7B", "#3B528B", "#2C728E", "#21918C", "#28AE80", "#5EC962", "#ADDC30", "#FDE725")
"""Nine colours of the scale of that name, from low to high: evenly lighter, also for colour-blind readers."""
