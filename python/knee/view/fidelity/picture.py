"""Charts of a comparison: the errors of all flows, and the congestion windows of a case over each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from knee.study.fidelity.compare import GOODPUT_POINTS, SRTT_PERCENT, CaseResult, Curve, Report
from knee.view.chart import Chart, Line, Marks, Panel, XAxis, over_time, thin_line
from knee.view.palette import ALARM, GREEN, MUTED, Symbol, flow_colours, pale

#: The most points of a drawn line: about as many as a chart has pixels across.
POINTS = 800
#: The top of the vertical axis, as a multiple of the greatest window outside slow start's first second.
HEADROOM = 1.12
#: Room around the errors, as a multiple of the greatest.
ROOM = 1.15


def errors(report: Report, key: str = "errors") -> Chart:
    """A mark per flow: the error of its goodput and that of its smoothed RTT, and the box that both are held to."""
    flows = [(result, flow) for result in report.results for flow in result.flows]
    marks = []
    kinds: list[tuple[bool, str, str, Symbol]] = [
        (True, "passes", GREEN, "circle"),
        (False, "fails", ALARM, "triangle-down"),
    ]
    for holds, name, colour, symbol in kinds:
        own = [(result, flow) for result, flow in flows if flow.holds is holds]
        if own:
            x, y = (np.array([getattr(flow, axis) for _, flow in own]) for axis in ("points", "percent"))
            texts = [f"{result.case.name}, flow {flow.kernel.number} {flow.kernel.cc}" for result, flow in own]
            marks.append(Marks(name, x, y, colour, symbol, texts))
    box = np.array([-1.0, 1.0, 1.0, -1.0, -1.0]), np.array([-1.0, -1.0, 1.0, 1.0, -1.0])
    limits = Line("5 points, 10 %", GOODPUT_POINTS * box[0], SRTT_PERCENT * box[1], MUTED, 1.0, "dash")
    side = ROOM * max([GOODPUT_POINTS, *(abs(flow.points) for _, flow in flows)])
    axis = XAxis("Error of the goodput (points of the link's rate)", -side, side)
    panel = Panel(
        "Error of the mean srtt (%)", [limits], floor=None, marks=marks, note=None if marks else "No case ran."
    )
    caption = ["One mark per flow. A flow outside the box passes if the kernel's own runs differ as much."]
    return Chart(key, "All flows", [panel], caption, axis)


def windows(key: str, result: CaseResult, kernel: Mapping[int, Curve]) -> Chart:
    """The congestion windows here (thin, in the flow's colour) over the kernel's (wide and pale)."""
    colours = flow_colours(len(result.flows))
    end = max(float(flow.kernel.start_s + flow.cwnd[0][-1]) for flow in result.flows)
    curves = [kernel[flow.kernel.number] for flow in result.flows if flow.kernel.number in kernel]
    top = HEADROOM * max(_peak(curve) for curve in [*curves, *(flow.cwnd for flow in result.flows)])
    here, there = [], []
    for flow, colour in zip(result.flows, colours, strict=True):
        name, start = f"{flow.kernel.number} {flow.kernel.cc}", flow.kernel.start_s
        if flow.kernel.number in kernel:
            wide = _line(f"{name}, kernel", kernel[flow.kernel.number], start, top)
            there.append(replace(wide, colour=pale(colour), width=4.0))
        here.append(replace(_line(f"{name}, here", flow.cwnd, start, top), colour=colour))
    panel = Panel("cwnd (packets)", [*there, *here], ceiling=top)
    return Chart(key, result.case.name, [panel], [], over_time(end))


def _peak(curve: Curve) -> float:
    """The greatest window after the first second, in which slow start overshoots; of a shorter curve, the greatest."""
    t, y = curve
    later = y[t > 1.0]
    return float((later if len(later) else y).max())


def _line(name: str, curve: Curve, start: float, top: float) -> Line:
    x, y = thin_line(curve[0] + start, np.minimum(curve[1], top), POINTS)
    return Line(name, x, y, MUTED)
