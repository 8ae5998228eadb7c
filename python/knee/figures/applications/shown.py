"""The figures of traffic and probes as tables, for the terminal and for reports, and as named figures to compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knee.figures.register import APPLICATION

Figures = Mapping[str, Any]
Value = float | int | str | None
QUANTILES = ("p50", "p95", "p99")
#: More labels than this are counted in a sentence.
_MOST_LABELS = 4
#: What a flow's figures call things that were completed, and people.
TIMED = {
    "transfers": "transfers",
    "pages": "pages",
    "requests": "requests",
    "handshakes": "{transport} handshakes",
    "tls_handshakes": "TLS handshakes",
}


@dataclass(frozen=True)
class Column:
    """A column of numbers: its title, the unit, and how many decimals it has."""

    title: str
    unit: str = ""
    places: int = 2


def _columns(*names: str) -> list[Column]:
    """The columns of figures."""
    made = []
    for name in names:
        figure = APPLICATION[name]
        unit = "%" if figure.quantity == "part" else figure.unit
        made.append(Column(figure.key.removesuffix(f", {unit}").removeprefix("time, "), unit, figure.decimals or 0))
    return made


@dataclass(frozen=True)
class Shown:
    """A table: what it is of, its columns, rows of a label with values, and a sentence below."""

    key: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[tuple[str, Sequence[Value]]]
    note: str = ""


def latency(summary: Figures) -> Shown | None:
    """The increase of latency under load, per probe and flow of datagrams; None where there is none."""
    entries = summary.get("latency_under_load", ())
    if not entries:
        return None
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
    columns = _columns("idle_ms", *(f"{name}_ms" for name in QUANTILES), "increase_p50_ms", "increase_p99_ms")
    # Results of earlier versions do not say it.
    kinds = dict.fromkeys(entry.get("idle_is", "measured") for entry in entries)
    of = {kind: [entry["label"] for entry in entries if entry.get("idle_is") == kind] for kind in kinds}
    notes = [f"Idle is {kind} of {_some(labels)}." for kind, labels in of.items() if kind != "measured"]
    return Shown("latency", "Latency under load", columns, rows, " ".join(notes))


def _some(labels: Sequence[str]) -> str:
    """The labels, or of many the first and how many there are."""
    return ", ".join(labels) if len(labels) <= _MOST_LABELS else f"{labels[0]} and {len(labels) - 1} more"


def _whose(entry: Figures) -> str:
    """A probe or a flow with its class, where its label does not say that."""
    about = [entry["class"]] if entry["class"] != entry["label"] else []
    about += ["one way"] if entry["what"] == "owd" else []
    return f"{entry['label']} ({', '.join(about)})" if about else str(entry["label"])


def tables(summary: Figures) -> list[Shown]:
    """All other tables that a run has; none without traffic of applications."""
    if not any(flow.get("traffic") for flow in summary["flows"]):
        return []
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
    columns = _columns("completed", *(f"time_{name}_ms" for name in ("mean", *QUANTILES, "max")))
    return Shown("times", "Completion times", columns, rows) if rows else None


def _timed(summary: Figures) -> Iterator[tuple[Figures, str, Figures]]:
    for flow in summary["flows"]:
        for key, what in TIMED.items():
            if key in flow:
                yield flow, what.format(transport=flow["transport"].upper()), flow[key]


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
    columns = _columns("completed", "time_p50_ms", "time_p99_ms", *(f"slowdown_{name}" for name in QUANTILES))
    return Shown("sizes", "Transfers by size", columns, rows) if rows else None


def _datagrams(summary: Figures) -> Shown | None:
    rows: list[tuple[str, Sequence[Value]]] = []
    for flow in summary["flows"]:
        figures = flow.get("datagrams")
        if figures is not None:
            loss = figures.get("loss")
            delays = (figures[f"owd_{name}_ms"] for name in QUANTILES)
            others = [figures["jitter_mean_ms"], None if loss is None else 100 * loss, figures.get("mos")]
            rows.append((flow["label"], [figures["sent"], *delays, *others]))
    columns = _columns("sent", *(f"owd_{name}_ms" for name in QUANTILES), "jitter_mean_ms", "loss", "mos")
    return Shown("datagrams", "Datagrams", columns, rows) if rows else None


def _video(summary: Figures) -> Shown | None:
    names = ("bitrate_mean_mbps", "switches", "stalls", "stall_s", "startup_ms")
    rows = [(flow["label"], [flow["video"][name] for name in names]) for flow in summary["flows"] if "video" in flow]
    columns = _columns(*names)
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
    parts = [
        f"{entry['increase_p50_ms']:{sign}.3g} ms in the median and {entry['increase_p99_ms']:{sign}.3g} ms in the "
        f"99th percentile for {_whose(entry)}"
        for entry in entries
    ]
    return f"{'Under load latency changes by' if falls else 'Load adds'} {'; '.join(parts)}."


#: Figures that are compared, by the part of a flow that has them.
_TIMES = tuple(f"time_{name}_ms" for name in QUANTILES)
_SLOWDOWN = tuple(f"slowdown_{name}" for name in QUANTILES)
_OTHERS = {
    "datagrams": (*(f"owd_{name}_ms" for name in QUANTILES), "jitter_mean_ms", "loss", "mos"),
    "video": ("bitrate_mean_mbps", "switches", "stalls", "stall_s", "startup_ms"),
}


def compared(summary: Figures, most: int) -> dict[str, float | int | None]:
    """The figures that ``knee compare`` and several seeds show, of at most ``most`` flows."""
    values: dict[str, float | int | None] = {}
    for entry in summary.get("latency_under_load", ()):
        for name in QUANTILES:
            values[f"{entry['label']}: latency under load, {APPLICATION[f'{name}_ms'].key}"] = entry[f"{name}_ms"]
        for name in ("increase_p50_ms", "increase_p99_ms"):
            values[f"{entry['label']}: {APPLICATION[name].key}"] = entry[name]
    if "responsiveness" in summary:
        values["responsiveness, round trips per minute"] = summary["responsiveness"]["rpm"]
    for flow in summary["flows"][:most]:
        for key, what in TIMED.items():
            for name in (*_TIMES, *(_SLOWDOWN if key == "transfers" else ())) if key in flow else ():
                # One name for both transports, which may stand side by side.
                what = what.format(transport="transport")
                values[f"{flow['label']}: {what}: {APPLICATION[name].key}"] = flow[key].get(name)
        for key, names in _OTHERS.items():
            for name in names if flow.get(key) else ():
                if name in flow[key]:
                    values[f"{flow['label']}: {APPLICATION[name].key}"] = APPLICATION[name].amount(flow[key][name])
    return values
