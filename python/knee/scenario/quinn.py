"""Warns of what quinn's own controllers do that their names do not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knee.scenario.model import Scenario

_UNPACED_BBR = (
    "quinn does not follow the pacing rate of its BBR, so quinn:bbr keeps two BDPs in the network and leaves other "
    "flows little; cc_params = { paced = true } makes it follow."
)


def warnings(scenario: Scenario) -> list[str]:
    """A sentence where quinn's BBR runs beside other flows."""
    unpaced = any(flow.cc == "quinn:bbr" and not flow.cc_params["paced"] for flow in scenario.flows)
    return [_UNPACED_BBR] if unpaced and len(scenario.labels) > 1 else []
