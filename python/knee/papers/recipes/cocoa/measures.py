"""Measurements and drawings shared by cocoa's figures: standing queues and buffers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from knee.figures.metrics import Floats
from knee.papers import drawing
from knee.results.result import Result
from knee.view.chart import Band, Chart, Line, Panel, thin_band
from knee.view.palette import OKABE_ITO, Dash

#: A full packet with its Ethernet header, bits.
PACKET_BITS = 1514 * 8


def standing_packets(result: Result, *, rate_mbps: float, start: float, end: float, window: float = 5.0) -> float:
    """The standing queue, packets: the minimum queue of each window of some seconds, and the maximum of these.

    It is derived from the flow's minimum RTT minus the base RTT and the packet's transmission time.
    """
    t, rtt = drawing.series(result, "rtt_min_ms", start=start, end=end)
    base = result.summary["flows"][0]["base_rtt_ms"]
    packet_ms = PACKET_BITS / rate_mbps / 1000
    windows = ((t - start) / window).astype(int)
    least = [np.nanmin(rtt[windows == w]) for w in range(int((end - start) / window))]
    return float(max(least) - base - packet_ms) / packet_ms


def throughput(result: Result, *, start: float, end: float) -> float:
    """Mean throughput of the first flow between two moments, Mbit/s."""
    _, y = drawing.series(result, "throughput_mbps", start=start + 1e-6, end=end + 1e-6)
    return float(np.mean(y))


def reached_s(result: Result, rate_mbps: float, *, start: float, part: float = 0.95) -> float | None:
    """Time from ``start`` to the end of the first second in which the flow has ``part`` of a rate; None if never."""
    t, y = drawing.series(result, "throughput_mbps", start=start + 1e-6)
    per_s = round(1 / (t[1] - t[0]))
    mean = np.convolve(y, np.ones(per_s) / per_s, mode="valid")
    there = np.flatnonzero(mean >= part * rate_mbps)
    return float(t[there[0] + per_s - 1] - start) if len(there) else None


def buffers(result: Result, flow: int = 1) -> tuple[Floats, Floats]:
    """When cocoa set a flow's buffer, s, and its size, packets."""
    return events(result, "buffer", flow)


def events(result: Result, event: str, flow: int = 1) -> tuple[Floats, Floats]:
    """Times and values of a kind of event."""
    frame = result.events.filter((pl.col("event") == event) & (pl.col("flow") == flow))
    return frame["t_s"].to_numpy(), frame["value"].to_numpy()


def megabytes(result: Result) -> float:
    """Data received by the first flow, MB of whole frames."""
    duration: float = result.summary["duration_s"]
    mbps: float = result.summary["flows"][0]["throughput_mbps"]
    return mbps * duration / 8


def rate_and_rtt(result: Result, capacity: list[tuple[float, float, float]]) -> Chart:
    """Throughput above RTT, as in the paper's figures; capacity as (from, to, Mbit/s)."""
    x = drawing.time(result)
    rates = [drawing.level(replace(x, low=start, high=end), mbps) for start, end, mbps in capacity]
    t, least = drawing.series(result, "rtt_min_ms")
    band = Band(
        "least to greatest RTT", *thin_band(t, least, drawing.series(result, "rtt_max_ms")[1]), OKABE_ITO[0], 0.25
    )
    mean = drawing.line("mean RTT", drawing.series(result, "rtt_mean_ms"), OKABE_ITO[0])
    base = drawing.level(x, result.summary["flows"][0]["base_rtt_ms"])
    top = 1.1 * max(mbps for _, _, mbps in capacity)
    rate = Panel("Throughput (Mbit/s)", [*drawing.flows(result, "throughput_mbps"), *rates], ceiling=top)
    return drawing.figure(x, rate, Panel("RTT (ms)", [mean, base], [band]))


def buffer(result: Result, name: str, colour: str, *, flow: int = 1, dash: Dash = "solid") -> Line:
    """The buffer that cocoa grants, as steps."""
    t, packets = buffers(result, flow)
    x = np.append(t, result.summary["duration_s"])
    return drawing.line(name, (x, np.append(packets, packets[-1])), colour, step=True, dash=dash)
