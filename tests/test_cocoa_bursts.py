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
    # With max_idle a pause ends a guard interval. The buffer begins with 100 packets, 24 ms, and shrinks to 8 to 11 ms.
    for params, least, most in (({}, 80, 100), ({"max_idle": "100 ms"}, 8, 15)):
        result = knee.run(_scenario(**params)).summary
        assert least < result["links"][0]["queue_delay_p99_ms"] < most, params
        transfers = result["flows"][0]["transfers"]
        assert transfers["completed"] == 25
        assert transfers["time_p50_ms"] < 1080, "fq's are 1069 ms"


def test_an_endless_flow_has_no_pause() -> None:
    def figures(**params: Any) -> dict[str, Any]:
        one = {"duration": "20 s", "link": {"rate": "100 Mbit/s", "queue": "cocoa", "queue_params": params}}
        summary = knee.run({**one, "flows": [{"cc": "cubic", "rtt": "50 ms"}]}).summary
        return {"flows": summary["flows"], "links": summary["links"]}

    assert figures(max_idle="100 ms") == figures()


def test_the_kernels_cocoa_does_not_have_it() -> None:
    assert "max_idle" not in options.parameters()
    assert options.attributes({"max_idle": 0, "flow_limit": 7}) == [("TCA_COCOA_FLOW_LIMIT", 7)]
    with pytest.raises(Refused, match="only the simulator has this option"):
        options.attributes({"max_idle": 1})
