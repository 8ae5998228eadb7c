"""What is to be said of a scenario that runs and may not mean what its author thinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knee.scenario import l4s, long_paths, media, offered, quinn

if TYPE_CHECKING:
    from knee.scenario.model import Scenario


def remarks(scenario: Scenario) -> list[str]:
    """A sentence each."""
    checks = (l4s, quinn, offered, media, long_paths)
    return [sentence for check in checks for sentence in check.warnings(scenario)]
