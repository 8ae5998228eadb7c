from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def scenario() -> Callable[..., dict[str, Any]]:
    """Plain data of a small valid scenario: two Reno flows on 10 Mbit/s for 3 s, with some keys changed."""

    def make(**changed: Any) -> dict[str, Any]:
        link = {"rate": "10 Mbit/s", "limit": "50 packets"}
        flows = [{"cc": "reno", "rtt": "20 ms"}, {"cc": "reno", "rtt": "20 ms", "start": "0.5 s"}]
        return {"duration": "3 s", "link": link, "flows": flows} | changed

    return make
