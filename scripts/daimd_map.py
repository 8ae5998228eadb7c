"""Maps delay-based AIMD's gamma and decay.

``daimd_map.py DATA.json [GAMMA ...]`` runs what ``DATA.json`` lacks, ``daimd_map.py DATA.json OUT.png`` draws it. Each
pair of values is judged by what the paper promises: Fig. 7's queue with 128 flows, whatever their starts; a queue that
drains after loss-based flows; no loss, also where windows are small; and a share beside loss-based flows (Fig. 6).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure

import knee

GAMMAS = (0.75, 0.85, 0.9, 0.95, 0.97, 0.99)
DECAYS = (0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1)
#: Between the starts of Fig. 7's flows, ms.
STAGGERS_MS = (70, 85, 100, 115, 130, 145)
#: When daimd-drain's loss-based flows start, s.
STARTS_S = (20, 21, 22)
#: Links whose flows have small windows: rate, RTT and number of flows.
SMALL = (
    ("50 Mbit/s", "50 ms", 32),
    ("50 Mbit/s", "20 ms", 16),
    ("10 Mbit/s", "50 ms", 16),
    ("10 Mbit/s", "250 ms", 32),
)

Figures = dict[str, float]


def _delay(result: knee.Result) -> float:
    return float(result.summary["links"][0]["queue_delay_mean_ms"])


def _drained(result: knee.Result) -> float:
    """Mean queueing delay from 30 s after the loss-based flows left, ms."""
    late = result.links.filter(pl.col("t_s") > 110)["queue_delay_mean_ms"].to_numpy()
    return float(np.mean(late))


def _lost(result: knee.Result) -> float:
    """Packets lost of those sent, %."""
    flows = result.summary["flows"]
    return float(100 * sum(flow["lost_packets"] for flow in flows) / sum(flow["sent_packets"] for flow in flows))


def _share(result: knee.Result) -> float:
    rates = [float(flow["goodput_mbps"]) for flow in result.summary["flows"]]
    return 100 * rates[0] / sum(rates)


def _runs(gamma: float, decay: float) -> list[tuple[str, str, list[str], Callable[[knee.Result], float]]]:
    both = [f"flows.0.cc_params.gamma={gamma}", f"flows.0.cc_params.decay={decay}"]
    late = [f"flows.2.cc_params.gamma={gamma}", f"flows.2.cc_params.decay={decay}"]
    made = [
        ("many", "daimd-fig7", ["flows.0.count=128", "duration=90 s", f"flows.0.stagger={ms} ms"], _delay)
        for ms in STAGGERS_MS
    ]
    made += [("drain", "daimd-drain", [*late, f"flows.1.start={s} s"], _drained) for s in STARTS_S]
    for rate, rtt, count in SMALL:
        changes = [f"link.rate={rate}", f"flows.0.rtt={rtt}", f"flows.0.count={count}"]
        made += [("small", "daimd-equals", changes, _delay), ("lost", "daimd-equals", changes, _lost)]
    made.append(("share", "daimd-fig6", [], _share))
    return [(name, scenario, [*both, *changes], figure) for name, scenario, changes, figure in made]


def measure(gamma: float, decay: float) -> dict[str, list[float]]:
    """All figures of one pair of values, by name."""
    found: dict[str, list[float]] = {}
    done: dict[tuple[str, ...], knee.Result] = {}
    for name, scenario, changes, figure in _runs(gamma, decay):
        key = (scenario, *changes)
        if key not in done:
            done = {key: knee.run(knee.load(scenario, changes))}
        found.setdefault(name, []).append(round(figure(done[key]), 4))
    return found


def draw(data: dict[str, dict[str, list[float]]], out: Path) -> None:
    """Four maps, of the worst figure of each pair of values."""
    figure = Figure(figsize=(9, 7), layout="constrained")
    maps = (
        ("many", "128 flows of Fig. 7: worst mean\nqueueing delay of six staggers, ms", max, 30, "Greens_r"),
        ("drain", "After loss-based flows: worst mean\nqueueing delay of three starts, ms", max, 20, "Greens_r"),
        ("lost", "Small windows: most packets lost\non four links, %", max, 0.5, "Greens_r"),
        ("share", "Fig. 6: share of the link, %\n(a fair one is 25)", min, 50, "Greens"),
    )
    for axes, (name, title, worst, top, colours) in zip(figure.subplots(2, 2).flat, maps, strict=True):
        cells = np.array([[worst(data[f"{g} {d}"][name]) for d in DECAYS] for g in GAMMAS])
        axes.imshow(cells, cmap=colours, vmin=0, vmax=top, aspect="auto", origin="lower")
        for (row, column), cell in np.ndenumerate(cells):
            dark = (cell < top / 2) == colours.endswith("_r")
            text = f"{cell:.2f}" if name == "lost" else f"{cell:.1f}"
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")
        axes.set_xticks(range(len(DECAYS)), [str(d) for d in DECAYS])
        axes.set_yticks(range(len(GAMMAS)), [str(g) for g in GAMMAS])
        axes.set_xlabel("decay")
        axes.set_ylabel("gamma")
        axes.set_title(title, loc="left", fontsize=10)
    figure.savefig(out, dpi=110)


def main(data: Path, rest: Sequence[str]) -> None:
    """Runs or draws."""
    known = json.loads(data.read_text()) if data.is_file() else {}
    if rest and not rest[0].replace(".", "").isdigit():
        draw(known, Path(rest[0]))
        return
    for gamma in [float(text) for text in rest] or GAMMAS:
        for decay in DECAYS:
            if f"{gamma} {decay}" not in known:
                known[f"{gamma} {decay}"] = measure(gamma, decay)
                data.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
