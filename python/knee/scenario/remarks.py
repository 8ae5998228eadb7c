"""What is to be said of a scenario that runs and may not mean what its author thinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knee.scenario import l4s, media, offered, quinn

if TYPE_CHECKING:
    from knee.scenario.model import Scenario


def remarks(scenario: Scenario) -> list[str]:
    """A sentence each."""
    return [*l4s.warnings(scenario), *quinn.warnings(scenario), *offered.warnings(scenario), *media.warnings(scenario)]
