"""Pictures of a case as SVG: the congestion windows over each other, or bars where there is no time series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from html import escape

import numpy as np

from knee.fidelity.compare import CaseResult, Curve
from knee.report.palette import GRID, INK, MUTED, flow_colours
from knee.report.thin import thin_line

WIDTH, HEIGHT = 960, 280
LEFT, RIGHT, TOP, BOTTOM = 62, 10, 10, 34
#: The most points of a drawn line: more than the picture has pixels across.
POINTS = 1200
#: The top of the vertical axis, as a multiple of the greatest window outside slow start's first second.
HEADROOM = 1.12
BAR = 16


def windows(result: CaseResult, kernel: Mapping[int, Curve]) -> str:
    """The congestion windows here (thin, in the flow's colour) over the kernel's (wide and pale)."""
    colours = flow_colours(len(result.flows))
    curves = [(flow, kernel[flow.kernel.number]) for flow in result.flows if flow.kernel.number in kernel]
    end = max(float(flow.kernel.start_s + flow.cwnd[0][-1]) for flow in result.flows)
    top = HEADROOM * max(_peak(curve) for flow, there in curves for curve in (flow.cwnd, there))
    parts = [_axes(end, top)]
    for (flow, there), colour in zip(curves, colours, strict=False):
        start = flow.kernel.start_s
        parts.append(_line(there, start, end, top, f'stroke="{colour}" stroke-width="4" opacity="0.3"'))
    for flow, colour in zip(result.flows, colours, strict=True):
        parts.append(_line(flow.cwnd, flow.kernel.start_s, end, top, f'stroke="{colour}" stroke-width="1.3"'))
    return _svg(HEIGHT, "Congestion windows over time", parts)


def _peak(curve: Curve) -> float:
    """The greatest window after the first second, in which slow start overshoots; of a shorter curve, the greatest."""
    t, y = curve
    later = y[t > 1.0]
    return float((later if len(later) else y).max())


def _line(curve: Curve, start: float, end: float, top: float, style: str) -> str:
    x, y = thin_line(curve[0] + start, np.minimum(curve[1], top), POINTS)
    points = " ".join(
        f"{_x(t, end):.1f},{_y(v, top):.1f}" for t, v in zip(x.tolist(), y.tolist(), strict=True) if not math.isnan(v)
    )
    return f'<polyline fill="none" {style} points="{points}"/>'


def _x(t: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * t / end


def _y(value: float, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)


def ticks(top: float, about: int = 5) -> list[float]:
    """Round numbers from 0 to at most ``top``, about that many."""
    step = 10 ** math.floor(math.log10(top / about))
    step *= next(m for m in (1, 2, 5, 10) if top / (step * m) <= about + 1)
    return [step * i for i in range(math.floor(top / step + 1e-9) + 1)]


def _axes(end: float, top: float) -> str:
    parts = []
    for value in ticks(top):
        y = _y(value, top)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{GRID}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in ticks(end, 8):
        x = _x(value, end)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:g}</text>')
    middle = (HEIGHT - BOTTOM + TOP) / 2
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">Time (s)</text>')
    parts.append(f'<text transform="translate(13 {middle}) rotate(-90)" text-anchor="middle">cwnd (packets)</text>')
    return "".join(parts)


def bars(result: CaseResult) -> str:
    """Goodput and smoothed RTT of every flow, the kernel's as the pale bar under each."""
    colours = flow_colours(len(result.flows))
    figures = [
        ("goodput (Mbit/s)", [(flow.goodput_mbps, flow.kernel.goodput_mbps) for flow in result.flows]),
        ("mean srtt (ms)", [(flow.srtt_ms, flow.kernel.srtt_ms) for flow in result.flows]),
    ]
    names = [f"{flow.kernel.number} {flow.kernel.cc}" for flow in result.flows]
    parts, y = [], 0
    for title, pairs in figures:
        y += 20
        parts.append(f'<text x="{LEFT}" y="{y}" fill="{INK}">{title}</text>')
        y += 8
        most = max(value for pair in pairs for value in pair) or 1.0
        for name, pair, colour in zip(names, pairs, colours, strict=True):
            parts.append(f'<text x="{2 * LEFT - 6}" y="{y + BAR + 4}" text-anchor="end">{escape(name)}</text>')
            parts.extend(_bar(y, pair, most, colour))
            y += 2 * BAR + 8
    return _svg(y + 4, "Goodput and smoothed RTT", parts)


def _bar(y: int, pair: tuple[float, float], most: float, colour: str) -> Iterable[str]:
    left, full = 2 * LEFT, WIDTH - 3 * LEFT
    for i, (value, what) in enumerate(zip(pair, ("here", "kernel"), strict=True)):
        width, top = full * value / most, y + i * BAR
        opacity = 1 if i == 0 else 0.3
        parts = f'x="{left}" y="{top}" width="{width:.1f}" height="{BAR - 2}" fill="{colour}" opacity="{opacity}"'
        yield f"<rect {parts}/>"
        yield f'<text x="{left + width + 5:.1f}" y="{top + BAR - 4}">{value:.2f} {what}</text>'


def _svg(height: int, label: str, parts: Iterable[str]) -> str:
    box = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}"'
    return f'<svg {box} font-size="12" fill="{MUTED}" style="width:100%;height:auto">{"".join(parts)}</svg>'
