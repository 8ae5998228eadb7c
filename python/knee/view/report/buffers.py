"""The figure of the buffers that a queue sets for each flow: their size, backlog and changes.

A queue such as cocoa records them as events of its flows: "buffer", "backlog", and at each full queue a decision with
its measurements. Without "buffer" there is no figure; other missing events are left out.
"""

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from knee.figures.metrics import Floats
from knee.system.text import visible
from knee.view import numbers as units
from knee.view.chart import Chart, Line, Marks, Panel, Spans, finish, over_time
from knee.view.palette import ALARM, GREEN, GUARD_GREY, INK, LONGEST_GREY, MUTED, Symbol
from knee.view.report.prepare import MAX_MARKS, MAX_ROUNDS, Flow, View

MAX_BUFFERS = 4
"""So many flows are drawn, a panel each."""
HEADROOM = 0.1
"""Part of a panel that is kept free for the strip of longest intervals."""
STRIP = (0.94, 0.98)
"""Where that strip lies, in parts of the panel's height."""
EVENT = "buffer"
BRANCHES = frozenset({"enlarge", "restart", "reduce", "loss"})
"""What cocoa does at a full queue, as its Algorithm 1 has it."""


@dataclass
class Full:
    """A packet found the queue full: the decision and the measurements behind it."""

    t_s: float
    idle_s: float = 0.0
    branch: str = ""
    figure: float = 0.0
    longest_s: float | None = None
    guard_s: float | None = None

    @property
    def kind(self) -> str:
        """The kind of mark, by whether the buffer changed."""
        changes = self.branch in ("enlarge", "reduce") and self.figure > 0
        return self.branch if changes else "full"

    @property
    def ends_interval(self) -> bool:
        """Whether it ends the interval; an enlargement does not."""
        return self.branch != "enlarge"

    def told(self) -> str:
        """The text of its tooltip."""
        packets = units.number(self.figure)
        words = {
            "enlarge": f"{packets} packets more: idle for {_span(self.idle_s)}",
            "reduce": f"{packets} packets less: the standing queue" if self.figure > 0 else "no standing queue",
            "restart": f"measures again, after {_span(self.figure)}",
            "loss": f"an interval of {_span(self.figure)} ends",
        }[self.branch]
        if self.guard_s is not None and self.longest_s is not None:
            words += f"\nthe longest interval was {_span(self.longest_s)}"
            words += f"\nthe next guard interval lasts {_span(self.guard_s)} or more"
        return words


@dataclass
class Buffer:
    """A flow's buffer as its queue recorded it."""

    flow: Flow
    link: str
    sizes: list[tuple[float, float]] = field(default_factory=list)
    backlog: list[tuple[float, float]] = field(default_factory=list)
    fulls: list[Full] = field(default_factory=list)


def _span(seconds: float) -> str:
    if seconds >= 1:
        return f"{units.number(seconds, 3)} s"
    unit = units.delay_unit(1e3 * seconds)
    return f"{units.number(1e3 * seconds * unit.scale, 3)} {unit.name}"


def _buffers(view: View) -> list[Buffer]:
    """The buffers of each flow and link, in the order of flows."""
    known = view.notes.filter(pl.col("event") == EVENT).select("flow", "link").unique().sort("flow", "link")
    flows = {flow.number: flow for flow in view.flows}
    return [Buffer(flows[number], link) for number, link in known.iter_rows() if number in flows]


def _read(buffer: Buffer, view: View) -> Buffer:
    """Reads the recorded events."""
    own = view.notes.filter((pl.col("flow") == buffer.flow.number) & (pl.col("link") == buffer.link))
    for t_s, event, value in own.select("t_s", "event", "value").iter_rows():
        if event == EVENT:
            buffer.sizes.append((t_s, value))
        elif event == "backlog":
            buffer.backlog.append((t_s, value))
        elif event == "idle":
            buffer.fulls.append(Full(t_s, idle_s=value))
        elif buffer.fulls and buffer.fulls[-1].t_s == t_s:
            full = buffer.fulls[-1]
            if event in BRANCHES:
                full.branch, full.figure = event, value
            elif event == "longest_interval":
                full.longest_s = value
            elif event == "guard_interval":
                full.guard_s = value
    buffer.fulls = [full for full in buffer.fulls if full.branch]
    return buffer


def guards(fulls: list[Full], end: float) -> list[tuple[float, float]]:
    """The guard intervals, each until the next one starts, the last until the end."""
    starts = [full.t_s for full in fulls if full.guard_s is not None]
    return list(zip(starts, [*starts[1:], end], strict=False))


def longest(fulls: list[Full]) -> list[tuple[float, float]]:
    """The longest interval in each guard interval: the last one with the recorded length."""
    spans: list[tuple[float, float]] = []
    inside: list[tuple[float, float]] = []
    last: float | None = None
    for full in fulls:
        if not full.ends_interval:
            continue
        # The first interval began with the flow's first packet, so its length is the recorded one.
        start = last if last is not None else full.t_s - (full.longest_s or 0.0)
        inside.append((start, full.t_s))
        last = full.t_s
        if full.longest_s is not None:
            length = full.longest_s
            spans += [span for span in inside if abs(span[1] - span[0] - length) < 1e-6][-1:]
            inside = []
    return spans


def _arrays(points: list[tuple[float, float]]) -> tuple[Floats, Floats]:
    table = np.array(points, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _size_at(buffer: Buffer, times: Floats) -> Floats:
    """The buffer's size after all events at each of `times`."""
    x, y = _arrays(buffer.sizes)
    at: Floats = y[np.maximum(np.searchsorted(x, times, side="right") - 1, 0)]
    return at


def _marks(buffer: Buffer, duration: float) -> list[Marks]:
    kinds: list[tuple[str, str, str, Symbol]] = [
        ("full", "queue full", MUTED, "circle"),
        ("enlarge", "enlarged", GREEN, "triangle-up"),
        ("reduce", "reduced", ALARM, "triangle-down"),
    ]
    marks = []
    for kind, name, colour, symbol in kinds:
        fulls = _apart([full for full in buffer.fulls if full.kind == kind], duration)
        if fulls:
            x = np.array([full.t_s for full in fulls])
            marks.append(Marks(name, x, _size_at(buffer, x), colour, symbol, [full.told() for full in fulls]))
    return marks


def _apart(fulls: list[Full], duration: float) -> list[Full]:
    """Thins out events too close to be seen apart: keeps the first that began a guard interval, or else the first."""
    if len(fulls) <= MAX_MARKS:
        return fulls
    stretches: dict[int, Full] = {}
    for full in fulls:
        kept = stretches.setdefault(int(full.t_s / duration * MAX_MARKS), full)
        if kept.guard_s is None and full.guard_s is not None:
            stretches[int(full.t_s / duration * MAX_MARKS)] = full
    return list(stretches.values())


def _panel(buffer: Buffer, label: str, view: View) -> Panel:
    x, y = _arrays(buffer.sizes)
    end = view.duration_s
    held = _arrays(buffer.backlog)
    lines = [
        Line("backlog", *held, buffer.flow.colour or INK, 1.2),
        Line("buffer", np.append(x, end), np.append(y, y[-1:]), INK, 1.4, step=True),
    ]
    found = guards(buffer.fulls, end)
    spans = []
    if 0 < len(found) <= MAX_ROUNDS:
        spans = [
            Spans("guard intervals, every other", found[::2], 0.0, 1.0, GUARD_GREY),
            Spans("longest intervals", longest(buffer.fulls), *STRIP, LONGEST_GREY),
        ]
    return Panel(label, lines, marks=_marks(buffer, end), spans=spans, headroom=HEADROOM if spans else 0.0)


def buffer(view: View) -> Chart:
    """Buffer and backlog of each flow, with guard intervals and the decisions at a full queue."""
    found = _buffers(view)
    drawn = [_read(one, view) for one in found[:MAX_BUFFERS]]
    several_links = len({one.link for one in drawn}) > 1
    panels = []
    for one in drawn:
        label = f"{one.flow.label}, {visible(one.link)}" if several_links else one.flow.label
        panels.append(_panel(one, label if len(drawn) > 1 else "Queue", view))
    empty = "No queue reported per-flow buffers."
    done = [finish(panel, units.packet_unit, empty) for panel in panels or [Panel("Queue")]]
    caption = ["Buffer: the packets that the flow may queue; backlog: those queued at the end of each interval."]
    if any(panel.spans for panel in panels):
        caption.append("Shaded: every other guard interval; bars on top: the longest interval of each.")
    elif any(one.fulls for one in drawn):
        caption.append(f"More than {MAX_ROUNDS} guard intervals: not shown.")
    if len(found) > len(drawn):
        caption.append(f"The first {len(drawn)} of {units.fixed(len(found), 0)}.")
    caption += dict.fromkeys(sentence for _, sentences in done for sentence in sentences)
    return Chart("buffer", "Buffer per flow", [panel for panel, _ in done], caption, over_time(view.duration_s))
