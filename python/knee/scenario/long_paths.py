"""Warns of BBR over round trips that are long for its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knee.scenario.units import format_time

if TYPE_CHECKING:
    from knee.scenario.model import Flow, Scenario

#: How often an algorithm visits probe_rtt, and what else has to grow with that.
_CLOCKS = {"bbr": ("min_rtt_win",), "bbr3": ("probe_rtt_interval", "min_rtt_filter_len")}
#: Each visit takes two round trips: one until the packets in flight have left, one to see that they have.
_ROUND_TRIPS = 2


def warnings(scenario: Scenario) -> list[str]:
    """A sentence for each flow that would spend half of its time or more in probe_rtt, with what to set."""
    return [_sentence(flow) for flow in scenario.flows if flow.cc in _CLOCKS and _is_long(flow)]


def _is_long(flow: Flow) -> bool:
    if flow.cc == "bbr" and flow.cc_params["probe_rtt_mode"] == 0:
        return False
    return _ROUND_TRIPS * flow.rtt >= int(flow.cc_params[_CLOCKS[flow.cc][0]])


def _sentence(flow: Flow) -> str:
    clocks = _CLOCKS[flow.cc]
    every = format_time(int(flow.cc_params[clocks[0]]))
    settings = ", ".join(f'{name} = "{format_time(10 * (k + 1) * flow.rtt)}"' for k, name in enumerate(clocks))
    return (
        f"{flow.label}: {flow.cc} enters probe_rtt every {every} ({clocks[0]}) and stays there for two round trips, "
        f"{format_time(_ROUND_TRIPS * flow.rtt)}, so that it sends little, as it does on Linux; for a long path set "
        f"cc_params = {{ {settings} }}"
    )
