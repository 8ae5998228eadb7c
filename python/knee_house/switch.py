"""Measures throughput and lateness of the switch on this machine, by short runs on the ground ``host``."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from knee.grounds import ready
from knee.grounds.host import refuse
from knee.grounds.host.host import Host
from knee.grounds.host.lab import switch_program
from knee.scenario import from_dict
from knee.system.text import JsonTable

#: The runs: lateness at a rate with packets 121 us apart, and the throughput of one processor.
RATES = {"host100": "100 Mbit/s", "host1000": "1 Gbit/s", "host4000": "4 Gbit/s"}
_SECONDS = 5
_LATE = ("late_p50_us", "late_p99_us", "late_max_us", "behind", "departures")
_FIGURES = ("carried_mbps", *_LATE, "processor")


def measure(runs: int = 1, against: Path | None = None) -> list[JsonTable]:
    """Runs the switch at each rate.

    Args:
        runs: how often each case runs; its figures are medians.
        against: another switch, which runs in turns with the installed one.

    Returns:
        One row per rate and switch: ``name``, ``rate``; ``switch``, its path; ``carried_mbps``, IP packets of 1500
        bytes with overhead, after the first second; ``late_p50_us``, ``late_p99_us``, ``late_max_us``, how late packets
        left; ``behind``, how many of ``departures`` (data and ACKs) were more than 1 ms late; ``processor``, the
        switch's share of one processor; ``priority``, its scheduling priority.

    Raises:
        RunError: the ground does not work here.
    """
    ready("host")
    programs = [switch_program(), *([against.absolute()] if against else [])]
    rows = []
    for name, rate in RATES.items():
        # In turns: what else the machine does changes within minutes.
        measured = [[_case(Host(program), name, rate) for program in programs] for _ in range(runs)]
        rows += [_median(list(of_program)) for of_program in zip(*measured, strict=True)]
    return rows


def _median(runs: list[JsonTable]) -> JsonTable:
    return runs[0] | {key: median(run[key] for run in runs) for key in _FIGURES}


def _case(ground: Host, name: str, rate: str) -> JsonTable:
    cc = "cubic" if "cubic" in refuse.available() else refuse.available()[0]
    link = {"rate": rate, "limit": "20 ms"}
    flows = [{"cc": cc, "rtt": "10 ms", "count": 2}]
    told = {"duration": f"{_SECONDS} s", "warmup": "1 s", "link": link, "flows": flows}
    seen = ground.observe(from_dict(told))
    switch = seen.switch
    late = {key: switch[key] for key in _LATE}
    carried = sum(flow["throughput_mbps"] for flow in seen.output["flows"])
    share = switch["processor_s"] / _SECONDS
    named = {"name": name, "rate": rate, "switch": str(ground.switch)}
    return named | {"carried_mbps": carried, **late, "processor": share, "priority": switch["priority"]}
