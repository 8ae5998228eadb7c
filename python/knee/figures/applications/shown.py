"""The figures of traffic and probes as tables, for the terminal and for reports, and as named figures to compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Figures = Mapping[str, Any]
Value = float | int | str | None
QUANTILES = ("p50", "p95", "p99")
#: What a flow's figures call things that were completed, and people.
TIMED = {
    "transfers": "transfers",
    "pages": "pages",
    "requests": "requests",
    "handshakes": "TCP handshakes",
    "tls_handshakes": "TLS handshakes",
}


@dataclass(frozen=True)
class Column:
    """A column of numbers: its title, the unit, and how many decimals it has."""

    title: str
    unit: str = ""
    places: int = 2


@dataclass(frozen=True)
class Shown:
    """A table: what it is of, its columns, and rows of a label with values."""

    key: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[tuple[str, Sequence[Value]]]


def latency(summary: Figures) -> Shown | None:
    """The increase of latency under load, per probe and flow of datagrams; None where there is none."""
    entries = summary.get("latency_under_load", ())
    rows = [
        (
            _whose(entry),
            [
                entry["idle_ms"],
                *(entry[f"{name}_ms"] for name in QUANTILES),
                *(entry[f"increase_{name}_ms"] for name in ("p50", "p99")),
            ],
        )
        for entry in entries
    ]
    titles = ["idle", "median", "p95", "p99", "increase of median", "increase of p99"]
    return Shown("latency", "Latency under load", [Column(title, "ms") for title in titles], rows) if rows else None


def _whose(entry: Figures) -> str:
    """A probe or a flow with its class, where its label does not say that."""
    told = [entry["class"]] if entry["class"] != entry["label"] else []
    told += ["one way"] if entry["what"] == "owd" else []
    return f"{entry['label']} ({', '.join(told)})" if told else str(entry["label"])


def tables(summary: Figures) -> list[Shown]:
    """All other tables that a run has."""
    made = [_times(summary), _size_classes(summary), _datagrams(summary), _video(summary)]
    return [table for table in made if table is not None]


def _times(summary: Figures) -> Shown | None:
    rows = [
        (
            f"{flow['label']}: {what}",
            [figures["completed"], *(figures[f"time_{name}_ms"] for name in ("mean", *QUANTILES, "max"))],
        )
        for flow, what, figures in _timed(summary)
    ]
    columns = [
        Column("completed", places=0),
        *(Column(title, "ms") for title in ("mean", "median", "p95", "p99", "max")),
    ]
    return Shown("times", "Completion times", columns, rows) if rows else None


def _timed(summary: Figures) -> Iterator[tuple[Figures, str, Figures]]:
    for flow in summary["flows"]:
        for key, what in TIMED.items():
            if key in flow:
                yield flow, what, flow[key]


def size_class(figures: Figures) -> str:
    """The name of a class of sizes."""
    most, least = figures["up_to_bytes"], figures["above_bytes"]
    return f"above {_size(least)}" if most is None else f"up to {_size(most)}"


def _size(size: int) -> str:
    return f"{size // 10**6} MB" if size >= 10**6 else f"{size // 1000} kB"


def _size_classes(summary: Figures) -> Shown | None:
    """Transfers by size, with slowdown."""
    rows: list[tuple[str, Sequence[Value]]] = []
    for flow in summary["flows"]:
        if "transfers" in flow:
            whole = flow["transfers"]
            for name, part in [*((size_class(part), part) for part in whole["size_classes"]), ("all", whole)]:
                slowdown = (part.get(f"slowdown_{name}") for name in QUANTILES)
                times = (part[f"time_{name}_ms"] for name in ("p50", "p99"))
                rows.append((f"{flow['label']}, {name}", [part["completed"], *times, *slowdown]))
    columns = [
        Column("completed", places=0),
        *(Column(title, "ms") for title in ("median", "p99")),
        *(Column(f"slowdown, {title}") for title in ("median", "p95", "p99")),
    ]
    return Shown("sizes", "Transfers by size", columns, rows) if rows else None


def _datagrams(summary: Figures) -> Shown | None:
    rows: list[tuple[str, Sequence[Value]]] = []
    for flow in summary["flows"]:
        figures = flow.get("datagrams")
        if figures is not None:
            loss = figures.get("loss")
            delays = (figures[f"owd_{name}_ms"] for name in QUANTILES)
            told = [figures["jitter_mean_ms"], None if loss is None else 100 * loss, figures.get("mos")]
            rows.append((flow["label"], [figures["sent"], *delays, *told]))
    columns = [
        Column("sent", places=0),
        *(Column(title, "ms") for title in ("one-way delay, median", "p95", "p99", "jitter")),
        Column("loss", "%"),
        Column("MOS"),
    ]
    return Shown("datagrams", "Datagrams", columns, rows) if rows else None


def _video(summary: Figures) -> Shown | None:
    names = ("bitrate_mean_mbps", "switches", "stalls", "stall_s", "startup_ms")
    rows = [(flow["label"], [flow["video"][name] for name in names]) for flow in summary["flows"] if "video" in flow]
    columns = [
        Column("bitrate, mean", "Mbit/s"),
        Column("switches", places=0),
        Column("stalls", places=0),
        Column("stalled", "s"),
        Column("startup", "ms", 0),
    ]
    return Shown("video", "Video", columns, rows) if rows else None


def responsiveness(summary: Figures) -> str | None:
    """A sentence with the round trips per minute; None where nothing tells of them."""
    found = summary.get("responsiveness")
    return (
        None if found is None or found["rpm"] is None else f"Responsiveness: {found['rpm']:.0f} round trips per minute."
    )


def answer(summary: Figures) -> str | None:
    """What load does to latency, in a sentence; None where nothing measured it."""
    probes = [entry for entry in summary.get("latency_under_load", ()) if entry["what"] == "rtt"]
    entries = [e for e in probes or summary.get("latency_under_load", ()) if e["increase_p50_ms"] is not None]
    if not entries:
        return None
    # A difference that falls gets a sign, and then all do.
    falls = any(entry[f"increase_{name}_ms"] < 0 for entry in entries for name in ("p50", "p99"))
    sign = "+" if falls else ""
    told = [
        f"{entry['increase_p50_ms']:{sign}.3g} ms in the median and {entry['increase_p99_ms']:{sign}.3g} ms in the "
        f"99th percentile for {_whose(entry)}"
        for entry in entries
    ]
    return f"{'Under load latency changes by' if falls else 'Load adds'} {'; '.join(told)}."


#: Figures of a flow that are compared, by their keys there: how they are called.
_COMPARED = {"time_p50_ms": "time, median, ms", "time_p95_ms": "time, p95, ms", "time_p99_ms": "time, p99, ms"}
_SLOWDOWN = {
    f"slowdown_{name}": f"slowdown, {title}" for name, title in zip(QUANTILES, ("median", "p95", "p99"), strict=True)
}
_DATAGRAMS = {
    "owd_p50_ms": "one-way delay, median, ms",
    "owd_p95_ms": "one-way delay, p95, ms",
    "owd_p99_ms": "one-way delay, p99, ms",
    "jitter_mean_ms": "jitter, ms",
    "loss": "loss",
    "mos": "MOS",
}
_VIDEO = {
    "bitrate_mean_mbps": "bitrate, Mbit/s",
    "switches": "switches",
    "stalls": "stalls",
    "stall_s": "stalled, s",
    "startup_ms": "startup, ms",
}


def compared(summary: Figures, most: int) -> dict[str, float | int | None]:
    """The figures that ``knee compare`` and several seeds show, of at most ``most`` flows."""
    values: dict[str, float | int | None] = {}
    for entry in summary.get("latency_under_load", ()):
        for name, title in zip(QUANTILES, ("median", "p95", "p99"), strict=True):
            values[f"{entry['label']}: latency under load, {title}, ms"] = entry[f"{name}_ms"]
        values[f"{entry['label']}: increase of the median, ms"] = entry["increase_p50_ms"]
        values[f"{entry['label']}: increase of p99, ms"] = entry["increase_p99_ms"]
    if "responsiveness" in summary:
        values["responsiveness, round trips per minute"] = summary["responsiveness"]["rpm"]
    for flow in summary["flows"][:most]:
        for key, what in TIMED.items():
            names = _COMPARED | (_SLOWDOWN if key == "transfers" else {})
            for name, title in names.items() if key in flow else ():
                values[f"{flow['label']}: {what}: {title}"] = flow[key].get(name)
        for key, names in (("datagrams", _DATAGRAMS), ("video", _VIDEO)):
            for name, title in names.items() if flow.get(key) else ():
                if name in flow[key]:
                    values[f"{flow['label']}: {title}"] = flow[key][name]
    return values
