"""knee's own QUIC endpoints beside quinn's under one algorithm, on random networks: python scripts/quic_beside.py.

Prints how many networks agree: goodput and mean RTT within 1 % and losses within a fifth or 3 packets where nothing is
lost by chance; the means of 20 seeds within 3 % where 1, 5 or 10 % are; completion times within 3 %. Packets are full
from the start. Those that do not agree follow.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from statistics import mean
from typing import Any

import quic_tcp
from quic_tcp import Network

import knee

#: The endpoints that are compared, without quinn's search for the MTU.
ENDS: tuple[dict[str, Any], ...] = ({"endpoints": "knee"}, {"endpoints": "quinn", "initial_mtu": "1452 B"})
#: Networks without loss, with loss, and for transfers of each size.
NETWORKS, LOSSY, TRANSFERS = 200, 30, 60
SEEDS = 20
SIZES = ("1 B", "100 kB", "10 MB")


def _run(network: Network, flow: dict[str, Any], seconds: float, seed: int) -> tuple[Any, ...]:
    """The flow's figures with each of the ends."""
    link = {"rate": f"{network.mbit} Mbit/s", "limit": f"{network.buffer_ms} ms", "loss": network.loss}
    flow = {"cc": "reno", "rtt": f"{network.rtt_ms} ms", "transport": "quic"} | flow
    made = {"duration": f"{seconds} s", "seed": seed, "link": link, "flows": [flow]}
    return tuple(knee.run(made | {"quic": quic}).summary["flows"][0] for quic in ENDS)


def _seconds(network: Network) -> float:
    return round(12 + 0.15 * network.rtt_ms, 1)


def alone(network: Network) -> str | None:
    """An endless flow where nothing is lost by chance: what differs, if anything does."""
    own, quinn = _run(network, {}, _seconds(network), 1)
    ratios = [own[figure] / quinn[figure] for figure in ("goodput_mbps", "rtt_mean_ms")]
    lost = own["lost_packets"], quinn["lost_packets"]
    agrees = all(abs(ratio - 1) <= 0.01 for ratio in ratios) and abs(lost[0] - lost[1]) <= max(3, 0.2 * lost[1])
    return None if agrees else f"goodput {ratios[0]:.3f}, RTT {ratios[1]:.3f}, losses {lost[0]} and {lost[1]}"


def lossy(network: Network) -> str | None:
    """The same where packets are lost by chance."""
    seen = [_run(network, {}, _seconds(network), seed) for seed in range(1, SEEDS + 1)]
    ratios = [
        mean(own[f] for own, _ in seen) / mean(quinn[f] for _, quinn in seen) for f in ("goodput_mbps", "rtt_mean_ms")
    ]
    agrees = all(abs(ratio - 1) <= 0.03 for ratio in ratios)
    return None if agrees else f"goodput {ratios[0]:.3f}, RTT {ratios[1]:.3f}"


def transfer(given: tuple[Network, str]) -> str | None:
    """A transfer's completion time."""
    network, size = given
    bits = {"1 B": 8, "100 kB": 8e5, "10 MB": 8e7}[size]
    own, quinn = _run(network, {"bytes": size}, round(20 + 1.5 * bits / network.mbit / 1e6), 1)
    ratio = own["completion_s"] / quinn["completion_s"]
    return None if abs(ratio - 1) <= 0.03 else f"{size}: {own['completion_s']:.3f} s, {quinn['completion_s']:.3f} s"


def main() -> None:
    """Runs all and prints what agrees and what does not."""
    free = list(quic_tcp.networks(NETWORKS, (0.0,), seed=3))
    chance = list(quic_tcp.networks(LOSSY, (0.01, 0.05, 0.1), seed=3))
    sizes = [(network, size) for network in free[:TRANSFERS] for size in SIZES]
    with ProcessPoolExecutor() as pool:
        for name, judge, cases in (("no loss", alone, free), ("loss", lossy, chance), ("transfers", transfer, sizes)):
            seen = list(zip(cases, pool.map(judge, cases), strict=True))
            apart = [(case, what) for case, what in seen if what is not None]
            print(f"{name}: {len(seen) - len(apart)} of {len(seen)} agree", flush=True)
            for case, what in apart:
                print(f"  {case}: {what}", flush=True)


if __name__ == "__main__":
    main()
