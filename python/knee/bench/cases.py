"""Benchmarks: how fast this machine simulates. Each case runs in a new process, which makes its peak memory its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from knee.errors import InputError, RunError
from knee.scenario.units import near, shown
from knee.system.text import JsonTable

if TYPE_CHECKING:
    from knee.scenario import Scenario


_LINK = {"rate": "1 Gbit/s", "queue": "pfifo", "limit": "1667 packets"}
#: Its marks keep the queue of either kind of flow short.
_MARKING = {"rate": "1 Gbit/s", "queue": "dualpi2"}
_FAST = {"rate": "10 Gbit/s", "queue": "pfifo"}
#: With two flows and 20 ms, windows that keep a standing queue of about 1 ms on 1 Gbit/s, and no drops.
_WINDOW = {"tcp": {"receive_window": "1260 kB"}}


def _scenario(duration: str, flows: list[JsonTable], **more: Any) -> Scenario:
    from knee.scenario import from_dict

    return from_dict({"duration": duration, "flows": flows, **more})


def _two(link: JsonTable = _LINK, duration: str = "20 s", more: JsonTable | None = None, **flow: Any) -> Scenario:
    """Two flows with an RTT of 20 ms, Reno unless ``flow`` says otherwise."""
    flows = [{"cc": "reno", "rtt": "20 ms", "count": 2} | flow]
    return _scenario(duration, flows, link=link, **(more or {}))


def _lola18() -> Scenario:
    from knee.scenario import load

    return load("lola-fig6")


def _cubic10k(**flow: Any) -> Scenario:
    # A bandwidth-delay product of buffer; the flows start over one second.
    flows = [{"cc": "cubic", "rtt": "50 ms", "count": 10_000, "stagger": "100 us"} | flow]
    return _scenario("10 s", flows, link=_FAST | {"limit": "41667 packets"})


def _python2() -> Scenario:
    from knee.bench.child import CountingReno

    return _two(cc=CountingReno)


def _queue2(queue: str) -> Scenario:
    # No discipline drops at a standing queue of 1 ms, so all do the same work.
    # Slow start briefly queues more than fq allows a flow, so raise that limit.
    params = {"flow_limit": 1000} if queue in ("fq", "cocoa") else {}
    return _two({"rate": "1 Gbit/s", "queue": queue, "queue_params": params}, more=_WINDOW)


def _queue10k(queue: str) -> Scenario:
    # As above; every flow has a window of five packets, and all start within a round trip. The queue then stands at
    # 10 ms, which CoDel would not let it.
    params = {"target": "1 s"} if queue in ("fq_codel", "cake") else {}
    link = {"rate": "10 Gbit/s", "queue": queue, "limit": "100000 packets", "queue_params": params}
    flows = [{"cc": "reno", "rtt": "50 ms", "count": 10_000, "stagger": "5 us"}]
    return _scenario("5 s", flows, link=link, tcp={"receive_window": "7240 B"})


def _link2(given: JsonTable) -> Scenario:
    # The windows keep all of the link busy, with a standing queue and no drops.
    return _two({"rate": "300 Mbit/s", "queue": "pfifo", "limit": "10000 packets", **given}, more=_WINDOW)


def _lot16() -> Scenario:
    # A parking lot: four flows cross three links in a row, and four more cross each of them.
    links = [{"name": name, "rate": "1 Gbit/s", "limit": "1000 packets"} for name in ("a", "b", "c")]
    across = {"cc": "cubic", "rtt": "40 ms", "count": 4, "path": ["a", "b", "c"]}
    over_one = [{"cc": "cubic", "rtt": "20 ms", "count": 4, "path": [name]} for name in ("a", "b", "c")]
    return _scenario("20 s", [across, *over_one], links=links)


def _transfers() -> Scenario:
    # A quarter of the link's rate, so that no more connections are open at a time than the load needs.
    traffic = {"kind": "transfers", "arrivals": "poisson", "per_second": 10_000.0, "size": "30 kB"}
    flows = [{"cc": "cubic", "rtt": "20 ms", "traffic": traffic}]
    return _scenario("10 s", flows, link=_FAST | {"limit": "10000 packets"})


#: Two flows on a real kernel. The wall time includes the guest's boot.
_uml2 = partial(_two, {"rate": "100 Mbit/s", "limit": "330 packets"}, "60 s", {"run": {"ground": "uml"}})

#: The disciplines whose cost is compared, the reference first.
_COMPARED = ("pfifo", "fq", "fq_codel", "cocoa", "cake")

#: Links whose cost per packet is compared, the reference first.
_LINKS: dict[str, JsonTable] = {
    "wire": {},
    "jitter": {"jitter": "1 ms"},
    "normal": {"delay_model": "normal"},
    "bucket": {"burst": "10 kB"},
    "gilbert-elliott": {"loss_model": "gilbert-elliott", "loss_params": {"p": 1e-6}},
    "wifi": {"model": "wifi"},
    "wifi-contended": {"model": "wifi", "model_params": {"contenders": 2, "error": 0.02}},
    "docsis": {"model": "docsis"},
    "docsis-lld": {"model": "docsis-lld"},
    "lte": {"model": "lte"},
    "lte-fading": {"model": "lte", "model_params": {"fading": "rayleigh"}},
    "nr": {"model": "nr"},
    "leo": {"model": "leo"},
}

CASES: dict[str, tuple[str, Callable[[], Scenario]]] = {
    "reno2": ("2 Reno flows, 1 Gbit/s, RTT 20 ms, 20 s", _two),
    "lola18": ("LoLa Fig. 6: 18 flows, 10 Gbit/s, 268 s", _lola18),
    "cubic10k": ("10,000 CUBIC flows, 10 Gbit/s, RTT 50 ms, 10 s", _cubic10k),
    "bbr2": ("reno2 with BBR", partial(_two, cc="bbr")),
    "lola2": ("reno2 with LoLa", partial(_two, cc="lola")),
    "prague2": ("2 Prague flows through dualpi2, 1 Gbit/s, RTT 20 ms, 20 s", partial(_two, _MARKING, cc="prague")),
    "cubic2": ("the same with CUBIC and ECN", partial(_two, _MARKING, cc="cubic", ecn=True)),
    "lot16": ("16 CUBIC flows over three links of 1 Gbit/s in a row, 20 s", _lot16),
    "transfers": ("10,000 transfers of 30 kB per second, 10 Gbit/s, RTT 20 ms, 10 s", _transfers),
    "python2": ("reno2 with Reno written in Python", _python2),
    "quic2": ("reno2 over QUIC", partial(_two, transport="quic")),
    "quic10k": ("cubic10k over QUIC", partial(_cubic10k, transport="quic")),
    "quic2-quinn": ("quic2 in quinn, 5 s", partial(_two, duration="5 s", transport="quic", cc="quinn:reno")),
    "quic2-tls": ("quic2-quinn, encrypted", partial(_two, duration="5 s", transport="quic", cc="quinn:reno", tls=True)),
    "uml2": ("2 CUBIC flows on a real kernel in virtual time, 100 Mbit/s, RTT 20 ms, 60 s", partial(_uml2, cc="cubic")),
    "uml-lola2": ("uml2 with LoLa, which paces", partial(_uml2, cc="lola")),
    **{f"{queue}-2": (f"2 flows through {queue}, no drops", partial(_queue2, queue)) for queue in _COMPARED},
    **{
        f"link-{name}": (f"2 flows on a link: {name}, 300 Mbit/s", partial(_link2, link))
        for name, link in _LINKS.items()
    },
    **{f"{queue}-10k": (f"10,000 flows through {queue}, no drops", partial(_queue10k, queue)) for queue in _COMPARED},
}

#: Names that stand for several cases.
GROUPS: dict[str, list[str]] = {
    "engine": ["reno2", "lola18", "cubic10k"],
    "controls": ["reno2", "bbr2", "lola2", "python2"],
    "l4s": ["cubic2", "prague2"],
    "traffic": ["reno2", "transfers"],
    "uml": ["uml2", "uml-lola2"],
    "quic": ["quic2", "quic10k", "quic2-quinn", "quic2-tls"],
    "links": [f"link-{name}" for name in _LINKS],
    "queues": [f"{queue}-{flows}" for flows in ("2", "10k") for queue in _COMPARED],
}


def expand(names: list[str]) -> list[str]:
    """The cases named by ``names`` (cases or groups), each once; by default the engine's."""
    known = [*GROUPS, *CASES]
    for name in names:
        if name not in known:
            raise InputError(f"There is no case {shown(name)}; {near(name, known)}.")
    return list(dict.fromkeys(case for name in names or ["engine"] for case in GROUPS.get(name, [name])))


def case(name: str, runs: int = 1) -> JsonTable:
    """Runs one case.

    Args:
        name: one of :data:`CASES`.
        runs: how often; the run of median wall time counts.

    Returns:
        ``name``, ``packets`` (data packets delivered), ``wall_s`` (of the simulation alone, time series recorded),
        ``packets_per_s`` and ``peak_rss_mib`` (of the whole process); ``acks_per_s`` too where the algorithm is
        written in Python.
    """
    from knee.scenario.spec import spec

    scenario = CASES[name][1]()
    told = "" if scenario.run.ground == "uml" else json.dumps(spec(scenario))
    each = [_measure(name, told) if told else _measure_kernel(scenario) for _ in range(runs)]
    measured = sorted(each, key=lambda run: float(run["wall_s"]))
    median = measured[(runs - 1) // 2]
    wall_s = statistics.median(run["wall_s"] for run in measured)
    figures = {
        "name": name,
        "packets": median["packets"],
        "wall_s": wall_s,
        "packets_per_s": median["packets"] / wall_s,
        "peak_rss_mib": median["peak_rss_mib"],
    }
    return figures | ({"acks_per_s": median["acks"] / wall_s} if median["acks"] else {})


def _measure_kernel(scenario: Scenario) -> JsonTable:
    """A run on the ground uml, whose kernel is a process of its own anyway."""
    import resource

    from knee.grounds.runner import run

    summary = run(scenario, report=False).summary
    # The peak of the largest child that has ended: the kernel, which does all of the run's work.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {"packets": summary["packets"], "wall_s": summary["wall_s"], "peak_rss_mib": peak, "acks": 0}


def _measure(name: str, told: str) -> JsonTable:
    child = subprocess.run(
        [sys.executable, "-m", "knee.bench.child"], input=told, capture_output=True, encoding="utf-8"
    )
    if child.returncode != 0:
        reason = child.stderr.strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
        raise RunError(f"The case {name} failed: {reason[0]}")
    measured: JsonTable = json.loads(child.stdout)
    return measured
