"""A process that runs networks for the one that scores: one order a line, one answer a line, both in JSON.

It stays on one processor, and so do the processes of candidates that it forks: of an engine and a class that wait for
each other, only one has something to do at a time, and a change on the same processor is the cheapest.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import IO, Any

from knee.errors import KneeError, in_a_line
from knee.grounds import sim
from knee.own import CongestionControl
from knee.scenario import from_dict
from knee.score.session import FailedError, Limits, Nursery, Session, proxy
from knee.system.text import JsonTable

#: Who is judged, in a network's flows.
PLACE = "X"


def main() -> None:
    """Works until the orders end."""
    orders = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    _work(orders, answers)


def _work(orders: IO[str], answers: IO[str]) -> None:
    told = json.loads(orders.readline())
    if told["processor"] is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {told["processor"]})
    nurseries: dict[tuple[Limits, bool], Nursery] = {}
    for line in orders:
        order = json.loads(line)
        try:
            answer = _done(order, nurseries)
        except FailedError as error:
            answer = {"failed": error.told}
        except KneeError as error:
            answer = {"failed": {"kind": "engine", "said": str(error), "lines": [], "printed": ""}}
        print(json.dumps(answer), file=answers, flush=True)
    for nursery in nurseries.values():
        nursery.close()


def _done(order: JsonTable, nurseries: dict[tuple[Limits, bool], Nursery]) -> JsonTable:
    if "cc" in order:
        return {"summary": _native(json.dumps(order["network"]), order["cc"])}
    limits = Limits(**order["limits"])
    key = limits, order["confined"]
    if key not in nurseries:
        nurseries[key] = Nursery(*key)
    if nurseries[key].cannot:
        raise FailedError("confine", nurseries[key].cannot)
    with Session(nurseries[key], order["candidate"], limits) as session:
        if "network" not in order:
            return {"about": session.describe()}
        return {"summary": _judged(session, order)}


def _judged(session: Session, order: JsonTable) -> JsonTable:
    """The figures of a network with a candidate in it."""
    own = proxy(session, order["about"])
    try:
        return _run(order["network"], own, session)
    except (FailedError, KneeError, MemoryError):
        raise
    except Exception as error:
        # The core found in control what no sender takes.
        raise FailedError("answer", in_a_line(error).removeprefix("ValueError: ")) from None


@cache
def _native(network: str, cc: str) -> JsonTable:
    """The figures of a network with a registered algorithm in it; an empty name leaves its flows out."""
    return _run(json.loads(network), cc, None)


def _run(network: dict[str, Any], cc: str | type[CongestionControl], session: Session | None) -> JsonTable:
    placed = [{**flow, "cc": cc} if flow["cc"] == PLACE else flow for flow in network["flows"]]
    scenario = from_dict({**network, "flows": [flow for flow in placed if flow["cc"]]}, where="network")
    raw = sim.simulate(scenario, None if session is None else session.look)
    return dict(sim.measured(scenario, raw).summary(sim.Sim.name))


if __name__ == "__main__":
    main()
