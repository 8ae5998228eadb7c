"""Random scenarios with every feature of scenario files, numbered: a number always gives the same scenario.

Each is short: up to 3 s, three links, and some ten flows. :mod:`scenario_laws` says what must hold for all of them.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import knee
from knee.errors import Refused
from knee.scenario import Reverse, from_dict, registry
from knee.scenario.traffic import DATAGRAMS, KINDS

Table = dict[str, Any]

#: Where scenarios find the shipped trace, and recordings.
_FOLDERS = [Path(knee.__file__).parent / "scenarios", Path(__file__).parent / "recordings"]
os.environ.setdefault("KNEE_TRACES", os.pathsep.join(map(str, _FOLDERS)))

#: Not the classes of other tests in the same process, which follow those in the registry.
_BUILT_IN = [name for name, entry in registry.congestion_controls().items() if entry.family != "own"]
_QUIC = [*registry.quic_controllers()]
_SIZES = ["1200 B", "1452 B"]
#: Algorithms that need accurate ECN, which knee's QUIC flows do not have.
_NOT_OVER_QUIC = ("dctcp", "prague")
#: The delay model that reads a file is not drawn.
_DELAY_MODELS = [name for name in registry.of("delays") if name not in ("uniform", "table")]
#: Kinds of traffic that declare their parameters.
_DECLARED = [name for name, entry in registry.traffic().items() if not entry.tables]


def scenario(number: int) -> Table:
    """Random scenario ``number``, as plain data."""
    dice = random.Random(number)
    duration_ms = dice.choice([300, 500, 1000, 1000, 2000, 3000])
    links = [_link(dice, f"link{i}") for i in range(dice.choice([1, 1, 1, 2, 3]))]
    flows = [_flow(dice, links, duration_ms) for _ in range(dice.choice([1, 1, 2, 2, 3, 4]))]
    made: Table = {
        "name": f"soak-{number}",
        "duration": f"{duration_ms} ms",
        "seed": dice.randrange(1, 1000),
        "interval": dice.choice(["100 ms", "100 ms", "10 ms", "37 ms", "1 s"]),
        "links": links,
        "flows": flows,
    }
    if dice.random() < 0.25:
        made["probes"] = [_probe(dice, links, i) for i in range(dice.choice([1, 2]))]
    if dice.random() < 0.4:
        made["warmup"] = f"{dice.choice([1, duration_ms // 3, duration_ms // 2, duration_ms - 5])} ms"
    if dice.random() < 0.4:
        made["changes"] = [_change(dice, links, flows, duration_ms) for _ in range(dice.randrange(1, 4))]
        made["changes"].sort(key=lambda change: int(change["at"].split()[0]))
    # A file whose flows are all of QUIC has no table [tcp].
    if dice.random() < 0.15 and any(flow.get("transport") != "quic" for flow in flows):
        made["tcp"] = {"tick": dice.choice(["1 ms", "10 ms", "0 s"]), "sack_delay": dice.choice(["0 s", "1 ms"])}
    if any(flow.get("receiver") == "optimistic-acks" for flow in flows):
        # Nothing else limits the window of its sender.
        made["tcp"] = {**made.get("tcp", {}), "receive_window": f"{dice.randrange(20, 2000)} kB"}
    if any(flow.get("transport") == "quic" for flow in flows):
        if dice.random() < 0.3:
            made["quic"] = {"ack_eliciting_threshold": dice.choice([0, 3, 20]), "initial_mtu": dice.choice(_SIZES)}
            if not any(flow.get("cc") in _QUIC for flow in flows):
                # Only the packets of a QUIC stack grow.
                made["quic"]["max_mtu"] = made["quic"].pop("initial_mtu")
        # A window of TCP's alone is refused beside QUIC.
        if "receive_window" in made.get("tcp", {}) or dice.random() < 0.2:
            made["quic"] = {**made.get("quic", {}), "receive_window": f"{dice.randrange(20, 2000)} kB"}
    # From dice of their own, so that what stands above is the same with them and without.
    dice = random.Random(f"{number}, the other keys")
    while dice.random() < 0.6:
        made = _with_another(dice, made)
    if "tcp" in made and dice.random() < 0.3:
        made["tcp"] |= dice.choice([{"receive_offload": f"{dice.choice([1, 600])} us"}, {"trace_rtt": True}])
    return made


def _with_another(dice: random.Random, made: Table) -> Table:
    """The scenario with a few other keys somewhere; as it was where they contradict what is there."""
    other = copy.deepcopy(made)
    links: list[Table] = other["links"]
    flows: list[Table] = other["flows"]
    kind = dice.choice(["side", "side", "side", "link", "flow", "probe", "cc", "tcp", "run"])
    if kind == "side":
        i = dice.randrange(len(links))
        if "queue" in links[i].get("reverse", {}) and dice.random() < 0.6:
            links[i]["reverse"] = _other_of_side(dice, links[i]["reverse"])
        else:
            links[i] = _other_of_side(dice, links[i])
    elif kind == "link":
        i = dice.randrange(len(links))
        links[i] = _other_of_link(dice, links[i])
    elif kind == "flow" or (kind == "probe" and "probes" in other):
        flow = dice.choice(flows if kind == "flow" else other["probes"])
        flow |= _other_of_flow(dice)
    elif kind == "cc" and "cc" in (flow := dice.choice(flows)):
        flow["cc_params"] = _some_params(dice, registry.flow_controls()[flow["cc"]])
    elif kind == "tcp":
        other["tcp"] = other.get("tcp", {}) | _other_of_tcp(dice)
    elif kind == "run":
        other["run"] = {"threads": dice.randrange(1, 4)}
    try:
        from_dict(other).specification  # noqa: B018 - the core reads it too
    except (Refused, knee.InputError):
        return made
    return other


def _some_params(dice: random.Random, entry: registry.Entry) -> Table:
    return {param.name: _param(dice, param) for param in entry.params.values() if dice.random() < 0.25}


def _other_of_side(dice: random.Random, side: Table) -> Table:
    """Other keys of a link or of its reverse direction."""
    slot = {"min": f"{dice.randrange(1, 5000)} us", "max": f"{dice.randrange(5000, 12000)} us"}
    slot |= {"packets": dice.randrange(1, 40)} if dice.random() < 0.3 else {}
    slot |= {"bytes": f"{dice.randrange(2, 64)} kB"} if dice.random() < 0.3 else {}
    repeats = dice.random() < 0.5
    keys: Table = dice.choice(
        [
            {"slot": slot},
            {"corrupt": round(10 ** dice.uniform(-4, -1), 5)},
            {"linklayer": dice.choice(["atm", "ptm"]), "mpu": f"{dice.choice([0, 64, 100])} B"},
            {"overhead": f"{dice.choice([0, 20, 38])} B"},
            {"delay_trace": "delay.csv", "trace_repeats": repeats},
            {"loss_trace": "loss.csv", "trace_repeats": repeats},
            {"rate_trace": "rate.csv", "trace_repeats": repeats},
            {"queue_params": _some_params(dice, registry.queues()[side["queue"]])},
        ]
    )
    without = ("rate", "trace") if "rate_trace" in keys else ()
    return {key: value for key, value in side.items() if key not in without} | keys


def _other_of_link(dice: random.Random, link: Table) -> Table:
    """Other keys that a link has and its reverse direction has not."""
    table = {"delay_model": "table", "delay_table": "delays.txt", "delay_params": {}, "jitter": "0 s"}
    wifi = {"model": "wifi", "channel": "air"}
    docsis = {"model": "docsis", "reverse": {"model": "docsis", "rate": "20 Mbit/s", "model_params": {}}}
    return link | dice.choice([table, wifi, docsis])


def _other_of_flow(dice: random.Random) -> Table:
    return dice.choice(
        [
            {"dscp": dice.choice(["EF", "CS1", "AF41", 46])},
            {"tunnel": dice.choice(["vpn", "other"])},
            {"transport": "quic", "tls": True},
            {"stop": f"{dice.randrange(100, 2000)} ms"},
            {"label": f"labelled {dice.randrange(1000)}"},
            {"start": f"{dice.randrange(0, 200)} ms"},
        ]
    )


def _other_of_tcp(dice: random.Random) -> Table:
    return dice.choice(
        [
            {"initial_window": dice.choice([1, 2, 4, 32])},
            {"rto_min": f"{dice.choice([5, 50, 300])} ms"},
            {"delayed_ack": f"{dice.choice([0, 5, 100])} ms"},
            {"tso": False},
            {"tso_rtt_log": dice.choice([0, 4, 12])},
            {"slow_start_after_idle": False},
            {"window_growth": f"{dice.randrange(0, 300)} kB"},
            {"receive_window": f"{dice.randrange(20, 2000)} kB"},
        ]
    )


# Links.


def _rate(dice: random.Random) -> str:
    return f"{int(10 ** dice.uniform(2.5, 4.6))} kbit/s"


def _limit(dice: random.Random) -> str:
    return dice.choice(
        [
            f"{dice.choice([1, 2, 5, 20, 100, 500])} packets",
            f"{dice.randrange(2, 500)} kB",
            f"{dice.randrange(1, 200)} ms",
        ]
    )


def _queueing(dice: random.Random) -> Table:
    made: Table = {"queue": dice.choice(list(registry.queues())), "limit": _limit(dice)}
    if dice.random() < 0.1:
        return made | {"trace": "lte-walk.trace"}
    return made | {"rate": _rate(dice)}


def _link(dice: random.Random, name: str) -> Table:
    made = _queueing(dice) | {"name": name}
    if dice.random() < 0.4:
        made |= _losing(dice)
    if dice.random() < 0.3:
        made |= _jitter(dice)
    if dice.random() < 0.3:
        made["delay"] = f"{dice.randrange(1, 3000)} us"
    if dice.random() < 0.2:
        made["overhead"] = f"{dice.choice([0, 38, 100])} B"
    if dice.random() < 0.4:
        made["reverse"] = _queueing(dice)
    if "rate" in made:
        if dice.random() < 0.35:
            made |= _medium(dice, made)
        elif dice.random() < 0.2:
            made["burst"] = f"{dice.choice([1600, 5000, 50_000, 500_000])} B"
    return made


def _losing(dice: random.Random) -> Table:
    if dice.random() < 0.6:
        return {"loss": round(10 ** dice.uniform(-4, -1), 5)}
    params = {"p": round(10 ** dice.uniform(-3, -1), 5), "r": round(dice.uniform(0.05, 1), 3)}
    return {"loss_model": "gilbert-elliott", "loss_params": params}


def _jitter(dice: random.Random) -> Table:
    if dice.random() < 0.6:
        return {"jitter": f"{dice.randrange(1, 5000)} us", "reorder": dice.random() < 0.5}
    params = {"mean": f"{dice.randrange(0, 5000)} us", "deviation": f"{dice.randrange(1, 3000)} us"}
    return {"delay_model": dice.choice(_DELAY_MODELS), "delay_params": params, "reorder": dice.random() < 0.5}


def _medium(dice: random.Random, link: Table) -> Table:
    """A model of a medium, where one takes the link's rate."""
    name = dice.choice([name for name in registry.of("links") if name != "wire"])
    entry = registry.of("links")[name]
    given = {param.name: _param(dice, param) for param in entry.params.values() if dice.random() < 0.2}
    if name == "leo":
        # So that a reconfiguration happens within some seconds.
        given |= {"period": f"{dice.randrange(200, 1500)} ms", "first": f"{dice.randrange(0, 500)} ms"}
    for params in (given, {}):
        if _suits(entry, params, link["rate"]):
            made: Table = {"model": name, "model_params": params}
            # Both directions of a medium share its parameters, which the reverse one takes over.
            if (
                "rate" in link.get("reverse", {})
                and dice.random() < 0.5
                and _suits(entry, params, link["reverse"]["rate"])
            ):
                made["reverse"] = link["reverse"] | {"model": name}
            return made
    return {}


def _suits(entry: registry.Entry, params: Table, rate: str) -> bool:
    """Whether a model takes these parameters at a rate."""
    try:
        Reverse.model_validate({"rate": rate, "model": entry.name, "model_params": params})
    except ValidationError:
        return False
    return True


def _param(dice: random.Random, param: registry.Param) -> Any:
    """A value of a parameter: any word, or a number around its default."""
    if param.kind == "choice":
        return dice.choice(param.words)
    if param.kind == "bool":
        return dice.random() < 0.5
    assert not isinstance(param.default, str)
    if param.kind == "ratio":
        drawn = param.default * 2 ** dice.uniform(-2, 2) if param.default else dice.uniform(0, 0.2)
        return round(min(max(drawn, float(param.min)), float(param.max)), 6)
    drawn = int(param.default * 2 ** dice.uniform(-2, 2)) if param.default else dice.randrange(4)
    return param.plain(min(max(drawn, int(param.min)), int(param.max)))


# Flows.


def _flow(dice: random.Random, links: Sequence[Table], duration_ms: int) -> Table:
    made: Table = {"rtt": f"{int(10 ** dice.uniform(1, 2.2)) + 10} ms"}
    if dice.random() < 0.5:
        made["start"] = f"{dice.randrange(0, duration_ms // 2)} ms"
    if dice.random() < 0.25:
        made |= {"count": dice.randrange(2, 5), "stagger": f"{dice.randrange(0, duration_ms // 8)} ms"}
    if dice.random() < 0.2:
        made["lasts"] = f"{dice.randrange(1, duration_ms)} ms"
    made |= _way(dice, links)
    if dice.random() < 0.15:
        return made | _datagrams(dice)
    made |= {"cc": dice.choice(_BUILT_IN), "pacing": dice.choice(["auto", "auto", "on"])}
    if dice.random() < 0.3:
        made["ecn"] = "l4s" if made["cc"] == "prague" else dice.choice([True, "accurate", "l4s"])
    if dice.random() < 0.35:
        return made | {"traffic": _traffic(dice, duration_ms)}
    if dice.random() < 0.25:
        made["bytes"] = f"{int(10 ** dice.uniform(0, 6))} B"
    if dice.random() < 0.15 and made["pacing"] == "auto" and made.get("ecn") in (None, True):
        made["transport"] = "quic"
        if made["cc"] in _NOT_OVER_QUIC or dice.random() < 0.2:
            made["cc"] = dice.choice(_QUIC)
    elif dice.random() < 0.1:
        made |= _receiver(dice)
    return made


def _receiver(dice: random.Random) -> Table:
    entry = dice.choice(list(registry.of("receivers").values()))
    given = {param.name: _param(dice, param) for param in entry.params.values() if dice.random() < 0.5}
    return {"receiver": entry.name, "receiver_params": given}


def _way(dice: random.Random, links: Sequence[Table]) -> Table:
    """A path of neighbouring links, and a direction that all of them have."""
    made: Table = {}
    if len(links) > 1 and dice.random() < 0.5:
        first = dice.randrange(len(links))
        made["path"] = [link["name"] for link in links[first : dice.randrange(first, len(links)) + 1]]
    crossed = [link for link in links if link["name"] in made.get("path", [link["name"]])]
    if all("reverse" in link for link in crossed) and dice.random() < 0.5:
        made["direction"] = "reverse"
    return made


def _declared(dice: random.Random, kind: str) -> Table:
    """Traffic of a kind that declares its parameters, with some of them around their defaults."""
    params = registry.traffic()[kind].params.values()
    needed = {param.name: _param(dice, param) for param in params if param.required}
    for _ in range(4):
        others = {param.name: _param(dice, param) for param in params if not param.required and dice.random() < 0.5}
        try:
            KINDS[kind].model_validate({"kind": kind} | needed | others)
        except ValidationError:
            continue
        return {"kind": kind} | needed | others
    return {"kind": kind} | needed


def _datagrams(dice: random.Random) -> Table:
    if dice.random() < 0.4:
        traffic = _declared(dice, dice.choice([name for name in _DECLARED if name in DATAGRAMS]))
    elif dice.random() < 0.5:
        traffic = {"kind": "udp", "preset": dice.choice(["voip-g711", "voip-opus", "game-60hz"])}
    else:
        size = f"{dice.randrange(36, 1501)} B"
        traffic = {"kind": "udp", "rate": f"{int(10 ** dice.uniform(1.5, 4))} kbit/s", "packet_size": size}
    if traffic["kind"] == "udp" and dice.random() < 0.3:
        traffic |= {"on": f"{dice.randrange(5, 500)} ms", "off": f"{dice.randrange(5, 500)} ms"}
        traffic |= {"pauses": "constant"} if dice.random() < 0.3 else {}
    return {"traffic": traffic} | ({"ecn": dice.choice([True, "l4s"])} if dice.random() < 0.3 else {})


def _traffic(dice: random.Random, duration_ms: int) -> Table:
    """Applications over TCP."""
    declared = [name for name in _DECLARED if name not in DATAGRAMS]
    kind = dice.choice(["transfers", "transfers", "requests", "requests", "video", dice.choice(declared)])
    if kind in declared:
        return _declared(dice, kind)
    if kind == "video":
        segment_ms = dice.choice([100, 500, 1000])
        made = {"kind": kind, "segment": f"{segment_ms} ms", "buffer": f"{segment_ms * dice.randrange(2, 20)} ms"}
        return made | {"algorithm": dice.choice(["bba", "rate"])}
    made = {"kind": kind, "size": _size(dice), "connection": dice.choice(["new", "new", "persistent"])}
    if dice.random() < 0.2:
        made["number"] = dice.randrange(1, 30)
    arrivals = {"arrivals": dice.choice(["poisson", "periodic"]), "per_second": round(10 ** dice.uniform(0, 2.3), 2)}
    if kind == "transfers":
        return made | arrivals
    made |= {
        "request": f"{dice.choice([1, 500, 20_000])} B",
        "objects": dice.choice([1, 3, 12, {"mean": 5.0}]),
        "connections": dice.choice([1, 2, 6]),
        "tls": dice.choice(["1.3", "1.2", "none"]),
        "service": f"{dice.choice([0, 0, 3, 30])} ms",
    }
    if dice.random() < 0.3:
        return made | arrivals | {"per_second": round(10 ** dice.uniform(0, 1.3), 2)}
    return made | {"think": dice.choice(["0 s", f"{duration_ms // 7} ms", {"mean": f"{duration_ms // 5} ms"}])}


def _size(dice: random.Random) -> Any:
    return dice.choice(
        [
            f"{int(10 ** dice.uniform(0, 5.3))} B",
            f"{1448 * dice.randrange(1, 40)} B",
            {"distribution": "lognormal", "median": "10 kB", "sigma": 1.5, "max": "1 MB"},
            {"distribution": "pareto", "min": "1 kB", "shape": 1.2, "max": "500 kB"},
        ]
    )


def _probe(dice: random.Random, links: Sequence[Table], i: int) -> Table:
    made: Table = {
        "label": f"probe{i}",
        "rtt": f"{int(10 ** dice.uniform(1, 2.2)) + 10} ms",
        "interval": f"{dice.randrange(1, 50)} ms",
    }
    if dice.random() < 0.3:
        made |= {"size": f"{dice.randrange(36, 1501)} B", "ecn": dice.choice([True, "l4s"])}
    return made | _way(dice, links)


# Changes.


def _change(dice: random.Random, links: Sequence[Table], flows: Sequence[Table], duration_ms: int) -> Table:
    at, link = {"at": f"{dice.randrange(1, duration_ms)} ms"}, dice.choice(links)
    what = dice.choice(["rate", "loss", "limit", "rtt"])
    if what == "rtt" and len(flows) == 1 and "count" not in flows[0]:
        flows[0]["label"] = "changed"
        return at | {"flow": "changed", "rtt": f"{dice.randrange(10, 100)} ms"}
    if what == "loss" and "loss_model" not in link:
        return at | {"link": link["name"], "loss": round(dice.uniform(0, 0.1), 4)}
    if what == "limit" or "rate" not in link or "model" in link:
        return at | {"link": link["name"], "limit": _limit(dice)}
    return at | {"link": link["name"], "rate": _rate(dice)}
