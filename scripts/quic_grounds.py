"""QUIC on the simulator beside QUIC on the running kernel: sudo python scripts/quic_grounds.py DIR. Prints Markdown.

Results go to DIR; those that are there already are not run again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import knee
from knee.figures.forms import Row
from knee.scenario import Scenario, load
from knee.study import batch

_ONE = ["flows.0.transport=quic", "flows.0.count=1", "duration=20 s"]
#: By name: the shipped scenario and what is changed in it.
_SCENARIOS = {
    "quic-lola": ("quic-lola", []),
    "quic-vs-tcp, 30 s": ("quic-vs-tcp", ["duration=30 s"]),
    "hello with one flow, CUBIC": ("hello", _ONE),
    "hello with one flow, BBR": ("hello", [*_ONE, "flows.0.cc=bbr"]),
}
_GROUNDS = ("sim", "host")


def _scenario(name: str) -> Scenario:
    source, changes = _SCENARIOS[name]
    return load(source, changes)


def _joined(flows: Sequence[Row], key: str, places: int) -> str:
    return " and ".join(f"{flow[key]:.{places}f}" for flow in flows)


def main(folder: Path) -> None:
    """Runs what is not there yet, then prints the table."""
    for ground in _GROUNDS:
        batch.run([batch.Job(f"{i}", _scenario(name), ground) for i, name in enumerate(_SCENARIOS)], folder / ground)
    print("| scenario | ground | goodput, Mbit/s | mean RTT, ms | 95 %, ms | lost | link used, % | late, % |")
    print("|---|---|---|---|---|---|---|---|")
    for i, name in enumerate(_SCENARIOS):
        for ground in _GROUNDS:
            result = knee.Result.load(folder / ground / f"{i}")
            flows, (link,) = result.summary["flows"], result.summary["links"]
            both = [result.manifest[part] for part in ("switch", "quic") if part in result.manifest]
            cells = [
                name if ground == _GROUNDS[0] else "",
                f"`{ground}`",
                _joined(flows, "goodput_mbps", 2),
                _joined(flows, "rtt_mean_ms", 1),
                _joined(flows, "rtt_p95_ms", 1),
                _joined(flows, "lost_packets", 0),
                f"{100 * link['utilization']:.1f}",
                " and ".join(f"{100 * part['behind'] / max(part['departures'], 1):.2f}" for part in both),
            ]
            print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
