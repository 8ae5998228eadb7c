"""Why an implementation of BBR is worse: its conformance vectors are played (:mod:`knee.evaluate.rules`)."""

from __future__ import annotations

import json
from typing import Any

from knee import _core
from knee.errors import KneeError
from knee.evaluate.criteria import PLACE
from knee.evaluate.outcome import Evaluation
from knee.evaluate.rules import BrokenRule, Explanation, known_costs
from knee.evaluate.subject import Subject
from knee.evaluate.verdict import CriterionVerdict
from knee.judging.vectors import detail, is_broken
from knee.own import CongestionControl, Named
from knee.scenario import from_dict, registry
from knee.scenario.declared import with_values

#: The suite that can be explained, and the algorithm whose vectors are played.
SUITE = ALGORITHM = "bbr"
#: Verdicts that need an explanation.
_BEHIND = (CriterionVerdict.WORSE, CriterionVerdict.LOOK, CriterionVerdict.DOES_NOT_RUN)


def explain(done: Evaluation, one: Subject) -> Explanation:
    """Plays the vectors of a candidate that is behind somewhere."""
    checks = [check for found in done.criteria for check in found.checks]
    behind = list(dict.fromkeys(check.scenario for check in checks if check.verdict in _BEHIND))
    if not behind:
        return Explanation(behind, reason=f"{one.name} is behind on no network: there is nothing to explain.")
    try:
        report = _played(one)
    except KneeError as error:
        return Explanation(behind, reason=str(error))
    vectors = report["vectors"]
    rules = [_rule(vector, set(behind)) for vector in vectors if is_broken(vector)]
    unjudged: dict[str, int] = {}
    for vector in vectors:
        if vector["verdict"] not in ("pass", "fail", "broke", "departs"):
            unjudged[vector["verdict"]] = unjudged.get(vector["verdict"], 0) + 1
    passed = sum(vector["verdict"] == "pass" for vector in vectors)
    # The order of the file decides between rules that cost the same.
    rules.sort(key=lambda rule: rule.rank, reverse=True)
    return Explanation(behind, rules, passed, len(vectors), unjudged)


def _rule(vector: dict[str, Any], behind: set[str]) -> BrokenRule:
    change, costs = known_costs().get(vector["vector"], ("", []))
    return BrokenRule(
        *(vector[key] for key in ("vector", "level", "source", "rule")),
        found=detail(vector),
        change=change,
        here=[cost for cost in costs if cost.network in behind],
        elsewhere=[cost for cost in costs if cost.network not in behind],
    )


def _played(one: Subject) -> dict[str, Any]:
    """The report of a candidate's vectors.

    Raises:
        KneeError: it cannot be played, or raised.
    """
    if one.is_program or one.is_video:
        raise KneeError(
            f"{one.name} is no congestion control that vectors can call; play those of the program that implements "
            f"it by knee conform {ALGORITHM} -- PROGRAM (docs/conformance.md)."
        )
    # A scenario resolves names, files and parameters.
    scenario = from_dict(
        one.placed({"duration": "1 s", "link": {"rate": "1 Mbit/s"}, "flows": [{"cc": PLACE, "rtt": "10 ms"}]}),
        where="a flow of its own",
    )
    flow = scenario.flows[0]
    if isinstance(flow.cc, Named):
        if not issubclass(flow.cc.of, CongestionControl):
            raise KneeError(f"{one.name} runs in a kernel, where vectors cannot call it.")
        try:
            return dict(json.loads(_core.conform(ALGORITHM, None, (one.name, with_values(flow.cc.of, flow.cc_params)))))
        except Exception as error:
            raise KneeError(f"{one.name} raised {type(error).__name__}: {error}.") from error
    params = json.dumps(registry.flow_controls()[flow.cc].tagged(flow.cc_params))
    return dict(json.loads(_core.conform(ALGORITHM, None, None, (flow.cc, params))))
