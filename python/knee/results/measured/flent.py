"""Data files of Flent (https://flent.org/data-format.html): series by name over common times; ``.flent.gz``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knee.results.measured.series import Measurement, Series, Unreadable, Way, series

#: Ends of names of series that are computed of others.
_COMPUTED = (" avg", " sum", " totals", " total", "::avg", "::sum")
_TO_MBPS = {"bits/s": 1e-6, "kbits/s": 1e-3, "mbits/s": 1.0, "gbits/s": 1e3, "bit/s": 1e-6, "mbit/s": 1.0}


def read(name: str, data: dict[str, Any]) -> Measurement:
    """The measurement in an object of Flent's."""
    times, results = data["x_values"], data["results"]
    meta: Mapping[str, Any] = data.get("metadata", {})
    units = {key: str(about.get("UNITS", "")) for key, about in meta.get("SERIES_META", {}).items()}
    # Flent takes values at its own steps: a time without a value is none of a rate of zero.
    all_series: list[Series | None] = [_rates(times, results, units, "down"), _rates(times, results, units, "up")]
    pings = {key: values for key, values in results.items() if key.lower().startswith("ping") and not _computed(key)}
    pings = pings or {key: values for key, values in results.items() if key.lower().startswith("ping")}
    delays = series("delay", "", [(t, v) for values in pings.values() for t, v in _known(times, values)])
    all_series.append(delays)
    found = [one for one in all_series if one is not None]
    if not found:
        raise Unreadable(f"none of its series is a TCP or UDP rate or a ping: {', '.join(results)[:200] or 'none'}")
    unknown = ["What the link could carry: these are rates that the flows got, which may be less."]
    if delays is not None:
        unknown.append("What of the delay was a queue: the least one counts as that of the empty path.")
    else:
        unknown.append("The delay of the path: the test has no ping.")
    unknown.append("Losses that have nothing to do with queues.")
    least = min(delays.values) if delays is not None else None
    return Measurement(name, "flent", found, least, unknown)


def _computed(key: str) -> bool:
    return key.lower().endswith(_COMPUTED)


def _rates(times: list[float], results: Mapping[str, Any], units: Mapping[str, str], way: Way) -> Series | None:
    """The sum of the flows of a direction, or where only a computed one is there, that."""
    word = "download" if way == "down" else "upload"
    mine = [key for key in results if word in key.lower() and _factor(units.get(key, "")) is not None]
    flows = [key for key in mine if not _computed(key)]
    chosen = flows or [key for key in mine if not key.lower().endswith("avg")][:1]
    total: dict[float, float] = {}
    for key in chosen:
        factor = _factor(units.get(key, "")) or 1.0
        for t, value in _known(times, results[key]):
            total[t] = total.get(t, 0.0) + factor * value
    return series("rate", way, total.items())


def _factor(unit: str) -> float | None:
    """Mbit/s in one of a unit; older files have no units, and rates in Mbit/s."""
    return 1.0 if not unit else _TO_MBPS.get(unit.lower())


def _known(times: list[float], values: list[float | None]) -> list[tuple[float, float]]:
    if len(times) != len(values):
        raise Unreadable("a series has another number of values than there are times; expected an unchanged file")
    return [(t, v) for t, v in zip(times, values, strict=True) if v is not None]
