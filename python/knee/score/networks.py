"""The networks of a score: the public ones of ``training.toml``, and others that are drawn from a seed.

Both have the same kinds in the same order, so that what is learnt on one can be held against the other.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from random import Random

from knee.scenario import Plain
from knee.scenario.units import parse_rate, parse_time
from knee.score.worker import PLACE

#: Kinds of networks of the last stage, of which it has :data:`_ROUNDS`.
_ROUND = (
    ("alone",) * 3
    + ("self",) * 4
    + ("beside-cubic",) * 3
    + ("beside-bbr3",) * 2
    + ("lossy",) * 2
    + ("changing",) * 3
    + ("aqm",) * 3
)
#: With one round, the standard error of the difference between two algorithms is 0.010 to 0.019 (docs/score.md).
_ROUNDS = 3
#: The kinds of networks, by stage: most of the work are calls of the candidate's methods. The first three networks say
#: whether there is anything to judge, the next seven have every kind once, and the rest is what keeps a candidate from
#: fitting a few, and tells algorithms apart.
STAGES = (
    ("alone", "self", "beside-cubic"),
    ("alone", "self", "beside-cubic", "beside-bbr3", "lossy", "changing", "aqm"),
    _ROUND * _ROUNDS,
)
#: How many networks are drawn together: the first two stages with the first round, then each round.
_TOGETHER = (10 + len(_ROUND), *(len(_ROUND),) * (_ROUNDS - 1))
#: So many networks stand for all where a run takes long.
FEW = _TOGETHER[0]
#: What each kind is.
ABOUT = {
    "alone": "one flow alone",
    "self": "several flows of it",
    "beside-cubic": "one flow beside CUBIC",
    "beside-bbr3": "one flow beside BBRv3",
    "lossy": "one flow, random loss",
    "changing": "one flow, and the rate changes at once",
    "aqm": "two flows behind an AQM",
}


@dataclass(frozen=True)
class Network:
    """A network.

    Attributes:
        name: its name in a score, such as ``self-3``.
        kind: one of :data:`ABOUT`.
        stage: 0 to 2.
        data: the scenario as plain data, with ``cc = "X"`` where the candidate comes.
    """

    name: str
    kind: str
    stage: int
    data: Plain

    @property
    def told(self) -> str:
        """What it is, in a line."""
        link, flow = self.data["link"], self.data["flows"][-1]
        count = sum(each.get("count", 1) for each in self.data["flows"])
        said = [ABOUT[self.kind] if self.kind != "self" else f"{count} flows of it", link["rate"], f"RTT {flow['rtt']}"]
        said += [link["queue"]] if "queue" in link else [f"buffer {link['limit']}"]
        said += [f"{100 * link['loss']:.2f} % loss"] if "loss" in link else []
        said += [f"then {change['rate']}" for change in self.data.get("changes", ())]
        return ", ".join(said)


@cache
def training() -> tuple[Network, ...]:
    """The public networks."""
    text = resources.files(__package__).joinpath("training.toml").read_text(encoding="utf-8")
    return _named(tomllib.loads(text)["networks"])


def drawn(seed: int) -> tuple[Network, ...]:
    """Networks of the same kinds, drawn from a seed.

    Rates are from 4 to 50 Mbit/s, RTTs from 10 to 150 ms, and buffers from half a BDP to eight, which is where most
    criteria of ``knee evaluate``. Their logarithms are Latin hypercubes (McKay et al., 1979), one of the first thirty
    networks and one of each round behind them: each thirtieth, or twentieth, of each range is drawn from once, so that
    scores of two seeds are close.
    """
    random, made = Random(seed), []
    kinds = iter(kind for stage in STAGES for kind in stage)
    for count in _TOGETHER:
        places = []
        for _ in range(3):
            strata = list(range(count))
            random.shuffle(strata)
            places.append([(stratum + random.random()) / count for stratum in strata])
        for *place, kind in zip(*places, kinds, strict=False):
            made.append(_drawn(random, kind, *place))
    return _named(made)


def _named(each: list[Plain]) -> tuple[Network, ...]:
    kinds = [(kind, stage) for stage, kinds in enumerate(STAGES) for kind in kinds]
    seen: dict[str, int] = {}
    made = []
    for (kind, stage), data in zip(kinds, each, strict=True):
        seen[kind] = seen.get(kind, 0) + 1
        made.append(Network(f"{kind}-{seen[kind]}", kind, stage, data))
    return tuple(made)


def _drawn(random: Random, kind: str, *place: float) -> Plain:
    """A network of a kind. Its length is such that its packets, and with them the calls, are about as many in all."""
    rate, rtt, depth = (_between(*span, at) for span, at in zip(((4, 50), (10, 150), (0.5, 8)), place, strict=True))
    duration = round(min(max(600 / rate, 12), 30))
    # Room for six packets at least.
    room = max(rtt * depth, 6 * 1514 * 8 / (rate * 1e3))
    flow: Plain = {"cc": PLACE, "label": "x", "rtt": f"{rtt:.0f} ms"}
    # Without jitter a queue is a clockwork.
    link: Plain = {"rate": f"{rate:.1f} Mbit/s", "limit": f"{room:.0f} ms", "jitter": "100 us"}
    data: Plain = {"duration": f"{duration} s", "warmup": f"{duration // 4} s", "seed": random.randrange(1 << 31)}
    data |= {"link": link, "flows": [flow]}
    if kind == "self":
        flow |= {"count": random.choice((2, 3, 4)), "stagger": "500 ms"}
    elif kind.startswith("beside"):
        other = {"cc": kind.partition("-")[2], "label": "other", "rtt": flow["rtt"]}
        data["flows"] = [other, flow | {"start": "500 ms"}]
    elif kind == "lossy":
        link["loss"] = round(_between(0.0005, 0.01, random.random()), 4)
    elif kind == "changing":
        factor = _between(*random.choice(((0.3, 0.6), (1.7, 3.0))), random.random())
        change = {"at": f"{duration // 2} s", "link": "bottleneck", "rate": f"{rate * factor:.1f} Mbit/s"}
        data["changes"] = [change]
    elif kind == "aqm":
        flow |= {"count": 2, "stagger": "500 ms"}
        link["queue"] = random.choice(("codel", "fq_codel", "pie"))
        del link["limit"]
    return data


def _between(least: float, most: float, place: float) -> float:
    """What is at a place, 0 to 1, between two numbers in their logarithms."""
    return float(least * (most / least) ** place)


def mean_rate_mbps(data: Plain) -> float:
    """The mean rate of a network's link over the time in which figures are taken."""
    first, end = (parse_time(data[key]) / 1e9 for key in ("warmup", "duration"))
    carried, begin, now = 0.0, first, parse_rate(data["link"]["rate"]) / 1e6
    for change in data.get("changes", ()):
        at = parse_time(change["at"]) / 1e9
        carried += now * (at - begin)
        begin, now = at, parse_rate(change["rate"]) / 1e6
    return (carried + now * (end - begin)) / (end - first)
