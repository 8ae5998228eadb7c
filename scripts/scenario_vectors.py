"""Writes what Python's reader says of mutated links and changes, which the crate knee-scenario has to say too.

``python scripts/scenario_vectors.py COUNT SEED > crates/knee-scenario/tests/vectors.jsonl``: a line each, with the text
of a scenario and the error, or the core's links and changes without what is null, zero, false or empty.
"""

from __future__ import annotations

import json
import random
import sys
import tomllib
from typing import Any

from knee.errors import Refused, ScenarioError
from knee.scenario import registry
from knee.scenario.loading import as_written, from_toml

#: Around the links: a run of 10 s with one flow.
FRAME = 'duration = "10 s"\n\n[[flows]]\ncc = "reno"\nrtt = "100 ms"\n'
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
    "name": ["bottleneck", "access", "a b", "x" * 101, "é"],
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
        return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
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


def mutate(rng: random.Random, table: dict[str, Any], keys: dict[str, list[Any]]) -> None:
    """Changes a table in one place."""
    match rng.randrange(10):
        case 0 if table:
            del table[rng.choice(list(table))]
        case 1:
            table[rng.choice(list(keys))] = rng.choice(PLAIN)
        case 2:
            key = rng.choice(list(keys))
            table[key[: rng.randrange(1, len(key) + 1)] + rng.choice(["", "s", "_x"])] = rng.choice(PLAIN)
        case 3 | 4 | 5 if "rate" in table and keys is FITTING:
            key, (of, part, default) = rng.choice(list(PARAMS.items()))
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
            table[key] = rng.choice(keys[key])


def text(rng: random.Random) -> str:
    """The text of a mutated scenario."""
    link = json.loads(json.dumps(rng.choice(BASES)))
    changes = [json.loads(json.dumps(rng.choice(CHANGES)))] if rng.random() < 0.3 else []
    for _ in range(rng.choice([1, 1, 2, 3])):
        if changes and rng.random() < 0.5:
            mutate(rng, changes[0], CHANGE_KEYS)
        else:
            side = link.get("reverse") if rng.random() < 0.2 else None
            mutate(rng, side if isinstance(side, dict) else link, FITTING)
    head = "[[links]]" if rng.random() < 0.2 else "[link]"
    tables = [(head, link), *(("[[changes]]", change) for change in changes)]
    written = ["\n".join([name, *(f"{key} = {toml(value)}" for key, value in table.items())]) for name, table in tables]
    return "\n\n".join([FRAME, *written]) + "\n"


def said(told: str) -> dict[str, Any]:
    """What Python's reader says of a text."""
    try:
        spec = from_toml(told).specification
    except ScenarioError as error:
        return {"text": told, "error": str(error).removeprefix("scenario: ")}
    except Refused as refused:
        key = as_written(refused.key, tomllib.loads(told))
        return {"text": told, "error": f"{key}: {refused.found}; {refused.accepted}."}
    return {"text": told, "links": brief(spec["links"]), "changes": spec["changes"]}


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
    numbers = random.Random(seed)
    for _ in range(count):
        print(json.dumps(said(text(numbers)), ensure_ascii=False, separators=(",", ":")))
