"""Each algorithm over QUIC beside TCP on random networks.

Run python scripts/quic_tcp.py [NETWORKS [ALGORITHM...]].

Prints Markdown: goodput and mean RTT over QUIC as parts of those over TCP, as geometric means over the networks with
the least and the greatest. Like with like: TCP's receiver acknowledges every second packet here, as QUIC's does (RFC
9000, 13.2.2), and nothing joins packets, SACKs or times of a clock, as nothing does over QUIC.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import knee
from knee.scenario import registry

#: What QUIC's endpoints have. With a receive window that hardly grows, Linux acknowledges every second packet. Paced
#: packets leave one by one, each packet out of order is acknowledged at once, and no clock ticks.
LIKE_QUIC = {"window_growth": "10 kB", "tso": False, "sack_delay": "0 s", "tick": "0 s"}
#: Rates of random loss: none for every second network.
LOSSES = (0.0, 0.01, 0.0, 0.05, 0.0, 0.1)
#: Networks for each algorithm: a thousand for all.
NETWORKS = 38
#: Runs of a network with loss, and of those algorithms whose ratios spread twice as far: the mean of three has a
#: standard error of 5 to 6 %.
SEEDS, MORE_SEEDS = 3, {"bbr3": 12, "vivace": 12}


@dataclass(frozen=True)
class Network:
    """A bottleneck and a path."""

    mbit: float
    rtt_ms: float
    buffer_ms: float
    loss: float
    seed: int


@dataclass(frozen=True)
class Ratio:
    """QUIC's figures as parts of TCP's."""

    network: Network
    goodput: float
    rtt: float


def networks(number: int, losses: tuple[float, ...] = LOSSES, seed: int = 1) -> Iterator[Network]:
    """The first of an endless series of random networks: 1 to 40 Mbit/s, 10 to 150 ms, a buffer of 0.7 to 3 BDP."""
    for i in range(number):
        draw = random.Random(f"{seed}/{i}")
        mbit, rtt = math.exp(draw.uniform(0, math.log(40))), math.exp(draw.uniform(math.log(10), math.log(150)))
        # Ten packets of 1500 bytes at least.
        buffer = max(rtt * draw.uniform(0.7, 3), 120 / mbit)
        yield Network(round(mbit, 2), round(rtt, 1), round(buffer, 1), losses[i % len(losses)], i + 1)


def able() -> list[str]:
    """The algorithms that need no marks of another kind."""
    return [name for name, entry in registry.congestion_controls().items() if entry.needs["ecn"] == "classic"]


def figures(cc: str, transport: str, network: Network) -> tuple[float, float]:
    """Goodput in Mbit/s and the mean RTT in ms of a flow alone."""
    # As many round trips on each path, and the first seconds, in which the flow starts, left out.
    seconds = round(min(12 + 0.15 * network.rtt_ms, 30), 1)
    link = {"rate": f"{network.mbit} Mbit/s", "limit": f"{network.buffer_ms} ms", "loss": network.loss}
    flow = {"cc": cc, "rtt": f"{network.rtt_ms} ms", "transport": transport}
    made = {"duration": f"{seconds} s", "warmup": f"{seconds / 3:.1f} s", "seed": network.seed, "link": link}
    ends = {"tcp": LIKE_QUIC} if transport == "tcp" else {}
    (seen,) = knee.run({**made, **ends, "flows": [flow]}).summary["flows"]
    return seen["goodput_mbps"], seen["rtt_mean_ms"]


def ratio(cc: str, network: Network) -> Ratio:
    """QUIC's figures as parts of TCP's on a network."""
    (quic, quic_rtt), (tcp, tcp_rtt) = (figures(cc, transport, network) for transport in ("quic", "tcp"))
    return Ratio(network, quic / tcp, quic_rtt / tcp_rtt)


def ratios(cc: str, network: Network) -> list[Ratio]:
    """Those of a network, with several seeds where packets are lost by chance."""
    seeds = MORE_SEEDS.get(cc, SEEDS) if network.loss else 1
    return [ratio(cc, replace(network, seed=network.seed + 10000 * k)) for k in range(seeds)]


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _cell(ratios: list[float]) -> str:
    return f"{mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main(number: int, names: list[str]) -> None:
    """Runs all and prints the table."""
    losses = sorted(set(LOSSES))
    print("| | " + " | ".join(f"{loss:.0%}: goodput | RTT" for loss in losses) + " |")
    print("|---" * (2 * len(losses) + 1) + "|")
    for cc in names:
        seen = [each for network in networks(number) for each in ratios(cc, network)]
        cells = [
            _cell([getattr(each, figure) for each in seen if each.network.loss == loss])
            for loss in losses
            for figure in ("goodput", "rtt")
        ]
        print(f"| `{cc}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else NETWORKS, sys.argv[2:] or able())
