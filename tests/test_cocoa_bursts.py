"""cocoa where an application pauses: pauses and slow starts enlarge the buffer, unless ``max_idle`` is set."""

from __future__ import annotations

from typing import Any

import pytest

import knee
from knee.errors import Refused
from knee.kernel import options


def _scenario(**params: Any) -> dict[str, Any]:
    traffic = {"kind": "bursts", "burst": "6 MB", "period": "2 s"}
    return {
        "duration": "60 s",
        "warmup": "10 s",
        "link": {"rate": "50 Mbit/s", "queue": "cocoa", "queue_params": params},
        "flows": [{"cc": "cubic", "rtt": "20 ms", "traffic": traffic}],
    }


def test_pauses_enlarge_the_buffer_until_one_of_100_ms_is_the_applications() -> None:
    # The buffer begins with 100 packets, 24 ms; a burst is over before a guard interval could shorten it.
    cured = {"max_idle": "100 ms"}
    for params, least, most in (({}, 80, 100), (cured, 20, 24.5), (cured | {"flow_limit": 60}, 10, 15)):
        result = knee.run(_scenario(**params)).summary
        assert least < result["links"][0]["queue_delay_p99_ms"] < most, params
        assert result["flows"][0]["transfers"]["completed"] == 25


def test_the_kernels_cocoa_does_not_have_it() -> None:
    assert "max_idle" not in options.parameters()
    assert options.attributes({"max_idle": 0, "flow_limit": 7}) == [("TCA_COCOA_FLOW_LIMIT", 7)]
    with pytest.raises(Refused, match="only the simulator has this option"):
        options.attributes({"max_idle": 1})
