"""Combines what the switch measured of packets and the kernel of sockets into one result."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from knee.figures import rows as formats
from knee.figures.forms import Output
from knee.figures.rows import Tables
from knee.grounds import applications
from knee.grounds.datagrams import Datagrams, tables
from knee.grounds.host import traffic
from knee.scenario.model import Scenario
from knee.scenario.registry import flow_controls
from knee.system.text import JsonTable

#: Rows of the traffic program.
KERNEL = formats.record(
    ("<u8", "t_ns"),
    ("<u4", "flow"),
    ("<u2", "state phase"),
    ("<u4", "cwnd in_flight srtt_us timeouts"),
    ("<u8", "pacing_rate"),
)
assert KERNEL.itemsize == traffic.ROW.size

Rows = formats.Rows
Numbers = np.ndarray[Any, np.dtype[np.uint64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]
Report = tuple[JsonTable, bytes]


class Seen:
    """The measurements of a run.

    Attributes:
        scenario: what ran.
        wall_s: how long it took, s.
        output: figures per flow and link, in the simulator's form.
        switch: how late packets left, and the switch's processor time.
        quic: how late the endpoints of QUIC flows were, and their processor time; None without such flows.
    """

    def __init__(self, scenario: Scenario, outcomes: list[Report], wall_s: float) -> None:
        *sides, switch = outcomes[:3]
        ends = outcomes[3:]
        self.scenario, self.wall_s = scenario, wall_s
        every = applications.flows(scenario)
        numbers = [number for number, (flow, _) in enumerate(every) if flow.traffic is not None]
        given = [applications.end(*one) for one in ends]
        self._applications = {
            number: applications.Seen(every[number][0], *given[2 * i : 2 * i + 2]) for i, number in enumerate(numbers)
        }
        report, raw = switch
        self.output: Output = report["output"]
        self.switch = report["late"] | {key: report[key] for key in ("strays", "refused", "processor_s", "priority")}
        self.quic: JsonTable | None = report["quic"]
        parts, at = [], 0
        for dtype, count in zip((formats.SAMPLE, formats.LINK, formats.EVENT), report["rows"], strict=True):
            parts.append(np.frombuffer(raw, dtype=dtype, count=count, offset=at))
            at += dtype.itemsize * count
        self._samples, self._links, self._events = parts
        self._kernel = np.concatenate([np.frombuffer(rows, dtype=KERNEL) for _, rows in sides])
        self._flows = [flow for flow in scenario.flows for _ in range(flow.count)]
        self._heard = [(*event, "flow") for side, _ in sides for event in side["events"]]
        for side, _ in sides:
            for number, marks in side["marks"].items():
                _complete(self.output["flows"][int(number)], marks)
        for number, of in self._applications.items():
            if applications.uses_datagrams(of.flow):
                begin_ns, stop_ns = applications.window_ns(scenario, number)
                self.output["flows"][number] |= Datagrams(of).figures((begin_ns, scenario.duration), stop_ns)
            else:
                # The switch sees no timers.
                self.output["flows"][number]["timeouts"] = None

    def tables(self) -> Tables:
        """Those of a result."""
        series = {"samples": self.samples(), "links": self.links(), "events": self.events()}
        return tables(self.scenario, self._applications, [], self._link_names(), **series)

    def samples(self) -> pl.DataFrame:
        """``samples.parquet``."""
        # Probes have rows of their own kind.
        out = self._samples[self._samples["flow"] < len(self._flows)].copy()
        scenario = self.scenario
        # Both kinds have a row per flow and interval, except for flows that were not connected yet.
        key = _key(np.rint(out["t_s"] * 1e9).astype(np.uint64), out["flow"])
        theirs = _key(self._kernel["t_ns"], self._kernel["flow"])
        order = np.argsort(theirs)
        at = order[np.searchsorted(theirs, key, sorter=order).clip(max=max(len(order) - 1, 0))] if len(order) else None
        known = theirs[at] == key if at is not None else np.zeros(len(out), dtype=bool)
        kernel = self._kernel[at] if at is not None else np.zeros(len(out), dtype=KERNEL)
        # The switch runs the endpoints of QUIC flows itself, and its rows are complete.
        over_quic = np.array([flow.transport == "quic" for flow in self._flows])[out["flow"]]

        def fill(name: str, valid: Booleans, values: np.ndarray[Any, Any]) -> None:
            out[name] = np.where(over_quic, out[name], np.where(valid, values, np.nan))

        fill("srtt_ms", known & (kernel["srtt_us"] > 0), kernel["srtt_us"] / 1e3)
        fill("cwnd_packets", known, kernel["cwnd"])
        fill("in_flight_packets", known, kernel["in_flight"])
        paces = [
            flow.traffic is None and (flow_controls()[flow.cc].needs["pacing"] or flow.pacing == "on")
            for flow in self._flows
        ]
        fill("pacing_rate_mbps", known & np.array(paces)[out["flow"]], kernel["pacing_rate"] * 8e-6)
        frame = formats.samples(out, scenario.labels, [flow.cc for flow in self._flows])
        states = pl.Series(self._states(out["flow"], kernel, known), dtype=pl.String)
        return frame.with_columns(state=pl.when(pl.Series(over_quic)).then(pl.col("state")).otherwise(states))

    def _states(self, flows: Rows, kernel: Rows, known: Rows) -> list[str | None]:
        """The state of loss recovery while it sets the window, else the phase; empty if unknown."""
        names: list[str | None] = []
        for flow, row, here in zip(flows, kernel, known, strict=True):
            if self._flows[flow].traffic is not None:
                names.append(formats.OTHER_STATE)
                continue
            entry = flow_controls()[self._flows[flow].cc]
            recovery = formats.RECOVERY.get(int(row["state"]))
            if not here:
                names.append(entry.phases[0])
            elif recovery is not None and not entry.needs["full_control"]:
                names.append(recovery)
            else:
                names.append(None if row["phase"] == traffic.NO_PHASE else entry.phases[row["phase"]])
        return names

    def links(self) -> pl.DataFrame:
        """``links.parquet``."""
        return formats.links(self._links, self._link_names())

    def events(self) -> pl.DataFrame:
        """``events.parquet``: events of the switch and the kernel, by time."""
        seen = formats.events(self._events, self._link_names(), self.output["event_names"])
        heard = pl.DataFrame(
            [(at / 1e9, flow + 1, None, event, value) for at, flow, event, value, _ in self._heard],
            schema=seen.schema,
            orient="row",
        )
        return pl.concat([seen, heard]).sort("t_s", maintain_order=True)

    def _link_names(self) -> list[str]:
        return [link["link"] for link in self.output["links"]]


def _complete(figures: dict[str, Any], marks: list[list[int]]) -> None:
    """Adds the kernel's figures of a flow; ``marks`` are the begin and end of its window."""
    marks = sorted(marks)
    begin, end = marks[0], marks[1] if len(marks) > 1 else marks[0]
    span = end[0] - begin[0]
    figures["cwnd_mean_packets"] = (end[1] - begin[1]) / span if span and end[1] > begin[1] else None
    figures["timeouts"] = end[2] - begin[2]


def _key(t_ns: Numbers, flow: Numbers) -> Numbers:
    """A unique number per flow and interval; times are below 2^44 us."""
    key: Numbers = (t_ns // np.uint64(1000)) << np.uint64(20) | flow.astype(np.uint64)
    return key
