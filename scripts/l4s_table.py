"""Prints the table of lab/l4s.md, and delays of docs/l4s.md: Prague beside CUBIC under DualPI2, by rate and RTT."""

from __future__ import annotations

import knee
from knee.figures.forms import Row

RATES_MBPS = (4, 12, 40, 120, 200)
RTTS_MS = (5, 10, 20, 50, 100)


def pair(rate_mbps: int, rtt_ms: int) -> tuple[Row, Row]:
    """The figures of Prague and of CUBIC."""
    scenario = {
        "duration": "100 s",
        "warmup": "40 s",
        "link": {"rate": f"{rate_mbps} Mbit/s", "queue": "dualpi2", "queue_params": {"min_qlen_step": 1}},
        "flows": [
            {"cc": "prague", "rtt": f"{rtt_ms} ms"},
            {"cc": "cubic", "rtt": f"{rtt_ms} ms", "ecn": True},
        ],
    }
    prague, cubic = knee.run(scenario).summary["flows"]
    return prague, cubic


def main() -> None:
    """Runs all pairs and prints both tables."""
    pairs = {(rate, rtt): pair(rate, rtt) for rate in RATES_MBPS for rtt in RTTS_MS}
    ratios = {key: f"{p['goodput_mbps'] / c['goodput_mbps']:.2f}" for key, (p, c) in pairs.items()}
    waits = {
        (rate, rtt): f"{p['rtt_p99_ms'] - rtt:.1f} ({c['rtt_p99_ms'] - rtt:.0f})"
        for (rate, rtt), (p, c) in pairs.items()
    }
    for cells in (ratios, waits):
        print("| link, Mbit/s | " + " | ".join(f"{rtt} ms" for rtt in RTTS_MS) + " |")
        print("|---|" + "---:|" * len(RTTS_MS))
        for rate in RATES_MBPS:
            print(f"| {rate} | " + " | ".join(cells[rate, rtt] for rtt in RTTS_MS) + " |")
        print()


if __name__ == "__main__":
    main()
