"""The rules of BBR's draft that an implementation breaks, and what breaking each was seen to cost.

``bbr-rules.toml`` has what breaking each rule costs on the networks of the suite bbr. ``scripts/rule_costs.py``
measured it with mutants of knee's BBRv3.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from knee.figures.register import RUN
from knee.system.text import decapitalised
from knee.view.numbers import decimals_for, fixed

#: Costs that a sentence lists.
_MOST = 4


@dataclass(frozen=True)
class Cost:
    """The measured cost of breaking a rule, on one network.

    Attributes:
        network: the scenario.
        figure: the figure.
        kept: the figure of knee's BBRv3.
        broken: that of a mutant that breaks the rule.
        part: the part that is lost, up to 1.
    """

    network: str
    figure: str
    kept: float
    broken: float
    part: float


@dataclass(frozen=True)
class BrokenRule:
    """A rule that is broken.

    Attributes:
        vector: the vector that shows it.
        level: MUST or SHOULD.
        source: the text, section and function.
        rule: the rule.
        found: what is off, in a sentence.
        change: what the mutant does.
        here: what it cost where the candidate is behind, the greatest part first.
        elsewhere: what it cost on other networks.
    """

    vector: str
    level: str
    source: str
    rule: str
    found: str
    change: str
    here: list[Cost]
    elsewhere: list[Cost]

    @property
    def rank(self) -> tuple[float, float]:
        """The parts that it cost where the candidate is behind, and elsewhere; the greatest of each."""
        return max((cost.part for cost in self.here), default=0), max((cost.part for cost in self.elsewhere), default=0)


@dataclass(frozen=True)
class Explanation:
    """Why a candidate is behind.

    Attributes:
        behind: the scenarios with a figure that does not pass.
        rules: the rules that it breaks, worst first.
        passed: vectors that pass, of ``played``.
        played: all vectors.
        unjudged: vectors that are not judged, by the reason in a word.
        reason: why nothing was played; empty if it was.
    """

    behind: list[str]
    rules: list[BrokenRule] = field(default_factory=list)
    passed: int = 0
    played: int = 0
    unjudged: dict[str, int] = field(default_factory=dict)
    reason: str = ""


@cache
def known_costs() -> dict[str, tuple[str, list[Cost]]]:
    """By vector: what its mutant does, and what that costs."""
    rules = tomllib.loads(Path(__file__).with_name("bbr-rules.toml").read_text())["rule"]
    return {rule["vector"]: (rule["change"], [Cost(**cost) for cost in rule["costs"]]) for rule in rules}


def _seen(cost: Cost) -> str:
    """A cost in words."""
    known = RUN[cost.figure]
    part = known.quantity == "part"
    values = [100 * value if part else value for value in (cost.kept, cost.broken)]
    unit = "%" if part else known.unit
    kept, broken = (fixed(value, min(decimals_for([value], 3), 4)) for value in values)
    return f"{cost.network}, {decapitalised(known.title)} {broken} {unit} for {kept}"


def costs_of(rule: BrokenRule) -> list[str]:
    """The measured costs of breaking a rule, in a sentence or two."""
    if not rule.change:
        return ["No mutant has measured what it costs."]
    said = []
    for costs, where in ((rule.here, "where this one is behind"), (rule.elsewhere, "elsewhere")):
        if costs:
            rest = f"; {len(costs) - _MOST} more" if len(costs) > _MOST else ""
            said.append(f"Seen to cost {where}: {'; '.join(map(_seen, costs[:_MOST]))}{rest}.")
    return said or ["Seen to cost nothing on these networks."]


def summary(explained: Explanation) -> str:
    """A sentence or two on the vectors that were played."""
    if explained.reason:
        return explained.reason
    names = {"not-reached": "not reached", "not-shown": "not shown", "not-told": "not told", "after": "not judged"}
    rest = "".join(f", {count} {names[key]}" for key, count in explained.unjudged.items())
    broken = f"{len(explained.rules)} {'rule is' if len(explained.rules) == 1 else 'rules are'} broken"
    head = f"{explained.passed} of {explained.played} vectors pass, {broken}{rest}."
    if explained.rules:
        return head
    return f"{head} The cause is no rule that a vector shows: look at loss detection, transport and the sender."
