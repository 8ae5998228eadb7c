"""The same ten scenarios on several grounds, as a table in Markdown: python scripts/grounds.py DIR GROUND...

Results go to DIR/GROUND/CASE; those that are there already are not run again. The ground host needs root and what the
kernel lacks loaded: sudo knee linux load lola, and so on.
"""

from __future__ import annotations

import sys
from pathlib import Path

import knee
from knee.scenario import load
from knee.study import batch

SINGLE = ("flows.0.count=1", "duration=30s")
CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    **{cc: ("hello", (*SINGLE, f"flows.0.cc={cc}")) for cc in ("reno", "cubic", "htcp", "vegas", "bbr")},
    **{cc: ("hello", (*SINGLE, f"flows.0.cc={cc}")) for cc in ("lola", "daimd")},
    "lola+lola": ("lola-fig5", ("duration=60s",)),
    "cubic+bbr": ("interactions-bw", ("flows.1.cc=bbr",)),
    "cocoa": ("cocoa-fig5", ()),
}


def _cells(result: knee.Result) -> list[str]:
    flows = result.summary["flows"]
    jain = f"{result.summary['fairness']['jain']:.3f}" if len(flows) > 1 else ""
    switch = result.manifest.get("switch")
    late = f"{switch['behind']} of {switch['departures']}" if switch else ""
    return [
        " and ".join(f"{flow['goodput_mbps']:.2f}" for flow in flows),
        " and ".join(f"{flow['rtt_mean_ms']:.2f}" for flow in flows),
        jain,
        " and ".join(str(flow["lost_packets"]) for flow in flows),
        late,
    ]


def main(folder: Path, grounds: list[str]) -> None:
    """Runs what is not there yet, then prints the table."""
    scenarios = {name: load(scenario, changes) for name, (scenario, changes) in CASES.items()}
    for ground in grounds:
        batch.run([batch.Job(name, scenario, ground) for name, scenario in scenarios.items()], folder / ground)
    print("| case | ground | goodput, Mbit/s | mean RTT, ms | Jain's index | lost | late by more than 1 ms |")
    print("|---|---|---|---|---|---|---|")
    for name in CASES:
        for i, ground in enumerate(grounds):
            cells = _cells(knee.Result.load(folder / ground / name))
            print(f"| {'' if i else name} | `{ground}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2:])
