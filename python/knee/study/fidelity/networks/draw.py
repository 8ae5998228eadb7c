"""Draws networks that the simulator and a Linux kernel both take.

The plain ones have one flow of bulk data or bursts. Half of the networks, unless only plain ones are wanted, have more
than that, which is drawn from a stream of its own: the other half is the same either way.
"""

from __future__ import annotations

import random

from knee.scenario import Plain

#: Congestion controls of Linux, and two of knee's modules; a test compares them with the kernel's.
CCS = (
    *("reno", "cubic", "bic", "htcp", "hybla", "illinois", "lp", "scalable", "vegas", "veno", "westwood", "yeah"),
    *("highspeed", "cdg", "bbr", "lola", "daimd", "dctcp", "nv"),
)
QUEUES = ("pfifo", "bfifo", "fq", "codel", "fq_codel", "pie", "fq_pie", "cake")
#: Disciplines of further networks. Others are not in every kernel, or not in both grounds.
MORE_QUEUES = ("red", "cocoa")
#: A full packet on a link, bytes.
PACKET = 1514
#: How long each network runs.
DURATION = "12 s"
#: The least limit, packets.
_LEAST_LIMIT = 8


def networks(count: int, seed: int = 1, *, plain: bool = False) -> list[Plain]:
    """The first ``count`` networks of a seed, as plain data of scenarios.

    Rates are log-uniform from 2 to 158 Mbit/s, RTTs from 5 to 200 ms, buffers from 0.2 to 8 bandwidth-delay products,
    and losses, of a quarter of the networks, from 0.01 to 5 %.

    Args:
        count: how many, 1 or more.
        seed: another seed gives other networks.
        plain: whether all are of one flow of bulk data or bursts.
    """
    dice, more = random.Random(seed), random.Random(f"further networks of {seed}")
    drawn = []
    for number in range(1, count + 1):
        network = _plain(dice, number)
        further = _further(more, network)
        drawn.append(network if plain or further is None else further)
    return drawn


def _plain(dice: random.Random, number: int) -> Plain:
    rate = round(10 ** dice.uniform(0.3, 2.2), 1)
    rtt = round(10 ** dice.uniform(0.7, 2.3), 1)
    limit = max(_LEAST_LIMIT, int(bdp(rate, rtt) * 10 ** dice.uniform(-0.7, 0.9)))
    link: Plain = {"rate": f"{rate} Mbit/s", "queue": dice.choice(QUEUES)}
    link |= _limit(link["queue"], limit)
    if dice.random() < 0.25:
        link["loss"] = round(10 ** dice.uniform(-4, -1.3), 5)
    flow: Plain = {"cc": dice.choice(CCS), "rtt": f"{rtt} ms"}
    if dice.random() < 0.3:
        size, period = int(10 ** dice.uniform(3.5, 6.3)), round(dice.uniform(0.2, 2), 2)
        flow["traffic"] = {"kind": "bursts", "burst": f"{size} B", "period": f"{period} s"}
    return {"duration": DURATION, "seed": number, "link": link, "flows": [flow]}


def bdp(rate_mbps: float, rtt_ms: float) -> float:
    """The bandwidth-delay product in full packets."""
    return rate_mbps * 1e6 * rtt_ms / 1e3 / 8 / PACKET


def _limit(queue: str, packets: int) -> Plain:
    """The limit as each discipline counts it; cake limits only its memory."""
    if queue == "cake":
        return {}
    return {"limit": f"{packets * PACKET} B" if queue in ("bfifo", "red") else f"{packets} packets"}


def _further(dice: random.Random, plain: Plain) -> Plain | None:
    """The network with more flows, other traffic, ECN, pacing, or a rate that changes; None: as it is."""
    if dice.random() < 0.5:
        return None
    link = dict(plain["link"])
    rate, rtt = (float(text.split()[0]) for text in (link["rate"], plain["flows"][0]["rtt"]))
    if dice.random() < 0.2:
        link.pop("limit", None)
        link["queue"] = dice.choice(MORE_QUEUES)
        link |= _red(bdp(rate, rtt)) if link["queue"] == "red" else _limit("cocoa", max(50, int(4 * bdp(rate, rtt))))
    flows = [_flow(dice, plain["flows"][0], rate)]
    for _ in range(dice.choices((0, 1, 2), (3, 4, 3))[0]):
        other = {"cc": dice.choice((*CCS, flows[0]["cc"])), "rtt": f"{round(10 ** dice.uniform(0.7, 2.3), 1)} ms"}
        if dice.random() < 0.5:
            other["rtt"] = flows[0]["rtt"]
        flows.append(_flow(dice, other | {"start": f"{dice.randrange(3000)} ms"}, rate))
    network = plain | {"link": link, "flows": flows}
    if dice.random() < 0.15:
        new = round(rate * 10 ** dice.uniform(-0.5, 0.3), 1)
        network["changes"] = [{"at": f"{dice.randrange(3, 9)} s", "link": "bottleneck", "rate": f"{new} Mbit/s"}]
    return network


def _red(packets: float) -> Plain:
    """RED around half a bandwidth-delay product, which Linux wants some packets wide."""
    least = max(5, int(packets / 4)) * PACKET
    params = {"min": f"{least} B", "max": f"{3 * least} B", "probability": 0.1}
    return {"limit": f"{12 * least} B", "queue_params": params}


def _flow(dice: random.Random, flow: Plain, rate_mbps: float) -> Plain:
    """The flow with other traffic now and then, ECN or pacing."""
    made = dict(flow)
    kind = dice.choices(("same", "transfer", "transfers", "requests", "app_limited"), (6, 1, 1, 1, 1))[0]
    if kind == "transfer":
        made.pop("traffic", None)
        made["bytes"] = f"{int(rate_mbps * 1e6 / 8 * 10 ** dice.uniform(-1.5, 0.7))} B"
    elif kind == "transfers":
        size = int(10 ** dice.uniform(4, 5.7))
        per_second = round(dice.uniform(0.1, 0.7) * rate_mbps * 1e6 / 8 / size, 2)
        made["traffic"] = {"kind": kind, "size": f"{size} B", "per_second": max(0.1, min(per_second, 50.0))}
    elif kind == "requests":
        size = int(10 ** dice.uniform(3.5, 5.5))
        made["traffic"] = {"kind": kind, "size": f"{size} B", "think": f"{dice.randrange(500)} ms"}
        made["traffic"] |= {"connection": dice.choice(("new", "persistent"))}
    elif kind == "app_limited":
        made["traffic"] = {"kind": kind, "rate": f"{round(rate_mbps * dice.uniform(0.05, 0.9), 2)} Mbit/s"}
    if dice.random() < 0.2:
        made["ecn"] = True
    return made
