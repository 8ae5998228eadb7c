"""The networks of the paper, on which delay-based algorithms gave up their rates, and drawn ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from knee.results.result import Result

Table = dict[str, Any]

#: What is wanted beside and after others; elsewhere it is the rate.
_WANTED = {"cubic": "share", "bbr3": "share", "after": "return"}
#: The label of the flow that is looked at.
_LABEL = "looked at"


@dataclass(frozen=True)
class Other:
    """A further flow; without ``cc`` it has the algorithm that is looked at.

    Attributes:
        flow: its keys in the scenario.
        start_ms: when it starts with the first seed.
        shift_ms: how much later it starts with each further seed, and from ``within_ms`` on as early as at first.
    """

    flow: Table
    start_ms: int = 0
    shift_ms: int = 0
    within_ms: int = 8000

    def start(self, k: int) -> str:
        """When it starts, ``k`` seeds after the first."""
        return f"{self.start_ms + k * self.shift_ms % self.within_ms} ms"


@dataclass(frozen=True)
class Network:
    """A network, and in which part of the run a flow of the algorithm is looked at.

    Attributes:
        key: its name in runs.
        kind: its kind, which says what is wanted on it.
        name: its words in tables.
        flow: further keys of the flow that is looked at.
        window_s: the part of the run that counts.
        rest: further keys of the scenario.
        short: its words where there is little room.
    """

    key: str
    kind: str
    name: str
    link: Table
    others: Sequence[Other] = ()
    rtt_ms: float = 40
    window_s: tuple[int, int] = (10, 40)
    flow: Table = field(default_factory=dict)
    rest: Table = field(default_factory=dict)
    short: str = ""

    def scenario(self, scheme: Table, seed: int = 1) -> Table:
        """The scenario with ``scheme``, the keys of a flow, in place of the algorithm."""
        rtt = f"{self.rtt_ms:g} ms"
        own = {"rtt": rtt, **scheme}
        others = [
            {**({"rtt": rtt} if "cc" in other.flow else own), **other.flow, "start": other.start(seed - 1)}
            for other in self.others
        ]
        start_s, end_s = self.window_s
        window = {"duration": f"{end_s} s", "warmup": f"{start_s} s", "seed": seed}
        return {**window, "link": self.link, "flows": [{"label": _LABEL, **own, **self.flow}, *others], **self.rest}

    def shifts(self, k: int) -> list[str]:
        """The overrides that shift the others' starts, ``k`` seeds after the first."""
        return [f"flows.{at}.start={other.start(k)}" for at, other in enumerate(self.others, start=1) if other.shift_ms]

    def undisturbed(self) -> Network:
        """The network without flows of other algorithms."""
        own = [other for other in self.others if "cc" not in other.flow]
        return replace(self, kind="alone", others=own)

    @property
    def wanted(self) -> str:
        """The bound: ``rate``, a part of CUBIC's; ``share``, of a fair share; ``return``, of the delay."""
        return _WANTED.get(self.kind, "rate")

    @property
    def fair_mbps(self) -> float:
        """The link's rate for each of the flows on it."""
        return float(self.link["rate"].removesuffix(" Mbit/s")) / (1 + len(self.others))

    def figures(self, result: Result) -> tuple[float, float]:
        """The goodput of the worst flow of the algorithm, Mbit/s, and the 95th percentile of the queueing delay, ms.

        The rate of bursts is that of a burst in the 99th percentile of their times.
        """
        summary = result.summary
        queue = float(summary["links"][0]["queue_delay_p95_ms"])
        if "traffic" in self.flow:
            transfers = summary["flows"][0]["transfers"]
            size = float(transfers["bytes"]) / transfers["completed"] if transfers["completed"] else 0.0
            return (size / 125 / transfers["time_p99_ms"] if size else 0.0), queue
        own = [True, *("cc" not in other.flow for other in self.others)]
        return min(f["goodput_mbps"] for f, mine in zip(summary["flows"], own, strict=True) if mine), queue


def cell(figures: Sequence[tuple[float, float]]) -> str:
    """Rates and queues of several seeds as a cell of a table: the least and the greatest rate, the greatest queue."""
    rates = [rate for rate, _ in figures]
    ends = dict.fromkeys(f"{rate:.1f}" for rate in (min(rates), max(rates)))
    return f"{' to '.join(ends)}, q{max(queue for _, queue in figures):.0f}"


def _wire(bdp: float = 2, **keys: object) -> Table:
    return {"rate": "50 Mbit/s", "limit": f"{round(165 * bdp)} packets", **keys}


def _competitor(cc: str, **keys: object) -> Other:
    return Other({"cc": cc, **keys}, 0, 777)


def _own(count: int) -> list[Other]:
    return [Other({"label": f"own {i}"}, 1000 * i, 731 * i, 2000 * i) for i in range(1, count)]


def _upload(start_ms: int = 3000) -> Other:
    return Other({"cc": "cubic", "direction": "reverse"}, start_ms, 777)


def _longer(rtt: str) -> Table:
    return {"changes": [{"at": "30 s", "flow": _LABEL, "rtt": rtt}]}


def _wifi(rate: str, contenders: int, error: float) -> Table:
    """A Wi-Fi link whose air ACKs share."""
    one = {"model": "wifi", "rate": rate}
    params = {"contenders": contenders, "error": error}
    return {**one, "model_params": params, "reverse": {**one, "limit": "1000 packets"}}


def _lte(rate_mbps: float) -> Table:
    up = {"model": "lte", "rate": f"{rate_mbps / 3:g} Mbit/s", "model_params": {"uplink": True}}
    down = {"model": "lte", "rate": f"{rate_mbps:g} Mbit/s", "model_params": {"fading": "rayleigh"}}
    return {**down, "reverse": {**up, "limit": "1000 packets"}}


def _bursts(burst: str, period: str) -> Table:
    return {"traffic": {"kind": "bursts", "burst": burst, "period": period}}


#: Where others leave, and in which part of the run the delay counts: from 5 s after that.
_LEAVE, _AFTER = "30 s", (35, 50)

#: The networks of the paper.
NETWORKS = (
    Network("alone", "alone", "alone", _wire(), short="alone"),
    Network("five", "five", "five flows, the least of them", _wire(), _own(5), window_s=(10, 60), short="5 flows"),
    Network("jitter", "jitter", "jitter of 10 ms", _wire(jitter="10 ms"), short="jitter"),
    Network(
        "slots", "slots", "data in slots of 5 to 15 ms", _wire(slot={"min": "5 ms", "max": "15 ms"}), short="data slots"
    ),
    Network(
        "ack-slots",
        "ack-slots",
        "ACKs in slots of 10 ms",
        _wire(reverse={"rate": "50 Mbit/s", "slot": {"min": "10 ms"}}),
        short="ACK slots",
    ),
    Network(
        "wifi",
        "wifi",
        "Wi-Fi, two contenders",
        {**_wifi("300 Mbit/s", 2, 0.02), "limit": "500 packets"},
        rtt_ms=20,
        short="Wi-Fi",
    ),
    Network("lte", "lte", "LTE", {**_lte(75), "limit": "500 packets"}, rtt_ms=30, short="LTE"),
    Network(
        "leo",
        "leo",
        "LEO, 150 Mbit/s",
        {"model": "leo", "rate": "150 Mbit/s", "limit": "800 packets"},
        window_s=(10, 60),
        short="LEO",
    ),
    Network("loss", "loss", "1 % random loss", _wire(loss=0.01), short="1 % loss"),
    Network(
        "bursts", "bursts", "1 MB each second", _wire(), window_s=(0, 40), flow=_bursts("1 MB", "1 s"), short="bursts"
    ),
    *(
        Network(
            f"route-{ms}",
            "route",
            f"RTT 40 to {40 + ms} ms, 2 to 7 s later",
            _wire(),
            window_s=(32, 37),
            rest=_longer(f"{40 + ms} ms"),
            short=f"RTT +{ms} ms",
        )
        for ms in (20, 80)
    ),
    Network(
        "upload",
        "upload",
        "a CUBIC upload through a FIFO of 10 Mbit/s",
        _wire(reverse={"rate": "10 Mbit/s", "limit": "200 packets"}),
        [_upload()],
        window_s=(10, 60),
        short="upload",
    ),
    *(
        Network(
            f"{cc}-{bdp}bdp",
            cc,
            f"beside {name}, {bdp} BDP",
            _wire(bdp),
            [_competitor(cc)],
            window_s=(30, 90),
            short=f"{name} {bdp} BDP",
        )
        for cc, name in (("cubic", "CUBIC"), ("bbr3", "BBRv3"))
        for bdp in (1, 2, 4)
    ),
    *(
        Network(
            f"after-{cc}",
            "after",
            f"5 to 20 s after {name} left",
            _wire(),
            [_competitor(cc, stop=_LEAVE)],
            window_s=_AFTER,
            short=f"after {name}",
        )
        for cc, name in (("cubic", "CUBIC"), ("bbr3", "BBRv3"))
    ),
    Network(
        "after-cubic-five",
        "after",
        "five flows, 5 to 20 s after CUBIC left",
        _wire(),
        [*_own(5), Other({"cc": "cubic", "stop": _LEAVE}, 12_000)],
        window_s=_AFTER,
        short="5 after CUBIC",
    ),
)

# Drawn networks. A draw takes the wire (rate in Mbit/s, RTT in ms, buffer in BDP) and random numbers.
_Draw = Callable[[random.Random, float, float], Table]


def _log(rng: random.Random, low: float, high: float) -> float:
    """A number between two, uniform in its logarithm, of three digits."""
    return float(f"{low * (high / low) ** rng.random():.3g}")


def _ms(value: float) -> str:
    return f"{value:.3g} ms"


def _slots(rng: random.Random) -> Table:
    low = _log(rng, 1, 10)
    return {"min": _ms(low), "max": _ms(low + rng.uniform(0, 15))}


def _ack_slots(rng: random.Random, rate: float, _: float) -> Table:
    return {"link": {"reverse": {"rate": f"{rate:g} Mbit/s", "slot": {"min": _ms(_log(rng, 1, 20))}}}}


def _drawn_bursts(rng: random.Random, rate: float, _: float) -> Table:
    period_s = _log(rng, 0.5, 4)
    size_kb = rng.uniform(0.1, 0.5) * rate * 125 * period_s
    return {"flow": _bursts(f"{size_kb:.0f} kB", f"{period_s:g} s"), "window_s": (0, 40)}


def _drawn_upload(rng: random.Random, rate: float, _: float) -> Table:
    reverse = {"rate": f"{_log(rng, rate / 10, rate / 2):g} Mbit/s", "limit": _ms(_log(rng, 50, 300))}
    return {"link": {"reverse": reverse}, "others": [_upload(rng.randrange(1000, 8000))], "window_s": (10, 60)}


def _drawn_own(rng: random.Random, _: float, __: float) -> Table:
    step = rng.randrange(100, 2000)
    others = [Other({"label": f"own {i}"}, i * step) for i in range(1, rng.randrange(2, 9))]
    return {"others": others, "window_s": (20, 60)}


def _beside(cc: str) -> _Draw:
    return lambda rng, _, __: {"others": [Other({"cc": cc}, rng.randrange(5000))], "window_s": (30, 90)}


def _left(rng: random.Random, _: float, __: float) -> Table:
    cc = rng.choice(("cubic", "bbr3"))
    return {"others": [Other({"cc": cc, "stop": _LEAVE}, rng.randrange(5000))], "window_s": _AFTER}


def _route(rng: random.Random, _: float, rtt: float) -> Table:
    return {"rest": _longer(_ms(rtt + _log(rng, 10, 150))), "window_s": (32, 37)}


#: By kind: its words, and what differs from the wire.
_KINDS: dict[str, tuple[str, _Draw]] = {
    "alone": ("alone", lambda _, __, ___: {}),
    "five": ("2 to 8 flows, the least of them", _drawn_own),
    "jitter": ("jitter of 1 to 20 ms", lambda rng, _, __: {"link": {"jitter": _ms(_log(rng, 1, 20))}}),
    "slots": ("data in slots of 1 to 25 ms", lambda rng, _, __: {"link": {"slot": _slots(rng)}}),
    "ack-slots": ("ACKs in slots of 1 to 20 ms", _ack_slots),
    "wifi": (
        "Wi-Fi, up to 5 contenders",
        lambda rng, rate, _: {"link": _wifi(f"{3 * rate:g} Mbit/s", rng.randrange(6), round(rng.uniform(0, 0.05), 3))},
    ),
    "lte": ("LTE", lambda _, rate, __: {"link": _lte(rate)}),
    "leo": ("LEO", lambda _, rate, __: {"link": {"model": "leo"}, "window_s": (10, 60)}),
    "loss": ("0.01 to 2 % random loss", lambda rng, _, __: {"link": {"loss": _log(rng, 1e-4, 0.02)}}),
    "bursts": ("bursts of 10 to 50 % of the link", _drawn_bursts),
    "route": ("RTT 10 to 150 ms longer, 2 to 7 s later", _route),
    "upload": ("a CUBIC upload", _drawn_upload),
    "cubic": ("beside CUBIC, 1 to 4 BDP", _beside("cubic")),
    "bbr3": ("beside BBRv3, 1 to 4 BDP", _beside("bbr3")),
    "after": ("5 to 20 s after CUBIC or BBRv3 left", _left),
}
#: The names of kinds of drawn networks.
KINDS = {kind: name for kind, (name, _) in _KINDS.items()}


def drawn(count: int, seed: int) -> list[Network]:
    """``count`` networks of each kind: 5 to 200 Mbit/s, 10 to 200 ms, 0.5 to 4 BDP (1 to 4 beside others)."""
    made = []
    for kind, (name, draw) in _KINDS.items():
        # Each kind has its own random numbers: a change of one leaves the others as they are.
        rng = random.Random(f"{seed} {kind}")
        for k in range(1, count + 1):
            rate, rtt = _log(rng, 5, 200), _log(rng, 10, 200)
            bdp = _log(rng, 1 if kind in _WANTED else 0.5, 4)
            limit = f"{max(4, round(bdp * rate * rtt / 12.112))} packets"
            given = draw(rng, rate, rtt)
            link = {"rate": f"{rate:g} Mbit/s", "limit": limit, **given.pop("link", {})}
            said = f"{name}: {rate:g} Mbit/s, {rtt:g} ms, {bdp:g} BDP"
            made.append(Network(f"drawn-{kind}-{k}", kind, said, link, rtt_ms=rtt, **given))
    return made
