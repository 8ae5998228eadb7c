"""Scenarios: what a TOML file says, checked, with every default filled in."""

from knee.scenario.loading import from_dict, from_toml, load
from knee.scenario.model import Change, Flow, Link, Reverse, Run, Scenario, Tcp

__all__ = ["Change", "Flow", "Link", "Reverse", "Run", "Scenario", "Tcp", "from_dict", "from_toml", "load"]
