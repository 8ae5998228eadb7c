"""Writes what Python's reader says of mutated scenarios, which the crate knee-scenario has to say too.

``python scripts/scenario_vectors.py COUNT SEED [small]``: a line each, with the text of a scenario and the error with
line and column, or the core's links, paths and changes without what is null, zero, false or empty. Scenarios are small
ones, and without ``small`` shipped ones and those of ``tests/random_scenarios.py`` as well, each mutated in up to three
places of links, paths and changes. Where Python refuses another part of the scenario, the line has only that key.
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from knee.errors import Refused, ScenarioError
from knee.scenario import paths, registry, timed
from knee.scenario.loading import from_toml

TIMES = [
    "20 ms",
    "0 s",
    "1.5us",
    "3 h",
    "1e3 ns",
    "0.5 ns",
    "20",
    "20 MS",
    "-1 ms",
    "5 s",
    "1 µs",
    "1e12 h",
    "",
    "ms",
    "1..2 s",
]
RATES = ["10 Mbit/s", "1 Gbit/s", "100kbit/s", "0 bit/s", "5 Mbps", "1.2345 kbit/s", "2 Tbit/s", "9999 Tbit/s"]
SIZES = ["14 B", "1600 B", "3 kB", "1.5 MiB", "1 TiB", "20 kB", "0 B", "12 Kb", "1.5 B"]
LIMITS = ["250 packets", "1 packet", "80 ms", "100 kB", "0 packets", "3 Mbit/s", "2.5 packets"]
PLAIN: list[Any] = [
    True,
    False,
    0,
    1,
    -1,
    7,
    0.0,
    0.5,
    1.0,
    1.5,
    1e-7,
    2**60,
    float("nan"),
    [],
    [1, 2],
    {},
    {"a": 1},
    "x",
    " x",
    "no\nline",
]
#: Values that may fit a key.
FITTING: dict[str, list[Any]] = {
    "rate": RATES,
    "trace": ["no-such-file"],
    "corrupt": [0.0, 0.01, 1, 2],
    "slot": [
        {"min": "1 ms"},
        {"min": "1 ms", "max": "2 ms"},
        {"min": "2 ms", "max": "1 ms"},
        {"max": "1 ms"},
        {"min": "800 us", "packets": 32, "bytes": "64 kB"},
        {"min": "1 ms", "packets": 0},
        {"mn": "1 ms"},
    ],
    "trace_repeats": [True],
    "model": ["wire", "wifi", "docsis", "docsis_lld", "lte", "nr", "leo", "wifii", "lt"],
    "queue": [*registry.queues(), "fq_code", "cakes", "red"],
    "limit": LIMITS,
    "overhead": [*SIZES, "docsis", "pppoe-ptm ether-vlan", "pppoe", "raw docsis", "ether-vlan", "ethernet"],
    "linklayer": ["ethernet", "atm", "ptm", "amt"],
    "mpu": SIZES,
    "name": ["link0", "link1", "bottleneck", "access", "a b", "x" * 101, "é"],
    "loss": [0.0, 0.01, 1, 1.01, -0.1],
    "loss_model": ["random", "gilbert_elliott", "gilbert"],
    "delay": TIMES,
    "jitter": TIMES,
    "delay_model": ["uniform", "normal", "pareto", "pareto_normal", "table", "norml"],
    "delay_table": ["no-such-file"],
    "reorder": [True, False],
    "channel": ["home"],
    "burst": SIZES,
    "reverse": [
        {"rate": "5 Mbit/s"},
        {},
        {"rate": "5 Mbit/s", "queue": "codel"},
        {"rat": "5 Mbit/s"},
        {"rate": "5 Mbit/s", "model": "wifi"},
        {"rate": "1 Mbit/s", "overhead": "docsis"},
        {"rate": "1 Mbit/s", "limit": "5"},
    ],
}
PARAMS = {
    "model_params": ("model", "links", "wire"),
    "queue_params": ("queue", "queues", "pfifo"),
    "loss_params": ("loss_model", "losses", "random"),
    "delay_params": ("delay_model", "delays", "uniform"),
}
CC = ("cc_params", ("cc", "cc", "reno"))
BASES: list[dict[str, Any]] = [
    {"rate": "20 Mbit/s"},
    {"rate": "20 Mbit/s", "queue": "fq_codel", "limit": "1000 packets", "queue_params": {"target": "5 ms"}},
    {"rate": "50 Mbit/s", "queue": "cake", "queue_params": {"overhead": "docsis"}, "reverse": {"rate": "5 Mbit/s"}},
    {"rate": "100 Mbit/s", "model": "wifi", "queue": "fq_codel", "reverse": {"rate": "100 Mbit/s", "model": "wifi"}},
    {"rate": "100 Mbit/s", "model": "lte", "limit": "500 ms"},
    {"rate": "100 Mbit/s", "model": "leo", "model_params": {}},
    {"rate": "10 Mbit/s", "loss_model": "gilbert_elliott", "loss_params": {"p": 0.01, "r": 0.3}},
    {"rate": "10 Mbit/s", "delay_model": "normal", "delay_params": {}, "reorder": True, "delay": "10 ms"},
    {"rate": "30 Mbit/s", "burst": "3 kB", "overhead": "pppoe-ptm", "jitter": "1 ms"},
    {"rate": "30 Mbit/s", "queue": "red", "queue_params": {"min": "30 kB", "max": "90 kB"}, "loss": 0.001},
]
CHANGES: list[dict[str, Any]] = [
    {"at": "5 s", "link": "bottleneck", "rate": "5 Mbit/s"},
    {"at": "5 s", "link": "bottleneck", "limit": "20 packets", "loss": 0.01},
    {"at": "3 s", "flow": "flow 1", "rtt": "40 ms"},
]
CHANGE_KEYS: dict[str, list[Any]] = {
    "at": TIMES,
    "link": ["bottleneck", "bottlenek"],
    "flow": ["flow 1", "flow 2"],
    "rate": RATES,
    "loss": [0.1, 2],
    "limit": LIMITS,
    "rtt": TIMES,
}


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def of_param(rng: random.Random, param: registry.Param) -> Any:
    """A value for a parameter, which it may take or not."""
    pool: dict[str, list[Any]] = {
        "time": TIMES,
        "rate": RATES,
        "bytes": SIZES,
        "count": [0, 1, 5, 100, 10**16, "7 packets"],
        "ratio": [0.0, 0.1, 0.5, 1, 2.5, 1e9],
        "bool": [True, False],
        "choice": [*param.words, "wrd"],
    }
    at_ends = [param.plain(value) for value in (param.default, param.min, param.max)]
    return rng.choice(rng.choice([pool[param.kind], at_ends]))


#: Keys of flows that say their path; the crate reads no others of all flows.
FLOW_KEYS: dict[str, list[Any]] = {
    "rtt": TIMES,
    "count": [1, 2, 3, 0, 10**7],
    "label": ["a", "flow 1", "flow 2", "call"],
    "path": [["bottleneck"], ["link0"], ["link0", "link1"], ["link1", "link0"], ["link0", "link0"], [], ["lnk0"], [3]],
    "direction": ["forward", "reverse", "revers"],
    "tunnel": ["vpn", "other", ""],
    "dscp": ["EF", "ef", "CS1", "AF41", "AF44", 0, 46, 63, 64, -1],
}
ROOT: dict[str, list[Any]] = {
    "duration": ["10 s", "1 s", "0 s", "1e9 s", "3"],
    "warmup": TIMES,
    "interval": [*TIMES, "1 ns", "100 ns"],
    "seed": [1, 0, -1, 2**63 - 1, 2**63, 2**70, 1.5, "1"],
    "changes": [[], {}, [{}], [3]],
    "quic": [
        {},
        {"max_ack_delay": "5 ms"},
        {"receive_window": "1 MB", "certificate": "3 kB"},
        {"max_streams": 20},
        {"preset": "chromium"},
        3,
    ],
    "probes": [[], {}, [{}], [{"rtt": "100 ms"}], [{"rtt": "100 ms"}, {"rtt": "80 ms", "tunnel": "vpn"}]],
    "tcp": [{}, {"tick": "1 ms"}, {"tso": False, "rto_min": "50 ms"}, 3],
    "links": [[], {}, [{}], [3], [{"rate": "1 Mbit/s"}], [{"rate": "1 Mbit/s"}, {"rate": "1 Mbit/s"}]],
    "link": [{}, {"rate": "1 Mbit/s"}, [], 3],
}
#: Keys of flows that say what is sent and when.
SENT_KEYS: dict[str, list[Any]] = {
    "cc": [*registry.congestion_controls(), "cubi", 3],
    "cc_params": [{}, {"beta": "717 packets"}, {"beta": 0.5}, {"x": 1}, {"target": "5 ms"}, 5],
    **{key: [*TIMES, "1 s", "2 s"] for key in ("start", "stagger", "stop", "lasts")},
    "bytes": SIZES,
    "pacing": ["auto", "on", "off", True],
    "ecn": [True, False, "accurate", "l4s", "yes", 1],
    "transport": ["tcp", "quic", "quic", "quic", "udp", "sctp"],
    "tls": [True, False, "yes"],
    "receiver": ["honest"],
    "traffic": [
        {"kind": "udp", "preset": "voip-opus"},
        {"kind": "udp", "rate": "1 Mbit/s", "packet_size": "1200 B", "on": "1 s", "off": "300 ms"},
        {"kind": "bursts", "period": "100 ms", "burst": "30 ms"},
        {"kind": "app_limited", "rate": "1 Mbit/s"},
        {"kind": "rtc", "controller": "gcc"},
        {"kind": "video", "ladder": ["1 Mbit/s", "2 Mbit/s"]},
        {"kind": "transfers", "load": "4 Mbit/s", "size": "30 kB"},
        {"kind": "transfers", "per_second": 5.0, "size": {"distribution": "web-search"}, "connection": "persistent"},
        {"kind": "requests", "preset": "web-page"},
        {"kind": "requests", "size": "30 kB", "objects": 20, "streams": 20, "priority": {"urgency": 1}},
        {"kind": "vdeo"},
        {},
        5,
    ],
}
#: Values that may fit a key of a distribution of sizes.
SIZE: dict[str, list[Any]] = {
    **{key: [*SIZES, "10 kB", "2 PB", "2000 TB"] for key in ("bytes", "median", "min", "max")},
    "distribution": ["lognormal", "pareto", "web-search", "data-mining", "normal"],
    **{key: [0.0, 1, 1.0, 1.5, 5.0, 5.1, 100.0, "1", 2**60] for key in ("sigma", "shape")},
    "file": ["no-such-file", "no\nline"],
}
DISTRIBUTIONS: list[Any] = [
    "30 kB",
    "0 B",
    "2000 TB",
    {"bytes": "3 kB"},
    {"distribution": "lognormal", "median": "10 kB", "sigma": 1.5},
    {"distribution": "lognormal", "median": "10 kB", "sigma": 1, "max": "9 kB"},
    {"distribution": "pareto", "min": "1 kB", "shape": 1.2, "max": "10 MB"},
    {"distribution": "web-search"},
    {"distribution": "data-mining"},
    {"distribution": "web-search", "file": "no-such-file"},
    {"file": "no-such-file"},
    {},
]
TRAFFIC: dict[str, list[Any]] = {
    "kind": [*registry.traffic()],
    "preset": ["voip-g711", "voip-opus", "game-60hz", "voip"],
    **dict.fromkeys(("rate", "min_rate", "start_rate", "max_rate"), RATES),
    "packet_size": [*SIZES, "36 B", "35 B", "1500 B", "1501 B"],
    **dict.fromkeys(("on", "off", "period", "burst", "jitter", "segment", "buffer", "length", "threshold"), TIMES),
    "pauses": ["exponential", "constant", "none"],
    **{key: [True, False] for key in ("repeat", "waits", "reduce_jitter")},
    "algorithm": ["bba", "rate", "bb"],
    "ladder": [[], ["1 Mbit/s"], ["2 Mbit/s", "1 Mbit/s"], ["1 Mbit/s", 3], "1 Mbit/s"],
    "controller": ["gcc", "nada", "scream", "gc"],
    "fps": [30.0, 0, 60, 1e9],
    "arrivals": ["poisson", "periodic", "often"],
    "per_second": [5.0, 1, 0, -1.0, 1e7, 1.1e7, "5", 2**60],
    "load": [*RATES, "100 Tbit/s"],
    **{key: ["no-such-file", "no\nline"] for key in ("times", "trace")},
    "size": DISTRIBUTIONS,
    "connection": ["new", "persistent", "old"],
    "number": [1, 100, 0, 2**53, 2**53 + 1, 1.0],
    "request": SIZES,
    "objects": [1, 2, 71, 0, 10_001, 1.5, True, {"mean": 7.5}, {"mean": 0.5}, {"mean": "1"}, {"men": 2.0}],
    "connections": [1, 6, 1000, 0, 1001],
    "streams": [1, 2, 100, 101, 10_000, 0, 10_001],
    "priority": [
        {},
        {"urgency": 0},
        {"urgency": 8},
        {"urgncy": 1},
        [],
        [{"urgency": 1}, {"incremental": True}],
        [{"urgency": 1}, 5],
    ],
    "tls": ["1.3", "1.2", "none", "1.1", True],
    "service": TIMES,
    "think": [*TIMES, {"mean": "1 s"}, {"mean": "0 s"}, {"mean": 1}, {"men": "1 s"}, "9000 h"],
    "together": [True, False],
}
#: Keys of `[quic]`.
QUIC: dict[str, list[Any]] = {
    **{key: [*SIZES, "36 kB", "37 kB", "2 KiB", "2 GiB"] for key in ("certificate", "datagram_buffer")},
    "preset": ["quinn", "quiche", "neqo", "picoquic", "msquic", "ngtcp2", "chromium", "quin"],
    **{key: [True, False] for key in ("zero_rtt", "retry")},
    "idle_timeout": [*TIMES, "30 s", "1e6 s"],
    "gso": [1, 10, 64, 0, 65],
    "initial_window": [2, 10, 1, 1000, 1001],
    **{key: [*TIMES, "1 us", "60 s", "16383 ms", "524 ms", "525 ms"] for key in ("initial_rtt", "max_ack_delay")},
    "packet_threshold": [3, 2, 1_000_000, 1_000_001],
    "pacing": [True, False],
    **{key: [*SIZES, "2 GiB"] for key in ("receive_window", "stream_receive_window")},
    "max_streams": [1, 20, 100, 1_000_000, 0, 1_000_001],
    **{key: ["1200 B", "1199 B", "1472 B", "1473 B", "1230 B", "1452 B"] for key in ("initial_mtu", "max_mtu")},
    "ack_eliciting_threshold": [0, 1, 9999, 10_000, 2**62 - 1, 2**62],
}
#: Flows of small scenarios.
FLOWS: list[dict[str, Any]] = [
    {"cc": "reno", "rtt": "100 ms"},
    {"cc": "reno", "rtt": "100 ms"},
    {"cc": "cubic", "rtt": "30 ms", "transport": "quic"},
    {
        "cc": "cubic",
        "rtt": "30 ms",
        "transport": "quic",
        "traffic": {"kind": "transfers", "size": "30 kB", "load": "2 Mbit/s"},
    },
    {
        "cc": "bbr",
        "rtt": "30 ms",
        "transport": "quic",
        "traffic": {"kind": "requests", "preset": "web-page", "streams": 20},
    },
    {"cc": "reno", "rtt": "30 ms", "transport": "quic", "traffic": {"kind": "rtc"}},
    {"cc": "reno", "rtt": "40 ms", "traffic": {"kind": "requests", "preset": "rpc"}},
    {
        "cc": "cubic",
        "rtt": "40 ms",
        "traffic": {
            "kind": "transfers",
            "size": {"distribution": "lognormal", "median": "10 kB", "sigma": 1.5},
            "load": "3 Mbit/s",
        },
    },
]
PROBE_KEYS: dict[str, list[Any]] = {
    **{key: FLOW_KEYS[key] for key in ("rtt", "label", "path", "direction", "tunnel", "dscp")},
    "interval": [*TIMES, "100 us", "99 us"],
    "size": [*SIZES, "36 B", "35 B", "1500 B", "1501 B"],
    **dict.fromkeys(("start", "stop"), TIMES),
    "ecn": [True, False, "l4s", "accurate", 1],
}
TCP: dict[str, list[Any]] = {
    **dict.fromkeys(("tick", "rto_min", "delayed_ack", "sack_delay", "receive_offload"), TIMES),
    "initial_window": [1, 10, 1000, 0, 1001, "10"],
    "tso_rtt_log": [0, 31, 32, -1],
    **{key: [True, False] for key in ("tso", "slow_start_after_idle", "trace_rtt")},
    **dict.fromkeys(("window_growth", "receive_window"), SIZES),
}
#: Characters that some readers take for others.
ODD = "µμßİı\u00a0\u2003\u001f\u200b\u0301\n\t\\\"'\u007f\u00ad１٣é😀\u0378\ue000.+-eE_ []{}#=,0"
#: Keys of errors that the crate has too; the second are of keys that nobody knows.
OURS = re.compile(
    rf"(links?|changes|duration|seed|warmup|interval|tcp|quic|probes)(\W|$)|flows(\[\d+\](\.({'|'.join(FLOW_KEYS)})(\W.*)?)?)?$"
)
# The name of an algorithm is also that of a class, a file or a stack of QUIC, which only Python has.
SENT = re.compile(rf"flows\[\d+\]\.({'|'.join(key for key in SENT_KEYS if key != 'cc')})(\W|$)")
UNKNOWN = re.compile(r"(flows\[\d+\]\.)?(?!flows\[|run\.).*", re.S)
#: Keys that are refused when the flows are looked at together with the settings of their endpoints.
TOGETHER = re.compile(r"(tcp|quic)(\W|$)|flows\[\d+\]\.(ecn|pacing|traffic)(\W|$)")


def mutate(rng: random.Random, table: dict[str, Any], keys: dict[str, list[Any]]) -> None:
    """Changes a table in one place."""
    match rng.randrange(10):
        case 0 if table:
            del table[rng.choice(list(table))]
        case 1:
            table[rng.choice(list(keys))] = copy.deepcopy(rng.choice(PLAIN))
        case 2:
            key = rng.choice(list(keys))
            table[key[: rng.randrange(1, len(key) + 1)] + rng.choice(["", "s", "_x"])] = copy.deepcopy(
                rng.choice(PLAIN)
            )
        case 3 | 4 | 5 if ("rate" in table and keys is FITTING) or ("cc" in table and keys is SENT_KEYS):
            key, (of, part, default) = CC if keys is SENT_KEYS else rng.choice(list(PARAMS.items()))
            entry = registry.of(part).get(table.get(of, default)) if isinstance(table.get(of, default), str) else None
            known = list(entry.params.values()) if entry else []
            given = table.setdefault(key, {})
            if isinstance(given, dict) and known and rng.random() < 0.9:
                param = rng.choice(known)
                given[param.name] = of_param(rng, param)
            else:
                table[key] = rng.choice([{"nat": True}, {"x": 1}, 5, {"target": "5 ms"}])
        case _:
            key = rng.choice(list(keys))
            table[key] = copy.deepcopy(rng.choice(keys[key]))


def small(rng: random.Random) -> dict[str, Any]:
    """A link with a flow and perhaps a change."""
    link = copy.deepcopy(rng.choice(BASES))
    changes = {"changes": [dict(rng.choice(CHANGES))]} if rng.random() < 0.3 else {}
    links = {"links": [link]} if rng.random() < 0.2 else {"link": link}
    quic = {"quic": copy.deepcopy(rng.choice(ROOT["quic"][:-1]))} if rng.random() < 0.3 else {}
    return {"duration": "10 s", "flows": [copy.deepcopy(rng.choice(FLOWS))], **quic, **links, **changes}


@cache
def shipped() -> list[dict[str, Any]]:
    """Shipped scenarios, without the tables that the crate does not read."""
    files = [path for path in paths.shipped().values() if path.is_relative_to(paths.FOLDER)]
    made = [tomllib.loads(path.read_text(encoding="utf-8")) for path in files]
    return [data for data in made if not data.keys() & {"sweep", "search", "plots"}]


def drawn(rng: random.Random) -> dict[str, Any]:
    """A random scenario, without recordings, which only Python reads."""
    data: dict[str, Any] = import_module("random_scenarios").scenario(rng.randrange(10**6))
    for link in data["links"]:
        for side in (link, link.get("reverse", {})):
            for key in (*timed.KEYS, "trace_repeats"):
                if side.pop(key, None) is not None and key == "rate_trace":
                    side["rate"] = "5 Mbit/s"
    return data


def tables(data: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, list[Any]]]]:
    """The tables that may be mutated, each with what may fit its keys."""
    lists = [value if isinstance(value, list) else [value] for value in (data.get("link", []), data.get("links", []))]
    links = [link for each in lists for link in each if isinstance(link, dict)]
    sides = [link["reverse"] for link in links if isinstance(link.get("reverse"), dict)]
    slots = [side["slot"] for side in links + sides if isinstance(side.get("slot"), dict)]
    flows, changes = (data[key] if isinstance(data.get(key), list) else [] for key in ("flows", "changes"))
    slot: dict[str, list[Any]] = {"min": TIMES, "max": TIMES, "packets": [0, 1, 32], "bytes": SIZES}
    found = [*((link, FITTING) for link in links * 2 + sides), *((each, slot) for each in slots), (data, ROOT)]
    probes = data["probes"] if isinstance(data.get("probes"), list) else []
    found += [(probe, PROBE_KEYS) for probe in probes * 2 if isinstance(probe, dict)]
    if isinstance(data.get("tcp"), dict):
        found += [(data["tcp"], TCP)] * 2
    if isinstance(data.get("quic"), dict):
        found += [(data["quic"], QUIC)] * 2
    carried = [flow.get("traffic") for flow in flows if isinstance(flow, dict)]
    found += [(table, TRAFFIC) for table in carried * 3 if isinstance(table, dict)]
    sizes = [table.get("size") for table in carried if isinstance(table, dict)]
    found += [(size, SIZE) for size in sizes * 2 if isinstance(size, dict)]
    found += [(flow, keys) for flow in flows if isinstance(flow, dict) for keys in (FLOW_KEYS, SENT_KEYS)]
    return found + [(change, CHANGE_KEYS) for change in changes * 2 if isinstance(change, dict)]


def misspelt(rng: random.Random, value: str) -> str:
    """Text with a character more, less or another."""
    at, odd = rng.randrange(len(value) + 1), rng.choice(ODD)
    return value[:at] + rng.choice(["", odd, odd, odd * 70]) + value[at + rng.choice([0, 1]) :]


def misspell(rng: random.Random, table: dict[str, Any]) -> None:
    """Changes a character of a key, or of the text that it has."""
    key = rng.choice(list(table))
    inner = table[key]
    if isinstance(inner, dict) and inner and rng.random() < 0.7:
        misspell(rng, inner)
    elif isinstance(inner, str) and rng.random() < 0.7:
        table[key] = misspelt(rng, inner)
    else:
        table[misspelt(rng, key)] = table.pop(key)


#: Sources of scenarios.
ALL = (small, lambda rng: rng.choice(shipped()), drawn)


def text(rng: random.Random, sources: Sequence[Callable[[random.Random], dict[str, Any]]] = ALL) -> str:
    """The text of a mutated scenario."""
    data = copy.deepcopy(rng.choice(sources)(rng))
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        table, fitting = rng.choice(tables(data))
        if table and rng.random() < 0.15:
            misspell(rng, table)
        else:
            mutate(rng, table, fitting)
    return written(data)


def written(data: dict[str, Any]) -> str:
    """Plain data as a file has it: tables, and in them inline tables."""
    heads, bodies = [], []
    for key, value in data.items():
        name = quoted(key)
        if isinstance(value, dict):
            bodies.append((f"[{name}]", value))
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            bodies += [(f"[[{name}]]", each) for each in value]
        else:
            heads.append(f"{name} = {toml(value)}")
    parts = ["\n".join([name, *(f"{quoted(key)} = {toml(value)}" for key, value in of.items())]) for name, of in bodies]
    return "\n\n".join(["\n".join(heads), *parts]) + "\n"


def quoted(key: str) -> str:
    """A key as TOML writes it."""
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else toml(key)


def said(told: str, folder: Path) -> dict[str, Any]:
    """The answer of Python's reader to a text, which it puts into ``folder`` where it has an error."""
    try:
        spec = from_toml(told).specification
    except (ScenarioError, Refused) as error:
        file = folder / "lab.toml"
        file.write_text(told, encoding="utf-8")
        placed = ScenarioError(str(file), error.key, error.found, error.accepted)
        known = UNKNOWN if error.found == "unknown key" and ".traffic." not in error.key else OURS
        of_flow = TOGETHER if isinstance(error, Refused) else SENT
        if error.key and of_flow.match(placed.key):
            return {"text": told, "sent": str(placed).removeprefix(f"{file}:").lstrip()}
        # The crate reads networks without duration and flows, too.
        silent = error.found == "it is missing" and error.key in ("duration", "flows")
        if silent or (error.key and not known.match(placed.key)):
            return {"text": told, "outside": error.key}
        return {"text": told, "error": str(placed).removeprefix(f"{file}:").lstrip()}
    ways = [[flow[key] for key in ("label", "rtt", "path", "reverse", "dscp")] for flow in spec["flows"]]
    # Probes are flows behind the others.
    number = len(spec["flows"]) - sum(flow.get("traffic", {}).get("kind") == "probe" for flow in spec["flows"])
    kept, probes = ways[:number], spec["flows"][number:]
    return {
        "text": told,
        "links": brief(spec["links"]),
        "changes": spec["changes"],
        "paths": kept,
        "flows": spec["flows"][:number],
        "probes": probes,
    } | {key: spec[key] for key in ("seed", "duration", "warmup", "interval", "tcp", "quic")}


def brief(value: Any) -> Any:
    """Plain data without keys that are null, zero, false or empty."""
    if isinstance(value, list):
        return [brief(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {key: brief(inner) if key not in ("params", "queue_params") else inner for key, inner in value.items()}
    return {
        key: inner
        for key, inner in kept.items()
        if (inner is not None and inner not in (0, False, {}, "ethernet")) or key == "overhead"
    }


if __name__ == "__main__":
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    root = Path(__file__).resolve().parents[1]
    sys.path.insert(0, str(root / "tests"))
    os.environ["KNEE_TRACES"] = str(paths.FOLDER)
    numbers = random.Random(seed)
    sources = [small] if sys.argv[3:] == ["small"] else ALL
    with tempfile.TemporaryDirectory() as here:
        for _ in range(count):
            print(json.dumps(said(text(numbers, sources), Path(here)), ensure_ascii=False, separators=(",", ":")))
