"""Prints the tables of lab/traffic.md: RRUL by queue, and a call by the congestion control of a download."""

from __future__ import annotations

import knee
from knee.figures.forms import Summary
from knee.scenario import load

QUEUES = ("pfifo", "fq_codel", "cake", "cocoa", "dualpi2")
CONTROLS = ("cubic", "bbr3", "lola", "daimd")


def figures(name: str, *changes: str) -> Summary:
    """The summary of a shipped scenario with changes, as of ``--set``."""
    return knee.run(load(name, changes)).summary


def row(*cells: object) -> None:
    """A row of a table."""
    print("| " + " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells) + " |")


def rrul() -> None:
    """RRUL under each queue, in both directions."""
    row("queue", "best effort, median", "p99", "L4S, median", "p99", "RPM", "down, Mbit/s", "up, Mbit/s")
    print("|---|" + "---:|" * 7)
    for queue in QUEUES:
        found = figures("rrul", f"link.queue={queue}", f"link.reverse.queue={queue}")
        rises = [e[f"increase_{name}_ms"] for e in found["latency_under_load"] for name in ("p50", "p99")]
        both = [sum(flow["goodput_mbps"] for flow in found["flows"][at : at + 4]) for at in (0, 4)]
        row(f"`{queue}`", *rises, round(found["responsiveness"]["rpm"]), *both)
    print()


def call() -> None:
    """A call beside a download by each congestion control."""
    row("download", "MOS", "one-way delay, median", "p99", "jitter", "loss, %", "download, Mbit/s")
    print("|---|" + "---:|" * 6)
    for cc in CONTROLS:
        download, heard, _ = figures("voip-beside-download", f"flows.0.cc={cc}")["flows"]
        calls = heard["datagrams"]
        delays = (calls["owd_p50_ms"], calls["owd_p99_ms"], calls["jitter_mean_ms"])
        row(f"`{cc}`", calls["mos"], *delays, 100 * calls["loss"], download["goodput_mbps"])


if __name__ == "__main__":
    rrul()
    call()
