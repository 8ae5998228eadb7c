"""Prints the tables of lab/lola-wild.md: algorithms on paths that vary, and beside flows that fill buffers.

python scripts/wild_table.py [--ground uml] [--seeds 3] [--only "beside CUBIC"] [cubic lola lola-wild ...]

Each network is run with several seeds, which also shift starts. Cells are the least and the greatest goodput in Mbit/s
of the flow that is looked at, or of the worst of several, and the greatest 95th percentile of the queueing delay. Cells
are empty where the ground does not have the network, or not the algorithms; below the table is what it lacks.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import knee
from knee.errors import InputError

#: The algorithms, with their parameters, in the order of the columns.
_PARTS = ("adapt", "routes", "compete", "one_way")
_COLUMNS = ("cubic", "lola", "lola-wild", *(f"lola-wild {part}" for part in _PARTS))

Flow = dict[str, Any]


@dataclass(frozen=True)
class Network:
    """A row: a network, and in which part of the run a flow of the algorithm is looked at."""

    name: str
    link: dict[str, Any]
    #: Other flows, by the seed; those without ``cc`` have the algorithm that is looked at.
    others: Callable[[int], list[Flow]] = lambda seed: []
    rtt: str = "40 ms"
    seconds: tuple[int, int] = (10, 40)
    rest: dict[str, Any] | None = None

    def run(self, cc: Flow, seed: int, ground: str) -> tuple[float, float]:
        """The goodput of the worst flow of the algorithm, Mbit/s, and the 95th percentile of the queueing delay, ms."""
        others = [{"rtt": "40 ms", **({} if "cc" in flow else cc), **flow} for flow in self.others(seed)]
        scenario = {
            "duration": f"{self.seconds[1]} s",
            "warmup": f"{self.seconds[0]} s",
            "seed": seed,
            "link": self.link,
            "flows": [{"label": "looked at", "rtt": self.rtt, **cc}, *others],
            **(self.rest or {}),
        }
        summary = knee.run(scenario, ground=ground).summary
        own = [
            flow["goodput_mbps"]
            for flow, given in zip(summary["flows"], [{}, *self.others(seed)], strict=True)
            if "cc" not in given
        ]
        return min(own), summary["links"][0]["queue_delay_p95_ms"]


def _wire(bdp: float = 2, **keys: object) -> dict[str, Any]:
    return {"rate": "50 Mbit/s", "limit": f"{round(165 * bdp)} packets", **keys}


def _beside(cc: str, **keys: object) -> Callable[[int], list[Flow]]:
    return lambda seed: [{"cc": cc, "start": f"{777 * (seed - 1)} ms", **keys}]


def _own(count: int) -> Callable[[int], list[Flow]]:
    def flows(seed: int) -> list[Flow]:
        step = 1000 + 731 * (seed - 1)
        return [{"label": f"own {i}", "start": f"{i * step} ms"} for i in range(1, count)]

    return flows


def _with_cubic(seed: int) -> list[Flow]:
    return [*_own(5)(seed), {"cc": "cubic", "start": "12 s", "stop": "30 s"}]


def _longer(rtt: str) -> dict[str, Any]:
    return {"changes": [{"at": "30 s", "flow": "looked at", "rtt": rtt}]}


_WIFI = {"model": "wifi", "rate": "300 Mbit/s"}
_LTE_UP = {"model": "lte", "rate": "25 Mbit/s", "model_params": {"uplink": True}, "limit": "1000 packets"}
_LTE = {"model": "lte", "rate": "75 Mbit/s", "model_params": {"fading": "rayleigh"}, "limit": "500 packets"}

NETWORKS = [
    Network("alone", _wire()),
    Network("five flows, the least of them", _wire(), _own(5), seconds=(10, 60)),
    Network("jitter of 10 ms", _wire(jitter="10 ms")),
    Network("data in slots of 5 to 15 ms", _wire(slot={"min": "5 ms", "max": "15 ms"})),
    Network("ACKs in slots of 10 ms", _wire(reverse={"rate": "50 Mbit/s", "slot": {"min": "10 ms"}})),
    Network(
        "Wi-Fi, two contenders",
        {
            **_WIFI,
            "model_params": {"contenders": 2, "error": 0.02},
            "limit": "500 packets",
            "reverse": {**_WIFI, "limit": "1000 packets"},
        },
        rtt="20 ms",
    ),
    Network("LTE", {**_LTE, "reverse": _LTE_UP}, rtt="30 ms"),
    Network("LEO, 150 Mbit/s", {"model": "leo", "rate": "150 Mbit/s", "limit": "800 packets"}, seconds=(10, 60)),
    Network("1 % random loss", _wire(loss=0.01)),
    Network("RTT 40 to 60 ms, 2 to 7 s later", _wire(), seconds=(32, 37), rest=_longer("60 ms")),
    Network("RTT 40 to 120 ms, 2 to 7 s later", _wire(), seconds=(32, 37), rest=_longer("120 ms")),
    *(
        Network(f"beside {name}, {bdp} BDP", _wire(bdp), _beside(cc), seconds=(30, 90))
        for cc, name in (("cubic", "CUBIC"), ("bbr3", "BBRv3"))
        for bdp in (1, 2, 4)
    ),
    Network("6 to 15 s after CUBIC left", _wire(), _beside("cubic", stop="30 s"), seconds=(36, 45)),
    Network("the same, five flows", _wire(), _with_cubic, seconds=(36, 50)),
    Network(
        "a CUBIC upload through a FIFO of 10 Mbit/s",
        _wire(reverse={"rate": "10 Mbit/s", "limit": "200 packets"}),
        lambda seed: [{"cc": "cubic", "direction": "reverse", "start": f"{3000 + 777 * (seed - 1)} ms"}],
        seconds=(10, 60),
    ),
]


def _flow(column: str) -> Flow:
    cc, *without = column.split()
    return {"cc": cc, "cc_params": dict.fromkeys(without, False)}


def main() -> None:
    """Runs all networks with each algorithm and prints a row as soon as it is complete."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=_COLUMNS, help="a name, then parameters that are false")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ground", default="sim", help="where to run: sim, uml or host")
    parser.add_argument("--only", default="", help="networks that have this in their names")
    asked = parser.parse_args()
    print(f"| network | {' | '.join(asked.algorithms)} |\n|---|{'---:|' * len(asked.algorithms)}")
    lacking: dict[str, list[str]] = {}
    for network in (network for network in NETWORKS if asked.only in network.name):
        cells = []
        for column in asked.algorithms:
            try:
                found = [network.run(_flow(column), seed, asked.ground) for seed in range(1, asked.seeds + 1)]
            except InputError as error:
                lacking.setdefault(str(error), []).append(network.name)
                cells.append("")
                continue
            rates = [rate for rate, _ in found]
            ends = dict.fromkeys(f"{rate:.1f}" for rate in (min(rates), max(rates)))
            cells.append(f"{' to '.join(ends)}, q{max(queue for _, queue in found):.0f}")
        print(f"| {network.name} | {' | '.join(cells)} |", flush=True)
    for said, names in lacking.items():
        print(f"\n{', '.join(dict.fromkeys(names))}: {said}")


if __name__ == "__main__":
    main()
