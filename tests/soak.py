"""Random scenarios with every feature, run twice each: the same bits, no impossible figure, no growth of memory.

::

    make soak N=10000                                      # or: python tests/soak.py 10000
    python tests/soak.py --first 4711 1 --keep failures    # one that failed, again

A scenario that fails is written to the folder of ``--keep`` as a file that ``knee run`` takes. Those that led to a mend
lie in ``tests/regressions``, which ``test_physics.py`` runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

from tomli_w import dumps

import knee
from knee import physics, registry
from knee.result import Result
from knee.scenario import from_dict

#: Where scenarios find the shipped trace.
os.environ.setdefault("KNEE_TRACES", str(Path(knee.__file__).parent / "scenarios"))
#: Memory is compared between here and the end: what is loaded and cached once is there by then.
WARM = 500
#: A run that takes longer than this, in s of the thread's own time, works more than so short a scenario may ask for.
MOST_WORK_S = 30.0


class TooMuchWorkError(Exception):
    """A short scenario that keeps the simulator busy."""


def scenario(number: int) -> dict[str, Any]:
    """Random scenario ``number``, as plain data: up to 3 s, 3 links and 12 flows."""
    dice = random.Random(number)
    duration_ms = dice.choice([300, 500, 1000, 1000, 2000, 3000])
    links = [_link(dice, f"link{i}") for i in range(dice.choice([1, 1, 1, 2, 3]))]
    flows = [_flow(dice, links, duration_ms) for _ in range(dice.choice([1, 1, 2, 2, 3, 4]))]
    made: dict[str, Any] = {
        "name": f"soak-{number}",
        "duration": f"{duration_ms} ms",
        "seed": dice.randrange(1, 1000),
        "interval": dice.choice(["100 ms", "100 ms", "10 ms", "37 ms", "1 s"]),
        "links": links,
        "flows": flows,
    }
    if dice.random() < 0.4:
        made["warmup"] = f"{dice.choice([1, duration_ms // 3, duration_ms // 2, duration_ms - 5])} ms"
    if dice.random() < 0.4:
        made["changes"] = [_change(dice, links, flows, duration_ms) for _ in range(dice.randrange(1, 4))]
        made["changes"].sort(key=lambda change: int(change["at"].split()[0]))
    return made


#: Not the classes of other tests in the same process, which follow those in the registry.
_BUILT_IN = [name for name, entry in registry.congestion_controls().items() if entry.family != "own"]


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


def _queueing(dice: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"queue": dice.choice(list(registry.queues())), "limit": _limit(dice)}
    if dice.random() < 0.12:
        return made | {"trace": "lte-walk.trace"}
    return made | {"rate": _rate(dice)}


def _link(dice: random.Random, name: str) -> dict[str, Any]:
    made = _queueing(dice) | {"name": name}
    if dice.random() < 0.3:
        made["loss"] = round(10 ** dice.uniform(-4, -1), 5)
    if dice.random() < 0.3:
        made["jitter"] = f"{dice.randrange(1, 5000)} us"
        made["reorder"] = dice.random() < 0.5
    if dice.random() < 0.3:
        made["delay"] = f"{dice.randrange(1, 3000)} us"
    if dice.random() < 0.2 and "rate" in made:
        made["burst"] = f"{dice.choice([1600, 5000, 50_000, 500_000])} B"
    if dice.random() < 0.2:
        made["overhead"] = f"{dice.choice([0, 38, 100])} B"
    if dice.random() < 0.3:
        made["reverse"] = _queueing(dice)
    return made


def _flow(dice: random.Random, links: list[dict[str, Any]], duration_ms: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "cc": dice.choice(_BUILT_IN),
        "rtt": f"{int(10 ** dice.uniform(1, 2.2)) + 10} ms",
        "pacing": dice.choice(["auto", "auto", "on"]),
    }
    if dice.random() < 0.3:
        made["ecn"] = "l4s" if made["cc"] == "prague" else dice.choice([True, "accurate", "l4s"])
    if dice.random() < 0.5:
        made["start"] = f"{dice.randrange(0, duration_ms // 2)} ms"
    if dice.random() < 0.25:
        made["bytes"] = f"{int(10 ** dice.uniform(0, 6))} B"
    if dice.random() < 0.25:
        made |= {"count": dice.randrange(2, 5), "stagger": f"{dice.randrange(0, duration_ms // 8)} ms"}
    if dice.random() < 0.2:
        made["lasts"] = f"{dice.randrange(1, duration_ms)} ms"
    if len(links) > 1 and dice.random() < 0.5:
        first = dice.randrange(len(links))
        made["path"] = [link["name"] for link in links[first : dice.randrange(first, len(links)) + 1]]
    crossed = [link for link in links if link["name"] in made.get("path", [link["name"]])]
    if all("reverse" in link for link in crossed) and dice.random() < 0.5:
        made["direction"] = "reverse"
    if (
        made["pacing"] == "auto"
        and made["cc"] not in ("dctcp", "prague")
        and made.get("ecn") in (None, True)
        and dice.random() < 0.15
    ):
        made["transport"] = "quic"
    return made


def _change(
    dice: random.Random, links: list[dict[str, Any]], flows: list[dict[str, Any]], duration_ms: int
) -> dict[str, Any]:
    at, link = {"at": f"{dice.randrange(1, duration_ms)} ms"}, dice.choice(links)
    what = dice.choice(["rate", "loss", "limit", "rtt"])
    if what == "rtt" and len(flows) == 1 and "count" not in flows[0]:
        flows[0]["label"] = "changed"
        return at | {"flow": "changed", "rtt": f"{dice.randrange(10, 100)} ms"}
    if what == "loss":
        return at | {"link": link["name"], "loss": round(dice.uniform(0, 0.1), 4)}
    if what == "limit" or "rate" not in link:
        return at | {"link": link["name"], "limit": _limit(dice)}
    return at | {"link": link["name"], "rate": _rate(dice)}


def run(data: dict[str, Any]) -> Result:
    """Runs a scenario; too long a run ends with :class:`TooMuchWorkError`."""
    begin = time.process_time()

    def look(_: float) -> None:
        if time.process_time() - begin > MOST_WORK_S:
            raise TooMuchWorkError(f"more than {MOST_WORK_S:.0f} s of work")

    return knee.run(data, progress=look)


def trouble(data: dict[str, Any]) -> list[str]:
    """What is wrong with a scenario's results; nothing where all is well."""
    try:
        first, second = run(data), run(data)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    found = [str(breach) for breach in physics.breaches(first)]
    figures = [json.dumps(result.summary | {"wall_s": 0}, sort_keys=True) for result in (first, second)]
    if figures[0] != figures[1]:
        found.append("two runs gave two summaries")
    found += [
        f"two runs gave two {name}"
        for name in ("samples", "links", "events")
        if not getattr(first, name).equals(getattr(second, name))
    ]
    return found


def memory_mib() -> float:
    """Memory that this process holds now, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> int:
    """Runs the soak; 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=1000, help="how many scenarios")
    parser.add_argument("--first", type=int, default=1, help="the number of the first")
    parser.add_argument("--keep", type=Path, default=Path("soak-failures"), help="where those that fail are written")
    told = parser.parse_args()
    begin, failed, warm = time.process_time(), 0, memory_mib()
    for done in range(1, told.count + 1):
        data = scenario(told.first + done - 1)
        for what in (found := trouble(data)):
            print(f"{data['name']}: {what}", flush=True)
        if found:
            failed += 1
            told.keep.mkdir(parents=True, exist_ok=True)
            (told.keep / f"{data['name']}.toml").write_text(dumps(from_dict(data).plain()), encoding="utf-8")
        if done == WARM:
            warm = memory_mib()
        if done % 100 == 0:
            took = time.process_time() - begin
            print(
                f"{done} scenarios, {failed} failed, {took:.0f} s of processor time, {memory_mib():.0f} MiB", flush=True
            )
    took = time.process_time() - begin
    print(
        f"{told.count} scenarios twice each, {failed} failed, {took:.0f} s of processor time; "
        f"memory {warm:.0f} MiB after {min(WARM, told.count)}, {memory_mib():.0f} MiB at the end"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
